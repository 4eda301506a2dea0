// Writes the executables that the plain C test loads: write_containers FOLDER.
#include <cstdio>
#include <fstream>
#include <string>

#include "emulator/small_program.h"
#include "isa/container.h"
#include "isa/validator.h"

using namespace neuron;
using namespace neuron::emulator::testing;
using isa::TensorRole;

namespace {

bool save(const std::string& path, const isa::Program& program) {
  const Status status = isa::validate(program);
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), status.message().c_str());
    return false;
  }
  const std::vector<uint8_t> bytes = isa::serialize(program);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return true;
}

// out = a + b, f32 [4, 8]; in place: out is a.
isa::Program add(bool in_place) {
  SmallProgram p;
  const isa::Access a = p.tensor("a", TensorRole::input, DType::f32, 4, 8),
                    b = p.tensor("b", TensorRole::input, DType::f32, 4, 8);
  const isa::Access out = p.tensor("out", TensorRole::output, DType::f32, 4, 8);
  if (in_place) p.program.tensors[2].alias_of = 0;
  const isa::Access ta = p.tile(DType::f32, 4, 8), tb = p.tile(DType::f32, 4, 8);
  p.dma(ta, a);
  p.dma(tb, b);
  isa::Instruction& i = p.add(isa::Opcode::tensor_tensor, isa::Engine::vector);
  i.op0 = isa::AluOp::add;
  i.dst = i.src0 = ta;
  i.src1 = tb;
  p.dma(out, ta);
  return p.program;
}

// out[j] = table[index[j]] of 10 rows, through scratch memory, plus a constant.
isa::Program gather() {
  SmallProgram p;
  isa::Access table = p.tensor("table", TensorRole::input, DType::f32, 10, 2);
  const isa::Access index = p.tensor("index", TensorRole::input, DType::i64, 3, 1);
  const isa::Access out = p.tensor("out", TensorRole::output, DType::f32, 3, 2);
  const isa::Access scratch = p.tensor("scratch", TensorRole::scratch, DType::f32, 3, 2);
  const isa::Access constant = p.tensor("constant", TensorRole::constant, DType::f32, 3, 2);
  const float half = 0.5f;
  for (int n = 0; n < 6; ++n) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&half);
    p.program.constants.insert(p.program.constants.end(), bytes, bytes + sizeof half);
  }
  p.program.labels = {"", "aten::index_select"};
  const isa::Access ti = p.tile(DType::i64, 3, 1), rows = p.tile(DType::f32, 3, 2), tc = p.tile(DType::f32, 3, 2);
  p.dma(ti, index);
  table.partitions = 3;
  table.partition_stride = 0;
  table.rank = 2;
  table.dims[0] = {1, 0};
  table.dims[1] = {2, 4};
  isa::Instruction& g = p.dma(rows, table);
  g.index = ti;
  g.index_stride = 8;
  g.index_bound = 10;
  p.dma(scratch, rows);
  p.dma(rows, scratch);
  p.dma(tc, constant);
  isa::Instruction& i = p.add(isa::Opcode::tensor_tensor, isa::Engine::vector);
  i.op0 = isa::AluOp::add;
  i.dst = i.src0 = rows;
  i.src1 = tc;
  p.dma(out, rows);
  return p.program;
}

// out = a // b in i64: a zero in b is an execution error.
isa::Program divide() {
  SmallProgram p;
  const isa::Access a = p.tensor("a", TensorRole::input, DType::i64, 1, 4),
                    b = p.tensor("b", TensorRole::input, DType::i64, 1, 4);
  const isa::Access out = p.tensor("out", TensorRole::output, DType::i64, 1, 4);
  const isa::Access ta = p.tile(DType::i64, 1, 4), tb = p.tile(DType::i64, 1, 4);
  p.dma(ta, a);
  p.dma(tb, b);
  isa::Instruction& i = p.add(isa::Opcode::tensor_tensor, isa::Engine::gpsimd, DType::i64);
  i.op0 = isa::AluOp::floor_divide;
  i.dst = i.src0 = ta;
  i.src1 = tb;
  p.dma(out, ta);
  return p.program;
}

// Hours of work: only an interrupt ends it.
isa::Program endless() {
  SmallProgram p;
  const isa::Access a = p.tensor("a", TensorRole::input, DType::f32, 4, 8),
                    out = p.tensor("out", TensorRole::output, DType::f32, 4, 8);
  const isa::Access t = p.tile(DType::f32, 4, 8);
  p.dma(t, a);
  p.loop(4000000000u);
  isa::Instruction& i = p.add(isa::Opcode::activation, isa::Engine::scalar);
  i.func = isa::ActFn::tanh;
  i.dst = i.src0 = t;
  p.end();
  p.dma(out, t);
  return p.program;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const bool ok = save(folder + "/add.tile", add(false)) && save(folder + "/add_in_place.tile", add(true)) &&
                  save(folder + "/gather.tile", gather()) && save(folder + "/divide.tile", divide()) &&
                  save(folder + "/endless.tile", endless());
  return ok ? 0 : 1;
}
