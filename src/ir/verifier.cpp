// Dispatch of the per-op rules, and the rules of the graph itself:
//   graph.1 an operand is a result of an earlier node       graph.2 result types are those the op's rules give
//   graph.3 a type has sizes >= 0 and a countable extent    graph.4 an output is a result of some node
//   graph.5 an output has one stride per dimension          graph.6 an alias names a tensor parameter of the same dtype
//   graph.7 parameters with one index have one type         graph.8 a node's label exists
#include <algorithm>
#include <map>

#include "ir/rules.h"

namespace neuron::ir {

Status violated(Op op, int rule, const std::string& message) {
  return invalid_argument(std::string(name_of(op)) + "." + std::to_string(rule) + ": " + message);
}

std::string list(const std::vector<int64_t>& values) {
  std::string s = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) s += ',';
    s += std::to_string(values[i]);
  }
  return s + "]";
}

bool distinct_in_range(const std::vector<int64_t>& dims, int64_t rank) {
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (int64_t d : dims) {
    if (d < 0 || d >= rank || seen[d]) return false;
    seen[d] = true;
  }
  return true;
}

bool sorted_distinct_in_range(const std::vector<int64_t>& dims, int64_t rank) {
  return std::is_sorted(dims.begin(), dims.end()) && distinct_in_range(dims, rank);
}

namespace {

Result<Types> infer_unexplained(const RuleInput& r) {
  const OpInfo& row = info(r.op);
  NEURON_RULE(r.in.size() >= row.min_operands && (row.max_operands == kVariadic || r.in.size() <= row.max_operands), 1,
              std::to_string(r.in.size()) + " operands");
  NEURON_RULE(r.attrs.index() == row.attrs, 2, "attributes of another kind");
  if (r.op >= Op::reshape && r.op <= Op::scan) return infer_shape_op(r);
  if (r.op == Op::sort || r.op == Op::top_k) return infer_shape_op(r);
  if (r.op >= Op::dot_general) return infer_matmul_index(r);
  return infer_elementwise(r);
}

// At most 2^48 elements, so byte counts and products of two sizes stay in int64.
bool countable(const Type& t) {
  int64_t n = 1;
  for (int64_t d : t.shape) {
    if (d < 0) return false;
    if (d != 0 && n > (int64_t{1} << 48) / d) return false;
    n *= std::max<int64_t>(d, 1);
  }
  return true;
}

std::string at_node(const Graph& graph, size_t i) {
  const Node& node = graph.nodes[i];
  std::string s = "node " + std::to_string(i) + " (" + std::string(name_of(node.op));
  if (node.label > 0 && static_cast<size_t>(node.label) < graph.labels.size()) s += " from " + graph.labels[node.label];
  return s + ")";
}

Status verify_node(const Graph& graph, size_t i, std::map<int32_t, Type>& parameters) {
  const Node& node = graph.nodes[i];
  if (node.op >= Op::count_) return invalid_argument("graph.2: unknown operator");
  std::vector<const Type*> in;
  for (Value v : node.operands) {
    if (v.node < 0 || static_cast<size_t>(v.node) >= i || v.result < 0 ||
        static_cast<size_t>(v.result) >= graph.nodes[v.node].types.size()) {
      return invalid_argument("graph.1: operand is not a result of an earlier node");
    }
    in.push_back(&graph.type(v));
  }
  if (node.label < 0 || static_cast<size_t>(node.label) >= graph.labels.size())
    return invalid_argument("graph.8: no such label");
  for (const Type& t : node.types) {
    if (!countable(t)) return invalid_argument("graph.3: type " + to_string(t));
  }
  const Type* requested = node.types.empty() ? nullptr : &node.types[0];
  auto types = infer_types({node.op, in, node.attrs, requested});
  NEURON_RETURN_IF_ERROR(types.status());
  if (*types != node.types) {
    std::string wanted;
    for (const Type& t : *types) wanted += " " + to_string(t);
    return invalid_argument("graph.2: result types differ from the rule's:" + wanted);
  }
  if (node.op == Op::parameter) {
    const auto& a = std::get<ParameterAttrs>(node.attrs);
    if (a.kind == ParameterAttrs::Kind::tensor) {
      auto [it, fresh] = parameters.emplace(a.index, node.types[0]);
      if (!fresh && it->second != node.types[0]) return invalid_argument("graph.7: parameter " + std::to_string(a.index));
    }
  }
  return {};
}

Status verify_output(const Graph& graph, size_t i, const std::map<int32_t, Type>& parameters) {
  const Output& o = graph.outputs[i];
  if (o.value.node < 0 || static_cast<size_t>(o.value.node) >= graph.nodes.size() || o.value.result < 0 ||
      static_cast<size_t>(o.value.result) >= graph.node(o.value).types.size()) {
    return invalid_argument("graph.4: no such value");
  }
  const Type& t = graph.type(o.value);
  if (o.strides.size() != t.shape.size())
    return invalid_argument("graph.5: strides " + list(o.strides) + " for " + to_string(t));
  if (o.alias >= 0) {
    auto it = parameters.find(o.alias);
    if (it == parameters.end() || it->second.dtype != t.dtype) {
      return invalid_argument("graph.6: alias " + std::to_string(o.alias) + " for " + to_string(t));
    }
  }
  return {};
}

}  // namespace

Result<Types> infer_types(const RuleInput& r) {
  auto types = infer_unexplained(r);
  if (types.ok() || r.in.empty()) return types;
  std::string operands;
  for (const Type* t : r.in) operands += (operands.empty() ? "" : ", ") + to_string(*t);
  return Status(types.status().code(), types.status().message() + " (operands " + operands + ")");
}

Status verify(const Graph& graph) {
  std::map<int32_t, Type> parameters;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Status s = verify_node(graph, i, parameters);
    if (!s.ok()) return s.within(at_node(graph, i));
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Status s = verify_output(graph, i, parameters);
    if (!s.ok()) return s.within("output " + std::to_string(i));
  }
  return {};
}

}  // namespace neuron::ir
