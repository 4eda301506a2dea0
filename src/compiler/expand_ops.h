// Pass "expand": operations that are a few plainer ones. arg_reduce becomes a reduction, a comparison with its result and a
// second reduction over positions, which fuse into one region.
#pragma once

#include "base/status.h"
#include "ir/graph.h"

namespace neuron::compiler {

// True if the graph has something to expand.
bool needs_expansion(const ir::Graph& graph);
Result<ir::Graph> expand_ops(const ir::Graph& graph);

}  // namespace neuron::compiler
