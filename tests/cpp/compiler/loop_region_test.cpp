// Maps and reductions: what the compiler emits gives what ir::evaluate gives, in program order and in shuffled legal orders.
#include <gtest/gtest.h>

#include "compiler/compiler.h"
#include "matmul_runner.h"

namespace neuron::compiler {
namespace {

using ir::Op;
using ir::Value;
using testing::Executed;

std::vector<ir::Literal> random_inputs(const ir::Graph& g, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<ir::Literal> inputs;
  for (const ir::Node& n : g.nodes) {
    const auto* a = std::get_if<ir::ParameterAttrs>(&n.attrs);
    if (n.op != Op::parameter || a->kind != ir::ParameterAttrs::Kind::tensor) continue;
    if (inputs.size() <= static_cast<size_t>(a->index)) inputs.resize(static_cast<size_t>(a->index) + 1);
    inputs[static_cast<size_t>(a->index)] = testing::random_literal(n.types[0], rng);
  }
  return inputs;
}

void check(const ir::Graph& g, double scale = 4.0, const Options& options = {}) {
  ASSERT_TRUE(ir::verify(g).ok()) << ir::verify(g).message() << ir::print(g);
  const std::vector<ir::Literal> inputs = random_inputs(g, 7);
  auto expected = ir::evaluate(g, inputs, {});
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  for (int order = 0; order < 4; ++order) {
    const Executed how = order == 0 ? Executed::interpreter : order == 3 ? Executed::plan : Executed::shuffled;
    auto actual = testing::run(g, inputs, how, static_cast<uint64_t>(order), 1, options);
    ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n" << ir::print(g);
    for (size_t o = 0; o < expected->size(); ++o)
      ASSERT_EQ(testing::difference((*expected)[o], (*actual)[o], scale), "")
          << "output " << o << " order " << order << "\n"
          << ir::print(g) << *describe_regions(g, options);
  }
}

int64_t region_count(const ir::Graph& g) {
  const std::string text = *describe_regions(g);
  return std::count(text.begin(), text.end(), '\n');
}

ir::Type f32(std::vector<int64_t> shape) { return {DType::f32, std::move(shape)}; }

struct Maker {
  ir::Graph graph;
  ir::Builder b{graph};
  int next = 0;
  Value in(ir::Type t) {
    auto strides = ir::contiguous_strides(t.shape);
    return in(std::move(t), std::move(strides));
  }
  Value in(ir::Type t, std::vector<int64_t> strides) { return b.parameter(std::move(t), next++, std::move(strides)); }
  void out(Value v) { b.output(v, ir::contiguous_strides(b.type(v).shape)); }
  Value keep(Value reduced, Value like, std::vector<int64_t> dims) {
    return b.broadcast_in_dim(reduced, b.type(like).shape, std::move(dims));
  }
};

TEST(LoopRegion, AddOfEverySize) {
  for (int64_t n : {1, 2, 7, 64, 129, 1000, 1009, 4096, 100003, 300000, 1 << 19}) {
    Maker m;
    m.out(m.b.binary(Op::add, m.in(f32({n})), m.in(f32({n}))));
    check(m.graph);
  }
}

TEST(LoopRegion, AddOfZeroDimensionalAndEmptyTensors) {
  Maker m;
  m.out(m.b.binary(Op::add, m.in(f32({})), m.in(f32({}))));
  m.out(m.b.binary(Op::add, m.in(f32({0, 3})), m.in(f32({0, 3}))));
  check(m.graph);
}

TEST(LoopRegion, BroadcastOperands) {
  for (std::vector<int64_t> shape :
       {std::vector<int64_t>{5, 7}, {300, 70}, {3, 128, 50}, {2, 3, 4, 500}, {1000, 3}, {7, 3000}}) {
    Maker m;
    const auto rank = static_cast<int64_t>(shape.size());
    Value x = m.in(f32(shape)), row = m.in(f32({shape.back()})), column = m.in(f32({shape[0]})), one = m.in(f32({}));
    Value y = m.b.binary(Op::add, x, m.b.broadcast_in_dim(row, shape, {rank - 1}));
    y = m.b.binary(Op::multiply, y, m.b.broadcast_in_dim(column, shape, {0}));
    y = m.b.binary(Op::subtract, m.b.broadcast_in_dim(one, shape, {}), y);
    m.out(y);
    check(m.graph);
  }
}

TEST(LoopRegion, TransposedSlicedReversedOperandsNeedNoCopy) {
  Maker m;
  Value x = m.in(f32({40, 300})), y = m.in(f32({300, 40}));
  Value s = m.b.binary(Op::add, m.b.transpose(x, {1, 0}), y);
  s = m.b.reverse(m.b.slice(s, {10, 2}, {290, 40}, {3, 2}), {0});
  m.out(m.b.unary(Op::exponential, s));
  check(m.graph);
  EXPECT_EQ(region_count(m.graph), 1) << *describe_regions(m.graph);
}

TEST(LoopRegion, ReshapesSplitTheSpace) {
  Maker m;
  Value x = m.in(f32({6, 4, 10})), y = m.in(f32({10, 24}));
  Value a = m.b.transpose(m.b.reshape(x, {24, 10}), {1, 0});
  m.out(m.b.binary(Op::add, a, y));
  Value c = m.b.transpose(m.b.reshape(m.b.transpose(m.b.reshape(x, {24, 10}), {1, 0}), {16, 15}), {1, 0});
  m.out(c);
  check(m.graph);
}

TEST(LoopRegion, ReductionsOverEveryDimension) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{3, 5},
                                     {300, 70},
                                     {1000, 33},
                                     {2, 20000},
                                     {7, 5, 300},
                                     {4, 64, 90},
                                     {33, 3, 3},
                                     {40, 20, 12, 11},
                                     {100000, 1},
                                     {9000, 4}}) {
    const auto rank = shape.size();
    for (uint32_t mask = 1; mask < (1u << rank); ++mask) {
      for (ir::Reducer r : {ir::Reducer::add, ir::Reducer::maximum}) {
        Maker m;
        std::vector<int64_t> dims;
        for (size_t d = 0; d < rank; ++d)
          if (mask >> d & 1) dims.push_back(static_cast<int64_t>(d));
        m.out(m.b.reduce(r, m.in(f32(shape)), dims));
        check(m.graph);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(LoopRegion, LongRowsAreReducedInChunks) {
  Maker m;
  Value x = m.in(f32({20, 40000}));
  Value max = m.b.reduce(ir::Reducer::maximum, x, {1});
  Value e = m.b.unary(Op::exponential, m.b.binary(Op::subtract, x, m.keep(max, x, {0})));
  Value sum = m.b.reduce(ir::Reducer::add, e, {1});
  m.out(m.b.binary(Op::divide, e, m.keep(sum, x, {0})));
  m.out(sum);
  check(m.graph);
}

Value softmax(Maker& m, Value x, int64_t dim) {
  const auto& shape = m.b.type(x).shape;
  std::vector<int64_t> others;
  for (size_t d = 0; d < shape.size(); ++d)
    if (static_cast<int64_t>(d) != dim) others.push_back(static_cast<int64_t>(d));
  Value max = m.b.reduce(ir::Reducer::maximum, x, {dim});
  Value e = m.b.unary(Op::exponential, m.b.binary(Op::subtract, x, m.keep(max, x, others)));
  Value sum = m.b.reduce(ir::Reducer::add, e, {dim});
  return m.b.binary(Op::divide, e, m.keep(sum, x, others));
}

TEST(LoopRegion, SoftmaxIsOneRegion) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{5, 7}, {300, 70}, {2, 3, 50, 129}, {1000, 1000}}) {
    Maker m;
    m.out(softmax(m, m.in(f32(shape)), static_cast<int64_t>(shape.size()) - 1));
    check(m.graph);
    EXPECT_EQ(region_count(m.graph), 1) << *describe_regions(m.graph);
  }
  Maker m;
  m.out(softmax(m, m.in(f32({6, 30, 40})), 1));
  m.out(softmax(m, m.in(f32({600, 40})), 0));
  check(m.graph);
}

