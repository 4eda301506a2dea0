// What each instruction means, value by value, against expectations written out here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "emulator/execution.h"
#include "emulator/interpreter/scalar_operations.h"
#include "emulator/small_program.h"
#include "isa/instruction_table.h"
#include "isa/validator.h"

namespace neuron::emulator::testing {
namespace {

using isa::ActFn;
using isa::AluOp;
using isa::Engine;
using isa::Instruction;
using isa::Opcode;
using isa::TensorRole;

constexpr double kInf = INFINITY;
const double kNaN = std::nan("");

// Rows of values of one type, laid out [partitions, count].
struct Values {
  DType dtype;
  uint32_t partitions;
  std::vector<double> values;
  uint32_t count() const { return static_cast<uint32_t>(values.size() / partitions); }
};

std::vector<uint8_t> pack(const Values& v) {
  std::vector<uint8_t> bytes(v.values.size() * size_of(v.dtype));
  for (size_t n = 0; n < v.values.size(); ++n) {
    uint8_t* at = &bytes[n * size_of(v.dtype)];
    if (v.dtype == DType::i64 || v.dtype == DType::u64)
      store_element(v.dtype, at, static_cast<int64_t>(v.values[n]));
    else
      store_element(v.dtype, at, v.values[n]);
  }
  return bytes;
}

// Loads `sources` into tiles, lets `fill_in` complete one instruction on them, stores its dst (and dst2).
class One {
 public:
  One(
      Opcode opcode, Engine engine, DType compute, const std::vector<Values>& sources, DType dst, uint32_t partitions,
      uint32_t count, const std::function<void(Instruction&)>& fill_in = [](Instruction&) {}) {
    std::vector<isa::Access> tiles;
    for (const Values& s : sources) {
      const isa::Access from =
          p_.tensor("in" + std::to_string(tiles.size()), TensorRole::input, s.dtype, s.partitions, s.count());
      tiles.push_back(p_.tile(s.dtype, s.partitions, s.count()));
      p_.dma(tiles.back(), from);
      initial_.push_back(pack(s));
    }
    const bool psum = engine == Engine::tensor;
    const isa::Access result = p_.tile(dst, partitions, count, psum ? isa::Space::psum : isa::Space::sbuf);
    Instruction& i = p_.add(opcode, engine, compute);
    i.dst = result;
    if (tiles.size() > 0) i.src0 = tiles[0];
    if (tiles.size() > 1) i.src1 = tiles[1];
    if (tiles.size() > 2) i.src2 = tiles[2];
    fill_in(i);
    const isa::Access dst2 = i.dst2;
    isa::Access stored = result;
    if (psum) {
      stored = p_.tile(dst, partitions, count);
      Instruction& copy = p_.add(Opcode::tensor_copy, Engine::vector);
      copy.dst = stored;
      copy.src0 = result;
    }
    out_ = p_.program.tensors.size();
    p_.dma(p_.tensor("out", TensorRole::output, dst, partitions, count), stored);
    initial_.emplace_back(p_.program.tensors[out_].bytes);
    if (dst2.present()) {
      p_.dma(p_.tensor("out2", TensorRole::output, dst2.dtype, dst2.partitions,
                       static_cast<uint32_t>(dst2.elements_per_partition())),
             dst2);
      initial_.emplace_back(p_.program.tensors[out_ + 1].bytes);
    }
  }

  Outcome run_it() {
    const Status valid = isa::validate(p_.program);
    EXPECT_TRUE(valid.ok()) << valid.message();
    auto made = make_interpreter(std::make_shared<const isa::Program>(p_.program));
    EXPECT_TRUE(made.ok()) << made.status().message();
    ThreadPool pool(1);
    return run(**made, p_.program, initial_, pool);
  }

  std::vector<double> values(size_t output = 0) {
    const Outcome o = run_it();
    EXPECT_TRUE(o.status.ok()) << o.status.message();
    const isa::Tensor& t = p_.program.tensors[out_ + output];
    std::vector<double> out;
    for (size_t at = 0; at < t.bytes; at += size_of(t.dtype)) {
      const uint8_t* bytes = &o.buffers[out_ + output][at];
      out.push_back(t.dtype == DType::i64 || t.dtype == DType::u64
                        ? static_cast<double>(load_element<int64_t>(t.dtype, bytes))
                        : load_element<double>(t.dtype, bytes));
    }
    return out;
  }

