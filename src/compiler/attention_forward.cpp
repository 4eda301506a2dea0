#include <algorithm>
#include <limits>
#include <optional>

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

// Keys per block of scores: half of PSUM with two buffers.
constexpr int64_t kScoreColumns = 1024;

class Forward : AttentionTiles {
 public:
  Forward(ProgramBuilder& builder, const AttentionForward& a)
      : AttentionTiles(builder, a.shape, a.attrs, a.q.dtype, a.share_tiles), a_(a) {}

  void emit();

 private:
  // Keys and values, for the whole head or for one block.
  struct KeysAndValues {
    TileId k = 0, v = 0;
    int64_t pitch = 0;  // keys that the tiles hold
  };
  // Softmax statistics of a query tile: negated (scaled) maximum, sum of exponentials, weighted values. Of one key block,
  // or, where several pass ("running"), of all so far.
  struct Statistics {
    Access negative_max, sum, values;
  };

  KeysAndValues load_keys(const Index& first, int64_t keys, uint32_t buffers);
  void query_tile(const Index& q0, int64_t rows, int64_t visible_keys);
  // The statistics of the block; with `running`, that has taken them in already.
  Statistics score_block(TileId q, const ScoreBlock& block, const Index& first_tile,
                         const std::optional<Statistics>& running);
  Statistics start_running(int64_t rows);
  void finish_tile(const Index& q0, int64_t rows, const Statistics& statistics);
  double clamp() const { return scale_in_exp(a_.mask) ? -1e30 : -std::numeric_limits<float>::max(); }
  double exp_scale() const { return scale_in_exp(a_.mask) ? attrs_.scale : 1.0; }

  const AttentionForward& a_;
  std::optional<KeysAndValues> resident_;
};

void Forward::emit() {
  if (attrs_.causal) prepare_diagonal();
  const int64_t bytes_per_key_tile = tiles_of(shape_.head_dim) * kAttentionRows * element() + shape_.value_dim * element();
  const bool fits = tiles_of(shape_.keys) * bytes_per_key_tile <= a_.resident_bytes;
  for_each_head([&] {
    resident_.reset();
    if (fits) resident_ = load_keys(0, shape_.keys, 2);
    if (attrs_.causal) {
      // Every tile sees a different number of keys.
      for (int64_t q0 = 0; q0 < shape_.queries; q0 += kAttentionRows) {
        const int64_t rows = std::min(kAttentionRows, shape_.queries - q0);
        set_buffers(false, shape_.queries <= kAttentionRows);
        query_tile(q0, rows, std::min(shape_.keys, q0 + rows));
      }
    } else {
      b_.for_tiles(shape_.queries, kAttentionRows, LoopKind::affine, [&](const TileIndex& q) {
        set_buffers(q.count == kAttentionRows && shape_.queries / kAttentionRows > 1, shape_.queries <= kAttentionRows);
        query_tile(q.start, q.count, shape_.keys);
      });
    }
  });
}

Forward::KeysAndValues Forward::load_keys(const Index& first, int64_t keys, uint32_t buffers) {
  KeysAndValues kv;
  kv.pitch = keys;
  kv.k = b_.tile("k_transposed", Space::sbuf, std::min(shape_.head_dim, kAttentionRows),
                 tiles_of(shape_.head_dim) * keys * element(), buffers);
  load_transposed(kv.k, a_.k, first, keys, shape_.head_dim);
  kv.v = b_.tile("v", Space::sbuf, std::min(keys, kAttentionRows), tiles_of(keys) * shape_.value_dim * element(), buffers);
  load_row_tiles(kv.v, a_.v, first, keys, shape_.value_dim);
  return kv;
}

