// Binary and ternary element-wise operators.
//
// Integer division by zero (an error at launch on the device) gives all ones, the remainder the dividend; the smallest
// number divided by -1 wraps to itself. Shifts by the width or more, or by a negative amount, give 0 (arithmetic right: the
// sign).
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/evaluate.h"

namespace neuron::ir {
namespace {

double python_remainder(double a, double b) {
  double mod = std::fmod(a, b);
  if (mod != 0 && (b < 0) != (mod < 0)) mod += b;
  return mod;
}

// Python's floor division, as PyTorch computes it: exact where fmod is.
double floor_divide(double a, double b) {
  if (b == 0) return a / b;
  const double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(div);
  return div - floored > 0.5 ? floored + 1 : floored;
}

// The neighbour of `a` toward `b` in the given format: one step of the bit pattern.
double nextafter_in(DType dtype, double a, double b) {
  if (dtype == DType::f64) return std::nextafter(a, b);
  if (dtype == DType::f32) return std::nextafterf(static_cast<float>(a), static_cast<float>(b));
  if (std::isnan(a) || std::isnan(b) || a == b) return a == b ? b : a + b;
  uint16_t bits = 0;
  uint8_t bytes[2] = {0, 0};
  if (a == 0) {
    bits = b < 0 ? static_cast<uint16_t>(1 | 1u << (8 * size_of(dtype) - 1)) : 1;
  } else {
    store(dtype, bytes, a);
    std::memcpy(&bits, bytes, size_of(dtype));
    bits = static_cast<uint16_t>((b > a) == (a > 0) ? bits + 1 : bits - 1);
  }
  std::memcpy(bytes, &bits, sizeof bits);
  return load_floating(dtype, bytes);
}

double binary_number(Op op, double a, double b, DType dtype) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::subtract:
      return a - b;
    case Op::multiply:
      return a * b;
    case Op::divide:
      return a / b;
    case Op::remainder:
      return std::fmod(a, b);
    case Op::power:
      return std::pow(a, b);
    case Op::maximum:
      return combine(Reducer::maximum, a, b, dtype);
    case Op::minimum:
      return combine(Reducer::minimum, a, b, dtype);
    case Op::atan2:
      return std::atan2(a, b);
    case Op::floor_divide:
      return floor_divide(a, b);
    case Op::python_remainder:
      return python_remainder(a, b);
    case Op::copysign:
      return std::copysign(a, b);
    case Op::nextafter:
      return nextafter_in(dtype, a, b);
    default:
      return std::hypot(a, b);
  }
}

Complex binary_number(Op op, Complex a, Complex b, DType) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::subtract:
      return a - b;
    case Op::multiply:
      return a * b;
    case Op::divide:
      return a / b;
    default:
      return b == 0.0 ? Complex(1.0) : std::pow(a, b);
  }
}

template <class T>
T integer_power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {  // the truncated fraction
      if (base == 1) return 1;
      return base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    }
  }
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e; e >>= 1) {
    if (e & 1) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

template <class T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<uint64_t>(a));
  }
  return a / b;
}

template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return a % b;
}

template <class T>
T shift(Op op, T a, T amount, DType dtype) {
  const uint64_t width = 8 * size_of(dtype), mask = ~uint64_t{0} >> (64 - width);
  const uint64_t bits = static_cast<uint64_t>(a) & mask;
  const bool beyond = static_cast<uint64_t>(amount) >= width;
  if (op == Op::shift_left) return beyond ? 0 : static_cast<T>(bits << amount);
  if (op == Op::shift_right_logical) return beyond ? 0 : static_cast<T>(bits >> amount);
  // Arithmetic: the top bit of the element's own width is the sign, also for unsigned dtypes (as StableHLO).
  const int64_t extended = static_cast<int64_t>(bits << (64 - width)) >> (64 - width);
  return static_cast<T>(extended >> (beyond ? width - 1 : static_cast<uint64_t>(amount)));
}

// T is int64_t (bool included) or uint64_t.
template <class T>
T binary_integer(Op op, T a, T b, DType dtype) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
    case Op::add:
      return dtype == DType::boolean ? T(a | b) : static_cast<T>(ua + ub);
    case Op::subtract:
      return static_cast<T>(ua - ub);
    case Op::multiply:
      return static_cast<T>(ua * ub);
    case Op::divide:
      return divide(a, b);
    case Op::remainder:
      return remainder(a, b);
    case Op::power:
      return integer_power(a, b);
    case Op::maximum:
      return a > b ? a : b;
    case Op::minimum:
      return a < b ? a : b;
    case Op::and_:
      return a & b;
    case Op::or_:
      return a | b;
    case Op::xor_:
      return a ^ b;
    case Op::floor_divide: {
      const T quotient = divide(a, b);
      return b != 0 && remainder(a, b) != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
    }
    case Op::python_remainder: {
      const T rest = remainder(a, b);
      return b != 0 && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case Op::gcd:
      return static_cast<T>(std::gcd(a < 0 ? 0 - ua : ua, b < 0 ? 0 - ub : ub));
    default:
      return shift(op, a, b, dtype);
  }
}
int64_t binary_number(Op op, int64_t a, int64_t b, DType dtype) { return binary_integer(op, a, b, dtype); }
uint64_t binary_number(Op op, uint64_t a, uint64_t b, DType dtype) { return binary_integer(op, a, b, dtype); }

template <class T>
bool compare(Comparison direction, T a, T b) {
  if (direction == Comparison::eq) return a == b;
  if (direction == Comparison::ne) return a != b;
  if constexpr (!std::is_same_v<T, Complex>) {
    switch (direction) {
      case Comparison::lt:
        return a < b;
      case Comparison::le:
        return a <= b;
      case Comparison::gt:
        return a > b;
      default:
        return a >= b;
    }
  }
  return false;
}

}  // namespace

Status evaluate_binary(NodeCall c) {
  const DType dtype = c.type(0).dtype;
  const Op op = c.node.op;
  with_number(dtype, [&]<class T>(T) {
    const std::vector<T> a = numbers<T>(*c.in[0]), b = numbers<T>(*c.in[1]);
    for (size_t i = 0; i < a.size(); ++i) {
      if (op == Op::compare) {
        store_at(c.out[0], i, int64_t{compare(std::get<CompareAttrs>(c.node.attrs).direction, a[i], b[i])});
      } else if (op == Op::complex) {
        if constexpr (std::is_same_v<T, double>) store_at(c.out[0], i, Complex(a[i], b[i]));
      } else {
        store_at(c.out[0], i, binary_number(op, a[i], b[i], dtype));
      }
    }
  });
  return {};
}

Status evaluate_select(NodeCall c) {
  if (c.node.op == Op::select) {
    for (int64_t i = 0; i < c.out[0].type.elements(); ++i) copy_element(c.out[0], i, *c.in[c.in[0]->data[i] ? 1 : 2], i);
    return {};
  }
  const DType dtype = c.type(1).dtype;
  with_number(dtype, [&]<class T>(T) {
    const std::vector<T> low = numbers<T>(*c.in[0]), x = numbers<T>(*c.in[1]), high = numbers<T>(*c.in[2]);
    for (size_t i = 0; i < x.size(); ++i) {
      store_at(c.out[0], i, combine(Reducer::minimum, combine(Reducer::maximum, x[i], low[i], dtype), high[i], dtype));
    }
  });
  return {};
}

}  // namespace neuron::ir
