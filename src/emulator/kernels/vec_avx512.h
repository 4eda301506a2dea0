// 16 float lanes in one 512-bit register (AVX-512 F, BW, DQ, VL). Same interface and bits as vec_scalar.h.
#pragma once

#include <immintrin.h>

#include "emulator/kernels/vec_scalar.h"

namespace neuron::emulator::avx512 {

struct Mask {
  __mmask16 m;
};
struct Ints {
  __m512i a;
  static NEURON_INLINE Ints set(int32_t x) { return {_mm512_set1_epi32(x)}; }
};
NEURON_INLINE __mmask16 first_lanes(int n) {
  return n >= 16 ? __mmask16{0xffff} : n <= 0 ? __mmask16{0} : static_cast<__mmask16>((1u << n) - 1u);
}
struct V {
  static constexpr int lanes = 16;
  using Ints = avx512::Ints;
  using Mask = avx512::Mask;
  __m512 a;
  static NEURON_INLINE V set(float x) { return {_mm512_set1_ps(x)}; }
  static NEURON_INLINE V load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static NEURON_INLINE V load_partial(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
  NEURON_INLINE void store(float* p) const { _mm512_storeu_ps(p, a); }
  NEURON_INLINE void store_partial(float* p, int n) const { _mm512_mask_storeu_ps(p, first_lanes(n), a); }
  NEURON_INLINE void stream(float* p) const { _mm512_stream_ps(p, a); }
};

NEURON_INLINE V operator+(V x, V y) { return {_mm512_add_ps(x.a, y.a)}; }
NEURON_INLINE V operator-(V x, V y) { return {_mm512_sub_ps(x.a, y.a)}; }
NEURON_INLINE V operator*(V x, V y) { return {_mm512_mul_ps(x.a, y.a)}; }
NEURON_INLINE V operator/(V x, V y) { return {_mm512_div_ps(x.a, y.a)}; }
NEURON_INLINE Ints operator+(Ints x, Ints y) { return {_mm512_add_epi32(x.a, y.a)}; }
NEURON_INLINE Ints operator-(Ints x, Ints y) { return {_mm512_sub_epi32(x.a, y.a)}; }
NEURON_INLINE Ints operator&(Ints x, Ints y) { return {_mm512_and_si512(x.a, y.a)}; }
NEURON_INLINE Ints operator|(Ints x, Ints y) { return {_mm512_or_si512(x.a, y.a)}; }
NEURON_INLINE Ints operator^(Ints x, Ints y) { return {_mm512_xor_si512(x.a, y.a)}; }
NEURON_INLINE Mask operator&(Mask x, Mask y) { return {static_cast<__mmask16>(x.m & y.m)}; }
NEURON_INLINE Mask operator|(Mask x, Mask y) { return {static_cast<__mmask16>(x.m | y.m)}; }
NEURON_INLINE Mask operator<(V x, V y) { return {_mm512_cmp_ps_mask(x.a, y.a, _CMP_LT_OQ)}; }
NEURON_INLINE Mask operator<=(V x, V y) { return {_mm512_cmp_ps_mask(x.a, y.a, _CMP_LE_OQ)}; }
NEURON_INLINE Mask operator==(V x, V y) { return {_mm512_cmp_ps_mask(x.a, y.a, _CMP_EQ_OQ)}; }
NEURON_INLINE Mask operator!=(V x, V y) { return {_mm512_cmp_ps_mask(x.a, y.a, _CMP_NEQ_UQ)}; }
NEURON_INLINE V select(Mask m, V x, V y) { return {_mm512_mask_blend_ps(m.m, y.a, x.a)}; }
NEURON_INLINE bool any(Mask m) { return m.m != 0; }
// The hardware's max gives the second operand when either is NaN: the first one's NaN has to be put back.
NEURON_INLINE V max(V x, V y) {
  return {_mm512_mask_mov_ps(_mm512_max_ps(x.a, y.a), _mm512_cmp_ps_mask(x.a, x.a, _CMP_UNORD_Q), x.a)};
}
NEURON_INLINE V min(V x, V y) {
  return {_mm512_mask_mov_ps(_mm512_min_ps(x.a, y.a), _mm512_cmp_ps_mask(x.a, x.a, _CMP_UNORD_Q), x.a)};
}
// The hardware gives the second operand when one is NaN, so this order keeps a NaN in x.
NEURON_INLINE V clamp(V x, float low, float high) {
  return {_mm512_max_ps(_mm512_set1_ps(low), _mm512_min_ps(_mm512_set1_ps(high), x.a))};
}
NEURON_INLINE V fma(V x, V y, V z) { return {_mm512_fmadd_ps(x.a, y.a, z.a)}; }
NEURON_INLINE V sqrt(V x) { return {_mm512_sqrt_ps(x.a)}; }
NEURON_INLINE V abs(V x) { return {_mm512_abs_ps(x.a)}; }
NEURON_INLINE V negate(V x) { return {_mm512_xor_ps(x.a, _mm512_set1_ps(-0.0f))}; }
NEURON_INLINE V round_even(V x) { return {_mm512_roundscale_ps(x.a, 8)}; }
NEURON_INLINE V floor(V x) { return {_mm512_roundscale_ps(x.a, 9)}; }
NEURON_INLINE V ceil(V x) { return {_mm512_roundscale_ps(x.a, 10)}; }
NEURON_INLINE V trunc(V x) { return {_mm512_roundscale_ps(x.a, 11)}; }
template <int B>
NEURON_INLINE Ints shift_left(Ints x) {
  return {_mm512_slli_epi32(x.a, B)};
}
template <int B>
NEURON_INLINE Ints shift_right(Ints x) {
  return {_mm512_srai_epi32(x.a, B)};
}
NEURON_INLINE Ints bits(V x) { return {_mm512_castps_si512(x.a)}; }
NEURON_INLINE V from_bits(Ints x) { return {_mm512_castsi512_ps(x.a)}; }
NEURON_INLINE Ints to_ints(V x) { return {_mm512_cvttps_epi32(x.a)}; }
NEURON_INLINE V to_floats(Ints x) { return {_mm512_cvtepi32_ps(x.a)}; }
// One instruction, one rounding: the same value as the portable two steps, of which the first is exact.
NEURON_INLINE V scale(V p, V n) { return {_mm512_scalef_ps(p.a, n.a)}; }
NEURON_INLINE V patch(Mask m, V r, V x, float (*f)(float)) {
  float rs[16], xs[16];
  r.store(rs);
  x.store(xs);
  for (unsigned which = m.m; which; which &= which - 1) {
    const int l = __builtin_ctz(which);
    rs[l] = f(xs[l]);
  }
  return V::load(rs);
}
NEURON_INLINE V load_bf16(const uint16_t* p) {
  const __m512i h = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(h, 16))};
}
NEURON_INLINE void store_bf16(uint16_t* p, V x) {
  const __m512i u = bits(x).a;
  const __m512i high = _mm512_srli_epi32(u, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  r = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(x.a, x.a, _CMP_UNORD_Q), high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(r));
}
NEURON_INLINE V load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
NEURON_INLINE void store_f16(uint16_t* p, V x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x.a, 0));
}
NEURON_INLINE V load_i32(const int32_t* p) { return {_mm512_cvtepi32_ps(_mm512_loadu_si512(p))}; }

}  // namespace neuron::emulator::avx512
