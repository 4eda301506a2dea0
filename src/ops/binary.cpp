// Element-wise arithmetic of two operands.
//
// Integer powers with a negative exponent held in a tensor follow CPU: 0, 1 or -1.
// Not supported: logaddexp2 of complex numbers, zeta, igamma, the orthogonal polynomials.
#include <cmath>

#include "ops/log_add_exp.h"
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;

std::optional<DTypes> without(DType refused, std::optional<DTypes> types) {
  return types && types->common == refused ? std::nullopt : types;
}
std::optional<DTypes> no_bool(const Lowering& l, const Names& names) {
  return without(DType::boolean, default_rule(l, names));
}
std::optional<DTypes> ordered_no_bool(const Lowering& l, const Names& names) {
  return without(DType::boolean, ordered_rule(l, names));
}
std::optional<DTypes> integer_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && is_integer(types->common) ? types : std::nullopt;
}

DType operand_dtype(const Lowering& l, const char* name) {
  if (const TensorArg* t = l.tensor(name)) return t->meta.dtype;
  const ScalarArg* s = l.scalar_argument(name);
  return s ? scalar_dtype(s->kind) : DType::f32;
}

std::optional<DTypes> subtract_rule(const Lowering& l, const Names& names) {
  if (operand_dtype(l, "self") == DType::boolean || operand_dtype(l, "other") == DType::boolean) return std::nullopt;
  return default_rule(l, names);
}

// alpha: not bool unless the result is, an integer when the result is one.
std::optional<Metas> pointwise_with_alpha(const Lowering& l) {
  if (const ScalarArg* alpha = l.scalar_argument("alpha")) {
    using Kind = ScalarArg::Kind;
    if (alpha->kind == Kind::boolean && l.common() != DType::boolean) return std::nullopt;
    if (is_integral(l.common()) && alpha->kind != Kind::boolean && alpha->kind != Kind::integer) return std::nullopt;
    if (!is_complex(l.common()) && alpha->kind == Kind::complex) return std::nullopt;
  }
  return pointwise(l);
}

Val times_alpha(Lowering& l, const Val& x) {
  if (!l.has("alpha") || l.equals("alpha", 1)) return x;
  return x * l.scalar("alpha");
}

// div.*_mode: float division unless it rounds.
std::optional<DTypes> divide_mode_rule(const Lowering& l, const Names& names) {
  if (!l.has("rounding_mode")) return float_rule(l, names);
  return ordered_no_bool(l, names);
}

Val divide_with_mode(Lowering& l) {
  const Val a = l.arg("self"), b = l.arg("other");
  const std::string mode = l.text("rounding_mode");
  if (mode == "floor") return binary(Op::floor_divide, a, b);
  if (mode == "trunc") return is_integral(a.dtype()) ? a / b : unary(Op::trunc, a / b);
  return a / b;
}

// bool ** bool is refused except where CPU takes a short cut.
std::optional<Metas> power_result(const Lowering& l) {
  const bool short_cut = l.equals("exponent", 0) || l.equals("exponent", 1);
  return l.common() == DType::boolean && !short_cut ? std::nullopt : pointwise(l);
}

Val power_of(Lowering& l, const Val& base) {
  // CPU has its own formulas for these exponents.
  const bool real_float = is_floating(base.dtype());
  if (l.equals("exponent", 0)) return like(base, 1);
  if (l.equals("exponent", 1)) return base;
  if (base.dtype() == DType::boolean) return l.unsupported("a bool base");
  if (l.equals("exponent", 2)) return base * base;
  if (l.equals("exponent", 3)) return base * base * base;
  if (l.equals("exponent", 0.5) && !is_integral(base.dtype())) return sqrt(base);
  if (l.equals("exponent", -0.5) && real_float) return unary(Op::rsqrt, base);
  if (l.equals("exponent", -1) && real_float) return unary(Op::reciprocal, base);
  if (l.equals("exponent", -2) && real_float) return unary(Op::reciprocal, base * base);
  return pow(base, l.arg("exponent"));
}

