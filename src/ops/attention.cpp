// Scaled dot-product attention as one operator, with dropout, masks, causality and grouped queries, and its backward.
//
// Inputs [B,H,S,D] or [H,S,D]; keys and values may have fewer heads (H a multiple of theirs). Not supported: nested tensors,
// return_debug_mask. Statistics and products are accumulated in f32 (f64 for f64).
#include <cmath>
#include <limits>

#include "ops/random.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

bool takes(const Lowering& l) {
  const TensorMeta &q = l.meta("query"), &k = l.meta("key"), &v = l.meta("value");
  const size_t rank = q.shape.size();
  if ((rank != 3 && rank != 4) || k.shape.size() != rank || v.shape.size() != rank) return false;
  if (!is_floating(q.dtype) || q.dtype != k.dtype || q.dtype != v.dtype) return false;
  const size_t heads = rank - 3, rows = rank - 2, depth = rank - 1;
  const bool heads_fit = k.shape[heads] == v.shape[heads] && k.shape[heads] > 0 && q.shape[heads] % k.shape[heads] == 0;
  return heads_fit && q.shape[depth] == k.shape[depth] && k.shape[rows] == v.shape[rows] &&
         (rank == 3 || (q.shape[0] == k.shape[0] && q.shape[0] == v.shape[0]));
}

Val as_rank4(const Val& x) { return x.rank() == 3 ? unsqueeze(x, 0) : x; }

// Keys or values for each of `heads` query heads.
Val repeat_heads(const Val& x, int64_t heads) {
  const Shape s = x.shape();
  if (s[1] == heads) return x;
  return reshape(broadcast_to(unsqueeze(x, 2), {s[0], s[1], heads / s[1], s[2], s[3]}), {s[0], heads, s[2], s[3]});
}
// Its backward.
Val sum_heads(const Val& x, int64_t heads) {
  const Shape s = x.shape();
  if (s[1] == heads) return x;
  const Val parts = reshape(convert(x, opmath(x.dtype())), {s[0], heads, s[1] / heads, s[2], s[3]});
  return convert(sum(parts, {2}), x.dtype());
}

double scale_of(const Lowering& l) {
  if (const auto scale = l.number("scale")) return *scale;
  return 1.0 / std::sqrt(static_cast<double>(l.meta("query").shape.back()));
}

struct Operands {
  Val q, k, v, bias;
  double dropout = 0;
  ir::AttentionAttrs attrs;
  Shape scores;  // [B,H,Sq,Sk]
};

Operands operands_of(Lowering& l) {
  Operands o;
  o.q = as_rank4(l.raw("query"));
  o.k = repeat_heads(as_rank4(l.raw("key")), o.q.size(1));
  o.v = repeat_heads(as_rank4(l.raw("value")), o.q.size(1));
  if (l.has("attn_bias")) {
    o.bias = l.raw("attn_bias");
    if (o.bias.dtype() != DType::boolean) o.bias = convert(o.bias, o.q.dtype());
  }
  o.dropout = l.number("dropout_p").value_or(0);
  o.attrs.scale = scale_of(l);
  o.attrs.causal = l.flag("is_causal");
  o.attrs.keep_scale = o.dropout >= 1 ? 0 : 1 / (1 - o.dropout);
  o.scores = {o.q.size(0), o.q.size(1), o.q.size(2), o.k.size(2)};
  return o;
}

Val keep_mask(const Val& seed, const Val& offset, const Operands& o) {
  if (o.dropout <= 0) return {};
  return bernoulli_from(seed, offset, o.scores, full(o.q.builder(), DType::f32, {}, 1 - o.dropout));
}

ir::Value value_or_none(const Val& x) { return x.present() ? x.value() : ir::Value{}; }

