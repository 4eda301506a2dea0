// Sizes of the matmul loop nest: which operand is stationary, how wide a column block is, how much of the contraction stays
// in SBUF and how many row tiles accumulate in PSUM at the same time. Arithmetic on sizes only; one small decision per
// function.
#pragma once

#include <cstdint>

#include "compiler/matmul_space.h"

namespace neuron::compiler {

// TensorE's limits per instruction.
inline constexpr int64_t kTileK = 128;            // contraction: partitions of both operands
inline constexpr int64_t kTileRows = 128;         // columns of the stationary operand = rows of the result
inline constexpr int64_t kTileCols = 512;         // columns of the moving operand = columns of the result
inline constexpr int64_t kPsumBytes = 16 * 1024;  // per partition
inline constexpr int64_t kPsumBankBytes = 2 * 1024;

// Bytes of a PSUM tile row that holds `bytes`, so that neither it nor the buffer behind it straddles a bank.
int64_t psum_pitch(int64_t bytes);

struct MatmulSizes {
  int64_t rows = 1, cols = 1, k = 1;  // tile indices, after the choice of the stationary side
  int64_t inner_k = 1;                // product of the other contraction loops
  int64_t moving_bytes = 4;           // per element of the moving tile
  int64_t result_bytes = 4;           // per element of the accumulator
  bool result_in_psum = true;
};

struct MatmulTiling {
  int64_t cols = kTileCols;      // columns per block; the last block may be narrower
  int64_t k_tiles = 1;           // full k tiles of a resident block
  bool inner_k_resident = true;  // the moving block holds all inner k loops; false: one at a time
  int64_t row_group = 1;         // row tiles whose accumulators live together while k blocks pass; 1 if one block is all
  int64_t moving_buffers = 1;
  bool single_block(const MatmulSizes& sizes) const {
    return (inner_k_resident || sizes.inner_k == 1) && k_tiles * kTileK >= sizes.k;
  }
};

MatmulTiling choose_tiling(const MatmulSizes& sizes, int64_t sbuf_budget_bytes);

// True if the right operand should be the stationary one, so that the result is computed transposed.
bool right_is_stationary(const MatmulSpace& space, const MatmulAxes& axes);

}  // namespace neuron::compiler
