#include "compiler/attention_tiles.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace neuron::compiler {

using isa::Access;
using isa::AluOp;
using isa::Dim;
using isa::Engine;
using isa::LoopKind;
using isa::Space;

namespace {

Dim make_dim(int64_t count, int64_t stride_bytes) { return {static_cast<uint32_t>(count), stride_bytes}; }

int64_t bytes_of(const AttentionTensor& t) { return static_cast<int64_t>(size_of(t.dtype)); }

Index offset_of(const Access& access) {
  Index offset = access.offset;
  offset.coefficient = access.loop_step;
  return offset;
}

// Beyond this exp() gets scaled scores: the clamped maximum times the scale must stay finite.
constexpr double kLargestFusedScale = 1e6;

}  // namespace

void AttentionTiles::for_each_head(const std::function<void()>& body) {
  b_.loop(shape_.batch, LoopKind::affine, [&](int batch_level) {
    b_.loop(shape_.heads, LoopKind::affine, [&](int head_level) {
      batch_ = Index::of_loop(batch_level);
      head_ = Index::of_loop(head_level);
      body();
    });
  });
}

void AttentionTiles::prepare_diagonal() {
  const TileId distance = b_.tile("row_minus_column", Space::sbuf, kAttentionRows, kAttentionRows * 4);
  diagonal_ = b_.tile("diagonal", Space::sbuf, kAttentionRows, kAttentionRows);
  isa::IndexPattern pattern;
  pattern.partition_step = 1;
  pattern.step[0] = -1;
  const Access d = b_.dense(distance, DType::f32, kAttentionRows, kAttentionRows);
  b_.iota(d, pattern);
  b_.tensor_scalar(Engine::vector, DType::f32, b_.dense(diagonal_, DType::boolean, kAttentionRows, kAttentionRows), d,
                   AluOp::greater_equal, ProgramBuilder::immediate(0.0));
}

Access AttentionTiles::rows_in_hbm(const AttentionTensor& t, const Index& row, int64_t rows, const Index& column,
                                   int64_t columns) const {
  const int64_t e = bytes_of(t);
  const Index offset = Index(t.offset_bytes) + batch_ * (t.strides[0] * e) + head_ * (t.strides[1] * e) +
                       row * (t.strides[2] * e) + column * (t.strides[3] * e);
  const Dim free[] = {make_dim(columns, t.strides[3] * e)};
  return b_.hbm(t.tensor, t.dtype, offset, rows, t.strides[2] * e, free);
}

void AttentionTiles::load_rows(const Access& dst, const AttentionTensor& t, const Index& row, const Index& column) {
  b_.dma_load(dst, rows_in_hbm(t, row, dst.partitions, column, static_cast<int64_t>(dst.elements_per_partition())));
}

void AttentionTiles::store_rows(const AttentionTensor& t, const Index& row, const Access& src) {
  b_.dma_store(rows_in_hbm(t, row, src.partitions, 0, static_cast<int64_t>(src.elements_per_partition())), src);
}

void AttentionTiles::load_row_tiles(TileId tile, const AttentionTensor& t, const Index& first, int64_t rows,
                                    int64_t columns) {
  const int64_t full = rows / kAttentionRows, tail = rows % kAttentionRows;
  const int64_t pitch = columns * element();
  if (full > 0) {
    const int64_t e = bytes_of(t);
    const Access start = rows_in_hbm(t, first, kAttentionRows, 0, columns);
    const Dim from[] = {make_dim(full, kAttentionRows * t.strides[2] * e), make_dim(columns, t.strides[3] * e)};
    const Dim to[] = {make_dim(full, pitch), make_dim(columns, element())};
    b_.dma_load(b_.on_chip(tile, dtype_, kAttentionRows, to),
                b_.hbm(t.tensor, t.dtype, offset_of(start), kAttentionRows, t.strides[2] * e, from));
  }
  if (tail > 0) load_rows(b_.dense(tile, dtype_, tail, columns, full * pitch), t, first + Index(full * kAttentionRows));
}

