// Attention written out: dot_general, mask, softmax, dot_general. Used for what the attention regions do not take (f64, head
// dimensions beyond their tiles, exotic shapes), so that the operator works for every dtype and shape.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace neuron::compiler {

// The same graph with every attention and attention_backward node for which `wanted` says so replaced by its expansion.
// Node indices change; parameters, outputs and labels keep their meaning. Without such nodes the graph is returned as it is.
Result<ir::Graph> expand_attention(const ir::Graph& graph,
                                   const std::function<bool(const ir::Graph&, const ir::Node&)>& wanted);

}  // namespace neuron::compiler
