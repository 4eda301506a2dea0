// Random numbers from Philox bits, as every random operator draws them: element i (row-major) of a draw uses counter
// offset + i, so a value depends on the generator's state and the element's index only, never on layout or fusion.
#pragma once

#include "ops/registry.h"

namespace neuron::ops {

// Uniform in [0, 1): f32 (24 bits), f16 (11 bits), bf16 (8 bits) come as f32; f64 has 53 bits. `skip`: numbers already drawn
// by this call, for operators that draw more than once.
Val uniform01(Lowering& l, const Shape& shape, DType dtype, int64_t skip = 0);
// Uniform in (0, 1), both ends excluded, in f32 or f64: for logarithms and divisions.
Val uniform_open(Lowering& l, const Shape& shape, DType dtype, int64_t skip = 0);
// Standard normal, f32 or f64. Draws 2 numbers an element.
Val standard_normal(Lowering& l, const Shape& shape, DType dtype);
// True with the given probability (0-dim or of `shape`).
Val bernoulli(Lowering& l, const Shape& shape, const Val& probability);

// The same draw from explicit state (u64 0-dim values): attention's backward repeats its forward's.
Val bernoulli_from(const Val& seed, const Val& offset, const Shape& shape, const Val& probability);

}  // namespace neuron::ops
