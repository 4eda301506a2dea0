#include "compiler/op_table.h"

#include <limits>

#include "isa/instruction_table.h"

namespace neuron::compiler {

using ir::Op;
using isa::ActFn;
using isa::AluOp;

namespace {

AluOp comparison(ir::Comparison c) {
  switch (c) {
    case ir::Comparison::eq:
      return AluOp::equal;
    case ir::Comparison::ne:
      return AluOp::not_equal;
    case ir::Comparison::lt:
      return AluOp::less;
    case ir::Comparison::le:
      return AluOp::less_equal;
    case ir::Comparison::gt:
      return AluOp::greater;
    default:
      return AluOp::greater_equal;
  }
}

}  // namespace

std::optional<AluOp> alu_op_of(const ir::Node& node, DType operand) {
  const bool boolean = operand == DType::boolean;
  const bool integer = is_integer(operand);
  switch (node.op) {
    case Op::add:
      return AluOp::add;
    case Op::subtract:
      return AluOp::subtract;
    case Op::multiply:
      return AluOp::multiply;
    case Op::divide:
      return integer ? AluOp::trunc_divide : AluOp::divide;
    case Op::remainder:
      return AluOp::fmod;
    case Op::python_remainder:
      return AluOp::remainder;
    case Op::floor_divide:
      return AluOp::floor_divide;
    case Op::power:
      return AluOp::power;
    case Op::maximum:
      return AluOp::maximum;
    case Op::minimum:
      return AluOp::minimum;
    case Op::atan2:
      return AluOp::atan2;
    case Op::and_:
      return boolean ? AluOp::logical_and : AluOp::bitwise_and;
    case Op::or_:
      return boolean ? AluOp::logical_or : AluOp::bitwise_or;
    case Op::xor_:
      return boolean ? AluOp::logical_xor : AluOp::bitwise_xor;
    case Op::shift_left:
      return AluOp::shift_left;
    case Op::shift_right_arithmetic:
      return AluOp::shift_right_arithmetic;
    case Op::shift_right_logical:
      return AluOp::shift_right_logical;
    case Op::copysign:
      return AluOp::copysign;
    case Op::nextafter:
      return AluOp::nextafter;
    case Op::hypot:
      return AluOp::hypot;
    case Op::gcd:
      return AluOp::gcd;
    case Op::compare:
      return comparison(std::get<ir::CompareAttrs>(node.attrs).direction);
    default:
      return std::nullopt;
  }
}

std::optional<ActFn> act_fn_of(Op op, DType operand) {
  switch (op) {
    case Op::negate:
      return ActFn::negative;
    case Op::abs:
      return ActFn::abs;
    case Op::sign:
      return ActFn::sign;
    case Op::exponential:
      return ActFn::exp;
    case Op::exponential_minus_one:
      return ActFn::expm1;
    case Op::log:
      return ActFn::log;
    case Op::log_plus_one:
      return ActFn::log1p;
    case Op::logistic:
      return ActFn::sigmoid;
    case Op::sqrt:
      return ActFn::sqrt;
    case Op::rsqrt:
      return ActFn::rsqrt;
    case Op::tanh:
      return ActFn::tanh;
    case Op::sine:
      return ActFn::sin;
    case Op::cosine:
      return ActFn::cos;
    case Op::tan:
      return ActFn::tan;
    case Op::floor:
      return ActFn::floor;
    case Op::ceil:
      return ActFn::ceil;
    case Op::round_nearest_even:
      return ActFn::round;
    case Op::is_finite:
      return ActFn::is_finite;
    case Op::not_:
      return operand == DType::boolean ? ActFn::logical_not : ActFn::bitwise_not;
    case Op::popcnt:
      return ActFn::population_count;
    case Op::erf:
      return ActFn::erf;
    case Op::erfc:
      return ActFn::erfc;
    case Op::erf_inv:
      return ActFn::erf_inv;
    case Op::lgamma:
      return ActFn::lgamma;
    case Op::digamma:
      return ActFn::digamma;
    case Op::exp2:
      return ActFn::exp2;
    case Op::log2:
      return ActFn::log2;
    case Op::log10:
      return ActFn::log10;
    case Op::trunc:
      return ActFn::trunc;
    case Op::asin:
      return ActFn::asin;
    case Op::acos:
      return ActFn::acos;
    case Op::atan:
      return ActFn::atan;
    case Op::sinh:
      return ActFn::sinh;
    case Op::cosh:
      return ActFn::cosh;
    case Op::asinh:
      return ActFn::asinh;
    case Op::acosh:
      return ActFn::acosh;
    case Op::atanh:
      return ActFn::atanh;
    case Op::gelu:
      return ActFn::gelu;
    case Op::gelu_dx:
      return ActFn::gelu_dx;
    case Op::gelu_tanh:
      return ActFn::gelu_apprx_tanh;
    case Op::gelu_tanh_dx:
      return ActFn::gelu_apprx_tanh_dx;
    case Op::silu:
      return ActFn::silu;
    case Op::softplus_unit:
      return ActFn::softplus;
    case Op::is_nan:
      return ActFn::is_nan;
    case Op::is_inf:
      return ActFn::is_inf;
    case Op::reciprocal:
      return ActFn::reciprocal;
    case Op::angle:
      return ActFn::angle;
    case Op::conj:
      return ActFn::conj;
    case Op::real:
      return ActFn::real;
    case Op::imag:
      return ActFn::imag;
    default:
      return std::nullopt;
  }
}

AluOp alu_op_of(ir::Reducer reducer, DType dtype) {
  const bool boolean = dtype == DType::boolean;
  switch (reducer) {
    case ir::Reducer::add:
      return boolean ? AluOp::logical_or : AluOp::add;
    case ir::Reducer::multiply:
      return boolean ? AluOp::logical_and : AluOp::multiply;
    case ir::Reducer::maximum:
      return AluOp::maximum;
    case ir::Reducer::minimum:
      return AluOp::minimum;
    case ir::Reducer::and_:
      return boolean ? AluOp::logical_and : AluOp::bitwise_and;
    case ir::Reducer::or_:
      return boolean ? AluOp::logical_or : AluOp::bitwise_or;
    case ir::Reducer::xor_:
      return boolean ? AluOp::logical_xor : AluOp::bitwise_xor;
    default:
      return AluOp::bypass;
  }
}

namespace {

int64_t least_integer(DType t) {
  if (!is_signed_integer(t)) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(t));
}

int64_t greatest_integer(DType t) {
  if (t == DType::boolean) return 1;
  if (t == DType::u64) return -1;
  const int bits = static_cast<int>(8 * size_of(t)) - (is_signed_integer(t) ? 1 : 0);
  return static_cast<int64_t>((uint64_t{1} << bits) - 1);
}

}  // namespace

