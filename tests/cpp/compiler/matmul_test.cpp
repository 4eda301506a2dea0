// dot_general regions against ir::evaluate: shapes with tails, transposed, strided and expanded operands, batches, several
// contracted dimensions, every dtype, epilogues; in program order, shuffled, and on the fast plan.
#include <gtest/gtest.h>

#include <array>

#include "claims.h"
#include "compiler/matmul_emitter.h"
#include "compiler/matmul_runner.h"
#include "compiler/plan_memory.h"
#include "compiler/schedule.h"

namespace neuron::compiler {
namespace {

using namespace testing;
using ir::Builder;
using ir::Op;
using ir::Type;
using ir::Value;

int64_t programs_checked = 0;

// Compiles and runs the graph in all ways and compares.
void check(const ir::Graph& graph, std::mt19937_64& rng, double scale = 1.0, const Options& options = {}) {
  ASSERT_TRUE(ir::verify(graph).ok()) << ir::verify(graph).message();
  std::vector<ir::Literal> inputs;
  for (const ir::Node& node : graph.nodes) {
    if (node.op == Op::parameter) inputs.push_back(random_literal(node.types[0], rng));
  }
  auto expected = ir::evaluate(graph, inputs, {});
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  auto actual = run(graph, inputs, Executed::interpreter, 0, 1, options);
  ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n" << ir::print(graph);
  for (size_t i = 0; i < expected->size(); ++i) {
    const std::string text = difference((*expected)[i], (*actual)[i], scale);
    ASSERT_EQ(text, "") << "output " << i << "\n" << ir::print(graph);
  }
  auto shuffled = run(graph, inputs, Executed::shuffled, rng(), 1, options);
  ASSERT_TRUE(shuffled.ok()) << shuffled.status().message();
  ASSERT_TRUE(same_bits(*actual, *shuffled)) << "shuffled\n" << ir::print(graph);
  auto plan = run(graph, inputs, Executed::plan, 0, 1 + static_cast<int>(rng() % 3), options);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_TRUE(same_bits(*actual, *plan)) << "plan\n" << ir::print(graph);
  ++programs_checked;
}

Value parameter(Builder& b, int32_t index, const Type& type, std::mt19937_64& rng, bool dense = false) {
  return b.parameter(type, index, dense ? ir::contiguous_strides(type.shape) : random_strides(type.shape, rng));
}

ir::DotAttrs plain(DType result) {
  ir::DotAttrs attrs;
  attrs.lhs_contract = {1};
  attrs.rhs_contract = {0};
  attrs.result_dtype = result;
  return attrs;
}

ir::Graph mm(int64_t m, int64_t k, int64_t n, DType dtype, std::mt19937_64& rng, bool dense = false) {
  ir::Graph graph;
  Builder b(graph);
  const Value x = parameter(b, 0, {dtype, {m, k}}, rng, dense);
  const Value y = parameter(b, 1, {dtype, {k, n}}, rng, dense);
  const Value z = b.dot_general(x, y, plain(dtype));
  b.output(z, dense ? ir::contiguous_strides({m, n}) : random_strides({m, n}, rng));
  return graph;
}

TEST(Matmul, EveryTailOfEveryTileDimension) {
  std::mt19937_64 rng(1);
  const int64_t sizes[][3] = {{1, 1, 1},       {1, 7, 1},     {3, 5, 2},     {128, 128, 512}, {129, 130, 513},
                              {127, 127, 511}, {1, 300, 700}, {300, 200, 1}, {256, 256, 520}, {130, 1, 130},
                              {2, 129, 1},     {64, 640, 96}, {600, 40, 9}};
  for (const auto& s : sizes) check(mm(s[0], s[1], s[2], DType::f32, rng, true), rng);
}

TEST(Matmul, OperandsAndResultMayHaveAnyStrides) {
  std::mt19937_64 rng(2);
  for (int i = 0; i < 12; ++i) {
    check(mm(1 + rng() % 200, 1 + rng() % 200, 1 + rng() % 300, DType::f32, rng), rng);
  }
}

TEST(Matmul, EveryDtypeHasItsOwnArithmetic) {
  std::mt19937_64 rng(3);
  for (DType dtype : {DType::bf16, DType::f16, DType::f8e4m3fn, DType::f8e5m2, DType::f64, DType::i64, DType::i32, DType::u8,
                      DType::i8, DType::c64, DType::c128}) {
    SCOPED_TRACE(name_of(dtype));
    check(mm(37, 70, 45, dtype, rng, true), rng, 4.0);
    check(mm(5, 33, 140, dtype, rng), rng, 4.0);
  }
}

TEST(Matmul, BatchesAndExpandedOperands) {
  std::mt19937_64 rng(4);
  for (const bool expanded : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      ir::Graph graph;
      Builder b(graph);
      const Value x = parameter(b, 0, {dtype, {2, 3, 33, 20}}, rng);
      Value y = parameter(b, 1, expanded ? Type{dtype, {1, 3, 20, 18}} : Type{dtype, {2, 3, 20, 18}}, rng);
      if (expanded) y = b.broadcast_to(y, {2, 3, 20, 18});
      ir::DotAttrs attrs;
      attrs.lhs_batch = attrs.rhs_batch = {0, 1};
      attrs.lhs_contract = {3};
      attrs.rhs_contract = {2};
      attrs.result_dtype = dtype;
      b.output(b.dot_general(x, y, attrs), random_strides({2, 3, 33, 18}, rng));
      check(graph, rng, 4.0);
    }
  }
}

TEST(Matmul, SeveralContractedDimensionsAndFreeDimensions) {
  std::mt19937_64 rng(5);
  for (int i = 0; i < 6; ++i) {
    ir::Graph graph;
    Builder b(graph);
    const Value x = parameter(b, 0, {DType::f32, {3, 5, 4, 7}}, rng, i == 0);
    const Value y = parameter(b, 1, {DType::f32, {7, 6, 5, 9}}, rng, i == 0);
    ir::DotAttrs attrs;
    attrs.lhs_contract = {1, 3};
    attrs.rhs_contract = {2, 0};
    b.output(b.dot_general(x, y, attrs), random_strides({3, 4, 6, 9}, rng));
    check(graph, rng);
  }
}

TEST(Matmul, ViewsOfOperandsAreAccesses) {
  std::mt19937_64 rng(6);
  ir::Graph graph;
  Builder b(graph);
  const Value x = parameter(b, 0, {DType::f32, {80, 60}}, rng, true);
  const Value y = parameter(b, 1, {DType::f32, {100, 50}}, rng, true);
  const Value left = b.slice(x, {3, 5}, {70, 45}, {2, 1});
  const Value right = b.reverse(b.transpose(b.slice(y, {10, 0}, {90, 40}), {1, 0}), {1});
  b.output(b.dot_general(left, right, plain(DType::f32)), ir::contiguous_strides({34, 80}));
  check(graph, rng);
}

// x [m, i, k] . y [i, k, n] over i and k with a small SBUF budget, straight from the emitter.
isa::Program blocked_program(int64_t m, int64_t i, int64_t k, int64_t n, DType dtype, bool separate_k, int64_t budget) {
  ProgramBuilder b(*isa::find_target("trn2"));
  const int64_t gap = separate_k ? 3 : 0;  // keeps i and k from merging
  const auto tensor = [&](const char* name, isa::TensorRole role, int64_t elements) {
    isa::Tensor t;
    t.name = name;
    t.role = role;
    t.dtype = dtype;
    t.bytes = static_cast<uint64_t>(elements) * size_of(dtype);
    return b.tensor(t);
  };
  MatmulProblem p;
  p.space.sides = {MatmulSpace::Side::lhs, MatmulSpace::Side::rhs, MatmulSpace::Side::out};
  const int64_t x_i = k + gap, x_m = i * x_i;
  p.space.dims = {{DimRole::m, m, {x_m, 0, n}},
                  {DimRole::n, n, {0, 1, 1}},
                  {DimRole::k, i, {x_i, k * n, 0}},
                  {DimRole::k, k, {1, n, 0}}};
  p.lhs.tensor = tensor("input0", isa::TensorRole::input, m * x_m - gap);
  p.rhs.tensor = tensor("input1", isa::TensorRole::input, i * k * n);
  const uint32_t out = tensor("output0", isa::TensorRole::output, m * n);
  p.lhs.dtype = p.lhs.tile_dtype = p.rhs.dtype = p.rhs.tile_dtype = dtype;
  p.rhs.access = kRhs;
  p.compute = p.accumulator = isa::compute_type_for(dtype);
  p.sbuf_budget_bytes = budget;
  collapse(p.space);
  p.finish = [&](ProgramBuilder& builder, const MatmulBlock& block, const isa::Access& accumulator) -> Status {
    const isa::Access tile = builder.dense(
        builder.tile("result", isa::Space::sbuf, block.partitions, block.free * static_cast<int64_t>(size_of(dtype)), 2),
        dtype, block.partitions, block.free);
    builder.tensor_copy(p.compute == DType::f32 ? isa::Engine::vector : isa::Engine::gpsimd, p.compute, tile, accumulator);
    builder.dma_store(block_access(builder, p.space, block, out, dtype, 0, kOut), tile);
    return {};
  };
  const ProgramBuilder::Mark mark = b.mark();
  EXPECT_TRUE(emit_matmul(b, p).ok());
  const Status placed = place_tiles(b, mark);
  EXPECT_TRUE(placed.ok()) << placed.message();
  const ArenaPlan arena = place_scratch(b.program());
  add_semaphores(b, arena);
  merge_scratch(b.program(), arena);
  return std::move(b.program());
}

TEST(Matmul, MoreContractionThanSbufIsAccumulatedInBlocks) {
  std::mt19937_64 rng(7);
  for (const bool separate_k : {false, true}) {
    for (const int64_t budget : {600, 1500, 4000}) {
      for (const auto& [m, i, k, n] : std::vector<std::array<int64_t, 4>>{
               {140, 1, 700, 40}, {300, 3, 260, 24}, {128, 2, 128, 64}, {1100, 2, 200, 7}, {257, 1, 513, 70}}) {
        for (const DType dtype : {DType::f32, DType::f64}) {
          ir::Graph graph;
          Builder b(graph);
          const int64_t gap = separate_k ? 3 : 0;
          const Value x = b.parameter({dtype, {m, i, k}}, 0, {i * (k + gap), k + gap, 1});
          const Value y = b.parameter({dtype, {i, k, n}}, 1, {k * n, n, 1});
          ir::DotAttrs attrs;
          attrs.lhs_contract = {1, 2};
          attrs.rhs_contract = {0, 1};
          attrs.result_dtype = dtype;
          b.output(b.dot_general(x, y, attrs), {n, 1});
          const std::vector<ir::Literal> inputs = {random_literal(graph.type(x), rng), random_literal(graph.type(y), rng)};
          const auto expected = ir::evaluate(graph, inputs, {});
          ASSERT_TRUE(expected.ok());
          const isa::Program program = blocked_program(m, i, k, n, dtype, separate_k, budget);
          for (const Executed how : {Executed::interpreter, Executed::shuffled, Executed::plan}) {
            const auto actual = execute(graph, program, inputs, how, rng(), 2);
            ASSERT_TRUE(actual.ok()) << actual.status().message();
            ASSERT_EQ(difference((*expected)[0], (*actual)[0], 4.0), "") << m << " " << i << " " << k << " " << n;
          }
          ++programs_checked;
        }
      }
    }
  }
}

TEST(Matmul, EpilogueRunsOnTheResultOnChip) {
  std::mt19937_64 rng(8);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool column_bias : {false, true}) {
      ir::Graph graph;
      Builder b(graph);
      const std::vector<int64_t> shape = {150, 140};
      const Value x = parameter(b, 0, {dtype, {150, 65}}, rng, true);
      const Value w = parameter(b, 1, {dtype, {140, 65}}, rng, true);
      const Value bias = parameter(b, 2, {dtype, {column_bias ? 150 : 140}}, rng, true);
      const Value residual = parameter(b, 3, {dtype, shape}, rng);
      const Value product = b.dot_general(x, b.transpose(w, {1, 0}), plain(dtype));
      const Value biased = b.binary(Op::add, product, b.broadcast_in_dim(bias, shape, {column_bias ? 0 : 1}));
      const Value activated = b.unary(Op::gelu, biased);
      b.output(b.binary(Op::add, activated, residual), ir::contiguous_strides(shape));
      b.output(biased, random_strides(shape, rng));
      check(graph, rng, 2.0);
      if (dtype != DType::f32) {
        Options rounding;
        rounding.emulate_precision_casts = true;
        check(graph, rng, 2.0, rounding);
      }
    }
  }
}

