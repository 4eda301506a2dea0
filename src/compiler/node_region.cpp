// Regions of kind node: one operation with code of its own.
#include "compiler/attention.h"
#include "compiler/indexing_region.h"
#include "compiler/ordering_region.h"
#include "compiler/region.h"

namespace neuron::compiler {

Status emit_node_region(EmitContext& context, const Region& region) {
  const ir::Node& node = context.graph.nodes[static_cast<size_t>(region.node)];
  switch (node.op) {
    case ir::Op::attention:
    case ir::Op::attention_backward:
      return emit_attention_region(context, region);
    case ir::Op::gather:
      return emit_gather(context, region);
    case ir::Op::scatter:
      return emit_scatter(context, region);
    case ir::Op::dynamic_slice:
      return emit_dynamic_slice(context, region);
    case ir::Op::dynamic_update_slice:
      return emit_dynamic_update_slice(context, region);
    case ir::Op::scan:
      return emit_scan(context, region);
    case ir::Op::sort:
    case ir::Op::top_k:
      return emit_order(context, region);
    default:
      return unsupported(std::string(ir::name_of(node.op)) + " giving " + ir::to_string(node.types[0]));
  }
}

}  // namespace neuron::compiler
