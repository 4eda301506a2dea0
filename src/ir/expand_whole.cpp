// dot_general with its accumulation dtype written out, attention and its backward, random bits.
#include <limits>

#include "ir/expand.h"

namespace neuron::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Operands converted to the dtype in which products are summed: f32 for narrower floats, else the result's.
Value dot_general(Builder& b, const Node& node, Value x, Value y) {
  DotAttrs a = std::get<DotAttrs>(node.attrs);
  const DType result = a.result_dtype;
  a.result_dtype = is_floating(result) && size_of(result) < 4 ? DType::f32 : result;
  if (b.type(x).dtype == a.result_dtype && result == a.result_dtype) return {};
  return b.convert(b.dot_general(b.convert(x, a.result_dtype), b.convert(y, a.result_dtype), a), result);
}

// [B,H,..] x [B,H,..]: contracts one of the two last dims of each.
Value product(Builder& b, Value x, Value y, int64_t x_dim, int64_t y_dim) {
  return b.dot_general(x, y, {{0, 1}, {0, 1}, {x_dim}, {y_dim}, b.type(x).dtype});
}

struct Attention {
  Builder& b;
  const AttentionAttrs& a;
  DType t;                      // of the calculation
  std::vector<int64_t> scores;  // [B,H,Sq,Sk]

  Attention(Builder& builder, const AttentionAttrs& attrs, const Type& q, const Type& k)
      : b(builder),
        a(attrs),
        t(q.dtype == DType::f64 ? DType::f64 : DType::f32),
        scores{q.shape[0], q.shape[1], q.shape[2], k.shape[2]} {}

  Ex ex(Value v) const { return {b, v}; }
  Ex wide(Value v) const { return ex(b.convert(v, t)); }
  Ex full(double number) const { return ex(b.splat({t, scores}, number)); }
  Ex rows(Value v) const { return ex(b.broadcast_in_dim(v, scores, {0, 1, 2})); }

  // scale * q k^T + mask, -inf where forbidden.
  Ex masked_scores(Value q, Value k, Value mask) const {
    Ex s = ex(product(b, b.convert(q, t), b.convert(k, t), 3, 3)) * a.scale;
    if (a.has_mask) {
      const Value m = b.broadcast_to(mask, scores);
      s = b.type(m).dtype == DType::boolean ? select(ex(m), s, full(-kInf)) : s + wide(m);
    }
    if (a.causal) {
      const Type index{DType::i32, scores};
      s = select(compare(Comparison::gt, ex(b.iota(index, 3)), ex(b.iota(index, 2))), full(-kInf), s);
    }
    return s;
  }

  Ex kept(Ex p, Value keep) const { return a.has_keep ? select(ex(keep), p * a.keep_scale, full(0)) : p; }
};

std::vector<Value> attention(Builder& b, const Node& node, const std::vector<Value>& in) {
  const auto& a = std::get<AttentionAttrs>(node.attrs);
  const Attention n(b, a, b.type(in[0]), b.type(in[1]));
  const Ex s = n.masked_scores(in[0], in[1], a.has_mask ? in[3] : Value{});
  const Value top = b.reduce(Reducer::maximum, s.value(), {3});
  const Ex lowest = n.ex(b.splat(b.type(top), -kInf));
  const Ex empty = compare(Comparison::eq, n.ex(top), lowest);
  const Ex shift = select(empty, n.ex(b.splat(b.type(top), 0)), n.ex(top));
  const Ex e = unary(Op::exponential, s - n.rows(shift.value()));
  const Ex total = n.ex(b.reduce(Reducer::add, e.value(), {3}));
  const Ex divisor = select(empty, n.ex(b.splat(b.type(top), 1)), total);
  const Ex p = n.kept(e / n.rows(divisor.value()), a.has_keep ? in[3 + a.has_mask] : Value{});
  const Value out = product(b, p.value(), b.convert(in[2], n.t), 3, 2);
  const Ex lse = select(empty, lowest, unary(Op::log, divisor) + shift);
  return {b.convert(out, node.types[0].dtype), b.convert(lse.value(), node.types[1].dtype)};
}

