#include "ir/element.h"

#include <cmath>
#include <limits>

#include "base/float_formats.h"
#include "base/integer_casts.h"

namespace neuron::ir {
namespace {

template <class T>
T read(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <class T>
void write(uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

// Low bytes of a 64-bit pattern: integers wrap.
void write_integer(DType dtype, uint8_t* p, uint64_t bits) {
  switch (size_of(dtype)) {
    case 1:
      write(p, static_cast<uint8_t>(bits));
      break;
    case 2:
      write(p, static_cast<uint16_t>(bits));
      break;
    case 4:
      write(p, static_cast<uint32_t>(bits));
      break;
    default:
      write(p, bits);
      break;
  }
}

// f32 and narrower, from an f32 that already holds the rounded value of wider sources.
void write_small_float(DType dtype, uint8_t* p, float value) {
  switch (dtype) {
    case DType::f8e4m3fn:
      write(p, f32_to_f8e4m3fn(value));
      break;
    case DType::f8e5m2:
      write(p, f32_to_f8e5m2(value));
      break;
    case DType::f16:
      write(p, f32_to_f16(value));
      break;
    case DType::bf16:
      write(p, f32_to_bf16(value));
      break;
    default:
      write(p, value);
      break;
  }
}

template <class Integer>
void store_integer(DType dtype, uint8_t* p, Integer value) {
  if (dtype == DType::boolean) {
    write(p, static_cast<uint8_t>(value != 0));
  } else if (is_integer(dtype)) {
    write_integer(dtype, p, static_cast<uint64_t>(value));
  } else if (dtype == DType::f64 || dtype == DType::c128) {
    write(p, static_cast<double>(value));
    if (dtype == DType::c128) write(p + 8, 0.0);
  } else if (dtype == DType::c64) {
    write(p, static_cast<float>(value));
    write(p + 4, 0.0f);
  } else {
    write_small_float(dtype, p, static_cast<float>(value));
  }
}

}  // namespace

NumberClass number_class(DType dtype) {
  if (is_complex(dtype)) return NumberClass::complex;
  if (is_floating(dtype)) return NumberClass::floating;
  return is_unsigned_integer(dtype) ? NumberClass::unsigned_integer : NumberClass::signed_integer;
}

int64_t load_signed(DType dtype, const uint8_t* p) {
  switch (dtype) {
    case DType::boolean:
      return *p != 0;
    case DType::i8:
      return read<int8_t>(p);
    case DType::i16:
      return read<int16_t>(p);
    case DType::i32:
      return read<int32_t>(p);
    default:
      return read<int64_t>(p);
  }
}

uint64_t load_unsigned(DType dtype, const uint8_t* p) {
  switch (dtype) {
    case DType::u8:
      return *p;
    case DType::u16:
      return read<uint16_t>(p);
    case DType::u32:
      return read<uint32_t>(p);
    default:
      return read<uint64_t>(p);
  }
}

double load_floating(DType dtype, const uint8_t* p) {
  switch (dtype) {
    case DType::f8e4m3fn:
      return f8e4m3fn_to_f32(*p);
    case DType::f8e5m2:
      return f8e5m2_to_f32(*p);
    case DType::f16:
      return f16_to_f32(read<uint16_t>(p));
    case DType::bf16:
      return bf16_to_f32(read<uint16_t>(p));
    case DType::f32:
      return read<float>(p);
    default:
      return read<double>(p);
  }
}

Complex load_complex(DType dtype, const uint8_t* p) {
  if (dtype == DType::c64) return {read<float>(p), read<float>(p + 4)};
  return {read<double>(p), read<double>(p + 8)};
}

void store(DType dtype, uint8_t* p, int64_t value) { store_integer(dtype, p, value); }
void store(DType dtype, uint8_t* p, uint64_t value) { store_integer(dtype, p, value); }

void store(DType dtype, uint8_t* p, double value) {
  if (dtype == DType::boolean) {
    write(p, static_cast<uint8_t>(value != 0));
  } else if (is_integer(dtype)) {
    write_integer(dtype, p, float_to_integer(dtype, value));
  } else if (dtype == DType::f64) {
    write(p, value);
  } else if (is_complex(dtype)) {
    store(dtype, p, Complex(value, 0.0));
  } else {
    write_small_float(dtype, p, static_cast<float>(value));
  }
}

void store(DType dtype, uint8_t* p, Complex value) {
  if (dtype == DType::c64) {
    write(p, static_cast<float>(value.real()));
    write(p + 4, static_cast<float>(value.imag()));
  } else if (dtype == DType::c128) {
    write(p, value.real());
    write(p + 8, value.imag());
  } else if (dtype == DType::boolean) {
    write(p, static_cast<uint8_t>(value != Complex(0.0)));
  } else {
    store(dtype, p, value.real());
  }
}

}  // namespace neuron::ir
