#include <algorithm>
#include <limits>
#include <vector>

#include "compiler/attention_tiles.h"
#include "compiler/matmul_tiling.h"

namespace neuron::compiler {
namespace {

using isa::Access;
using isa::ActFn;
using isa::AluOp;
using isa::Engine;
using isa::LoopKind;
using isa::Space;

class Backward : AttentionTiles {
 public:
  Backward(ProgramBuilder& builder, const AttentionBackward& a)
      : AttentionTiles(builder, a.shape, a.attrs, a.q.dtype, a.share_tiles), a_(a) {}

  void emit();

 private:
  // A block of keys with what stays on chip while all query tiles pass.
  struct KeyBlock {
    int64_t k0 = 0, keys = 0;
    TileId k_transposed = 0, v_transposed = 0, k_rows = 0;
    TileId dk = 0, dv = 0;         // PSUM accumulators, one pitch per key tile
    std::vector<uint8_t> touched;  // per key tile: some query has contributed (in program order)
  };
  struct QueryTile {
    Index q0;
    int64_t rows = 0;
    int level = -1;  // loop over query tiles, -1 if written out
    TileId q_transposed = 0, grad_transposed = 0;
    Access q_rows, grad_rows, negative_lse, delta;
  };

  int64_t block_keys() const;
  int64_t dk_pitch() const { return psum_pitch(shape_.head_dim * 4); }
  int64_t dv_pitch() const { return psum_pitch(shape_.value_dim * 4); }
  KeyBlock load_block(int64_t k0, int64_t keys);
  void query_tiles(KeyBlock& block);
  QueryTile load_queries(const Index& q0, int64_t rows, int level);
  void query_tile(KeyBlock& block, const Index& q0, int64_t rows, int level, int64_t visible);
  Access probabilities(const KeyBlock& block, const QueryTile& q, int64_t visible);
  Access keep_mask(const KeyBlock& block, const QueryTile& q, int64_t visible);
  // accumulator[key tile] += left[rows, key tile]^T right[rows, columns]
  void accumulate(KeyBlock& block, TileId accumulator, int64_t pitch, const Access& left, const Access& right, int level);
  void add_to_dq(const KeyBlock& block, const QueryTile& q, const Access& ds);
  void store_dq(const Index& q0, const Access& values);
  void store_keys(const KeyBlock& block, const AttentionTensor& destination, TileId accumulator, int64_t pitch,
                  int64_t columns, double scale);
  Access temporary(std::string_view name, DType dtype, int64_t rows, int64_t columns) {
    return b_.dense(b_.tile(name, Space::sbuf, rows, columns * static_cast<int64_t>(size_of(dtype)), buffers_), dtype, rows,
                    columns);
  }