TEST(Matmul, CastsAreFusedIntoTheOperands) {
  std::mt19937_64 rng(9);
  for (const bool dense : {true, false}) {
    ir::Graph graph;
    Builder b(graph);
    const Value x = b.convert(parameter(b, 0, {DType::f32, {70, 150}}, rng, dense), DType::bf16);
    const Value w = b.convert(parameter(b, 1, {DType::f32, {130, 150}}, rng, dense), DType::bf16);
    b.output(b.dot_general(x, b.transpose(w, {1, 0}), plain(DType::bf16)), ir::contiguous_strides({70, 130}));
    check(graph, rng, 2.0);
  }
}

TEST(Matmul, PrologueRunsOnTheOperandsOnChip) {
  std::mt19937_64 rng(19);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool dense : {true, false}) {
      for (const auto& [m, k, n] :
           {std::array<int64_t, 3>{70, 150, 130}, {1, 300, 257}, {300, 64, 1}, {257, 129, 600}, {5, 1, 40}}) {
        ir::Graph graph;
        Builder b(graph);
        // Scaled by rows and by columns, masked, and (int8) dequantised.
        const Value x = parameter(b, 0, {dtype, {m, k}}, rng, dense),
                    keep = parameter(b, 1, {DType::boolean, {m, k}}, rng, dense);
        const Value w = parameter(b, 2, {DType::i8, {n, k}}, rng, dense), scale = parameter(b, 3, {dtype, {n}}, rng, dense);
        const Value zero = b.splat({dtype, {m, k}}, 0);
        const Value masked = b.select(keep, x, zero);
        const Value weights = b.binary(Op::multiply, b.convert(w, dtype), b.broadcast_in_dim(scale, {n, k}, {0}));
        b.output(b.dot_general(masked, b.transpose(weights, {1, 0}), plain(dtype)), ir::contiguous_strides({m, n}));
        check(graph, rng, 2.0);
        Options rounding;
        rounding.emulate_precision_casts = true;
        check(graph, rng, 2.0, rounding);
      }
    }
  }
}

