// Windows that slide over the last dims of a tensor, and their adjoint: what convolution and unfold / fold are made of. Both
// are a fixed number of nodes for any kernel, size and number of dims; windows are read through a strided view, not copied.
#pragma once

#include <vector>

#include "ops/val.h"

namespace neuron::ops {

// Along one dim: tap t of window j reads element j * stride + t * dilation - padding; 0 outside.
struct Sliding {
  int64_t taps = 1, stride = 1, padding = 0, dilation = 1;
  int64_t positions = 1;  // number of windows

  int64_t span() const { return dilation * (taps - 1) + 1; }
  bool trivial(int64_t size) const { return taps == 1 && stride == 1 && padding == 0 && positions == size; }
};
using SlidingDims = std::vector<Sliding>;

// How many windows fit into a dim of that size: 0 or less if none does.
int64_t positions_in(int64_t size, const Sliding& s);

// x [lead.., size..] -> [lead.., taps.., positions..].
Val windows(const Val& x, const SlidingDims& dims);
// pieces [lead.., taps.., positions..] -> [lead.., size..]: each piece is added where `windows` would have read it.
Val overlap_add(const Val& pieces, const SlidingDims& dims, const Shape& sizes);

}  // namespace neuron::ops