void AttentionTiles::load_transposed(TileId tile, const AttentionTensor& t, const Index& first, int64_t rows,
                                     int64_t columns) {
  const int64_t e = bytes_of(t);
  const bool turned = std::abs(t.strides[3]) < std::abs(t.strides[2]) && rows > 1;
  for (int64_t c = 0; c < columns; c += kAttentionRows) {
    const int64_t width = std::min(kAttentionRows, columns - c);
    const int64_t plane = c / kAttentionRows * rows;  // elements before this tile of columns
    b_.for_tiles(rows, turned && width > 1 ? kAttentionColumns : rows, LoopKind::sequential, [&](const TileIndex& r) {
      const Access dst = b_.dense(tile, dtype_, width, r.count, (r.start + Index(plane)) * element());
      const Access src = rows_in_hbm(t, first + r.start, r.count, c, width);
      if (turned && width > 1) {
        b_.dma_transpose(dst, src);
      } else {
        const Dim along_rows[] = {make_dim(r.count, t.strides[2] * e)};
        b_.dma_load(dst, b_.hbm(t.tensor, t.dtype, offset_of(src), width, t.strides[3] * e, along_rows));
      }
    });
  }
}

void AttentionTiles::product(const Access& dst, TileId left, int64_t rows, TileId right, const Index& first,
                             int64_t right_pitch, int64_t columns, int64_t dim) {
  for (int64_t c = 0; c < columns; c += kAttentionColumns) {
    const int64_t width = std::min(kAttentionColumns, columns - c);
    for (int64_t k = 0; k < dim; k += kAttentionRows) {
      const int64_t depth = std::min(kAttentionRows, dim - k), plane = k / kAttentionRows;
      b_.nc_matmul(columns_of(dst, c, width), b_.dense(left, dtype_, depth, rows, plane * rows * element()),
                   b_.dense(right, dtype_, depth, width, (first + Index(c + plane * right_pitch)) * element()), DType::f32,
                   k > 0);
    }
  }
}

bool AttentionTiles::scale_in_exp(const AttentionTensor& mask) const {
  return attrs_.scale > 0 && attrs_.scale <= kLargestFusedScale && !(mask.present && mask.dtype != DType::boolean);
}

AttentionTiles::Scores AttentionTiles::masked(const Access& raw, const ScoreBlock& block, const AttentionTensor& mask) {
  const auto minus_infinity = ProgramBuilder::immediate(-std::numeric_limits<double>::infinity());
  Scores scores{raw, attrs_.scale};
  Access mask_tile;
  if (mask.present) {
    const int64_t pitch = block.columns * bytes_of(mask);
    mask_tile = b_.dense(b_.tile("mask", Space::sbuf, block.rows, pitch, buffers_), mask.dtype, block.rows, block.columns);
    load_rows(mask_tile, mask, block.q0, block.k0);
  }
  if (!scale_in_exp(mask)) {
    scores.access = b_.dense(b_.tile("scaled_scores", Space::sbuf, block.rows, block.columns * 4, buffers_), DType::f32,
                             block.rows, block.columns);
    scores.scale = 1.0;
    const auto scale = ProgramBuilder::immediate(attrs_.scale);
    if (mask.present && mask.dtype != DType::boolean) {
      b_.scalar_tensor_tensor(Engine::vector, DType::f32, scores.access, raw, AluOp::multiply, scale, false, AluOp::add,
                              mask_tile, false);
    } else {
      b_.tensor_scalar(Engine::vector, DType::f32, scores.access, raw, AluOp::multiply, scale);
    }
  }
  if (mask.present && mask.dtype == DType::boolean) {
    b_.select(Engine::vector, DType::f32, scores.access, mask_tile, scores.access, {}).scalar1 = minus_infinity;
  }
  if (block.diagonal >= 0) {
    const Access cut = columns_of(scores.access, block.diagonal, block.diagonal_columns);
    b_.select(Engine::vector, DType::f32, cut, b_.dense(diagonal_, DType::boolean, block.rows, block.diagonal_columns), cut,
              {})
        .scalar1 = minus_infinity;
  }
  return scores;
}