 private:
  SmallProgram p_;
  Buffers initial_;
  size_t out_ = 0;
};

std::vector<double> copy(DType from, std::vector<double> values, DType to) {
  const uint32_t n = static_cast<uint32_t>(values.size());
  return One(Opcode::tensor_copy, Engine::gpsimd, DType::f32, {{from, 1, std::move(values)}}, to, 1, n).values();
}

void expect_same(const std::vector<double>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t n = 0; n < actual.size(); ++n) {
    if (std::isnan(expected[n]))
      EXPECT_TRUE(std::isnan(actual[n])) << "element " << n << ": " << actual[n];
    else
      EXPECT_EQ(actual[n], expected[n]) << "element " << n;
    EXPECT_EQ(std::signbit(actual[n]) && !std::isnan(actual[n]), std::signbit(expected[n]) && !std::isnan(expected[n]))
        << "sign of element " << n;
  }
}

TEST(Conversions, FloatToIntegerTruncatesAndWrapsAsTheHostCastDoes) {
  expect_same(copy(DType::f32, {2.9, -2.9, 300, -1, kNaN}, DType::u8), {2, 254, 44, 255, 0});
  expect_same(copy(DType::f32, {2.9, -2.9, 1e10, kInf}, DType::i32), {2, -2, -2147483648.0, -2147483648.0});
  expect_same(copy(DType::f64, {70000, 3e9, 9007199254740994.0, kNaN}, DType::i16), {4464, 0, 0, 0});
  expect_same(copy(DType::f64, {-1, 9007199254740994.0, kInf}, DType::u8), {255, 2, 0});
  expect_same(copy(DType::f64, {1e300, -1e300, kNaN, 5.99}, DType::i64),
              {-9223372036854775808.0, -9223372036854775808.0, -9223372036854775808.0, 5});
}

TEST(Conversions, RoundOnceToNearestEven) {
  // Through f32 the last bit would be lost and the tie would round to 1.
  expect_same(copy(DType::f64, {1 + 0x1p-11 + 0x1p-30, 1 + 0x1p-11, 65519.9, 65520}, DType::f16),
              {1 + 0x1p-10, 1, 65504, kInf});
  expect_same(copy(DType::f64, {1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8, -1e39}, DType::bf16), {1 + 0x1p-7, 1, -kInf});
  expect_same(copy(DType::i64, {4097.0 * 4096 + 1, 2049}, DType::f16), {kInf, 2048});
  expect_same(copy(DType::f32, {448, 464, 465, kInf, kNaN}, DType::f8e4m3fn), {448, 448, 448, 448, kNaN});
  expect_same(copy(DType::f32, {57344, 61439, 61440, -0.0}, DType::f8e5m2), {57344, 57344, kInf, -0.0});
}

TEST(Conversions, BooleansReadAnyNonZeroByteAndWriteZeroOrOne) {
  expect_same(copy(DType::u8, {0, 1, 2, 255}, DType::boolean), {0, 1, 1, 1});
  expect_same(copy(DType::f32, {0, -0.0, 0.001, kNaN}, DType::boolean), {0, 0, 1, 1});
}

TEST(TensorScalar, FusesMultiplyAddUnlessReversed) {
  const double x = 1 + 0x1p-12, y = 1 + 0x1p-11;  // x*x = y + 2^-24: lost when the product is rounded
  const auto scaled = [&](AluOp op1, double s1, bool reverse) {
    return One(Opcode::tensor_scalar, Engine::vector, DType::f32, {{DType::f32, 1, {x}}}, DType::f32, 1, 1,
               [&](Instruction& i) {
                 i.op0 = AluOp::multiply;
                 i.op1 = op1;
                 i.reverse1 = reverse;
                 i.scalar0 = SmallProgram::immediate(x);
                 i.scalar1 = SmallProgram::immediate(s1);
               })
        .values()[0];
  };
  EXPECT_EQ(scaled(AluOp::add, -y, false), 0x1p-24);
  EXPECT_EQ(scaled(AluOp::subtract, y, false), 0x1p-24);
  EXPECT_EQ(scaled(AluOp::add, -y, true), 0);
}

TEST(TensorScalar, ReverseSwapsOperands) {
  const auto v = One(Opcode::tensor_scalar, Engine::vector, DType::f32, {{DType::f32, 2, {1, 2, 4, 8}}}, DType::f32, 2, 2,
                     [](Instruction& i) {
                       i.op0 = AluOp::subtract;
                       i.reverse0 = true;
                       i.scalar0 = SmallProgram::immediate(10);
                       i.op1 = AluOp::divide;
                       i.scalar1 = SmallProgram::immediate(2);
                     })
                     .values();
  expect_same(v, {4.5, 4, 3, 1});
}

TEST(TensorTensor, MaximumAndMinimumKeepNaN) {
  const Values a{DType::f32, 1, {kNaN, 1, 3, -0.0}}, b{DType::f32, 1, {1, kNaN, 2, 0.0}};
  const auto with = [&](AluOp op) {
    return One(Opcode::tensor_tensor, Engine::vector, DType::f32, {a, b}, DType::f32, 1, 4,
               [&](Instruction& i) { i.op0 = op; })
        .values();
  };
  expect_same(with(AluOp::maximum), {kNaN, kNaN, 3, 0.0});
  expect_same(with(AluOp::minimum), {kNaN, kNaN, 2, 0.0});
}

std::vector<double> integers(AluOp op, std::vector<double> a, std::vector<double> b, DType compute = DType::i64) {
  const uint32_t n = static_cast<uint32_t>(a.size());
  return One(Opcode::tensor_tensor, Engine::gpsimd, compute, {{compute, 1, std::move(a)}, {compute, 1, std::move(b)}},
             compute, 1, n, [&](Instruction& i) { i.op0 = op; })
      .values();
}

TEST(TensorTensor, IntegerDivisionsHavePythonsAndCsSigns) {
  expect_same(integers(AluOp::floor_divide, {7, -7, 7, -7}, {2, 2, -2, -2}), {3, -4, -4, 3});
  expect_same(integers(AluOp::trunc_divide, {7, -7, 7, -7}, {2, 2, -2, -2}), {3, -3, -3, 3});
  expect_same(integers(AluOp::remainder, {7, -7, 7, -7}, {2, 2, -2, -2}), {1, 1, -1, -1});
  expect_same(integers(AluOp::fmod, {7, -7, 7, -7}, {2, 2, -2, -2}), {1, -1, 1, -1});
  expect_same(integers(AluOp::floor_divide, {-9223372036854775808.0}, {-1}), {-9223372036854775808.0});
  expect_same(integers(AluOp::remainder, {-9223372036854775808.0}, {-1}), {0});
}

TEST(TensorTensor, ShiftsBeyondTheWidthGiveZeroOrTheSign) {
  expect_same(integers(AluOp::shift_left, {1, 1, 1, 5}, {3, 64, -1, 0}), {8, 0, 0, 5});
  expect_same(integers(AluOp::shift_right_arithmetic, {-8, -8, 8, -8}, {1, 64, 99, -1}), {-4, -1, 0, -1});
  expect_same(integers(AluOp::shift_right_logical, {-1, -1}, {63, 64}), {1, 0});
  expect_same(integers(AluOp::power, {2, -1, 2, 3, 1}, {10, -3, -1, 0, -5}), {1024, -1, 0, 1, 1});
  expect_same(integers(AluOp::gcd, {12, -12, 0}, {18, 18, 5}), {6, 6, 5});
}

TEST(TensorTensor, IntegerDivisionByZeroFailsTheLaunch) {
  One one(Opcode::tensor_tensor, Engine::gpsimd, DType::i64, {{DType::i64, 1, {4}}, {DType::i64, 1, {0}}}, DType::i64, 1, 1,
          [](Instruction& i) { i.op0 = AluOp::remainder; });
  const Outcome o = one.run_it();
  EXPECT_EQ(o.status.code(), Code::invalid_argument);
  EXPECT_NE(o.status.message().find("division by zero"), std::string::npos);
}

TEST(TensorTensor, FloatRemainderAndFloorDivideFollowTheDivisorsSign) {
  const auto with = [](AluOp op, std::vector<double> a, std::vector<double> b) {
    const uint32_t n = static_cast<uint32_t>(a.size());
    return One(Opcode::tensor_tensor, Engine::gpsimd, DType::f32,
               {{DType::f32, 1, std::move(a)}, {DType::f32, 1, std::move(b)}}, DType::f32, 1, n,
               [&](Instruction& i) { i.op0 = op; })
        .values();
  };
  expect_same(with(AluOp::remainder, {5, -5, 5, -5, 1}, {3, 3, -3, -3, 0}), {2, 1, -1, -2, kNaN});
  expect_same(with(AluOp::floor_divide, {5, -5, 1, -1}, {3, 3, 0, 0}), {1, -2, kInf, -kInf});
  expect_same(with(AluOp::fmod, {5, -5}, {3, 3}), {2, -2});
}

TEST(Activation, AppliesScaleAndBiasAndSumsUnroundedResults) {
  std::vector<double> x(40);
  for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<double>(n) * 0.37 - 5;
  // src1's tile is the place of dst2.
  One one(Opcode::activation, Engine::scalar, DType::f32, {{DType::f32, 1, x}, {DType::f32, 1, {0}}}, DType::bf16, 1, 40,
          [&](Instruction& i) {
            i.func = ActFn::square;
            i.scalar0 = SmallProgram::immediate(3);
            i.scalar1 = SmallProgram::immediate(0.25);
            i.dst2 = i.src1;
            i.src1 = {};
          });
  float lanes[16] = {};
  const std::vector<double> out = one.values();
  for (size_t n = 0; n < x.size(); ++n) {
    const float affine = std::fma(static_cast<float>(x[n]), 3.0f, 0.25f);
    lanes[n % 16] += affine * affine;
    EXPECT_EQ(out[n], static_cast<double>(bf16_to_f32(f32_to_bf16(affine * affine))));
  }
  for (size_t distance = 8; distance; distance /= 2) {
    for (size_t l = 0; l < distance; ++l) lanes[l] += lanes[l + distance];
  }
  EXPECT_EQ(one.values(1)[0], static_cast<double>(lanes[0]));
}

TEST(TensorReduce, AddsInSixteenLanesAndATree) {
  std::vector<double> x(37);
  for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<float>((n % 5 == 0 ? 1e8 : 1.0) / (static_cast<double>(n) + 1));
  std::vector<float> lanes(16, 0.0f);
  for (size_t n = 0; n < x.size(); ++n) lanes[n & 15] += static_cast<float>(x[n]);
  float eight[8], four[4];
  for (int l = 0; l < 8; ++l) eight[l] = lanes[static_cast<size_t>(l)] + lanes[static_cast<size_t>(l) + 8];
  for (int l = 0; l < 4; ++l) four[l] = eight[l] + eight[l + 4];
  const float expected = (four[0] + four[2]) + (four[1] + four[3]);
  const auto v =
      One(Opcode::tensor_reduce, Engine::vector, DType::f32, {{DType::f32, 1, x}}, DType::f32, 1, 1, [](Instruction& i) {
        i.op0 = AluOp::add;
        i.dst.rank = 0;
      }).values();
  EXPECT_EQ(v[0], static_cast<double>(expected));
}

TEST(TensorReduce, ReducesTheLastDimensionsOnly) {
  const auto v =
      One(Opcode::tensor_reduce, Engine::gpsimd, DType::i64, {{DType::i64, 1, {1, 2, 3, 4, 5, 6}}}, DType::i64, 1, 2,
          [](Instruction& i) {
            i.op0 = AluOp::maximum;
            i.src0.rank = 2;
            i.src0.dims[0] = {2, 24};
            i.src0.dims[1] = {3, 8};
          })
          .values();
  expect_same(v, {3, 6});
}

TEST(TensorPartitionReduce, RunsOverPartitionsInAscendingOrder) {
  std::vector<double> x;
  float expected = 0;
  for (int p = 0; p < 50; ++p) {
    x.push_back(static_cast<float>(p % 7 == 3 ? 1e7 : 0.3));
    expected = p == 0 ? static_cast<float>(x[0]) : expected + static_cast<float>(x.back());
  }
  const auto v = One(Opcode::tensor_partition_reduce, Engine::gpsimd, DType::f32, {{DType::f32, 50, x}}, DType::f32, 1, 1,
                     [](Instruction& i) { i.op0 = AluOp::add; })
                     .values();
  EXPECT_EQ(v[0], static_cast<double>(expected));
}

TEST(TensorTensorScan, CarriesTheUnroundedValueAndRestartsPerRow) {
  const auto v = One(Opcode::tensor_tensor_scan, Engine::vector, DType::f32,
                     {{DType::f32, 1, {2, 3, 2, 3}}, {DType::f32, 1, {1, 1, 5, 5}}}, DType::i32, 1, 4,
                     [](Instruction& i) {
                       i.op0 = AluOp::multiply;
                       i.op1 = AluOp::add;
                       i.scalar0 = SmallProgram::immediate(0.75);
                       for (isa::Access* a : {&i.src0, &i.src1, &i.dst}) {
                         a->rank = 2;
                         a->dims[0] = {2, 8};
                         a->dims[1] = {2, 4};
                       }
                     })
                     .values();
  expect_same(v, {2, 8, 6, 24});  // 2.5, 8.5, 6.5, 24.5
}

TEST(Select, TakesScalarsForAbsentTensors) {
  const Values yes{DType::f32, 1, {1, 2, 3}}, no{DType::f32, 1, {9, 9, 9}}, predicate{DType::u8, 1, {0, 5, 1}};
  auto v = One(Opcode::select, Engine::vector, DType::f32, {yes, no, predicate}, DType::f32, 1, 3).values();
  expect_same(v, {9, 2, 3});
  v = One(Opcode::select, Engine::vector, DType::f32, {yes, no, predicate}, DType::f32, 1, 3, [](Instruction& i) {
        i.src1 = {};
        i.scalar1 = SmallProgram::immediate(-4);
      }).values();
  expect_same(v, {-4, 2, 3});
}

TEST(BatchNorm, StatisticsOfEvenAndOddElementsCombineToMeanAndVariance) {
  const auto stats =
      One(Opcode::bn_stats, Engine::vector, DType::f32, {{DType::f32, 1, {1, 10, 2, 20, 3}}}, DType::f32, 1, 6).values();
  expect_same(stats, {3, 2, 2, 2, 15, 50});
  const auto total =
      One(Opcode::bn_aggr, Engine::vector, DType::f32, {{DType::f32, 1, {3, 2, 2, 2, 15, 50}}}, DType::f32, 1, 2).values();
  EXPECT_NEAR(total[0], 7.2, 1e-5);
  EXPECT_NEAR(total[1], 50.96, 1e-3);
  expect_same(One(Opcode::bn_stats, Engine::vector, DType::f32, {{DType::f32, 1, {4}}}, DType::f32, 1, 6).values(),
              {1, 4, 0, 0, 0, 0});
}

TEST(Max8, OrdersNaNFirstAndFindIndexAdvancesOverDuplicates) {
  const Values row{DType::f32, 1, {3, 7, kNaN, 7, -1, 2, 0, 5, 4, 7}};
  expect_same(One(Opcode::max8, Engine::vector, DType::f32, {row}, DType::f32, 1, 8).values(), {kNaN, 7, 7, 7, 5, 4, 3, 2});
  const Values wanted{DType::f32, 1, {kNaN, 7, 7, 7, 7, 99, 3, 2}};
  expect_same(One(Opcode::find_index8, Engine::vector, DType::f32, {row, wanted}, DType::u32, 1, 8).values(),
              {2, 1, 3, 9, 4294967295.0, 4294967295.0, 0, 5});
}

TEST(TopK, KeepsTheLowerIndexOfEqualValuesFirst) {
  SmallProgram p;
  const isa::Access in = p.tensor("in", TensorRole::input, DType::f32, 1, 4),
                    values = p.tensor("v", TensorRole::output, DType::f32, 1, 3),
                    indices = p.tensor("i", TensorRole::output, DType::i64, 1, 3);
  const isa::Access t = p.tile(DType::f32, 1, 4), v = p.tile(DType::f32, 1, 3), n = p.tile(DType::i64, 1, 3);
  p.dma(t, in);
  Instruction& i = p.add(Opcode::top_k, Engine::gpsimd);
  i.src0 = t;
  i.dst = v;
  i.dst2 = n;
  p.dma(values, v);
  p.dma(indices, n);
  ASSERT_TRUE(isa::validate(p.program).ok()) << isa::validate(p.program).message();
  ThreadPool pool(1);
  auto made = make_interpreter(std::make_shared<const isa::Program>(p.program));
  const Outcome o = run(**made, p.program,
                        {pack({DType::f32, 1, {1, 5, kNaN, 5}}), std::vector<uint8_t>(12), std::vector<uint8_t>(24)}, pool);
  int64_t order[3];
  std::memcpy(order, o.buffers[2].data(), sizeof order);
  EXPECT_EQ(order[0], 2);
  EXPECT_EQ(order[1], 1);
  EXPECT_EQ(order[2], 3);
}

TEST(RandomBits, ArePhiloxWords) {
  const auto v = One(Opcode::random_bits, Engine::gpsimd, DType::u64, {}, DType::u32, 1, 1, [](Instruction& i) {
                   i.scalar0 = SmallProgram::immediate(0);
                   i.scalar1 = SmallProgram::immediate(0);
                 }).values();
  EXPECT_EQ(v[0], static_cast<double>(0x6627e8d5u));  // published known answer for key 0, counter 0
}

TEST(Matmul, F32IsOneFmaChainAndSplitsAlongK) {
  constexpr uint32_t kK = 96;
  std::vector<double> a, b;
  for (uint32_t k = 0; k < kK; ++k) {
    for (int m = 0; m < 3; ++m) a.push_back(static_cast<float>(std::sin(k * 3 + m)));
    for (int n = 0; n < 2; ++n) b.push_back(static_cast<float>(std::cos(k * 2 + n) * 1e3));
  }
  const auto v =
      One(Opcode::nc_matmul, Engine::tensor, DType::f32, {{DType::f32, kK, a}, {DType::f32, kK, b}}, DType::f32, 3, 2)
          .values();
  for (size_t m = 0; m < 3; ++m) {
    for (size_t n = 0; n < 2; ++n) {
      float c = 0;
      for (size_t k = 0; k < kK; ++k) c = std::fma(static_cast<float>(a[k * 3 + m]), static_cast<float>(b[k * 2 + n]), c);
      EXPECT_EQ(v[m * 2 + n], static_cast<double>(c));
    }
  }
}

TEST(Matmul, Bf16SumsEvenAndOddProductsPerBlockOf32) {
  constexpr size_t kK = 70;
  std::vector<double> a, b;
  for (size_t k = 0; k < kK; ++k) {
    a.push_back(bf16_to_f32(f32_to_bf16(static_cast<float>(std::sin(static_cast<double>(k)) * (k % 9 == 0 ? 1e4 : 1)))));
    b.push_back(bf16_to_f32(f32_to_bf16(static_cast<float>(std::cos(static_cast<double>(k))))));
  }
  float c = 0;
  for (size_t block = 0; block < kK; block += 32) {
    float chain[2] = {0, 0};
    for (size_t k = block; k < std::min(kK, block + 32); ++k)
      chain[k & 1] = std::fma(static_cast<float>(a[k]), static_cast<float>(b[k]), chain[k & 1]);
    c += chain[0] + chain[1];
  }
  const auto v =
      One(Opcode::nc_matmul, Engine::tensor, DType::f32, {{DType::bf16, kK, a}, {DType::bf16, kK, b}}, DType::f32, 1, 1)
          .values();
  EXPECT_EQ(v[0], static_cast<double>(c));
}

TEST(Matmul, Bf16FlushesDenormals) {
  const auto v = One(Opcode::nc_matmul, Engine::tensor, DType::f32, {{DType::bf16, 1, {1e-39}}, {DType::bf16, 1, {1e10}}},
                     DType::f32, 1, 1)
                     .values();
  EXPECT_EQ(v[0], 0);
}

TEST(Matmul, IntegersAreExactAndWrapIntoNarrowDestinations) {
  const auto v = One(Opcode::nc_matmul, Engine::gpsimd, DType::i64,
                     {{DType::i64, 2, {3000000000.0, 1}}, {DType::i64, 2, {2, 5}}}, DType::i32, 1, 1)
                     .values();
  EXPECT_EQ(v[0], static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(6000000005u % 4294967296u))));
}

