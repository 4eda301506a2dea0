#include "pytorch/dispatch/aliasing.h"

#include <ATen/MemoryOverlap.h>

#include "pytorch/factory.h"

namespace neuron::pytorch {
namespace {

bool same_strides(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

}  // namespace

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
         a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() && same_strides(a, b);
}

Sharing sharing(const at::Tensor& written, const at::Tensor& other) {
  if (written.storage().unsafeGetStorageImpl() != other.storage().unsafeGetStorageImpl()) [[likely]]
    return Sharing::none;
  if (written.unsafeGetTensorImpl() == other.unsafeGetTensorImpl() || same_memory(written, other)) return Sharing::same;
  const auto* w = static_cast<const char*>(address_of(written));
  const auto* o = static_cast<const char*>(address_of(other));
  if (w + extent_bytes(written) <= o || o + extent_bytes(other) <= w) return Sharing::none;
  switch (at::get_overlap_status(written, other)) {
    case at::MemOverlapStatus::No:
      return Sharing::none;
    case at::MemOverlapStatus::Partial:
      at::assert_no_partial_overlap(written, other);
      break;
    default:
      break;
  }
  return Sharing::unclear;
}

}  // namespace neuron::pytorch
