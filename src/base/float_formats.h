// Bit-exact conversions between f32 and the small float formats: round to nearest even, NaN stays NaN (quiet).
// Header-only because emulator kernels, the IR evaluator and the compiler's constant folding all need the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace neuron {

inline float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

inline uint16_t f32_to_bf16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x0040u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// Small binary formats with E exponent bits, M mantissa bits. `finite_only` = e4m3fn: no infinities, one NaN pattern,
// values beyond the maximum become the maximum (as PyTorch casts to float8_e4m3fn).
template <int E, int M, bool finite_only>
inline float small_to_f32(uint32_t v) {
  constexpr int bias = (1 << (E - 1)) - 1;
  const uint32_t sign = (v >> (E + M)) & 1u;
  const uint32_t exp = (v >> M) & ((1u << E) - 1u);
  const uint32_t man = v & ((1u << M) - 1u);
  const uint32_t s = sign << 31;
  if (finite_only) {
    if (exp == (1u << E) - 1u && man == (1u << M) - 1u) return std::bit_cast<float>(s | 0x7fc00000u);
  } else if (exp == (1u << E) - 1u) {
    return std::bit_cast<float>(s | 0x7f800000u | (man << (23 - M)) | (man ? 0x00400000u : 0u));
  }
  if (exp == 0) {
    const float f = std::ldexp(static_cast<float>(man), 1 - bias - M);
    return sign ? -f : f;
  }
  return std::bit_cast<float>(s | ((exp - bias + 127u) << 23) | (man << (23 - M)));
}

template <int E, int M, bool finite_only>
inline uint32_t f32_to_small(float f) {
  constexpr int bias = (1 << (E - 1)) - 1;
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (u >> 31) << (E + M);
  const uint32_t a = u & 0x7fffffffu;
  constexpr uint32_t exp_mask = (1u << E) - 1u;
  constexpr uint32_t nan_pattern = finite_only ? ((exp_mask << M) | ((1u << M) - 1u)) : ((exp_mask << M) | (1u << (M - 1)));
  if (a > 0x7f800000u) return sign | nan_pattern;
  if (a == 0x7f800000u) return sign | (finite_only ? nan_pattern - 1u : (exp_mask << M));
  const int exp = static_cast<int>(a >> 23) - 127;
  uint32_t rounded;
  if (exp < 1 - bias) {  // subnormal in the target
    const int shift = (23 - M) + (1 - bias - exp);
    if (shift > 24) return sign;
    const uint32_t man = (a & 0x7fffffu) | (a >> 23 ? 0x800000u : 0u);
    const uint32_t half = 1u << (shift - 1);
    rounded = (man + half - 1u + ((man >> shift) & 1u)) >> shift;
  } else {
    const uint32_t biased = (a - (static_cast<uint32_t>(127 - bias) << 23));
    constexpr int shift = 23 - M;
    rounded = (biased + (1u << (shift - 1)) - 1u + ((biased >> shift) & 1u)) >> shift;
  }
  if (finite_only) {
    if (rounded >= nan_pattern) return sign | (nan_pattern - 1u);
  } else if (rounded > (exp_mask << M)) {
    rounded = exp_mask << M;
  }
  return sign | rounded;
}

inline float f16_to_f32(uint16_t h) { return small_to_f32<5, 10, false>(h); }
inline uint16_t f32_to_f16(float f) { return static_cast<uint16_t>(f32_to_small<5, 10, false>(f)); }
inline float f8e5m2_to_f32(uint8_t h) { return small_to_f32<5, 2, false>(h); }
inline uint8_t f32_to_f8e5m2(float f) { return static_cast<uint8_t>(f32_to_small<5, 2, false>(f)); }
inline float f8e4m3fn_to_f32(uint8_t h) { return small_to_f32<4, 3, true>(h); }
inline uint8_t f32_to_f8e4m3fn(float f) { return static_cast<uint8_t>(f32_to_small<4, 3, true>(f)); }

}  // namespace neuron
