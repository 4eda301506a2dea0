// The frame of a generated program: loops, tiles, HBM tensors, and the waits that its data dependences need.
#pragma once

#include <array>
#include <vector>

#include "emulator/program_generator.h"

namespace neuron::emulator::testing {

using Counts = std::vector<uint32_t>;  // of the free dimensions

// Where an instruction stands in the single chain of nested loops: inside `depth` loops, before or after the next inner
// loop.
struct Place {
  int depth = 0;
  bool after = false;
};

class Frame {
 public:
  // `shrink` divides sizes: what does not fit on chip is generated again smaller.
  Frame(Generated& out, Random& random, int depth, uint64_t shrink = 1);
  bool fits() const;

  Random& random;
  const int depth;

  // Partition counts, free dimensions; bounded so that a launch stays short.
  uint32_t partitions(uint32_t most = 128);
  Counts counts(uint64_t most_elements, int most_rank = isa::kMaxFreeDims);
  uint64_t element_budget(uint32_t partitions);  // per partition
  int level() { return static_cast<int>(random.below(static_cast<uint64_t>(depth) + 1)); }

  // A tile of its own with a random layout of the given shape, rotating with a loop around `place` at random.
  isa::Access tile(DType dtype, uint32_t partitions, const Counts& counts, int depth_of_use,
                   isa::Space space = isa::Space::sbuf);
  // The same filled from a new input tensor, loaded at a random loop level at most `most_depth`. `broadcast` lets dimensions
  // repeat with stride 0.
  isa::Access load(DType dtype, uint32_t partitions, const Counts& counts, Fill fill, int most_depth, bool broadcast = true,
                   int64_t fill_bound = 0);
  // A source as above, at random moved to PSUM when the engine can read it there.
  isa::Access source(DType dtype, uint32_t partitions, const Counts& counts, Fill fill, isa::Engine engine,
                     bool psum_allowed = true);
  isa::ScalarOperand scalar(DType compute, uint32_t partitions, Fill fill, isa::Engine engine);
  // `from`, copied to SBUF when it lies in PSUM.
  isa::Access in_sbuf(const isa::Access& from, Place place);
  bool psum_fits(uint64_t bytes) const;
  // Turns the newest tile, made for one element per partition, into one of a dense row of n elements; `a` is its access.
  void grow_last_tile(isa::Access& a, uint32_t n);
  // Makes the newest tensor, made for one row, a table of `rows` rows; returns the bytes of a row.
  int64_t make_table(const isa::Access& a, int64_t rows);
  // Gives the newest input tensor its number of elements as bound of its (unique) values, and returns it.
  int64_t bound_of_last_load();
  void forbid_repeated_rows() { repeated_rows_ = false; }

  // Stores a tile access to a new output, at random converted.
  void store(const isa::Access& from, Place place, bool convert = true);

  // HBM side of a transfer: every loop above `depth_of_use` moves it when `all_loops` (destinations), else at random.
  isa::Access hbm(isa::TensorRole role, DType dtype, uint32_t partitions, const Counts& counts, int depth_of_use,
                  bool all_loops, Fill fill = Fill::any, int64_t fill_bound = 0);

  isa::Instruction& add(isa::Opcode opcode, isa::Engine engine, DType compute, Place place);
  isa::Instruction& dma(const isa::Access& to, const isa::Access& from, Place place);

  // Loop levels below this one are sequential: something passes from iteration to iteration there.
  void carries_from(int level) { first_sequential_ = std::min(first_sequential_, level); }

  // Writes instructions, loops, semaphores and waits into the program.
  void finish();

 private:
  struct Item {
    isa::Instruction instruction;
    Place place;
  };

  void add_waits(std::vector<size_t>& order, uint16_t first_semaphore);

  Generated& out_;
  std::vector<uint32_t> trips_;
  std::vector<Item> items_;
  int first_sequential_;
  uint64_t shrink_;
  uint64_t sbuf_used_ = 0, psum_used_ = 0;
  bool repeated_rows_ = true;
};

}  // namespace neuron::emulator::testing
