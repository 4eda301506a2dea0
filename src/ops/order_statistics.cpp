// Median, nanmedian, k-th smallest value and mode, all read from a stable sort.
//
// Not supported: complex numbers, and bool for all but mode (PyTorch refuses them).
//
// Among equal values median and nanmedian return the index that CPU does: the one of a stable sort (of NaNs alone, the
// first). kthvalue's index is not specified; mode's is the last one, as CPU returns it for up to 16 values.
#include <limits>

#include "ops/indexing.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

bool orders(DType t, bool boolean_too) { return !is_complex(t) && (boolean_too || t != DType::boolean); }

// Values and i64 indices along `dim`, which goes away or stays with size 1.
std::optional<Metas> value_and_index(const Lowering& l, bool boolean_too) {
  const TensorMeta& x = l.meta("self");
  const auto rank = static_cast<int64_t>(x.shape.size());
  const int64_t dim = l.dim("dim", rank, -1);
  if (!orders(x.dtype, boolean_too) || (rank > 0 && x.shape[dim] == 0)) return std::nullopt;
  Shape shape = rank == 0 ? Shape{} : reduced_shape(x.shape, {dim}, l.flag("keepdim"));
  return Metas{contiguous_meta(x.dtype, shape), contiguous_meta(DType::i64, shape)};
}

struct Sorted {
  Val values, indices;
};
Sorted sorted(const Val& x, int64_t dim) {
  const Val values(x.builder(), x.builder().sort(x.value(), dim, false));
  return {values, values.result(1)};
}

// What `place` (i64, size 1 along `dim`) names, as the operator's two results.
std::vector<Val> chosen(const Lowering& l, const Sorted& s, const Val& place, int64_t dim) {
  const Shape shape = l.meta("self").shape.empty() ? Shape{} : reduced_shape(s.values.shape(), {dim}, l.flag("keepdim"));
  if (element_count(shape) == 0) {
    return {full(l.builder(), s.values.dtype(), shape, 0), full_int(l.builder(), DType::i64, shape, 0)};
  }
  return {reshape(gather_elements(s.values, place, dim), shape), reshape(gather_elements(s.indices, place, dim), shape)};
}

// NaNs are sorted to the end: the first of them is the median, unless they are left out.
Val median_place(const Val& x, int64_t dim, bool ignore_nan) {
  const int64_t n = x.size(dim);
  Shape shape = x.shape();
  shape[dim] = 1;
  const Val middle = full_int(x.builder(), DType::i64, shape, (n - 1) / 2);
  if (!is_floating(x.dtype())) return middle;
  const Val counted = static_cast<double>(n) - sum(convert(is_nan(x), DType::i64), {dim}, true);
  if (ignore_nan) return maximum(counted - 1, like_int(counted, 0)) / 2;
  return where(eq(counted, static_cast<double>(n)), middle, counted);
}

std::vector<Val> median(Lowering& l, bool ignore_nan) {
  const Val self = l.raw("self"), x = self.rank() == 0 ? reshape(self, {1}) : self;
  if (!orders(x.dtype(), false)) return {l.unsupported("this dtype"), Val()};
  const int64_t dim = l.dim("dim", x.rank());
  return chosen(l, sorted(x, dim), median_place(x, dim, ignore_nan), dim);
}

Val median_of_all(Lowering& l, bool ignore_nan) {
  const Val x = flatten(l.raw("self"));
  if (!orders(x.dtype(), false)) return l.unsupported("this dtype");
  if (x.elements() == 0) {
    return is_floating(x.dtype()) ? full(l.builder(), x.dtype(), {}, std::numeric_limits<double>::quiet_NaN())
                                  : l.unsupported("the median of no integers");
  }
  return reshape(gather_elements(sorted(x, 0).values, median_place(x, 0, ignore_nan), 0), {});
}

std::optional<Metas> kth_value_result(const Lowering& l) {
  const Shape& shape = l.meta("self").shape;
  const int64_t n = shape.empty() ? 1 : shape[l.dim("dim", static_cast<int64_t>(shape.size()), -1)], k = l.int_("k");
  if (k < 1 || k > n) return std::nullopt;
  return value_and_index(l, false);
}

std::vector<Val> kth_value(Lowering& l) {
  const Val self = l.raw("self"), x = self.rank() == 0 ? reshape(self, {1}) : self;
  if (!kth_value_result(l)) return {l.unsupported("this dtype or k"), Val()};
  const int64_t dim = l.dim("dim", x.rank(), -1), k = l.int_("k");
  const auto [values, indices] = sorted(x, dim);
  const Shape shape = self.rank() == 0 ? Shape{} : reduced_shape(x.shape(), {dim}, l.flag("keepdim"));
  return {reshape(slice(values, dim, k - 1, k), shape), reshape(slice(indices, dim, k - 1, k), shape)};
}

// The end of the first of the longest runs of equal values.
std::vector<Val> mode(Lowering& l) {
  const Val self = l.raw("self"), x = self.rank() == 0 ? reshape(self, {1}) : self;
  if (!orders(x.dtype(), true)) return {l.unsupported("this dtype"), Val()};
  const int64_t dim = l.dim("dim", x.rank(), -1), n = x.size(dim);
  const Sorted s = sorted(x, dim);
  const Val differs = ne(slice(s.values, dim, 1, n), slice(s.values, dim, 0, n - 1));
  const Val place = iota(l.builder(), DType::i64, x.shape(), dim);
  const Val zero = full_int(l.builder(), DType::i64, slice(place, dim, 0, 1).shape(), 0);
  const Val begins = concatenate({zero, where(differs, slice(place, dim, 1, n), like_int(slice(place, dim, 1, n), 0))}, dim);
  const Val length = place - scan(Reducer::maximum, begins, dim);
  const Val last(l.builder(), l.builder().arg_reduce(true, length.value(), dim));
  return chosen(l, s, unsqueeze(last, dim), dim);
}

}  // namespace

void register_order_statistics(Registry& registry) {
  for (const bool ignore_nan : {false, true}) {
    const std::string name = ignore_nan ? "aten::nanmedian" : "aten::median";
    NEURON_OP(name, no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
                if (!orders(l.meta("self").dtype, false)) return std::nullopt;
                return one(contiguous_meta(l.meta("self").dtype, {}));
              })),
              [ignore_nan](Lowering& l) { return median_of_all(l, ignore_nan); });
    NEURON_OP(name + ".dim", no_promotion(), result(ResultRule([](const Lowering& l) { return value_and_index(l, false); })),
              [ignore_nan](Lowering& l) { return median(l, ignore_nan); });
  }
  NEURON_OP("aten::kthvalue", no_promotion(), result(kth_value_result), kth_value);
  NEURON_OP("aten::mode", no_promotion(), result(ResultRule([](const Lowering& l) { return value_and_index(l, true); })),
            mode);
}

}  // namespace neuron::ops
