// Element-wise functions of one tensor.
//
// Not supported: special functions (bessel.cpp, normal_distribution.cpp, orthogonal_polynomials.cpp, special.cpp).
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;

// floor(int) is the int itself.
Val float_only(Op op, const Val& x) { return is_integral(x.dtype()) ? x : unary(op, x); }

Val sign_of(const Val& x) {
  if (x.dtype() == DType::boolean) return x;
  if (is_unsigned_integer(x.dtype())) return convert(ne(x, 0), x.dtype());
  // CPU: (0 < x) - (x < 0), so NaN gives 0.
  if (is_floating(x.dtype())) return where(is_nan(x), like(x, 0), unary(Op::sign, x));
  return unary(Op::sign, x);
}

Val sgn(const Val& x) {
  if (!is_complex(x.dtype())) return sign_of(x);
  const Val modulus = abs(x);
  const Val scaled = make_complex(real(x) / modulus, imag(x) / modulus);
  return where(eq(modulus, 0), like(x, 0), scaled);
}

Val angle(const Val& x) {
  if (is_complex(x.dtype())) return unary(Op::angle, x);
  const Val result = where(lt(x, 0), like(x, std::numbers::pi), like(x, 0));
  return where(is_nan(x), x, result);
}

double largest_finite(DType t) {
  switch (t) {
    case DType::f16:
      return 65504.0;
    case DType::bf16:
      return 3.3895313892515355e38;
    case DType::f64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

Val nan_to_num(Lowering& l, const Val& x, DType type) {
  const double limit = largest_finite(type);
  const auto number = [&](const char* name, double otherwise) {
    return l.has(name) ? l.scalar(name, x.dtype()) : full(l.builder(), x.dtype(), {}, otherwise);
  };
  const double inf = std::numeric_limits<double>::infinity();
  Val y = where(is_nan(x), number("nan", 0), x);
  y = where(eq(x, inf), number("posinf", limit), y);
  return where(eq(x, -inf), number("neginf", -limit), y);
}

std::optional<Metas> frexp_result(const Lowering& l) {
  if (!is_floating(l.meta("self").dtype)) return std::nullopt;
  auto metas = like_input()(l);
  if (!metas) return metas;
  TensorMeta exponent = *(*metas)[0];
  exponent.dtype = DType::i32;
  metas->push_back(std::move(exponent));
  return metas;
}

// The mantissa in [1/2, 1) and the exponent of x = mantissa * 2^exponent, from the bits.
std::vector<Val> frexp(Lowering& l) {
  const Val given = l.raw("self"), x = convert(given, opmath(given.dtype()));
  const bool is_double = x.dtype() == DType::f64;
  const DType bits_type = is_double ? DType::i64 : DType::i32;
  const int64_t fraction_bits = is_double ? 52 : 23, bias = is_double ? 1022 : 126;  // of a mantissa below 1
  const double normal = is_double ? 0x1p-1022 : 0x1p-126, scale = is_double ? 0x1p54 : 0x1p25;
  const Val small = lt(abs(x), normal);
  const Val scaled = where(small, x * scale, x);
  const Val bits = Val(x.builder(), x.builder().bitcast(scaled.value(), bits_type));
  const int64_t exponent_mask = is_double ? 0x7ff : 0xff;
  const auto number = [&](int64_t n) { return like_int(bits, n); };
  const Val field = binary(Op::shift_right_arithmetic, bits, number(fraction_bits)) & number(exponent_mask);
  const Val half = (bits & number(~(exponent_mask << fraction_bits))) | number(bias << fraction_bits);
  const Val mantissa = Val(x.builder(), x.builder().bitcast(half.value(), x.dtype()));
  const Val exponent = field - number(bias) - where(small, number(is_double ? 54 : 25), number(0));
  const Val has_none = eq(x, 0) | is_nan(x) | unary(Op::is_inf, x);
  return {convert(where(has_none, x, mantissa), given.dtype()), convert(where(has_none, number(0), exponent), DType::i32)};
}

std::optional<DTypes> no_bool_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && types->common == DType::boolean ? std::nullopt : types;
}
std::optional<DTypes> abs_rule(const Lowering& l, const Names& names) {
  const auto types = real_rule(l, names);
  return types && types->common == DType::boolean ? std::nullopt : types;
}
std::optional<DTypes> integral_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && is_integral(types->common) ? types : std::nullopt;
}
std::optional<DTypes> no_complex_no_bool_rule(const Lowering& l, const Names& names) {
  const auto types = ordered_rule(l, names);
  return types && types->common == DType::boolean ? std::nullopt : types;
}
std::optional<DTypes> angle_rule(const Lowering& l, const Names& names) {
  auto types = float_rule(l, names);
  if (types) types->result = real_type(types->common);
  return types;
}
std::optional<DTypes> real_compare_rule(const Lowering& l, const Names& names) {
  const auto types = compare_rule(l, names);
  return types && is_complex(types->common) ? std::nullopt : types;
}

