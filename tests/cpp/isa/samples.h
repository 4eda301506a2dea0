// Small valid programs for tests: one per opcode and engine, plus loops, semaphores, rotating tiles and both kinds of
// constant.
#pragma once

#include <string>
#include <vector>

#include "isa/program.h"

namespace neuron::isa::samples {

// Builds programs step by step; tiles are placed one after the other.
class Builder {
 public:
  Builder() {
    program.labels = {"", "aten::sample"};
    program.streams.resize(1);
  }

  uint32_t tensor(const std::string& name, TensorRole role, DType dtype, std::vector<int64_t> shape);
  uint32_t tile(Space space, uint32_t partitions, uint32_t bytes, uint32_t buffers = 1, uint32_t rotate_level = 0);
  Access hbm(uint32_t tensor, uint32_t partitions, int64_t partition_stride, std::vector<Dim> dims) const;
  // Dense, ascending access of the whole partitions with these counts.
  Access on(uint32_t tile, DType dtype, uint32_t partitions, std::vector<uint32_t> counts) const;
  Instruction& add(Opcode opcode, Engine engine);
  void loop(uint32_t trips, LoopKind kind = LoopKind::sequential);
  void end();

  Program program;

 private:
  std::vector<uint32_t> open_;
  uint64_t sbuf_ = 0, psum_ = 0;
};

ScalarOperand immediate(double re, int64_t i = 0);
ScalarOperand per_partition(const Access& access);

struct Sample {
  std::string name;
  Program program;
};

// At least one program per opcode and per engine that has it; all valid.
std::vector<Sample> all();

// out[i] = relu(in[i]) over `trips` tiles of [128, columns] f32, double buffered, with semaphores on every edge.
Program streaming(uint32_t trips, uint32_t columns, bool semaphores = true);
// K-accumulated bf16 matmul on resident operands: `outer` x `inner` nc_matmuls of 128 x 128 x 512.
Program resident_matmul(uint32_t outer, uint32_t inner, DType dtype = DType::bf16);

}  // namespace neuron::isa::samples
