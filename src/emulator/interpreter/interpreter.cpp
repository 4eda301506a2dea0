// The literal executor: walks the streams, waits for semaphores, and executes one instruction at a time.
//
// In program order a stream is one queue. Shuffled, every engine and DMA queue walks the stream on its own and executes only
// its own instructions, so that nothing but semaphores orders two engines; which queue goes next is drawn from the seed.
#include <algorithm>

#include "emulator/interpreter/machine.h"
#include "emulator/interpreter/supported.h"
#include "isa/instruction_table.h"

namespace neuron::emulator {
namespace {

using isa::Instruction;
using isa::Program;
using isa::Step;

constexpr uint8_t kPoison = 0xff;
constexpr int kInstructionsBetweenInterruptChecks = 32;
constexpr int kEngines = 8, kDmaQueues = 16;

// The steps of one queue, in stream order, and where it stands.
struct Queue {
  size_t core = 0;
  std::vector<Step> steps;
  size_t position = 0;
  int depth = 0;
  Counters counters{};
  std::array<size_t, isa::kMaxLoops> loop_start{};

  void rewind() {
    position = 0;
    depth = 0;
    counters = {};
  }

  // Moves to the next instruction through loop heads and ends; nullptr when the queue is done.
  const Step* head() {
    while (position < steps.size()) {
      const Step& step = steps[position];
      if (step.kind == Step::Kind::instruction) return &step;
      if (step.kind == Step::Kind::loop) {
        loop_start[depth] = position;
        counters[depth++] = 0;
        ++position;
        continue;
      }
      const size_t start = loop_start[depth - 1];
      if (++counters[depth - 1] < steps[start].value) {
        position = start + 1;
      } else {
        counters[--depth] = 0;  // an access behind the loop sees iteration 0
        ++position;
      }
    }
    return nullptr;
  }
};

int queue_number(const Instruction& i) {
  return i.engine == isa::Engine::dma ? kEngines + i.queue % kDmaQueues : static_cast<int>(i.engine);
}

// The part of a stream that belongs to one queue (`number` < 0: all of it); loops without any of its instructions vanish.
std::vector<Step> steps_of(const Program& program, const isa::Stream& stream, int number) {
  std::vector<Step> out;
  std::vector<size_t> open;
  for (const Step& step : stream.steps) {
    if (step.kind == Step::Kind::instruction) {
      if (number < 0 || queue_number(program.instructions[step.value]) == number) out.push_back(step);
    } else if (step.kind == Step::Kind::loop) {
      open.push_back(out.size());
      out.push_back(step);
    } else {
      const size_t start = open.back();
      open.pop_back();
      if (out.size() == start + 1)
        out.pop_back();
      else
        out.push_back(step);
    }
  }
  return out;
}

// xorshift64*, seeded through splitmix so that neighbouring seeds differ.
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) {
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (seed ^ (seed >> 27)) | 1;
  }
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
  }
};

class Interpreter : public Executor {
 public:
  Interpreter(std::shared_ptr<const Program> program, InterpreterOptions options)
      : program_(std::move(program)), options_(options), cores_(program_->streams.size()) {
    for (const isa::Tile& tile : program_->tiles) {
      for (PhysicalCore& core : cores_) {
        OnChipMemory& memory = tile.space == isa::Space::psum ? core.psum : core.sbuf;
        memory.pitch = std::max(memory.pitch, tile.byte_offset + uint64_t{tile.buffers} * tile.bytes_per_partition);
      }
    }
    for (size_t core = 0; core < cores_.size(); ++core) {
      if (!options_.shuffle_seed) {
        add_queue(core, -1);
      } else {
        for (int number = 0; number < kEngines + kDmaQueues; ++number) add_queue(core, number);
      }
    }
    signals_.resize(program_->semaphores);
  }

