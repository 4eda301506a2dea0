// strided_view, arg_reduce, scan, top_k, and reductions whose sums are kept wider than their dtype.
#include "ir/expand.h"
#include "ir/op_info.h"

namespace neuron::ir {
namespace {

// Reads by computed positions: offset + sum over dims of index * stride.
Value strided_view(Builder& b, const Node& node, Value x) {
  const auto& a = std::get<StridedViewAttrs>(node.attrs);
  const Type to = node.types[0];
  const Value flat = b.reshape(x, {b.type(x).elements()});
  const Type positions{DType::i64, to.shape};
  Value at = b.splat_int(positions, a.offset);
  for (size_t d = 0; d < to.shape.size(); ++d) {
    const Value step =
        b.binary(Op::multiply, b.iota(positions, static_cast<int64_t>(d)), b.splat_int(positions, a.strides[d]));
    at = b.binary(Op::add, at, step);
  }
  GatherAttrs gather;
  gather.collapsed_slice_dims = gather.start_index_map = {0};
  gather.slice_sizes = {to.elements() == 0 ? int64_t{0} : int64_t{1}};
  gather.index_vector_dim = static_cast<int64_t>(to.shape.size());
  gather.check_bounds = false;
  return b.gather(flat, at, gather);
}

// The smallest index that holds the extreme; NaN is the extreme when there is one.
Value arg_reduce(Builder& b, const Node& node, Value x) {
  const auto& a = std::get<ArgReduceAttrs>(node.attrs);
  const Type type = b.type(x);
  const Value extreme = b.reduce(a.maximum ? Reducer::maximum : Reducer::minimum, x, {a.dim});
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < static_cast<int64_t>(type.shape.size()); ++d) {
    if (d != a.dim) kept.push_back(d);
  }
  const Value spread = b.broadcast_in_dim(extreme, type.shape, kept);
  Value hit = b.compare(Comparison::eq, x, spread);
  if (is_floating(type.dtype)) {
    hit = b.select(b.compare(Comparison::ne, spread, spread), b.compare(Comparison::ne, x, x), hit);
  }
  const Type index{DType::i64, type.shape};
  return b.reduce(Reducer::minimum, b.select(hit, b.iota(index, a.dim), b.splat_int(index, type.shape[a.dim])), {a.dim});
}

// x moved by `by` along dim, the gap filled with `fill`.
Value shifted(Builder& b, Value x, int64_t dim, int64_t by, bool reverse, Value fill) {
  std::vector<int64_t> low(b.type(x).shape.size()), high = low;
  (reverse ? high : low)[dim] = by;
  (reverse ? low : high)[dim] = -by;
  return b.pad(x, fill, low, high);
}

bool narrow_float(DType t) { return is_floating(t) && size_of(t) < 4; }

// Doubling steps: after step k each element combines the 2^k before it.
std::vector<Value> scan(Builder& b, const Node& node, Value x) {
  const auto& a = std::get<ScanAttrs>(node.attrs);
  const Type original = b.type(x);
  const int64_t length = original.shape[a.dim];
  if (a.reducer == Reducer::add || a.reducer == Reducer::multiply) {
    if (narrow_float(original.dtype)) x = b.convert(x, DType::f32);
    const Value identity = b.splat({b.type(x).dtype, {}}, a.reducer == Reducer::add ? 0 : 1);
    for (int64_t by = 1; by < length; by *= 2) {
      x = b.binary(a.reducer == Reducer::add ? Op::add : Op::multiply, x, shifted(b, x, a.dim, by, a.reverse, identity));
    }
    return {b.convert(x, original.dtype)};
  }
  const Type positions{DType::i64, original.shape};
  Value index = b.iota(positions, a.dim);
  const Value zero = b.splat({original.dtype, {}}, 0), none = b.splat_int({DType::i64, {}}, -1);
  const Comparison better = a.reducer == Reducer::maximum ? Comparison::gt : Comparison::lt;
  for (int64_t by = 1; by < length; by *= 2) {
    const Value before = shifted(b, x, a.dim, by, a.reverse, zero), at = shifted(b, index, a.dim, by, a.reverse, none);
    // The earlier one stays only if it is strictly better, or NaN while the later is not.
    Value stays = b.compare(better, before, x);
    if (is_floating(original.dtype)) {
      const Value before_nan = b.compare(Comparison::ne, before, before), later_number = b.compare(Comparison::eq, x, x);
      stays = b.binary(Op::or_, stays, b.binary(Op::and_, before_nan, later_number));
    }
    stays = b.binary(Op::and_, stays, b.compare(Comparison::ge, at, b.splat_int(positions, 0)));
    x = b.select(stays, before, x);
    index = b.select(stays, at, index);
  }
  if (length <= 1)
    return {b.pad(x, zero, std::vector<int64_t>(original.shape.size()), std::vector<int64_t>(original.shape.size())), index};
  return {x, index};
}

std::vector<Value> top_k(Builder& b, const Node& node, Value x) {
  const auto& a = std::get<TopKAttrs>(node.attrs);
  const Value sorted = b.sort(x, static_cast<int64_t>(b.type(x).shape.size()) - 1, a.largest);
  const std::vector<int64_t> start(b.type(x).shape.size(), 0);
  return {b.slice(sorted, start, node.types[0].shape), b.slice({sorted.node, 1}, start, node.types[1].shape)};
}

}  // namespace

std::vector<Value> expand_moves(Builder& b, const Node& node, const std::vector<Value>& in) {
  switch (node.op) {
    case Op::strided_view:
      return {strided_view(b, node, in[0])};
    case Op::arg_reduce:
      return {arg_reduce(b, node, in[0])};
    case Op::scan:
      return scan(b, node, in[0]);
    case Op::top_k:
      return top_k(b, node, in[0]);
    case Op::reduce: {
      const auto& a = std::get<ReduceAttrs>(node.attrs);
      const bool sums = a.reducer == Reducer::add || a.reducer == Reducer::multiply;
      if (!sums || !narrow_float(b.type(in[0]).dtype)) return {};
      return {b.convert(b.reduce(a.reducer, b.convert(in[0], DType::f32), a.dims), node.types[0].dtype)};
    }
    default:
      return {};
  }
}

}  // namespace neuron::ir
