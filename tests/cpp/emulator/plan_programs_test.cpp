// Hand-written programs of the compiler's shapes: the plan gives the interpreter's bits.
#include "emulator/plan_programs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/float_formats.h"
#include "emulator/executor.h"
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

}  // namespace
}  // namespace neuron::emulator::testing
