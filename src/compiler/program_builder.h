// Writes tile programs: tables of tensors, tiles and constants, counted loops as nested functions, one helper per
// instruction. Placement of tiles (plan_memory.h) and semaphores (schedule.h) are added afterwards, so emission code never
// sees an on-chip address or a queue's progress.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "isa/instruction_table.h"
#include "isa/program.h"
#include "isa/target.h"

namespace neuron::compiler {

// An integer that is affine in the iterations of the enclosing loops: base + sum coefficient[l] * iv[l].
struct Index {
  int64_t base = 0;
  std::array<int64_t, isa::kMaxLoops> coefficient{};

  Index() = default;
  Index(int64_t constant) : base(constant) {}  // NOLINT: an integer is an index
  static Index of_loop(int level, int64_t step = 1) {
    Index i;
    if (level >= 0) i.coefficient[static_cast<size_t>(level)] = step;
    return i;
  }
  Index operator+(const Index& o) const;
  Index operator*(int64_t factor) const;
};

// One tile of a dimension: elements start .. start + count - 1.
struct TileIndex {
  Index start;
  int64_t count = 0;
};

// Facts about a loop that the schedule needs and the program does not say.
struct LoopFacts {
  // No HBM byte that one iteration writes is touched by another one. True for every affine loop; for sequential loops
  // (accumulation) it is the emitter's promise.
  bool hbm_independent = true;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const isa::Target& target);

  isa::Program& program() { return program_; }
  const isa::Program& program() const { return program_; }
  const isa::Target& target() const { return *target_; }

  // --- tables ---
  uint32_t tensor(isa::Tensor tensor);
  uint32_t scratch(std::string name, DType dtype, std::vector<int64_t> shape);  // one contiguous HBM scratch tensor
  uint32_t constant(DType dtype, std::vector<int64_t> shape, std::span<const uint8_t> bytes);
  // A new tile of `partitions` x `bytes_per_partition`. With buffers > 1 it rotates with the innermost open loop (with no
  // open loop, buffers is taken as 1).
  uint32_t tile(std::string_view name, isa::Space space, int64_t partitions, int64_t bytes_per_partition,
                uint32_t buffers = 1);
  // Label index of the operator instructions from now on belong to.
  void set_label(const std::string& label);

  // --- loops ---
  // Calls body(level) inside a counted loop. One trip: no loop, body(-1). Zero trips: nothing. Index::of_loop(level) works
  // for both.
  void loop(int64_t trips, isa::LoopKind kind, const std::function<void(int level)>& body, LoopFacts facts = {});
  // Full tiles in a loop, then the tail by calling the body a second time.
  void for_tiles(int64_t extent, int64_t tile, isa::LoopKind kind, const std::function<void(const TileIndex&)>& body,
                 LoopFacts facts = {});
  int depth() const { return static_cast<int>(open_loops_.size()); }

  // --- accesses ---
  // `offset` and strides in bytes. Dims with count 1 are dropped, neighbours that are contiguous are merged.
  isa::Access hbm(uint32_t tensor, DType dtype, const Index& offset_bytes, int64_t partitions,
                  int64_t partition_stride_bytes, std::span<const isa::Dim> dims) const;
  isa::Access on_chip(uint32_t tile, DType dtype, int64_t partitions, std::span<const isa::Dim> dims,
                      const Index& offset_bytes = 0, int64_t partition_start = 0) const;
  // `count` dense elements per partition.
  isa::Access dense(uint32_t tile, DType dtype, int64_t partitions, int64_t count, const Index& offset_bytes = 0,
                    int64_t partition_start = 0) const;

  // --- scalar operands ---
  static isa::ScalarOperand immediate(double value);
  static isa::ScalarOperand immediate_int(int64_t value);
  static isa::ScalarOperand immediate_complex(std::complex<double> value);
  static isa::ScalarOperand scalar(const isa::Access& access);  // [P,1]

