// embedding_bag and its dense backward: rows of a table, summed, averaged or compared bag by bag.
//
// Not supported: sparse gradients. Offsets are not checked: indices before the first bag count nowhere. A NaN is the maximum
// of its bag wherever it stands; CPU sees it in the first row only.
#include "ops/indexing.h"
#include "ops/segments.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

enum Mode : int64_t { kSum, kMean, kMax };

bool is_index(DType t) { return t == DType::i64 || t == DType::i32; }

DType index_dtype(const Lowering& l) {
  return l.meta("indices").dtype == DType::i32 && l.meta("offsets").dtype == DType::i32 ? DType::i32 : DType::i64;
}

bool describes_bags(const Lowering& l) {
  const TensorMeta &weight = l.meta("weight"), &indices = l.meta("indices"), &offsets = l.meta("offsets");
  if (weight.shape.size() != 2 || indices.shape.size() != 1 || offsets.shape.size() != 1) return false;
  if (!is_floating(weight.dtype) || !is_index(indices.dtype) || !is_index(offsets.dtype)) return false;
  if (l.flag("include_last_offset") && offsets.shape[0] < 1) return false;
  if (!l.tensor("per_sample_weights")) return true;
  return l.int_("mode") == kSum && l.meta("per_sample_weights").shape == indices.shape &&
         l.meta("per_sample_weights").dtype == weight.dtype;
}

int64_t bags_of(const Lowering& l) { return l.meta("offsets").shape[0] - (l.flag("include_last_offset") ? 1 : 0); }

// CPU adds up rows of f32 and half precision that lie together without noting their bags.
bool notes_bags(const Lowering& l) {
  const TensorMeta& weight = l.meta("weight");
  if (l.int_("mode") != kSum || l.int_("padding_idx", -1) >= 0 || weight.dtype == DType::f64) return true;
  return weight.strides[1] != 1 || (l.tensor("per_sample_weights") && l.meta("per_sample_weights").strides[0] != 1);
}

// Output, bag of each index, size of each bag (zero in sums), index of each maximum (otherwise the sizes again).
std::optional<Metas> bag_result(const Lowering& l, bool forward_only) {
  if (!describes_bags(l)) return std::nullopt;
  const TensorMeta& weight = l.meta("weight");
  const DType t = index_dtype(l);
  const int64_t bags = bags_of(l), mode = l.int_("mode");
  const TensorMeta sizes = contiguous_meta(t, {forward_only && mode == kSum ? l.meta("offsets").shape[0] : bags});
  return Metas{contiguous_meta(weight.dtype, {bags, weight.shape[1]}),
               contiguous_meta(t, {notes_bags(l) ? l.meta("indices").shape[0] : 0}), sizes,
               mode == kMax ? contiguous_meta(t, {bags, weight.shape[1]}) : sizes};
}

// The bag of each index: i64 [N].
Val bag_of_indices(const Val& offsets, int64_t n) {
  const Val begins = reshape(convert(offsets, DType::i64), {1, offsets.elements()});
  return reshape(run_of_places(begins, n), {n}) - 1;
}

std::vector<Val> embedding_bag(Lowering& l, bool forward_only) {
  const auto metas = bag_result(l, forward_only);
  if (!metas) return {l.unsupported("these bags"), Val(), Val(), Val()};
  const Val weight = l.raw("weight"), index = convert(l.raw("indices"), DType::i64);
  const int64_t n = index.elements(), bags = bags_of(l), mode = l.int_("mode"), padding = l.int_("padding_idx", -1);
  const DType math = opmath(weight.dtype()), kept = index_dtype(l);
  ir::Builder& b = l.builder();
  const Shape table{bags, weight.size(1)};
  const Val bag = bag_of_indices(l.raw("offsets"), n);
  const Val row = padding < 0 ? bag : where(eq(index, like_int(index, padding)), like_int(bag, bags), bag);
  const Val size =
      combine_rows(full_int(b, DType::i64, {bags, 1}, 0), row, full_int(b, DType::i64, {n, 1}, 1), Reducer::add);
  Val values = n == 0 || weight.elements() == 0 ? full(b, math, {n, weight.size(1)}, 0)
                                                : convert(take_slices(weight, index, 0), math);
  if (l.has("per_sample_weights")) values = values * unsqueeze(convert(l.raw("per_sample_weights"), math), 1);

  Val output, largest;
  if (mode == kMax) {
    const Val empty = eq(size, 0);
    const Val top = combine_rows(infinity_like(full(b, math, table, 0), true), row, values, Reducer::maximum);
    output = where(empty, like(top, 0), top);
    if (n == 0 || bags == 0) {
      largest = full_int(b, DType::i64, table, 0);
    } else {  // the first of the rows that hold the maximum
      const Val of_bag = take_slices(top, minimum(row, like_int(row, bags - 1)), 0);
      const Val place = iota(b, DType::i64, values.shape(), 0);
      const Val candidate = where(eq(values, of_bag) | is_nan(values), place, like_int(place, n));
      const Val first = combine_rows(full_int(b, DType::i64, table, n - 1), row, candidate, Reducer::minimum);
      const Val found = take_slices(index, first, 0);
      largest = where(empty, like(found, 0), found);
    }
  } else {
    output = combine_rows(full(b, math, table, 0), row, values, Reducer::add);
    if (mode == kMean) output = output / convert(maximum(size, like(size, 1)), math);
  }
  const Shape sizes = (*metas)[2]->shape;
  const Val reported = mode == kSum ? full_int(b, kept, sizes, 0) : convert(reshape(size, {bags}), kept);
  return {convert(output, weight.dtype()), convert(notes_bags(l) ? bag : slice(bag, 0, 0, 0), kept), reported,
          mode == kMax ? convert(largest, kept) : reported};
}

