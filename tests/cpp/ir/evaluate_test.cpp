// The evaluator on cases whose answers are known independently: dtype edges, NaN, reference vectors, PyTorch's conventions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "ir/element.h"

namespace neuron::ir {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class Evaluate : public ::testing::Test {
 protected:
  Graph graph;
  Builder b{graph};

  template <class T>
  Value vector(DType t, const std::vector<T>& values, std::vector<int64_t> shape = {}) {
    if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
    std::vector<uint8_t> data(values.size() * size_of(t));
    for (size_t i = 0; i < values.size(); ++i) store(t, data.data() + i * size_of(t), values[i]);
    return b.constant({t, shape}, std::move(data));
  }
  Value floats(std::vector<double> v, DType t = DType::f32, std::vector<int64_t> shape = {}) { return vector(t, v, shape); }
  Value integers(std::vector<int64_t> v, DType t = DType::i64, std::vector<int64_t> shape = {}) {
    return vector(t, v, shape);
  }

  Result<Literal> run(Value v) {
    graph.outputs.clear();
    b.output(v, contiguous_strides(b.type(v).shape));
    EXPECT_TRUE(b.status().ok()) << b.status().message();
    auto r = evaluate(graph, {}, {});
    if (!r.ok()) return r.status();
    return (*r)[0];
  }
  std::vector<double> as_floats(Value v) {
    const auto r = run(b.convert(v, DType::f64));
    EXPECT_TRUE(r.ok()) << r.status().message();
    std::vector<double> out;
    for (size_t i = 0; r.ok() && i < r->data.size(); i += 8) out.push_back(load_floating(DType::f64, r->data.data() + i));
    return out;
  }
  std::vector<int64_t> as_integers(Value v) {
    const auto r = run(b.convert(v, DType::i64));
    EXPECT_TRUE(r.ok()) << r.status().message();
    std::vector<int64_t> out;
    for (size_t i = 0; r.ok() && i < r->data.size(); i += 8) out.push_back(load_signed(DType::i64, r->data.data() + i));
    return out;
  }
};

using Floats = std::vector<double>;
using Integers = std::vector<int64_t>;

TEST_F(Evaluate, ConvertsFloatsToIntegersAsPyTorchOnX86) {
  const Value x = floats({1.9, -1.9, 300, -1, 3e9, 1e30, kNan}, DType::f64);
  EXPECT_EQ(as_integers(b.convert(x, DType::u8)), (Integers{1, 255, 44, 255, 3000000000 % 256, 0, 0}));
  EXPECT_EQ(as_integers(b.convert(x, DType::i64)), (Integers{1, -1, 300, -1, 3000000000, std::numeric_limits<int64_t>::min(),
                                                             std::numeric_limits<int64_t>::min()}));
  EXPECT_EQ(as_integers(b.convert(floats({0, -0.0, 0.25, kNan}), DType::boolean)), (Integers{0, 0, 1, 1}));
}

TEST_F(Evaluate, KeepsAll64BitsOfIntegers) {
  const int64_t big = (int64_t{1} << 62) + 1;
  EXPECT_EQ(as_integers(b.binary(Op::add, integers({big}), integers({big - 3}))),
            (Integers{std::numeric_limits<int64_t>::max()}));
  EXPECT_EQ(as_integers(b.binary(Op::multiply, integers({3037000500}), integers({3037000500}))),
            (Integers{static_cast<int64_t>(3037000500ull * 3037000500ull)}));
  // Rounded once, from the exact integer: through f64 the last bit would be lost and the tie go the other way.
  EXPECT_EQ(as_floats(b.convert(integers({(int64_t{1} << 54) + (int64_t{1} << 30) + 1}), DType::f32)),
            (Floats{static_cast<double>(static_cast<float>((int64_t{1} << 54) + (int64_t{1} << 30) + 1))}));
}

TEST_F(Evaluate, RoundsNarrowFloatsToNearestEven) {
  EXPECT_EQ(as_floats(b.convert(floats({1 + 0x1p-8, 1 + 3 * 0x1p-8, 3.4e38}), DType::bf16)), (Floats{1, 1 + 0x1p-6, kInf}));
  EXPECT_EQ(as_floats(b.convert(floats({65504, 65520, 0x1p-25}), DType::f16)), (Floats{65504, kInf, 0}));
  const Floats fp8 = as_floats(b.convert(floats({448, 1000, -kInf, kNan}), DType::f8e4m3fn));
  EXPECT_EQ((Floats{fp8[0], fp8[1], fp8[2]}), (Floats{448, 448, -448}));
  EXPECT_TRUE(std::isnan(fp8[3]));
}

TEST_F(Evaluate, PropagatesNanThroughMaximumAndMinimum) {
  for (Op op : {Op::maximum, Op::minimum}) {
    for (const double v : as_floats(b.binary(op, floats({kNan, 1, kNan}), floats({1, kNan, kNan}))))
      EXPECT_TRUE(std::isnan(v));
  }
  for (Reducer r : {Reducer::maximum, Reducer::minimum}) {
    EXPECT_TRUE(std::isnan(as_floats(b.reduce(r, floats({3, kNan, 5}), {0}))[0]));
  }
  EXPECT_EQ(as_integers(b.arg_reduce(true, floats({1, kNan, 9, kNan}), 0)), (Integers{1}));
  EXPECT_EQ(as_integers(b.arg_reduce(false, floats({1, -2, -2}), 0)), (Integers{1}));
}

TEST_F(Evaluate, DividesIntegersTowardZeroAndFloorsWhenAsked) {
  const Value a = integers({7, -7, 7, -7}), c = integers({2, 2, -2, -2});
  EXPECT_EQ(as_integers(b.binary(Op::divide, a, c)), (Integers{3, -3, -3, 3}));
  EXPECT_EQ(as_integers(b.binary(Op::remainder, a, c)), (Integers{1, -1, 1, -1}));
  EXPECT_EQ(as_integers(b.binary(Op::floor_divide, a, c)), (Integers{3, -4, -4, 3}));
  EXPECT_EQ(as_integers(b.binary(Op::python_remainder, a, c)), (Integers{1, 1, -1, -1}));
  EXPECT_EQ(as_integers(b.binary(Op::divide, integers({-128}, DType::i8), integers({-1}, DType::i8))), (Integers{-128}));
  EXPECT_EQ(as_floats(b.binary(Op::floor_divide, floats({-7, 7, 5}), floats({2, -2, 0}))), (Floats{-4, -4, kInf}));
}

TEST_F(Evaluate, ShiftsByTheWidthOrMoreGiveZeroOrTheSign) {
  const Value x = integers({-128, 127, -1}, DType::i8);
  EXPECT_EQ(as_integers(b.binary(Op::shift_left, x, integers({8, -1, 1}, DType::i8))), (Integers{0, 0, -2}));
  EXPECT_EQ(as_integers(b.binary(Op::shift_right_arithmetic, x, integers({9, 1, 100}, DType::i8))), (Integers{-1, 63, -1}));
  EXPECT_EQ(as_integers(b.binary(Op::shift_right_logical, x, integers({1, 1, 7}, DType::i8))), (Integers{64, 63, 1}));
}

TEST_F(Evaluate, RaisesIntegersToPowers) {
  EXPECT_EQ(as_integers(b.binary(Op::power, integers({2, -1, -1, 1, 5, 0}), integers({10, -3, -2, -9, -1, 0}))),
            (Integers{1024, -1, 1, 1, 0, 1}));
}

TEST_F(Evaluate, SpecialFunctionsHaveDoubleAccuracy) {
  const Floats erf_inv = as_floats(b.unary(Op::erf_inv, floats({0.5, -0.999999, 1, 2}, DType::f64)));
  EXPECT_NEAR(erf_inv[0], 0.47693627620446987, 1e-15);
  EXPECT_NEAR(erf_inv[1], -3.458910737279500, 1e-11);
  EXPECT_EQ(erf_inv[2], kInf);
  EXPECT_TRUE(std::isnan(erf_inv[3]));
  const Floats digamma = as_floats(b.unary(Op::digamma, floats({1, 0.5, -0.5, 0, -1, 100}, DType::f64)));
  EXPECT_NEAR(digamma[0], -0.57721566490153286, 1e-14);
  EXPECT_NEAR(digamma[1], -1.9635100260214235, 1e-14);
  EXPECT_NEAR(digamma[2], 0.03648997397857652, 1e-13);
  EXPECT_EQ(digamma[3], -kInf);
  EXPECT_TRUE(std::isnan(digamma[4]));
  EXPECT_NEAR(digamma[5], 4.600161852738087, 1e-13);
  EXPECT_NEAR(as_floats(b.unary(Op::gelu, floats({-10}, DType::f64)))[0], -7.619853024160527e-23, 1e-35);
}

TEST_F(Evaluate, StepsToTheNextNumberOfItsOwnFormat) {
  EXPECT_EQ(as_floats(b.binary(Op::nextafter, floats({1, 0, 1}, DType::bf16), floats({2, -1, 0}, DType::bf16))),
            (Floats{1 + 0x1p-7, -0x1p-133, 1 - 0x1p-8}));
  EXPECT_EQ(as_floats(b.binary(Op::nextafter, floats({1}), floats({2}))), (Floats{1 + 0x1p-23}));
}

TEST_F(Evaluate, ReadsAWindowThroughAStridedView) {
  EXPECT_EQ(as_integers(b.strided_view(integers({0, 1, 2, 3, 4, 5}), {2, 3}, {-2, 1}, 3)), (Integers{3, 4, 5, 1, 2, 3}));
}

TEST_F(Evaluate, PadsWithNegativeAndInteriorAmounts) {
  const Value x = integers({1, 2, 3}), zero = b.splat_int({DType::i64, {}}, 0);
  EXPECT_EQ(as_integers(b.pad(x, zero, {-1}, {2}, {1})), (Integers{0, 2, 0, 3, 0, 0}));
}

TEST_F(Evaluate, ScansForwardAndBackwardWithTheLastEqualIndex) {
  EXPECT_EQ(as_integers(b.scan(Reducer::add, integers({1, 2, 3}), 0)), (Integers{1, 3, 6}));
  EXPECT_EQ(as_integers(b.scan(Reducer::add, integers({1, 2, 3}), 0, true)), (Integers{6, 5, 3}));
  const Value running = b.scan(Reducer::maximum, floats({1, kNan, 2, kNan, 3}), 0);
  EXPECT_EQ(as_integers({running.node, 1}), (Integers{0, 1, 1, 3, 3}));
  const Value ties = b.scan(Reducer::minimum, integers({2, 2, 1, 1, 5}), 0);
  EXPECT_EQ(as_integers({ties.node, 1}), (Integers{0, 1, 2, 3, 3}));
}

TEST_F(Evaluate, SortsStablyWithNanLargest) {
  const Value up = b.sort(floats({kNan, 2, 1, 2}), 0, false);
  EXPECT_EQ(as_integers({up.node, 1}), (Integers{2, 1, 3, 0}));
  const Value down = b.sort(floats({1, kNan, 2, 2}), 0, true);
  EXPECT_EQ(as_integers({down.node, 1}), (Integers{1, 2, 3, 0}));
  const Value top = b.top_k(integers({5, 9, 9, 1}), 2, true);
  EXPECT_EQ(as_integers({top.node, 1}), (Integers{1, 2}));
}

TEST_F(Evaluate, ReportsIndicesOutOfRangeOnlyWhenChecked) {
  GatherAttrs g;
  g.offset_dims = {};
  g.collapsed_slice_dims = g.start_index_map = {0};
  g.slice_sizes = {1};
  g.index_vector_dim = 1;
  const Value x = integers({10, 20, 30}), index = integers({2, -1});
  const auto refused = run(b.gather(x, index, g));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::out_of_range);
  EXPECT_NE(refused.status().message().find("index -1"), std::string::npos);
  g.check_bounds = false;
  EXPECT_EQ(as_integers(b.gather(x, index, g)), (Integers{30, 10}));

