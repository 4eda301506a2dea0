// Element-wise operators in terms of StableHLO's.
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "ir/expand.h"
#include "ir/op_info.h"

namespace neuron::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLn2 = std::numbers::ln2;

Ex eq(Ex a, Ex b) { return compare(Comparison::eq, a, b); }
Ex ne(Ex a, Ex b) { return compare(Comparison::ne, a, b); }
Ex lt(Ex a, Ex b) { return compare(Comparison::lt, a, b); }
Ex gt(Ex a, Ex b) { return compare(Comparison::gt, a, b); }
Ex both(Ex a, Ex b) { return binary(Op::and_, a, b); }
Ex exp(Ex x) { return unary(Op::exponential, x); }
Ex log(Ex x) { return unary(Op::log, x); }
Ex abs(Ex x) { return unary(Op::abs, x); }
Ex sqrt(Ex x) { return unary(Op::sqrt, x); }
Ex real(Ex x) { return unary(Op::real, x); }
Ex imag(Ex x) { return unary(Op::imag, x); }
Ex complex(Ex re, Ex im) { return binary(Op::complex, re, im); }
Ex max(Ex a, Ex b) { return binary(Op::maximum, a, b); }

Ex sinh(Ex x) {
  // expm1 near 0, where the difference of two exponentials cancels.
  const Ex e = unary(Op::exponential_minus_one, x), near = (e + e / (e + 1)) * 0.5;
  const Ex far = exp(x - kLn2) - exp(-x - kLn2);
  return is_complex(x.type().dtype) ? far : select(lt(abs(x), x.like(1)), near, far);
}
Ex cosh(Ex x) { return exp(x - kLn2) + exp(-x - kLn2); }

// |x| for the size, the sign put back; log1p keeps small arguments.
Ex asinh(Ex x) {
  const Ex a = abs(x), large = log(a) + kLn2;
  const Ex small = unary(Op::log_plus_one, a + a * a / (sqrt(a * a + 1) + 1));
  return unary(Op::sign, x) * select(gt(a, a.like(1e15)), large, small);
}

Ex tan_half(Ex y, Ex x) { return binary(Op::atan2, y, x) * 2; }

std::optional<Ex> inverse_function(Op op, Ex x) {
  switch (op) {
    case Op::asin:
      return tan_half(x, sqrt(x.like(1) - x * x) + 1);
    case Op::acos:
      return select(eq(x, x.like(-1)), x.like(std::numbers::pi), tan_half(sqrt(x.like(1) - x * x), x + 1));
    case Op::atan:
      return binary(Op::atan2, x, x.like(1));
    case Op::asinh:
      return asinh(x);
    case Op::acosh:
      return select(gt(x, x.like(1e15)), log(x) + kLn2, log(x + sqrt((x + 1) * (x - 1))));
    case Op::atanh:
      return (unary(Op::log_plus_one, x) - unary(Op::log_plus_one, -x)) * 0.5;
    default:
      return std::nullopt;
  }
}

// Formulas that hold for floats and complex numbers alike.
std::optional<Ex> common_function(Op op, Ex x) {
  switch (op) {
    case Op::exp2:
      return exp(x * kLn2);
    case Op::log2:
      return log(x) / x.like(kLn2);
    case Op::log10:
      return log(x) / x.like(std::numbers::ln10);
    case Op::sinh:
      return sinh(x);
    case Op::cosh:
      return cosh(x);
    case Op::silu:
      return x * unary(Op::logistic, x);
    case Op::reciprocal:
      return x.like(1) / x;
    case Op::conj:
      return complex(real(x), -imag(x));
    default:
      return std::nullopt;
  }
}