// In the type itself: 16-bit floats, which are computed in f32 elsewhere, step by their bits, that count up with the size.
Val next_after(const Val& x, const Val& toward) {
  if (size_of(x.dtype()) != 2) return binary(Op::nextafter, x, toward);
  ir::Builder& b = x.builder();
  const auto from_bits = [&](const Val& bits) { return Val(b, b.bitcast(bits.value(), x.dtype())); };
  const Val wide = convert(x, DType::f32), target = convert(toward, DType::f32);
  const Val bits(b, b.bitcast(x.value(), DType::i16));
  const Val grows = eq(convert(lt(wide, target), DType::i32), convert(gt(wide, 0), DType::i32));
  const Val stepped = where(grows, bits + like_int(bits, 1), bits - like_int(bits, 1));
  const Val smallest = where(lt(target, 0), like_int(bits, INT16_MIN + 1), like_int(bits, 1));
  const Val moved = from_bits(where(eq(wide, 0), smallest, stepped));
  return where(is_nan(wide) | is_nan(target), convert(wide + target, x.dtype()), where(eq(wide, target), toward, moved));
}

void register_arithmetic(Registry& registry) {
  const Names operands{"self", "other"};
  for (const char* suffix : {".Tensor", ".Scalar"}) {
    const std::string s = suffix;
    NEURON_OP("aten::add" + s, promotes_exact_scalars(default_rule, operands), result(pointwise_with_alpha),
              [](Lowering& l) { return l.arg("self") + times_alpha(l, l.arg("other")); })
        .value_classes("alpha", {1})
        .must_fit("alpha", ScalarRequirement::Fits::compute);
    NEURON_OP("aten::sub" + s, promotes_exact_scalars(subtract_rule, operands), result(pointwise_with_alpha),
              [](Lowering& l) { return l.arg("self") - times_alpha(l, l.arg("other")); })
        .value_classes("alpha", {1})
        .must_fit("alpha", ScalarRequirement::Fits::compute);
    NEURON_OP("aten::rsub" + s, promotes_exact_scalars(subtract_rule, {"other", "self"}), result(pointwise_with_alpha),
              [](Lowering& l) { return l.arg("other") - times_alpha(l, l.arg("self")); })
        .value_classes("alpha", {1})
        .must_fit("alpha", ScalarRequirement::Fits::compute);
    NEURON_OP("aten::mul" + s, promotes_exact_scalars(default_rule, operands), result(pointwise),
              [](Lowering& l) { return l.arg("self") * l.arg("other"); });
    NEURON_OP("aten::div" + s, promotes_exact_scalars(float_rule, operands), result(pointwise),
              [](Lowering& l) { return l.arg("self") / l.arg("other"); });
    NEURON_OP("aten::div" + s + "_mode", promotes(divide_mode_rule, operands), result(pointwise), divide_with_mode);
    NEURON_OP("aten::remainder" + s, promotes(ordered_no_bool, operands), result(pointwise),
              [](Lowering& l) { return binary(Op::python_remainder, l.arg("self"), l.arg("other")); });
    NEURON_OP("aten::fmod" + s, promotes(ordered_no_bool, operands), result(pointwise),
              [](Lowering& l) { return binary(Op::remainder, l.arg("self"), l.arg("other")); });
  }
  NEURON_OP("aten::remainder.Scalar_Tensor", promotes(ordered_no_bool, operands), result(pointwise),
            [](Lowering& l) { return binary(Op::python_remainder, l.arg("self"), l.arg("other")); });
  for (const char* name : {"aten::floor_divide", "aten::floor_divide.Scalar"}) {
    NEURON_OP(name, promotes(ordered_no_bool, operands), result(pointwise),
              [](Lowering& l) { return binary(Op::floor_divide, l.arg("self"), l.arg("other")); });
  }
}

void register_power(Registry& registry) {
  const Names operands{"self", "exponent"};
  NEURON_OP("aten::pow.Tensor_Tensor", promotes(no_bool, operands), result(pointwise),
            [](Lowering& l) { return pow(l.arg("self"), l.arg("exponent")); });
  NEURON_OP("aten::pow.Tensor_Scalar", promotes(default_rule, operands), result(power_result), [](Lowering& l) {
    return power_of(l, l.arg("self"));
  }).value_classes("exponent", {0, 1, 2, 3, 0.5, -0.5, -1, -2});
  NEURON_OP("aten::pow.Scalar", promotes(no_bool, operands), result(contiguous_like("exponent")),
            [](Lowering& l) { return pow(l.arg("self"), l.arg("exponent")); });
}

