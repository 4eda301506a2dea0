#include "compiler/expand_ops.h"

#include <algorithm>

#include "ir/builder.h"

namespace neuron::compiler {

namespace {

constexpr int64_t kExactInF32 = int64_t{1} << 24;

// Smallest position of the greatest (least) element along `dim`; NaN counts as the greatest and as the least.
ir::Value expand_arg_reduce(ir::Builder& b, ir::Value x, const ir::ArgReduceAttrs& a) {
  const ir::Type type = b.type(x);
  const int64_t n = type.shape[static_cast<size_t>(a.dim)];
  std::vector<int64_t> others;
  for (size_t d = 0; d < type.shape.size(); ++d)
    if (static_cast<int64_t>(d) != a.dim) others.push_back(static_cast<int64_t>(d));
  const ir::Value best = b.reduce(a.maximum ? ir::Reducer::maximum : ir::Reducer::minimum, x, {a.dim});
  ir::Value hit = b.compare(ir::Comparison::eq, x, b.broadcast_in_dim(best, type.shape, others));
  if (is_floating(type.dtype)) hit = b.binary(ir::Op::or_, hit, b.unary(ir::Op::is_nan, x));
  const ir::Type position{n < kExactInF32 ? DType::f32 : DType::i64, type.shape};
  const ir::Value none = position.dtype == DType::f32 ? b.splat(position, static_cast<double>(n)) : b.splat_int(position, n);
  const ir::Value candidates = b.select(hit, b.iota(position, a.dim), none);
  return b.convert(b.reduce(ir::Reducer::minimum, candidates, {a.dim}), DType::i64);
}

}  // namespace

bool needs_expansion(const ir::Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const ir::Node& n) { return n.op == ir::Op::arg_reduce; });
}

Result<ir::Graph> expand_ops(const ir::Graph& graph) {
  ir::Graph out;
  out.name = graph.name;
  out.labels = graph.labels;
  ir::Builder b(out);
  std::vector<int32_t> number(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    ir::Node node = graph.nodes[i];
    for (ir::Value& v : node.operands) v.node = number[static_cast<size_t>(v.node)];
    const int32_t label = node.label;
    const size_t first = out.nodes.size();
    if (node.op == ir::Op::arg_reduce) {
      const ir::Value v = expand_arg_reduce(b, node.operands[0], std::get<ir::ArgReduceAttrs>(node.attrs));
      number[i] = v.node;
    } else {
      out.nodes.push_back(std::move(node));
      number[i] = static_cast<int32_t>(out.nodes.size()) - 1;
    }
    for (size_t k = first; k < out.nodes.size(); ++k) out.nodes[k].label = label;
  }
  NEURON_RETURN_IF_ERROR(b.status());
  out.outputs = graph.outputs;
  for (ir::Output& o : out.outputs) o.value.node = number[static_cast<size_t>(o.value.node)];
  return out;
}

}  // namespace neuron::compiler
