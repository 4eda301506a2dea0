// One claim per pass: canonicalize, fuse, place_outputs, tile, plan memory, schedule.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/canonicalize.h"
#include "compiler/compiler.h"
#include "compiler/fuse.h"
#include "compiler/loop_tiling.h"
#include "compiler/plan_memory.h"
#include "ir/builder.h"
#include "isa/validator.h"

namespace neuron::compiler {
namespace {

using ir::Op;
using ir::Value;

ir::Type f32(std::vector<int64_t> shape) { return {DType::f32, std::move(shape)}; }

size_t lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

struct Maker {
  ir::Graph graph;
  ir::Builder b{graph};
  int next = 0;
  Value in(ir::Type t) {
    auto strides = ir::contiguous_strides(t.shape);
    return b.parameter(std::move(t), next++, std::move(strides));
  }
  Value product(Value x, Value w) {
    ir::DotAttrs d;
    d.lhs_contract = {1};
    d.rhs_contract = {0};
    return b.dot_general(x, w, d);
  }
  void out(Value v, int32_t alias = -1) { b.output(v, ir::contiguous_strides(b.type(v).shape), alias); }
  size_t regions(const Options& options = {}) { return lines(*describe_regions(graph, options)); }
};

TEST(Canonicalize, ChainsOfViewsAndConvertsFold) {
  Maker m;
  Value x = m.in(f32({4, 6}));
  Value y = m.b.reshape(m.b.reshape(m.b.transpose(m.b.transpose(x, {1, 0}), {1, 0}), {24}), {4, 6});
  m.out(m.b.unary(Op::negate, y));
  canonicalize(m.graph, {});
  EXPECT_EQ(m.graph.nodes.size(), 2u) << ir::print(m.graph);
}

TEST(Canonicalize, EqualNodesMergeAndConstantsFold) {
  Maker m;
  Value x = m.in(f32({8}));
  Value c = m.b.binary(Op::add, m.b.splat(f32({8}), 1.0), m.b.splat(f32({8}), 2.0));
  m.out(m.b.binary(Op::add, m.b.binary(Op::multiply, x, c), m.b.binary(Op::multiply, x, m.b.splat(f32({8}), 3.0))));
  canonicalize(m.graph, {});
  EXPECT_EQ(m.graph.nodes.size(), 4u) << ir::print(m.graph);  // x, 3, x*3, sum
}

TEST(Canonicalize, EmptyReductionsAreIdentities) {
  Maker m;
  m.out(m.b.reduce(ir::Reducer::maximum, m.in(f32({3, 0})), {1}));
  canonicalize(m.graph, {});
  EXPECT_EQ(m.graph.nodes.back().op, Op::constant);
}

TEST(Canonicalize, SumOfDisjointPadsIsAConcatenation) {
  Maker m;
  Value x = m.in(f32({2, 3})), y = m.in(f32({4, 3})), zero = m.b.splat(f32({}), 0);
  Value a = m.b.pad(x, zero, {1, 0}, {6, 0}), c = m.b.pad(y, zero, {5, 0}, {0, 0});
  m.out(m.b.binary(Op::add, a, c));
  canonicalize(m.graph, {});
  EXPECT_EQ(m.graph.nodes.back().op, Op::concatenate) << ir::print(m.graph);
  EXPECT_EQ(m.graph.nodes.back().operands.size(), 4u);
}

TEST(Fuse, IndependentProducersOfOneSumAreOneRegion) {
  Maker m;
  Value a = m.in(f32({100})), b = m.in(f32({100})), c = m.in(f32({100})), d = m.in(f32({100}));
  m.out(m.b.binary(Op::add, m.b.binary(Op::multiply, a, b), m.b.binary(Op::multiply, c, d)));
  EXPECT_EQ(m.regions(), 1u);
}

TEST(Fuse, ValueNeededByTwoOutputsIsWrittenTwiceFromOneRegion) {
  Maker m;
  Value e = m.b.unary(Op::exponential, m.in(f32({100})));
  m.out(e);
  m.out(m.b.unary(Op::negate, e));
  EXPECT_EQ(m.regions(), 1u);
}

TEST(Fuse, ReductionTakesItsProducersIn) {
  Maker m;
  Value a = m.in(f32({64, 300})), b = m.in(f32({64, 300}));
  m.out(m.b.reduce(ir::Reducer::add, m.b.binary(Op::multiply, a, b), {0}));
  EXPECT_EQ(m.regions(), 1u);
}

TEST(Fuse, EpilogueJoinsTheProduct) {
  Maker m;
  Value x = m.in(f32({64, 32})), w = m.in(f32({48, 32})), bias = m.in(f32({48}));
  Value y = m.product(x, m.b.transpose(w, {1, 0}));
  m.out(m.b.unary(Op::gelu, m.b.binary(Op::add, y, m.b.broadcast_in_dim(bias, {64, 48}, {1}))));
  EXPECT_EQ(m.regions(), 1u);
}

TEST(Fuse, PrologueJoinsTheProduct) {
  // Dequantised weights: the scaled copy is never in memory.
  Maker m;
  Value x = m.in(f32({64, 32})), w = m.in({DType::i8, {48, 32}}), scale = m.in(f32({48}));
  Value weights = m.b.binary(Op::multiply, m.b.convert(w, DType::f32), m.b.broadcast_in_dim(scale, {48, 32}, {0}));
  m.out(m.product(x, m.b.transpose(weights, {1, 0})));
  Options off;
  off.disabled_passes = {"prologue"};
  EXPECT_EQ(m.regions(), 1u);
  EXPECT_EQ(m.regions(off), 2u);
}

TEST(Fuse, AProducerWithARegionOfItsOwnIsNoPrologue) {
  // tanh joins the first product as its epilogue: computed once, stored once.
  Maker m;
  Value x = m.in(f32({64, 32})), w = m.in(f32({32, 48})), v = m.in(f32({48, 16}));
  Value h = m.product(x, w);
  m.out(m.product(m.b.unary(Op::tanh, h), v));
  EXPECT_EQ(m.regions(), 2u);
  Options off;
  off.disabled_passes = {"prologue"};
  EXPECT_EQ(m.regions(off), 2u);
}

TEST(Fuse, GatherOfManyScatteredWindowsReadsADenseCopy) {
  const auto regions = [](int64_t rows) {
    Maker m;
    Value x = m.in(f32({64, 16})), index = m.in({DType::i64, {rows}});
    ir::GatherAttrs g;
    g.offset_dims = {1};
    g.collapsed_slice_dims = g.start_index_map = {0};
    g.slice_sizes = {1, 64};
    g.index_vector_dim = 1;
    m.out(m.b.gather(m.b.transpose(x, {1, 0}), index, g));
    return m.regions();
  };
  EXPECT_EQ(regions(4), 1u);  // few rows: taken where they lie
  EXPECT_EQ(regions(16), 2u);
}

TEST(Fuse, CanBeSwitchedOff) {
  Maker m;
  Value e = m.b.unary(Op::exponential, m.in(f32({100})));
  m.out(m.b.unary(Op::negate, e));
  Options off;
  off.disabled_passes = {"fuse"};
  EXPECT_EQ(m.regions(), 1u);
  EXPECT_EQ(m.regions(off), 2u);
}

TEST(Fuse, TenThousandNodesInALine) {
  Maker m;
  Value x = m.in(f32({256}));
  for (int i = 0; i < 10000; ++i) x = m.b.unary(i % 2 ? Op::negate : Op::abs, x);
  m.out(x);
  auto program = compile(m.graph);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_TRUE(isa::validate(*program).ok());
}

TEST(PlaceOutputs, InPlaceWhenOnlyTheSameElementIsRead) {
  Maker m;
  Value x = m.in(f32({40, 40})), y = m.in(f32({40, 40}));
  m.out(m.b.binary(Op::add, x, y), 0);
  EXPECT_EQ(m.regions(), 1u);
}

TEST(PlaceOutputs, TransposeOfTheOverwrittenInputGoesThroughScratch) {
  Maker m;
  Value x = m.in(f32({40, 40}));
  m.out(m.b.binary(Op::add, x, m.b.transpose(x, {1, 0})), 0);
  EXPECT_EQ(m.regions(), 2u);
}

// The result goes to an output with permuted strides, and a view of it in that order is read by the next region: one buffer.
TEST(PlaceOutputs, AViewInTheOutputsOrderSharesItsBuffer) {
  for (const bool product : {false, true}) {
    Maker m;
    const Value x = m.in(f32({2, 32, 16}));
    Value y;
    if (product) {
      ir::DotAttrs d;
      d.lhs_batch = d.rhs_batch = {0};
      d.lhs_contract = {2};
      d.rhs_contract = {1};
      y = m.b.dot_general(x, m.in(f32({2, 16, 24})), d);
    } else {
      y = m.b.sort(x, 2, false);
    }
    const int64_t last = m.graph.type(y).shape[2];
    m.b.output(y, {last, 2 * last, 1});  // stored as [32, 2, last]
    const Value turned = m.b.reshape(m.b.transpose(y, {1, 0, 2}), {32, 2 * last});
    m.out(m.product(turned, m.in(f32({2 * last, 8}))));
    auto program = compile(m.graph);
    ASSERT_TRUE(program.ok()) << program.status().message();
    for (const isa::Tensor& t : program->tensors) EXPECT_NE(t.role, isa::TensorRole::scratch);
    EXPECT_EQ(m.regions(), 2u);
  }
}

TEST(Tile, PiecesCoverEveryElementOnce) {
  for (int64_t extent : {1, 5, 128, 129, 1000, 4099})
    for (int64_t chunk : {1, 3, 64})
      for (bool partition : {false, true}) {
        if (chunk > extent) continue;
        std::vector<int> seen(static_cast<size_t>(extent), 0);
        for (const DimPiece& p : pieces(extent, {partition, true, chunk}))
          for (int64_t l = 0; l < p.loops; ++l)
            for (int64_t q = 0; q < p.partitions; ++q)
              for (int64_t i = 0; i < p.chunk; ++i)
                ++seen[static_cast<size_t>(p.start + l * p.loop_step + q * p.partition_step + i)];
        EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; })) << extent << " " << chunk;
      }
}

