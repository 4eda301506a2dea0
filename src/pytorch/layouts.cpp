// The device holds dense tensors. Whatever is asked of another layout that PyTorch does not compose of dense operators is
// refused here, by name, before PyTorch's long list of dispatch keys.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace neuron::pytorch {
namespace {

template <c10::DispatchKey key>
void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  const char* layout = key == c10::DispatchKey::SparsePrivateUse1      ? "sparse COO"
                       : key == c10::DispatchKey::SparseCsrPrivateUse1 ? "sparse compressed (CSR, CSC, BSR, BSC)"
                       : key == c10::DispatchKey::QuantizedPrivateUse1 ? "quantized"
                                                                       : "nested (strided; use layout=torch.jagged)";
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), ": device neuron holds dense tensors only, not ", layout, " ones");
}

}  // namespace

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<c10::DispatchKey::SparsePrivateUse1>>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<c10::DispatchKey::SparseCsrPrivateUse1>>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<c10::DispatchKey::QuantizedPrivateUse1>>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<c10::DispatchKey::NestedTensorPrivateUse1>>());
}

}  // namespace neuron::pytorch