  Status run(Launch& launch) override {
    if (launch.tensors.size() != program_->tensors.size()) return internal_error("launch with a wrong number of tensors");
    for (PhysicalCore& core : cores_) {
      poison(core.sbuf, isa::Space::sbuf);
      poison(core.psum, isa::Space::psum);
    }
    std::fill(signals_.begin(), signals_.end(), 0);
    for (Queue& q : queues_) q.rewind();
    return options_.shuffle_seed ? run_shuffled(launch) : run_in_order(launch);
  }

 private:
  void add_queue(size_t core, int number) {
    Queue q;
    q.core = core;
    q.steps = steps_of(*program_, program_->streams[core], number);
    if (!q.steps.empty()) queues_.push_back(std::move(q));
  }

  void poison(OnChipMemory& memory, isa::Space space) const {
    uint64_t partitions = 0;
    for (const isa::Tile& tile : program_->tiles) {
      if ((tile.space == isa::Space::psum) == (space == isa::Space::psum))
        partitions = std::max<uint64_t>(partitions, uint64_t{tile.partition_start} + tile.partitions);
    }
    memory.bytes.assign(partitions * memory.pitch, kPoison);
  }

  bool ready(const Queue& q, const Instruction& i) const {
    for (const isa::Wait& wait : i.waits) {
      int64_t needed = wait.base;
      for (int l = 0; l < q.depth; ++l) needed += wait.loop_step[l] * q.counters[l];
      if (signals_[wait.semaphore] < needed) return false;
    }
    return true;
  }

  Status step(Queue& q, const Instruction& i, Launch& launch) {
    if (launch.interrupt && ++executed_ % kInstructionsBetweenInterruptChecks == 0 &&
        launch.interrupt(launch.interrupt_argument))
      return unavailable("the launch was interrupted");
    Execution e{*program_, i, q.counters, launch, {}, {}, {}, {}, {}, {}, {}, {}};
    NEURON_RETURN_IF_ERROR(e.resolve(cores_[q.core]));
    NEURON_RETURN_IF_ERROR(execute(e));
    if (i.signal != isa::kNoSemaphore) ++signals_[i.signal];
    ++q.position;
    return {};
  }

  // Each stream runs until it ends or waits for another stream.
  Status run_in_order(Launch& launch) {
    for (;;) {
      bool progressed = false, done = true;
      for (Queue& q : queues_) {
        for (const Step* s; (s = q.head());) {
          const Instruction& i = program_->instructions[s->value];
          if (!ready(q, i)) {
            done = false;
            break;
          }
          NEURON_RETURN_IF_ERROR(step(q, i, launch));
          progressed = true;
        }
      }
      if (done) return {};
      if (!progressed) return deadlock();
    }
  }

  Status run_shuffled(Launch& launch) {
    Random random(*options_.shuffle_seed);
    std::vector<Queue*> live;
    for (Queue& q : queues_) live.push_back(&q);
    while (!live.empty()) {
      const size_t first = random.next() % live.size();
      const uint64_t burst =
          uint64_t{1} << (random.next() % 6);  // long runs of one queue find other faults than alternation
      bool progressed = false;
      for (size_t k = 0; k < live.size() && !progressed; ++k) {
        Queue& q = *live[(first + k) % live.size()];
        for (uint64_t n = 0; n < burst; ++n) {
          const Step* s = q.head();
          if (!s) {
            live.erase(live.begin() + static_cast<ptrdiff_t>((first + k) % live.size()));
            progressed = true;
            break;
          }
          const Instruction& i = program_->instructions[s->value];
          if (!ready(q, i)) break;
          NEURON_RETURN_IF_ERROR(step(q, i, launch));
          progressed = true;
        }
      }
      if (!progressed) return deadlock();
    }
    return {};
  }

