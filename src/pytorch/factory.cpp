#include "pytorch/factory.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/fill.h>
#include <torch/library.h>

#include <limits>

#include "base/mutation.h"
#include "pytorch/allocator.h"
#include "pytorch/device.h"
#include "pytorch/scalar.h"

namespace neuron::pytorch {
namespace {

constexpr c10::DispatchKeySet kKeySet(c10::DispatchKey::PrivateUse1);

at::Tensor over_new_storage(c10::DeviceIndex device, size_t bytes, c10::ScalarType type) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       allocate_on(device, bytes), device_allocator(), /*resizable=*/true);
  return at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), kKeySet,
                                                  c10::scalarTypeToTypeMeta(type));
}

// torch.use_deterministic_algorithms with fill_uninitialized_memory: NaN, or the largest integer.
void fill_if_deterministic(const at::Tensor& t) {
  const auto& context = at::globalContext();
  if (!context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory()) [[likely]]
    return;
  at::Tensor target = t;
  if (t.is_floating_point() || t.is_complex()) {
    at::fill_(target, std::numeric_limits<double>::quiet_NaN());
  } else if (t.scalar_type() == at::kBool) {
    at::fill_(target, true);
  } else {
    const size_t bits = 8 * t.element_size() - (c10::isSignedType(t.scalar_type()) ? 1 : 0);
    at::fill_(target, static_cast<int64_t>(bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1));
  }
}

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(c10::kStrided) == c10::kStrided, "layout ", *layout,
                              " is not supported on device neuron");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor empty_memory_format(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type,
                               std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(sizes);
  at::Tensor t = make_contiguous_tensor(resolve_index(device), sizes, c10::dtype_or_default(type));
  if (memory_format.has_value() && *memory_format != c10::MemoryFormat::Contiguous) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "empty: memory format Preserve is not supported");
    t.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  fill_if_deterministic(t);
  return t;
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(sizes);
  at::Tensor t = make_tensor(resolve_index(device), sizes, strides, c10::dtype_or_default(type));
  fill_if_deterministic(t);
  return t;
}

// A tensor of zeros without memory, which autograd makes; PyTorch's ZeroTensor fallback materialises it when it is used.
at::Tensor efficient_zero_tensor(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type,
                                 std::optional<c10::Layout> /*layout*/, std::optional<c10::Device> device,
                                 std::optional<bool> /*pin_memory*/) {
  at::native::ZeroTensorAllocator allocator(c10::Device(kNeuron, resolve_index(device)));
  return at::detail::empty_generic(sizes, &allocator, kKeySet | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
                                   c10::dtype_or_default(type), std::nullopt);
}

}  // namespace

at::Tensor make_tensor(c10::DeviceIndex device, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType type) {
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  at::Tensor t = over_new_storage(device, bytes, type);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

at::Tensor make_contiguous_tensor(c10::DeviceIndex device, c10::IntArrayRef sizes, c10::ScalarType type) {
  dtype_or_raise(type, "empty");
  const size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(type));
  at::Tensor t = over_new_storage(device, bytes, type);
  if (sizes.size() != 1 || sizes[0] != 0) t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return t;
}

at::Tensor make_like(const at::Tensor& like) {
  return make_tensor(like.device().index(), like.sizes(), like.strides(), like.scalar_type());
}

int64_t extent_bytes(const at::Tensor& t) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.element_size()));
}

void* address_of(const c10::TensorImpl* t) {
  auto* base = static_cast<char*>(const_cast<void*>(t->unsafe_storage().unsafeGetStorageImpl()->data()));
  if (mutated("offset")) return base;
  return base ? base + t->storage_offset() * static_cast<int64_t>(t->itemsize()) : nullptr;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
  m.impl("_efficientzerotensor", efficient_zero_tensor);
}

}  // namespace neuron::pytorch
