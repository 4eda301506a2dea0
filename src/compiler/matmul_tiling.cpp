#include "compiler/matmul_tiling.h"

#include <algorithm>
#include <bit>

namespace neuron::compiler {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Equal blocks rather than a full one and a sliver: the sliver would cost a whole pass over the stationary operand.
int64_t balanced_columns(int64_t cols) {
  const int64_t blocks = ceil_div(cols, kTileCols);
  return std::min(kTileCols, ceil_div(ceil_div(cols, blocks), 64) * 64);
}

int64_t unit_stride_score(const MatmulDim& dim, int access) { return dim.strides[access] == 1 || dim.strides[access] == -1; }

}  // namespace

int64_t psum_pitch(int64_t bytes) {
  if (bytes > kPsumBankBytes) return ceil_div(bytes, kPsumBankBytes) * kPsumBankBytes;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bytes, 64))));
}

MatmulTiling choose_tiling(const MatmulSizes& sizes, int64_t sbuf_budget_bytes) {
  MatmulTiling tiling;
  tiling.cols = std::max<int64_t>(1, std::min(sizes.cols, balanced_columns(sizes.cols)));
  const int64_t all_k_tiles = std::max<int64_t>(1, ceil_div(sizes.k, kTileK));
  const int64_t tile_bytes = tiling.cols * sizes.moving_bytes;  // per partition and k tile
  const auto fits = [&](int64_t tiles) { return tiles * tile_bytes <= sbuf_budget_bytes; };

  if (fits(all_k_tiles * sizes.inner_k)) {
    tiling.k_tiles = all_k_tiles;
    tiling.moving_buffers = fits(2 * all_k_tiles * sizes.inner_k) ? 2 : 1;
    return tiling;
  }
  tiling.inner_k_resident = sizes.inner_k == 1;
  if (fits(all_k_tiles)) {
    tiling.k_tiles = all_k_tiles;
  } else {
    // Equal blocks again; at least one tile, which always fits a sensible budget.
    const int64_t most = std::max<int64_t>(1, sbuf_budget_bytes / (2 * tile_bytes));
    tiling.k_tiles = ceil_div(all_k_tiles, ceil_div(all_k_tiles, most));
  }
  tiling.moving_buffers = fits(2 * tiling.k_tiles) ? 2 : 1;
  // Every further row tile that accumulates beside the others saves one reload of the moving block.
  const int64_t accumulator_budget = sizes.result_in_psum ? kPsumBytes : sbuf_budget_bytes;
  const int64_t row_tiles = std::max<int64_t>(1, ceil_div(sizes.rows, kTileRows));
  const int64_t most_rows = std::max<int64_t>(1, accumulator_budget / psum_pitch(tiling.cols * sizes.result_bytes));
  tiling.row_group = ceil_div(row_tiles, ceil_div(row_tiles, most_rows));
  return tiling;
}

bool right_is_stationary(const MatmulSpace& space, const MatmulAxes& axes) {
  if (axes.m < 0 || axes.n < 0) {
    // One row or one column: the long side streams through as the moving operand.
    return axes.n < 0 && axes.m >= 0;
  }
  const MatmulDim& m = space.dims[axes.m];
  const MatmulDim& n = space.dims[axes.n];
  // The result leaves PSUM with its columns contiguous; a transposed destination turns the product around.
  const int64_t out_m = unit_stride_score(m, kOut), out_n = unit_stride_score(n, kOut);
  if (out_m != out_n) return out_m > out_n;
  // A sliver of columns against many rows would fill a fraction of each instruction's 512 columns.
  return n.size * 8 <= kTileRows && m.size >= 4 * kTileRows && unit_stride_score(m, kLhs) > 0;
}

}  // namespace neuron::compiler
