// Elements in memory: how one number of each dtype is encoded, and the conversions between dtypes (the reference numerics):
//   float -> narrower float  nearest even (f16, bf16, fp8 through f32, as PyTorch's CPU); overflow to infinity, e4m3fn to
//                            its largest value
//   float -> integer         truncate; NaN and values outside the destination: base/integer_casts.h
//   float -> bool            value != 0;   integer -> integer  wrap;   integer -> float  nearest even from the exact value
//   complex -> real          the real part (bool: either part != 0);   real -> complex  imaginary part 0
// The evaluator holds bool and signed integers as int64_t, unsigned ones as uint64_t, every float as double (wide enough
// that
// + - * / and sqrt of f32 and narrower round as in their own type), complex as complex<double>.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace neuron::ir {

using Complex = std::complex<double>;

// The four number classes of the evaluator.
enum class NumberClass : uint8_t { signed_integer, unsigned_integer, floating, complex };
NumberClass number_class(DType dtype);  // bool counts as signed_integer

// Reads the element at `p`, of a dtype whose class is T's.
int64_t load_signed(DType dtype, const uint8_t* p);
uint64_t load_unsigned(DType dtype, const uint8_t* p);
double load_floating(DType dtype, const uint8_t* p);
Complex load_complex(DType dtype, const uint8_t* p);

// Writes a number of any class as an element of any dtype, by the conversions above.
void store(DType dtype, uint8_t* p, int64_t value);
void store(DType dtype, uint8_t* p, uint64_t value);
void store(DType dtype, uint8_t* p, double value);
void store(DType dtype, uint8_t* p, Complex value);

template <class T>
T load(DType dtype, const uint8_t* p) {
  if constexpr (std::is_same_v<T, int64_t>) return load_signed(dtype, p);
  if constexpr (std::is_same_v<T, uint64_t>) return load_unsigned(dtype, p);
  if constexpr (std::is_same_v<T, double>) return load_floating(dtype, p);
  if constexpr (std::is_same_v<T, Complex>) return load_complex(dtype, p);
}

// Calls f(T{}) with the C++ type that holds `dtype`.
template <class F>
decltype(auto) with_number(DType dtype, F&& f) {
  switch (number_class(dtype)) {
    case NumberClass::unsigned_integer:
      return f(uint64_t{});
    case NumberClass::floating:
      return f(double{});
    case NumberClass::complex:
      return f(Complex{});
    default:
      return f(int64_t{});
  }
}

}  // namespace neuron::ir
