// Runs a program's queues against a Machine. estimate() in timing.h is simulate() with its defaults; tests use the options.
#pragma once

#include <cstdint>

#include "isa/target.h"
#include "timing/timing.h"

namespace neuron::timing {

struct SimulationOptions {
  uint64_t max_events = 0;
  // Streams that execute more instructions than this have their long loops extrapolated.
  uint64_t full_limit = 100'000;
};

Estimate simulate(const isa::Program& program, const SimulationOptions& options);

// The two ways to order queues. With semaphores: each queue advances as its waits allow, in order of start times.
// Without any (hand-written programs): in program order, each instruction after those that its tiles depend on.
struct Outcome {
  double execution_ns = 0;
  bool deadlock = false;
};
class Machine;
Outcome run_queues(const isa::Program& program, Machine& machine, const SimulationOptions& options);
Outcome run_in_order(const isa::Program& program, Machine& machine, const isa::Target& target,
                     const SimulationOptions& options);

}  // namespace neuron::timing
