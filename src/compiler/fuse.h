// Pass "fuse": nodes -> regions, in one walk over the graph.
//
// A node is either inlined (views, leaves, cheap or single-use element-wise nodes: evaluated inside whatever region reads
// them, with whatever access that region needs), or it joins a region: the last one that one of its operands belongs to, if
// it runs over the same points, otherwise a new one. Values that cross regions are stored. Everything is decided with real
// accesses (affine.h), so a region never holds something it cannot reach.
#pragma once

#include "compiler/region.h"

namespace neuron::compiler {

// Rows on partitions (a reduced row stays on the partition of its outer index, so later operations of the same region may
// use it), or partitions over the reduced dimensions and one reduction over partitions at the end.
enum class ReduceScheme : uint8_t { rows, columns };
ReduceScheme choose_reduce_scheme(const Expression& expression);

Result<FusionPlan> fuse(const ir::Graph& graph, const Options& options);

// Pass "place_outputs", run at the end of fuse: which outputs are written where they are computed, and which need a copy at
// the end because their buffer (an aliased input) is still read.
Status place_outputs(const ir::Graph& graph, FusionPlan& plan);

bool is_map_op(ir::Op op);

}  // namespace neuron::compiler
