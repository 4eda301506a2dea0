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

void expect_interpreters_bits(const std::shared_ptr<const isa::Program>& program, const Bytes& initial) {
  const Status valid = isa::validate(*program);
  EXPECT_TRUE(valid.ok()) << valid.message();
  auto interpreter = make_interpreter(program);
  auto plan = make_plan(program);
  ASSERT_TRUE(interpreter.ok() && plan.ok());
  const Bytes expected = execute(**interpreter, *program, initial, 1);
  for (int threads : {1, 2, 3})
    EXPECT_TRUE(execute(**plan, *program, initial, threads) == expected) << threads << " threads";
}

void expect_interpreters_bits(const std::shared_ptr<const isa::Program>& program) {
  expect_interpreters_bits(program, random_buffers(*program));
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
TEST(PlanPrograms, MatmulRowsMayBeCutAnyHow) {
  // Blocks of up to twelve rows by half a panel, whole panels and what is left of them.
  for (uint32_t m : {6u, 7u, 12u, 13u, 25u, 47u}) {
    for (uint32_t n : {64u, 128u, 200u}) expect_interpreters_bits(matmul_program(DType::f32, 1, m, 150, n));
  }
}
TEST(PlanPrograms, AFewLongMatmulsAreShared) {
  // On two or three threads somebody runs out of batches before the others and helps.
  for (uint32_t batch : {3u, 5u}) {
    expect_interpreters_bits(matmul_program(DType::f32, batch, 128, 300, 512));
    expect_interpreters_bits(matmul_program(DType::bf16, batch, 128, 256, 512));
  }
  expect_interpreters_bits(matmul_program(DType::f32, 3, 49, 600, 512, true));
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

// --- what the plan's passes may do, and what they may not ---

constexpr DType f = DType::f32;
constexpr isa::LoopKind kSequential = isa::LoopKind::sequential, kAffine = isa::LoopKind::affine;

// Instructions on 128 rows of f32; columns and loop steps count elements.
class Rows : public Assembler {
 public:
  uint32_t input(uint64_t columns) { return tensor(isa::TensorRole::input, f, 128 * columns); }
  uint32_t output(uint64_t columns) { return tensor(isa::TensorRole::output, f, 128 * columns); }
  uint32_t rows(uint32_t columns, uint32_t buffers = 1) { return tile(128, columns * 4, isa::Space::sbuf, buffers); }
  uint32_t psum(uint32_t columns) { return tile(128, columns * 4, isa::Space::psum); }
  isa::Access part(uint32_t tile, uint32_t columns, uint32_t first = 0, std::vector<int64_t> steps = {}) const {
    return on(tile, f, 128, {{columns, 4}}, first * 4, bytes(std::move(steps)));
  }
  // Columns of a matrix [128, `row`] that begins at element `first`.
  isa::Access memory(uint32_t tensor, uint32_t columns, uint32_t row, uint32_t first = 0,
                     std::vector<int64_t> steps = {}) const {
    return hbm(tensor, f, int64_t{first} * 4, 128, int64_t{row} * 4, {{columns, 4}}, bytes(std::move(steps)));
  }
  void dma(const isa::Access& dst, const isa::Access& src) { add(isa::Opcode::dma_copy, isa::Engine::dma, dst, src); }
  void copy(const isa::Access& dst, const isa::Access& src) { add(isa::Opcode::tensor_copy, isa::Engine::vector, dst, src); }
  void set(const isa::Access& dst, double value) {
    add(isa::Opcode::memset, isa::Engine::vector, dst).scalar0 = immediate(value);
  }
  void scale(const isa::Access& dst, const isa::Access& src, double by) {
    isa::Instruction& i = add(isa::Opcode::tensor_scalar, isa::Engine::vector, dst, src);
    i.op0 = isa::AluOp::multiply;
    i.scalar0 = immediate(by);
  }
  void sum(const isa::Access& dst, const isa::Access& a, const isa::Access& b) { combine(isa::AluOp::add, dst, a, b); }
  void combine(isa::AluOp op, const isa::Access& dst, const isa::Access& a, const isa::Access& b) {
    add(isa::Opcode::tensor_tensor, isa::Engine::vector, dst, a, b).op0 = op;
  }
  isa::Instruction& matmul(const isa::Access& dst, const isa::Access& stationary, const isa::Access& moving) {
    return add(isa::Opcode::nc_matmul, isa::Engine::tensor, dst, stationary, moving);
  }

 private:
  static std::vector<int64_t> bytes(std::vector<int64_t> steps) {
    for (int64_t& s : steps) s *= 4;
    return steps;
  }
};

isa::Access of_partitions(isa::Access a, uint32_t first, uint32_t count) {
  if (a.space == isa::Space::hbm)
    a.offset += first * a.partition_stride;
  else
    a.partition_start = first;
  a.partitions = count;
  return a;
}

TEST(PlanRotation, TilesThatEachIterationFillsNeedOneBuffer) {
  Rows r;
  const uint32_t x = r.input(64 * 5), out = r.output(64 * 5), loaded = r.rows(64, 2), scaled = r.rows(64, 3);
  r.loop(5, kSequential);
  r.dma(r.part(loaded, 64), r.memory(x, 64, 320, 0, {64}));
  r.scale(r.part(scaled, 64), r.part(loaded, 64), 2);
  r.sum(r.part(scaled, 32), r.part(scaled, 32), r.part(loaded, 32, 32));  // partly written again
  r.dma(r.memory(out, 64, 320, 0, {64}), r.part(scaled, 64));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanRotation, StaysWhereABufferKeepsWhatAnotherLoopLeft) {
  Rows r;
  const uint32_t x = r.input(64 * 6), out = r.output(64 * 6), loaded = r.rows(64), total = r.rows(64, 2);
  r.loop(2, kSequential);
  r.set(r.part(total, 64), 1);
  r.end();
  r.loop(6, kSequential);
  r.dma(r.part(loaded, 64), r.memory(x, 64, 384, 0, {64}));
  r.sum(r.part(total, 64), r.part(total, 64), r.part(loaded, 64));  // of every second iteration
  r.dma(r.memory(out, 64, 384, 0, {64}), r.part(total, 64));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanRotation, StaysWhereAPartIsReadBeforeItIsFilled) {
  Rows r;
  const uint32_t x = r.input(64 * 5), out = r.output(64);
  const uint32_t loaded = r.rows(64), kept = r.rows(128, 2), result = r.rows(64);
  r.loop(5, kSequential);
  r.dma(r.part(loaded, 64), r.memory(x, 64, 320, 0, {64}));
  r.scale(r.part(kept, 64), r.part(loaded, 64), 2);
  r.sum(r.part(result, 64), r.part(kept, 64), r.part(kept, 64, 64));  // the second half is two iterations old
  r.copy(r.part(kept, 64, 64), r.part(loaded, 64));
  r.dma(r.memory(out, 64, 64), r.part(result, 64));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanRotation, StaysWhereSkippedRowsKeepWhatTheyHad) {
  Rows r;
  const uint32_t table = r.input(16), at = r.tensor(isa::TensorRole::input, DType::i32, 128 * 6), out = r.output(16 * 6);
  const uint32_t indices = r.tile(128, 4), gathered = r.rows(16, 2), scaled = r.rows(16);
  r.loop(6, kSequential);
  r.dma(r.on(indices, DType::i32, 128, {{1, 4}}), r.hbm(at, DType::i32, 0, 128, 4, {{1, 4}}, {512}));
  isa::Instruction& gather =
      r.add(isa::Opcode::dma_copy, isa::Engine::dma, r.part(gathered, 16), r.hbm(table, f, 0, 128, 0, {{1, 4}, {16, 4}}));
  gather.index = r.on(indices, DType::i32, 128, {{1, 4}});
  gather.index_stride = 64;
  gather.index_bound = 128;
  gather.oob = isa::OobMode::skip;
  r.scale(r.part(scaled, 16), r.part(gathered, 16), 2);
  r.dma(r.memory(out, 16, 96, 0, {16}), r.part(scaled, 16));
  r.end();
  const auto program = r.done();
  Bytes initial = random_buffers(*program);
  for (int32_t i = 0; i < 128 * 6; ++i) {
    const int32_t row = i < 256 ? i % 128 : i * 37 % 300;  // all inside in the first two iterations
    std::memcpy(&initial[at][static_cast<size_t>(i) * 4], &row, 4);
  }
  expect_interpreters_bits(program, initial);
}

TEST(PlanRowLoops, StateThatStaysInItsRowsCrossesIterations) {
  // Running maxima and sums of exponentials, as attention keeps them; an inner loop, and accesses that move with each.
  Rows r;
  const uint32_t x = r.input(512 * 6), out = r.output(512 * 6), sums = r.output(1);
  const uint32_t loaded = r.rows(256), all = r.rows(512 * 6), top = r.rows(1), higher = r.rows(1), total = r.rows(1),
                 part = r.rows(1), powers = r.rows(256);
  r.set(r.part(top, 1), -1e30);
  r.set(r.part(total, 1), 0);
  r.loop(6, kSequential);
  r.loop(2, kSequential);
  r.dma(r.part(loaded, 256), r.memory(x, 256, 512 * 6, 0, {512, 256}));
  r.add(isa::Opcode::tensor_reduce, isa::Engine::vector, r.part(higher, 1), r.part(loaded, 256)).op0 = isa::AluOp::maximum;
  r.combine(isa::AluOp::maximum, r.part(higher, 1), r.part(higher, 1), r.part(top, 1));
  r.combine(isa::AluOp::subtract, r.part(top, 1), r.part(top, 1), r.part(higher, 1));
  r.add(isa::Opcode::activation, isa::Engine::scalar, r.part(top, 1), r.part(top, 1)).func = isa::ActFn::exp;
  r.combine(isa::AluOp::multiply, r.part(total, 1), r.part(total, 1), r.part(top, 1));
  isa::Instruction& shift = r.add(isa::Opcode::tensor_scalar, isa::Engine::vector, r.part(powers, 256), r.part(loaded, 256));
  shift.op0 = isa::AluOp::subtract;
  shift.scalar0 = per_partition(r.part(higher, 1));
  isa::Instruction& exp =
      r.add(isa::Opcode::activation, isa::Engine::scalar, r.part(all, 256, 0, {512, 256}), r.part(powers, 256));
  exp.func = isa::ActFn::exp;
  exp.dst2 = r.part(part, 1);
  r.sum(r.part(total, 1), r.part(total, 1), r.part(part, 1));
  r.copy(r.part(top, 1), r.part(higher, 1));
  r.end();
  r.end();
  r.dma(r.memory(out, 512 * 6, 512 * 6), r.part(all, 512 * 6));
  r.dma(r.memory(sums, 1, 1), r.part(total, 1));
  expect_interpreters_bits(r.done());
}

TEST(PlanRowLoops, StateThatMovesToOtherRowsKeepsTheOrder) {
  Rows r;
  const uint32_t x = r.input(512), out = r.output(512), a = r.rows(512), b = r.rows(512);
  r.dma(r.part(a, 512), r.memory(x, 512, 512));
  r.loop(9, kSequential);
  const isa::Access upper = of_partitions(r.part(a, 512), 0, 64), half = of_partitions(r.part(b, 512), 0, 64);
  r.scale(half, upper, 0.5);
  r.sum(upper, upper, half);
  r.dma(of_partitions(r.part(a, 512), 32, 64), half);
  r.end();
  r.dma(r.memory(out, 512, 512), r.part(a, 512));
  expect_interpreters_bits(r.done());
}

TEST(PlanRowLoops, MemoryWrittenInALoopIsSeenByOtherRows) {
  // Each iteration works one row further down in memory, on what other partitions left there.
  Rows r;
  const uint32_t x = r.input(512 * 2), out = r.output(512 * 2), all = r.rows(512 * 2), a = r.rows(512), sum = r.rows(512);
  r.dma(r.part(all, 1024), r.memory(x, 1024, 1024));
  r.dma(r.memory(out, 1024, 1024), r.part(all, 1024));
  r.set(r.part(sum, 512), 1);
  r.loop(7, kSequential);
  r.dma(r.part(a, 512), r.memory(out, 512, 512, 0, {512}));
  r.scale(r.part(sum, 512), r.part(sum, 512), 0.5);
  r.sum(r.part(sum, 512), r.part(sum, 512), r.part(a, 512));
  r.dma(r.memory(out, 512, 512, 0, {512}), r.part(sum, 512));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanRowLoops, ATileOfTwoLoopsKeepsWhatOnlyOneOfThemFills) {
  // The second loop runs further: what it reads there, it left in the round before.
  Rows r;
  const uint32_t x = r.input(64 * 4), y = r.input(64 * 8), out = r.output(64 * 8);
  const uint32_t first = r.rows(64 * 4), second = r.rows(64 * 8), kept = r.rows(64 * 8), seen = r.rows(64 * 8);
  r.dma(r.part(first, 256), r.memory(x, 256, 256));
  r.dma(r.part(second, 512), r.memory(y, 512, 512));
  r.loop(2, kSequential);
  r.loop(4, kSequential);
  r.scale(r.part(kept, 64, 0, {0, 64}), r.part(first, 64, 0, {0, 64}), 2);
  r.end();
  r.loop(8, kSequential);
  r.scale(r.part(seen, 64, 0, {0, 64}), r.part(kept, 64, 0, {0, 64}), 3);
  r.scale(r.part(kept, 64, 0, {0, 64}), r.part(second, 64, 0, {0, 64}), 5);
  r.end();
  for (uint32_t half : {0u, 64u})  // other partitions than the loops': no part of their group
    r.dma(of_partitions(r.memory(out, 512, 512), half, 64), of_partitions(r.part(seen, 512), half, 64));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanRowLoops, RowsThatAreReadFirstCarryOver) {
  // The tile's first user in each round reads what the last round left in this row.
  Rows r;
  const uint32_t x = r.input(512 * 3), out = r.output(512), loaded = r.rows(512), kept = r.rows(512), sum = r.rows(512);
  r.set(r.part(kept, 512), 1);
  r.loop(3, kSequential);
  r.loop(4, kSequential);
  r.dma(r.part(loaded, 512), r.memory(x, 512, 512 * 3, 0, {512}));
  r.sum(r.part(sum, 512), r.part(kept, 512), r.part(loaded, 512));
  r.scale(r.part(kept, 512), r.part(sum, 512), 0.75);
  r.end();
  r.end();
  r.dma(r.memory(out, 512, 512), r.part(sum, 512));
  expect_interpreters_bits(r.done());
}

// A temporary in memory that is written in front of a load and, `apart` elements further on, behind it.
std::shared_ptr<const isa::Program> two_temporaries(uint32_t apart) {
  Rows r;
  const uint32_t x = r.input(64 * 3), out = r.output(64 * 3), memory = r.tensor(isa::TensorRole::scratch, f, 128 * 64 * 4);
  const uint32_t a = r.rows(64), b = r.rows(64), loaded = r.rows(64), c = r.rows(64);
  r.loop(3, kSequential);
  r.dma(r.part(a, 64), r.memory(x, 64, 192, 0, {64}));
  r.scale(r.part(a, 64), r.part(a, 64), 2);
  r.dma(r.memory(memory, 64, 64), r.part(a, 64));
  r.dma(r.part(loaded, 64), r.memory(memory, 64, 64));
  r.scale(r.part(b, 64), r.part(a, 64), 3);
  r.dma(r.memory(memory, 64, 64, apart), r.part(b, 64));
  r.sum(r.part(c, 64), r.part(loaded, 64), r.part(b, 64));
  r.dma(r.memory(out, 64, 192, 0, {64}), r.part(c, 64));
  r.end();
  return r.done();
}
TEST(PlanForwarding, TellsTemporariesOfOneTensorApart) {
  for (uint32_t apart : {128u * 64, 128u * 64 - 1, 64u, 1u, 0u}) {
    auto program = two_temporaries(apart);
    Bytes initial = random_buffers(*program);
    expect_interpreters_bits(program, initial);
  }
}

// A stored tile that is read again behind its store, with a second store to `to` in between; -1: none.
std::shared_ptr<const isa::Program> read_behind_store(int32_t to, uint32_t row) {
  Rows r;
  const uint32_t x = r.input(64 * 3), out = r.output(64 * 3 * 2), out2 = r.output(64 * 3);
  const uint32_t loaded = r.rows(64), kept = r.rows(64), other = r.rows(64), result = r.rows(64);
  r.loop(3, kSequential);
  r.dma(r.part(loaded, 64), r.memory(x, 64, 192, 0, {64}));
  r.scale(r.part(kept, 64), r.part(loaded, 64), 2);
  r.scale(r.part(other, 64), r.part(loaded, 64), 7);
  r.dma(r.memory(out, 64, row, 0, {128 * 64}), r.part(kept, 64));
  if (to >= 0) r.dma(r.memory(out, 64, 64, static_cast<uint32_t>(to), {128 * 64}), r.part(other, 64));
  r.sum(r.part(result, 64), r.part(kept, 64), r.part(other, 64));
  r.dma(r.memory(out2, 64, 192, 0, {64}), r.part(result, 64));
  r.end();
  return r.done();
}
TEST(PlanForwarding, AStoredTileMayBeReadBehindItsStore) {
  expect_interpreters_bits(read_behind_store(-1, 64));
  expect_interpreters_bits(read_behind_store(3 * 128 * 64, 64));
}
TEST(PlanForwarding, ATileOutlivesWhatOverwritesItsCopy) {
  expect_interpreters_bits(read_behind_store(0, 64));
  expect_interpreters_bits(read_behind_store(63, 64));
  expect_interpreters_bits(read_behind_store(-1, 63));  // rows that lie over each other
}

TEST(PlanForwarding, AStoredTileMayServeTheNextIteration) {
  Rows r;
  const uint32_t x = r.input(64 * 4), out = r.output(64 * 4), out2 = r.output(64);
  const uint32_t loaded = r.rows(64), kept = r.rows(64), before = r.rows(64);
  r.loop(4, kSequential);
  r.dma(r.part(loaded, 64), r.memory(x, 64, 256, 0, {64}));
  r.scale(r.part(before, 64), r.part(kept, 64), 3);
  r.scale(r.part(kept, 64), r.part(loaded, 64), 2);
  r.dma(r.memory(out, 64, 256, 0, {64}), r.part(kept, 64));
  r.dma(r.memory(out2, 64, 64), r.part(before, 64));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanForwarding, AStoredTileMayServeTheNextIterationBetweenItsWriters) {
  Rows r;
  const uint32_t x = r.input(64 * 4), out = r.output(128 * 4), out2 = r.output(64);
  const uint32_t loaded = r.rows(256), kept = r.rows(128), before = r.rows(64);
  r.dma(r.part(loaded, 256), r.memory(x, 256, 256));
  r.loop(4, kSequential);
  r.scale(r.part(kept, 64), r.part(loaded, 64, 0, {64}), 2);
  r.copy(r.part(before, 64), r.part(kept, 64, 64));
  r.scale(r.part(kept, 64, 64), r.part(loaded, 64, 0, {64}), 3);
  r.dma(r.memory(out, 128, 512, 0, {128}), r.part(kept, 128));
  r.dma(r.memory(out2, 64, 64), r.part(before, 64));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanForwarding, ATileMayBeFilledOverSeveralIterations) {
  Rows r;
  const uint32_t x = r.input(64 * 4), out = r.output(256 * 4), loaded = r.rows(256), kept = r.rows(256);
  r.dma(r.part(loaded, 256), r.memory(x, 256, 256));
  r.loop(4, kSequential);
  r.scale(r.part(kept, 64, 0, {64}), r.part(loaded, 64, 0, {64}), 2);
  r.dma(r.memory(out, 256, 1024, 0, {256}), r.part(kept, 256));
  r.end();
  r.loop(3, kSequential);  // over the copies that are not complete
  r.dma(r.memory(out, 256, 1024, 0, {256}), r.part(loaded, 256));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanForwarding, SumsOverTheStoresOwnLoopStayInTheTile) {
  Rows r;
  const uint32_t a = r.input(128 * 3), b = r.input(64 * 3), out = r.output(64 * 3);
  const uint32_t stationary = r.rows(128), moving = r.rows(64), result = r.rows(64), psum = r.psum(64);
  r.loop(3, kSequential);
  r.dma(r.part(stationary, 128), r.memory(a, 128, 384, 0, {128}));
  r.dma(r.part(moving, 64), r.memory(b, 64, 192, 0, {64}));
  r.matmul(r.part(psum, 64), r.part(stationary, 128), r.part(moving, 64)).accumulate_levels = 1;
  r.copy(r.part(result, 64), r.part(psum, 64));
  r.dma(r.memory(out, 64, 192, 0, {64}), r.part(result, 64));
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanForwarding, AMatmulMayReplaceItsOwnMovingOperand) {
  // The second step of the sum loads what an early write of the first would have replaced.
  Rows r;
  const uint32_t a = r.input(256), b = r.input(2 * 64), out = r.tensor(isa::TensorRole::output, f, 128 * 64, 1);
  const uint32_t stationary = r.rows(128), moving = r.rows(64), result = r.rows(64), psum = r.psum(64);
  r.loop(2, kSequential);
  r.dma(r.part(stationary, 128), r.memory(a, 128, 256, 0, {128}));
  r.dma(r.part(moving, 64), r.memory(b, 64, 64, 128 * 64, {-128 * 64}));
  r.matmul(r.part(psum, 64), r.part(stationary, 128), r.part(moving, 64)).accumulate_levels = 1;
  r.end();
  r.copy(r.part(result, 64), r.part(psum, 64));
  r.dma(r.memory(out, 64, 64), r.part(result, 64));
  expect_interpreters_bits(r.done());
}

TEST(PlanForwarding, ViewsOfAStoredTileSeeTheirOwnElements) {
  Rows r;
  const uint32_t x = r.input(128), out = r.output(128), row = r.output(1), even = r.output(32);
  const uint32_t loaded = r.rows(128), kept = r.rows(128), turned = r.psum(1), column = r.rows(1), every_second = r.rows(64);
  r.dma(r.part(loaded, 128), r.memory(x, 128, 128));
  r.scale(r.part(kept, 128), r.part(loaded, 128), 2);
  r.add(isa::Opcode::nc_transpose, isa::Engine::tensor, r.part(turned, 1), r.on(kept, f, 1, {{128, 4}}));
  r.copy(r.part(column, 1), r.part(turned, 1));
  r.copy(r.part(every_second, 64), r.on(kept, f, 128, {{64, 8}}));
  r.dma(r.memory(out, 128, 128), r.part(kept, 128));
  r.dma(r.memory(row, 1, 1), r.part(column, 1));
  r.dma(r.memory(even, 32, 32), r.part(every_second, 32, 32));
  expect_interpreters_bits(r.done());
}

TEST(PlanLoops, NestedAffineLoopsShareOneSetOfPieces) {
  for (const auto& [outer, inner] : {std::pair{4u, 5u}, {4u, 1u}, {2u, 7u}, {8u, 3u}}) {
    for (const bool perfect : {true, false}) {
      Rows r;
      const int64_t columns = 256, all = columns * outer * inner;
      const uint32_t x = r.input(static_cast<uint64_t>(all)), out = r.output(static_cast<uint64_t>(all));
      const uint32_t loaded = r.rows(256), result = r.rows(256), factor = r.rows(256);
      const auto at = [&](uint32_t tensor) {
        return r.memory(tensor, 256, static_cast<uint32_t>(all), 0, {columns * inner, columns});
      };
      r.set(r.part(factor, 256), 3);
      r.loop(outer, kAffine);
      if (!perfect) {
        isa::Access iota = r.part(factor, 256);
        isa::Instruction& i = r.add(isa::Opcode::iota, isa::Engine::gpsimd, iota);
        i.pattern.partition_step = 3;
        i.pattern.step[0] = 1;
        i.pattern.loop_step[0] = 1000;
      }
      r.loop(inner, kAffine);
      r.dma(r.part(loaded, 256), at(x));
      r.add(isa::Opcode::activation, isa::Engine::scalar, r.part(result, 256), r.part(loaded, 256)).func = isa::ActFn::gelu;
      r.combine(isa::AluOp::multiply, r.part(result, 256), r.part(result, 256), r.part(factor, 256));
      r.dma(at(out), r.part(result, 256));
      r.end();
      r.end();
      expect_interpreters_bits(r.done());
    }
  }
}

TEST(PlanLoops, AffineLoopsMayLeaveATileToTheirNextRun) {
  Rows r;
  const uint32_t x = r.input(512 * 4), out = r.output(512 * 4), loaded = r.rows(512), total = r.rows(512 * 4);
  r.set(r.part(total, 2048), 1);
  r.loop(5, kSequential);
  r.loop(4, kAffine);
  r.dma(r.part(loaded, 512), r.memory(x, 512, 2048, 0, {0, 512}));
  r.sum(r.part(total, 512, 0, {0, 512}), r.part(total, 512, 0, {0, 512}), r.part(loaded, 512));
  r.dma(r.memory(out, 512, 2048, 0, {0, 512}), r.part(total, 512, 0, {0, 512}));
  r.end();
  r.end();
  expect_interpreters_bits(r.done());
}

TEST(PlanReductions, NeighbouringResultsHaveTheInterpretersBits) {
  for (isa::AluOp op : {isa::AluOp::add, isa::AluOp::multiply, isa::AluOp::maximum, isa::AluOp::minimum}) {
    for (uint32_t results : {15u, 16u, 17u, 256u, 259u}) {
      for (uint32_t reduced : {1u, 15u, 16u, 37u}) {
        Rows r;
        const uint32_t x = r.input(uint64_t{results} * reduced), out = r.output(results);
        const uint32_t loaded = r.rows(results * reduced), result = r.rows(results);
        r.dma(r.part(loaded, results * reduced), r.memory(x, results * reduced, results * reduced));
        r.add(isa::Opcode::tensor_reduce, isa::Engine::vector, r.part(result, results),
              r.on(loaded, f, 128, {{results, 4}, {reduced, results * 4}}))
            .op0 = op;
        r.dma(r.memory(out, results, results), r.part(result, results));
        expect_interpreters_bits(r.done());
      }
    }
  }
}
TEST(PlanReductions, NeighboursOfHigherRankHaveTheInterpretersBits) {
  // [3, 5, 4, 20] with the 5 and the 4 reduced, the 5 backwards; bf16 results two elements apart.
  Rows r;
  const uint32_t x = r.input(1200), out = r.tensor(isa::TensorRole::output, DType::bf16, 128 * 120);
  const uint32_t loaded = r.rows(1200), result = r.tile(128, 240);
  r.set(r.part(result, 60), 0);
  r.dma(r.part(loaded, 1200), r.memory(x, 1200, 1200));
  isa::Instruction& reduce =
      r.add(isa::Opcode::tensor_reduce, isa::Engine::vector, r.on(result, DType::bf16, 128, {{3, 80}, {20, 4}}),
            r.on(loaded, f, 128, {{3, 1600}, {20, 4}, {5, -320}, {4, 80}}, 4 * 320));
  reduce.op0 = isa::AluOp::add;
  reduce.reduce_dims = 2;
  r.dma(r.hbm(out, DType::bf16, 0, 128, 240, {{120, 2}}), r.on(result, DType::bf16, 128, {{120, 2}}));
  expect_interpreters_bits(r.done());
}

}  // namespace
}  // namespace neuron::emulator::testing
