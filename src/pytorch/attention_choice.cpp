// F.scaled_dot_product_attention stays one operator where the lowering takes it whole; otherwise PyTorch's mathematical form
// decomposes it into operators of ours.
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>

namespace neuron::pytorch {
namespace {

// Also called for fake tensors while a graph is traced: sizes only.
int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double /*dropout_p*/, bool /*is_causal*/,
               std::optional<double> /*scale*/, bool enable_gqa) {
  constexpr auto math = static_cast<int64_t>(at::SDPBackend::math);
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return math;
  const auto type = query.scalar_type();
  if (!c10::isFloatingType(type) || key.scalar_type() != type || value.scalar_type() != type) return math;
  if (query.sym_size(0) != key.sym_size(0) || query.sym_size(0) != value.sym_size(0)) return math;
  if (key.sym_size(1) != value.sym_size(1) || query.sym_size(3) != key.sym_size(3) || key.sym_size(2) != value.sym_size(2))
    return math;
  if (!enable_gqa && query.sym_size(1) != key.sym_size(1)) return math;
  if (query.sym_numel() == 0 || key.sym_numel() == 0 || value.sym_numel() == 0) return math;
  if (mask.has_value() && mask->defined() && mask->requires_grad()) return math;
  return static_cast<int64_t>(at::SDPBackend::overrideable);
}

}  // namespace
}  // namespace neuron::pytorch

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &neuron::pytorch::choose)
}
