// The f32 functions against double libm, and every host level against the scalar definition.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "emulator/interpreter/scalar_operations.h"
#include "emulator/kernels/kernel_table.h"
#include "emulator/kernels/scalar_functions.h"

namespace neuron::emulator {
namespace {

using isa::ActFn;

// Values of every size, and the special ones.
std::vector<float> arguments() {
  std::vector<float> x = {0.0f,     -0.0f,           1.0f,          -1.0f,          INFINITY, -INFINITY, NAN,     1e-45f,
                          -1e-45f,  1.17549435e-38f, 3.4028235e38f, -3.4028235e38f, 0.5f,     2.0f,      10.0f,   88.7f,
                          88.8f,    -87.4f,          -103.9f,       -104.1f,        128.0f,   -149.0f,   -150.0f, 65536.0f,
                          65537.0f, 1e10f,           0.925f};
  std::mt19937 random(11);
  std::uniform_int_distribution<uint32_t> any;
  for (int i = 0; i < 20000; ++i) x.push_back(std::bit_cast<float>(any(random)));
  std::uniform_real_distribution<float> small(-1.5f, 1.5f), middle(-12.0f, 12.0f), large(-110.0f, 110.0f),
      huge(-70000.0f, 70000.0f);
  for (int i = 0; i < 20000; ++i) {
    x.push_back(small(random));
    x.push_back(middle(random));
    x.push_back(large(random));
    x.push_back(huge(random));
  }
  return x;
}

double ulp_of(double exact) {
  const float f = static_cast<float>(std::fabs(exact));
  if (!(f < 3.4e38f)) return 2e31;
  return static_cast<double>(std::nextafter(f, INFINITY)) - f;
}

// Largest error in ulp of the exact result, allowing `absolute` besides.
void expect_close(ActFn f, double bound, double absolute = 0) {
  for (float x : arguments()) {
    const float got = f32_function(f, x);
    const double exact = f64_function(f, static_cast<double>(x));
    const float rounded = static_cast<float>(exact);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(got)) << "function " << static_cast<int>(f) << " of " << x << " gave " << got;
    } else if (std::isinf(rounded)) {
      ASSERT_TRUE(got == rounded || std::fabs(got) > 3.40282e38f)
          << "function " << static_cast<int>(f) << " of " << x << " gave " << got;
    } else {
      const double error = std::fabs(static_cast<double>(got) - exact);
      ASSERT_LE(error, bound * ulp_of(exact) + absolute)
          << "function " << static_cast<int>(f) << " of " << x << " gave " << got << ", exact " << exact;
    }
  }
}

TEST(Functions, ExponentialsAreWithinThreeUlp) {
  expect_close(ActFn::exp, 2);
  expect_close(ActFn::exp2, 2);
  expect_close(ActFn::expm1, 3);
}
TEST(Functions, LogarithmsAreWithinThreeUlp) {
  expect_close(ActFn::log, 2);
  expect_close(ActFn::log2, 2);
  expect_close(ActFn::log10, 2.5);
  expect_close(ActFn::log1p, 3);
}
TEST(Functions, SineAndCosineAreWithinTwoUlpForArgumentsOfAnySize) {
  expect_close(ActFn::sin, 2);
  expect_close(ActFn::cos, 2);
}
TEST(Functions, TanhErfAndSigmoidAreWithinThreeUlp) {
  expect_close(ActFn::tanh, 3);
  expect_close(ActFn::erf, 2);
  expect_close(ActFn::sigmoid, 3, 1.2e-38);
}
TEST(Functions, ActivationsAreCloseWhereTheyDoNotCancel) {
  // gelu and its derivatives lose relative accuracy where 1 + erf cancels, as PyTorch's do: bounded against the argument.
  for (ActFn f : {ActFn::gelu, ActFn::gelu_apprx_tanh, ActFn::silu, ActFn::mish, ActFn::softplus, ActFn::log_sigmoid,
                  ActFn::gelu_dx, ActFn::gelu_apprx_tanh_dx, ActFn::silu_dx}) {
    for (float x : arguments()) {
      if (!(std::fabs(x) < 80.0f)) continue;
      const double exact = f64_function(f, static_cast<double>(x));
      const double got = f32_function(f, x);
      EXPECT_LE(std::fabs(got - exact), 4 * ulp_of(exact) + 3e-7 * (1 + std::fabs(x)))
          << "function " << static_cast<int>(f) << " of " << x;
    }
  }
}
TEST(Functions, KeepNaN) {
  for (int f = 0; f < static_cast<int>(ActFn::count_); ++f) {
    const ActFn function = static_cast<ActFn>(f);
    if (function == ActFn::is_nan || function == ActFn::is_inf || function == ActFn::is_finite ||
        function == ActFn::logical_not || function == ActFn::imag) {
      continue;
    }
    EXPECT_TRUE(std::isnan(f32_function(function, NAN))) << f;
  }
}
TEST(Functions, RoundHalfToEven) {
  EXPECT_EQ(f32_function(ActFn::round, 2.5f), 2.0f);
  EXPECT_EQ(f32_function(ActFn::round, -1.5f), -2.0f);
}

