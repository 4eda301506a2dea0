// Generator themes that move, index or contract: shape operators, gather and scatter, dot_general, attention.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/graph_generator.h"
#include "ir/op_info.h"

namespace neuron::ir::testing {
namespace {

int64_t rank_of(const Type& t) { return static_cast<int64_t>(t.shape.size()); }

}  // namespace

bool GraphGenerator::add_cut(Value x) {
  const Type t = builder_->type(x);
  const Known k = known(x);
  const int64_t rank = rank_of(t);
  if (chance(0.5)) {
    std::vector<int64_t> start, limit, stride;
    for (int64_t d : t.shape) {
      start.push_back(pick(0, d));
      limit.push_back(pick(start.back(), d));
      if (limit.back() == start.back()) start.back() = 0, limit.back() = d;
      stride.push_back(pick(1, 3));
    }
    note(builder_->slice(x, start, limit, stride), k);
    return true;
  }
  const bool complex = is_complex(t.dtype);
  const Value fill = complex ? builder_->splat({t.dtype, {}}, 0) : like({t.dtype, {}}, true);
  std::vector<int64_t> low, high, interior;
  int64_t elements = 1;
  for (int64_t d = 0; d < rank; ++d) {
    low.push_back(pick(t.shape[d] > 2 ? -1 : 0, 2));
    high.push_back(pick(t.shape[d] > 2 ? -1 : 0, 2));
    interior.push_back(chance(0.2) ? pick(0, 2) : 0);
    elements *= t.shape[d] * (1 + interior[d]) + 4;
  }
  if (elements > options_.max_elements) return false;
  note(builder_->pad(x, fill, low, high, interior), {std::max(k.magnitude, 3.0), k.error});
  return true;
}

bool GraphGenerator::add_dynamic(Value x) {
  const Type t = builder_->type(x);
  std::vector<Value> starts;
  std::vector<int64_t> sizes;
  for (int64_t d : t.shape) {
    sizes.push_back(pick(options_.empty_tensors ? 0 : 1, d));
    starts.push_back(builder_->splat_int({DType::i64, {}}, pick(-2, d + 1)));  // clamped
  }
  if (chance(0.5)) {
    note(builder_->dynamic_slice(x, starts, sizes), known(x));
  } else {
    const Value update = like({t.dtype, sizes}, false);
    note(builder_->dynamic_update_slice(x, update, starts),
         {std::max(known(x).magnitude, known(update).magnitude), std::max(known(x).error, known(update).error)});
  }
  return true;
}

bool GraphGenerator::add_shape() {
  const Value x = any();
  const Type t = builder_->type(x);
  const Known k = known(x);
  const int64_t rank = rank_of(t), elements = t.elements();
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::shuffle(order.begin(), order.end(), random_);
  switch (pick(0, 8)) {
    case 0: {  // reshape: two dims become one, or one splits
      std::vector<int64_t> shape = t.shape;
      if (rank >= 2 && chance(0.6)) {
        const int64_t d = pick(0, rank - 2);
        shape[d] *= shape[d + 1];
        shape.erase(shape.begin() + d + 1);
      } else {
        shape.insert(shape.begin() + pick(0, rank), 1);
        if (rank >= 5) return false;
        for (int64_t factor : {2, 3}) {
          if (rank >= 1 && shape[rank] % factor == 0 && shape[rank] > 0) {
            shape = t.shape;
            shape.back() /= factor;
            shape.push_back(factor);
            break;
          }
        }
      }
      note(builder_->reshape(x, shape), k);
      return true;
    }
    case 1: {
      const int64_t extra = pick(1, 4);
      if (elements * extra > options_.max_elements || rank >= options_.max_rank) return false;
      std::vector<int64_t> shape = t.shape, dims(rank);
      const int64_t at = pick(0, rank);
      shape.insert(shape.begin() + at, extra);
      for (int64_t d = 0; d < rank; ++d) dims[d] = d < at ? d : d + 1;
      note(builder_->broadcast_in_dim(x, shape, dims), k);
      return true;
    }
    case 2:
      note(builder_->transpose(x, order), k);
      return true;
    case 3:
      return add_cut(x);
    case 4: {
      if (rank == 0 || elements * 3 > options_.max_elements) return false;
      const int64_t dim = pick(0, rank - 1);
      Type other = t;
      other.shape[dim] = pick(options_.empty_tensors ? 0 : 1, 4);
      const Value y = like(other, false);
      const Value parts[] = {x, y, x};
      note(builder_->concatenate(std::span(parts, pick(2, 3)), dim),
           {std::max(k.magnitude, known(y).magnitude), std::max(k.error, known(y).error)});
      return true;
    }
    case 5:
      order.resize(pick(0, rank));
      note(builder_->reverse(x, order), k);
      return true;
    case 6: {  // a window over the row-major elements, possibly overlapping or reversed
      if (elements < 4) return false;
      const int64_t rows = pick(1, 4), columns = pick(1, std::min<int64_t>(elements / 2, 8));
      const int64_t room = elements - columns, step = rows > 1 ? pick(0, room / (rows - 1)) : 0;
      const bool backward = chance(0.3);
      note(builder_->strided_view(x, {rows, columns}, {step, backward ? -1 : 1}, backward ? columns - 1 : 0), k);
      return true;
    }
    case 7:
      return rank > 0 && add_dynamic(x);
    default: {
      const DType t_iota = chance(0.5) ? DType::i64 : DType::f32;
      std::vector<int64_t> shape = random_shape();
      if (shape.empty()) return false;
      const int64_t dim = pick(0, static_cast<int64_t>(shape.size()) - 1);
      const auto last = static_cast<double>(shape[dim]);
      note(builder_->iota({t_iota, shape}, dim), {last, 0});
      return true;
    }
  }
}

bool GraphGenerator::add_dot() {
  const Value a = any_of(kInt | kFloat, false);
  if (!a.present()) return false;
  const Type t = builder_->type(a);
  const int64_t rank = rank_of(t);
  if (rank < 1 || size_of(t.dtype) < 2) return false;
  DotAttrs dot;
  dot.lhs_contract = {pick(0, rank - 1)};
  std::vector<int64_t> other;
  for (int64_t d = 0; d < rank && static_cast<int64_t>(dot.lhs_batch.size()) < rank - 2; ++d) {
    if (d == dot.lhs_contract[0] || !chance(0.6)) continue;
    dot.lhs_batch.push_back(d);
    dot.rhs_batch.push_back(static_cast<int64_t>(other.size()));
    other.push_back(t.shape[d]);
  }
  const bool first = chance(0.5);  // free dim before or after the contracted one
  const int64_t free = pick(1, 12), contracted = t.shape[dot.lhs_contract[0]];
  dot.rhs_contract = {static_cast<int64_t>(other.size()) + (first ? 1 : 0)};
  other.push_back(first ? free : contracted);
  other.push_back(first ? contracted : free);
  if (t.elements() / std::max<int64_t>(contracted, 1) * free > options_.max_elements) return false;
  const Value b = like({t.dtype, other}, false);
  const Known ka = known(a), kb = known(b);
  const double n = static_cast<double>(std::max<int64_t>(contracted, 1)), product = ka.magnitude * kb.magnitude;
  if (product * n > 4000) return false;
  dot.result_dtype = is_floating(t.dtype) && size_of(t.dtype) == 2 && chance(0.4) ? DType::f32 : t.dtype;
  const Value v = builder_->dot_general(a, b, dot);
  const double error = n * (ka.magnitude * kb.error + kb.magnitude * ka.error) + n * 0x1p-22 * n * product;
  note(v, {product * n, is_floating(t.dtype) ? error + round_error(v, product * n) : 0});
  return true;
}

bool GraphGenerator::add_index() {
  const Value x = any_of(kBool | kInt | kFloat, false);
  if (!x.present()) return false;
  const Type t = builder_->type(x);
  const int64_t rank = rank_of(t);
  if (rank == 0) return false;
  const int64_t dim = pick(0, rank - 1), length = pick(1, 6);
  if (t.shape[dim] == 0 || t.elements() / t.shape[dim] * length > options_.max_elements) return false;
  const Value index = index_constant({length}, t.shape[dim]);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != dim) others.push_back(d);
  }
  if (chance(0.6)) {  // slices along dim, as index_select
    GatherAttrs g;
    g.offset_dims = others;
    g.collapsed_slice_dims = g.start_index_map = {dim};
    g.slice_sizes = t.shape;
    g.slice_sizes[dim] = 1;
    g.index_vector_dim = 1;
    note(builder_->gather(x, index, g), known(x));
    return true;
  }
  Type updates = t;
  updates.shape[dim] = length;
  const Value u = like(updates, false);
  ScatterAttrs s;
  s.update_window_dims = others;
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {dim};
  s.index_vector_dim = 1;
  const Reducer reducers[] = {Reducer::add, Reducer::maximum, Reducer::minimum, Reducer::assign};
  s.combine = reducers[pick(0, 3)];
  const Known kx = known(x), ku = known(u);
  const double magnitude = kx.magnitude + static_cast<double>(length) * ku.magnitude;
  if (magnitude > 4000) return false;
  const Value v = builder_->scatter(x, index, u, s);
  const bool adds = s.combine == Reducer::add && is_floating(t.dtype);
  const auto n = static_cast<double>(length);
  note(v, {magnitude, adds ? kx.error + n * ku.error + (n + 1) * round_error(v, magnitude) : std::max(kx.error, ku.error)});
  return true;
}

