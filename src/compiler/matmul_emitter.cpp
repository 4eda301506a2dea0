#include "compiler/matmul_emitter.h"

#include <algorithm>
#include <cstdlib>

namespace neuron::compiler {
namespace {

using isa::Dim;
using isa::LoopKind;

int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

Dim make_dim(int64_t count, int64_t stride_bytes) { return {static_cast<uint32_t>(count), stride_bytes}; }

int64_t stride_of(const MatmulSpace& space, int d, int access) { return d < 0 ? 0 : space.dims[d].strides[access]; }
int64_t size_of_dim(const MatmulSpace& space, int d) { return d < 0 ? 1 : space.dims[d].size; }

// Byte offset of a block's first element.
Index block_offset(const MatmulSpace& space, const MatmulBlock& block, const Index& offset_bytes, int access,
                   int64_t element) {
  Index offset = offset_bytes;
  for (size_t d = 0; d < space.dims.size(); ++d) {
    offset = offset + block.position[d] * (space.dims[d].strides[access] * element);
  }
  return offset;
}

// The tensor's fast index is the partition index: rows are read along partitions and turned by the DMA.
bool loads_transposed(const MatmulSpace& space, int partition_dim, int free_dim, int access) {
  const int64_t partition_stride = std::abs(stride_of(space, partition_dim, access));
  return free_dim >= 0 && partition_stride != 0 && partition_stride < std::abs(stride_of(space, free_dim, access));
}

// A multiply takes a fifth of the time that its stationary operand takes from the DMA's trigger to arrival.
constexpr uint32_t kStationaryBuffers = 8;

class Emitter {
 public:
  Emitter(ProgramBuilder& builder, const MatmulProblem& problem) : b_(builder), problem_(problem), space_(problem.space) {}

  Status emit();

 private:
  // A run of k indices that is resident at a time.
  struct KBlock {
    Index start;         // position along the k index
    int64_t size = 0;    // elements
    bool first = true;   // in program order: its first multiply starts the accumulation
    uint8_t levels = 0;  // open contraction loops outside the block, a bit each
    int64_t tiles() const { return (size + kTileK - 1) / kTileK; }
  };
  struct Accumulator {
    uint32_t tile = 0;
    Index offset;  // bytes
  };
  using KBody = std::function<void(const Index& iteration, uint8_t levels)>;

