#include "emulator/kernels/scalar_functions.h"

#include <cmath>

#include "emulator/kernels/functions.h"

namespace neuron::emulator {

namespace functions {
float sin_large(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
float cos_large(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
}  // namespace functions

float f32_function(isa::ActFn function, float value) {
  using isa::ActFn;
  namespace fn = functions;
  using scalar::Lane;
  const Lane x = Lane::set(value);
  // clang-format off
  switch (function) {
    case ActFn::copy: case ActFn::real: case ActFn::conj: case ActFn::bitwise_not: case ActFn::population_count:
    case ActFn::count_:
      return value;
    case ActFn::negative: return -value;
    case ActFn::abs: return std::fabs(value);
    case ActFn::sign: return fn::sign(x).v[0];
    case ActFn::square: return value * value;
    case ActFn::relu: return max(x, Lane::set(0.0f)).v[0];
    case ActFn::sqrt: return std::sqrt(value);
    case ActFn::rsqrt: return fn::rsqrt(x).v[0];
    case ActFn::reciprocal: return 1.0f / value;
    case ActFn::exp: return fn::exp(x).v[0];
    case ActFn::exp2: return fn::exp2(x).v[0];
    case ActFn::expm1: return fn::expm1(x).v[0];
    case ActFn::log: return fn::log(x).v[0];
    case ActFn::log2: return fn::log2(x).v[0];
    case ActFn::log10: return fn::log10(x).v[0];
    case ActFn::log1p: return fn::log1p(x).v[0];
    case ActFn::sin: return fn::sin(x).v[0];
    case ActFn::cos: return fn::cos(x).v[0];
    case ActFn::tanh: return fn::tanh(x).v[0];
    case ActFn::sigmoid: return fn::sigmoid(x).v[0];
    case ActFn::silu: return fn::silu(x).v[0];
    case ActFn::silu_dx: return fn::silu_dx(x).v[0];
    case ActFn::gelu: return fn::gelu(x).v[0];
    case ActFn::gelu_dx: return fn::gelu_dx(x).v[0];
    case ActFn::gelu_apprx_tanh: return fn::gelu_apprx_tanh(x).v[0];
    case ActFn::gelu_apprx_tanh_dx: return fn::gelu_apprx_tanh_dx(x).v[0];
    case ActFn::softplus: return fn::softplus(x).v[0];
    case ActFn::mish: return fn::mish(x).v[0];
    case ActFn::log_sigmoid: return fn::log_sigmoid(x).v[0];
    case ActFn::erf: return fn::erf(x).v[0];
    case ActFn::floor: return std::floor(value);
    case ActFn::ceil: return std::ceil(value);
    case ActFn::trunc: return std::trunc(value);
    case ActFn::round: return round_even(x).v[0];
    case ActFn::is_nan: return value != value;
    case ActFn::is_inf: return std::isinf(value);
    case ActFn::is_finite: return std::isfinite(value);
    case ActFn::logical_not: return value == 0;
    case ActFn::imag: return 0;
    case ActFn::tan: case ActFn::asin: case ActFn::acos: case ActFn::atan: case ActFn::sinh: case ActFn::cosh:
    case ActFn::asinh: case ActFn::acosh: case ActFn::atanh: case ActFn::erfc: case ActFn::erf_inv: case ActFn::lgamma:
    case ActFn::digamma: case ActFn::angle:
      return static_cast<float>(f64_function(function, static_cast<double>(value)));
  }
  // clang-format on
  return value;
}

float f32_power(float base, float exponent) {
  return static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
}
float f32_atan2(float y, float x) { return static_cast<float>(std::atan2(static_cast<double>(y), static_cast<double>(x))); }

}  // namespace neuron::emulator
