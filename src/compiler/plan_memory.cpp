#include "compiler/plan_memory.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "compiler/access_walk.h"

namespace neuron::compiler {

namespace {

constexpr uint32_t kUnused = 0xffffffffu;

struct Lifetime {
  uint32_t first = kUnused, last = 0;
};

// For every step the loop step that encloses it (kUnused at top level).
std::vector<uint32_t> enclosing_loops(const std::vector<isa::Step>& steps, size_t from) {
  std::vector<uint32_t> parent(steps.size(), kUnused);
  uint32_t open = kUnused;
  for (size_t s = from; s < steps.size(); ++s) {
    if (steps[s].kind == isa::Step::Kind::end) {
      open = parent[steps[s].match];
      parent[s] = open;
      continue;
    }
    parent[s] = open;
    if (steps[s].kind == isa::Step::Kind::loop) open = static_cast<uint32_t>(s);
  }
  return parent;
}

bool contains(const std::vector<isa::Step>& steps, uint32_t loop, uint32_t step) {
  return loop <= step && step <= steps[loop].match;
}

// A use range that enters or leaves a loop in the middle covers the whole loop: other iterations use the tile too.
void close_over_loops(const std::vector<isa::Step>& steps, const std::vector<uint32_t>& parent, Lifetime& life) {
  const uint32_t first = life.first, last = life.last;
  for (uint32_t l = parent[last]; l != kUnused; l = parent[l])
    if (!contains(steps, l, first)) life.last = std::max(life.last, steps[l].match);
  for (uint32_t l = parent[first]; l != kUnused; l = parent[l])
    if (!contains(steps, l, last)) life.first = std::min(life.first, l);
}

// Rotating tiles are in use during their whole loop.
void cover_rotation(const std::vector<isa::Step>& steps, const std::vector<uint32_t>& parent, uint32_t level,
                    Lifetime& life) {
  std::vector<uint32_t> chain;
  for (uint32_t l = parent[life.first]; l != kUnused; l = parent[l]) chain.push_back(l);
  if (chain.size() <= level) return;
  const uint32_t loop = chain[chain.size() - 1 - level];
  life.first = std::min(life.first, loop);
  life.last = std::max(life.last, steps[loop].match);
}

struct Request {
  uint32_t tile;
  Lifetime life;
  int64_t bytes, align;
};

// First fit in this order; returns the highest byte used.
int64_t first_fit(const std::vector<Request>& requests, const std::vector<uint32_t>& order, std::vector<int64_t>& offset) {
  std::vector<uint32_t> placed;  // by offset
  int64_t top = 0;
  for (uint32_t r : order) {
    const Request& q = requests[r];
    int64_t at = 0;
    for (uint32_t p : placed) {
      const Request& o = requests[p];
      if (o.life.last < q.life.first || q.life.last < o.life.first) continue;
      if (at + q.bytes <= offset[p]) break;
      at = std::max(at, offset[p] + o.bytes);
      at = (at + q.align - 1) / q.align * q.align;
    }
    offset[r] = at;
    top = std::max(top, at + q.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), r, [&](uint32_t a, uint32_t b) { return offset[a] < offset[b]; }), r);
  }
  return top;
}

Status place_space(ProgramBuilder& builder, const std::vector<Request>& requests, isa::Space space, int64_t capacity) {
  if (requests.empty()) return {};
  std::vector<uint32_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0u);
  std::vector<int64_t> best, offset(requests.size());
  int64_t least = 0;
  const auto attempt = [&] {
    const int64_t top = first_fit(requests, order, offset);
    if (best.empty() || top < least) best = offset, least = top;
    return top <= capacity;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return requests[a].life.first < requests[b].life.first; });
  bool fits = attempt();
  if (!fits) {
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return requests[a].bytes > requests[b].bytes; });
    fits = attempt();
  }
  if (!fits) {
    const auto length = [&](uint32_t r) { return requests[r].life.last - requests[r].life.first; };
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return length(a) > length(b); });
    fits = attempt();
  }
  if (!fits) {
    return does_not_fit(std::string(isa::name_of(space)) + ": " + std::to_string(least) + " bytes per partition needed, " +
                        std::to_string(capacity) + " available");
  }
  for (size_t r = 0; r < requests.size(); ++r)
    builder.program().tiles[requests[r].tile].byte_offset = static_cast<uint64_t>(best[r]);
  return {};
}

}  // namespace

Status place_tiles(ProgramBuilder& builder, const ProgramBuilder::Mark& mark) {
  isa::Program& p = builder.program();
  const std::vector<isa::Step>& steps = p.streams[0].steps;
  const std::vector<uint32_t> parent = enclosing_loops(steps, mark.steps);
  std::vector<Lifetime> life(p.tiles.size() - mark.tiles);
  for (size_t s = mark.steps; s < steps.size(); ++s) {
    if (steps[s].kind != isa::Step::Kind::instruction) continue;
    for_each_access(p.instructions[steps[s].value], [&](const isa::Access& a, bool) {
      if (a.space == isa::Space::hbm) return;
      Lifetime& l = life[a.object - mark.tiles];
      l.first = std::min(l.first, static_cast<uint32_t>(s));
      l.last = std::max(l.last, static_cast<uint32_t>(s));
    });
  }
  std::vector<Request> sbuf, psum;
  for (size_t i = 0; i < life.size(); ++i) {
    Lifetime l = life[i];
    if (l.first == kUnused) continue;
    const isa::Tile& t = p.tiles[mark.tiles + i];
    close_over_loops(steps, parent, l);
    if (t.buffers > 1) cover_rotation(steps, parent, t.rotate_level, l);
    const int64_t bytes = static_cast<int64_t>(t.bytes_per_partition) * t.buffers;
    if (t.space == isa::Space::psum) {
      const auto bank = static_cast<int64_t>(builder.target().psum_bank_bytes);
      const auto align = std::min<int64_t>(bank, static_cast<int64_t>(std::bit_ceil(uint64_t{t.bytes_per_partition})));
      psum.push_back({static_cast<uint32_t>(mark.tiles + i), l, (bytes + align - 1) / align * align, align});
    } else {
      sbuf.push_back({static_cast<uint32_t>(mark.tiles + i), l, (bytes + 63) / 64 * 64, 64});
    }
  }
  NEURON_RETURN_IF_ERROR(place_space(builder, sbuf, isa::Space::sbuf, builder.target().sbuf_bytes_per_partition));
  return place_space(builder, psum, isa::Space::psum, builder.target().psum_bytes_per_partition());
}