// CPU takes the angle of complex numbers through a temporary, which makes the result contiguous.
std::optional<Metas> angle_result(const Lowering& l) {
  return is_complex(l.meta("self").dtype) ? contiguous_like()(l) : pointwise(l);
}

void register_float_functions(Registry& registry) {
  struct Function {
    const char* name;
    Op op;
    bool complex;
  };
  static constexpr Function kFunctions[] = {
      {"exp", Op::exponential, true},
      {"expm1", Op::exponential_minus_one, true},
      {"exp2", Op::exp2, true},
      {"log", Op::log, true},
      {"log2", Op::log2, true},
      {"log10", Op::log10, true},
      {"log1p", Op::log_plus_one, true},
      {"sqrt", Op::sqrt, true},
      {"rsqrt", Op::rsqrt, true},
      {"sin", Op::sine, true},
      {"cos", Op::cosine, true},
      {"tan", Op::tan, true},
      {"asin", Op::asin, true},
      {"acos", Op::acos, true},
      {"atan", Op::atan, true},
      {"sinh", Op::sinh, true},
      {"cosh", Op::cosh, true},
      {"tanh", Op::tanh, true},
      {"asinh", Op::asinh, true},
      {"acosh", Op::acosh, true},
      {"atanh", Op::atanh, true},
      {"sigmoid", Op::logistic, true},
      {"reciprocal", Op::reciprocal, true},
      {"erf", Op::erf, false},
      {"erfc", Op::erfc, false},
      {"erfinv", Op::erf_inv, false},
      {"lgamma", Op::lgamma, false},
      {"digamma", Op::digamma, false},
  };
  for (const Function& f : kFunctions) {
    NEURON_OP(std::string("aten::") + f.name, promotes(f.complex ? float_rule : real_float_rule), result(pointwise),
              [f](Lowering& l) { return unary(f.op, l.arg("self")); });
  }
}

void register_rounding(Registry& registry) {
  struct Function {
    const char* name;
    Op op;
  };
  static constexpr Function kFunctions[] = {
      {"floor", Op::floor}, {"ceil", Op::ceil}, {"trunc", Op::trunc}, {"round", Op::round_nearest_even}};
  for (const Function& f : kFunctions) {
    NEURON_OP(std::string("aten::") + f.name, promotes(no_complex_no_bool_rule), result(pointwise),
              [f](Lowering& l) { return float_only(f.op, l.arg("self")); });
  }
  NEURON_OP("aten::round.decimals", promotes(no_complex_no_bool_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    const int64_t decimals = l.int_("decimals");
    if (is_integral(x.dtype())) return x;
    if (decimals == 0) return unary(Op::round_nearest_even, x);
    const double ten = std::pow(10.0, static_cast<double>(std::abs(decimals)));
    return decimals > 0 ? unary(Op::round_nearest_even, x * ten) / ten : unary(Op::round_nearest_even, x / ten) * ten;
  });
  NEURON_OP("aten::frac", promotes(floating_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    return x - unary(Op::trunc, x);
  });
}

