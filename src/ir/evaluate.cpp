#include "ir/evaluate.h"

#include <algorithm>

namespace neuron::ir {
namespace {

Status evaluate_node(NodeCall c) {
  switch (c.node.op) {
    case Op::compare:
    case Op::complex:
      return evaluate_binary(c);
    case Op::select:
    case Op::clamp:
      return evaluate_select(c);
    case Op::reduce:
    case Op::arg_reduce:
    case Op::scan:
      return evaluate_reduction(c);
    case Op::sort:
    case Op::top_k:
      return evaluate_order(c);
    case Op::gather:
    case Op::scatter:
      return evaluate_index(c);
    case Op::dot_general:
      return evaluate_matmul(c);
    case Op::attention:
    case Op::attention_backward:
      return evaluate_attention(c);
    case Op::rng_bit_generator:
      return evaluate_random(c);
    case Op::custom_program:
      return unsupported("custom_program has no evaluation: its tile program defines it");
    default:
      break;
  }
  const Form form = info(c.node.op).form;
  if (form == Form::binary) return evaluate_binary(c);
  return form == Form::other ? evaluate_shape(c) : evaluate_unary(c);
}

Status load_parameter(const ParameterAttrs& a, const std::vector<Literal>& tensors, const std::vector<uint64_t>& scalars,
                      Literal& out) {
  const std::string which = (a.kind == ParameterAttrs::Kind::scalar ? "scalar slot " : "tensor ") + std::to_string(a.index);
  if (a.kind == ParameterAttrs::Kind::scalar) {
    const size_t slots = out.data.size() / sizeof(uint64_t);
    if (static_cast<size_t>(a.index) + slots > scalars.size()) return invalid_argument(which + " is not given");
    std::memcpy(out.data.data(), scalars.data() + a.index, out.data.size());
    return {};
  }
  if (static_cast<size_t>(a.index) >= tensors.size()) return invalid_argument(which + " is not given");
  const Literal& given = tensors[a.index];
  if (given.type != out.type || given.data.size() != out.data.size()) {
    return invalid_argument(which + " is " + to_string(given.type) + ", not " + to_string(out.type));
  }
  out.data = given.data;
  return {};
}

}  // namespace

Result<std::vector<Literal>> evaluate(const Graph& graph, const std::vector<Literal>& tensors,
                                      const std::vector<uint64_t>& scalars) {
  NEURON_RETURN_IF_ERROR(verify(graph));
  std::vector<std::vector<Literal>> results(graph.nodes.size());
  // The node that reads a result last; -1: nobody whose own result matters. Such nodes are not run.
  std::vector<int32_t> last_use(graph.nodes.size(), -1);
  for (const Output& o : graph.outputs) last_use[o.value.node] = static_cast<int32_t>(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (last_use[i] < 0) continue;
    for (Value v : graph.nodes[i].operands) last_use[v.node] = std::max(last_use[v.node], static_cast<int32_t>(i));
  }

  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (last_use[i] < 0) continue;
    for (const Type& t : node.types) {
      results[i].push_back({t, std::vector<uint8_t>(static_cast<size_t>(t.elements()) * size_of(t.dtype))});
    }
    std::vector<const Literal*> in;
    for (Value v : node.operands) in.push_back(&results[v.node][v.result]);
    const Status s = node.op == Op::parameter
                         ? load_parameter(std::get<ParameterAttrs>(node.attrs), tensors, scalars, results[i][0])
                         : evaluate_node({node, in, results[i]});
    if (!s.ok()) return node.label > 0 ? s.within(graph.labels[node.label]) : s;
    for (Value v : node.operands) {
      if (last_use[v.node] == static_cast<int32_t>(i)) results[v.node].clear();
    }
  }
  std::vector<Literal> outputs;
  for (const Output& o : graph.outputs) outputs.push_back(results[o.value.node][o.value.result]);
  return outputs;
}

}  // namespace neuron::ir
