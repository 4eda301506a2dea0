// Runs programs on an executor with host buffers, and compares results bit for bit (NaNs equal each other).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/executor.h"
#include "emulator/program_generator.h"

namespace neuron::emulator::testing {

using Buffers = std::vector<std::vector<uint8_t>>;  // one per Program::tensors entry

struct Outcome {
  Status status;
  OutOfRange out_of_range;
  Buffers buffers;  // all tensors after the launch
};

// `initial` holds every tensor but outputs that alias inputs; constants are taken from the program.
Outcome run(Executor& executor, const isa::Program& program, const Buffers& initial, ThreadPool& pool);

// The tensors of a generated program, deterministic in the seed.
Buffers initial_buffers(const Generated& generated, uint64_t seed);

// "" or what differs first among the outputs.
std::string difference(const isa::Program& program, const Outcome& expected, const Outcome& actual);

}  // namespace neuron::emulator::testing