void register_predicates(Registry& registry) {
  NEURON_OP("aten::isnan", promotes(compare_rule), result(pointwise), [](Lowering& l) { return is_nan(l.arg("self")); });
  NEURON_OP("aten::isinf", promotes(compare_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    if (is_complex(x.dtype())) return unary(Op::is_inf, real(x)) | unary(Op::is_inf, imag(x));
    if (!is_floating(x.dtype())) return full(l.builder(), DType::boolean, x.shape(), 0);
    return unary(Op::is_inf, x);
  });
  NEURON_OP("aten::isfinite", promotes(compare_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    if (is_complex(x.dtype())) return unary(Op::is_finite, real(x)) & unary(Op::is_finite, imag(x));
    if (!is_floating(x.dtype())) return full(l.builder(), DType::boolean, x.shape(), 1);
    return unary(Op::is_finite, x);
  });
  for (const bool negative : {false, true}) {
    NEURON_OP(negative ? "aten::isneginf" : "aten::isposinf", promotes(real_compare_rule), result(pointwise),
              [negative](Lowering& l) {
                const Val x = l.arg("self");
                if (!is_floating(x.dtype())) return full(l.builder(), DType::boolean, x.shape(), 0);
                const double inf = std::numeric_limits<double>::infinity();
                return eq(x, negative ? -inf : inf);
              });
  }
  NEURON_OP("aten::signbit", promotes(real_compare_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    if (x.dtype() == DType::boolean) return like(x, 0);
    if (!is_floating(x.dtype())) return lt(x, 0);
    return lt(binary(Op::copysign, like(x, 1), x), 0);
  });
  NEURON_OP("aten::logical_not", promotes(compare_rule), result(pointwise),
            [](Lowering& l) { return !to_bool(l.arg("self")); });
}

}  // namespace

void register_unary(Registry& registry) {
  register_float_functions(registry);
  register_rounding(registry);
  register_predicates(registry);
  NEURON_OP("aten::neg", promotes(no_bool_rule), result(pointwise), [](Lowering& l) { return -l.arg("self"); });
  NEURON_OP("aten::abs", promotes(abs_rule), result(pointwise), [](Lowering& l) { return abs(l.arg("self")); });
  NEURON_OP("aten::sign", promotes(ordered_rule), result(pointwise), [](Lowering& l) { return sign_of(l.arg("self")); });
  NEURON_OP("aten::sgn", promotes(default_rule), result(pointwise), [](Lowering& l) { return sgn(l.arg("self")); });
  NEURON_OP("aten::bitwise_not", promotes(integral_rule), result(pointwise), [](Lowering& l) { return !l.arg("self"); });
  NEURON_OP("aten::angle", promotes(angle_rule), result(angle_result), [](Lowering& l) { return angle(l.arg("self")); });
  NEURON_OP("aten::conj_physical", promotes(move_rule), result(pointwise), [](Lowering& l) { return conj(l.arg("self")); });
  NEURON_OP("aten::_conj_physical", promotes(move_rule), result(pointwise), [](Lowering& l) { return conj(l.arg("self")); });
  NEURON_OP("aten::frexp.Tensor", no_promotion(), result(frexp_result), frexp);
  NEURON_OP("aten::sinc", promotes(float_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    const Val scaled = x * std::numbers::pi;
    return where(eq(x, 0), like(x, 1), unary(Op::sine, scaled) / scaled);
  });
  NEURON_OP("aten::nan_to_num", promotes(default_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    if (is_integral(x.dtype())) return x;
    if (!is_complex(x.dtype())) return nan_to_num(l, x, l.common());
    const DType part = real_type(x.dtype());
    return make_complex(nan_to_num(l, real(x), part), nan_to_num(l, imag(x), part));
  });
}

}  // namespace neuron::ops
