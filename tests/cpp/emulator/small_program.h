// Hand-written programs for tests: tensors and tiles as dense rows, one stream, instructions in the order they are added.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "isa/program.h"

namespace neuron::emulator::testing {

class SmallProgram {
 public:
  isa::Program program;

  SmallProgram() {
    program.labels = {"", "test"};
    program.streams.resize(1);
  }

  // A tensor of [partitions, count] elements and the access of all of it.
  isa::Access tensor(const std::string& name, isa::TensorRole role, DType dtype, uint32_t partitions, uint32_t count) {
    isa::Tensor t;
    t.name = name;
    t.role = role;
    t.dtype = dtype;
    t.bytes = uint64_t{partitions} * count * size_of(dtype);
    t.shape = {partitions, count};
    t.strides = {count, 1};
    program.tensors.push_back(t);
    isa::Access a = row(isa::Space::hbm, static_cast<uint32_t>(program.tensors.size() - 1), dtype, partitions, count);
    a.partition_stride = static_cast<int64_t>(count * size_of(dtype));
    return a;
  }

  isa::Access tile(DType dtype, uint32_t partitions, uint32_t count, isa::Space space = isa::Space::sbuf,
                   uint32_t buffers = 1) {
    isa::Tile t;
    t.name = "t" + std::to_string(program.tiles.size());
    t.space = space;
    t.partitions = partitions;
    const uint32_t unit = space == isa::Space::psum ? 2048 : 64;
    t.bytes_per_partition = static_cast<uint32_t>((count * size_of(dtype) + unit - 1) / unit * unit);
    t.buffers = buffers;
    t.byte_offset = used_[space == isa::Space::psum];
    used_[space == isa::Space::psum] += uint64_t{t.bytes_per_partition} * buffers;
    program.tiles.push_back(t);
    return row(space, static_cast<uint32_t>(program.tiles.size() - 1), dtype, partitions, count);
  }

  isa::Instruction& add(isa::Opcode opcode, isa::Engine engine, DType compute = DType::f32) {
    isa::Instruction i;
    i.opcode = opcode;
    i.engine = engine;
    i.compute = compute;
    i.label = 1;
    step(isa::Step::Kind::instruction, static_cast<uint32_t>(program.instructions.size()));
    program.instructions.push_back(i);
    return program.instructions.back();
  }

  isa::Instruction& dma(const isa::Access& to, const isa::Access& from) {
    isa::Instruction& i = add(isa::Opcode::dma_copy, isa::Engine::dma);
    i.dst = to;
    i.src0 = from;
    return i;
  }

  void loop(uint32_t trips) {
    open_.push_back(steps().size());
    step(isa::Step::Kind::loop, trips);
  }
  void end() {
    const size_t start = open_.back();
    open_.pop_back();
    steps()[start].match = static_cast<uint32_t>(steps().size());
    step(isa::Step::Kind::end, 0);
    steps().back().match = static_cast<uint32_t>(start);
  }

  static isa::ScalarOperand immediate(double re, double im = 0) {
    isa::ScalarOperand s;
    s.kind = isa::ScalarOperand::Kind::immediate;
    s.re = re;
    s.im = im;
    s.i = static_cast<int64_t>(re);
    return s;
  }

 private:
  static isa::Access row(isa::Space space, uint32_t object, DType dtype, uint32_t partitions, uint32_t count) {
    isa::Access a;
    a.space = space;
    a.object = object;
    a.dtype = dtype;
    a.partitions = partitions;
    a.rank = 1;
    a.dims[0] = {count, static_cast<int64_t>(size_of(dtype))};
    return a;
  }
  std::vector<isa::Step>& steps() { return program.streams[0].steps; }
  void step(isa::Step::Kind kind, uint32_t value) { steps().push_back({kind, isa::LoopKind::sequential, value, 0}); }

  std::vector<size_t> open_;
  uint64_t used_[2] = {0, 0};
};

}  // namespace neuron::emulator::testing
