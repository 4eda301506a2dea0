// One element in memory <-> one value of a compute type, by the conversion rules of isa/numerics.h, written out plainly.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "base/float_formats.h"
#include "base/integer_casts.h"

namespace neuron::emulator {

using c64 = std::complex<float>;
using c128 = std::complex<double>;

template <class T>
inline constexpr bool kIsComplex = std::is_same_v<T, c64> || std::is_same_v<T, c128>;
template <class T>
inline constexpr bool kIsFloating = std::is_floating_point_v<T>;

// x as f32, inexact values made odd: rounding the result again to at most 11 bits equals rounding x once.
template <class X>
float f32_rounded_to_odd(X x) {
  float f = static_cast<float>(x);
  if (x != x || static_cast<X>(f) == x) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  const bool away_from_zero = (x < 0 ? -static_cast<X>(f) : static_cast<X>(f)) > (x < 0 ? -x : x);
  if (away_from_zero) --bits;  // also steps from infinity to the largest finite value
  return std::bit_cast<float>(bits | 1u);
}

template <class T>
T load_element(DType type, const uint8_t* at);
template <class T>
void store_element(DType type, uint8_t* at, T value);

// Source to destination in one rounding; equal dtypes copy bytes.
void convert_element(DType from, const uint8_t* source, DType to, uint8_t* target);

// --- implementation ---

namespace elements {

template <class R>
R read(const uint8_t* at) {
  R r;
  std::memcpy(&r, at, sizeof r);
  return r;
}
template <class R>
void write(uint8_t* at, R r) {
  std::memcpy(at, &r, sizeof r);
}

// Any exactly held value to compute type T.
template <class T, class V>
T to_compute(V v) {
  if constexpr (kIsComplex<V>) {
    if constexpr (kIsComplex<T>)
      return T(static_cast<typename T::value_type>(v.real()), static_cast<typename T::value_type>(v.imag()));
    else
      return to_compute<T>(v.real());
  } else if constexpr (kIsComplex<T>) {
    return T(static_cast<typename T::value_type>(v), 0);
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<V>) {
    return std::is_same_v<T, uint64_t> ? static_cast<T>(float_to_u64(v)) : static_cast<T>(float_to_i64(v));
  } else {
    return static_cast<T>(v);
  }
}

// The value rounded once into a format with at most 11 significant bits, as the f32 that the format's converter takes.
template <class T>
float for_small_format(T v) {
  if constexpr (std::is_same_v<T, float>)
    return v;
  else if constexpr (std::is_same_v<T, double>)
    return f32_rounded_to_odd(v);
  else
    return f32_rounded_to_odd(static_cast<long double>(v));  // 64-bit integers are exact in x87's format
}

template <class T>
void store_real(DType type, uint8_t* at, T v) {
  const auto integer = [&]() -> uint64_t {
    if constexpr (std::is_floating_point_v<T>)
      return float_to_integer(type, v);
    else
      return static_cast<uint64_t>(v);
  };
  switch (type) {
    case DType::boolean:
      write<uint8_t>(at, v != 0);
      return;
    case DType::u8:
    case DType::i8:
      write(at, static_cast<uint8_t>(integer()));
      return;
    case DType::u16:
    case DType::i16:
      write(at, static_cast<uint16_t>(integer()));
      return;
    case DType::u32:
    case DType::i32:
      write(at, static_cast<uint32_t>(integer()));
      return;
    case DType::u64:
    case DType::i64:
      write(at, integer());
      return;
    case DType::f8e4m3fn:
      write(at, f32_to_f8e4m3fn(for_small_format(v)));
      return;
    case DType::f8e5m2:
      write(at, f32_to_f8e5m2(for_small_format(v)));
      return;
    case DType::f16:
      write(at, f32_to_f16(for_small_format(v)));
      return;
    case DType::bf16:
      write(at, f32_to_bf16(for_small_format(v)));
      return;
    case DType::f32:
      write(at, static_cast<float>(v));
      return;
    case DType::f64:
      write(at, static_cast<double>(v));
      return;
    case DType::c64:
      write(at, c64(static_cast<float>(v), 0));
      return;
    case DType::c128:
      write(at, c128(static_cast<double>(v), 0));
      return;
  }
}

}  // namespace elements

template <class T>
T load_element(DType type, const uint8_t* at) {
  using namespace elements;
  switch (type) {
    case DType::boolean:
      return to_compute<T>(static_cast<int64_t>(*at != 0));
    case DType::u8:
      return to_compute<T>(static_cast<int64_t>(*at));
    case DType::i8:
      return to_compute<T>(static_cast<int64_t>(read<int8_t>(at)));
    case DType::u16:
      return to_compute<T>(static_cast<int64_t>(read<uint16_t>(at)));
    case DType::i16:
      return to_compute<T>(static_cast<int64_t>(read<int16_t>(at)));
    case DType::u32:
      return to_compute<T>(static_cast<int64_t>(read<uint32_t>(at)));
    case DType::i32:
      return to_compute<T>(static_cast<int64_t>(read<int32_t>(at)));
    case DType::u64:
      return to_compute<T>(read<uint64_t>(at));
    case DType::i64:
      return to_compute<T>(read<int64_t>(at));
    case DType::f8e4m3fn:
      return to_compute<T>(f8e4m3fn_to_f32(*at));
    case DType::f8e5m2:
      return to_compute<T>(f8e5m2_to_f32(*at));
    case DType::f16:
      return to_compute<T>(f16_to_f32(read<uint16_t>(at)));
    case DType::bf16:
      return to_compute<T>(bf16_to_f32(read<uint16_t>(at)));
    case DType::f32:
      return to_compute<T>(read<float>(at));
    case DType::f64:
      return to_compute<T>(read<double>(at));
    case DType::c64:
      return to_compute<T>(read<c64>(at));
    case DType::c128:
      return to_compute<T>(read<c128>(at));
  }
  return T{};
}

template <class T>
void store_element(DType type, uint8_t* at, T v) {
  if constexpr (kIsComplex<T>) {
    switch (type) {
      case DType::boolean:
        elements::write<uint8_t>(at, v.real() != 0 || v.imag() != 0);
        return;
      case DType::c64:
        elements::write(at, elements::to_compute<c64>(v));
        return;
      case DType::c128:
        elements::write(at, elements::to_compute<c128>(v));
        return;
      default:
        elements::store_real(type, at, v.real());
        return;
    }
  } else {
    elements::store_real(type, at, v);
  }
}

}  // namespace neuron::emulator
