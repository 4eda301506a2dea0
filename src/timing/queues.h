// One queue's view of a stream: the steps that it executes, with the loops around them, and how long loops are cut short.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"

namespace neuron::timing {

// How an extrapolated loop runs: `warm` iterations to reach the steady state, `measure` iterations to time it, then a jump,
// then `drain` iterations so that what follows the loop meets the pipeline as it really is. trips <= warm + measure + drain:
// in full.
struct Window {
  uint32_t warm = 0, measure = 0, drain = 0;
  bool cuts(uint32_t trips) const { return measure > 0 && trips > warm + measure + drain; }
};

// For each step of a stream: the window of a loop step, all zero when the loop runs in full.
struct LoopPlan {
  std::vector<Window> windows;
};

// Loops run in full while the stream executes at most `full_limit` instructions.
LoopPlan plan_loops(const isa::Stream& stream, uint64_t full_limit);

// Instructions that the stream executes, saturating; per instruction added to `times`.
uint64_t count_executions(const isa::Program& program, const isa::Stream& stream, std::vector<double>& times);

struct QueueStep {
  isa::Step::Kind kind = isa::Step::Kind::instruction;
  uint8_t level = 0;   // loop and end: the loop's nesting level
  uint32_t value = 0;  // instruction index or trip count
  uint32_t match = 0;  // loop: its end; end: its loop
  Window window;       // loop and end
};

struct SignalCount {
  uint16_t semaphore;
  double per_iteration;
};

struct Queue {
  isa::Engine engine = isa::Engine::unknown;
  uint8_t queue = 0, core = 0;
  std::vector<QueueStep> steps;
  // By step index of an end whose loop may be cut: how often one iteration of the loop signals each semaphore.
  std::vector<std::vector<SignalCount>> signals;
};

// Queues of one stream that execute at least one instruction, in the order of engines, then DMA queues.
std::vector<Queue> split_stream(const isa::Program& program, const isa::Stream& stream, uint8_t core, const LoopPlan& plan);

}  // namespace neuron::timing
