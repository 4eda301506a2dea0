// Linear maps along one dimension that read few elements for each result: interpolation and its gradient. A map is a table
// of (position, weight), known when compiling; maps of several dimensions are applied one after the other.
#pragma once

#include <optional>
#include <vector>

#include "ops/val.h"

namespace neuron::ops {

struct Taps {
  struct Tap {
    int64_t position;
    double weight;
  };
  int64_t size = 0;                    // of the dimension that is read
  std::vector<std::vector<Tap>> rows;  // one for each result

  bool is_identity() const;
  Taps transposed() const;
};

enum class Kernel : uint8_t { nearest, nearest_exact, linear, cubic, linear_antialias, cubic_antialias, lanczos_antialias };

// The elements and weights by which CPU interpolates `size` elements to `count`, computed in its precision: double or float.
Taps interpolation(Kernel kernel, int64_t size, int64_t count, bool align_corners, std::optional<double> scale,
                   bool in_double);

// The map applied along `dim`; f32 or f64.
Val resample(const Val& x, int64_t dim, const Taps& taps);
// Single elements of weight 1, of any dtype.
Val resample_elements(const Val& x, int64_t dim, const Taps& taps);
// The map as CPU computes it on bytes: weights are integers with as many fraction bits as 16 bits hold, and the result of
// every dimension is a byte.
Val resample_bytes(const Val& x, int64_t dim, const Taps& taps);

}  // namespace neuron::ops