// --- backward ---

std::optional<Metas> dense_result(const Lowering& l) {
  const TensorMeta& grad = l.meta("grad");
  if (l.flag("sparse") || grad.shape.size() != 2 || !is_floating(grad.dtype) || !is_index(l.meta("indices").dtype)) {
    return std::nullopt;
  }
  return one(contiguous_meta(grad.dtype, {l.int_("num_weights"), grad.shape[1]}));
}

// The forward did not note the bags if it did not need them.
Val noted_bags(Lowering& l, int64_t n) {
  const Val noted = l.raw("offset2bag");
  if (noted.elements() == n) return convert(noted, DType::i64);
  return l.has("offsets") ? bag_of_indices(l.raw("offsets"), n) : l.unsupported("bags that were not noted");
}

Val dense_backward(Lowering& l) {
  if (!dense_result(l)) return l.unsupported("a sparse gradient, or this index,");
  const Val incoming = l.raw("grad"), index = convert(l.raw("indices"), DType::i64);
  const DType math = opmath(incoming.dtype());
  const Val grad = convert(incoming, math), size = convert(l.raw("bag_size"), DType::i64);
  const int64_t rows = l.int_("num_weights"), n = index.elements(), mode = l.int_("mode"),
                padding = l.int_("padding_idx", -1);
  const Val zeros = full(l.builder(), math, {rows, grad.size(1)}, 0);
  if (n == 0 || grad.elements() == 0 || rows == 0) return convert(zeros, incoming.dtype());
  if (mode == kMax) {  // of bags that are not empty
    const Val largest = convert(l.raw("maximum_indices"), DType::i64);
    const Val counted = where(unsqueeze(gt(size, 0), 1), grad, like(grad, 0));
    if (rows >= grad.size(0)) return convert(scatter_elements(zeros, largest, counted, 0, Reducer::add), incoming.dtype());
    const Val taller = full(l.builder(), math, {grad.size(0), grad.size(1)}, 0);
    return convert(slice(scatter_elements(taller, largest, counted, 0, Reducer::add), 0, 0, rows), incoming.dtype());
  }
  const Val bag = noted_bags(l, n);
  Val values = take_slices(grad, bag, 0);
  if (l.has("per_sample_weights")) values = values * unsqueeze(convert(l.raw("per_sample_weights"), math), 1);
  if (mode == kMean) values = values / unsqueeze(convert(take_slices(maximum(size, like(size, 1)), bag, 0), math), 1);
  if (l.flag("scale_grad_by_freq")) {
    const Val uses =
        scatter_slices(full(l.builder(), math, {rows}, 0), index, full(l.builder(), math, {n}, 1), 0, Reducer::add);
    values = values / unsqueeze(take_slices(uses, index, 0), 1);
  }
  const Val row = padding < 0 ? index : where(eq(index, like_int(index, padding)), like_int(index, rows), index);
  return convert(combine_rows(zeros, row, values, Reducer::add), incoming.dtype());
}

// The weight of an index gets the product of its row and its bag's gradient.
Val weights_backward(Lowering& l) {
  const Val incoming = l.raw("grad"), weight = l.raw("weight"), index = convert(l.raw("indices"), DType::i64);
  const DType math = opmath(incoming.dtype());
  const int64_t n = index.elements(), padding = l.int_("padding_idx", -1);
  if (l.int_("mode") != kSum) return l.unsupported("a mode other than sum");
  if (n == 0 || weight.elements() == 0 || incoming.elements() == 0) return full(l.builder(), incoming.dtype(), {n}, 0);
  const Val rows = convert(take_slices(weight, index, 0), math);
  const Val product = sum(rows * convert(take_slices(incoming, noted_bags(l, n), 0), math), {1});
  const Val counted = padding < 0 ? product : where(eq(index, like_int(index, padding)), like(product, 0), product);
  return convert(counted, incoming.dtype());
}

}  // namespace

void register_embedding_bag(Registry& registry) {
  for (const bool forward_only : {false, true}) {
    NEURON_OP(forward_only ? "aten::_embedding_bag_forward_only" : "aten::_embedding_bag", no_promotion(),
              result(ResultRule([=](const Lowering& l) { return bag_result(l, forward_only); })),
              [=](Lowering& l) { return embedding_bag(l, forward_only); });
  }
  NEURON_OP("aten::_embedding_bag_backward", no_promotion(), result(dense_result), dense_backward);
  NEURON_OP("aten::_embedding_bag_dense_backward", no_promotion(), result(dense_result), dense_backward);
  NEURON_OP("aten::_embedding_bag_per_sample_weights_backward", no_promotion(),
            result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              if (l.int_("mode") != kSum || !is_floating(l.meta("grad").dtype)) return std::nullopt;
              return one(contiguous_meta(l.meta("grad").dtype, l.meta("indices").shape));
            })),
            weights_backward);
}

}  // namespace neuron::ops