TEST(Tile, RowsBesidePartitionsAreLong) {
  for (int64_t row : {3000, 4687, 10007}) {
    Maker m;
    const Value x = m.in(f32({200, row})), scale = m.in(f32({200}));
    m.out(m.b.binary(Op::multiply, x, m.b.broadcast_in_dim(scale, {200, row}, {0})));
    auto program = compile(m.graph);
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto longest = std::max_element(
        program->tiles.begin(), program->tiles.end(),
        [](const isa::Tile& a, const isa::Tile& b) { return a.bytes_per_partition < b.bytes_per_partition; });
    ASSERT_NE(longest, program->tiles.end());
    EXPECT_GE(longest->bytes_per_partition, 1000 * sizeof(float)) << row;
  }
}

TEST(PlanMemory, ScratchOfDisjointLifetimesSharesBytes) {
  Maker m;
  Value x = m.in(f32({256, 256}));
  for (int i = 0; i < 8; ++i) x = m.product(x, x);
  m.out(x);
  auto program = compile(m.graph);
  ASSERT_TRUE(program.ok());
  for (const isa::Tensor& t : program->tensors)
    if (t.role == isa::TensorRole::scratch) {
      EXPECT_LE(t.bytes, 2u * 256 * 256 * 4);
    }
}

TEST(PlanMemory, WhatDoesNotFitNamesTheMemoryAndTheBytes) {
  ProgramBuilder b(*isa::find_target("trn2"));
  const ProgramBuilder::Mark mark = b.mark();
  const uint32_t t = b.tile("too big", isa::Space::sbuf, 128, 400000);
  b.memset(isa::Engine::vector, DType::f32, b.dense(t, DType::f32, 128, 1000), ProgramBuilder::immediate(0.0));
  const Status status = place_tiles(b, mark);
  EXPECT_EQ(status.code(), Code::does_not_fit);
  EXPECT_NE(status.message().find("sbuf: 4000"), std::string::npos) << status.message();
}

