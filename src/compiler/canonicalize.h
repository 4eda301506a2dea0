// Pass "canonicalize": the same graph in fewer and plainer nodes. Chains of reshapes, converts and transposes fold, splat
// constants propagate, equal nodes merge, reductions lose dimensions of size 1, operations on empty tensors become
// constants, dead nodes go. One walk over the nodes, each looked up by hash.
#pragma once

#include "compiler/compiler.h"
#include "ir/graph.h"

namespace neuron::compiler {

void canonicalize(ir::Graph& graph, const Options& options);

}  // namespace neuron::compiler