TEST(Transpose, MovesBitsOfAnyType) {
  expect_same(
      One(Opcode::nc_transpose, Engine::tensor, DType::f32, {{DType::bf16, 2, {1, 2, 3, 4, 5, 6}}}, DType::bf16, 3, 2)
          .values(),
      {1, 4, 2, 5, 3, 6});
  expect_same(One(Opcode::nc_transpose, Engine::gpsimd, DType::f32, {{DType::i64, 2, {1, 2, 3, 4, 5, 6}}}, DType::i64, 3, 2)
                  .values(),
              {1, 4, 2, 5, 3, 6});
}

TEST(ScatterReduce, AddsDuplicatesInOrder) {
  SmallProgram p;
  isa::Access out = p.tensor("out", TensorRole::output, DType::f32, 3, 1);
  const isa::Access index = p.tensor("index", TensorRole::input, DType::i32, 4, 1),
                    values = p.tensor("values", TensorRole::input, DType::f32, 4, 1);
  const isa::Access ti = p.tile(DType::i32, 4, 1), tv = p.tile(DType::f32, 4, 1);
  p.dma(ti, index);
  p.dma(tv, values);
  out.partitions = 4;
  out.partition_stride = 0;
  out.dims[0] = {1, 0};
  Instruction& i = p.add(Opcode::scatter_reduce, Engine::gpsimd);
  i.op0 = AluOp::add;
  i.dst = out;
  i.src0 = tv;
  i.index = ti;
  i.index_stride = 4;
  i.index_bound = 3;
  ASSERT_TRUE(isa::validate(p.program).ok()) << isa::validate(p.program).message();
  ThreadPool pool(1);
  auto made = make_interpreter(std::make_shared<const isa::Program>(p.program));
  const auto execute = [&](std::vector<double> indices) {
    return run(**made, p.program,
               {pack({DType::f32, 3, {10, 20, 30}}), pack({DType::i32, 4, std::move(indices)}),
                pack({DType::f32, 4, {1, 2, 3, 4}})},
               pool);
  };
  const Outcome o = execute({2, 0, 2, 2});
  float got[3];
  std::memcpy(got, o.buffers[0].data(), sizeof got);
  EXPECT_EQ(got[0], 12);
  EXPECT_EQ(got[1], 20);
  EXPECT_EQ(got[2], 38);
  const Outcome bad = execute({2, 0, 3, 2});
  EXPECT_EQ(bad.status.code(), Code::out_of_range);
  EXPECT_EQ(bad.out_of_range.index, 3);
  EXPECT_EQ(bad.out_of_range.bound, 3);
  EXPECT_EQ(bad.out_of_range.label, "test");
}

