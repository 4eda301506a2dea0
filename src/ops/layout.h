// Strides of results: the rules by which PyTorch decides the memory layout of what an operator returns. Pure functions on
// shapes and strides (elements), no tensors.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "ops/lowering.h"

namespace neuron::ops {

using Shape = std::vector<int64_t>;

enum class MemoryFormat : uint8_t { contiguous, preserve, channels_last, channels_last_3d };
// PyTorch's numbering of c10::MemoryFormat, as schemas pass it.
std::optional<MemoryFormat> memory_format_from_int(int64_t value);

int64_t element_count(const Shape& shape);
Shape contiguous_strides_of(const Shape& shape);
Shape channels_last_strides(const Shape& shape);  // 4 or 5 dims

bool is_contiguous(const Shape& shape, const Shape& strides);
bool is_channels_last(const Shape& shape, const Shape& strides);  // contiguous in channels_last (4) or _3d (5)
bool is_dense(const Shape& shape, const Shape& strides);          // non-overlapping and dense
// Tensor::suggest_memory_format: channels_last(_3d) if the strides say so, else contiguous.
MemoryFormat suggested_format(const Shape& shape, const Shape& strides);

// empty_like with preserve_format: the same strides when dense, else dense in the order of the strides.
Shape preserved_strides(const Shape& shape, const Shape& strides);
Shape strides_for(MemoryFormat format, const Shape& shape, const Shape& input_strides);

// numpy broadcasting; nothing when the shapes do not agree.
std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);

// TensorIterator: strides of a new output of broadcast shape `shape`, from the inputs in operand order.
struct Operand {
  Shape shape, strides;
};
Shape iterator_strides(const Shape& shape, std::span<const Operand> inputs);

}  // namespace neuron::ops