void register_functions(Registry& registry) {
  struct Function {
    const char* name;
    Op op;
    Rule rule;
  };
  static constexpr Function kFunctions[] = {
      {"maximum", Op::maximum, ordered_rule}, {"minimum", Op::minimum, ordered_rule},
      {"atan2", Op::atan2, real_float_rule},  {"copysign.Tensor", Op::copysign, real_float_rule},
      {"hypot", Op::hypot, floating_rule},    {"gcd", Op::gcd, integer_rule},
  };
  const Names operands{"self", "other"};
  for (const Function& f : kFunctions) {
    NEURON_OP(std::string("aten::") + f.name, promotes(f.rule, operands), result(pointwise),
              [f](Lowering& l) { return binary(f.op, l.arg("self"), l.arg("other")); });
  }
  // One unit in the last place is a matter of the operands' own format.
  NEURON_OP("aten::nextafter", promotes(move_rule, operands), result(pointwise),
            [](Lowering& l) { return next_after(l.arg("self"), l.arg("other")); });
  NEURON_OP("aten::lcm", promotes(integer_rule, operands), result(pointwise), [](Lowering& l) {
    const Val a = l.arg("self"), b = l.arg("other");
    const Val divisor = binary(Op::gcd, a, b);
    const Val none = eq(divisor, 0);
    return where(none, like(divisor, 0), abs(a / where(none, like(divisor, 1), divisor) * b));
  });
  for (const bool largest : {true, false}) {
    NEURON_OP(largest ? "aten::fmax" : "aten::fmin", promotes(ordered_rule, operands), result(pointwise),
              [largest](Lowering& l) {
                const Val a = l.arg("self"), b = l.arg("other");
                const Val both = largest ? maximum(a, b) : minimum(a, b);
                return where(is_nan(a), b, where(is_nan(b), a, both));
              });
  }
  NEURON_OP("aten::logaddexp", promotes(float_or_complex_rule, operands), result(pointwise), [](Lowering& l) {
    const Val a = l.arg("self"), b = l.arg("other");
    return is_complex(a.dtype()) ? complex_log_add_exp(a, b) : log_add_exp(a, b, false);
  });
  NEURON_OP("aten::logaddexp2", promotes(floating_rule, operands), result(pointwise),
            [](Lowering& l) { return log_add_exp(l.arg("self"), l.arg("other"), true); });
  NEURON_OP("aten::heaviside", promotes(ordered_rule, {"self", "values"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    return where(eq(x, 0), l.arg("values"), convert(gt(x, 0), x.dtype()));
  });
  for (const char* suffix : {"Tensor", "Scalar_Self", "Scalar_Other"}) {
    NEURON_OP(std::string("aten::xlogy.") + suffix, promotes(real_float_rule, operands), result(pointwise), [](Lowering& l) {
      const Val a = l.arg("self"), b = l.arg("other");
      return where(is_nan(b), b, where(eq(a, 0), like(a, 0), a * log(b)));
    });
  }
  NEURON_OP("aten::special_xlog1py", promotes(real_float_rule, operands), result(pointwise), [](Lowering& l) {
    const Val a = l.arg("self"), b = l.arg("other");
    return where(is_nan(b), b, where(eq(a, 0), like(a, 0), a * unary(Op::log_plus_one, b)));
  });
}

}  // namespace

Val log_add_exp(const Val& a, const Val& b, bool base2) {
  const Val high = maximum(a, b), low = minimum(a, b);
  const Val gap = low - high;
  const Val sum = base2 ? high + unary(Op::log2, 1 + unary(Op::exp2, gap)) : high + unary(Op::log_plus_one, exp(gap));
  return where(unary(Op::is_inf, high), high, sum);
}

void register_binary(Registry& registry) {
  register_arithmetic(registry);
  register_power(registry);
  register_functions(registry);
}

}  // namespace neuron::ops
