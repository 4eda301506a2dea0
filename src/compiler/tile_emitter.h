// Emits the terms of an Expression for one tile: loads, then one instruction per operation (or per pattern of operations) on
// the engine that suits it. The caller decides the tile (Frame) and the loops around it.
//
// Use by region code with an accumulator, e.g. a matmul epilogue:
//   TileEmitter tile(context, region.expression, frame);
//   tile.provide(external_term, {psum_tile, DType::f32, ...});          // what the region computed itself
//   for (const Store& s : region.stores) NEURON_RETURN_IF_ERROR(tile.store(s));
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/region.h"

namespace neuron::compiler {

inline constexpr int kNoSlot = -1;

// How one space dimension is covered by a tile: index = start + p * partition_step + slot index * 1 for its slot.
// (start is affine in the open loops.) A dimension may be on partitions and on a slot at the same time (split dimension).
struct DimTile {
  Index start;
  int64_t partition_step = 0;  // 0 = not on partitions
  int slot = kNoSlot;          // free slot this dimension runs over, or none
};

// A tile [partitions, slots...]: at most four free slots, outermost first.
struct Frame {
  int64_t partitions = 1;
  std::vector<int64_t> slots;  // counts
  std::vector<DimTile> dims;   // one per space dimension
};

// The HBM access of `view` (memory elements over the frame's dimensions) restricted to the slots in the bit mask.
isa::Access frame_memory(const ProgramBuilder& builder, const Frame& frame, Buffer buffer, DType dtype, const View& view,
                         uint32_t slots, int64_t partitions);
// Slots along which the view moves.
uint32_t frame_slots(const Frame& frame, const View& view);

// A value on chip: element (p, slot indices) at byte offset + sum stride[s] * i_s of partition p.
struct OnChip {
  uint32_t tile = 0;
  DType dtype = DType::f32;
  Index offset;
  std::array<int64_t, isa::kMaxFreeDims> stride{};  // bytes per slot index; 0 = does not depend on it
  int64_t partitions = 1;                           // valid partitions
  bool valid = false;
};

class TileEmitter {
 public:
  TileEmitter(EmitContext& context, const Expression& expression, const Frame& frame);

  // The next activation emitted for this term also leaves its row sum (one value per partition); taken_row_sum() returns it,
  // or an invalid value if no such instruction was used.
  void want_row_sum(int32_t term) { row_sum_term_ = term, row_sum_ = {}; }
  OnChip taken_row_sum() {
    row_sum_term_ = -1;
    return row_sum_;
  }

  // Gives a term a value from outside (matmul result, a value computed in an enclosing tile).
  void provide(int32_t term, const OnChip& value) { values_[static_cast<size_t>(term)] = value; }
  bool has(int32_t term) const { return values_[static_cast<size_t>(term)].valid; }
  const OnChip& value(int32_t term) const { return values_[static_cast<size_t>(term)]; }
  void forget(int32_t term) { values_[static_cast<size_t>(term)].valid = false; }

  // What is available now; restored when the loop that computed more of it ends.
  std::vector<OnChip> save() const { return values_; }
  void restore(const std::vector<OnChip>& values) { values_ = values; }
  // Makes the term's value available on chip (everything it needs first).
  Result<OnChip> materialize(int32_t term);
  // Computes and stores.
  Status store(const Store& store);

  // The frame may change between calls (tails): values computed before stay valid if the caller knows they are.
  void set_frame(const Frame& frame) { frame_ = frame; }
  const Frame& frame() const { return frame_; }
  // Number of copies of tiles filled or drained by DMA, of other tiles.
  void set_buffers(uint32_t dma, uint32_t other) { dma_buffers_ = dma, other_buffers_ = other; }

  // The access of a value for an instruction that runs over the slots in `slots` (bit mask), broadcasting where it does not
  // vary.
  isa::Access access(const OnChip& value, uint32_t slots, int64_t partitions) const;
  // Slots along which the term varies, or the view moves.
  uint32_t slots_of(int32_t term) const;
  uint32_t slots_of(const View& view) const { return frame_slots(frame_, view); }
  // A new tile for a term, dense over its slots.
  OnChip new_tile(std::string_view name, DType dtype, uint32_t slots, int64_t partitions, uint32_t buffers) const;
  // The HBM access of `view` (memory elements) over the frame restricted to `slots`.
  isa::Access memory(Buffer buffer, DType dtype, const View& view, uint32_t slots, int64_t partitions) const {
    return frame_memory(builder_, frame_, buffer, dtype, view, slots, partitions);
  }
  isa::IndexPattern pattern(const View& view, uint32_t slots) const;
  // The operand of a term of kind immediate.
  isa::ScalarOperand immediate(int32_t term) const;
  // A copy in SBUF if the value is in PSUM (GpSimd and DMA cannot reach PSUM).
  Result<OnChip> in_sbuf(const OnChip& value, uint32_t slots);
  // Dtype of the tile that holds an arithmetic result of this dtype (f32 for the small floats).
  DType tile_dtype(int32_t term) const;

 private:
  friend class OpEmitter;
  Result<OnChip> emit_load(int32_t term);
  Result<OnChip> emit_leaf(int32_t term);
  bool turns(const View& view) const;
  bool load_transposed(int32_t term, const OnChip& v);

  EmitContext& context_;
  ProgramBuilder& builder_;
  const Expression& expression_;
  Frame frame_;
  std::vector<uint64_t> varies_;
  std::vector<int> phases_;
  std::vector<OnChip> values_;
  std::vector<int32_t> uses_;  // uses by other terms and by stores (counted by the constructor for terms)
  uint32_t dma_buffers_ = 2, other_buffers_ = 2;
  int32_t row_sum_term_ = -1;
  OnChip row_sum_;
};

}  // namespace neuron::compiler
