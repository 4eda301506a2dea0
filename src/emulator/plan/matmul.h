// Packing helpers of the matmul nodes.
#pragma once

#include "emulator/plan/plan.h"

namespace neuron::emulator::plan {

// At least `bytes` of this worker's growing matmul buffer, 64-byte aligned. Contents do not survive the next call.
float* matmul_scratch(Context& c, size_t bytes);

// k rows of n columns, any strides, to f32 panels that are `panel_stride` floats apart; unused columns become 0. `scratch` holds
// 64*128 floats.
void pack_rows(float* out, ptrdiff_t panel_stride, const uint8_t* at, int64_t k_stride, int64_t n_stride, DType type, uint32_t k, uint32_t n,
               float* scratch);

}  // namespace neuron::emulator::plan
