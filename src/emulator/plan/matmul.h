// Packing helpers of the matmul nodes.
#pragma once

#include "emulator/plan/plan.h"

namespace neuron::emulator::plan {

// At least `bytes` of this worker's growing matmul buffer, 64-byte aligned. Contents do not survive the next call.
float* matmul_scratch(Context& c, size_t bytes);

// k rows of n columns, any strides, to f32 panels that are `panel_stride` floats apart; unused columns become 0. `scratch`
// holds 64*128 floats.
void pack_rows(float* out, ptrdiff_t panel_stride, const uint8_t* at, int64_t k_stride, int64_t n_stride, DType type,
               uint32_t k, uint32_t n, float* scratch);

// The same as bf16 pairs for the matrix unit (UnitBlock); rows k..depth-1 and unused columns become 0. Types: bf16 and fp8.
inline constexpr int kUnitWidth = 32;
void pack_unit_rows(uint16_t* out, ptrdiff_t panel_stride, const uint8_t* at, int64_t k_stride, int64_t n_stride, DType type,
                    uint32_t k, uint32_t n, uint32_t depth);

// Whether this execution of a matmul adds to its result: always, or behind the first round of one of the loops `levels`.
bool adds_to_result(bool accumulate, uint8_t levels, const Context& c);
bool is_matrix_unit_type(DType t);  // bf16 and fp8
bool flatten(Ref* r);               // rank <= 1 with the same elements, or false

}  // namespace neuron::emulator::plan