isa::ScalarOperand identity_of(ir::Reducer reducer, DType dtype) {
  isa::ScalarOperand s;
  s.kind = isa::ScalarOperand::Kind::immediate;
  const bool real = is_floating(dtype);
  const double infinity = std::numeric_limits<double>::infinity();
  switch (reducer) {
    case ir::Reducer::multiply:
      s.re = 1, s.i = 1;
      break;
    case ir::Reducer::and_:
      s.i = dtype == DType::boolean ? 1 : -1, s.re = static_cast<double>(s.i);
      break;
    case ir::Reducer::maximum:
      s.i = real ? 0 : least_integer(dtype);
      s.re = real ? -infinity : static_cast<double>(s.i);
      break;
    case ir::Reducer::minimum:
      s.i = real ? 0 : greatest_integer(dtype);
      s.re = real ? infinity : static_cast<double>(s.i);
      break;
    default:
      break;
  }
  return s;
}

bool absorbs_scale_and_bias(ActFn func) {
  switch (func) {
    case ActFn::exp:
    case ActFn::log:
    case ActFn::tanh:
    case ActFn::sigmoid:
    case ActFn::silu:
    case ActFn::gelu:
    case ActFn::gelu_apprx_tanh:
    case ActFn::softplus:
    case ActFn::mish:
    case ActFn::erf:
    case ActFn::sin:
    case ActFn::square:
    case ActFn::relu:
    case ActFn::rsqrt:
    case ActFn::sqrt:
      return true;
    default:
      return false;
  }
}

bool exact_widening(DType from, DType to) {
  if (from == to || from == DType::boolean) return true;
  if (is_complex(from)) return from == DType::c64 && to == DType::c128;
  if (is_complex(to)) return exact_widening(from, real_type(to));
  if (is_floating(from)) {
    if (!is_floating(to) || size_of(from) >= size_of(to)) return false;
    return size_of(to) >= 4 || size_of(from) == 1;  // f16 and bf16 hold fp8; f32 holds all small floats
  }
  if (is_floating(to)) {
    const size_t mantissa = to == DType::f64 ? 4 : to == DType::f32 ? 2 : 0;  // bytes of integer held exactly
    return size_of(from) <= mantissa;
  }
  if (to == DType::boolean) return false;
  if (is_unsigned_integer(from)) return size_of(from) < size_of(to);
  return is_signed_integer(to) && size_of(from) < size_of(to);
}

}  // namespace neuron::compiler