std::optional<Ex> float_function(Op op, Ex x) {
  switch (op) {
    case Op::trunc:
      return select(lt(x, x.like(0)), unary(Op::ceil, x), unary(Op::floor, x));
    case Op::gelu_tanh:
      return x * 0.5 * (unary(Op::tanh, (x + x * x * x * 0.044715) * std::sqrt(2 / std::numbers::pi)) + 1);
    case Op::gelu:
      return x * 0.5 * unary(Op::erfc, x * -std::numbers::sqrt2 * 0.5);
    case Op::gelu_dx:
      return unary(Op::erfc, x * -std::numbers::sqrt2 * 0.5) * 0.5 +
             x * exp(x * x * -0.5) * (0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    case Op::gelu_tanh_dx: {
      const double slope = std::sqrt(2 / std::numbers::pi);
      const Ex squared = x * x, t = unary(Op::tanh, (x + x * squared * 0.044715) * slope);
      return (t + 1) * 0.5 + x * 0.5 * (x.like(1) - t * t) * ((squared * (3 * 0.044715) + 1) * slope);
    }
    case Op::softplus_unit:
      return max(x, x.like(0)) + unary(Op::log_plus_one, exp(-abs(x)));
    case Op::is_nan:
      return ne(x, x);
    case Op::is_inf:
      return eq(abs(x), x.like(kInf));
    case Op::angle:
      return select(ne(x, x), x, select(lt(x, x.like(0)), x.like(std::numbers::pi), x.like(0)));
    default:
      return inverse_function(op, x);
  }
}

DType bits_of(DType floating) {
  switch (size_of(floating)) {
    case 1:
      return DType::u8;
    case 2:
      return DType::u16;
    case 4:
      return DType::u32;
    default:
      return DType::u64;
  }
}

Ex copysign(Ex a, Ex b) {
  const DType t = a.type().dtype, bits = bits_of(t);
  const auto as_bits = [bits](Ex x) { return Ex(x.builder(), x.builder().bitcast(x.value(), bits)); };
  const int64_t sign = static_cast<int64_t>(uint64_t{1} << (8 * size_of(t) - 1));
  const Ex x = as_bits(a), mask = x.like_int(sign);
  const Ex joined = binary(Op::or_, both(x, unary(Op::not_, mask)), both(as_bits(b), mask));
  return {a.builder(), a.builder().bitcast(joined.value(), t)};
}

// In the dtype of the calculation: f16 and narrower divide more exactly in f32, as their evaluation does.
Ex wider(Ex x) {
  const DType t = x.type().dtype;
  return is_floating(t) && size_of(t) < 4 ? x.convert(DType::f32) : x;
}

Ex floor_divide(Ex a, Ex b) {
  const DType t = a.type().dtype;
  a = wider(a), b = wider(b);
  const Ex zero = a.like(0), mod = binary(Op::remainder, a, b);
  const Ex differ = both(ne(mod, zero), ne(lt(b, zero), lt(mod, zero)));
  if (!is_floating(t)) {
    const Ex quotient = a / b;
    return is_unsigned_integer(t) ? quotient : select(differ, quotient - 1, quotient);
  }
  Ex div = (a - mod) / b;
  div = select(differ, div - 1, div);
  const Ex floored = unary(Op::floor, div);
  const Ex rounded = select(gt(div - floored, a.like(0.5)), floored + 1, floored);
  const Ex signed_zero = copysign(zero, a / b);
  return select(eq(b, zero), a / b, select(eq(div, zero), signed_zero, rounded)).convert(t);
}

Ex python_remainder(Ex a, Ex b) {
  const DType t = a.type().dtype;
  a = wider(a), b = wider(b);
  const Ex zero = a.like(0), mod = binary(Op::remainder, a, b);
  return select(both(ne(mod, zero), ne(lt(b, zero), lt(mod, zero))), mod + b, mod).convert(t);
}

Ex hypot(Ex a, Ex b) {
  const Ex x = abs(a), y = abs(b), high = max(x, y), low = binary(Op::minimum, x, y), ratio = low / high;
  const Ex length = select(eq(high, high.like(0)), high, high * sqrt(ratio * ratio + 1));
  const Ex infinite = binary(Op::or_, eq(x, x.like(kInf)), eq(y, y.like(kInf)));
  return select(infinite, high.like(kInf), length);
}

// Complex numbers become real by their real part, bool by being different from zero.
std::optional<Ex> expand_convert(Ex x, DType to) {
  if (!is_complex(x.type().dtype) || is_complex(to)) return std::nullopt;
  if (to == DType::boolean) return ne(x, x.like(0));
  return real(x).convert(to);
}

std::optional<Ex> expand_integer_unary(Op op, Ex x) {
  if (!is_unsigned_integer(x.type().dtype)) return std::nullopt;
  if (op == Op::abs) return x + x.like_int(0);
  if (op == Op::sign) return ne(x, x.like_int(0)).convert(x.type().dtype);
  return std::nullopt;
}

}  // namespace

std::vector<Value> expand_elementwise(Builder& b, const Node& node, const std::vector<Value>& in) {
  std::optional<Ex> result;
  const Form form = info(node.op).form;
  if (node.op == Op::convert) {
    result = expand_convert({b, in[0]}, node.types[0].dtype);
  } else if (form == Form::unary || form == Form::unary_to_bool || form == Form::unary_to_real) {
    const Ex x(b, in[0]);
    const DType t = x.type().dtype;
    result = is_integer(t) ? expand_integer_unary(node.op, x) : std::nullopt;
    if (node.op == Op::angle && is_complex(t)) result = binary(Op::atan2, imag(x), real(x));
    if (!result) result = common_function(node.op, wider(x));
    if (!result && is_floating(t)) result = float_function(node.op, wider(x));
    if (result && is_floating(t)) result = result->convert(node.types[0].dtype);
  } else if (form == Form::binary) {
    const Ex x(b, in[0]), y(b, in[1]);
    if (node.op == Op::floor_divide) result = floor_divide(x, y);
    if (node.op == Op::python_remainder) result = python_remainder(x, y);
    if (node.op == Op::copysign) result = copysign(x, y);
    if (node.op == Op::hypot) result = hypot(wider(x), wider(y)).convert(x.type().dtype);
  }
  return result ? std::vector<Value>{result->value()} : std::vector<Value>{};
}

}  // namespace neuron::ir
