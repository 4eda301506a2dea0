// Hand-written tile programs of the shapes that the compiler emits, for the plan's tests and its benchmark.
#pragma once

#include <memory>
#include <vector>

#include "isa/program.h"

namespace neuron::emulator::testing {

// Appends tensors, tiles, instructions and loops; everything is on one stream.
class Assembler {
 public:
  isa::Program program;

  Assembler();
  uint32_t tensor(isa::TensorRole role, DType type, uint64_t elements, int32_t alias_of = -1);
  uint32_t tile(uint32_t partitions, uint32_t bytes_per_partition, isa::Space space = isa::Space::sbuf, uint32_t buffers = 1,
                uint32_t rotate_level = 0);
  isa::Access hbm(uint32_t tensor, DType type, int64_t offset, uint32_t partitions, int64_t partition_stride,
                  std::vector<isa::Dim> dims, std::vector<int64_t> loop_steps = {}) const;
  isa::Access on(uint32_t tile, DType type, uint32_t partitions, std::vector<isa::Dim> dims, int64_t offset = 0,
                 std::vector<int64_t> loop_steps = {}) const;
  isa::Instruction& add(isa::Opcode opcode, isa::Engine engine, isa::Access dst, isa::Access src0 = {},
                        isa::Access src1 = {});
  void loop(uint32_t trip, isa::LoopKind kind);
  void end();
  std::shared_ptr<const isa::Program> done() { return std::make_shared<const isa::Program>(std::move(program)); }

 private:
  std::vector<uint32_t> open_;
  uint64_t sbuf_ = 0, psum_ = 0;
};

isa::ScalarOperand immediate(double value);
isa::ScalarOperand per_partition(isa::Access access);

// tensors 0, 1: inputs A [batch, M, K] and B [batch, K, N] (or [batch, N, K] when `transposed`); 2: output C [batch, M, N].
// Edges are cut into instructions of their own, as the compiler does.
std::shared_ptr<const isa::Program> matmul_program(DType type, uint32_t batch, uint32_t m, uint32_t k, uint32_t n,
                                                   bool transposed = false);

// Element-wise over n = tiles * 128 * columns elements: 0: output = f(inputs 1..).
enum class Pointwise { add, gelu, scale_bias_max_add, add_in_place };
std::shared_ptr<const isa::Program> pointwise_program(DType type, Pointwise kind, uint64_t elements);

// Rows of `columns`, 128 per tile: input 0 -> output 1.
std::shared_ptr<const isa::Program> softmax_program(uint32_t rows, uint32_t columns);
std::shared_ptr<const isa::Program> layernorm_program(uint32_t rows, uint32_t columns);

// inputs Q, K, V [heads, tokens, width], output [heads, tokens, width]; tokens a multiple of 128, width <= 128.
std::shared_ptr<const isa::Program> attention_program(DType type, uint32_t heads, uint32_t tokens, uint32_t width);

// One add of two [1, 1] values, with its DMAs.
std::shared_ptr<const isa::Program> tiny_program();

}  // namespace neuron::emulator::testing