ArenaPlan place_scratch(const isa::Program& p) {
  constexpr int64_t kAlign = 512;
  ArenaPlan plan;
  plan.offset.assign(p.tensors.size(), -1);
  const std::vector<isa::Step>& steps = p.streams[0].steps;
  std::vector<Lifetime> life(p.tensors.size());
  uint32_t top_level = 0;  // the outermost loop is the unit: everything inside counts as its first step
  int depth = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    if (depth == 0) top_level = static_cast<uint32_t>(s);
    if (steps[s].kind == isa::Step::Kind::loop) ++depth;
    if (steps[s].kind == isa::Step::Kind::end) --depth;
    if (steps[s].kind != isa::Step::Kind::instruction) continue;
    for_each_access(p.instructions[steps[s].value], [&](const isa::Access& a, bool) {
      if (a.space != isa::Space::hbm || p.tensors[a.object].role != isa::TensorRole::scratch) return;
      Lifetime& l = life[a.object];
      l.first = std::min(l.first, top_level);
      l.last = std::max(l.last, top_level);
    });
  }
  std::vector<uint32_t> order;
  for (size_t t = 0; t < p.tensors.size(); ++t)
    if (life[t].first != kUnused) order.push_back(static_cast<uint32_t>(t));
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return life[a].first < life[b].first; });
  std::multimap<uint32_t, uint32_t> dying;  // last step -> tensor
  std::map<int64_t, int64_t> holes;         // offset -> bytes
  const auto size = [&](uint32_t t) { return (static_cast<int64_t>(p.tensors[t].bytes) + kAlign - 1) / kAlign * kAlign; };
  const auto release = [&](int64_t at, int64_t bytes) {
    auto next = holes.lower_bound(at);
    if (next != holes.end() && at + bytes == next->first) bytes += next->second, next = holes.erase(next);
    if (next != holes.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    holes.emplace(at, bytes);
  };
  for (uint32_t t : order) {
    while (!dying.empty() && dying.begin()->first < life[t].first) {
      release(plan.offset[dying.begin()->second], size(dying.begin()->second));
      dying.erase(dying.begin());
    }
    auto best = holes.end();
    for (auto h = holes.begin(); h != holes.end(); ++h)
      if (h->second >= size(t) && (best == holes.end() || h->second < best->second)) best = h;
    if (best != holes.end()) {
      plan.offset[t] = best->first;
      const int64_t left = best->second - size(t);
      const int64_t at = best->first + size(t);
      holes.erase(best);
      if (left > 0) holes.emplace(at, left);
    } else {
      // Grow from the last hole if it touches the end.
      auto end = holes.empty() ? holes.end() : std::prev(holes.end());
      if (end != holes.end() && end->first + end->second == plan.bytes) {
        plan.offset[t] = end->first;
        holes.erase(end);
      } else {
        plan.offset[t] = plan.bytes;
      }
      plan.bytes = plan.offset[t] + size(t);
    }
    dying.emplace(life[t].last, t);
  }
  return plan;
}

void merge_scratch(isa::Program& p, const ArenaPlan& plan) {
  std::vector<uint32_t> number(p.tensors.size(), 0);
  std::vector<isa::Tensor> kept;
  for (size_t t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].role == isa::TensorRole::scratch) continue;
    number[t] = static_cast<uint32_t>(kept.size());
    kept.push_back(std::move(p.tensors[t]));
  }
  const auto arena = static_cast<uint32_t>(kept.size());
  if (plan.bytes > 0) {
    isa::Tensor t;
    t.name = "scratch";
    t.role = isa::TensorRole::scratch;
    t.dtype = DType::u8;
    t.bytes = static_cast<uint64_t>(plan.bytes);
    t.shape = {plan.bytes};
    t.strides = {1};
    kept.push_back(std::move(t));
  }
  for (isa::Tensor& t : kept)
    if (t.alias_of >= 0) t.alias_of = static_cast<int32_t>(number[static_cast<size_t>(t.alias_of)]);
  for (isa::Instruction& in : p.instructions) {
    for_each_access(in, [&](isa::Access& a, bool) {
      if (a.space != isa::Space::hbm) return;
      if (a.object < plan.offset.size() && plan.offset[a.object] >= 0) {
        a.offset += plan.offset[a.object];
        a.object = arena;
      } else {
        a.object = number[a.object];
      }
    });
  }
  p.tensors = std::move(kept);
}

}  // namespace neuron::compiler
