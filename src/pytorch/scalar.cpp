#include "pytorch/scalar.h"

#include <ATen/Dispatch_v2.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>
#include <c10/util/complex.h>

#include <cstring>

namespace neuron::pytorch {
namespace {

using c10::ScalarType;

template <class T>
T load(const void* address) {
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

uint64_t bits(double value) {
  uint64_t out;
  std::memcpy(&out, &value, sizeof out);
  return out;
}

}  // namespace

std::optional<DType> to_dtype(ScalarType type) {
  switch (type) {
    case ScalarType::Bool:
      return DType::boolean;
    case ScalarType::Byte:
      return DType::u8;
    case ScalarType::Char:
      return DType::i8;
    case ScalarType::UInt16:
      return DType::u16;
    case ScalarType::Short:
      return DType::i16;
    case ScalarType::UInt32:
      return DType::u32;
    case ScalarType::Int:
      return DType::i32;
    case ScalarType::UInt64:
      return DType::u64;
    case ScalarType::Long:
      return DType::i64;
    case ScalarType::Float8_e4m3fn:
      return DType::f8e4m3fn;
    case ScalarType::Float8_e5m2:
      return DType::f8e5m2;
    case ScalarType::Half:
      return DType::f16;
    case ScalarType::BFloat16:
      return DType::bf16;
    case ScalarType::Float:
      return DType::f32;
    case ScalarType::Double:
      return DType::f64;
    case ScalarType::ComplexFloat:
      return DType::c64;
    case ScalarType::ComplexDouble:
      return DType::c128;
    default:
      return std::nullopt;
  }
}

DType dtype_or_raise(ScalarType type, const char* what) {
  const auto dtype = to_dtype(type);
  TORCH_CHECK_NOT_IMPLEMENTED(dtype.has_value(), what, ": dtype ", type, " is not supported on device neuron");
  return *dtype;
}

ScalarType to_scalar_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return ScalarType::Bool;
    case DType::u8:
      return ScalarType::Byte;
    case DType::i8:
      return ScalarType::Char;
    case DType::u16:
      return ScalarType::UInt16;
    case DType::i16:
      return ScalarType::Short;
    case DType::u32:
      return ScalarType::UInt32;
    case DType::i32:
      return ScalarType::Int;
    case DType::u64:
      return ScalarType::UInt64;
    case DType::i64:
      return ScalarType::Long;
    case DType::f8e4m3fn:
      return ScalarType::Float8_e4m3fn;
    case DType::f8e5m2:
      return ScalarType::Float8_e5m2;
    case DType::f16:
      return ScalarType::Half;
    case DType::bf16:
      return ScalarType::BFloat16;
    case DType::f32:
      return ScalarType::Float;
    case DType::f64:
      return ScalarType::Double;
    case DType::c64:
      return ScalarType::ComplexFloat;
    case DType::c128:
      return ScalarType::ComplexDouble;
  }
  return ScalarType::Undefined;
}

ops::ScalarArg::Kind kind_of(const c10::Scalar& scalar) {
  if (scalar.isBoolean()) return ops::ScalarArg::Kind::boolean;
  if (scalar.isIntegral(/*includeBool=*/false)) return ops::ScalarArg::Kind::integer;
  if (scalar.isComplex()) return ops::ScalarArg::Kind::complex;
  return ops::ScalarArg::Kind::floating;
}

DType slot_type(ops::ScalarArg::Kind kind) {
  switch (kind) {
    case ops::ScalarArg::Kind::boolean:
    case ops::ScalarArg::Kind::integer:
      return DType::i64;
    case ops::ScalarArg::Kind::floating:
      return DType::f64;
    case ops::ScalarArg::Kind::complex:
      return DType::c128;
  }
  return DType::f64;
}

DType slot_type(DType element) {
  if (is_complex(element)) return DType::c128;
  if (is_floating(element)) return DType::f64;
  return element == DType::u64 ? DType::u64 : DType::i64;
}

int write_slots(const c10::Scalar& scalar, DType slot_dtype, uint64_t* slots) {
  switch (slot_dtype) {
    case DType::c128: {
      const c10::complex<double> value = scalar.toComplexDouble();
      slots[0] = bits(value.real());
      slots[1] = bits(value.imag());
      return 2;
    }
    case DType::f64:
      slots[0] = bits(scalar.toDouble());
      return 1;
    case DType::u64:
      slots[0] = scalar.toUInt64();
      return 1;
    default:
      slots[0] = scalar.isBoolean() ? static_cast<uint64_t>(scalar.toBool()) : static_cast<uint64_t>(scalar.toLong());
      return 1;
  }
}

int write_slots(const void* element, ScalarType type, DType slot_dtype, uint64_t* slots) {
  double real = 0, imaginary = 0;
  int64_t integer = 0;
  switch (type) {
    case ScalarType::Bool:
      integer = load<uint8_t>(element) != 0;
      break;
    case ScalarType::Byte:
      integer = load<uint8_t>(element);
      break;
    case ScalarType::Char:
      integer = load<int8_t>(element);
      break;
    case ScalarType::UInt16:
      integer = load<uint16_t>(element);
      break;
    case ScalarType::Short:
      integer = load<int16_t>(element);
      break;
    case ScalarType::UInt32:
      integer = load<uint32_t>(element);
      break;
    case ScalarType::Int:
      integer = load<int32_t>(element);
      break;
    case ScalarType::UInt64:
    case ScalarType::Long:
      integer = load<int64_t>(element);
      break;
    case ScalarType::Float8_e4m3fn:
      real = static_cast<float>(load<c10::Float8_e4m3fn>(element));
      break;
    case ScalarType::Float8_e5m2:
      real = static_cast<float>(load<c10::Float8_e5m2>(element));
      break;
    case ScalarType::Half:
      real = static_cast<float>(load<c10::Half>(element));
      break;
    case ScalarType::BFloat16:
      real = static_cast<float>(load<c10::BFloat16>(element));
      break;
    case ScalarType::Float:
      real = load<float>(element);
      break;
    case ScalarType::Double:
      real = load<double>(element);
      break;
    case ScalarType::ComplexFloat:
      real = load<float>(element);
      imaginary = load<float>(static_cast<const char*>(element) + sizeof(float));
      break;
    case ScalarType::ComplexDouble:
      real = load<double>(element);
      imaginary = load<double>(static_cast<const char*>(element) + sizeof(double));
      break;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "a CPU number of dtype ", type, " cannot be used on device neuron");
  }
  switch (slot_dtype) {
    case DType::c128:
      slots[0] = bits(real);
      slots[1] = bits(imaginary);
      return 2;
    case DType::f64:
      slots[0] = bits(real);
      return 1;
    default:
      slots[0] = static_cast<uint64_t>(integer);
      return 1;
  }
}

void check_fits(const c10::Scalar& scalar, c10::ScalarType type) {
  AT_DISPATCH_V2(type, "check_fits", AT_WRAP([&] { (void)scalar.to<scalar_t>(); }), AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), AT_EXPAND(AT_FLOAT8_TYPES), at::kBool, at::kHalf, at::kBFloat16);
}

}  // namespace neuron::pytorch
