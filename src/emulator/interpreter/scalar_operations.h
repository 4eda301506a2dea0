// What AluOp and ActFn compute, one value at a time, for each compute type: the definition that the interpreter runs and
// that the plan may call for whatever it does not vectorise.
#pragma once

#include <cmath>
#include <limits>
#include <numeric>

#include "emulator/interpreter/wide_functions.h"
#include "emulator/kernels/scalar_functions.h"
#include "isa/program.h"

namespace neuron::emulator {

inline float apply_function(isa::ActFn f, float x) { return f32_function(f, x); }
inline double apply_function(isa::ActFn f, double x) { return f64_function(f, x); }
inline int64_t apply_function(isa::ActFn f, int64_t x) { return integer_function(f, x); }
inline uint64_t apply_function(isa::ActFn f, uint64_t x) { return integer_function(f, x); }
inline c64 apply_function(isa::ActFn f, c64 x) { return complex_function(f, x); }
inline c128 apply_function(isa::ActFn f, c128 x) { return complex_function(f, x); }

// a*b + c: one rounding for real floats, two for complex, wrapping for integers.
template <class T>
T multiply_add(T a, T b, T c) {
  if constexpr (kIsFloating<T>)
    return std::fma(a, b, c);
  else if constexpr (kIsComplex<T>)
    return T(a.real() * b.real() - a.imag() * b.imag() + c.real(), a.real() * b.imag() + a.imag() * b.real() + c.imag());
  else
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
}

template <class T>
T floating_remainder(T a, T b) {
  T r = std::fmod(a, b);
  if (r != 0 && (b < 0) != (r < 0)) r += b;
  return r;
}

// Rounds the exact quotient down without the error of dividing first (the algorithm PyTorch and Python use).
template <class T>
T floating_floor_divide(T a, T b) {
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T quotient = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  T floor = std::floor(quotient);
  if (quotient - floor > T(0.5)) floor += 1;
  return floor;
}

inline float hypotenuse(float a, float b) {
  if (std::isinf(a) || std::isinf(b)) return std::numeric_limits<float>::infinity();
  return static_cast<float>(std::sqrt(static_cast<double>(a) * a + static_cast<double>(b) * b));
}
inline double hypotenuse(double a, double b) { return std::hypot(a, b); }

template <class T>
T integer_power(T base, T exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == static_cast<T>(-1)) return (exponent & 1) ? static_cast<T>(-1) : 1;
    return 0;
  }
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e; e >>= 1) {
    if (e & 1) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

template <class T>
T greatest_common_divisor(T a, T b) {
  uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (std::is_signed_v<T> && a < 0) x = 0 - x;
  if (std::is_signed_v<T> && b < 0) y = 0 - y;
  return static_cast<T>(std::gcd(x, y));
}

// Integer division family; sets *zero_division and gives 0 when b == 0.
template <class T>
T integer_division(isa::AluOp op, T a, T b, bool* zero_division) {
  using isa::AluOp;
  if (b == 0) {
    *zero_division = true;
    return 0;
  }
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) {  // INT64_MIN / -1 traps on the host
    return op == AluOp::remainder || op == AluOp::fmod ? 0 : static_cast<T>(0 - static_cast<uint64_t>(a));
  }
  const T quotient = a / b, rest = a % b;
  const bool adjust = rest != 0 && (rest < 0) != (b < 0);
  switch (op) {
    case AluOp::remainder:
      return adjust ? rest + b : rest;
    case AluOp::fmod:
      return rest;
    case AluOp::floor_divide:
      return adjust ? quotient - 1 : quotient;
    default:
      return quotient;
  }
}

template <class T>
T apply_floating(isa::AluOp op, T a, T b) {
  using isa::AluOp;
  switch (op) {
    case AluOp::divide:
      return a / b;
    case AluOp::power:
      if constexpr (std::is_same_v<T, float>)
        return f32_power(a, b);
      else
        return std::pow(a, b);
    case AluOp::remainder:
      return floating_remainder(a, b);
    case AluOp::fmod:
      return std::fmod(a, b);
    case AluOp::floor_divide:
      return floating_floor_divide(a, b);
    case AluOp::trunc_divide:
      return std::trunc(a / b);
    case AluOp::atan2:
      if constexpr (std::is_same_v<T, float>)
        return f32_atan2(a, b);
      else
        return std::atan2(a, b);
    case AluOp::hypot:
      return hypotenuse(a, b);
    case AluOp::copysign:
      return std::copysign(a, b);
    case AluOp::nextafter:
      return std::nextafter(a, b);
    default:
      return T{};
  }
}