bool same(float a, float b) { return std::memcmp(&a, &b, 4) == 0 || (std::isnan(a) && std::isnan(b)); }

class Level : public ::testing::TestWithParam<const char*> {};

TEST_P(Level, FunctionsHaveTheScalarBits) {
  const Kernels* k = kernels_of(GetParam());
  if (!k) GTEST_SKIP() << "this host has no " << GetParam();
  const std::vector<float> x = arguments();
  std::vector<float> y(x.size());
  alignas(64) float scale[16], bias[16];
  std::fill(scale, scale + 16, 0.7f);
  std::fill(bias, bias + 16, -0.3f);
  for (int f = 0; f < static_cast<int>(ActFn::count_); ++f) {
    if (!k->function[f]) continue;
    k->function[f](y.data(), x.data(), x.data(), x.data(), 1, 1, 1, x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const float expected = f32_function(static_cast<ActFn>(f), x[i]);
      ASSERT_TRUE(same(y[i], expected)) << "function " << f << " of " << x[i] << ": " << y[i] << ", scalar " << expected;
    }
    k->function_affine[f](y.data(), x.data(), scale, bias, 1, 0, 0, x.size());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(same(y[i], f32_function(static_cast<ActFn>(f), std::fma(x[i], 0.7f, -0.3f))))
          << "affine function " << f << " of " << x[i];
  }
}

TEST_P(Level, OperationsHaveTheScalarBits) {
  const Kernels* k = kernels_of(GetParam());
  if (!k) GTEST_SKIP() << "this host has no " << GetParam();
  const std::vector<float> x = arguments();
  std::vector<float> y(x.rbegin(), x.rend()), d(x.size());
  bool zero = false;
  for (int op = 0; op < static_cast<int>(isa::AluOp::count_); ++op) {
    if (!k->alu[op]) continue;
    k->alu[op](d.data(), x.data(), y.data(), x.data(), 1, 1, 1, x.size());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_TRUE(same(d[i], apply<float>(static_cast<isa::AluOp>(op), x[i], y[i], &zero)))
          << "op " << op << " of " << x[i] << ", " << y[i];
  }
}

TEST_P(Level, ConversionsHaveTheScalarBits) {
  const Kernels* k = kernels_of(GetParam());
  if (!k) GTEST_SKIP() << "this host has no " << GetParam();
  const std::vector<float> x = arguments();
  for (int t = 0; t < kDTypeCount; ++t) {
    const DType type = static_cast<DType>(t);
    if (!k->store[t]) continue;
    const size_t size = size_of(type);
    std::vector<uint8_t> stored(x.size() * size), expected(x.size() * size);
    std::vector<float> back(x.size());
    k->store[t](stored.data(), x.data(), x.size());
    k->load[t](back.data(), stored.data(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      store_element<float>(type, &expected[i * size], x[i]);
      const bool nan = std::isnan(x[i]) && is_floating(type);
      ASSERT_TRUE(nan || std::memcmp(&stored[i * size], &expected[i * size], size) == 0) << name_of(type) << " of " << x[i];
      ASSERT_TRUE(same(back[i], load_element<float>(type, &stored[i * size]))) << name_of(type) << " back from " << x[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Level, ::testing::Values("scalar", "avx2", "avx512", "amx"));

}  // namespace
}  // namespace neuron::emulator