TEST(Schedule, WaitsNeverAskForMoreThanIsSignalled) {
  Maker m;
  Value x = m.in(f32({1000, 300}));
  Value s = m.b.reduce(ir::Reducer::add, x, {1});
  m.out(m.b.binary(Op::divide, x, m.b.broadcast_in_dim(s, {1000, 300}, {0})));
  auto program = compile(m.graph);
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(isa::validate(*program).ok()) << isa::validate(*program).message();
  EXPECT_GT(program->semaphores, 0);
}

TEST(Tile, DoubleBufferingCanBeSwitchedOff) {
  Maker m;
  Value x = m.in(f32({4096, 1024}));
  m.out(m.b.unary(Op::tanh, x));
  Options off;
  off.disabled_passes = {"schedule_double_buffer"};
  const auto rotating = [](const isa::Program& p) {
    return std::any_of(p.tiles.begin(), p.tiles.end(), [](const isa::Tile& t) { return t.buffers > 1; });
  };
  EXPECT_TRUE(rotating(*compile(m.graph)));
  EXPECT_FALSE(rotating(*compile(m.graph, off)));
}

TEST(Errors, UnsupportedNamesOperationAndType) {
  Maker m;
  ir::Node node;
  node.op = Op::custom_program;
  node.operands = {m.in(f32({4}))};
  node.types = {f32({4})};
  node.attrs = ir::CustomProgramAttrs{};
  m.graph.nodes.push_back(std::move(node));
  m.out({1, 0});
  auto program = compile(m.graph);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), Code::unsupported);
  EXPECT_NE(program.status().message().find("custom_program giving f32[4]"), std::string::npos)
      << program.status().message();
}

}  // namespace
}  // namespace neuron::compiler