template <class T>
T apply_integer(isa::AluOp op, T a, T b, bool* zero_division) {
  using isa::AluOp;
  const bool out_of_width = b < 0 || static_cast<uint64_t>(b) >= 64;
  switch (op) {
    case AluOp::divide:
    case AluOp::remainder:
    case AluOp::fmod:
    case AluOp::floor_divide:
    case AluOp::trunc_divide:
      return integer_division(op, a, b, zero_division);
    case AluOp::power:
      return integer_power(a, b);
    case AluOp::bitwise_and:
      return a & b;
    case AluOp::bitwise_or:
      return a | b;
    case AluOp::bitwise_xor:
      return a ^ b;
    case AluOp::shift_left:
      return out_of_width ? 0 : static_cast<T>(static_cast<uint64_t>(a) << b);
    case AluOp::shift_right_arithmetic:
      return out_of_width ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> b);
    case AluOp::shift_right_logical:
      return out_of_width ? 0 : static_cast<T>(static_cast<uint64_t>(a) >> b);
    case AluOp::gcd:
      return greatest_common_divisor(a, b);
    default:
      return T{};
  }
}

// a op b. isa::alu_defined_for() must hold for op and T.
template <class T>
T apply(isa::AluOp op, T a, T b, bool* zero_division) {
  using isa::AluOp;
  const auto truth = [](bool v) { return T(v ? 1 : 0); };
  switch (op) {
    case AluOp::bypass:
      return a;
    case AluOp::equal:
      return truth(a == b);
    case AluOp::not_equal:
      return truth(a != b);
    case AluOp::logical_and:
      return truth(a != T(0) && b != T(0));
    case AluOp::logical_or:
      return truth(a != T(0) || b != T(0));
    case AluOp::logical_xor:
      return truth((a != T(0)) != (b != T(0)));
    default:
      break;
  }
  if constexpr (kIsComplex<T>) {
    switch (op) {
      case AluOp::add:
        return a + b;
      case AluOp::subtract:
        return a - b;
      case AluOp::multiply:
        return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
      case AluOp::divide:
        return complex_divide(a, b);
      case AluOp::power:
        return complex_power(a, b);
      default:
        return T{};
    }
  } else {
    using Wrapping = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
    const Wrapping x = static_cast<Wrapping>(a), y = static_cast<Wrapping>(b);
    switch (op) {
      case AluOp::add:
        return static_cast<T>(x + y);
      case AluOp::subtract:
        return static_cast<T>(x - y);
      case AluOp::multiply:
        return static_cast<T>(x * y);
      case AluOp::maximum:
        return a != a ? a : (a > b ? a : b);
      case AluOp::minimum:
        return a != a ? a : (a < b ? a : b);
      case AluOp::less:
        return truth(a < b);
      case AluOp::less_equal:
        return truth(a <= b);
      case AluOp::greater:
        return truth(a > b);
      case AluOp::greater_equal:
        return truth(a >= b);
      default:
        break;
    }
    if constexpr (std::is_integral_v<T>)
      return apply_integer(op, a, b, zero_division);
    else
      return apply_floating(op, a, b);
  }
}

// Where a reduction starts when it has no element yet (maximum and minimum of integers included).
template <class T>
T reduction_identity(isa::AluOp op) {
  using isa::AluOp;
  switch (op) {
    case AluOp::multiply:
    case AluOp::logical_and:
      return T(1);
    case AluOp::bitwise_and:
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(~uint64_t{0});
      else
        return T{};
    case AluOp::maximum:
      if constexpr (kIsFloating<T>)
        return -std::numeric_limits<T>::infinity();
      else if constexpr (std::is_integral_v<T>)
        return std::numeric_limits<T>::min();
      else
        return T{};
    case AluOp::minimum:
      if constexpr (kIsFloating<T>)
        return std::numeric_limits<T>::infinity();
      else if constexpr (std::is_integral_v<T>)
        return std::numeric_limits<T>::max();
      else
        return T{};
    default:
      return T(0);
  }
}

// values[0..n) reduced in the order of isa/numerics.h: 16 lanes, then a tree.
template <class T>
T reduce_in_lanes(isa::AluOp op, const T* values, size_t n) {
  constexpr size_t kLanes = 16;
  bool ignored = false;
  T lanes[kLanes];
  for (T& lane : lanes) lane = reduction_identity<T>(op);
  for (size_t e = 0; e < n; ++e) lanes[e % kLanes] = apply(op, lanes[e % kLanes], values[e], &ignored);
  for (size_t distance = kLanes / 2; distance > 0; distance /= 2) {
    for (size_t l = 0; l < distance; ++l) lanes[l] = apply(op, lanes[l], lanes[l + distance], &ignored);
  }
  return lanes[0];
}

}  // namespace neuron::emulator
