// Which operands of a mutating call share memory: part of the signature, and PyTorch's errors for overlap.
#pragma once

#include <ATen/core/Tensor.h>

namespace neuron::pytorch {

// The very same elements in the same order and type.
bool same_memory(const at::Tensor& a, const at::Tensor& b);

enum class Sharing : uint8_t {
  none,
  same,     // same_memory
  unclear,  // may share some elements (other strides): the read operand has to be copied first
};
// How a written tensor and another operand share memory. Raises PyTorch's error for a partial overlap.
Sharing sharing(const at::Tensor& written, const at::Tensor& other);

}  // namespace neuron::pytorch
