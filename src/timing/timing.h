// Program -> modelled nanoseconds on the chip: engine queues, semaphores and DMA engines, with the constants of
// isa/target.h. Deterministic: the same program gives the same times on every host. Host time never enters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/program.h"

namespace neuron::timing {

struct Event {  // one executed instruction
  isa::Engine engine;
  uint8_t queue;         // DMA queue
  uint8_t core;          // physical core
  uint32_t instruction;  // index into Program::instructions
  double start_ns, end_ns;
};

struct Estimate {
  double total_ns = 0;   // launch_ns, then the execution of all queues
  double launch_ns = 0;  // fixed part of a launch
  // By isa::Engine, sum over the physical cores: time in which the engine had an instruction in flight. dma: mean over the
  // DMA engines of their transfer time.
  double busy_ns[8] = {};
  double routine_ns = 0;  // GpSimd time of routines, contained in busy_ns
  uint64_t hbm_bytes_read = 0, hbm_bytes_written = 0;
  uint64_t flops = 0;  // 2*K*M*N of every nc_matmul
  // "tensor", "vector", "scalar", "gpsimd" or "dma": busiest for at least half of the execution; otherwise "latency";
  // "launch" when the fixed part exceeds the execution; "deadlock" when waits can never be satisfied (times then end there).
  std::string bound_by;
  std::vector<Event> events;  // only when asked for
};

// Simulates all queues. `max_events` = 0 records none. Long loops are simulated until steady and then extrapolated; the
// result says so only through its cost, not its value (a test compares with full simulation).
Estimate estimate(const isa::Program& program, uint64_t max_events = 0);

// Cost of one instruction alone on its engine, ns, including fixed cost; what the compiler's choices ask for.
double instruction_ns(const isa::Program& program, const isa::Instruction& instruction);

}  // namespace neuron::timing
