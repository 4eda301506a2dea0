// Hand-written programs of the compiler's shapes: the plan gives the interpreter's bits.
#include "emulator/plan_programs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/float_formats.h"
#include "emulator/execution.h"
#include "emulator/executor.h"
#include "emulator/small_program.h"
#include "isa/validator.h"

namespace neuron::emulator::testing {
namespace {

using Bytes = std::vector<std::vector<uint8_t>>;

Bytes random_buffers(const isa::Program& program) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Bytes buffers;
  for (const isa::Tensor& t : program.tensors) {
    std::vector<uint8_t> b(t.bytes);
    for (size_t i = 0; i * size_of(t.dtype) < b.size(); ++i) {
      const float x = normal(random);
      if (t.dtype == DType::f32) std::memcpy(&b[i * 4], &x, 4);
      const uint16_t h = f32_to_bf16(x);
      if (t.dtype == DType::bf16) std::memcpy(&b[i * 2], &h, 2);
    }
    buffers.push_back(std::move(b));
  }
  return buffers;
}

Bytes execute(Executor& executor, const isa::Program& program, Bytes buffers, int threads) {
  ThreadPool pool(threads);
  std::vector<TensorView> views;
  for (size_t t = 0; t < buffers.size(); ++t) {
    const int32_t alias = program.tensors[t].alias_of;
    std::vector<uint8_t>& b = buffers[alias >= 0 ? static_cast<size_t>(alias) : t];
    views.push_back({b.data(), b.size()});
  }
  Launch launch{views, pool};
  const Status status = executor.run(launch);
  EXPECT_TRUE(status.ok()) << status.message();
  return buffers;
}

void expect_interpreters_bits(const std::shared_ptr<const isa::Program>& program) {
  const Status valid = isa::validate(*program);
  EXPECT_TRUE(valid.ok()) << valid.message();
  auto interpreter = make_interpreter(program);
  auto plan = make_plan(program);
  ASSERT_TRUE(interpreter.ok() && plan.ok());
  const Bytes initial = random_buffers(*program);
  const Bytes expected = execute(**interpreter, *program, initial, 1);
  for (int threads : {1, 2, 3})
    EXPECT_TRUE(execute(**plan, *program, initial, threads) == expected) << threads << " threads";
}

TEST(PlanPrograms, MatmulOfAnyShapeHasTheInterpretersBits) {
  expect_interpreters_bits(matmul_program(DType::f32, 1, 128, 128, 512));
  expect_interpreters_bits(matmul_program(DType::f32, 1, 200, 333, 77));
  expect_interpreters_bits(matmul_program(DType::f32, 3, 64, 256, 600));
  expect_interpreters_bits(matmul_program(DType::f32, 2, 130, 1, 1));
  expect_interpreters_bits(matmul_program(DType::f32, 1, 1, 700, 65));
}
TEST(PlanPrograms, MatmulWithTransposedMovingOperandHasTheInterpretersBits) {
  expect_interpreters_bits(matmul_program(DType::f32, 2, 128, 200, 130, true));
  expect_interpreters_bits(matmul_program(DType::bf16, 1, 70, 256, 520, true));
}
TEST(PlanPrograms, Bf16MatmulKeepsTheMatrixUnitOrder) {
  expect_interpreters_bits(matmul_program(DType::bf16, 1, 128, 128, 512));
  expect_interpreters_bits(matmul_program(DType::bf16, 1, 150, 333, 77));
  expect_interpreters_bits(matmul_program(DType::bf16, 2, 33, 31, 100));
}
TEST(PlanPrograms, PointwiseChainsHaveTheInterpretersBits) {
  for (DType type : {DType::f32, DType::bf16}) {
    for (Pointwise kind : {Pointwise::add, Pointwise::gelu, Pointwise::scale_bias_max_add, Pointwise::add_in_place}) {
      expect_interpreters_bits(pointwise_program(type, kind, 128 * 512 * 5));
      expect_interpreters_bits(pointwise_program(type, kind, 128 * 3));
    }
  }
}
TEST(PlanPrograms, RowProgramsHaveTheInterpretersBits) {
  for (uint32_t columns : {1u, 10u, 300u, 1024u, 3000u}) {
    expect_interpreters_bits(softmax_program(384, columns));
    expect_interpreters_bits(layernorm_program(256, columns));
  }
}
TEST(PlanPrograms, AttentionHasTheInterpretersBits) {
  expect_interpreters_bits(attention_program(DType::f32, 3, 256, 64));
  expect_interpreters_bits(attention_program(DType::bf16, 2, 128, 64));
  expect_interpreters_bits(attention_program(DType::bf16, 1, 1024, 40));
}
TEST(PlanPrograms, OneElementHasTheInterpretersBits) { expect_interpreters_bits(tiny_program()); }

TEST(PlanPrograms, OverlappingBuffersGiveTheInterpretersBits) {
  // The output lies in the middle of the input: stores are seen by later loads.
  auto program = pointwise_program(DType::f32, Pointwise::add, 128 * 512 * 2);
  auto interpreter = make_interpreter(program);
  auto plan = make_plan(program);
  ASSERT_TRUE(interpreter.ok() && plan.ok());
  const auto run = [&](Executor& executor) {
    std::vector<float> memory(128 * 512 * 4, 1.0f), other(128 * 512 * 2, 2.0f);
    ThreadPool pool(2);
    const uint64_t bytes = program->tensors[0].bytes;
    const std::vector<TensorView> views = {{reinterpret_cast<uint8_t*>(memory.data()), bytes},
                                           {reinterpret_cast<uint8_t*>(other.data()), bytes},
                                           {reinterpret_cast<uint8_t*>(memory.data() + 128 * 512), bytes}};
    Launch launch{views, pool};
    EXPECT_TRUE(executor.run(launch).ok());
    return memory;
  };
  EXPECT_TRUE(run(**plan) == run(**interpreter));
}

TEST(PlanPrograms, StopWhenTheInterruptCheckSaysSo) {
  auto program = pointwise_program(DType::f32, Pointwise::gelu, 128 * 512 * 64);
  auto plan = make_plan(program);
  ASSERT_TRUE(plan.ok());
  Bytes buffers = random_buffers(*program);
  std::vector<TensorView> views;
  for (auto& b : buffers) views.push_back({b.data(), b.size()});
  ThreadPool pool(2);
  Launch launch{views, pool, [](void*) { return 1; }, nullptr};
  EXPECT_EQ((*plan)->run(launch).code(), Code::unavailable);
}

template <class T>
std::vector<uint8_t> bytes_of(std::initializer_list<T> values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

void expect_interpreters_bits(const SmallProgram& p, const Buffers& initial) {
  const Status valid = isa::validate(p.program);
  ASSERT_TRUE(valid.ok()) << valid.message();
  const auto program = std::make_shared<const isa::Program>(p.program);
  auto interpreter = make_interpreter(program);
  auto plan = make_plan(program);
  ASSERT_TRUE(interpreter.ok() && plan.ok());
  ThreadPool pool(1);
  EXPECT_EQ(difference(*program, run(**interpreter, *program, initial, pool), run(**plan, *program, initial, pool)), "");
}

TEST(PlanPrograms, TinyDoublesOfAMaskCountAsTrueInComplexNumbers) {
  SmallProgram p;
  const auto mask = p.tensor("mask", isa::TensorRole::input, DType::f64, 1, 4),
             a = p.tensor("a", isa::TensorRole::input, DType::c64, 1, 4),
             b = p.tensor("b", isa::TensorRole::input, DType::c64, 1, 4),
             out = p.tensor("out", isa::TensorRole::output, DType::c64, 1, 4);
  const auto on_mask = p.tile(DType::f64, 1, 4), on_a = p.tile(DType::c64, 1, 4), on_b = p.tile(DType::c64, 1, 4),
             result = p.tile(DType::c64, 1, 4);
  p.dma(on_mask, mask);
  p.dma(on_a, a);
  p.dma(on_b, b);
  auto& select = p.add(isa::Opcode::select, isa::Engine::gpsimd, DType::c64);
  select.dst = result;
  select.src0 = on_a;
  select.src1 = on_b;
  select.src2 = on_mask;
  p.dma(out, result);
  expect_interpreters_bits(p, {bytes_of<double>({1e-300, 0, 1, -1e-60}), bytes_of<float>({1, 1, 2, 2, 3, 3, 4, 4}),
                               bytes_of<float>({-1, -1, -2, -2, -3, -3, -4, -4}), std::vector<uint8_t>(32)});
}

TEST(PlanPrograms, ComputedIndicesMayAlsoBeStored) {
  SmallProgram p;
  auto table = p.tensor("table", isa::TensorRole::input, DType::f32, 4, 1);
  const auto input = p.tensor("input", isa::TensorRole::input, DType::i64, 4, 1),
             out = p.tensor("out", isa::TensorRole::output, DType::f32, 4, 1),
             indices_out = p.tensor("indices_out", isa::TensorRole::output, DType::i64, 4, 1);
  const auto loaded = p.tile(DType::i64, 4, 1), indices = p.tile(DType::i64, 4, 1), rows = p.tile(DType::f32, 4, 1);
  p.dma(loaded, input);
  auto& add = p.add(isa::Opcode::tensor_scalar, isa::Engine::gpsimd, DType::i64);
  add.op0 = isa::AluOp::add;
  add.dst = indices;
  add.src0 = loaded;
  add.scalar0 = SmallProgram::immediate(1);
  table.partition_stride = 0;
  auto& gather = p.dma(rows, table);
  gather.index = indices;
  gather.index_stride = 4;
  gather.index_bound = 4;
  p.dma(out, rows);
  p.dma(indices_out, indices);
  expect_interpreters_bits(p, {bytes_of<float>({10, 11, 12, 13}), bytes_of<int64_t>({2, 0, -1, 1}), std::vector<uint8_t>(16),
                               std::vector<uint8_t>(32)});
}

}  // namespace
}  // namespace neuron::emulator::testing