  ScatterAttrs s;
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  s.check_bounds = false;
  EXPECT_EQ(as_integers(b.scatter(x, integers({0, 3, 0}), integers({1, 2, 3}), s)), (Integers{14, 20, 30}));
  s.combine = Reducer::assign;
  EXPECT_EQ(as_integers(b.scatter(x, integers({1, 1}), integers({7, 8}), s)), (Integers{10, 8, 30}));
  s.check_bounds = true;
  EXPECT_FALSE(run(b.scatter(x, integers({3}), integers({1}), s)).ok());
}

TEST_F(Evaluate, DrawsPhiloxReferenceBits) {
  // Known answer of Philox4x32-10 for counter 0 and key 0: 6627e8d5 e169c58d ..
  const Value zero = b.splat_int({DType::u64, {}}, 0);
  EXPECT_EQ(as_integers(b.rng_bits(zero, zero, {DType::u32, {1}})), (Integers{0x6627e8d5}));
  EXPECT_EQ(as_integers(b.rng_bits(zero, zero, {DType::u64, {1}})),
            (Integers{static_cast<int64_t>(0x6627e8d5ull | 0xe169c58dull << 32)}));
  // Element i of a draw at offset o is element 0 of a draw at o + i.
  const Value seed = b.splat_int({DType::u64, {}}, 42);
  const Integers all = as_integers(b.rng_bits(seed, zero, {DType::u32, {2, 3}}));
  EXPECT_EQ(as_integers(b.rng_bits(seed, b.splat_int({DType::u64, {}}, 4), {DType::u32, {1}})), (Integers{all[4]}));
}