bool GraphGenerator::add_attention() {
  std::vector<DType> floats;
  for (DType t : options_.dtypes) {
    if (is_floating(t) && size_of(t) >= 2) floats.push_back(t);
  }
  if (floats.empty()) return false;
  const DType t = floats[pick(0, static_cast<int64_t>(floats.size()) - 1)];
  const int64_t B = pick(1, 2), H = pick(1, 2), Sq = pick(1, 9), Sk = pick(1, 9), D = pick(1, 8), Dv = pick(1, 8);
  const Value q = input({t, {B, H, Sq, D}}), k = input({t, {B, H, Sk, D}}), v = input({t, {B, H, Sk, Dv}});
  AttentionAttrs a;
  a.scale = 0.25;
  a.causal = chance(0.4);
  const Value mask = chance(0.4) ? input({chance(0.5) ? DType::boolean : t, {chance(0.5) ? Sq : 1, Sk}}) : Value{};
  const Value keep = chance(0.3) ? input({DType::boolean, {B, H, Sq, Sk}}) : Value{};
  a.keep_scale = keep.present() ? 1.25 : 1;
  const Value out = builder_->attention(q, k, v, mask, keep, a);
  // Scores up to 0.25 * 8 * 4 + 2: errors of the exponent times the size of v, and the rounding of out.
  const double error = 64 * epsilon_of(t) * 4;
  note(out, {12, error});
  if (chance(0.5)) {
    const Value grad = input({t, {B, H, Sq, Dv}});
    const Value first = builder_->attention_backward(grad, q, k, v, out, {out.node, 1}, mask, keep, a);
    note(first, {200, 100 * error});
  }
  return true;
}

}  // namespace neuron::ir::testing
