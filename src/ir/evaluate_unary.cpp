// Unary operators.
#include <bit>
#include <cmath>
#include <numbers>

#include "ir/evaluate.h"

namespace neuron::ir {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Newton steps on erf from Giles' single-precision starting value.
double erf_inv(double x) {
  if (std::isnan(x) || std::abs(x) > 1) return kNan;
  if (std::abs(x) == 1) return std::copysign(kInf, x);
  double w = -std::log((1 - x) * (1 + x)), y;
  if (w < 5) {
    w -= 2.5;
    y = 1.50140941 + w * (0.246640727 + w * (-0.00417768164 + w * (-0.00125372503 + w * 0.000218580870)));
  } else {
    w = std::sqrt(w) - 3;
    y = 2.83297682 + w * (1.00167406 + w * (0.00943887047 + w * (-0.00761699 + w * 0.00573950773)));
  }
  y *= x;
  for (int step = 0; step < 12; ++step) {
    // erfc keeps its digits where erf is close to 1.
    const double error =
        std::abs(y) < 1 ? std::erf(y) - x : std::copysign(1, y) * ((1 - std::abs(x)) - std::erfc(std::abs(y)));
    y -= error / (2 / std::sqrt(kPi) * std::exp(-y * y));
  }
  return y;
}

// Recurrence up to 10, then the asymptotic series; reflection for negative numbers. Poles: infinite at 0, NaN below.
double digamma(double x) {
  if (x == 0) return std::copysign(kInf, -x);
  if (x < 0) {
    if (x == std::floor(x)) return kNan;
    return digamma(1 - x) - kPi / std::tan(kPi * (x - std::floor(x)));
  }
  if (std::isinf(x)) return x;
  double result = 0;
  for (; x < 10; x += 1) result -= 1 / x;
  const double r = 1 / (x * x);
  const double series =
      r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760 - r / 12))))));
  return result + std::log(x) - 0.5 / x - series;
}

double unary_float(Op op, double x) {
  switch (op) {
    case Op::negate:
      return -x;
    case Op::abs:
      return std::abs(x);
    case Op::sign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case Op::exponential:
      return std::exp(x);
    case Op::exponential_minus_one:
      return std::expm1(x);
    case Op::log:
      return std::log(x);
    case Op::log_plus_one:
      return std::log1p(x);
    case Op::logistic:
      return 1 / (1 + std::exp(-x));
    case Op::sqrt:
      return std::sqrt(x);
    case Op::rsqrt:
      return 1 / std::sqrt(x);
    case Op::cbrt:
      return std::cbrt(x);
    case Op::tanh:
      return std::tanh(x);
    case Op::sine:
      return std::sin(x);
    case Op::cosine:
      return std::cos(x);
    case Op::tan:
      return std::tan(x);
    case Op::floor:
      return std::floor(x);
    case Op::ceil:
      return std::ceil(x);
    case Op::round_nearest_even:
      return std::nearbyint(x);
    case Op::round_nearest_afz:
      return std::round(x);
    case Op::trunc:
      return std::trunc(x);
    case Op::erf:
      return std::erf(x);
    case Op::erfc:
      return std::erfc(x);
    case Op::erf_inv:
      return erf_inv(x);
    case Op::lgamma:
      return std::lgamma(x);
    case Op::digamma:
      return digamma(x);
    case Op::exp2:
      return std::exp2(x);
    case Op::log2:
      return std::log2(x);
    case Op::log10:
      return std::log10(x);
    case Op::asin:
      return std::asin(x);
    case Op::acos:
      return std::acos(x);
    case Op::atan:
      return std::atan(x);
    case Op::sinh:
      return std::sinh(x);
    case Op::cosh:
      return std::cosh(x);
    case Op::asinh:
      return std::asinh(x);
    case Op::acosh:
      return std::acosh(x);
    case Op::atanh:
      return std::atanh(x);
    case Op::gelu:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case Op::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
    case Op::gelu_dx:
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) +
             x * std::exp(-0.5 * x * x) * (0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    case Op::gelu_tanh_dx: {
      const double t = std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * x * x);
    }
    case Op::silu:
      return x / (1 + std::exp(-x));
    case Op::softplus_unit:
      return std::fmax(x, 0) + std::log1p(std::exp(-std::abs(x))) + (std::isnan(x) ? x : 0);
    case Op::reciprocal:
      return 1 / x;
    case Op::is_finite:
      return std::isfinite(x);
    case Op::is_nan:
      return std::isnan(x);
    case Op::is_inf:
      return std::isinf(x);
    case Op::angle:
      return std::isnan(x) ? x : x < 0 ? kPi : 0;
    case Op::real:
      return x;
    case Op::imag:
      return 0;
    default:
      return kNan;
  }
}

