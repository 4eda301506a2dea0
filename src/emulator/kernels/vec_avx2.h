// 16 float lanes in two 256-bit registers (AVX2, FMA, F16C). Same interface and bits as vec_scalar.h.
#pragma once

#include <immintrin.h>

#include "emulator/kernels/vec_scalar.h"

namespace neuron::emulator::avx2 {

struct Mask {
  __m256 a, b;
};
struct Ints {
  __m256i a, b;
  static NEURON_INLINE Ints set(int32_t x) {
    const __m256i s = _mm256_set1_epi32(x);
    return {s, s};
  }
};
// All ones in the first n of 8 lanes.
NEURON_INLINE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
struct V {
  static constexpr int lanes = 16;
  using Ints = avx2::Ints;
  using Mask = avx2::Mask;
  __m256 a, b;
  static NEURON_INLINE V set(float x) {
    const __m256 s = _mm256_set1_ps(x);
    return {s, s};
  }
  static NEURON_INLINE V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static NEURON_INLINE V load_partial(const float* p, int n) {
    return {_mm256_maskload_ps(p, first_lanes(n)), _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
  }
  NEURON_INLINE void store(float* p) const {
    _mm256_storeu_ps(p, a);
    _mm256_storeu_ps(p + 8, b);
  }
  NEURON_INLINE void store_partial(float* p, int n) const {
    _mm256_maskstore_ps(p, first_lanes(n), a);
    _mm256_maskstore_ps(p + 8, first_lanes(n - 8), b);
  }
  NEURON_INLINE void stream(float* p) const {
    _mm256_stream_ps(p, a);
    _mm256_stream_ps(p + 8, b);
  }
};

#define NEURON_PAIR(type, name, f) \
  NEURON_INLINE type name(type x, type y) { return {f(x.a, y.a), f(x.b, y.b)}; }
NEURON_PAIR(V, operator+, _mm256_add_ps)
NEURON_PAIR(V, operator-, _mm256_sub_ps)
NEURON_PAIR(V, operator*, _mm256_mul_ps)
NEURON_PAIR(V, operator/, _mm256_div_ps)
NEURON_PAIR(Ints, operator+, _mm256_add_epi32)
NEURON_PAIR(Ints, operator-, _mm256_sub_epi32)
NEURON_PAIR(Ints, operator&, _mm256_and_si256)
NEURON_PAIR(Ints, operator|, _mm256_or_si256)
NEURON_PAIR(Ints, operator^, _mm256_xor_si256)
NEURON_PAIR(Mask, operator&, _mm256_and_ps)
NEURON_PAIR(Mask, operator|, _mm256_or_ps)
#undef NEURON_PAIR
#define NEURON_COMPARE(name, predicate) \
  NEURON_INLINE Mask name(V x, V y) { return {_mm256_cmp_ps(x.a, y.a, predicate), _mm256_cmp_ps(x.b, y.b, predicate)}; }
NEURON_COMPARE(operator<, _CMP_LT_OQ)
NEURON_COMPARE(operator<=, _CMP_LE_OQ)
NEURON_COMPARE(operator==, _CMP_EQ_OQ)
NEURON_COMPARE(operator!=, _CMP_NEQ_UQ)
#undef NEURON_COMPARE
NEURON_INLINE V select(Mask m, V x, V y) { return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)}; }
NEURON_INLINE bool any(Mask m) { return _mm256_movemask_ps(_mm256_or_ps(m.a, m.b)) != 0; }
// The hardware's max gives the second operand when either is NaN: the first one's NaN has to be put back.
NEURON_INLINE __m256 max8(__m256 x, __m256 y) {
  return _mm256_blendv_ps(_mm256_max_ps(x, y), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
NEURON_INLINE __m256 min8(__m256 x, __m256 y) {
  return _mm256_blendv_ps(_mm256_min_ps(x, y), x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
NEURON_INLINE V max(V x, V y) { return {max8(x.a, y.a), max8(x.b, y.b)}; }
NEURON_INLINE V min(V x, V y) { return {min8(x.a, y.a), min8(x.b, y.b)}; }
// The hardware gives the second operand when one is NaN, so this order keeps a NaN in x.
NEURON_INLINE V clamp(V x, float low, float high) {
  const __m256 l = _mm256_set1_ps(low), h = _mm256_set1_ps(high);
  return {_mm256_max_ps(l, _mm256_min_ps(h, x.a)), _mm256_max_ps(l, _mm256_min_ps(h, x.b))};
}
NEURON_INLINE V fma(V x, V y, V z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
NEURON_INLINE V sqrt(V x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
NEURON_INLINE V abs(V x) {
  const __m256 m = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(x.a, m), _mm256_and_ps(x.b, m)};
}
NEURON_INLINE V negate(V x) {
  const __m256 m = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MIN));
  return {_mm256_xor_ps(x.a, m), _mm256_xor_ps(x.b, m)};
}
NEURON_INLINE V round_even(V x) { return {_mm256_round_ps(x.a, 8), _mm256_round_ps(x.b, 8)}; }
NEURON_INLINE V floor(V x) { return {_mm256_round_ps(x.a, 9), _mm256_round_ps(x.b, 9)}; }
NEURON_INLINE V ceil(V x) { return {_mm256_round_ps(x.a, 10), _mm256_round_ps(x.b, 10)}; }
NEURON_INLINE V trunc(V x) { return {_mm256_round_ps(x.a, 11), _mm256_round_ps(x.b, 11)}; }
template <int B>
NEURON_INLINE Ints shift_left(Ints x) {
  return {_mm256_slli_epi32(x.a, B), _mm256_slli_epi32(x.b, B)};
}
template <int B>
NEURON_INLINE Ints shift_right(Ints x) {
  return {_mm256_srai_epi32(x.a, B), _mm256_srai_epi32(x.b, B)};
}
NEURON_INLINE Ints bits(V x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
NEURON_INLINE V from_bits(Ints x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
NEURON_INLINE Ints to_ints(V x) { return {_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)}; }
NEURON_INLINE V to_floats(Ints x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
NEURON_INLINE V scale(V p, V n) {
  const V half = round_even(n * V::set(0.5f));
  const V rest = n - half;
  const Ints bias = Ints::set(127);
  return (p * from_bits(shift_left<23>(to_ints(half) + bias))) * from_bits(shift_left<23>(to_ints(rest) + bias));
}
NEURON_INLINE V patch(Mask m, V r, V x, float (*f)(float)) {
  float rs[16], xs[16];
  int which = _mm256_movemask_ps(m.a) | _mm256_movemask_ps(m.b) << 8;
  r.store(rs);
  x.store(xs);
  for (; which; which &= which - 1) {
    const int l = __builtin_ctz(static_cast<unsigned>(which));
    rs[l] = f(xs[l]);
  }
  return V::load(rs);
}
NEURON_INLINE V load_bf16(const uint16_t* p) {
  const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i lo = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(h));
  const __m256i hi = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(h, 1));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}
NEURON_INLINE __m256i round_bf16(__m256 x) {  // in the low half of each lane
  const __m256i u = _mm256_castps_si256(x);
  const __m256i high = _mm256_srli_epi32(u, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i r = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(r, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
}
NEURON_INLINE void store_bf16(uint16_t* p, V x) {
  const __m256i packed = _mm256_packus_epi32(round_bf16(x.a), round_bf16(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}
NEURON_INLINE V load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
NEURON_INLINE void store_f16(uint16_t* p, V x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, 0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, 0));
}
NEURON_INLINE V load_i32(const int32_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
          _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8)))};
}

}  // namespace neuron::emulator::avx2
