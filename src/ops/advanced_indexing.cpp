// index.Tensor and index_put with integer indices, and selection by mask.
//
// Not supported: bool index tensors in index and index_put (their result shapes depend on data: the caller turns them into
// integers with neuron::nonzero_*).
//
// Data-dependent results come as pairs of operators of our own: a count, and a fill that takes the capacity of its result
// (at least the count; the rest is zero):
//   neuron::nonzero_count(self) -> i64[]              neuron::nonzero_fill(self, capacity) -> i64[capacity, self.dim()]
//   neuron::masked_select_count(self, mask) -> i64[]  neuron::masked_select_fill(self, mask, capacity) ->
//   self.dtype[capacity]
#include <algorithm>

#include "ops/indexing.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

// Where the index tensors sit and what the indexed result looks like.
struct IndexPlan {
  std::vector<int64_t> indexed;  // dims of self with an index tensor
  Shape index_shape;             // their common broadcast shape
  int64_t front = 0;             // position of index_shape in the result
  bool adjacent = true;          // false: the indexed dims move to the front
};

template <class List, class ShapeOf>
std::optional<IndexPlan> plan_index(const List& indices, int64_t rank, ShapeOf shape_of) {
  IndexPlan plan;
  if (static_cast<int64_t>(indices.size()) > rank) return std::nullopt;
  for (size_t d = 0; d < indices.size(); ++d) {
    const std::optional<Shape> shape = shape_of(indices[d]);
    if (!shape) continue;
    plan.indexed.push_back(static_cast<int64_t>(d));
    const auto joined = broadcast_shapes(plan.index_shape, *shape);
    if (!joined) return std::nullopt;
    plan.index_shape = *joined;
  }
  if (plan.indexed.empty()) return std::nullopt;
  plan.adjacent = plan.indexed.back() - plan.indexed.front() + 1 == static_cast<int64_t>(plan.indexed.size());
  plan.front = plan.adjacent ? plan.indexed.front() : 0;
  return plan;
}

bool is_indexed(const IndexPlan& plan, int64_t dim) {
  return std::find(plan.indexed.begin(), plan.indexed.end(), dim) != plan.indexed.end();
}

// Dims of the result that come from self's other dims, in order.
std::vector<int64_t> window_dims(const IndexPlan& plan, int64_t rank) {
  std::vector<int64_t> dims;
  int64_t position = 0;
  for (int64_t d = 0; d < rank; ++d) {
    if (is_indexed(plan, d)) continue;
    dims.push_back(position < plan.front ? position : position + static_cast<int64_t>(plan.index_shape.size()));
    ++position;
  }
  return dims;
}

Shape indexed_shape(const IndexPlan& plan, const Shape& self) {
  Shape shape;
  for (size_t d = 0; d < self.size(); ++d) {
    if (!is_indexed(plan, static_cast<int64_t>(d))) shape.push_back(self[d]);
  }
  shape.insert(shape.begin() + plan.front, plan.index_shape.begin(), plan.index_shape.end());
  return shape;
}

std::optional<Shape> meta_shape(const std::optional<TensorArg>& t) {
  return t ? std::optional<Shape>(t->meta.shape) : std::nullopt;
}
std::optional<Shape> value_shape(const Val& v) { return v.present() ? std::optional<Shape>(v.shape()) : std::nullopt; }

bool integer_indices(const TensorList& indices) {
  for (const auto& t : indices) {
    if (t && t->meta.dtype != DType::i64 && t->meta.dtype != DType::i32) return false;
  }
  return true;
}

// TensorIterator over self, restrided to the result's shape with 0 at the index dims, and the index tensors.
std::optional<Metas> index_result(const Lowering& l) {
  const TensorMeta& self = l.meta("self");
  const TensorList& indices = l.list("indices");
  const auto rank = static_cast<int64_t>(self.shape.size());
  const auto plan = plan_index(indices, rank, meta_shape);
  if (!plan || !integer_indices(indices)) return std::nullopt;
  const Shape shape = indexed_shape(*plan, self.shape);
  bool chooses_from_nothing = false;
  for (int64_t d : plan->indexed) chooses_from_nothing = chooses_from_nothing || self.shape[d] == 0;
  if (chooses_from_nothing && element_count(plan->index_shape) != 0) return std::nullopt;

  Shape source_strides;
  for (int64_t d = 0; d < rank; ++d) {
    if (!is_indexed(*plan, d)) source_strides.push_back(self.strides[d]);
  }
  source_strides.insert(source_strides.begin() + plan->front, plan->index_shape.size(), 0);
  std::vector<Operand> operands{{shape, source_strides}};
  const size_t after = shape.size() - plan->front - plan->index_shape.size();
  for (const auto& t : indices) {
    if (!t) continue;
    Operand o{Shape(plan->index_shape.size() - t->meta.shape.size(), 1),
              Shape(plan->index_shape.size() - t->meta.shape.size(), 0)};
    o.shape.insert(o.shape.end(), t->meta.shape.begin(), t->meta.shape.end());
    o.strides.insert(o.strides.end(), t->meta.strides.begin(), t->meta.strides.end());
    for (size_t d = 0; d < o.shape.size(); ++d) {  // expanded to the common shape
      if (o.shape[d] == 1 && plan->index_shape[d] != 1) o.strides[d] = 0;
    }
    o.shape = plan->index_shape;
    o.shape.insert(o.shape.begin(), plan->front, 1);
    o.strides.insert(o.strides.begin(), plan->front, 0);
    o.shape.insert(o.shape.end(), after, 1);
    o.strides.insert(o.strides.end(), after, 1);
    operands.push_back(std::move(o));
  }
  Shape strides = iterator_strides(shape, operands);
  return one({self.dtype, shape, std::move(strides)});
}

