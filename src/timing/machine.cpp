#include "timing/machine.h"

#include <algorithm>

namespace neuron::timing {
namespace {

uint32_t key(const isa::Access& a) { return a.space == isa::Space::sbuf || a.space == isa::Space::psum ? a.object + 1 : 0; }

uint32_t key(const isa::ScalarOperand& s) { return s.kind == isa::ScalarOperand::Kind::access ? key(s.access) : 0; }

Touched touched_by(const isa::Instruction& i) {
  return {{key(i.src0), key(i.src1), key(i.src2), key(i.index), key(i.scalar0), key(i.scalar1)}, {key(i.dst), key(i.dst2)}};
}

}  // namespace

Machine::Machine(const isa::Program& program, const isa::Target& target, bool shared_dma, uint64_t max_events)
    : program_(program), target_(target), shared_dma_(shared_dma), max_events_(max_events), cores_(program.streams.size()) {
  costs_.reserve(program.instructions.size());
  touched_.reserve(program.instructions.size());
  for (const isa::Instruction& i : program.instructions) {
    costs_.push_back(cost_of(program, i, target));
    touched_.push_back(touched_by(i));
  }
  for (Core& core : cores_) {
    core.dma_free_ns.resize(target.dma.engines * (shared_dma ? 1 : target.dma.queues));
    core.hbm_free_ns.resize(shared_dma ? 1 : target.dma.queues);
  }
}

bool Machine::depends(uint32_t previous, uint32_t instruction) const {
  for (uint32_t write : touched_[previous].writes) {
    for (uint32_t read : touched_[instruction].reads) {
      if (write && write == read) return true;
    }
  }
  return false;
}

double Machine::tensor_factor(TensorClock& clock, double start_ns) {
  const double window = target_.tensor.throttle_window_ns;
  if (!clock.started || start_ns - clock.window_ns >= 2 * window) {  // at first, or after a window without any use
    clock = {true, start_ns, 0, start_ns + window};
  } else if (start_ns - clock.window_ns >= window) {
    if (clock.used_ns < target_.tensor.throttle_below * window) clock.cold_until_ns = start_ns + window;
    clock.window_ns = start_ns;
    clock.used_ns = 0;
  }
  return start_ns < clock.cold_until_ns ? 2 : 1;
}

Span Machine::run_engine(Core& core, uint32_t instruction, double ready_ns) {
  const isa::Instruction& i = program_.instructions[instruction];
  const Cost& cost = costs_[instruction];
  EngineState& engine = core.engines[static_cast<size_t>(i.engine) & 7];
  double start = std::max(ready_ns, engine.free_ns);
  const bool pipelined = i.engine == isa::Engine::vector || i.engine == isa::Engine::scalar;
  if (pipelined && engine.previous != UINT32_MAX && depends(engine.previous, instruction))
    start = std::max(start, engine.end_ns);
  double occupancy = cost.occupancy_ns, completion = cost.completion_ns;
  if (i.engine == isa::Engine::tensor) {
    const double slower = occupancy * (tensor_factor(core.clock, start) - 1);
    occupancy += slower;
    completion += slower;
    core.clock.used_ns += occupancy;
  }
  if (cost.table && cost.table != engine.table) {
    engine.table = cost.table;
    occupancy += target_.scalar.table_load_ns;
    completion += target_.scalar.table_load_ns;
  }
  const Span span{start, start + completion, start + occupancy};
  // TensorE's latency is pipeline depth, not work.
  const double active_end = i.engine == isa::Engine::tensor ? span.free_ns : span.end_ns;
  busy_ns_[static_cast<size_t>(i.engine) & 7] += std::max(0.0, active_end - std::max(start, engine.end_ns));
  engine.end_ns = std::max(engine.end_ns, active_end);
  engine.free_ns = span.free_ns;
  engine.previous = instruction;
  return span;
}

Span Machine::run_dma(Core& core, uint32_t instruction, double ready_ns, bool waited) {
  const isa::Instruction& i = program_.instructions[instruction];
  const isa::DmaCosts& dma = target_.dma;
  const Cost& cost = costs_[instruction];
  const double issued = ready_ns + cost.occupancy_ns;
  const double earliest = issued + (waited ? dma.semaphore_start_ns : dma.start_ns);
  const uint32_t own = shared_dma_ ? 0 : i.queue % dma.queues;
  double* servers = core.dma_free_ns.data() + own * dma.engines;
  double first = 0, last = earliest;
  for (uint32_t e = 0; e < cost.engines; ++e) {
    double& server = servers[(cost.first_engine + e) % dma.engines];
    const double start = std::max(server, earliest);
    server = start + cost.transfer_ns;
    first = e == 0 ? start : std::min(first, start);
    last = std::max(last, server);
  }
  const double bytes = static_cast<double>(cost.hbm_read + cost.hbm_written);
  double& hbm_free_ns = core.hbm_free_ns[own];
  hbm_free_ns = std::max(hbm_free_ns, earliest) + bytes / target_.hbm.core_bytes_per_ns;
  last = std::max(last, hbm_free_ns);
  if (cores_.size() > 1 && shared_dma_) {
    pair_hbm_free_ns_ = std::max(pair_hbm_free_ns_, earliest) + bytes / target_.hbm.pair_bytes_per_ns;
    last = std::max(last, pair_hbm_free_ns_);
  }
  busy_ns_[static_cast<size_t>(isa::Engine::dma)] += cost.transfer_ns * cost.engines / dma.engines;
  return {first, last, issued};
}

Span Machine::run(uint8_t core, uint32_t instruction, double ready_ns, bool waited) {
  const isa::Instruction& i = program_.instructions[instruction];
  const Span span = i.engine == isa::Engine::dma ? run_dma(cores_[core], instruction, ready_ns, waited)
                                                 : run_engine(cores_[core], instruction, ready_ns);
  last_end_ns_ = std::max(last_end_ns_, span.end_ns);
  if (events_.size() < max_events_) events_.push_back({i.engine, i.queue, core, instruction, span.start_ns, span.end_ns});
  return span;
}

void Machine::shift(uint8_t number, double ns) {
  Core& core = cores_[number];
  for (EngineState& e : core.engines) {
    e.free_ns += ns;
    e.end_ns += ns;
  }
  for (double& t : core.dma_free_ns) t += ns;
  for (double& t : core.hbm_free_ns) t += ns;
  core.clock.window_ns += ns;
  core.clock.cold_until_ns += ns;
}

}  // namespace neuron::timing
