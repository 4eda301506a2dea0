// bincount, composed: one synchronisation for the smallest and the largest value, then a sum at each of them. The sum is
// made for a capacity class, so that a new largest value seldom compiles.
#include <ATen/core/Tensor.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "pytorch/dispatch/data_dependent.h"

namespace neuron::pytorch {
namespace {

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  const bool weighted = weights && weights->defined();
  TORCH_CHECK_NOT_IMPLEMENTED(at::isIntegralType(self.scalar_type(), false), "\"bincount_cpu\" not implemented for '",
                              self.scalar_type(), "'");
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  const auto counts = self.options().dtype(at::kLong);
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({minlength}, counts);
  constexpr const char* kInputs = "bincount only supports 1-d non-negative integral inputs.";
  TORCH_CHECK(self.dim() == 1, kInputs);
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->numel() == self.numel()),
              "weights should be 1-d and have the same length as input");
  const at::Tensor places = self.to(at::kLong);
  const auto [low, high] = at::aminmax(places);
  const at::Tensor ends = at::stack({low, high}).cpu();
  TORCH_CHECK(ends[0].item<int64_t>() >= 0, kInputs);
  const int64_t length = std::max(ends[1].item<int64_t>() + 1, minlength), capacity = capacity_class(length);
  const auto type = !weighted ? at::kLong : weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  const at::Tensor sums = at::zeros({capacity}, self.options().dtype(type));
  sums.scatter_add_(0, places, weighted ? weights->to(type) : at::ones(self.sizes(), counts));
  return capacity == length ? sums : sums.narrow(0, 0, length).clone();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("bincount", bincount); }

}  // namespace neuron::pytorch
