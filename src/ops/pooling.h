// What operators over the trailing 2 or 3 ("spatial") dimensions of [(batch,) channels, spatial..] share: pooling,
// unpooling, fractional pooling.
#pragma once

#include <string_view>
#include <vector>

#include "ops/registry.h"

namespace neuron::ops {

// An int or a list of them as one per spatial dimension.
std::vector<int64_t> per_dim(const Lowering& l, std::string_view name, size_t spatial, int64_t otherwise = 0);
Shape spatial_of(const Shape& shape, size_t spatial);
// `shape` with its last dimensions replaced.
Shape with_spatial(const Shape& shape, const Shape& spatial);
// With or without batch; only the batch may be empty.
bool is_pooled(const Shape& shape, size_t spatial);
// A result over `shape` in the memory format of `like`; planar: where 3 dimensions are always contiguous.
TensorMeta pooled_meta(DType dtype, const Shape& shape, const TensorMeta& like, size_t spatial);
TensorMeta planar_meta(DType dtype, const Shape& shape, const TensorMeta& like, size_t spatial);

// [batch * channels, elements of the spatial dimensions].
Val rows_of(const Val& x, size_t spatial);
// A tensor of `shape`, zero but for source at `indices` of its channel's volume.
Val scatter_rows(const Val& source, const Val& indices, const Shape& shape, size_t spatial, ir::Reducer combine);
// The gradient of every kind of max pooling: grad_output added at `indices` of a tensor like `self`.
Val add_at_indices(Lowering& l, size_t spatial);
// The place of an element in its channel's volume (i64).
Val position_in_volume(const std::vector<Val>& position, const Shape& volume);

}  // namespace neuron::ops