  void note(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  void set_position(int d, const Index& position) {
    if (d >= 0) position_[d] = position;
  }
  bool on_tensor_engine() const { return problem_.compute == DType::f32; }
  bool contraction_is_empty() const { return sizes_.k * sizes_.inner_k == 0; }
  int64_t moving_row_bytes() const { return cols_ * bytes_of(moving_->tile_dtype); }
  MatmulBlock block_of(int partition_dim, int64_t partitions, int free_dim, int64_t free) const {
    return {position_, partition_dim, free_dim, partitions, free};
  }

  void outer_loops(size_t index);
  void column_block();
  void row_tiles_of_single_block();
  void row_group(const TileIndex& rows);
  void for_each_k_block(const std::function<void(const KBlock&)>& body);
  // Loops over the contraction indices other than the tile index around body(linear iteration number, levels).
  void inner_k_loops(size_t index, const Index& iteration, uint8_t levels, const KBody& body);
  void load_moving(const KBlock& block);
  void load_moving_tiles(const KBlock& block, const Index& first_tile);
  void multiply(const KBlock& block, int64_t rows, const Accumulator& accumulator);
  void multiply_k_tile(const TileIndex& k, const Index& moving_tile, int64_t rows, const Accumulator& accumulator,
                       bool accumulate, uint8_t levels);
  void finish(int64_t rows, const Accumulator& accumulator);
  uint32_t accumulator_tile(int64_t rows, int64_t bytes, uint32_t buffers);
  isa::Access accumulator_access(int64_t rows, const Accumulator& accumulator) const;
  static uint8_t bit(int level) { return level < 0 ? 0 : static_cast<uint8_t>(1u << level); }

  ProgramBuilder& b_;
  const MatmulProblem& problem_;
  const MatmulSpace& space_;
  Status status_;
  MatmulAxes axes_;
  MatmulTiling tiling_;
  MatmulSizes sizes_;
  const MatmulOperand* stationary_ = nullptr;
  const MatmulOperand* moving_ = nullptr;
  int row_dim_ = -1, col_dim_ = -1;
  std::vector<Index> position_;
  int64_t cols_ = 0;  // of the current column block
  uint32_t moving_tile_ = 0;
};

Status Emitter::emit() {
  for (const MatmulDim& d : space_.dims) {
    if (d.size == 0 && d.role != DimRole::k) return {};
  }
  axes_ = choose_axes(space_);
  const bool swapped = right_is_stationary(space_, axes_);
  stationary_ = swapped ? &problem_.rhs : &problem_.lhs;
  moving_ = swapped ? &problem_.lhs : &problem_.rhs;
  row_dim_ = swapped ? axes_.n : axes_.m;
  col_dim_ = swapped ? axes_.m : axes_.n;
  position_.assign(space_.dims.size(), {});

  sizes_.rows = size_of_dim(space_, row_dim_);
  sizes_.cols = size_of_dim(space_, col_dim_);
  sizes_.k = size_of_dim(space_, axes_.k);
  for (int d : axes_.inner_k) sizes_.inner_k *= space_.dims[d].size;
  sizes_.moving_bytes = bytes_of(moving_->tile_dtype);
  sizes_.result_bytes = bytes_of(problem_.accumulator);
  sizes_.result_in_psum = on_tensor_engine();
  tiling_ = choose_tiling(sizes_, problem_.sbuf_budget_bytes);

  const size_t depth = b_.depth() + axes_.outer.size() + axes_.inner_k.size() + 5;
  if (depth > isa::kMaxLoops) {
    return unsupported("dot_general: " + to_string(space_) + " needs " + std::to_string(depth) + " nested loops");
  }
  outer_loops(0);
  return status_;
}

void Emitter::outer_loops(size_t index) {
  if (index == axes_.outer.size()) {
    b_.for_tiles(sizes_.cols, tiling_.cols, LoopKind::affine, [&](const TileIndex& cols) {
      cols_ = cols.count;
      set_position(col_dim_, cols.start);
      column_block();
    });
    return;
  }
  const int d = axes_.outer[index];
  b_.loop(space_.dims[d].size, LoopKind::affine, [&](int level) {
    set_position(d, Index::of_loop(level));
    outer_loops(index + 1);
  });
}

void Emitter::column_block() {
  if (contraction_is_empty() || tiling_.single_block(sizes_)) {
    row_tiles_of_single_block();
  } else {
    b_.for_tiles(sizes_.rows, tiling_.row_group * kTileRows, LoopKind::affine,
                 [&](const TileIndex& rows) { row_group(rows); });
  }
}

void Emitter::row_tiles_of_single_block() {
  KBlock block;
  block.size = sizes_.k;
  if (!contraction_is_empty()) load_moving(block);
  b_.for_tiles(sizes_.rows, kTileRows, LoopKind::affine, [&](const TileIndex& rows) {
    set_position(row_dim_, rows.start);
    const Accumulator accumulator{accumulator_tile(rows.count, psum_pitch(cols_ * sizes_.result_bytes), 2), 0};
    if (contraction_is_empty()) {
      b_.memset(on_tensor_engine() ? isa::Engine::vector : isa::Engine::gpsimd, problem_.compute,
                accumulator_access(rows.count, accumulator), ProgramBuilder::immediate(0.0));
    } else {
      multiply(block, rows.count, accumulator);
    }
    finish(rows.count, accumulator);
  });
}

// The accumulators of a group live through several passes over the contraction, so its loops are sequential.
void Emitter::row_group(const TileIndex& rows) {
  const int64_t pitch = psum_pitch(cols_ * sizes_.result_bytes);
  const int64_t row_tiles = (rows.count + kTileRows - 1) / kTileRows;
  Accumulator accumulator{accumulator_tile(std::min(rows.count, kTileRows), row_tiles * pitch, 1), 0};
  const auto each_row_tile = [&](const std::function<void(int64_t)>& body) {
    int64_t first = 0;
    for (const int64_t size : {kTileRows, rows.count % kTileRows}) {
      const int64_t count = size == 0 ? 0 : (rows.count - first) / size;
      b_.loop(count, LoopKind::sequential, [&](int level) {
        set_position(row_dim_, rows.start + Index(first) + Index::of_loop(level, size));
        accumulator.offset = Index(first / kTileRows * pitch) + Index::of_loop(level, pitch);
        body(size);
      });
      first += count * size;
    }
  };
  for_each_k_block([&](const KBlock& block) {
    load_moving(block);
    each_row_tile([&](int64_t tile_rows) { multiply(block, tile_rows, accumulator); });
  });
  each_row_tile([&](int64_t tile_rows) { finish(tile_rows, accumulator); });
}

void Emitter::for_each_k_block(const std::function<void(const KBlock&)>& body) {
  const KBody blocks = [&](const Index&, uint8_t outer_levels) {
    bool first = true;
    const int64_t block_size = tiling_.k_tiles * kTileK;
    b_.for_tiles(sizes_.k, block_size, LoopKind::sequential, [&](const TileIndex& k) {
      const uint8_t level = sizes_.k / block_size > 1 && k.count == block_size ? bit(b_.depth() - 1) : 0;
      body({k.start, k.count, first, static_cast<uint8_t>(outer_levels | level)});
      first = false;
    });
  };
  if (tiling_.inner_k_resident) {
    blocks(0, 0);
  } else {
    inner_k_loops(0, 0, 0, blocks);
  }
}

void Emitter::inner_k_loops(size_t index, const Index& iteration, uint8_t levels, const KBody& body) {
  if (index == axes_.inner_k.size()) {
    body(iteration, levels);
    return;
  }
  const int d = axes_.inner_k[index];
  b_.loop(space_.dims[d].size, LoopKind::sequential, [&](int level) {
    set_position(d, Index::of_loop(level));
    inner_k_loops(index + 1, iteration * space_.dims[d].size + Index::of_loop(level), levels | bit(level), body);
  });
  set_position(d, 0);
}

void Emitter::load_moving(const KBlock& block) {
  const int64_t resident = tiling_.inner_k_resident ? sizes_.inner_k : 1;
  moving_tile_ = b_.tile("moving", isa::Space::sbuf, std::min(block.size, kTileK),
                         resident * block.tiles() * moving_row_bytes(), static_cast<uint32_t>(tiling_.moving_buffers));
  if (!tiling_.inner_k_resident) {
    load_moving_tiles(block, 0);
  } else {
    inner_k_loops(0, 0, 0, [&](const Index& iteration, uint8_t) { load_moving_tiles(block, iteration * block.tiles()); });
  }
}

// Tiles first_tile, first_tile + 1, .. of the moving tile <- the block's k range.
void Emitter::load_moving_tiles(const KBlock& block, const Index& first_tile) {
  const MatmulOperand& operand = *moving_;
  const int64_t element = bytes_of(operand.tile_dtype), source = bytes_of(operand.dtype);
  const bool one_transfer = !operand.produce && !loads_transposed(space_, axes_.k, col_dim_, operand.access);
  const int64_t full = block.size / kTileK;
  if (one_transfer && full > 0) {
    set_position(axes_.k, block.start);
    const MatmulBlock where = block_of(axes_.k, kTileK, col_dim_, cols_);
    const int64_t k_stride = stride_of(space_, axes_.k, operand.access) * source;
    const Dim from[] = {make_dim(full, kTileK * k_stride),
                        make_dim(cols_, stride_of(space_, col_dim_, operand.access) * source)};
    const Dim to[] = {make_dim(full, moving_row_bytes()), make_dim(cols_, element)};
    b_.dma_load(b_.on_chip(moving_tile_, operand.tile_dtype, kTileK, to, first_tile * moving_row_bytes()),
                b_.hbm(operand.tensor, operand.dtype,
                       block_offset(space_, where, operand.offset_bytes, operand.access, source), kTileK, k_stride, from));
  }
  const auto one_tile = [&](const TileIndex& k, const Index& tile) {
    set_position(axes_.k, k.start);
    const isa::Access dst = b_.dense(moving_tile_, operand.tile_dtype, k.count, cols_, tile * moving_row_bytes());
    const MatmulBlock where = block_of(axes_.k, k.count, col_dim_, cols_);
    if (operand.produce) {
      note(operand.produce(b_, where, dst));
    } else {
      emit_block_load(b_, space_, where, operand.tensor, operand.dtype, operand.offset_bytes, operand.access, dst);
    }
  };
  if (!one_transfer) {
    b_.loop(full, LoopKind::sequential, [&](int level) {
      one_tile({block.start + Index::of_loop(level, kTileK), kTileK}, first_tile + Index::of_loop(level));
    });
  }
  if (block.size % kTileK != 0)
    one_tile({block.start + Index(full * kTileK), block.size % kTileK}, first_tile + Index(full));
}

void Emitter::multiply(const KBlock& block, int64_t rows, const Accumulator& accumulator) {
  const KBody k_tiles = [&](const Index& iteration, uint8_t inner_levels) {
    const Index first_tile = iteration * block.tiles();
    const int64_t full = block.size / kTileK;
    const uint8_t outer_levels = block.levels | inner_levels;
    b_.loop(full, LoopKind::sequential, [&](int level) {
      multiply_k_tile({block.start + Index::of_loop(level, kTileK), kTileK}, first_tile + Index::of_loop(level), rows,
                      accumulator, !block.first, block.first ? outer_levels | bit(level) : 0);
    });
    if (block.size % kTileK != 0) {
      const bool first = block.first && full == 0;
      multiply_k_tile({block.start + Index(full * kTileK), block.size % kTileK}, first_tile + Index(full), rows, accumulator,
                      !first, first ? outer_levels : 0);
    }
  };
  if (!tiling_.inner_k_resident) {
    k_tiles(0, 0);
  } else {
    inner_k_loops(0, 0, 0, k_tiles);
  }
}

void Emitter::multiply_k_tile(const TileIndex& k, const Index& moving_tile, int64_t rows, const Accumulator& accumulator,
                              bool accumulate, uint8_t levels) {
  set_position(axes_.k, k.start);
  const MatmulOperand& operand = *stationary_;
  const uint32_t tile =
      b_.tile("stationary", isa::Space::sbuf, k.count, rows * bytes_of(operand.tile_dtype), kStationaryBuffers);
  const isa::Access stationary = b_.dense(tile, operand.tile_dtype, k.count, rows);
  const MatmulBlock where = block_of(axes_.k, k.count, row_dim_, rows);
  if (operand.produce) {
    note(operand.produce(b_, where, stationary));
  } else {
    emit_block_load(b_, space_, where, operand.tensor, operand.dtype, operand.offset_bytes, operand.access, stationary);
  }
  b_.nc_matmul(accumulator_access(rows, accumulator), stationary,
               b_.dense(moving_tile_, moving_->tile_dtype, k.count, cols_, moving_tile * moving_row_bytes()),
               problem_.compute, accumulate, levels);
}

void Emitter::finish(int64_t rows, const Accumulator& accumulator) {
  set_position(axes_.k, 0);
  note(problem_.finish(b_, block_of(row_dim_, rows, col_dim_, cols_), accumulator_access(rows, accumulator)));
}

uint32_t Emitter::accumulator_tile(int64_t rows, int64_t bytes, uint32_t buffers) {
  return b_.tile("accumulator", on_tensor_engine() ? isa::Space::psum : isa::Space::sbuf, rows, bytes, buffers);
}

isa::Access Emitter::accumulator_access(int64_t rows, const Accumulator& accumulator) const {
  return b_.dense(accumulator.tile, problem_.accumulator, rows, cols_, accumulator.offset);
}

}  // namespace

isa::Access block_access(const ProgramBuilder& builder, const MatmulSpace& space, const MatmulBlock& block, uint32_t tensor,
                         DType dtype, const Index& offset_bytes, int access) {
  const int64_t element = bytes_of(dtype);
  const Dim free[] = {make_dim(block.free, stride_of(space, block.free_dim, access) * element)};
  return builder.hbm(tensor, dtype, block_offset(space, block, offset_bytes, access, element), block.partitions,
                     stride_of(space, block.partition_dim, access) * element, free);
}

void emit_block_load(ProgramBuilder& builder, const MatmulSpace& space, const MatmulBlock& block, uint32_t tensor,
                     DType dtype, const Index& offset_bytes, int access, const isa::Access& dst) {
  const isa::Access src = block_access(builder, space, block, tensor, dtype, offset_bytes, access);
  const bool single = block.free == 1 || block.partitions == 1;
  if (single || !loads_transposed(space, block.partition_dim, block.free_dim, access)) {
    builder.dma_load(dst, src);
    return;
  }
  const Dim along_partitions[] = {make_dim(block.partitions, src.partition_stride)};
  const int64_t free_stride = stride_of(space, block.free_dim, access) * bytes_of(dtype);
  Index offset = src.offset;
  offset.coefficient = src.loop_step;
  const isa::Access turned_src = builder.hbm(tensor, dtype, offset, block.free, free_stride, along_partitions);
  if (dtype == dst.dtype) {
    builder.dma_transpose(dst, turned_src);
    return;
  }
  // The DMA turns or converts, not both: the conversion is left to an engine.
  const isa::Access raw =
      builder.dense(builder.tile("unconverted", isa::Space::sbuf, block.partitions, block.free * bytes_of(dtype), 2), dtype,
                    block.partitions, block.free);
  builder.dma_transpose(raw, turned_src);
  const isa::Access* operands[] = {&dst, &raw};
  builder.tensor_copy(builder.choose_engine(isa::Opcode::tensor_copy, isa::compute_type_for(dst.dtype), operands),
                      isa::compute_type_for(dst.dtype), dst, raw);
}

Status emit_matmul(ProgramBuilder& builder, const MatmulProblem& problem) { return Emitter(builder, problem).emit(); }

}  // namespace neuron::compiler