  const AttentionBackward& a_;
  bool single_block_ = true;
  TileId dq_sum_ = 0;  // several key blocks: dq of all query tiles, f32
};

// Scores and their gradient take a PSUM bank each per 512 keys; dk and dv of the block and one dq tile share the rest.
int64_t Backward::block_keys() const {
  int64_t keys = kAttentionColumns;
  const auto psum = [&](int64_t n) {
    return 2 * n * 4 + tiles_of(n) * (dk_pitch() + dv_pitch()) + psum_pitch(shape_.head_dim * 4) +
           2 * kAttentionRows * element();
  };
  while (keys > kAttentionRows && psum(keys) > kPsumBytes) keys /= 2;
  return keys;
}

void Backward::emit() {
  if (attrs_.causal) prepare_diagonal();
  const int64_t block = block_keys();
  single_block_ = shape_.keys <= block;
  for_each_head([&] {
    if (!single_block_ && a_.dq.present) {
      const int64_t bytes = tiles_of(shape_.queries) * shape_.head_dim * 4;
      dq_sum_ = b_.tile("dq_sum", Space::sbuf, std::min(shape_.queries, kAttentionRows), bytes, 1);
      b_.memset(Engine::vector, DType::f32,
                b_.dense(dq_sum_, DType::f32, std::min(shape_.queries, kAttentionRows), bytes / 4),
                ProgramBuilder::immediate(0.0));
    }
    for (int64_t k0 = 0; k0 < shape_.keys; k0 += block) {
      set_buffers(false, single_block_);
      KeyBlock keys = load_block(k0, std::min(block, shape_.keys - k0));
      query_tiles(keys);
      set_buffers(false, single_block_);
      if (a_.dk.present) store_keys(keys, a_.dk, keys.dk, dk_pitch(), shape_.head_dim, attrs_.scale);
      if (a_.dv.present) store_keys(keys, a_.dv, keys.dv, dv_pitch(), shape_.value_dim, 1.0);
    }
    if (!single_block_ && a_.dq.present) {
      const int64_t tile_elements = shape_.head_dim;
      b_.for_tiles(shape_.queries, kAttentionRows, LoopKind::sequential, [&](const TileIndex& q) {
        Index tile = q.start;  // in rows; bytes of a tile per 128 rows
        tile.base = tile.base / kAttentionRows * tile_elements * 4;
        for (int64_t& c : tile.coefficient) c = c / kAttentionRows * tile_elements * 4;
        store_dq(q.start, b_.dense(dq_sum_, DType::f32, q.count, shape_.head_dim, tile));
      });
    }
  });
}

Backward::KeyBlock Backward::load_block(int64_t k0, int64_t keys) {
  KeyBlock block;
  block.k0 = k0;
  block.keys = keys;
  block.touched.assign(static_cast<size_t>(tiles_of(keys)), 0);
  const auto transposed = [&](std::string_view name, const AttentionTensor& t, int64_t columns) {
    const TileId tile =
        b_.tile(name, Space::sbuf, std::min(columns, kAttentionRows), tiles_of(columns) * keys * element(), buffers_);
    load_transposed(tile, t, k0, keys, columns);
    return tile;
  };
  block.k_transposed = transposed("k_transposed", a_.k, shape_.head_dim);
  block.v_transposed = transposed("v_transposed", a_.v, shape_.value_dim);
  if (a_.dq.present) {
    block.k_rows =
        b_.tile("k", Space::sbuf, std::min(keys, kAttentionRows), tiles_of(keys) * shape_.head_dim * element(), buffers_);
    load_row_tiles(block.k_rows, a_.k, k0, keys, shape_.head_dim);
  }
  const int64_t rows = std::min(keys, kAttentionRows);
  if (a_.dk.present) block.dk = b_.tile("dk_sum", Space::psum, rows, tiles_of(keys) * dk_pitch());
  if (a_.dv.present) block.dv = b_.tile("dv_sum", Space::psum, rows, tiles_of(keys) * dv_pitch());
  return block;
}

void Backward::query_tiles(KeyBlock& block) {
  if (!attrs_.causal) {
    b_.for_tiles(shape_.queries, kAttentionRows, LoopKind::sequential, [&](const TileIndex& q) {
      const bool looped = shape_.queries / kAttentionRows > 1 && q.count == kAttentionRows;
      set_buffers(looped, single_block_ && shape_.queries <= kAttentionRows);
      query_tile(block, q.start, q.count, looped ? b_.depth() - 1 : -1, block.keys);
    });
    return;
  }
  // Query rows before the block see none of it; every other tile sees a number of keys of its own, in whole key tiles so
  // that every accumulator row gets a first contribution (a zero from beyond the diagonal).
  for (int64_t q0 = block.k0; q0 < shape_.queries; q0 += kAttentionRows) {
    const int64_t rows = std::min(kAttentionRows, shape_.queries - q0);
    set_buffers(false, single_block_ && shape_.queries <= kAttentionRows);
    query_tile(block, q0, rows, -1, std::min(block.keys, tiles_of(q0 + rows - block.k0) * kAttentionRows));
  }
}

Backward::QueryTile Backward::load_queries(const Index& q0, int64_t rows, int level) {
  QueryTile q;
  q.q0 = q0;
  q.rows = rows;
  q.level = level;
  const auto transposed = [&](std::string_view name, const AttentionTensor& t, int64_t columns) {
    const TileId tile =
        b_.tile(name, Space::sbuf, std::min(columns, kAttentionRows), tiles_of(columns) * rows * element(), buffers_);
    load_transposed(tile, t, q0, rows, columns);
    return tile;
  };
  const auto row_tile = [&](std::string_view name, const AttentionTensor& t, int64_t columns) {
    const Access tile = temporary(name, dtype_, rows, columns);
    load_rows(tile, t, q0);
    return tile;
  };
  q.q_transposed = transposed("q_transposed", a_.q, shape_.head_dim);
  q.grad_transposed = transposed("grad_transposed", a_.grad, shape_.value_dim);
  if (a_.dk.present) q.q_rows = row_tile("q", a_.q, shape_.head_dim);
  q.grad_rows = row_tile("grad", a_.grad, shape_.value_dim);

  const Access lse = scalar_access(row_scalar("logsumexp"), rows);
  load_rows(lse, a_.logsumexp, q0);
  q.negative_lse = scalar_access(row_scalar("negative_logsumexp"), rows);
  // Clamped: a row without any key has logsumexp -inf, and its probabilities have to come out as exp(-inf) = 0.
  b_.tensor_scalar(Engine::vector, DType::f32, q.negative_lse, lse, AluOp::multiply, ProgramBuilder::immediate(-1.0), false,
                   AluOp::minimum, ProgramBuilder::immediate(std::numeric_limits<float>::max()));
  // delta = sum over keys of p dp, which equals the row sum of grad * out.
  const Access out = row_tile("out", a_.out, shape_.value_dim);
  const Access products = temporary("grad_times_out", DType::f32, rows, shape_.value_dim);
  b_.tensor_tensor(Engine::vector, DType::f32, AluOp::multiply, products, q.grad_rows, out);
  q.delta = scalar_access(row_scalar("delta"), rows);
  reduce_columns(AluOp::add, q.delta, products);
  return q;
}

Access Backward::probabilities(const KeyBlock& block, const QueryTile& q, int64_t visible) {
  ScoreBlock where{q.q0, block.k0, q.rows, visible};
  if (attrs_.causal && q.q0.base - block.k0 < visible) {
    where.diagonal = q.q0.base - block.k0;
    where.diagonal_columns = visible - where.diagonal;
  }
  const Access raw = b_.dense(b_.tile("scores", Space::psum, q.rows, psum_pitch(visible * 4)), DType::f32, q.rows, visible);
  product(raw, q.q_transposed, q.rows, block.k_transposed, 0, block.keys, visible, shape_.head_dim);
  const Scores scores = masked(raw, where, a_.mask);
  const Access p = temporary("probabilities", DType::f32, q.rows, visible);
  b_.activation(Engine::scalar, DType::f32, ActFn::exp, p, scores.access, ProgramBuilder::immediate(scores.scale),
                ProgramBuilder::scalar(q.negative_lse));
  return p;
}

Access Backward::keep_mask(const KeyBlock& block, const QueryTile& q, int64_t visible) {
  const Access keep = temporary("keep", DType::boolean, q.rows, visible);
  load_rows(keep, a_.keep, q.q0, block.k0);
  return keep;
}

void Backward::query_tile(KeyBlock& block, const Index& q0, int64_t rows, int level, int64_t visible) {
  const QueryTile q = load_queries(q0, rows, level);
  const Access p = probabilities(block, q, visible);
  const auto keep_scale = ProgramBuilder::immediate(attrs_.keep_scale);
  Access keep;
  if (a_.keep.present) keep = keep_mask(block, q, visible);

  if (a_.dv.present) {
    Access dropped = p;
    if (a_.keep.present) {
      dropped = temporary("dropped", dtype_, rows, visible);
      b_.scalar_tensor_tensor(Engine::vector, DType::f32, dropped, p, AluOp::multiply, keep_scale, false, AluOp::multiply,
                              keep, false);
    } else if (dtype_ != DType::f32) {
      dropped = temporary("rounded", dtype_, rows, visible);
      b_.tensor_copy(Engine::vector, DType::f32, dropped, p);
    }
    accumulate(block, block.dv, dv_pitch(), dropped, q.grad_rows, level);
  }
  if (a_.dq.present || a_.dk.present) {
    const Access raw = b_.dense(b_.tile("dp", Space::psum, rows, psum_pitch(visible * 4)), DType::f32, rows, visible);
    product(raw, q.grad_transposed, rows, block.v_transposed, 0, block.keys, visible, shape_.value_dim);
    Access dp = raw;
    if (a_.keep.present) {
      dp = temporary("dp_dropped", DType::f32, rows, visible);
      b_.scalar_tensor_tensor(Engine::vector, DType::f32, dp, raw, AluOp::multiply, keep_scale, false, AluOp::multiply, keep,
                              false);
    }
    // The scale joins dq and dk when they are stored.
    const Access ds = temporary("ds", dtype_, rows, visible);
    b_.scalar_tensor_tensor(Engine::vector, DType::f32, ds, dp, AluOp::subtract, ProgramBuilder::scalar(q.delta), false,
                            AluOp::multiply, p, false);
    if (a_.dk.present) accumulate(block, block.dk, dk_pitch(), ds, q.q_rows, level);
    if (a_.dq.present) add_to_dq(block, q, ds);
  }
  for (int64_t tile = 0; tile < tiles_of(visible); ++tile) block.touched[static_cast<size_t>(tile)] = 1;
}

void Backward::accumulate(KeyBlock& block, TileId accumulator, int64_t pitch, const Access& left, const Access& right,
                          int level) {
  const auto columns = static_cast<int64_t>(right.elements_per_partition());
  const auto visible = static_cast<int64_t>(left.elements_per_partition());
  for (int64_t key = 0; key < visible; key += kAttentionRows) {
    const int64_t keys = std::min(kAttentionRows, visible - key);
    const bool first = block.touched[static_cast<size_t>(key / kAttentionRows)] == 0;
    b_.nc_matmul(b_.dense(accumulator, DType::f32, keys, columns, key / kAttentionRows * pitch), columns_of(left, key, keys),
                 right, DType::f32, !first, first && level >= 0 ? static_cast<uint8_t>(1u << level) : 0);
  }
}

void Backward::add_to_dq(const KeyBlock& block, const QueryTile& q, const Access& ds) {
  const Access dq =
      b_.dense(b_.tile("dq", Space::psum, q.rows, psum_pitch(shape_.head_dim * 4)), DType::f32, q.rows, shape_.head_dim);
  multiply_turned(dq, ds, block.k_rows, 0);
  if (single_block_) {
    store_dq(q.q0, dq);
    return;
  }
  Index offset = q.q0;
  offset.base = offset.base / kAttentionRows * shape_.head_dim * 4;
  for (int64_t& c : offset.coefficient) c = c / kAttentionRows * shape_.head_dim * 4;
  const Access sum = b_.dense(dq_sum_, DType::f32, q.rows, shape_.head_dim, offset);
  b_.tensor_tensor(Engine::vector, DType::f32, AluOp::add, sum, sum, dq);
}

void Backward::store_dq(const Index& q0, const Access& values) {
  const Access out = temporary("dq_out", dtype_, values.partitions, shape_.head_dim);
  b_.tensor_scalar(Engine::vector, DType::f32, out, values, AluOp::multiply, ProgramBuilder::immediate(attrs_.scale));
  store_rows(a_.dq, q0, out);
}

void Backward::store_keys(const KeyBlock& block, const AttentionTensor& destination, TileId accumulator, int64_t pitch,
                          int64_t columns, double scale) {
  for (int64_t key = 0; key < block.keys; key += kAttentionRows) {
    const int64_t keys = std::min(kAttentionRows, block.keys - key);
    const Access out = temporary("key_gradient", dtype_, keys, columns);
    if (block.touched[static_cast<size_t>(key / kAttentionRows)] == 0) {
      b_.memset(Engine::vector, DType::f32, out, ProgramBuilder::immediate(0.0));  // keys that no query sees
    } else {
      b_.tensor_scalar(Engine::vector, DType::f32, out,
                       b_.dense(accumulator, DType::f32, keys, columns, key / kAttentionRows * pitch), AluOp::multiply,
                       ProgramBuilder::immediate(scale));
    }
    store_rows(destination, block.k0 + key, out);
  }
}

}  // namespace

Status emit_attention_backward(ProgramBuilder& builder, const AttentionBackward& attention) {
  const AttentionShape& s = attention.shape;
  if (s.batch == 0 || s.heads == 0 || s.keys == 0) return {};
  Backward(builder, attention).emit();
  return {};
}

}  // namespace neuron::compiler
