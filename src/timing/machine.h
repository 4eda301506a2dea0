// The hardware that queues compete for: engines with their function table and clock, DMA engines, HBM. It answers one
// question: an instruction that may start at time t, when does it start, end, and let the next one start?
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "isa/target.h"
#include "timing/costs.h"
#include "timing/timing.h"

namespace neuron::timing {

struct Span {
  double start_ns = 0, end_ns = 0;
  double free_ns = 0;  // the queue may start its next instruction
};

// Objects that an instruction reads and writes; tile index + 1, 0 = none. For dependences inside one engine.
struct Touched {
  std::array<uint32_t, 6> reads{};
  std::array<uint32_t, 2> writes{};
};

class Machine {
 public:
  // `shared_dma`: all queues of a core compete for its DMA engines in the order of run() calls, which must then be the order
  // of start times. Otherwise each queue has DMA engines and an HBM share of its own, and the caller sees to the totals.
  Machine(const isa::Program& program, const isa::Target& target, bool shared_dma, uint64_t max_events);

  const Cost& cost(uint32_t instruction) const { return costs_[instruction]; }
  // Runs `instruction` on its queue of `core`, not before `ready_ns`. `waited`: a semaphore held it up.
  Span run(uint8_t core, uint32_t instruction, double ready_ns, bool waited);
  // All clocks of a core move on by `ns` that were not simulated.
  void shift(uint8_t core, double ns);

  double engine_busy_ns(isa::Engine e) const { return busy_ns_[static_cast<size_t>(e)]; }
  void add_busy_ns(isa::Engine e, double ns) { busy_ns_[static_cast<size_t>(e)] += ns; }
  double last_end_ns() const { return last_end_ns_; }
  void extend_to(double ns) { last_end_ns_ = std::max(last_end_ns_, ns); }
  std::vector<Event> take_events() { return std::move(events_); }

 private:
  struct EngineState {
    double free_ns = 0, end_ns = 0;
    uint8_t table = 0;
    uint32_t previous = UINT32_MAX;
  };
  struct TensorClock {  // half rate for one window after a window of low use
    bool started = false;
    double window_ns = 0, used_ns = 0, cold_until_ns = 0;
  };
  struct Core {
    std::array<EngineState, 8> engines{};
    std::vector<double> dma_free_ns;  // one set of DMA engines, or one per queue
    std::vector<double> hbm_free_ns;  // one, or one per queue
    TensorClock clock;
  };

  Span run_engine(Core& core, uint32_t instruction, double ready_ns);
  Span run_dma(Core& core, uint32_t instruction, double ready_ns, bool waited);
  double tensor_factor(TensorClock& clock, double start_ns);
  bool depends(uint32_t previous, uint32_t instruction) const;

  const isa::Program& program_;
  const isa::Target& target_;
  bool shared_dma_;
  uint64_t max_events_;
  std::vector<Cost> costs_;
  std::vector<Touched> touched_;
  std::vector<Core> cores_;
  double pair_hbm_free_ns_ = 0;
  std::array<double, 8> busy_ns_{};
  double last_end_ns_ = 0;
  std::vector<Event> events_;
};

}  // namespace neuron::timing