TEST(Schedule, AMissingSemaphoreShowsInSomeShuffledOrder) {
  // One queue writes a tile, another reads it: with a wait every order agrees, without it some order reads too early.
  for (bool with_wait : {true, false}) {
    SmallProgram p;
    const isa::Access in = p.tensor("in", TensorRole::input, DType::f32, 1, 4),
                      out = p.tensor("out", TensorRole::output, DType::f32, 1, 4);
    const isa::Access t = p.tile(DType::f32, 1, 4);
    p.program.semaphores = 2;
    Instruction& load = p.dma(t, in);
    load.signal = 0;
    load.queue = 1;
    Instruction& twice = p.add(Opcode::tensor_tensor, Engine::vector);
    twice.op0 = AluOp::add;
    twice.dst = twice.src0 = twice.src1 = t;
    twice.signal = 1;
    if (with_wait) twice.waits.push_back({0, 1, {}});
    Instruction& store = p.dma(out, t);
    store.queue = 2;
    store.waits.push_back({1, 1, {}});
    auto program = std::make_shared<const isa::Program>(p.program);
    const Buffers initial = {pack({DType::f32, 1, {1, 2, 3, 4}}), std::vector<uint8_t>(16)};
    ThreadPool pool(1);
    const Outcome expected = run(**make_interpreter(program), *program, initial, pool);
    int different = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      different += difference(*program, expected, run(**make_interpreter(program, {seed}), *program, initial, pool)) != "";
    }
    if (with_wait)
      EXPECT_EQ(different, 0);
    else
      EXPECT_GT(different, 0);
  }
}

