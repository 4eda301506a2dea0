#include "ir/expand.h"

namespace neuron::ir {
namespace {

std::vector<Value> expand_node(Builder& b, const Node& node, const std::vector<Value>& in) {
  for (auto* theme : {expand_elementwise, expand_moves, expand_whole}) {
    std::vector<Value> results = theme(b, node, in);
    if (!results.empty()) return results;
  }
  return {};
}

// Copies a node whose operands have new names.
std::vector<Value> copy_node(Graph& graph, const Node& node, const std::vector<Value>& in) {
  graph.nodes.push_back(node);
  graph.nodes.back().operands = in;
  const auto index = static_cast<int32_t>(graph.nodes.size()) - 1;
  std::vector<Value> results;
  for (size_t i = 0; i < node.types.size(); ++i) results.push_back({index, static_cast<int32_t>(i)});
  return results;
}

}  // namespace

Result<Graph> expand_to_stablehlo(const Graph& graph) {
  Graph expanded;
  expanded.name = graph.name;
  Builder b(expanded);
  std::vector<std::vector<Value>> results(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::vector<Value> in;
    for (Value v : node.operands) in.push_back(results[v.node][v.result]);
    b.set_label(graph.labels[node.label]);
    results[i] = expand_node(b, node, in);
    if (results[i].empty()) {
      results[i] = copy_node(expanded, node, in);
      expanded.nodes.back().label = static_cast<int32_t>(expanded.labels.size()) - 1;
    }
    if (!b.status().ok()) return b.status().within("expansion of " + std::string(name_of(node.op)));
  }
  for (const Output& o : graph.outputs)
    expanded.outputs.push_back({results[o.value.node][o.value.result], o.strides, o.alias});
  return expanded;
}

}  // namespace neuron::ir