TEST_F(Evaluate, MultipliesMatricesInAnyLayoutAndDtype) {
  const Value a = integers({1, 2, 3, 4, 5, 6}, DType::i32, {2, 3}), c = integers({1, 0, 1, 0, 1, 0}, DType::i32, {3, 2});
  EXPECT_EQ(as_integers(b.dot_general(a, c, {{}, {}, {1}, {0}, DType::i32})), (Integers{6, 0, 15, 0}));
  const Value half = floats({0x1p-8, 1, 1}, DType::bf16);
  EXPECT_EQ(as_floats(b.dot_general(half, half, {{}, {}, {0}, {0}, DType::f32})), (Floats{2 + 0x1p-16}));
}

TEST_F(Evaluate, GivesZerosForAttentionRowsWithoutKeys) {
  const Value q = b.splat({DType::f32, {1, 1, 2, 4}}, 1), k = b.splat({DType::f32, {1, 1, 3, 4}}, 1),
              v = floats({1, 2, 3}, DType::f32, {1, 1, 3, 1});
  const Value mask = integers({0, 0, 0, 1, 0, 1}, DType::boolean, {2, 3});
  const Value out = b.attention(q, k, v, mask, {}, {});
  EXPECT_EQ(as_floats(out), (Floats{0, 2}));
  EXPECT_EQ(as_floats({out.node, 1})[0], -kInf);
}

TEST_F(Evaluate, ReadsScalarSlotsAndChecksWhatIsGiven) {
  const Value x = b.parameter({DType::f32, {2}}, 0, {1}), s = b.scalar_parameter(DType::f64, 1);
  b.output(b.binary(Op::multiply, x, b.broadcast_to(b.convert(s, DType::f32), {2})), {1});
  Literal given;
  given.type = b.type(x);
  given.data.resize(8);
  store(DType::f32, given.data.data(), 1.5);
  const double number = 4;
  uint64_t bits;
  std::memcpy(&bits, &number, 8);
  const auto r = evaluate(graph, {given}, {0, bits});
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_EQ(load_floating(DType::f32, (*r)[0].data.data()), 6);
  EXPECT_EQ(evaluate(graph, {given}, {0}).status().code(), Code::invalid_argument);
  EXPECT_EQ(evaluate(graph, {}, {0, bits}).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace neuron::ir
