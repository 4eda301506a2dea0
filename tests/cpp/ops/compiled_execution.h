// Runs a graph as the device does: compile, then the emulator's interpreter or fast plan. Parameters are row-major.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace neuron::ops::testing {

// `executor`: "plan" or "interpreter".
Result<std::vector<ir::Literal>> execute_compiled(const ir::Graph& graph, const std::vector<ir::Literal>& tensors,
                                                  const std::vector<uint64_t>& scalars, const std::string& executor);

}  // namespace neuron::ops::testing
