// copy_ in every direction: host <-> device, device -> device, core -> core; dtype conversion and strides on both sides.
#pragma once

#include <ATen/core/Tensor.h>

namespace neuron::pytorch {

// Same semantics as destination.copy_(source): shapes are broadcast by the caller.
void copy_tensor(const at::Tensor& source, const at::Tensor& destination, bool non_blocking);

}  // namespace neuron::pytorch
