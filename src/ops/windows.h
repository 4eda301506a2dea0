// Windows along one dimension of a tensor, and the combination of the elements of each. Dimensions are combined one after
// the other, and long windows from windows of half their length: the work grows with the logarithm of the kernel, and no
// tensor of all windows is built.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ops/val.h"

namespace neuron::ops {

struct Windows {
  int64_t size = 0;   // of the dimension
  int64_t count = 0;  // of windows
  int64_t kernel = 1, stride = 1, dilation = 1, padding = 0;
  // Windows of unequal length (adaptive pooling): where each begins and how long it is; `kernel` is the shortest length.
  std::vector<int64_t> starts, lengths;

  int64_t start(int64_t window) const { return starts.empty() ? window * stride - padding : starts[window]; }
  // Padding behind the last element that the last window reaches into.
  int64_t high_padding() const;
};

// As pooling_output_shape: nothing where PyTorch refuses the numbers.
std::optional<Windows> sliding_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                                       bool ceil_mode);
// `count` windows that cover the dimension evenly.
Windows adaptive_windows(int64_t size, int64_t count);

// Tensors of equal shape that are cut and moved together.
using Parts = std::vector<Val>;
// The combination of two adjacent windows; `distance` is how many elements after a's first one b's first one lies.
using Combine = std::function<Parts(const Parts& a, const Parts& b, int64_t distance)>;

// Combines the elements of every window along `dim`; x has been padded already. Combine must be associative.
Parts combine_windows(const Parts& x, int64_t dim, const Windows& windows, const Combine& combine);
// Which element of a window is the largest, as CPU scans it: the first of equal ones, the last NaN. Parts are the value and,
// for each dimension combined so far, how many elements after the window's first one it lies; with_taps begins a dimension.
Parts with_taps(Parts parts, const Windows& windows);
Combine first_maximum();
Val sum_windows(const Val& x, int64_t dim, const Windows& windows);

}  // namespace neuron::ops
