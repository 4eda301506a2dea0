// Changing a tensor's sizes in place (resize_, set_, out=).
#pragma once

#include <ATen/core/Tensor.h>

namespace neuron::pytorch {

// Sets sizes (contiguous when no strides are given) and grows the storage if it is too small.
void resize_tensor(const at::Tensor& self, c10::IntArrayRef size, at::OptionalIntArrayRef stride);

}  // namespace neuron::pytorch