  // --- instructions; each returns the instruction for rare extra fields (valid until the next one is added) ---
  isa::Instruction& dma_load(const isa::Access& dst, const isa::Access& src) { return dma(dst, src, true); }
  isa::Instruction& dma_store(const isa::Access& dst, const isa::Access& src) { return dma(dst, src, false); }
  isa::Instruction& dma_transpose(const isa::Access& dst, const isa::Access& src);
  isa::Instruction& nc_matmul(const isa::Access& dst, const isa::Access& stationary, const isa::Access& moving,
                              DType compute, bool accumulate, uint8_t accumulate_levels = 0);
  isa::Instruction& nc_transpose(isa::Engine engine, const isa::Access& dst, const isa::Access& src);
  isa::Instruction& tensor_copy(isa::Engine engine, DType compute, const isa::Access& dst, const isa::Access& src);
  isa::Instruction& memset(isa::Engine engine, DType compute, const isa::Access& dst, const isa::ScalarOperand& value);
  isa::Instruction& iota(const isa::Access& dst, const isa::IndexPattern& pattern);
  isa::Instruction& tensor_tensor(isa::Engine engine, DType compute, isa::AluOp op, const isa::Access& dst,
                                  const isa::Access& a, const isa::Access& b);
  isa::Instruction& tensor_scalar(isa::Engine engine, DType compute, const isa::Access& dst, const isa::Access& src,
                                  isa::AluOp op0, const isa::ScalarOperand& scalar0, bool reverse0 = false,
                                  isa::AluOp op1 = isa::AluOp::bypass, const isa::ScalarOperand& scalar1 = {},
                                  bool reverse1 = false);
  isa::Instruction& scalar_tensor_tensor(isa::Engine engine, DType compute, const isa::Access& dst, const isa::Access& src,
                                         isa::AluOp op0, const isa::ScalarOperand& scalar0, bool reverse0, isa::AluOp op1,
                                         const isa::Access& other, bool reverse1);
  isa::Instruction& activation(isa::Engine engine, DType compute, isa::ActFn func, const isa::Access& dst,
                               const isa::Access& src, const isa::ScalarOperand& scale = {},
                               const isa::ScalarOperand& bias = {});
  isa::Instruction& select(isa::Engine engine, DType compute, const isa::Access& dst, const isa::Access& predicate,
                           const isa::Access& on_true, const isa::Access& on_false);
  isa::Instruction& tensor_reduce(isa::Engine engine, DType compute, isa::AluOp op, const isa::Access& dst,
                                  const isa::Access& src, int reduce_dims);
  isa::Instruction& tensor_partition_reduce(DType compute, isa::AluOp op, const isa::Access& dst, const isa::Access& src);
  isa::Instruction& tensor_tensor_scan(isa::Engine engine, DType compute, const isa::Access& dst, const isa::Access& src,
                                       isa::AluOp op0, const isa::ScalarOperand& initial,
                                       isa::AluOp op1 = isa::AluOp::bypass, const isa::Access& other = {});
  isa::Instruction& random_bits(const isa::Access& dst, const isa::ScalarOperand& seed, const isa::ScalarOperand& offset,
                                const isa::IndexPattern& pattern);
  // Gather (src in HBM) and scatter (dst in HBM).
  isa::Instruction& dma_indirect(const isa::Access& dst, const isa::Access& src, const isa::Access& index,
                                 int64_t index_stride, int64_t index_bound, isa::OobMode oob);
  isa::Instruction& scatter_reduce(DType compute, isa::AluOp op, const isa::Access& dst, const isa::Access& src,
                                   const isa::Access& index, int64_t index_stride, int64_t index_bound, isa::OobMode oob);
  isa::Instruction& top_k(DType compute, const isa::Access& values, const isa::Access& indices, const isa::Access& src,
                          bool largest);
  // Anything else: the instruction as it stands.
  isa::Instruction& add(isa::Instruction instruction);

  // The engine for an instruction with these operations and operands: the one of Vector, Scalar, GpSimd that may run it and
  // has least modelled work so far.
  isa::Engine choose_engine(isa::Opcode opcode, DType compute, std::span<const isa::Access* const> operands,
                            isa::AluOp op0 = isa::AluOp::bypass, isa::AluOp op1 = isa::AluOp::bypass,
                            isa::ActFn func = isa::ActFn::copy);

  // Table sizes, to undo the emission of a region that turned out not to fit.
  struct Mark {
    size_t tensors, tiles, instructions, steps, constants;
  };
  Mark mark() const;
  void rollback(const Mark& mark);

  const std::vector<LoopFacts>& loop_facts() const { return facts_; }  // one per step; meaningful for loop steps

 private:
  isa::Instruction& dma(const isa::Access& dst, const isa::Access& src, bool load);
  void note_work(const isa::Instruction& instruction);

  const isa::Target* target_;
  isa::Program program_;
  std::vector<uint32_t> open_loops_;  // step indices
  std::vector<LoopFacts> facts_;
  std::unordered_map<std::string, uint32_t> label_index_;
  uint32_t label_ = 0;
  uint32_t next_load_queue_ = 0, next_store_queue_ = 0;
  std::array<double, 8> work_{};  // modelled busy time by engine, for balancing
};

}  // namespace neuron::compiler