DType statistic_dtype(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

std::optional<Metas> attention_result(const Lowering& l) {
  if (!takes(l) || l.flag("return_debug_mask")) return std::nullopt;
  const TensorMeta& q = l.meta("query");
  Metas metas(9);
  Shape out = q.shape;
  out.back() = l.meta("value").shape.back();
  const Shape strides = preserved_strides(out, q.strides);
  metas[0] = TensorMeta{q.dtype, std::move(out), strides};
  const size_t rank = q.shape.size();
  metas[1] = contiguous_meta(statistic_dtype(q.dtype), {rank == 4 ? q.shape[0] : 1, q.shape[rank - 3], q.shape[rank - 2]});
  metas[6] = metas[7] = contiguous_meta(DType::i64, {});
  return metas;
}

// Results 4 and 5 of the schema (max_q, max_k) are numbers, not tensors: absent here, the sequence lengths for the caller.
std::vector<Val> attention(Lowering& l) {
  if (!takes(l) || l.flag("return_debug_mask")) return {l.unsupported("attention of these operands")};
  const Operands o = operands_of(l);
  const bool drops = o.dropout > 0;
  const Val seed = drops ? l.seed() : Val(), offset = drops ? l.rng_offset() : Val();
  const Val keep = keep_mask(seed, offset, o);
  const Val out(l.builder(), l.builder().attention(o.q.value(), o.k.value(), o.v.value(), value_or_none(o.bias),
                                                   value_or_none(keep), o.attrs));
  std::vector<Val> results(9);
  Shape shape = l.meta("query").shape;
  shape.back() = o.v.size(3);
  results[0] = reshape(out, shape);
  const Val statistic = out.result(1);
  results[1] = convert(statistic, l.expected(1) ? l.expected(1)->dtype : statistic.dtype());
  const Val nothing = full_int(l.builder(), DType::i64, {}, 0);
  results[6] = drops ? convert(seed, DType::i64) : nothing;
  results[7] = drops ? convert(offset, DType::i64) : nothing;
  return results;
}

std::optional<Metas> attention_backward_result(const Lowering& l) {
  if (!takes(l)) return std::nullopt;
  const auto* mask = l.argument("grad_input_mask") ? std::get_if<std::vector<bool>>(l.argument("grad_input_mask")) : nullptr;
  Metas metas(4);
  const char* names[] = {"query", "key", "value", "attn_bias"};
  for (size_t i = 0; i < 4; ++i) {
    if ((mask && !(*mask)[i]) || !l.has(names[i])) continue;
    const TensorMeta& m = l.meta(names[i]);
    metas[i] = TensorMeta{m.dtype, m.shape, preserved_strides(m.shape, m.strides)};
  }
  return metas;
}

// The gradient of an additive bias: ds = p * (dp - rowsum(grad * out)), summed over broadcast dims.
Val bias_gradient(const Operands& o, const Val& grad, const Val& out, const Val& statistic, const Val& keep,
                  const Shape& shape) {
  const DType t = statistic_dtype(o.q.dtype());
  const double inf = std::numeric_limits<double>::infinity();
  Val scores = matmul(o.q, swap_dims(o.k, 2, 3), t) * o.attrs.scale + convert(o.bias, t);
  if (o.attrs.causal) {
    const Val row = iota(o.q.builder(), DType::i32, o.scores, 2), column = iota(o.q.builder(), DType::i32, o.scores, 3);
    scores = where(gt(column, row), like(scores, -inf), scores);
  }
  const Val rows = unsqueeze(statistic, 3);
  const Val p = where(eq(rows, -inf), like(scores, 0), exp(scores - rows));
  Val dp = matmul(grad, swap_dims(o.v, 2, 3), t);
  if (keep.present()) dp = where(keep, dp * o.attrs.keep_scale, like(dp, 0));
  const Val delta = sum(convert(grad, t) * convert(out, t), {3}, true);
  return sum_to(p * (dp - delta), shape);
}

std::vector<Val> attention_backward(Lowering& l) {
  if (!takes(l)) return {l.unsupported("attention of these operands")};
  const Operands o = operands_of(l);
  const auto* mask = l.argument("grad_input_mask") ? std::get_if<std::vector<bool>>(l.argument("grad_input_mask")) : nullptr;
  const Val grad = convert(as_rank4(l.raw("grad_out")), o.q.dtype()), out = as_rank4(l.raw("out"));
  const Val statistic = convert(l.raw("logsumexp"), statistic_dtype(o.q.dtype()));
  Val keep;
  if (o.dropout > 0)
    keep = keep_mask(convert(l.raw("philox_seed"), DType::u64), convert(l.raw("philox_offset"), DType::u64), o);
  const Val first(l.builder(),
                  l.builder().attention_backward(grad.value(), o.q.value(), o.k.value(), o.v.value(), out.value(),
                                                 statistic.value(), value_or_none(o.bias), value_or_none(keep), o.attrs));
  const int64_t heads = as_rank4(l.raw("key")).size(1);
  std::vector<Val> results(4);
  const auto wanted = [&](size_t i) { return !mask || (*mask)[i]; };
  if (wanted(0)) results[0] = reshape(first, l.meta("query").shape);
  if (wanted(1)) results[1] = reshape(sum_heads(first.result(1), heads), l.meta("key").shape);
  if (wanted(2)) results[2] = reshape(sum_heads(first.result(2), heads), l.meta("value").shape);
  if (o.bias.present() && o.bias.dtype() != DType::boolean && wanted(3)) {
    const TensorMeta& bias = l.meta("attn_bias");
    results[3] = convert(bias_gradient(o, grad, out, statistic, keep, bias.shape), bias.dtype);
  }
  return results;
}

int64_t dropped_elements(const Lowering& l) {
  if (l.number("dropout_p").value_or(0) <= 0) return 0;
  const Shape &q = l.meta("query").shape, &k = l.meta("key").shape;
  return element_count(q) / std::max<int64_t>(q.back(), 1) * k[k.size() - 2];
}

}  // namespace

void register_attention(Registry& registry) {
  NEURON_OP("aten::_scaled_dot_product_fused_attention_overrideable", no_promotion(), result(attention_result), attention)
      .structural("dropout_p")
      .structural("scale")
      .uses_rng(dropped_elements);
  NEURON_OP("aten::_scaled_dot_product_fused_attention_overrideable_backward", no_promotion(),
            result(attention_backward_result), attention_backward)
      .structural("dropout_p")
      .structural("scale");
}

}  // namespace neuron::ops
