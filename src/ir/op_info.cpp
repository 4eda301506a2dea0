#include "ir/op_info.h"

#include <array>

namespace neuron::ir {
namespace {

// Index of attribute struct T in the Attrs variant.
template <class T, size_t I = 0>
constexpr uint8_t attr() {
  if constexpr (std::is_same_v<T, std::variant_alternative_t<I, Attrs>>) {
    return I;
  } else {
    return attr<T, I + 1>();
  }
}

constexpr OpInfo unary(std::string_view name, uint8_t domain) { return {name, 1, 1, 0, domain, Form::unary}; }
constexpr OpInfo to_bool(std::string_view name, uint8_t domain) { return {name, 1, 1, 0, domain, Form::unary_to_bool}; }
constexpr OpInfo to_real(std::string_view name, uint8_t domain) { return {name, 1, 1, 0, domain, Form::unary_to_real}; }
constexpr OpInfo binary(std::string_view name, uint8_t domain) { return {name, 2, 2, 0, domain, Form::binary}; }
constexpr OpInfo other(std::string_view name, uint8_t low, uint8_t high, uint8_t attrs, uint8_t domain = kAny) {
  return {name, low, high, attrs, domain, Form::other};
}

constexpr uint8_t kFloatComplex = kFloat | kComplex;

using Table = std::array<OpInfo, static_cast<size_t>(Op::count_)>;

// Filled by enumerator, so the order of the enum does not matter here.
constexpr Table make_table() {
  Table t{};
  const auto set = [&t](Op op, OpInfo row) { t[static_cast<size_t>(op)] = row; };
  set(Op::parameter, other("parameter", 0, 0, attr<ParameterAttrs>()));
  set(Op::constant, other("constant", 0, 0, attr<ConstantAttrs>()));
  set(Op::iota, other("iota", 0, 0, attr<DimAttrs>()));

  set(Op::convert, other("convert", 1, 1, 0));
  set(Op::bitcast_convert, other("bitcast_convert", 1, 1, 0));
  set(Op::negate, unary("negate", kNumber));
  set(Op::abs, to_real("abs", kNumber));
  set(Op::sign, unary("sign", kNumber));
  set(Op::exponential, unary("exponential", kFloatComplex));
  set(Op::exponential_minus_one, unary("exponential_minus_one", kFloatComplex));
  set(Op::log, unary("log", kFloatComplex));
  set(Op::log_plus_one, unary("log_plus_one", kFloatComplex));
  set(Op::logistic, unary("logistic", kFloatComplex));
  set(Op::sqrt, unary("sqrt", kFloatComplex));
  set(Op::rsqrt, unary("rsqrt", kFloatComplex));
  set(Op::cbrt, unary("cbrt", kFloat));
  set(Op::tanh, unary("tanh", kFloatComplex));
  set(Op::sine, unary("sine", kFloatComplex));
  set(Op::cosine, unary("cosine", kFloatComplex));
  set(Op::tan, unary("tan", kFloatComplex));
  set(Op::floor, unary("floor", kFloat));
  set(Op::ceil, unary("ceil", kFloat));
  set(Op::round_nearest_even, unary("round_nearest_even", kFloat));
  set(Op::round_nearest_afz, unary("round_nearest_afz", kFloat));
  set(Op::is_finite, to_bool("is_finite", kFloat));
  set(Op::not_, unary("not", kBool | kInt));
  set(Op::popcnt, unary("popcnt", kInt));
  set(Op::real, to_real("real", kFloatComplex));
  set(Op::imag, to_real("imag", kFloatComplex));

  set(Op::erf, unary("erf", kFloat));
  set(Op::erfc, unary("erfc", kFloat));
  set(Op::erf_inv, unary("erf_inv", kFloat));
  set(Op::lgamma, unary("lgamma", kFloat));
  set(Op::digamma, unary("digamma", kFloat));
  set(Op::exp2, unary("exp2", kFloatComplex));
  set(Op::log2, unary("log2", kFloatComplex));
  set(Op::log10, unary("log10", kFloatComplex));
  set(Op::trunc, unary("trunc", kFloat));
  set(Op::asin, unary("asin", kFloatComplex));
  set(Op::acos, unary("acos", kFloatComplex));
  set(Op::atan, unary("atan", kFloatComplex));
  set(Op::sinh, unary("sinh", kFloatComplex));
  set(Op::cosh, unary("cosh", kFloatComplex));
  set(Op::asinh, unary("asinh", kFloatComplex));
  set(Op::acosh, unary("acosh", kFloatComplex));
  set(Op::atanh, unary("atanh", kFloatComplex));
  set(Op::gelu, unary("gelu", kFloat));
  set(Op::gelu_dx, unary("gelu_dx", kFloat));
  set(Op::gelu_tanh, unary("gelu_tanh", kFloat));
  set(Op::gelu_tanh_dx, unary("gelu_tanh_dx", kFloat));
  set(Op::silu, unary("silu", kFloatComplex));
  set(Op::softplus_unit, unary("softplus_unit", kFloat));
  set(Op::is_nan, to_bool("is_nan", kFloat));
  set(Op::is_inf, to_bool("is_inf", kFloat));
  set(Op::reciprocal, unary("reciprocal", kFloatComplex));
  set(Op::angle, to_real("angle", kFloatComplex));
  set(Op::conj, unary("conj", kComplex));

  set(Op::add, binary("add", kAny));
  set(Op::subtract, binary("subtract", kNumber));
  set(Op::multiply, binary("multiply", kAny));
  set(Op::divide, binary("divide", kNumber));
  set(Op::remainder, binary("remainder", kInt | kFloat));
  set(Op::power, binary("power", kNumber));
  set(Op::maximum, binary("maximum", kBool | kInt | kFloat));
  set(Op::minimum, binary("minimum", kBool | kInt | kFloat));
  set(Op::atan2, binary("atan2", kFloat));
  set(Op::and_, binary("and", kBool | kInt));
  set(Op::or_, binary("or", kBool | kInt));
  set(Op::xor_, binary("xor", kBool | kInt));
  set(Op::shift_left, binary("shift_left", kInt));
  set(Op::shift_right_arithmetic, binary("shift_right_arithmetic", kInt));
  set(Op::shift_right_logical, binary("shift_right_logical", kInt));
  set(Op::complex, other("complex", 2, 2, 0, kFloat));
  set(Op::floor_divide, binary("floor_divide", kInt | kFloat));
  set(Op::python_remainder, binary("python_remainder", kInt | kFloat));
  set(Op::copysign, binary("copysign", kFloat));
  set(Op::nextafter, binary("nextafter", kFloat));
  set(Op::hypot, binary("hypot", kFloat));
  set(Op::gcd, binary("gcd", kInt));
  set(Op::compare, other("compare", 2, 2, attr<CompareAttrs>()));
  set(Op::select, other("select", 3, 3, 0));
  set(Op::clamp, other("clamp", 3, 3, 0, kInt | kFloat));

  set(Op::reshape, other("reshape", 1, 1, 0));
  set(Op::broadcast_in_dim, other("broadcast_in_dim", 1, 1, attr<DimsAttrs>()));
  set(Op::transpose, other("transpose", 1, 1, attr<DimsAttrs>()));
  set(Op::slice, other("slice", 1, 1, attr<SliceAttrs>()));
  set(Op::concatenate, other("concatenate", 1, kVariadic, attr<DimAttrs>()));
  set(Op::pad, other("pad", 2, 2, attr<PadAttrs>()));
  set(Op::reverse, other("reverse", 1, 1, attr<DimsAttrs>()));
  set(Op::strided_view, other("strided_view", 1, 1, attr<StridedViewAttrs>()));
  set(Op::dynamic_slice, other("dynamic_slice", 1, kVariadic, 0));
  set(Op::dynamic_update_slice, other("dynamic_update_slice", 2, kVariadic, 0));
  set(Op::reduce, other("reduce", 1, 1, attr<ReduceAttrs>()));
  set(Op::arg_reduce, other("arg_reduce", 1, 1, attr<ArgReduceAttrs>(), kBool | kInt | kFloat));
  set(Op::scan, other("scan", 1, 1, attr<ScanAttrs>()));
  set(Op::dot_general, other("dot_general", 2, 2, attr<DotAttrs>(), kNumber));
  set(Op::gather, other("gather", 2, 2, attr<GatherAttrs>()));
  set(Op::scatter, other("scatter", 3, 3, attr<ScatterAttrs>()));
  set(Op::sort, other("sort", 1, 1, attr<SortAttrs>(), kBool | kInt | kFloat));
  set(Op::top_k, other("top_k", 1, 1, attr<TopKAttrs>(), kBool | kInt | kFloat));
  set(Op::rng_bit_generator, other("rng_bit_generator", 2, 2, attr<RngAttrs>()));
  set(Op::attention, other("attention", 3, 5, attr<AttentionAttrs>(), kFloat));
  set(Op::attention_backward, other("attention_backward", 6, 8, attr<AttentionAttrs>(), kFloat));
  set(Op::custom_program, other("custom_program", 0, kVariadic, attr<CustomProgramAttrs>()));
  return t;
}

constexpr Table kTable = make_table();

}  // namespace

const OpInfo& info(Op op) { return kTable[static_cast<size_t>(op)]; }
std::string_view name_of(Op op) { return info(op).name; }

Domain domain_of(DType dtype) {
  if (dtype == DType::boolean) return kBool;
  if (is_complex(dtype)) return kComplex;
  return is_floating(dtype) ? kFloat : kInt;
}

}  // namespace neuron::ir