TEST(Schedule, AWaitThatNothingSignalsIsADeadlockNamingTheInstruction) {
  SmallProgram p;
  const isa::Access in = p.tensor("in", TensorRole::input, DType::f32, 1, 4);
  const isa::Access t = p.tile(DType::f32, 1, 4);
  p.program.semaphores = 1;
  Instruction& load = p.dma(t, in);
  load.waits.push_back({0, 1, {}});
  load.signal = 0;
  ThreadPool pool(1);
  auto program = std::make_shared<const isa::Program>(p.program);
  for (auto& made : {make_interpreter(program), make_interpreter(program, {3})}) {
    const Outcome o = run(*made.value(), *program, {std::vector<uint8_t>(16)}, pool);
    EXPECT_EQ(o.status.code(), Code::invalid_argument);
    EXPECT_NE(o.status.message().find("instruction 0 (dma_copy"), std::string::npos) << o.status.message();
  }
}

TEST(Tiles, RotateWithTheirLoopAndStartPoisoned) {
  SmallProgram p;
  isa::Access in = p.tensor("in", TensorRole::input, DType::f32, 1, 3);
  const isa::Access out = p.tensor("out", TensorRole::output, DType::f32, 1, 1);
  const isa::Access t = p.tile(DType::f32, 1, 1, isa::Space::sbuf, 3), unwritten = p.tile(DType::f32, 1, 1);
  in.rank = 0;
  in.loop_step[0] = 4;
  p.loop(3);
  p.dma(t, in);
  p.end();
  p.dma(out, unwritten);
  ThreadPool pool(1);
  auto program = std::make_shared<const isa::Program>(p.program);
  const Outcome o =
      run(**make_interpreter(program), *program, {pack({DType::f32, 1, {5, 6, 7}}), std::vector<uint8_t>(4)}, pool);
  uint32_t bits = 0;
  std::memcpy(&bits, o.buffers[1].data(), 4);
  EXPECT_EQ(bits, 0xffffffffu);
}