TEST(Matmul, PrologueOfABatchedProduct) {
  std::mt19937_64 rng(20);
  for (const bool shared : {false, true}) {  // one weight matrix for all of the batch: its index becomes a row index
    ir::Graph graph;
    Builder b(graph);
    const Value x = parameter(b, 0, {DType::f32, {3, 40, 50}}, rng), bias = parameter(b, 1, {DType::f32, {50}}, rng);
    const Value w = parameter(b, 2, {DType::f32, {shared ? 1 : 3, 50, 30}}, rng),
                gain = parameter(b, 3, {DType::f32, {30}}, rng);
    const Value shifted = b.binary(Op::add, x, b.broadcast_in_dim(bias, {3, 40, 50}, {2}));
    const Value scaled = b.binary(Op::multiply, w, b.broadcast_in_dim(gain, {shared ? 1 : 3, 50, 30}, {2}));
    const Value all = shared ? b.broadcast_in_dim(b.reshape(scaled, {50, 30}), {3, 50, 30}, {1, 2}) : scaled;
    ir::DotAttrs attrs;
    attrs.lhs_batch = attrs.rhs_batch = {0};
    attrs.lhs_contract = {2};
    attrs.rhs_contract = {1};
    attrs.result_dtype = DType::f32;
    b.output(b.dot_general(shifted, all, attrs), ir::contiguous_strides({3, 40, 30}));
    check(graph, rng, 2.0);
  }
}