// One index tensor with the index vector in its last dim (or as it is, for one indexed dim).
Val index_vectors(const Val& x, const std::vector<Val>& indices, const IndexPlan& plan) {
  std::vector<Val> parts;
  for (int64_t d : plan.indexed) {
    const Val index = wrap_negative(convert(indices[d], DType::i64), x.size(d));
    parts.push_back(unsqueeze(broadcast_to(index, plan.index_shape), static_cast<int64_t>(plan.index_shape.size())));
  }
  return concatenate(parts, static_cast<int64_t>(plan.index_shape.size()));
}

Val index(Lowering& l) {
  const Val x = l.raw("self");
  const std::vector<Val> indices = l.tensors("indices");
  const auto plan = plan_index(indices, x.rank(), value_shape);
  if (!plan) return l.unsupported("an index without index tensors, or with ones that do not broadcast,");
  for (int64_t d : plan->indexed) {
    if (!is_integer(indices[d].dtype())) return l.unsupported("a bool index");
  }
  const Shape shape = indexed_shape(*plan, x.shape());
  if (element_count(shape) == 0) return full(l.builder(), x.dtype(), shape, 0);
  ir::GatherAttrs g;
  g.offset_dims = window_dims(*plan, x.rank());
  g.collapsed_slice_dims = g.start_index_map = plan->indexed;
  g.slice_sizes = x.shape();
  for (int64_t d : plan->indexed) g.slice_sizes[d] = 1;
  g.index_vector_dim = static_cast<int64_t>(plan->index_shape.size());
  return {l.builder(), l.builder().gather(x.value(), index_vectors(x, indices, *plan).value(), g)};
}

std::optional<Metas> index_put_result(const Lowering& l) {
  const TensorMeta& self = l.meta("self");
  const auto plan = plan_index(l.list("indices"), static_cast<int64_t>(self.shape.size()), meta_shape);
  if (!plan || !integer_indices(l.list("indices")) || l.meta("values").dtype != self.dtype) return std::nullopt;
  const Shape shape = indexed_shape(*plan, self.shape);
  const auto joined = broadcast_shapes(shape, l.meta("values").shape);
  if (!joined || *joined != shape) return std::nullopt;
  return like_input()(l);
}

Val index_put(Lowering& l) {
  const Val x = l.raw("self");
  const std::vector<Val> indices = l.tensors("indices");
  const auto plan = plan_index(indices, x.rank(), value_shape);
  if (!plan) return l.unsupported("an index without index tensors, or with ones that do not broadcast,");
  for (int64_t d : plan->indexed) {
    if (!is_integer(indices[d].dtype())) return l.unsupported("a bool index");
  }
  const Shape shape = indexed_shape(*plan, x.shape());
  if (element_count(shape) == 0) return x;
  ir::ScatterAttrs s;
  s.update_window_dims = window_dims(*plan, x.rank());
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = plan->indexed;
  s.index_vector_dim = static_cast<int64_t>(plan->index_shape.size());
  s.combine = l.flag("accumulate") ? Reducer::add : Reducer::assign;
  const Val updates = broadcast_to(convert(l.raw("values"), x.dtype()), shape);
  return {l.builder(), l.builder().scatter(x.value(), index_vectors(x, indices, *plan).value(), updates.value(), s)};
}

// --- selection by mask ---

Val count_true(const Val& mask) { return sum(convert(mask, DType::i64), all_dims(mask)); }

// The elements of `values` where `mask` (both 1-D) is true, packed to the front of `capacity` places.
Val compact(const Val& values, const Val& mask, int64_t capacity) {
  const Val place = scan(Reducer::add, convert(mask, DType::i64), 0) - 1;
  const Val target = where(mask, place, like_int(place, capacity));  // out of range: dropped
  ir::ScatterAttrs s;
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  s.combine = Reducer::assign;
  s.check_bounds = false;
  const Val empty = full(values.builder(), values.dtype(), {capacity}, 0);
  return {values.builder(), values.builder().scatter(empty.value(), target.value(), values.value(), s)};
}

