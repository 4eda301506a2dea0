// unique and its relatives, composed: sort (unless consecutive), mark where a value or slice begins, one synchronisation for
// the number of them (nonzero).
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/core/WrapDimMinimal.h>
#include <torch/library.h>

#include <algorithm>

namespace neuron::pytorch {
namespace {

// CPU sorts whether asked to or not. A NaN differs from every NaN.
std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_with_counts(const at::Tensor& self, bool /*sorted*/,
                                                                  bool return_inverse, bool return_counts) {
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"unique\" not implemented for '", self.scalar_type(), "'");
  const auto index = self.options().dtype(at::kLong);
  const int64_t n = self.numel();
  at::Tensor inverse = at::empty({0}, index), counts = at::empty({0}, index);
  if (n == 0) {
    if (return_inverse) inverse = at::empty(self.sizes(), index);
    return {at::empty({0}, self.options()), inverse, counts};
  }
  const auto [values, order] = at::sort(self.reshape(-1));
  const at::Tensor begins = at::ones({n}, self.options().dtype(at::kBool));
  if (n > 1) begins.narrow(0, 1, n - 1).copy_(at::ne(values.narrow(0, 1, n - 1), values.narrow(0, 0, n - 1)));
  const at::Tensor starts = at::nonzero(begins).select(1, 0);
  if (return_inverse) {
    inverse = at::empty({n}, index).scatter_(0, order, begins.cumsum(0).sub(1)).reshape(self.sizes());
  }
  if (return_counts) counts = at::cat({starts.slice(0, 1), at::full({1}, n, index)}).sub(starts);
  return {values.index_select(0, starts), inverse, counts};
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool sorted, bool return_inverse) {
  auto [values, inverse, counts] = unique_with_counts(self, sorted, return_inverse, false);
  return {values, inverse};
}

// --- along a dimension: slices are rows of a matrix ---

// Where in `values`, sorted or not, each element of a column differs from the one before it: i64, 0 for the first.
at::Tensor changes(const at::Tensor& values) {
  const int64_t n = values.size(0);
  const at::Tensor steps = at::zeros(values.sizes(), values.options().dtype(at::kLong));
  if (n > 1) steps.narrow(0, 1, n - 1).copy_(at::ne(values.narrow(0, 1, n - 1), values.narrow(0, 0, n - 1)));
  return steps;
}

// The number of different smaller values in each column.
at::Tensor ranks_in_columns(const at::Tensor& values) {
  const auto [sorted, order] = at::sort(values, 0);
  return at::zeros(values.sizes(), order.options()).scatter_(0, order, changes(sorted).cumsum(0));
}

// The rank of each row in lexicographic order, equal rows sharing one: columns become ranks, and pairs of neighbouring ranks
// are ranked again until one column is left.
at::Tensor ranks_of_rows(const at::Tensor& rows) {
  at::Tensor ranks = ranks_in_columns(rows);
  while (ranks.size(1) > 1) {
    const int64_t pairs = ranks.size(1) / 2;
    const at::Tensor high = ranks.slice(1, 0, 2 * pairs, 2), low = ranks.slice(1, 1, 2 * pairs, 2);
    at::Tensor joined = high.mul(rows.size(0)).add(low);
    if (ranks.size(1) % 2 == 1) joined = at::cat({joined, ranks.slice(1, 2 * pairs)}, 1);
    ranks = ranks_in_columns(joined);
  }
  return ranks.select(1, 0);
}

using Uniques = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// `order`: rows so that equal ones follow each other; `group`: the number of different rows before each of them.
Uniques unique_rows(const at::Tensor& self, int64_t dim, const at::Tensor& order, const at::Tensor& group,
                    const at::Tensor& inverse) {
  const auto index = group.options();
  const int64_t n = group.numel();
  const at::Tensor begins = at::ones({n}, index.dtype(at::kBool));
  if (n > 1) begins.narrow(0, 1, n - 1).copy_(at::ne(group.narrow(0, 1, n - 1), group.narrow(0, 0, n - 1)));
  const at::Tensor starts = at::nonzero(begins).select(1, 0);
  const at::Tensor counts = at::cat({starts.slice(0, 1), at::full({1}, n, index)}).sub(starts);
  const at::Tensor rows = self.movedim(dim, 0).contiguous();
  const at::Tensor chosen = order.defined() ? order.index_select(0, starts) : starts;
  return {rows.index_select(0, chosen).movedim(0, dim), inverse, counts};
}

// The slices along dim as rows; absent when there are none (`result` is set), or no dim to choose from (raises).
std::optional<at::Tensor> slices(const at::Tensor& self, int64_t dim, Uniques* result) {
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"unique_dim\" not implemented for '", self.scalar_type(), "'");
  if (self.numel() == 0) {
    const auto zeros = std::count(self.sizes().begin(), self.sizes().end(), 0);
    TORCH_CHECK(self.size(dim) == 0 && zeros == 1,
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    const auto index = self.options().dtype(at::kLong);
    *result = {at::empty(self.sizes(), self.options()), at::empty({0}, index), at::empty({0}, index)};
    return std::nullopt;
  }
  return self.movedim(dim, 0).reshape({self.size(dim), -1});
}

Uniques unique_dim(const at::Tensor& self, int64_t dim, bool /*sorted*/, bool /*return_inverse*/, bool /*return_counts*/) {
  dim = c10::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
  Uniques result;
  const auto rows = slices(self, dim, &result);
  if (!rows) return result;
  const at::Tensor ranks = ranks_of_rows(*rows);
  const auto [group, order] = at::sort(ranks);
  return unique_rows(self, dim, order, group, ranks);
}

Uniques unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool /*return_inverse*/, bool /*return_counts*/) {
  dim = c10::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
  Uniques result;
  const auto rows = slices(self, dim, &result);
  if (!rows) return result;
  const at::Tensor group = changes(*rows).amax(1).cumsum(0);
  return unique_rows(self, dim, {}, group, group);
}

Uniques unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  if (dim && !(self.dim() == 1 && c10::maybe_wrap_dim(*dim, 1) == 0)) {
    return unique_dim_consecutive(self, *dim, return_inverse, return_counts);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"unique\" not implemented for '", self.scalar_type(), "'");
  auto [values, inverse, counts] = unique_dim_consecutive(self.reshape(-1), 0, true, true);
  const at::Tensor none = at::empty({0}, inverse.options());
  return {values, return_inverse ? inverse.reshape(self.sizes()) : none, return_counts ? counts : none};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_unique", unique);
  m.impl("_unique2", unique_with_counts);
  m.impl("unique_dim", unique_dim);
  m.impl("unique_dim_consecutive", unique_dim_consecutive);
  m.impl("unique_consecutive", unique_consecutive);
}

}  // namespace neuron::pytorch
