// Single instructions against what published Trainium2 profiles show. Tolerance: 15 % of the published figure (most of which
// are rounded to one or two digits there).
#include <gtest/gtest.h>

#include "isa/samples.h"
#include "isa/target.h"
#include "isa/validator.h"
#include "timing/timing.h"

namespace neuron::timing {
namespace {

using isa::AluOp;
using isa::Engine;
using isa::Opcode;
using isa::Space;
using isa::samples::Builder;

constexpr double kTolerance = 0.15;

void expect_close(double ns, double published_ns) { EXPECT_NEAR(ns, published_ns, published_ns * kTolerance); }

// The cost of the last instruction that `make` adds.
template <class Make>
double cost(Make make) {
  Builder b;
  make(b);
  const Status status = isa::validate(b.program);
  EXPECT_TRUE(status.ok()) << status.message();
  return instruction_ns(b.program, b.program.instructions.back());
}

isa::Access on(Builder& b, Space space, DType t, uint32_t n) {
  return b.on(b.tile(space, 128, n * static_cast<uint32_t>(size_of(t))), t, 128, {n});
}

double element_wise(Opcode opcode, Engine engine, DType from, DType to, uint32_t n, int sources,
                    Space source_space = Space::sbuf, AluOp op = AluOp::add) {
  return cost([&](Builder& b) {
    const isa::Access dst = on(b, Space::sbuf, to, n), src0 = on(b, source_space, from, n);
    const isa::Access src1 = sources > 1 ? on(b, Space::sbuf, from, n) : isa::Access{};
    isa::Instruction& i = b.add(opcode, engine);
    i.dst = dst;
    i.src0 = src0;
    i.src1 = src1;
    if (opcode == Opcode::tensor_tensor || opcode == Opcode::tensor_scalar || opcode == Opcode::scalar_tensor_tensor)
      i.op0 = op;
    if (opcode == Opcode::scalar_tensor_tensor) i.op1 = AluOp::multiply;
    if (opcode == Opcode::tensor_scalar || opcode == Opcode::scalar_tensor_tensor) i.scalar0 = isa::samples::immediate(2);
  });
}

TEST(InstructionTiming, TensorTensorF32Of2000ElementsTakes2300Ns) {
  expect_close(element_wise(Opcode::tensor_tensor, Engine::vector, DType::f32, DType::f32, 2000, 2), 2300);
}

TEST(InstructionTiming, ScalarTensorTensorOf512ElementsTakes700Ns) {
  expect_close(element_wise(Opcode::scalar_tensor_tensor, Engine::vector, DType::f32, DType::f32, 512, 2), 700);
}

TEST(InstructionTiming, ReductionOf16384Bf16Takes17200Ns) {
  expect_close(cost([](Builder& b) {
                 const isa::Access dst = on(b, Space::sbuf, DType::f32, 1), src = on(b, Space::sbuf, DType::bf16, 16'384);
                 isa::Instruction& i = b.add(Opcode::tensor_reduce, Engine::vector);
                 i.op0 = AluOp::maximum;
                 i.dst = dst;
                 i.src0 = src;
               }),
               17'200);
}

TEST(InstructionTiming, TensorScalarBf16ToF8Of16384ElementsTakes8900Ns) {
  expect_close(element_wise(Opcode::tensor_scalar, Engine::vector, DType::bf16, DType::f8e4m3fn, 16'384, 1), 8'900);
}

TEST(InstructionTiming, CopyOfAPsumBankToSbufTakes680Ns) {
  expect_close(element_wise(Opcode::tensor_copy, Engine::vector, DType::f32, DType::bf16, 512, 1, Space::psum), 680);
}

double activation(uint32_t n, DType t, bool sum) {
  return cost([&](Builder& b) {
    const isa::Access dst = on(b, Space::sbuf, t, n), src = on(b, Space::sbuf, t, n);
    const isa::Access total = sum ? on(b, Space::sbuf, DType::f32, 1) : isa::Access{};
    isa::Instruction& i = b.add(Opcode::activation, Engine::scalar);
    i.func = isa::ActFn::exp;
    i.dst = dst;
    i.dst2 = total;
    i.src0 = src;
  });
}

TEST(InstructionTiming, ActivationTakes3700NsFor4096And400NsFor128Elements) {
  expect_close(activation(4096, DType::f32, false), 3700);
  expect_close(activation(128, DType::f32, false), 400);
}

TEST(InstructionTiming, ActivationWithSumOf16384Bf16AndATableLoadTakes15200Ns) {
  expect_close(activation(16'384, DType::bf16, true) + isa::find_target("trn2")->scalar.table_load_ns, 15'200);
}

double execution_ns(const isa::Program& p) {
  const Status status = isa::validate(p);
  EXPECT_TRUE(status.ok()) << status.message();
  const Estimate e = estimate(p);
  return e.total_ns - e.launch_ns;
}

TEST(InstructionTiming, OneColdMatmulOf512ColumnsTakes620Ns) {
  expect_close(execution_ns(isa::samples::resident_matmul(1, 1)), 620);
}

TEST(InstructionTiming, MatmulsBackToBackTake217NsEach) {
  const double ns = execution_ns(isa::samples::resident_matmul(256, 32)) / 8192;
  EXPECT_NEAR(ns, 1'781'000.0 / 8192, 0.01 * 217.4);
}

TEST(InstructionTiming, F32MatmulsTakeTwoInstructionsOf1031Cycles) {
  const double ns = execution_ns(isa::samples::resident_matmul(256, 32, DType::f32)) / 8192;
  EXPECT_NEAR(ns, 2 * 1031 / 2.4, 0.01 * 859);
}

double dma(uint32_t partitions, uint32_t columns, DType t, int64_t row_bytes, bool store) {
  return cost([&](Builder& b) {
    const uint32_t tensor = b.tensor("t", store ? isa::TensorRole::output : isa::TensorRole::input, t,
                                     {partitions, row_bytes / static_cast<int64_t>(size_of(t))});
    const isa::Access tile =
        b.on(b.tile(Space::sbuf, partitions, columns * static_cast<uint32_t>(size_of(t))), t, partitions, {columns});
    const isa::Access hbm = b.hbm(tensor, partitions, row_bytes, {{columns, static_cast<int64_t>(size_of(t))}});
    isa::Instruction& i = b.add(Opcode::dma_copy, Engine::dma);
    i.dst = store ? hbm : tile;
    i.src0 = store ? tile : hbm;
  });
}

TEST(InstructionTiming, DmaTransfersMatchPublishedOnes) {
  const double start_ns = isa::find_target("trn2")->dma.start_ns;
  expect_close(dma(128, 2000, DType::f32, 8000, true) - start_ns, 2650);  // 386 GB/s
  expect_close(dma(4, 4096, DType::bf16, 8192, false) - start_ns, 1416);  // 32 KiB on one engine
  // Rates over 16 engines: rows of 4 KiB 354 GB/s, of 1 KiB 259 GB/s, of 256 B about 60.
  const auto gb_per_s = [&](uint32_t bytes) {
    return 128.0 * bytes / (dma(128, bytes / 4, DType::f32, bytes * 2, false) - start_ns);
  };
  expect_close(gb_per_s(4096), 354);
  expect_close(gb_per_s(1024), 259);
}

}  // namespace
}  // namespace neuron::timing