  Status deadlock() {
    std::string message = "deadlock: every queue waits";
    for (Queue& q : queues_) {
      const Step* s = q.head();
      if (!s) continue;
      const Instruction& i = program_->instructions[s->value];
      for (const isa::Wait& wait : i.waits) {
        int64_t needed = wait.base;
        for (int l = 0; l < q.depth; ++l) needed += wait.loop_step[l] * q.counters[l];
        if (signals_[wait.semaphore] >= needed) continue;
        message += "; instruction " + std::to_string(s->value) + " (" + std::string(isa::name_of(i.opcode)) +
                   ") waits for semaphore " + std::to_string(wait.semaphore) + " to reach " + std::to_string(needed) +
                   ", it is at " + std::to_string(signals_[wait.semaphore]);
      }
    }
    return invalid_argument(message);
  }

  std::shared_ptr<const Program> program_;
  InterpreterOptions options_;
  std::vector<PhysicalCore> cores_;
  std::vector<Queue> queues_;
  std::vector<int64_t> signals_;
  uint64_t executed_ = 0;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_interpreter(std::shared_ptr<const isa::Program> program, InterpreterOptions options) {
  NEURON_RETURN_IF_ERROR(check_supported(*program));
  return std::unique_ptr<Executor>(new Interpreter(std::move(program), options));
}

// --- Execution: operands to addresses ---

Status Execution::resolve_access(const isa::Access& access, PhysicalCore& core, bool indirect, Operand* out) {
  if (!access.present()) return {};
  constexpr size_t kLongRow = 65536;  // the most elements of an engine's operand
  out->dtype = access.dtype;
  out->partitions = access.partitions;
  out->count = access.elements_per_partition();
  out->access = &access;
  int64_t low = 0, high = 0;
  for (int d = 0; d < access.rank; ++d) {
    const int64_t reach = access.dims[d].stride * (static_cast<int64_t>(access.dims[d].count) - 1);
    (reach < 0 ? low : high) += reach;
  }
  if (out->count <= kLongRow) {
    std::vector<int64_t> offsets(1, 0), next;
    for (int d = 0; d < access.rank; ++d) {
      next.clear();
      for (int64_t outer : offsets) {
        for (uint32_t i = 0; i < access.dims[d].count; ++i) next.push_back(outer + i * access.dims[d].stride);
      }
      offsets.swap(next);
    }
    out->offsets = std::move(offsets);
  }
  int64_t offset = access.offset;
  for (int l = 0; l < isa::kMaxLoops; ++l) offset += access.loop_step[l] * counters[l];
  int64_t extent = 0;  // bytes that one row (tile) or the pattern (HBM) may touch, from the object's start
  int64_t span = 0;
  if (access.space == isa::Space::hbm) {
    const TensorView& view = launch.tensors[access.object];
    out->base = view.data + offset;
    out->partition_pitch = access.partition_stride;
    extent = static_cast<int64_t>(std::min(view.bytes, program.tensors[access.object].bytes));
    span = (static_cast<int64_t>(access.partitions) - 1) * access.partition_stride;
  } else {
    const isa::Tile& tile = program.tiles[access.object];
    OnChipMemory& memory = tile.space == isa::Space::psum ? core.psum : core.sbuf;
    const uint64_t buffer = tile.buffers > 1 ? static_cast<uint64_t>(counters[tile.rotate_level]) % tile.buffers : 0;
    const uint64_t partition = uint64_t{tile.partition_start} + access.partition_start;
    if (uint64_t{access.partition_start} + access.partitions > tile.partitions)
      return internal_error(where() + ": partitions outside the tile");
    out->base =
        memory.bytes.data() + partition * memory.pitch + tile.byte_offset + buffer * tile.bytes_per_partition + offset;
    out->partition_pitch = static_cast<int64_t>(memory.pitch);
    extent = tile.bytes_per_partition;
  }
  const int64_t first = offset + low + std::min<int64_t>(span, 0);
  const int64_t end = offset + high + std::max<int64_t>(span, 0) + static_cast<int64_t>(size_of(access.dtype));
  // Indirect rows are checked one by one, where the index is known.
  if (!indirect && (first < 0 || end > extent))
    return internal_error(where() + ": access to bytes [" + std::to_string(first) + ", " + std::to_string(end) + ") of " +
                          std::to_string(extent));
  return {};
}

Status Execution::resolve(PhysicalCore& core) {
  const bool gather = instruction.index.present() && instruction.src0.space == isa::Space::hbm;
  const bool scatter = instruction.index.present() && !gather;
  NEURON_RETURN_IF_ERROR(resolve_access(instruction.dst, core, scatter, &dst));
  NEURON_RETURN_IF_ERROR(resolve_access(instruction.dst2, core, false, &dst2));
  NEURON_RETURN_IF_ERROR(resolve_access(instruction.src0, core, gather, &src0));
  NEURON_RETURN_IF_ERROR(resolve_access(instruction.src1, core, false, &src1));
  NEURON_RETURN_IF_ERROR(resolve_access(instruction.src2, core, false, &src2));
  NEURON_RETURN_IF_ERROR(resolve_access(instruction.index, core, false, &index));
  scalar0.operand = &instruction.scalar0;
  scalar1.operand = &instruction.scalar1;
  for (Scalar* s : {&scalar0, &scalar1}) {
    if (s->operand->kind == isa::ScalarOperand::Kind::access)
      NEURON_RETURN_IF_ERROR(resolve_access(s->operand->access, core, false, &s->access));
  }
  return {};
}

std::string Execution::where() const {
  std::string text(isa::name_of(instruction.opcode));
  if (!label().empty()) text += " (" + label() + ")";
  return text;
}

const std::string& Execution::label() const {
  static const std::string none;
  return instruction.label < program.labels.size() ? program.labels[instruction.label] : none;
}

int64_t Execution::pattern_base(size_t p) const {
  uint64_t value = static_cast<uint64_t>(instruction.pattern.base);
  for (int l = 0; l < isa::kMaxLoops; ++l)
    value += static_cast<uint64_t>(instruction.pattern.loop_step[l]) * static_cast<uint64_t>(counters[l]);
  return static_cast<int64_t>(value + p * static_cast<uint64_t>(instruction.pattern.partition_step));
}

std::vector<int64_t> Execution::pattern_offsets(const isa::Access& like) const {
  std::vector<int64_t> values(1, 0);
  for (int d = 0; d < like.rank; ++d) {
    std::vector<int64_t> next;
    for (int64_t outer : values) {
      for (uint32_t i = 0; i < like.dims[d].count; ++i)
        next.push_back(
            static_cast<int64_t>(static_cast<uint64_t>(outer) + i * static_cast<uint64_t>(instruction.pattern.step[d])));
    }
    values = std::move(next);
  }
  return values;
}

bool Execution::accumulates() const {
  if (instruction.accumulate) return true;
  for (int l = 0; l < isa::kMaxLoops; ++l) {
    if ((instruction.accumulate_levels >> l & 1) && counters[l] > 0) return true;
  }
  return false;
}

Status execute(Execution& e) {
  using isa::Opcode;
  switch (e.instruction.opcode) {
    case Opcode::dma_copy:
      return execute_dma_copy(e);
    case Opcode::dma_transpose:
    case Opcode::nc_transpose:
      return execute_transpose(e);
    case Opcode::nc_matmul:
      return execute_matmul(e);
    case Opcode::tensor_copy:
    case Opcode::memset:
    case Opcode::iota:
    case Opcode::tensor_tensor:
    case Opcode::tensor_scalar:
    case Opcode::scalar_tensor_tensor:
    case Opcode::activation:
    case Opcode::reciprocal:
    case Opcode::select:
      return execute_elementwise(e);
    case Opcode::tensor_reduce:
    case Opcode::tensor_partition_reduce:
    case Opcode::tensor_tensor_scan:
    case Opcode::bn_stats:
    case Opcode::bn_aggr:
      return execute_reduction(e);
    case Opcode::max8:
    case Opcode::find_index8:
    case Opcode::random_bits:
    case Opcode::scatter_reduce:
    case Opcode::top_k:
      return execute_routine(e);
    case Opcode::count_:
      break;
  }
  return internal_error("unknown opcode");
}

}  // namespace neuron::emulator