// The places of the elements that are not zero, in row-major order, one row each; zeros after the last one.
Val nonzero_rows(const Val& x, int64_t capacity) {
  const int64_t rank = x.rank(), n = x.elements();
  if (rank == 0 || capacity == 0 || n == 0) return full(x.builder(), DType::i64, {capacity, rank}, 0);
  const Val flat = compact(iota(x.builder(), DType::i64, {n}, 0), flatten(to_bool(x)), capacity);
  const Shape shape = x.shape(), strides = contiguous_strides_of(shape);
  std::vector<Val> columns;
  for (int64_t d = 0; d < rank; ++d) {
    Val column = flat;
    if (strides[d] != 1) column = column / static_cast<double>(strides[d]);
    if (d > 0) column = binary(ir::Op::remainder, column, like_int(column, shape[d]));
    columns.push_back(reshape(column, {capacity, 1}));
  }
  return concatenate(columns, 1);
}

// nonzero with a given number of rows: those that are too many are left out, those that are missing hold fill_value.
Val nonzero_static(Lowering& l) {
  const Val x = l.raw("self"), rows = nonzero_rows(x, l.int_("size"));
  const Val row = iota(l.builder(), DType::i64, rows.shape(), 0);
  return where(lt(row, count_true(to_bool(x))), rows, like_int(rows, l.int_("fill_value", -1)));
}

Val masked_scatter(Lowering& l) {
  Val x = l.raw("self"), mask = l.raw("mask");
  const Val source = flatten(l.raw("source"));
  const auto shape = broadcast_shapes(x.shape(), mask.shape());
  if (!shape) return l.unsupported("a mask that does not broadcast");
  x = broadcast_to(x, *shape);
  if (x.elements() == 0 || source.elements() == 0) return x;
  mask = flatten(broadcast_to(mask, *shape));
  const Val place = scan(Reducer::add, convert(mask, DType::i64), 0) - 1;
  const Val taken = take_slices(source, where(mask, place, like(place, 0)), 0);
  return where(reshape(mask, *shape), reshape(taken, *shape), x);
}

}  // namespace

void register_advanced_indexing(Registry& registry) {
  for (const char* name : {"aten::index.Tensor", "aten::_unsafe_index.Tensor"}) {
    NEURON_OP(name, no_promotion(), result(index_result), index);
  }
  for (const char* name : {"aten::index_put", "aten::_unsafe_index_put"}) {
    NEURON_OP(name, no_promotion(), result(index_put_result), index_put);
  }
  const auto count_result =
      ResultRule([](const Lowering&) { return std::optional<Metas>(one(contiguous_meta(DType::i64, {}))); });
  NEURON_OP("neuron::nonzero_count", no_promotion(), count_result,
            [](Lowering& l) { return count_true(to_bool(l.raw("self"))); });
  NEURON_OP("neuron::nonzero_fill", no_promotion(), result(ResultRule([](const Lowering& l) {
              const auto rank = static_cast<int64_t>(l.meta("self").shape.size());
              return std::optional<Metas>(one(contiguous_meta(DType::i64, {l.int_("capacity"), rank})));
            })),
            [](Lowering& l) { return nonzero_rows(l.raw("self"), l.int_("capacity")); });
  NEURON_OP("aten::nonzero_static", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              if (l.int_("size") < 0) return std::nullopt;
              const auto rank = static_cast<int64_t>(l.meta("self").shape.size());
              return one(contiguous_meta(DType::i64, {l.int_("size"), rank}));
            })),
            nonzero_static);
  NEURON_OP("neuron::masked_select_count", no_promotion(), count_result, [](Lowering& l) {
    const Val mask = l.raw("mask");
    const auto shape = broadcast_shapes(l.meta("self").shape, mask.shape());
    return shape ? count_true(broadcast_to(to_bool(mask), *shape)) : l.unsupported("a mask that does not broadcast");
  });
  NEURON_OP("neuron::masked_select_fill", no_promotion(), result(ResultRule([](const Lowering& l) {
              return std::optional<Metas>(one(contiguous_meta(l.meta("self").dtype, {l.int_("capacity")})));
            })),
            [](Lowering& l) {
              const Val x = l.raw("self"), mask = l.raw("mask");
              const auto shape = broadcast_shapes(x.shape(), mask.shape());
              if (!shape) return l.unsupported("a mask that does not broadcast");
              const int64_t capacity = l.int_("capacity");
              if (capacity == 0 || element_count(*shape) == 0) return full(l.builder(), x.dtype(), {capacity}, 0);
              return compact(flatten(broadcast_to(x, *shape)), flatten(broadcast_to(to_bool(mask), *shape)), capacity);
            });
  NEURON_OP("aten::masked_scatter", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              if (l.meta("mask").dtype != DType::boolean || l.meta("source").dtype != l.meta("self").dtype)
                return std::nullopt;
              return l.meta("mask").shape == l.meta("self").shape ? contiguous_like()(l) : std::nullopt;
            })),
            masked_scatter);
}

}  // namespace neuron::ops