std::vector<Value> attention_backward(Builder& b, const Node& node, const std::vector<Value>& in) {
  const auto& a = std::get<AttentionAttrs>(node.attrs);
  const Attention n(b, a, b.type(in[1]), b.type(in[2]));
  const Value keep = a.has_keep ? in[6 + a.has_mask] : Value{};
  const Value g = b.convert(in[0], n.t), q = b.convert(in[1], n.t), k = b.convert(in[2], n.t), v = b.convert(in[3], n.t);
  const Ex s = n.masked_scores(in[1], in[2], a.has_mask ? in[6] : Value{});
  const Ex lse = n.rows(b.convert(in[5], n.t));
  const Ex p = select(compare(Comparison::eq, lse, n.full(-kInf)), n.full(0), unary(Op::exponential, s - lse));
  const Value delta = b.reduce(Reducer::add, b.binary(Op::multiply, g, b.convert(in[4], n.t)), {3});
  const Ex dp = n.kept(n.ex(product(b, g, v, 3, 3)), keep);
  const Ex ds = p * (dp - n.rows(delta)) * a.scale;
  const Value dv = product(b, n.kept(p, keep).value(), g, 2, 2);
  const Value dq = product(b, ds.value(), k, 3, 2), dk = product(b, ds.value(), q, 2, 2);
  return {b.convert(dq, node.types[0].dtype), b.convert(dk, node.types[1].dtype), b.convert(dv, node.types[2].dtype)};
}

// Philox4x32-10 in 64-bit arithmetic on 32-bit words.
Value random_bits(Builder& b, const Node& node, Value seed, Value offset) {
  const std::vector<int64_t>& shape = node.types[0].shape;
  const Type wide{DType::u64, shape};
  Value position = b.splat_int({DType::u64, {1}}, 0);
  const int64_t count = node.types[0].elements();
  if (count > 0) position = b.iota({DType::u64, {count}}, 0);
  const Ex counter =
      Ex(b, b.broadcast_to(offset, shape)) + Ex(b, count > 0 ? b.reshape(position, shape) : b.splat_int(wide, 0));
  const auto low = [](Ex x) { return binary(Op::and_, x, x.like_int(0xffffffff)); };
  const auto high = [](Ex x) { return binary(Op::shift_right_logical, x, x.like_int(32)); };
  Ex x0 = low(counter), x1 = high(counter), x2 = x0.like_int(0), x3 = x2;
  const Ex key(b, b.broadcast_to(seed, shape));
  Ex k0 = low(key), k1 = high(key);
  const auto exclusive_or = [](Ex x, Ex y) { return binary(Op::xor_, x, y); };
  for (int round = 0; round < 10; ++round) {
    const Ex even = x0 * x0.like_int(0xD2511F53), odd = x2 * x2.like_int(0xCD9E8D57);
    x0 = exclusive_or(exclusive_or(high(odd), x1), k0);
    x2 = exclusive_or(exclusive_or(high(even), x3), k1);
    x1 = low(odd);
    x3 = low(even);
    k0 = low(k0 + k0.like_int(0x9E3779B9));
    k1 = low(k1 + k1.like_int(0xBB67AE85));
  }
  if (node.types[0].dtype == DType::u32) return x0.convert(DType::u32).value();
  return binary(Op::or_, x0, binary(Op::shift_left, x1, x1.like_int(32))).value();
}

}  // namespace

std::vector<Value> expand_whole(Builder& b, const Node& node, const std::vector<Value>& in) {
  switch (node.op) {
    case Op::dot_general: {
      const Value product = dot_general(b, node, in[0], in[1]);
      return product.present() ? std::vector<Value>{product} : std::vector<Value>{};
    }
    case Op::attention:
      return attention(b, node, in);
    case Op::attention_backward:
      return attention_backward(b, node, in);
    case Op::rng_bit_generator:
      return {random_bits(b, node, in[0], in[1])};
    default:
      return {};
  }
}

}  // namespace neuron::ir
