// Gathers and scatters as PyTorch's operators need them, over ir::gather and ir::scatter. Index tensors are i64 or i32;
// bounds are checked when the program runs.
#pragma once

#include <vector>

#include "ops/registry.h"

namespace neuron::ops {

// Adds the dim's size to negative indices.
Val wrap_negative(const Val& index, int64_t size);

// out[.., i, ..] = x[.., index[i], ..]: whole slices along `dim`; index has any shape, its dims replace `dim`.
Val take_slices(const Val& x, const Val& index, int64_t dim);
// out[i..] = x[i.. with dim's entry replaced by index[i..]]: aten::gather.
Val gather_elements(const Val& x, const Val& index, int64_t dim);
// The counterpart: combines src[i..] into x at index[i..]. src has index's shape.
Val scatter_elements(const Val& x, const Val& index, const Val& src, int64_t dim, ir::Reducer combine);
// Combines slices: x[.., index[i], ..] op= src[.., i, ..]; index 1-D.
Val scatter_slices(const Val& x, const Val& index, const Val& src, int64_t dim, ir::Reducer combine);

}  // namespace neuron::ops
