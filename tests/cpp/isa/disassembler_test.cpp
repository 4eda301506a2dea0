#include "isa/disassembler.h"

#include <gtest/gtest.h>

#include "isa/samples.h"

namespace neuron::isa {
namespace {

TEST(Disassembler, PrintsTablesLoopsAccessesAndSemaphores) {
  Program p = samples::streaming(4, 512);
  p.name = "relu";
  EXPECT_EQ(disassemble(p),
            "program relu  target trn2\n"
            "  in input0 f32[512,512] strides(512,1) 1048576 bytes\n"
            "  out output0 f32[512,512] strides(512,1) 1048576 bytes = input0\n"
            "  tile T0 sbuf [128, 2048 bytes] x 2 at 0,0\n"
            "  tile T1 sbuf [128, 2048 bytes] x 2 at 0,4096\n"
            "  loop i 0..4 affine\n"
            "    dma0.dma_copy T0[i%2] f32[128, 512] = input0 + 262144*i f32[128:2048, 512] wait s1>=-1 + 1*i signal s0  ; "
            "aten::sample\n"
            "    scalar.activation T1[i%2] f32[128, 512] = relu(T0[i%2] f32[128, 512]) wait s0>=1 + 1*i wait s2>=-1 + 1*i "
            "signal s1  ; aten::sample\n"
            "    dma1.dma_copy output0 + 262144*i f32[128:2048, 512] = T1[i%2] f32[128, 512] wait s1>=1 + 1*i signal s2  ; "
            "aten::sample\n");
}

TEST(Disassembler, PrintsEverySampleOnOneLinePerInstruction) {
  for (const samples::Sample& s : samples::all()) {
    for (const Instruction& i : s.program.instructions) {
      const std::string line = disassemble(s.program, i);
      EXPECT_FALSE(line.empty());
      EXPECT_EQ(line.find('\n'), std::string::npos) << s.name;
    }
  }
}

TEST(Disassembler, SurvivesAProgramOfGarbage) {
  Program p;
  p.instructions.resize(1);
  Instruction& i = p.instructions[0];
  i.opcode = static_cast<Opcode>(200);
  i.engine = static_cast<Engine>(99);
  i.op0 = static_cast<AluOp>(255);
  i.dst.space = Space::sbuf;
  i.dst.object = 77;
  i.dst.rank = 200;
  i.dst.dtype = static_cast<DType>(99);
  i.label = 12345;
  p.streams.resize(1);
  p.streams[0].steps = {{Step::Kind::end, LoopKind::affine, 5, 9},
                        {Step::Kind::instruction, LoopKind::affine, 0, 0},
                        {Step::Kind::instruction, LoopKind::affine, 9, 0}};
  EXPECT_NE(disassemble(p).find("instruction 9?"), std::string::npos);
}

}  // namespace
}  // namespace neuron::isa