TEST(LoopRegion, LayerNorm) {
  Maker m;
  Value x = m.in(f32({200, 768})), w = m.in(f32({768})), bias = m.in(f32({768}));
  Value n = m.b.splat(f32({200}), 1.0 / 768), eps = m.b.splat(f32({200}), 1e-5);
  Value mean = m.b.binary(Op::multiply, m.b.reduce(ir::Reducer::add, x, {1}), n);
  Value d = m.b.binary(Op::subtract, x, m.keep(mean, x, {0}));
  Value var = m.b.binary(Op::multiply, m.b.reduce(ir::Reducer::add, m.b.binary(Op::multiply, d, d), {1}), n);
  Value r = m.b.unary(Op::rsqrt, m.b.binary(Op::add, var, eps));
  Value y = m.b.binary(Op::multiply, d, m.keep(r, x, {0}));
  y = m.b.binary(Op::add, m.b.binary(Op::multiply, y, m.keep(w, x, {1})), m.keep(bias, x, {1}));
  m.out(y);
  m.out(mean);
  m.out(r);
  check(m.graph);
  EXPECT_EQ(region_count(m.graph), 1) << *describe_regions(m.graph);
}

TEST(LoopRegion, EveryDTypeAdds) {
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    Maker m;
    Value x = m.in({dtype, {50, 9}}), y = m.in({dtype, {50, 9}});
    m.out(m.b.binary(dtype == DType::boolean ? Op::or_ : Op::add, x, y));
    m.out(m.b.convert(x, DType::f32));
    m.out(m.b.convert(m.b.convert(y, DType::f64), dtype));
    m.out(m.b.compare(ir::Comparison::eq, x, y));
    m.out(m.b.reduce(dtype == DType::boolean ? ir::Reducer::or_ : ir::Reducer::add, x, {1}));
    m.out(m.b.reduce(dtype == DType::boolean ? ir::Reducer::or_ : ir::Reducer::add, x, {0}));
    check(m.graph, 16);
  }
}

