#include "compiler/region.h"

#include <algorithm>

namespace neuron::compiler {

bool pass_enabled(const Options& options, std::string_view name) {
  return std::find(options.disabled_passes.begin(), options.disabled_passes.end(), name) == options.disabled_passes.end();
}

std::string to_string(const ir::Graph& graph, const Region& region) {
  std::string s = region.kind == RegionKind::loop ? "loop" : region.kind == RegionKind::matmul ? "matmul" : "node";
  if (region.kind != RegionKind::node) {
    s += " space [";
    for (size_t d = 0; d < region.expression.rank(); ++d) {
      s += (d ? "," : "") + std::to_string(region.expression.extents[d]);
      if (region.expression.reduced[d]) s += "|r";
    }
    s += "]";
    if (region.expression.has_reduced()) s += region.rows ? " rows" : " columns";
  }
  for (int32_t m : region.members) s += " " + std::string(ir::name_of(graph.nodes[static_cast<size_t>(m)].op));
  size_t loads = 0;
  for (const Term& t : region.expression.terms) loads += t.kind == TermKind::load;
  s += " terms " + std::to_string(region.expression.terms.size()) + " loads " + std::to_string(loads) + " ->";
  for (const Store& st : region.stores)
    s += st.output >= 0 ? " output" + std::to_string(st.output) : " %" + std::to_string(st.value.node);
  if (region.in_place) s += " in place";
  for (size_t o = 0; o < region.operands.size(); ++o)
    if (region.operands[o].has_prologue()) s += " prologue " + std::to_string(o);
  return s;
}

Buffer EmitContext::buffer(ir::Value value) const { return buffers_.at(key(value)); }

Buffer EmitContext::destination(const Store& store) const {
  return store.output >= 0 ? outputs_[static_cast<size_t>(store.output)] : buffer(store.value);
}

void EmitContext::set_output(int32_t output, Buffer buffer) {
  if (outputs_.size() <= static_cast<size_t>(output)) outputs_.resize(static_cast<size_t>(output) + 1);
  outputs_[static_cast<size_t>(output)] = buffer;
}

const std::string& EmitContext::label_of(int32_t node) const {
  return graph.labels[static_cast<size_t>(graph.nodes[static_cast<size_t>(node)].label)];
}

}  // namespace neuron::compiler
