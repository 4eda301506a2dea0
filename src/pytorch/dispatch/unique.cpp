// _unique and _unique2, composed: sort, mark where a value begins, one synchronisation for the number of them (nonzero).
//
// Not here: unique_dim and unique_consecutive.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>
#include <torch/library.h>

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

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_unique", unique);
  m.impl("_unique2", unique_with_counts);
}

}  // namespace neuron::pytorch
