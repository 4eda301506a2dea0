// Views are TensorImpl views: same storage, other sizes, strides and offset. PyTorch's composite view operators (transpose,
// select, slice, expand, ...) end in as_strided; the geometry is PyTorch's own, so it is the CPU's by construction.
#include "pytorch/views.h"

#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "pytorch/allocator.h"
#include "pytorch/device.h"
#include "pytorch/storage.h"

namespace neuron::pytorch {
namespace {

void grow_storage(c10::TensorImpl* t) {
  if (t->numel() == 0) return;
  const size_t needed = at::detail::computeStorageNbytes(t->sizes(), t->strides(), t->itemsize(), t->storage_offset());
  c10::StorageImpl* storage = t->unsafe_storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) resize_storage(*storage, needed);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat> memory_format) {
  resize_tensor(self, size, std::nullopt);
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format", *memory_format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_storage_offset_(at::Tensor& self, at::Storage source, int64_t storage_offset, c10::IntArrayRef size,
                                c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, storage_offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(storage_offset);
  resize_tensor(self, size, stride.data() ? at::OptionalIntArrayRef(stride) : std::nullopt);
  return self;
}

at::Tensor& set_storage_(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.element_size());
  return set_storage_offset_(self, std::move(source), 0, elements, {});
}

at::Tensor& set_empty_(at::Tensor& self) {
  c10::Storage empty(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                           allocate_on(self.device().index(), 0), device_allocator(),
                                                           /*resizable=*/true));
  return set_storage_offset_(self, std::move(empty), 0, {0}, {});
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  device_allocator()->recordStream(self.storage().data_ptr(), stream);
}

// Every device tensor of ours is a plain TensorImpl, as CPU's are, so `param.data = ...` may cross between them: Module.to
// then keeps its Parameter objects, and tied weights stay tied. c10's own test knows built-in backends only.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto plain = [](const at::Tensor& t) {
    return (t.is_cpu() || t.is_privateuseone()) && t.layout() == at::kStrided && !t.is_quantized() && !t.is_nested();
  };
  return plain(self) && plain(from);
}

}  // namespace

void resize_tensor(const at::Tensor& self, c10::IntArrayRef size, at::OptionalIntArrayRef stride) {
  c10::TensorImpl* t = self.unsafeGetTensorImpl();
  if (t->sizes() == size && (!stride.has_value() || t->strides() == *stride)) return;
  if (stride.has_value()) {
    t->set_sizes_and_strides(size, *stride);
  } else {
    t->set_sizes_contiguous(size);
  }
  grow_storage(t);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage", set_storage_);
  m.impl("set_.source_Storage_storage_offset", set_storage_offset_);
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_", set_empty_);
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("record_stream", record_stream);
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

}  // namespace neuron::pytorch
