#include "isa/validator.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "isa/target.h"
#include "isa/validator_internal.h"

namespace neuron::isa {
namespace validation {

std::string to_text(Wide value) {
  if (value < 0) return "-" + to_text(-value);
  const std::string last(1, static_cast<char>('0' + static_cast<int>(value % 10)));
  return value < 10 ? last : to_text(value / 10) + last;
}

Status violation(const Place& place, std::string_view id, const std::string& detail) {
  const Constraint* rule = find_constraint(id);
  const auto& instructions = place.program.instructions;
  std::string m(id);
  m += ": instruction " + std::to_string(place.instruction);
  if (place.instruction < instructions.size()) {
    const Instruction& i = instructions[place.instruction];
    m += " (" + std::string(name_of(i.opcode));
    if (i.label && i.label < place.program.labels.size()) m += " of " + place.program.labels[i.label];
    m += ")";
  }
  if (!detail.empty()) m += ": " + detail;
  if (rule) m += "; rule: " + std::string(rule->text);
  return invalid_argument(std::move(m));
}

namespace {

Status table_violation(std::string_view id, const std::string& detail) {
  const Constraint* rule = find_constraint(id);
  return invalid_argument(std::string(id) + ": " + detail + (rule ? "; rule: " + std::string(rule->text) : ""));
}

Status check_tensors(const Program& program) {
  std::unordered_set<std::string_view> names;
  if (program.tensors.size() > 16) names.reserve(program.tensors.size());
  for (size_t n = 0; n < program.tensors.size(); ++n) {
    const Tensor& t = program.tensors[n];
    const auto where = [&] { return "tensor " + std::to_string(n) + " (" + t.name + ")"; };
    if (static_cast<unsigned>(t.dtype) >= static_cast<unsigned>(kDTypeCount) || t.role > TensorRole::scratch) {
      return table_violation("program.6", where());
    }
    if (t.shape.size() != t.strides.size()) return table_violation("tensor.1", where());
    if (t.role == TensorRole::constant &&
        (t.constant_offset > program.constants.size() || t.bytes > program.constants.size() - t.constant_offset)) {
      return table_violation("tensor.2",
                             where() + " of " + std::to_string(t.bytes) + " bytes at " + std::to_string(t.constant_offset));
    }
    if (t.alias_of != -1 &&
        (t.role != TensorRole::output || t.alias_of < 0 || static_cast<size_t>(t.alias_of) >= program.tensors.size() ||
         program.tensors[t.alias_of].role != TensorRole::input)) {
      return table_violation("tensor.3", where() + ": alias of " + std::to_string(t.alias_of));
    }
    if (t.name.empty()) return table_violation("tensor.4", where());
    if (program.tensors.size() > 16) {  // a few names are compared faster than hashed
      if (!names.insert(t.name).second) return table_violation("tensor.4", where());
    } else {
      for (size_t m = 0; m < n; ++m) {
        if (program.tensors[m].name == t.name) return table_violation("tensor.4", where());
      }
    }
  }
  return {};
}

Status check_tiles(const Program& program, const Target& target) {
  for (size_t n = 0; n < program.tiles.size(); ++n) {
    const Tile& t = program.tiles[n];
    const auto where = [&] { return "tile " + std::to_string(n) + " (" + t.name + ")"; };
    if ((t.space != Space::sbuf && t.space != Space::psum) || t.partitions == 0 || t.partitions > target.partitions ||
        t.bytes_per_partition == 0 || t.buffers == 0) {
      return table_violation("tile.1", where());
    }
    const uint64_t capacity = t.space == Space::sbuf ? target.sbuf_bytes_per_partition : target.psum_bytes_per_partition();
    const uint64_t bytes = uint64_t{t.bytes_per_partition} * t.buffers;  // 32 x 32 bits: no overflow
    if (t.partition_start > target.partitions || t.partition_start + t.partitions > target.partitions || bytes > capacity ||
        t.byte_offset > capacity - bytes) {
      return table_violation("tile.2", where() + ": " + std::to_string(bytes) + " bytes at " +
                                           std::to_string(t.byte_offset) + " of " + std::to_string(capacity) + " in " +
                                           std::string(name_of(t.space)));
    }
    if (t.buffers > 1 && t.rotate_level >= kMaxLoops) return table_violation("tile.4", where());
  }
  return {};
}

// First and last step of a stream that uses a tile; first > last: never used.
struct Life {
  uint32_t first = UINT32_MAX, last = 0;
};

bool share_bytes(const Tile& a, const Tile& b) {
  const auto end = [](const Tile& t) { return t.byte_offset + uint64_t{t.bytes_per_partition} * t.buffers; };
  return a.space == b.space && a.byte_offset < end(b) && b.byte_offset < end(a) &&
         a.partition_start < b.partition_start + b.partitions && b.partition_start < a.partition_start + a.partitions;
}

// Sweep over the steps: the tiles alive at one step are disjoint, hence few; each new one is compared with those.
Status check_lives(const Program& program, const std::vector<Life>& lives) {
  std::vector<uint32_t> order, alive;
  order.reserve(lives.size());
  for (uint32_t t = 0; t < lives.size(); ++t) {
    if (lives[t].first <= lives[t].last) order.push_back(t);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return lives[a].first != lives[b].first ? lives[a].first < lives[b].first : a < b;
  });
  for (uint32_t t : order) {
    std::erase_if(alive, [&](uint32_t other) { return lives[other].last < lives[t].first; });
    for (uint32_t other : alive) {
      if (share_bytes(program.tiles[t], program.tiles[other])) {
        return table_violation("tile.3", "tiles " + std::to_string(other) + " (" + program.tiles[other].name + ") and " +
                                             std::to_string(t) + " (" + program.tiles[t].name +
                                             ") are in use together from step " + std::to_string(lives[t].first));
      }
    }
    alive.push_back(t);
  }
  return {};
}

struct Totals {
  std::vector<uint64_t> signals;  // per semaphore, saturating
  struct Need {
    Wide count = 0;
    uint32_t instruction = 0;
  };
  std::vector<Need> needs;
  std::vector<bool> executed;  // per instruction
};

uint64_t times_executed(const Place& place) {
  uint64_t n = 1;
  for (uint32_t l = 0; l < place.depth; ++l) {
    if (__builtin_mul_overflow(n, uint64_t{place.loops[l].trips}, &n)) return UINT64_MAX;
  }
  return n;
}

Status check_sync(const Place& place, Totals& totals) {
  const Instruction& i = place.program.instructions[place.instruction];
  const uint16_t count = place.program.semaphores;
  if (i.signal != kNoSemaphore) {
    if (i.signal >= count)
      return violation(place, "sync.1", "signals " + std::to_string(i.signal) + " of " + std::to_string(count));
    uint64_t& sum = totals.signals[i.signal];
    if (__builtin_add_overflow(sum, times_executed(place), &sum)) sum = UINT64_MAX;
  }
  for (const Wait& w : i.waits) {
    if (w.semaphore >= count)
      return violation(place, "sync.1", "waits for " + std::to_string(w.semaphore) + " of " + std::to_string(count));
    Wide low = w.base, high = w.base;
    for (int l = 0; l < kMaxLoops; ++l) {
      if (static_cast<uint32_t>(l) >= place.depth) {
        if (w.loop_step[l]) return violation(place, "instruction.9", "wait step at level " + std::to_string(l));
        continue;
      }
      const Wide reach = static_cast<Wide>(w.loop_step[l]) * (place.loops[l].trips - 1);
      (reach < 0 ? low : high) += reach;
    }
    if (low < INT64_MIN || high > INT64_MAX) return violation(place, "sync.2", "semaphore " + std::to_string(w.semaphore));
    Totals::Need& need = totals.needs[w.semaphore];
    if (high > need.count) need = {high, place.instruction};
  }
  return {};
}

void extend_lives(const Instruction& i, uint32_t step, std::vector<Life>& lives) {
  const auto use = [&](const Access& a) {
    if (a.space != Space::sbuf && a.space != Space::psum) return;
    Life& life = lives[a.object];
    life.first = std::min(life.first, step);
    life.last = step;
  };
  for (const Access* a : {&i.dst, &i.dst2, &i.src0, &i.src1, &i.src2, &i.index}) use(*a);
  for (const ScalarOperand* s : {&i.scalar0, &i.scalar1}) {
    if (s->kind == ScalarOperand::Kind::access) use(s->access);
  }
}

Status step_violation(std::string_view id, size_t stream, size_t step) {
  return table_violation(id, "stream " + std::to_string(stream) + ", step " + std::to_string(step));
}

Status check_stream(const Program& program, const Target& target, size_t number, Totals& totals) {
  const Stream& stream = program.streams[number];
  if (stream.steps.size() >= UINT32_MAX) return step_violation("stream.1", number, stream.steps.size());
  std::vector<Life> lives(program.tiles.size());
  Place place{program, target};
  std::array<uint32_t, kMaxLoops> open{};
  for (uint32_t s = 0; s < stream.steps.size(); ++s) {
    const Step& step = stream.steps[s];
    switch (step.kind) {
      case Step::Kind::loop: {
        const bool paired = step.match > s && step.match < stream.steps.size() &&
                            stream.steps[step.match].kind == Step::Kind::end && stream.steps[step.match].match == s;
        if (!paired || place.depth >= kMaxLoops) return step_violation("stream.1", number, s);
        if (step.value == 0) return step_violation("stream.2", number, s);
        if (step.loop_kind > LoopKind::sequential) return step_violation("program.6", number, s);
        open[place.depth] = s;
        place.loops[place.depth++] = {step.value, step.loop_kind};
        break;
      }
      case Step::Kind::end:
        if (place.depth == 0 || step.match != open[place.depth - 1] || stream.steps[step.match].match != s) {
          return step_violation("stream.1", number, s);
        }
        --place.depth;
        break;
      case Step::Kind::instruction:
        if (step.value >= program.instructions.size()) return step_violation("stream.3", number, s);
        place.instruction = step.value;
        NEURON_RETURN_IF_ERROR(check_instruction(place));
        NEURON_RETURN_IF_ERROR(check_sync(place, totals));
        extend_lives(program.instructions[step.value], s, lives);
        totals.executed[step.value] = true;
        break;
      default:
        return step_violation("program.6", number, s);
    }
  }
  if (place.depth != 0) return step_violation("stream.1", number, stream.steps.size());
  return check_lives(program, lives);
}

Status check_totals(const Program& program, const Target& target, const Totals& totals) {
  Place place{program, target};
  for (size_t s = 0; s < totals.needs.size(); ++s) {
    place.instruction = totals.needs[s].instruction;
    if (totals.needs[s].count > static_cast<Wide>(totals.signals[s])) {
      return violation(place, "sync.3",
                       "semaphore " + std::to_string(s) + " is signalled " + std::to_string(totals.signals[s]) + " times");
    }
  }
  for (uint32_t n = 0; n < totals.executed.size(); ++n) {
    place.instruction = n;
    if (!totals.executed[n]) return violation(place, "program.4", "");
  }
  return {};
}

}  // namespace
}  // namespace validation

Status validate(const Program& program) {
  using namespace validation;
  const Target* target = find_target(program.target);
  if (!target) {
    return table_violation("program.1", "target \"" + program.target + "\", known: " + std::string(target_names()));
  }
  if (program.streams.empty() || program.streams.size() > target->physical_cores) {
    return table_violation("program.2", std::to_string(program.streams.size()) + " streams");
  }
  if (program.numerics != "reference") return table_violation("program.3", "\"" + program.numerics + "\"");
  NEURON_RETURN_IF_ERROR(check_tensors(program));
  NEURON_RETURN_IF_ERROR(check_tiles(program, *target));
  Totals totals;
  totals.signals.resize(program.semaphores);
  totals.needs.resize(program.semaphores);
  totals.executed.resize(program.instructions.size());
  for (size_t s = 0; s < program.streams.size(); ++s) NEURON_RETURN_IF_ERROR(check_stream(program, *target, s, totals));
  return check_totals(program, *target, totals);
}

}  // namespace neuron::isa
