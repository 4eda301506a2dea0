// Floats to integers as PyTorch's CPU kernels cast on x86-64, where C++ leaves the result open: NaN and values that do not
// fit included. (Only u32 out of range differs there from lane to lane; here it goes through i64.)
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace neuron {

// Truncation toward zero; NaN and what does not fit give the smallest value.
inline int32_t float_to_i32(double v) { return v > -2147483649.0 && v < 2147483648.0 ? static_cast<int32_t>(v) : INT32_MIN; }
inline int64_t float_to_i64(double v) {
  return v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? static_cast<int64_t>(v) : INT64_MIN;
}
// The upper half of the range by itself; beyond it 0; the rest as i64, wrapped.
inline uint64_t float_to_u64(double v) {
  if (v >= 9223372036854775808.0) return v < 18446744073709551616.0 ? static_cast<uint64_t>(v) : 0;
  return static_cast<uint64_t>(float_to_i64(v));
}
// The low bytes of the result are the element: narrow integers are wrapped from i32, u8 (as PyTorch does it) from i64.
inline uint64_t float_to_integer(DType to, double v) {
  if (to == DType::u64) return float_to_u64(v);
  if (to == DType::i64 || to == DType::u32 || to == DType::u8) return static_cast<uint64_t>(float_to_i64(v));
  return static_cast<uint64_t>(static_cast<int64_t>(float_to_i32(v)));
}

}  // namespace neuron