Complex unary_complex(Op op, Complex z) {
  const double a = z.real(), b = z.imag();
  switch (op) {
    case Op::negate:
      return -z;
    case Op::sign:
      return z == 0.0 ? z : z / std::abs(z);
    case Op::exponential:
      return std::exp(z);
    case Op::exponential_minus_one:
      return {std::expm1(a) * std::cos(b) - 2 * std::sin(b / 2) * std::sin(b / 2), std::exp(a) * std::sin(b)};
    case Op::log:
      return std::log(z);
    case Op::log_plus_one:
      return {0.5 * std::log1p(a * (2 + a) + b * b), std::atan2(b, 1 + a)};
    case Op::logistic:
      return 1.0 / (1.0 + std::exp(-z));
    case Op::sqrt:
      return std::sqrt(z);
    case Op::rsqrt:
      return 1.0 / std::sqrt(z);
    case Op::tanh:
      return std::tanh(z);
    case Op::sine:
      return std::sin(z);
    case Op::cosine:
      return std::cos(z);
    case Op::tan:
      return std::tan(z);
    case Op::exp2:
      return std::exp(z * std::numbers::ln2);
    case Op::log2:
      return std::log(z) / std::numbers::ln2;
    case Op::log10:
      return std::log10(z);
    case Op::asin:
      return std::asin(z);
    case Op::acos:
      return std::acos(z);
    case Op::atan:
      return std::atan(z);
    case Op::sinh:
      return std::sinh(z);
    case Op::cosh:
      return std::cosh(z);
    case Op::asinh:
      return std::asinh(z);
    case Op::acosh:
      return std::acosh(z);
    case Op::atanh:
      return std::atanh(z);
    case Op::silu:
      return z / (1.0 + std::exp(-z));
    case Op::reciprocal:
      return 1.0 / z;
    case Op::conj:
      return std::conj(z);
    default:
      return kNan;
  }
}

double complex_to_real(Op op, Complex z) {
  switch (op) {
    case Op::abs:
      return std::abs(z);
    case Op::real:
      return z.real();
    case Op::imag:
      return z.imag();
    default:
      return std::arg(z);
  }
}

// T is int64_t (bool included) or uint64_t.
template <class T>
T unary_integer(Op op, T x, DType dtype) {
  switch (op) {
    case Op::negate:
      return static_cast<T>(0 - static_cast<uint64_t>(x));
    case Op::abs:
      return x < T{0} ? static_cast<T>(0 - static_cast<uint64_t>(x)) : x;
    case Op::sign:
      return x > T{0} ? 1 : x < T{0} ? static_cast<T>(-1) : 0;
    case Op::not_:
      return dtype == DType::boolean ? T(x == 0) : static_cast<T>(~x);
    default: {  // popcnt, over the element's own bits
      const uint64_t mask = ~uint64_t{0} >> (64 - 8 * size_of(dtype));
      return static_cast<T>(std::popcount(static_cast<uint64_t>(x) & mask));
    }
  }
}

}  // namespace

Status evaluate_unary(NodeCall c) {
  const DType dtype = c.type(0).dtype;
  const Op op = c.node.op;
  with_number(dtype, [&]<class T>(T) {
    const std::vector<T> x = numbers<T>(*c.in[0]);
    for (size_t i = 0; i < x.size(); ++i) {
      if constexpr (std::is_same_v<T, Complex>) {
        if (info(op).form == Form::unary_to_real) {
          store_at(c.out[0], i, complex_to_real(op, x[i]));
        } else {
          store_at(c.out[0], i, unary_complex(op, x[i]));
        }
      } else if constexpr (std::is_same_v<T, double>) {
        store_at(c.out[0], i, unary_float(op, x[i]));
      } else {
        store_at(c.out[0], i, unary_integer(op, x[i], dtype));
      }
    }
  });
  return {};
}

}  // namespace neuron::ir