// Without a definition an operation gives 0, a function of f64 or complex values NaN, whatever it gets.
template <class T>
bool has_definition(AluOp op) {
  bool ignored = false;
  for (auto [a, b] : {std::pair{6, 4}, {4, 6}, {6, 6}, {6, 0}, {48, 2}}) {
    if (apply(op, T(a), T(b), &ignored) != T(0)) return true;
  }
  return false;
}
template <class T>
bool has_definition(ActFn function) {
  for (double x : {0.5, 1.5}) {
    const T y = apply_function(function, T(x));
    if (y == y) return true;
  }
  return false;
}

template <class T>
void expect_definitions_of_the_table(DType t) {
  for (int o = 0; o < static_cast<int>(AluOp::count_); ++o) {
    const AluOp op = static_cast<AluOp>(o);
    const bool defined = isa::alu_defined_for(op, t);
    EXPECT_EQ(defined, has_definition<T>(op)) << isa::name_of(op) << " " << neuron::name_of(t);
    if (!defined || !isa::info(op).reduces) continue;
    bool ignored = false;
    for (int x : {0, 1}) {
      EXPECT_EQ(apply(op, reduction_identity<T>(op), T(x), &ignored), T(x)) << isa::name_of(op) << " " << neuron::name_of(t);
    }
  }
  if (t == DType::f32 || is_integer(t)) return;  // an undefined function gives its argument
  for (int f = 0; f < static_cast<int>(ActFn::count_); ++f) {
    const ActFn function = static_cast<ActFn>(f);
    EXPECT_EQ(isa::act_defined_for(function, t), has_definition<T>(function))
        << isa::name_of(function) << " " << neuron::name_of(t);
  }
}

