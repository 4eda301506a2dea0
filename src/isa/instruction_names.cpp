// Names and engine rules of ALU operations, activation functions, engines, spaces and roles.
#include <array>

#include "isa/instruction_table.h"

namespace neuron::isa {
namespace {

constexpr uint32_t kV = engine_bit(Engine::vector);
constexpr uint32_t kS = engine_bit(Engine::scalar);
constexpr uint32_t kG = engine_bit(Engine::gpsimd);

// In AluOp order: name, engines in f32, reduces, integer only, real only.
constexpr std::array<AluInfo, static_cast<size_t>(AluOp::count_)> kAlu = {{
    {"bypass", kV | kS | kG, false, false, false},
    {"add", kV | kS | kG, true, false, false},
    {"subtract", kV | kG, false, false, false},
    {"multiply", kV | kS | kG, true, false, false},
    {"divide", kV | kG, false, false, false},
    {"maximum", kV | kG, true, false, true},
    {"minimum", kV | kG, true, false, true},
    {"power", kG, false, false, false},
    {"remainder", kG, false, false, true},
    {"fmod", kG, false, false, true},
    {"floor_divide", kG, false, false, true},
    {"trunc_divide", kG, false, false, true},
    {"atan2", kG, false, false, true},
    {"hypot", kG, false, false, true},
    {"copysign", kG, false, false, true},
    {"nextafter", kG, false, false, true},
    {"equal", kV | kG, false, false, false},
    {"not_equal", kV | kG, false, false, false},
    {"less", kV | kG, false, false, true},
    {"less_equal", kV | kG, false, false, true},
    {"greater", kV | kG, false, false, true},
    {"greater_equal", kV | kG, false, false, true},
    {"logical_and", kV | kG, true, false, false},
    {"logical_or", kV | kG, true, false, false},
    {"logical_xor", kV | kG, true, false, false},
    {"bitwise_and", kG, true, true, true},
    {"bitwise_or", kG, true, true, true},
    {"bitwise_xor", kG, true, true, true},
    {"shift_left", kG, false, true, true},
    {"shift_right_arithmetic", kG, false, true, true},
    {"shift_right_logical", kG, false, true, true},
    {"gcd", kG, false, true, true},
}};

// In ActFn order: name, engines in f32, ScalarE function table. The contents of the chip's tables are not public: here every
// function that needs a polynomial is a table of its own.
constexpr std::array<ActInfo, static_cast<size_t>(ActFn::count_)> kAct = {{
    {"copy", kS | kG, 0},
    {"negative", kS | kG, 0},
    {"abs", kS | kG, 0},
    {"sign", kS | kG, 0},
    {"square", kS | kG, 0},
    {"relu", kS | kG, 0},
    {"sqrt", kS | kG, 1},
    {"rsqrt", kS | kG, 2},
    {"reciprocal", kS | kG, 3},
    {"exp", kS | kG, 4},
    {"exp2", kG, 0},
    {"expm1", kG, 0},
    {"log", kS | kG, 5},
    {"log2", kG, 0},
    {"log10", kG, 0},
    {"log1p", kG, 0},
    {"sin", kS | kG, 6},
    {"cos", kG, 0},
    {"tan", kG, 0},
    {"asin", kG, 0},
    {"acos", kG, 0},
    {"atan", kS | kG, 7},
    {"sinh", kG, 0},
    {"cosh", kG, 0},
    {"tanh", kS | kG, 8},
    {"asinh", kG, 0},
    {"acosh", kG, 0},
    {"atanh", kG, 0},
    {"sigmoid", kS | kG, 9},
    {"silu", kS | kG, 10},
    {"silu_dx", kS | kG, 11},
    {"gelu", kS | kG, 12},
    {"gelu_dx", kS | kG, 13},
    {"gelu_apprx_tanh", kS | kG, 14},
    {"gelu_apprx_tanh_dx", kS | kG, 15},
    {"softplus", kS | kG, 16},
    {"mish", kS | kG, 17},
    {"log_sigmoid", kG, 0},
    {"erf", kS | kG, 18},
    {"erfc", kG, 0},
    {"erf_inv", kG, 0},
    {"lgamma", kG, 0},
    {"digamma", kG, 0},
    {"floor", kG, 0},
    {"ceil", kG, 0},
    {"trunc", kG, 0},
    {"round", kG, 0},
    {"is_nan", kG, 0},
    {"is_inf", kG, 0},
    {"is_finite", kG, 0},
    {"logical_not", kG, 0},
    {"bitwise_not", kG, 0},
    {"population_count", kG, 0},
    {"real", kG, 0},
    {"imag", kG, 0},
    {"conj", kG, 0},
    {"angle", kG, 0},
}};

// Every row must be written: a missing one would leave an empty name at the end.
static_assert(!kAlu.back().name.empty() && !kAct.back().name.empty());

constexpr std::array<std::string_view, 7> kEngines = {"unknown", "tensor", "scalar", "gpsimd", "dma", "vector", "sync"};
constexpr std::array<std::string_view, 4> kSpaces = {"none", "hbm", "sbuf", "psum"};
constexpr std::array<std::string_view, 4> kRoles = {"in", "out", "constant", "scratch"};

template <class Table, class Enum>
std::string_view name_in(const Table& table, Enum value) {
  const size_t i = static_cast<size_t>(value);
  return i < table.size() ? table[i] : std::string_view("?");
}

}  // namespace

const AluInfo& info(AluOp op) {
  const size_t i = static_cast<size_t>(op);
  return kAlu[i < kAlu.size() ? i : 0];
}

const ActInfo& info(ActFn func) {
  const size_t i = static_cast<size_t>(func);
  return kAct[i < kAct.size() ? i : 0];
}

std::string_view name_of(AluOp op) { return op < AluOp::count_ ? info(op).name : std::string_view("?"); }
std::string_view name_of(ActFn func) { return func < ActFn::count_ ? info(func).name : std::string_view("?"); }
std::string_view name_of(Engine engine) { return name_in(kEngines, engine); }
std::string_view name_of(Space space) { return name_in(kSpaces, space); }
std::string_view name_of(TensorRole role) { return name_in(kRoles, role); }

std::optional<AluOp> alu_op_from_name(std::string_view name) {
  for (size_t i = 0; i < kAlu.size(); ++i) {
    if (kAlu[i].name == name) return static_cast<AluOp>(i);
  }
  return std::nullopt;
}

std::optional<ActFn> act_fn_from_name(std::string_view name) {
  for (size_t i = 0; i < kAct.size(); ++i) {
    if (kAct[i].name == name) return static_cast<ActFn>(i);
  }
  return std::nullopt;
}

bool narrow(DType t) { return size_of(t) <= 4; }

bool is_compute_type(DType t) {
  switch (t) {
    case DType::f32:
    case DType::f64:
    case DType::i64:
    case DType::u64:
    case DType::c64:
    case DType::c128:
      return true;
    default:
      return false;
  }
}

DType compute_type_for(DType t) {
  if (t == DType::u64 || t == DType::f64 || is_complex(t)) return t;
  if (is_integer(t)) return DType::i64;
  return DType::f32;
}

bool act_defined_for(ActFn func, DType compute) {
  switch (func) {
    case ActFn::bitwise_not:
    case ActFn::population_count:
      return is_integer(compute);
    case ActFn::copy:
    case ActFn::negative:
    case ActFn::abs:
    case ActFn::sign:
    case ActFn::square:
    case ActFn::logical_not:
    case ActFn::is_nan:
    case ActFn::is_inf:
    case ActFn::is_finite:
    case ActFn::real:
    case ActFn::imag:
    case ActFn::conj:
      return true;
    case ActFn::relu:
    case ActFn::floor:
    case ActFn::ceil:
    case ActFn::trunc:
    case ActFn::round:
      return !is_complex(compute);
    case ActFn::softplus:
    case ActFn::mish:
    case ActFn::log_sigmoid:
    case ActFn::silu_dx:
    case ActFn::gelu:
    case ActFn::gelu_dx:
    case ActFn::gelu_apprx_tanh:
    case ActFn::gelu_apprx_tanh_dx:
    case ActFn::erf:
    case ActFn::erfc:
    case ActFn::erf_inv:
    case ActFn::lgamma:
    case ActFn::digamma:
      return is_floating(compute);
    default:
      return !is_integer(compute);
  }
}

bool alu_defined_for(AluOp op, DType compute) {
  const AluInfo& a = info(op);
  if (a.integer_only && !is_integer(compute)) return false;
  if (a.real_only && is_complex(compute)) return false;
  switch (op) {
    case AluOp::atan2:
    case AluOp::hypot:
    case AluOp::copysign:
    case AluOp::nextafter:
      return is_floating(compute);
    default:
      return true;
  }
}

bool partition_start_legal(uint32_t start, uint32_t count) {
  if (count > 64) return start == 0;
  if (count > 32) return start == 0 || start == 64;
  return start == 0 || start == 32 || start == 64 || start == 96;
}

}  // namespace neuron::isa