TEST(Matmul, LinearOnBatchedInputIsOneProduct) {
  std::mt19937_64 rng(10);
  ir::Graph graph;
  Builder b(graph);
  const Value x = parameter(b, 0, {DType::f32, {4, 40, 64}}, rng, true);
  const Value w = parameter(b, 1, {DType::f32, {96, 64}}, rng, true);
  ir::DotAttrs attrs;
  attrs.lhs_contract = {2};
  attrs.rhs_contract = {1};
  b.output(b.dot_general(x, w, attrs), ir::contiguous_strides({4, 40, 96}));
  check(graph, rng);
}

TEST(MatmulSpace, DenseBatchMergesIntoRowsWhenTheRightOperandHasNone) {
  MatmulSpace space;
  space.sides = {MatmulSpace::Side::lhs, MatmulSpace::Side::rhs, MatmulSpace::Side::out};
  space.dims = {{DimRole::batch, 4, {2560, 0, 3840}},
                {DimRole::m, 40, {64, 0, 96}},
                {DimRole::n, 96, {0, 64, 1}},
                {DimRole::k, 64, {1, 1, 0}}};
  collapse(space);
  EXPECT_EQ(to_string(space), "m160(64,0,96) n96(0,64,1) k64(1,1,0)");
}

TEST(MatmulTiling, MovingBlockNeverExceedsItsBudgetAndAccumulatorsFitPsum) {
  std::mt19937_64 rng(11);
  for (int i = 0; i < 2000; ++i) {
    MatmulSizes sizes;
    sizes.rows = 1 + rng() % 5000;
    sizes.cols = 1 + rng() % 5000;
    sizes.k = 1 + rng() % 60000;
    sizes.inner_k = 1 + rng() % 4;
    const int64_t budget = 96 * 1024;
    const MatmulTiling t = choose_tiling(sizes, budget);
    const int64_t resident = (t.inner_k_resident ? sizes.inner_k : 1) * t.k_tiles * t.moving_buffers;
    EXPECT_LE(resident * t.cols * sizes.moving_bytes, budget);
    EXPECT_LE(t.row_group * psum_pitch(t.cols * sizes.result_bytes), kPsumBytes);
    EXPECT_LE(t.cols, kTileCols);
  }
}

TEST(MatmulRunner, DifferenceSeesOneWrongElementOfEveryDtype) {
  std::mt19937_64 rng(12);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::c64, DType::boolean}) {
    const ir::Literal right = random_literal({dtype, {5, 7}}, rng);
    EXPECT_EQ(difference(right, right), "");
    ir::Literal wrong = right;
    wrong.data[17 * size_of(dtype) + size_of(dtype) - 1] ^= 0x41;
    EXPECT_NE(difference(right, wrong), "") << name_of(dtype);
  }
}

TEST(Matmul, CountsItsPrograms) {
  neuron::testing::record_claim("compiler_matmul", "matmul programs equal to ir::evaluate, shuffled and on the plan",
                                programs_checked, 100);
}

}  // namespace
}  // namespace neuron::compiler
