// What attention forward and backward share: tiles of q, k, v and their transposes, scores with masks, and the chain that
// multiplies by a matrix lying the wrong way round.
#pragma once

#include <string_view>

#include "compiler/attention_emitter.h"

namespace neuron::compiler {

inline constexpr int64_t kAttentionRows = 128;     // query rows per tile, keys per probability tile
inline constexpr int64_t kAttentionColumns = 512;  // columns of one score instruction
inline constexpr int64_t kAttentionDims = 512;     // largest head dimension

class AttentionTiles {
 public:
  AttentionTiles(ProgramBuilder& builder, const AttentionShape& shape, const ir::AttentionAttrs& attrs, DType dtype,
                 bool share_tiles)
      : b_(builder), shape_(shape), attrs_(attrs), dtype_(dtype), share_tiles_(share_tiles) {}

 protected:
  using TileId = uint32_t;
  // Queries q0 .. q0 + rows - 1 against keys k0 .. k0 + columns - 1 of the current batch and head. Where the diagonal
  // passes, `diagonal` is the first column that it cuts off partly (its place in the block), else -1.
  struct ScoreBlock {
    Index q0, k0;
    int64_t rows = 0, columns = 0;
    int64_t diagonal = -1, diagonal_columns = 0;
  };
  // Masked scores and the factor that exp() still has to apply to them.
  struct Scores {
    isa::Access access;
    double scale = 1.0;
  };

  int64_t element() const { return static_cast<int64_t>(size_of(dtype_)); }
  static int64_t tiles_of(int64_t n) { return (n + kAttentionRows - 1) / kAttentionRows; }

  // Loops over batch and head around body(); batch_ and head_ stand at the current one.
  void for_each_head(const std::function<void()>& body);
  // Tile bool [128,128]: column <= row. Built once.
  void prepare_diagonal();

  // HBM [rows, columns] of `t` from (row, column), rows on partitions.
  isa::Access rows_in_hbm(const AttentionTensor& t, const Index& row, int64_t rows, const Index& column,
                          int64_t columns) const;
  void load_rows(const isa::Access& dst, const AttentionTensor& t, const Index& row, const Index& column = 0);
  void store_rows(const AttentionTensor& t, const Index& row, const isa::Access& src);
  // tile [128, row tiles, columns] <- rows first .. first + rows - 1, 128 rows per row tile.
  void load_row_tiles(TileId tile, const AttentionTensor& t, const Index& first, int64_t rows, int64_t columns);
  // tile [128, tiles of columns, rows] <- the same transposed: columns (head dimension) on partitions.
  void load_transposed(TileId tile, const AttentionTensor& t, const Index& first, int64_t rows, int64_t columns);

  // dst [rows, columns] = sum over the head dimension `dim`: left [dim, rows] (stationary), right [dim, right_pitch] from
  // column `first` (moving); both as load_transposed leaves them.
  void product(const isa::Access& dst, TileId left, int64_t rows, TileId right, const Index& first, int64_t right_pitch,
               int64_t columns, int64_t dim);
  // Scores with scale, mask and diagonal. `raw` is the PSUM block that product() filled.
  Scores masked(const isa::Access& raw, const ScoreBlock& block, const AttentionTensor& mask);
  bool scale_in_exp(const AttentionTensor& mask) const;

  // result [rows, columns] (+)= left [rows, keys] . right, right as load_row_tiles leaves it, starting at row tile `first`.
  // left lies with its contraction index on the free axis: 128 x 128 blocks go through nc_transpose.
  void multiply_turned(const isa::Access& result, const isa::Access& left, TileId right, const Index& first_tile);

  // dst [rows, 1] = op over the columns of src.
  void reduce_columns(isa::AluOp op, const isa::Access& dst, const isa::Access& src);
  TileId row_scalar(std::string_view name) { return row_scalar(name, buffers_); }
  TileId row_scalar(std::string_view name, uint32_t buffers) {
    return b_.tile(name, isa::Space::sbuf, kAttentionRows, 4, buffers);
  }
  // Sets buffers_ for one of the pieces of code that treat the query tiles of a head: `looped` = a loop of its own around
  // it.
  void set_buffers(bool looped, bool only_piece) { buffers_ = !share_tiles_ || looped || only_piece ? 2 : 1; }
  isa::Access scalar_access(TileId tile, int64_t rows) const { return b_.dense(tile, DType::f32, rows, 1); }
  static isa::Access columns_of(const isa::Access& access, int64_t first, int64_t count);

  ProgramBuilder& b_;
  const AttentionShape& shape_;
  const ir::AttentionAttrs& attrs_;
  const DType dtype_;
  Index batch_, head_;
  TileId diagonal_ = 0;
  // Copies of the tiles of one query tile. A rotating tile occupies its bytes during the whole loop: with share_tiles_,
  // query tiles that are written out one after the other do not rotate, so that they can lie in the same place.
  const bool share_tiles_;
  uint32_t buffers_ = 2;
};

}  // namespace neuron::compiler
