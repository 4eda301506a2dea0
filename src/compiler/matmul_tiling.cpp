#include "compiler/matmul_tiling.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace neuron::compiler {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Equal blocks rather than a full one and a sliver: the sliver would cost a whole pass over the stationary operand.
int64_t balanced_columns(int64_t cols) {
  const int64_t blocks = ceil_div(cols, kTileCols);
  return std::min(kTileCols, ceil_div(ceil_div(cols, blocks), 64) * 64);
}

constexpr int64_t kFewRows = 32;

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
  if (axes.m < 0 && axes.n < 0) return false;
  const auto stride = [&](int dim, int access) { return dim < 0 ? 0 : std::abs(space.dims[dim].strides[access]); };
  const auto size = [&](int dim) { return dim < 0 ? 1 : space.dims[dim].size; };
  // Few rows (decoding, small batches) against a matrix whose k is contiguous (weights [n, k]): the matrix stands still, one
  // 128 x 128 load per multiply of a few columns, instead of streaming turned through 128 rows of which few are used.
  const bool right_by_rows = axes.k >= 0 && axes.n >= 0 && stride(axes.k, kRhs) < stride(axes.n, kRhs);
  if (size(axes.m) <= kFewRows && size(axes.n) >= kTileRows / 2 && right_by_rows) return true;
  if (axes.m < 0 || axes.n < 0) {
    // One row or one column otherwise: the long side streams through as the moving operand.
    return axes.n < 0 && stride(axes.m, kLhs) == 1;
  }
  // The result leaves PSUM with its columns contiguous; a transposed destination turns the product around.
  const bool out_m = stride(axes.m, kOut) == 1, out_n = stride(axes.n, kOut) == 1;
  if (out_m != out_n) return out_m;
  // A sliver of columns against many rows fills a fraction of each instruction's columns.
  return size(axes.n) * 8 <= kTileRows && size(axes.m) >= 4 * kTileRows && stride(axes.m, kLhs) == 1;
}

}  // namespace neuron::compiler