TEST(Definitions, CoverEverythingThatTheInstructionTableAllows) {
  expect_definitions_of_the_table<float>(DType::f32);
  expect_definitions_of_the_table<double>(DType::f64);
  expect_definitions_of_the_table<int64_t>(DType::i64);
  expect_definitions_of_the_table<uint64_t>(DType::u64);
  expect_definitions_of_the_table<c64>(DType::c64);
  expect_definitions_of_the_table<c128>(DType::c128);
}

TEST(WideFunctions, AreAccurateWhereLibmHasNone) {
  for (double y : {1e-10, 0.1, 0.5, -0.9, 0.999999, 1 - 1e-15}) {
    const double x = f64_function(ActFn::erf_inv, y);
    const double back = std::fabs(y) < 0.5 ? std::erf(x) : 1 - std::erfc(std::fabs(x));
    EXPECT_NEAR(back, std::fabs(y) < 0.5 ? y : std::fabs(y), 4e-16) << y;
  }
  EXPECT_EQ(f64_function(ActFn::erf_inv, 1), kInf);
  EXPECT_TRUE(std::isnan(f64_function(ActFn::erf_inv, 1.5)));
  EXPECT_NEAR(f64_function(ActFn::digamma, 1), -0.57721566490153286, 1e-15);
  EXPECT_NEAR(f64_function(ActFn::digamma, -0.5), 0.036489973978576520, 1e-14);
  EXPECT_NEAR(f64_function(ActFn::digamma, 30.5), 3.401243668961661, 1e-14);
  EXPECT_TRUE(std::isnan(f64_function(ActFn::digamma, -3)));
  EXPECT_EQ(f64_function(ActFn::sigmoid, -1000), 0);
  EXPECT_EQ(f64_function(ActFn::softplus, 1000), 1000);
}

}  // namespace
}  // namespace neuron::emulator::testing
