#include "compiler/attention_expansion.h"

#include <limits>

#include "ir/builder.h"

namespace neuron::compiler {
namespace {

using ir::Builder;
using ir::Op;
using ir::Type;
using ir::Value;

// Softmax and its statistics are computed in f32, or in f64 for f64.
DType accumulation_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

Value multiply_by(Builder& b, Value x, double factor) { return b.binary(Op::multiply, x, b.splat(b.type(x), factor)); }

// x [B,H,S,D] . y [B,H,T,D]^T when both contract their last dimension; generally dims `cx` and `cy`, batch B, H.
Value batched_dot(Builder& b, Value x, int64_t cx, Value y, int64_t cy, DType result) {
  ir::DotAttrs attrs;
  attrs.lhs_batch = attrs.rhs_batch = {0, 1};
  attrs.lhs_contract = {cx};
  attrs.rhs_contract = {cy};
  attrs.result_dtype = result;
  return b.dot_general(x, y, attrs);
}

// Per-row [B,H,Sq] spread over the keys.
Value over_keys(Builder& b, Value row, const std::vector<int64_t>& shape) {
  return b.broadcast_in_dim(row, shape, {0, 1, 2});
}

Value zeros_like(Builder& b, Value x) { return b.splat(b.type(x), 0.0); }

struct Softmax {
  Value probabilities;  // before dropout
  Value logsumexp;      // [B,H,Sq]
};

// A fully masked row has probabilities 0 (as PyTorch's kernels give) and logsumexp -inf.
Softmax masked_softmax(Builder& b, Value q, Value k, Value mask, const ir::AttentionAttrs& attrs) {
  const DType compute = accumulation_type(b.type(q).dtype);
  Value scores = multiply_by(b, batched_dot(b, q, 3, k, 3, compute), attrs.scale);
  const Type type = b.type(scores);
  const Value minus_infinity = b.splat(type, -std::numeric_limits<double>::infinity());
  if (mask.present()) {
    const bool is_bool = b.type(mask).dtype == DType::boolean;
    Value full = b.broadcast_to(is_bool ? mask : b.convert(mask, compute), type.shape);
    scores = is_bool ? b.select(full, scores, minus_infinity) : b.binary(Op::add, scores, full);
  }
  if (attrs.causal) {
    const Type index{DType::i64, type.shape};
    Value allowed = b.compare(ir::Comparison::ge, b.iota(index, 2), b.iota(index, 3));
    scores = b.select(allowed, scores, minus_infinity);
  }
  Value maximum = b.reduce(ir::Reducer::maximum, scores, {3});
  const Type row_type = b.type(maximum);
  Value row_infinity = b.splat(row_type, -std::numeric_limits<double>::infinity());
  Value shift = b.select(b.compare(ir::Comparison::eq, maximum, row_infinity), zeros_like(b, maximum), maximum);
  Value exponentials = b.unary(Op::exponential, b.binary(Op::subtract, scores, over_keys(b, shift, type.shape)));
  Value sum = b.reduce(ir::Reducer::add, exponentials, {3});
  Value empty = b.compare(ir::Comparison::eq, sum, zeros_like(b, sum));
  Value divisor = b.select(empty, b.splat(row_type, 1.0), sum);
  Softmax result;
  result.probabilities = b.binary(Op::divide, exponentials, over_keys(b, divisor, type.shape));
  result.logsumexp = b.binary(Op::add, shift, b.unary(Op::log, sum));
  return result;
}

Value drop(Builder& b, Value x, Value keep, double keep_scale) {
  if (!keep.present()) return x;
  Value mask = b.broadcast_to(keep, b.type(x).shape);
  return b.select(mask, multiply_by(b, x, keep_scale), zeros_like(b, x));
}

std::vector<Value> expand_forward(Builder& b, const ir::AttentionAttrs& attrs, const std::vector<Value>& in) {
  const Value q = in[0], k = in[1], v = in[2];
  const Value mask = attrs.has_mask ? in[3] : Value{};
  const Value keep = attrs.has_keep ? in.back() : Value{};
  const DType dtype = b.type(q).dtype;
  const DType compute = accumulation_type(dtype);
  Softmax softmax = masked_softmax(b, q, k, mask, attrs);
  Value dropped = drop(b, softmax.probabilities, keep, attrs.keep_scale);
  Value out = batched_dot(b, dropped, 3, b.convert(v, compute), 2, compute);
  return {b.convert(out, dtype), softmax.logsumexp};
}

// The probabilities are recomputed with their own row sums, which keeps them independent of how logsumexp was rounded.
std::vector<Value> expand_backward(Builder& b, const ir::AttentionAttrs& attrs, const std::vector<Value>& in) {
  const Value q = in[1], k = in[2];
  const Value mask = attrs.has_mask ? in[6] : Value{};
  const Value keep = attrs.has_keep ? in.back() : Value{};
  const DType dtype = b.type(q).dtype;
  const DType compute = accumulation_type(dtype);
  const Value grad = b.convert(in[0], compute), v = b.convert(in[3], compute);
  Softmax softmax = masked_softmax(b, q, k, mask, attrs);
  const Value p = softmax.probabilities;
  const std::vector<int64_t> shape = b.type(p).shape;
  Value dv = batched_dot(b, drop(b, p, keep, attrs.keep_scale), 2, grad, 2, compute);
  Value dp = drop(b, batched_dot(b, grad, 3, v, 3, compute), keep, attrs.keep_scale);
  Value delta = b.reduce(ir::Reducer::add, b.binary(Op::multiply, p, dp), {3});
  Value ds = b.binary(Op::multiply, p, b.binary(Op::subtract, dp, over_keys(b, delta, shape)));
  ds = multiply_by(b, ds, attrs.scale);
  Value dq = batched_dot(b, ds, 3, b.convert(k, compute), 2, compute);
  Value dk = batched_dot(b, ds, 2, b.convert(q, compute), 2, compute);
  return {b.convert(dq, dtype), b.convert(dk, dtype), b.convert(dv, dtype)};
}

bool is_attention(const ir::Node& node) { return node.op == Op::attention || node.op == Op::attention_backward; }

}  // namespace

Result<ir::Graph> expand_attention(const ir::Graph& graph,
                                   const std::function<bool(const ir::Graph&, const ir::Node&)>& wanted) {
  bool any = false;
  for (const ir::Node& node : graph.nodes) any = any || (is_attention(node) && wanted(graph, node));
  if (!any) return graph;

  ir::Graph expanded;
  expanded.name = graph.name;
  expanded.labels = graph.labels;
  Builder builder(expanded);
  std::vector<std::vector<Value>> map(graph.nodes.size());
  const auto mapped = [&](Value v) { return v.present() ? map[v.node][v.result] : v; };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    std::vector<Value> operands;
    for (Value v : node.operands) operands.push_back(mapped(v));
    if (is_attention(node) && wanted(graph, node)) {
      const auto& attrs = std::get<ir::AttentionAttrs>(node.attrs);
      const size_t first = expanded.nodes.size();
      map[i] =
          node.op == Op::attention ? expand_forward(builder, attrs, operands) : expand_backward(builder, attrs, operands);
      NEURON_RETURN_IF_ERROR(builder.status());
      for (size_t j = first; j < expanded.nodes.size(); ++j) expanded.nodes[j].label = node.label;
      continue;
    }
    ir::Node copy = node;
    copy.operands = std::move(operands);
    expanded.nodes.push_back(std::move(copy));
    for (size_t r = 0; r < node.types.size(); ++r) {
      map[i].push_back({static_cast<int32_t>(expanded.nodes.size()) - 1, static_cast<int32_t>(r)});
    }
  }
  for (const ir::Output& output : graph.outputs)
    expanded.outputs.push_back({mapped(output.value), output.strides, output.alias});
  return expanded;
}

}  // namespace neuron::compiler