TEST(LoopRegion, InPlaceOutputs) {
  Maker m;
  Value x = m.in(f32({40, 40})), y = m.in(f32({40, 40}));
  m.b.output(m.b.binary(Op::add, x, y), {40, 1}, 0);
  m.b.output(m.b.transpose(y, {1, 0}), {40, 1}, 1);
  m.out(m.b.unary(Op::negate, x));
  check(m.graph);
}

TEST(LoopRegion, SwapThroughAliases) {
  Maker m;
  Value x = m.in(f32({300})), y = m.in(f32({300}));
  m.b.output(y, {1}, 0);
  m.b.output(x, {1}, 1);
  m.out(x);
  check(m.graph);
}

TEST(LoopRegion, AnOverwrittenInputIsReadBeforeItIsWritten) {
  for (int64_t n : {300, 50000}) {
    Maker m;
    Value x = m.in(f32({4, n})), y = m.in(f32({4, n}));
    m.b.output(m.b.binary(Op::add, y, y), {n, 1}, 0);
    m.out(m.b.unary(Op::tanh, x));
    Value s = m.b.reduce(ir::Reducer::add, m.b.unary(Op::tanh, x), {1});
    m.out(m.b.binary(Op::subtract, y, m.keep(s, y, {0})));
    check(m.graph, 64);
  }
}

TEST(LoopRegion, ConcatenateAndPad) {
  Maker m;
  Value x = m.in(f32({4, 5})), y = m.in(f32({4, 7}));
  const Value parts[] = {x, m.b.unary(Op::exponential, y), x};
  Value c = m.b.concatenate(parts, 1);
  m.out(c);
  m.out(m.b.unary(Op::negate, c));
  m.out(m.b.pad(x, m.b.splat(f32({}), 3.0), {1, -2}, {0, 4}, {2, 1}));
  check(m.graph);
}

TEST(LoopRegion, TransposedCopiesTurnBlocks) {
  Maker m;
  Value x = m.in(f32({300, 700})), y = m.in({DType::bf16, {3, 130, 40}}), z = m.in(f32({700, 300}));
  m.out(m.b.transpose(x, {1, 0}));
  m.out(m.b.transpose(y, {0, 2, 1}));
  m.out(m.b.transpose(y, {2, 1, 0}));
  m.out(m.b.binary(Op::add, m.b.transpose(x, {1, 0}), z));
  check(m.graph);
}