void AttentionTiles::multiply_turned(const Access& result, const Access& left, TileId right, const Index& first_tile) {
  const auto keys = static_cast<int64_t>(left.elements_per_partition());
  const int64_t rows = left.partitions;
  const auto columns = static_cast<int64_t>(result.elements_per_partition());
  bool first = true;
  b_.for_tiles(keys, kAttentionRows, LoopKind::sequential, [&](const TileIndex& key) {
    const bool looped = keys / kAttentionRows > 1 && key.count == kAttentionRows;
    const int level = looped ? b_.depth() - 1 : -1;
    const Index tile_number = looped ? Index::of_loop(level) : Index(key.start.base / kAttentionRows);
    Access block = columns_of(left, 0, key.count);
    block.offset += tile_number.base * kAttentionRows * element();
    if (looped) block.loop_step[static_cast<size_t>(level)] += kAttentionRows * element();
    const int64_t pitch = rows * element();
    const uint32_t buffers = looped ? 2 : buffers_;
    const Access turned = b_.dense(b_.tile("turned_psum", Space::psum, key.count, pitch, buffers), dtype_, key.count, rows);
    const Access stationary = b_.dense(b_.tile("turned", Space::sbuf, key.count, pitch, buffers), dtype_, key.count, rows);
    b_.nc_transpose(Engine::tensor, turned, block);
    b_.tensor_copy(Engine::vector, DType::f32, stationary, turned);
    b_.nc_matmul(result, stationary,
                 b_.dense(right, dtype_, key.count, columns, (first_tile + tile_number) * (columns * element())), DType::f32,
                 !first, first && looped ? static_cast<uint8_t>(1u << level) : 0);
    first = false;
  });
}

void AttentionTiles::reduce_columns(AluOp op, const Access& dst, const Access& src) {
  if (src.elements_per_partition() == 1) {
    b_.tensor_copy(Engine::vector, DType::f32, dst, src);
  } else {
    b_.tensor_reduce(Engine::vector, DType::f32, op, dst, src, 1);
  }
}

Access AttentionTiles::columns_of(const Access& access, int64_t first, int64_t count) {
  Access part = access;
  const auto stride = static_cast<int64_t>(size_of(access.dtype));
  part.offset += first * stride;
  part.rank = count == 1 ? 0 : 1;
  part.dims[0] = {static_cast<uint32_t>(count), stride};
  return part;
}

bool attention_region_takes(const ir::Graph& graph, const ir::Node& node) {
  const auto& attrs = std::get<ir::AttentionAttrs>(node.attrs);
  const bool backward = node.op == ir::Op::attention_backward;
  const size_t q = backward ? 1 : 0;
  const auto& q_type = graph.type(node.operands[q]);
  const auto& k_type = graph.type(node.operands[q + 1]);
  const auto& v_type = graph.type(node.operands[q + 2]);
  const bool dtype_ok = q_type.dtype == DType::f32 || q_type.dtype == DType::bf16 || q_type.dtype == DType::f16;
  if (!dtype_ok || k_type.dtype != q_type.dtype || v_type.dtype != q_type.dtype) return false;
  if (attrs.has_mask) {
    const DType mask = graph.type(node.operands[backward ? 6 : 3]).dtype;
    if (mask != DType::boolean && mask != DType::f32 && mask != DType::bf16 && mask != DType::f16) return false;
  }
  const int64_t queries = q_type.shape[2], keys = k_type.shape[2], head_dim = q_type.shape[3], value_dim = v_type.shape[3];
  if (keys == 0 || head_dim == 0 || value_dim == 0) return false;
  if (head_dim > kAttentionDims || value_dim > kAttentionDims) return false;
  if (!backward) return true;
  // Over several key blocks dq stays in SBUF until the last one.
  return keys <= kAttentionRows || (queries + kAttentionRows - 1) / kAttentionRows * head_dim * 4 <= 64 * 1024;
}

}  // namespace neuron::compiler
