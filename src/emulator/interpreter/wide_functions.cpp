#include "emulator/interpreter/wide_functions.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "emulator/kernels/scalar_functions.h"

namespace neuron::emulator {
namespace {

using isa::ActFn;

constexpr double kPi = std::numbers::pi;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Winitzki's closed form as a start, then Newton steps on erf: full f64 accuracy inside (-1, 1).
double inverse_erf(double y) {
  if (!(y > -1 && y < 1)) return y == 1 ? kInfinity : y == -1 ? -kInfinity : kNaN;
  if (y == 0) return y;
  constexpr double a = 0.147;
  const double magnitude = std::fabs(y);
  const double l = std::log1p(-magnitude * magnitude);
  const double b = 2 / (kPi * a) + l / 2;
  double x = std::sqrt(std::sqrt(b * b - l / a) - b);
  for (int i = 0; i < 4; ++i) {  // Halley's step on erfc for values near 1, where erf has no digits left
    const double error = magnitude < 0.5 ? std::erf(x) - magnitude : (1 - magnitude) - std::erfc(x);
    const double slope = 2 * std::numbers::inv_sqrtpi * std::exp(-x * x);
    if (slope == 0) break;
    const double step = error / slope;
    x -= step / (1 + x * step);
  }
  return std::copysign(x, y);
}

double digamma(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x == -kInfinity) return kNaN;
  double shift = 0;
  if (x < 0) {
    double whole;
    const double fraction = std::modf(x, &whole);
    if (fraction == 0) return kNaN;
    shift = -kPi / std::tan(kPi * fraction);  // reflection: psi(x) = psi(1-x) - pi/tan(pi x)
    x = 1 - x;
  }
  while (x < 10) {
    shift -= 1 / x;
    x += 1;
  }
  if (x == kInfinity) return kInfinity;
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return shift + (std::log(x) - 0.5 / x - series);
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

double gelu_dx(double x) {
  const double cdf = 0.5 * (1 + std::erf(x * (std::numbers::sqrt2 / 2)));
  const double pdf = std::exp(-0.5 * x * x) * (0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  return cdf + x * pdf;
}

constexpr double kGeluBeta = 0.79788456080286535588;  // sqrt(2/pi)
constexpr double kGeluKappa = 0.044715;

double gelu_tanh_dx(double x) {
  const double t = std::tanh(kGeluBeta * (x + kGeluKappa * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluBeta * (1 + 3 * kGeluKappa * x * x);
}

// The functions that only f64 has, or computes in a way of its own.
double own_function(ActFn function, double x) {
  switch (function) {
    case ActFn::relu:
      return x != x || x > 0 ? x : 0;
    case ActFn::sigmoid:
      return logistic(x);
    case ActFn::silu:
      return x == -kInfinity ? -0.0 : x / (1 + std::exp(-x));
    case ActFn::silu_dx: {
      if (std::isinf(x)) return x > 0 ? 1 : 0;
      const double s = logistic(x);
      return s * (1 + x * (1 - s));
    }
    case ActFn::gelu:
      return x == -kInfinity ? -0.0 : 0.5 * x * (1 + std::erf(x * (std::numbers::sqrt2 / 2)));
    case ActFn::gelu_dx:
      return gelu_dx(x);
    case ActFn::gelu_apprx_tanh:
      return x == -kInfinity ? -0.0 : 0.5 * x * (1 + std::tanh(kGeluBeta * (x + kGeluKappa * x * x * x)));
    case ActFn::gelu_apprx_tanh_dx:
      return gelu_tanh_dx(x);
    case ActFn::softplus:
      return std::isnan(x) ? x : softplus(x);
    case ActFn::mish:
      return x == -kInfinity ? -0.0 : x * std::tanh(softplus(x));
    case ActFn::log_sigmoid:
      return std::isnan(x) ? x : std::fmin(x, 0) - std::log1p(std::exp(-std::fabs(x)));
    case ActFn::erf:
      return std::erf(x);
    case ActFn::erfc:
      return std::erfc(x);
    case ActFn::erf_inv:
      return inverse_erf(x);
    case ActFn::lgamma: {
      int sign = 0;
      return x == -kInfinity ? kInfinity : ::lgamma_r(x, &sign);
    }
    case ActFn::digamma:
      return digamma(x);
    case ActFn::floor:
      return std::floor(x);
    case ActFn::ceil:
      return std::ceil(x);
    case ActFn::trunc:
      return std::trunc(x);
    case ActFn::round:
      return std::nearbyint(x);
    case ActFn::is_nan:
      return std::isnan(x);
    case ActFn::is_inf:
      return std::isinf(x);
    case ActFn::is_finite:
      return std::isfinite(x);
    case ActFn::logical_not:
      return x == 0;
    case ActFn::real:
    case ActFn::conj:
      return x;
    case ActFn::imag:
      return 0;
    case ActFn::angle:
      return std::isnan(x) ? x : (x < 0 ? kPi : 0);
    default:
      return kNaN;
  }
}

template <class T>
T integer_function_of(ActFn function, T x) {
  const uint64_t bits = static_cast<uint64_t>(x);
  switch (function) {
    case ActFn::negative:
      return static_cast<T>(0 - bits);
    case ActFn::abs:
      return x < 0 ? static_cast<T>(0 - bits) : x;
    case ActFn::sign:
      return static_cast<T>((x > 0) - (x < 0));
    case ActFn::square:
      return static_cast<T>(bits * bits);
    case ActFn::relu:
      return x > 0 ? x : 0;
    case ActFn::is_nan:
    case ActFn::is_inf:
    case ActFn::imag:
      return 0;
    case ActFn::is_finite:
      return 1;
    case ActFn::logical_not:
      return x == 0;
    case ActFn::bitwise_not:
      return static_cast<T>(~bits);
    case ActFn::population_count:
      return static_cast<T>(std::popcount(bits));
    default:
      return x;  // copy, roundings, real, conj
  }
}

c128 complex_division(c128 a, c128 b) {
  // Scales by the larger part of b (Smith), so that no intermediate overflows when the quotient does not.
  if (std::fabs(b.real()) >= std::fabs(b.imag())) {
    if (b.real() == 0 && b.imag() == 0) return {a.real() / std::fabs(b.real()), a.imag() / std::fabs(b.imag())};
    const double ratio = b.imag() / b.real();
    const double scale = 1 / (b.real() + b.imag() * ratio);
    return {(a.real() + a.imag() * ratio) * scale, (a.imag() - a.real() * ratio) * scale};
  }
  const double ratio = b.real() / b.imag();
  const double scale = 1 / (b.real() * ratio + b.imag());
  return {(a.real() * ratio + a.imag()) * scale, (a.imag() * ratio - a.real()) * scale};
}

// The same for complex values.
c128 own_function(ActFn function, c128 x) {
  switch (function) {
    case ActFn::sigmoid:
      return complex_division({1, 0}, c128(1, 0) + std::exp(-x));
    case ActFn::silu:
      return complex_division(x, c128(1, 0) + std::exp(-x));
    case ActFn::is_nan:
      return {std::isnan(x.real()) || std::isnan(x.imag()) ? 1.0 : 0.0, 0};
    case ActFn::is_inf:
      return {std::isinf(x.real()) || std::isinf(x.imag()) ? 1.0 : 0.0, 0};
    case ActFn::is_finite:
      return {std::isfinite(x.real()) && std::isfinite(x.imag()) ? 1.0 : 0.0, 0};
    case ActFn::logical_not:
      return {x == c128(0, 0) ? 1.0 : 0.0, 0};
    case ActFn::real:
      return {x.real(), 0};
    case ActFn::imag:
      return {x.imag(), 0};
    case ActFn::conj:
      return std::conj(x);
    case ActFn::angle:
      return {std::arg(x), 0};
    default:
      return {kNaN, kNaN};
  }
}

// What both types have, where <cmath> and <complex> have no common name for it.
double sign(double x) { return x != x ? x : (x > 0) - (x < 0); }
c128 sign(c128 x) {
  const double size = std::abs(x);
  return size == 0 ? c128(0, 0) : c128(x.real() / size, x.imag() / size);
}
double square(double x) { return x * x; }
c128 square(c128 x) { return {x.real() * x.real() - x.imag() * x.imag(), x.real() * x.imag() + x.imag() * x.real()}; }
double reciprocal(double x) { return 1 / x; }
c128 reciprocal(c128 x) { return complex_division({1, 0}, x); }
double exp2(double x) { return std::exp2(x); }
c128 exp2(c128 x) { return std::exp(x * std::numbers::ln2); }
double expm1(double x) { return std::expm1(x); }
c128 expm1(c128 x) {
  const double a = std::sin(x.imag() / 2), e = std::exp(x.real());
  return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * a * a, e * std::sin(x.imag())};
}
double log2(double x) { return std::log2(x); }
c128 log2(c128 x) { return std::log(x) / std::numbers::ln2; }
double log1p(double x) { return std::log1p(x); }
c128 log1p(c128 x) { return std::log(c128(1 + x.real(), x.imag())); }

template <class T>
T function_of(ActFn function, T x) {
  switch (function) {
    case ActFn::copy:
      return x;
    case ActFn::negative:
      return -x;
    case ActFn::abs:
      return std::abs(x);
    case ActFn::sign:
      return sign(x);
    case ActFn::square:
      return square(x);
    case ActFn::sqrt:
      return std::sqrt(x);
    case ActFn::rsqrt:
      return reciprocal(std::sqrt(x));
    case ActFn::reciprocal:
      return reciprocal(x);
    case ActFn::exp:
      return std::exp(x);
    case ActFn::exp2:
      return exp2(x);
    case ActFn::expm1:
      return expm1(x);
    case ActFn::log:
      return std::log(x);
    case ActFn::log2:
      return log2(x);
    case ActFn::log10:
      return std::log10(x);
    case ActFn::log1p:
      return log1p(x);
    case ActFn::sin:
      return std::sin(x);
    case ActFn::cos:
      return std::cos(x);
    case ActFn::tan:
      return std::tan(x);
    case ActFn::asin:
      return std::asin(x);
    case ActFn::acos:
      return std::acos(x);
    case ActFn::atan:
      return std::atan(x);
    case ActFn::sinh:
      return std::sinh(x);
    case ActFn::cosh:
      return std::cosh(x);
    case ActFn::tanh:
      return std::tanh(x);
    case ActFn::asinh:
      return std::asinh(x);
    case ActFn::acosh:
      return std::acosh(x);
    case ActFn::atanh:
      return std::atanh(x);
    default:
      return own_function(function, x);
  }
}

c128 widen(c64 x) { return {x.real(), x.imag()}; }
c64 narrow(c128 x) { return {static_cast<float>(x.real()), static_cast<float>(x.imag())}; }

}  // namespace

double f64_function(ActFn function, double x) { return function_of(function, x); }
int64_t integer_function(ActFn function, int64_t x) { return integer_function_of(function, x); }
uint64_t integer_function(ActFn function, uint64_t x) { return integer_function_of(function, x); }
c128 complex_function(ActFn function, c128 x) { return function_of(function, x); }
c64 complex_function(ActFn function, c64 x) { return narrow(function_of(function, widen(x))); }
c128 complex_divide(c128 a, c128 b) { return complex_division(a, b); }
c64 complex_divide(c64 a, c64 b) { return narrow(complex_division(widen(a), widen(b))); }

c128 complex_power(c128 a, c128 b) {
  if (b == c128(0, 0)) return {1, 0};
  if (a == c128(0, 0)) return b.real() > 0 ? c128(0, 0) : c128(kInfinity, kNaN);
  return std::pow(a, b);
}
c64 complex_power(c64 a, c64 b) { return narrow(complex_power(widen(a), widen(b))); }

}  // namespace neuron::emulator
