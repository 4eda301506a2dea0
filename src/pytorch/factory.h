// New device tensors from sizes and strides, without going through the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

namespace neuron::pytorch {

at::Tensor make_tensor(c10::DeviceIndex device, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType type);
at::Tensor make_contiguous_tensor(c10::DeviceIndex device, c10::IntArrayRef sizes, c10::ScalarType type);
at::Tensor make_like(const at::Tensor& like);  // same sizes, strides, dtype, device; `like` must be dense

// True when the elements fill a block of memory without holes or overlap, in any order of dims.
inline bool is_dense(const at::Tensor& t) { return t.is_non_overlapping_and_dense(); }
// Bytes from the first to past the last element; 0 when there is no element.
int64_t extent_bytes(const at::Tensor& t);
// Address of the first element (device memory; not readable by the host).
void* address_of(const c10::TensorImpl* t);
inline void* address_of(const at::Tensor& t) { return address_of(t.unsafeGetTensorImpl()); }

}  // namespace neuron::pytorch