TEST(LoopRegion, RowsLongerThanAPartitionAreSortedInMemory) {
  Maker m;
  Value x = m.in(f32({2, 30000}));
  const Value s = m.b.sort(x, 1, true);
  m.out(s);
  m.out({s.node, 1});
  m.out(m.b.top_k(x, 5, false));
  check(m.graph);
}

// Shapes with several tiles and tails, any layout, views between the operations.
TEST(LoopRegion, RandomChainsOnLargeTensors) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 rng(seed);
    const auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    Maker m;
    std::vector<int64_t> shape;
    const int64_t rank = pick(1, 4);
    int64_t left = 300000;
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t most = d + 1 == rank ? left : std::min<int64_t>(left, 700);
      shape.push_back(pick(1, std::max<int64_t>(1, pick(0, 2) ? std::min<int64_t>(most, 300) : most)));
      left = std::max<int64_t>(1, left / shape.back());
    }
    const DType dtypes[] = {DType::f32, DType::f32, DType::bf16, DType::i32, DType::boolean, DType::f16, DType::i64};
    const DType dtype = dtypes[pick(0, 6)];
    const auto operand = [&] {
      std::vector<int64_t> strides = testing::random_strides(shape, rng);
      Value v = m.in({dtype, shape}, std::move(strides));
      return dtype == DType::f32 ? v : m.b.convert(v, DType::f32);
    };
    Value x = operand();
    for (int64_t step = pick(1, 6); step > 0; --step) {
      switch (pick(0, 6)) {
        case 0:
          x = m.b.binary(Op::add, x, operand());
          break;
        case 1:
          x = m.b.unary(Op::tanh, x);
          break;
        case 2: {
          std::vector<int64_t> order(shape.size());
          for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
          std::shuffle(order.begin(), order.end(), rng);
          x = m.b.transpose(x, order);
          shape = m.b.type(x).shape;
          break;
        }
        case 3: {
          const int64_t d = pick(0, static_cast<int64_t>(shape.size()) - 1);
          Value s = m.b.reduce(pick(0, 1) ? ir::Reducer::add : ir::Reducer::maximum, x, {d});
          std::vector<int64_t> others;
          for (int64_t k = 0; k < static_cast<int64_t>(shape.size()); ++k)
            if (k != d) others.push_back(k);
          const double scale = 1.0 / static_cast<double>(shape[static_cast<size_t>(d)]);
          s = m.b.binary(Op::multiply, s, m.b.splat(m.b.type(s), scale));
          x = m.b.binary(Op::subtract, x, m.b.broadcast_in_dim(s, shape, others));
          break;
        }
        case 4: {
          std::vector<int64_t> start, limit, stride;
          for (int64_t e : shape) {
            start.push_back(pick(0, e / 4));
            limit.push_back(pick(e - e / 4, e));
            stride.push_back(pick(1, 2));
          }
          x = m.b.slice(x, start, limit, stride);
          shape = m.b.type(x).shape;
          break;
        }
        case 5:
          x = m.b.reverse(x, {pick(0, static_cast<int64_t>(shape.size()) - 1)});
          break;
        default: {
          int64_t n = 1;
          for (int64_t e : shape) n *= e;
          for (int64_t p : {6, 4, 5, 3, 2}) {
            if (n % p != 0) continue;
            x = m.b.reshape(x, {n / p, p});
            shape = {n / p, p};
            break;
          }
          break;
        }
      }
    }
    if (pick(0, 2) == 0) x = m.b.reduce(ir::Reducer::add, x, {pick(0, static_cast<int64_t>(shape.size()) - 1)});
    m.b.output(x, testing::random_strides(m.b.type(x).shape, rng));
    if (pick(0, 1)) m.out(x);
    check(m.graph, 256);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(LoopRegion, UnfusedGraphsGiveTheSame) {
  Maker m;
  Value x = m.in(f32({30, 50}));
  m.out(softmax(m, x, 1));
  Options o;
  o.disabled_passes = {"fuse", "canonicalize", "select"};
  check(m.graph, 4, o);
}

}  // namespace
}  // namespace neuron::compiler