void Forward::query_tile(const Index& q0, int64_t rows, int64_t visible_keys) {
  const TileId q = b_.tile("q_transposed", Space::sbuf, std::min(shape_.head_dim, kAttentionRows),
                           tiles_of(shape_.head_dim) * rows * element(), buffers_);
  load_transposed(q, a_.q, q0, rows, shape_.head_dim);
  const int64_t full = (visible_keys - 1) / kScoreColumns;  // blocks before the last one
  ScoreBlock last{q0, full * kScoreColumns, rows, visible_keys - full * kScoreColumns};
  if (attrs_.causal && q0.base < visible_keys) {
    last.diagonal = q0.base - full * kScoreColumns;
    last.diagonal_columns = visible_keys - q0.base;
  }
  const int64_t block_tiles = kScoreColumns / kAttentionRows;
  if (full == 0) {
    finish_tile(q0, rows, score_block(q, last, 0, std::nullopt));
    return;
  }
  set_buffers(false, false);
  const Statistics running = start_running(rows);
  b_.loop(full, LoopKind::sequential, [&](int level) {
    const ScoreBlock block{q0, Index::of_loop(level, kScoreColumns), rows, kScoreColumns};
    score_block(q, block, Index::of_loop(level, block_tiles), running);
  });
  score_block(q, last, full * block_tiles, running);
  finish_tile(q0, rows, running);
}

Forward::Statistics Forward::start_running(int64_t rows) {
  const Statistics running{
      scalar_access(row_scalar("running_max", 1), rows), scalar_access(row_scalar("running_sum", 1), rows),
      b_.dense(b_.tile("running_values", Space::sbuf, rows, shape_.value_dim * 4), DType::f32, rows, shape_.value_dim)};
  b_.memset(Engine::vector, DType::f32, running.negative_max, ProgramBuilder::immediate(-clamp() * exp_scale()));
  b_.memset(Engine::vector, DType::f32, running.sum, ProgramBuilder::immediate(0.0));
  b_.memset(Engine::vector, DType::f32, running.values, ProgramBuilder::immediate(0.0));
  return running;
}

Forward::Statistics Forward::score_block(TileId q, const ScoreBlock& block, const Index& first_tile,
                                         const std::optional<Statistics>& running) {
  const KeysAndValues kv =
      resident_ ? *resident_ : load_keys(block.k0, block.columns, share_tiles_ && first_tile.base != 0 ? 1 : 2);
  const int64_t rows = block.rows;
  const Access raw = b_.dense(b_.tile("scores", Space::psum, rows, psum_pitch(block.columns * 4), buffers_), DType::f32,
                              rows, block.columns);
  product(raw, q, rows, kv.k, resident_ ? block.k0 : Index(0), kv.pitch, block.columns, shape_.head_dim);
  const Scores scores = masked(raw, block, a_.mask);

  Statistics s;
  const Access maximum = scalar_access(row_scalar("max"), rows);
  reduce_columns(AluOp::maximum, maximum, scores.access);
  s.negative_max = scalar_access(row_scalar("negative_max"), rows);
  if (a_.mask.present || running) {
    // Clamped, so that a row without any key gives exp(-inf) = 0 rather than exp(-inf + inf).
    b_.tensor_scalar(Engine::vector, DType::f32, s.negative_max, maximum, AluOp::maximum, ProgramBuilder::immediate(clamp()),
                     false, AluOp::multiply, ProgramBuilder::immediate(-scores.scale));
  } else {
    b_.tensor_scalar(Engine::vector, DType::f32, s.negative_max, maximum, AluOp::multiply,
                     ProgramBuilder::immediate(-scores.scale));
  }
  Access shrink;
  if (running) {
    b_.tensor_tensor(Engine::vector, DType::f32, AluOp::minimum, s.negative_max, s.negative_max, running->negative_max);
    shrink = scalar_access(row_scalar("shrink"), rows);  // exp(old maximum - new maximum)
    b_.activation(Engine::scalar, DType::f32, ActFn::exp, shrink, running->negative_max, ProgramBuilder::immediate(-1.0),
                  ProgramBuilder::scalar(s.negative_max));
    b_.tensor_copy(Engine::vector, DType::f32, running->negative_max, s.negative_max);
  }
  const Access p = b_.dense(b_.tile("probabilities", Space::sbuf, rows, block.columns * element(), buffers_), dtype_, rows,
                            block.columns);
  s.sum = scalar_access(row_scalar("sum"), rows);
  b_.activation(Engine::scalar, DType::f32, ActFn::exp, p, scores.access, ProgramBuilder::immediate(scores.scale),
                ProgramBuilder::scalar(s.negative_max))
      .dst2 = s.sum;
  if (a_.keep.present) {
    const Access keep =
        b_.dense(b_.tile("keep", Space::sbuf, rows, block.columns, buffers_), DType::boolean, rows, block.columns);
    load_rows(keep, a_.keep, block.q0, block.k0);
    b_.tensor_tensor(Engine::vector, DType::f32, AluOp::multiply, p, p, keep);
  }
  s.values = b_.dense(b_.tile("values", Space::psum, rows, psum_pitch(shape_.value_dim * 4), buffers_), DType::f32, rows,
                      shape_.value_dim);
  multiply_turned(s.values, p, kv.v, resident_ ? first_tile : Index(0));
  if (running) {
    const auto by_shrink = ProgramBuilder::scalar(shrink);
    b_.scalar_tensor_tensor(Engine::vector, DType::f32, running->sum, running->sum, AluOp::multiply, by_shrink, false,
                            AluOp::add, s.sum, false);
    b_.scalar_tensor_tensor(Engine::vector, DType::f32, running->values, running->values, AluOp::multiply, by_shrink, false,
                            AluOp::add, s.values, false);
  }
  return s;
}

void Forward::finish_tile(const Index& q0, int64_t rows, const Statistics& s) {
  if (a_.out.present) {
    Access sum = s.sum;
    if (a_.mask.present) {
      // A row without any key has sum 0 and values 0: the result is 0.
      sum = scalar_access(row_scalar("sum_at_least"), rows);
      b_.tensor_scalar(Engine::vector, DType::f32, sum, s.sum, AluOp::maximum, ProgramBuilder::immediate(1e-30));
    }
    const Access inverse = scalar_access(row_scalar("inverse_sum"), rows);
    isa::Instruction reciprocal;
    reciprocal.opcode = isa::Opcode::reciprocal;
    reciprocal.engine = Engine::vector;
    reciprocal.dst = inverse;
    reciprocal.src0 = sum;
    b_.add(reciprocal);
    const Access out =
        b_.dense(b_.tile("out", Space::sbuf, rows, shape_.value_dim * element(), buffers_), dtype_, rows, shape_.value_dim);
    const auto by_inverse = ProgramBuilder::scalar(inverse);
    if (a_.keep.present) {
      b_.tensor_scalar(Engine::vector, DType::f32, out, s.values, AluOp::multiply, by_inverse, false, AluOp::multiply,
                       ProgramBuilder::immediate(attrs_.keep_scale));
    } else {
      b_.tensor_scalar(Engine::vector, DType::f32, out, s.values, AluOp::multiply, by_inverse);
    }
    store_rows(a_.out, q0, out);
  }
  if (a_.logsumexp.present) {  // of a row without any key: log(0) = -inf
    const Access lse = scalar_access(row_scalar("logsumexp"), rows);
    b_.activation(Engine::scalar, DType::f32, ActFn::log, lse, s.sum);
    b_.tensor_tensor(Engine::vector, DType::f32, AluOp::subtract, lse, lse, s.negative_max);
    store_rows(a_.logsumexp, q0, lse);
  }
}

}  // namespace

Status emit_attention(ProgramBuilder& builder, const AttentionForward& attention) {
  const AttentionShape& s = attention.shape;
  if (s.batch == 0 || s.heads == 0 || s.queries == 0) return {};
  Forward(builder, attention).emit();
  return {};
}

}  // namespace neuron::compiler
