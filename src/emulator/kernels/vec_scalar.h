// Vectors of N float lanes in plain C++: the baseline back end, and with N = 1 the definition that every other one matches.
// Every operation is one IEEE single operation or an exact bit operation, so lanes never influence each other's bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/float_formats.h"

#define NEURON_INLINE inline __attribute__((always_inline))
#define NEURON_EACH for (int i = 0; i < N; ++i)

namespace neuron::emulator::scalar {

template <int N>
struct LaneMask {
  bool m[N];
};

template <int N>
struct LaneInts {
  int32_t v[N];
  static NEURON_INLINE LaneInts set(int32_t x) {
    LaneInts r;
    NEURON_EACH r.v[i] = x;
    return r;
  }
};

template <int N>
struct Lanes {
  static constexpr int lanes = N;
  using Ints = LaneInts<N>;
  using Mask = LaneMask<N>;
  float v[N];

  static NEURON_INLINE Lanes set(float x) {
    Lanes r;
    NEURON_EACH r.v[i] = x;
    return r;
  }
  static NEURON_INLINE Lanes load(const float* p) {
    Lanes r;
    NEURON_EACH r.v[i] = p[i];
    return r;
  }
  static NEURON_INLINE Lanes load_partial(const float* p, int n) {
    Lanes r;
    NEURON_EACH r.v[i] = i < n ? p[i] : 0.0f;
    return r;
  }
  NEURON_INLINE void store(float* p) const { NEURON_EACH p[i] = v[i]; }
  NEURON_INLINE void store_partial(float* p, int n) const {
    for (int i = 0; i < n && i < N; ++i) p[i] = v[i];
  }
  NEURON_INLINE void stream(float* p) const { store(p); }
};

#define NEURON_LANES_UNARY(name, expr)      \
  template <int N>                          \
  NEURON_INLINE Lanes<N> name(Lanes<N> a) { \
    Lanes<N> r;                             \
    NEURON_EACH r.v[i] = expr;              \
    return r;                               \
  }
#define NEURON_LANES_BINARY(name, expr)                 \
  template <int N>                                      \
  NEURON_INLINE Lanes<N> name(Lanes<N> a, Lanes<N> b) { \
    Lanes<N> r;                                         \
    NEURON_EACH r.v[i] = expr;                          \
    return r;                                           \
  }
#define NEURON_LANES_COMPARE(name, op)                     \
  template <int N>                                         \
  NEURON_INLINE LaneMask<N> name(Lanes<N> a, Lanes<N> b) { \
    LaneMask<N> r;                                         \
    NEURON_EACH r.m[i] = a.v[i] op b.v[i];                 \
    return r;                                              \
  }
#define NEURON_LANES_INTS(name, expr)                            \
  template <int N>                                               \
  NEURON_INLINE LaneInts<N> name(LaneInts<N> a, LaneInts<N> b) { \
    LaneInts<N> r;                                               \
    NEURON_EACH r.v[i] = expr;                                   \
    return r;                                                    \
  }

NEURON_LANES_BINARY(operator+, a.v[i] + b.v[i])
NEURON_LANES_BINARY(operator-, a.v[i] - b.v[i])
NEURON_LANES_BINARY(operator*, a.v[i] * b.v[i])
NEURON_LANES_BINARY(operator/, a.v[i] / b.v[i])
// The first operand when it is larger or NaN, else the second.
NEURON_LANES_BINARY(max, (a.v[i] > b.v[i] || a.v[i] != a.v[i]) ? a.v[i] : b.v[i])
NEURON_LANES_BINARY(min, (a.v[i] < b.v[i] || a.v[i] != a.v[i]) ? a.v[i] : b.v[i])
NEURON_LANES_UNARY(sqrt, std::sqrt(a.v[i]))
NEURON_LANES_UNARY(abs, std::fabs(a.v[i]))
NEURON_LANES_UNARY(negate, -a.v[i])
NEURON_LANES_UNARY(round_even, std::nearbyint(a.v[i]))
NEURON_LANES_UNARY(floor, std::floor(a.v[i]))
NEURON_LANES_UNARY(ceil, std::ceil(a.v[i]))
NEURON_LANES_UNARY(trunc, std::trunc(a.v[i]))
NEURON_LANES_COMPARE(operator<, <)
NEURON_LANES_COMPARE(operator<=, <=)
NEURON_LANES_COMPARE(operator==, ==)
NEURON_LANES_COMPARE(operator!=, !=)  // true for NaN
NEURON_LANES_INTS(operator+, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i])))
NEURON_LANES_INTS(operator-, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i])))
NEURON_LANES_INTS(operator&, a.v[i] & b.v[i])
NEURON_LANES_INTS(operator|, a.v[i] | b.v[i])
NEURON_LANES_INTS(operator^, a.v[i] ^ b.v[i])

template <int N>
NEURON_INLINE Lanes<N> fma(Lanes<N> a, Lanes<N> b, Lanes<N> c) {
  Lanes<N> r;
  NEURON_EACH r.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
  return r;
}
// x limited to [low, high]; NaN stays.
template <int N>
NEURON_INLINE Lanes<N> clamp(Lanes<N> x, float low, float high) {
  Lanes<N> r;
  NEURON_EACH r.v[i] = x.v[i] < low ? low : x.v[i] > high ? high : x.v[i];
  return r;
}
template <int N>
NEURON_INLINE Lanes<N> select(LaneMask<N> m, Lanes<N> a, Lanes<N> b) {
  Lanes<N> r;
  NEURON_EACH r.v[i] = m.m[i] ? a.v[i] : b.v[i];
  return r;
}
template <int N>
NEURON_INLINE LaneMask<N> operator&(LaneMask<N> a, LaneMask<N> b) {
  LaneMask<N> r;
  NEURON_EACH r.m[i] = a.m[i] && b.m[i];
  return r;
}
template <int N>
NEURON_INLINE LaneMask<N> operator|(LaneMask<N> a, LaneMask<N> b) {
  LaneMask<N> r;
  NEURON_EACH r.m[i] = a.m[i] || b.m[i];
  return r;
}
template <int N>
NEURON_INLINE bool any(LaneMask<N> a) {
  bool r = false;
  NEURON_EACH r = r || a.m[i];
  return r;
}
template <int B, int N>
NEURON_INLINE LaneInts<N> shift_left(LaneInts<N> a) {
  LaneInts<N> r;
  NEURON_EACH r.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << B);
  return r;
}
template <int B, int N>
NEURON_INLINE LaneInts<N> shift_right(LaneInts<N> a) {  // arithmetic
  LaneInts<N> r;
  NEURON_EACH r.v[i] = a.v[i] >> B;
  return r;
}
template <int N>
NEURON_INLINE LaneInts<N> bits(Lanes<N> a) {
  LaneInts<N> r;
  NEURON_EACH r.v[i] = std::bit_cast<int32_t>(a.v[i]);
  return r;
}
template <int N>
NEURON_INLINE Lanes<N> from_bits(LaneInts<N> a) {
  Lanes<N> r;
  NEURON_EACH r.v[i] = std::bit_cast<float>(a.v[i]);
  return r;
}
// For integral values within +-2^23.
template <int N>
NEURON_INLINE LaneInts<N> to_ints(Lanes<N> a) {
  LaneInts<N> r;
  NEURON_EACH r.v[i] = (a.v[i] >= -8388608.0f && a.v[i] <= 8388608.0f) ? static_cast<int32_t>(a.v[i]) : INT32_MIN;
  return r;
}
template <int N>
NEURON_INLINE Lanes<N> to_floats(LaneInts<N> a) {
  Lanes<N> r;
  NEURON_EACH r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
// p * 2^n with one rounding, for p in [0.5, 4) and integral n in [-150, 128].
template <int N>
NEURON_INLINE Lanes<N> scale(Lanes<N> p, Lanes<N> n) {
  Lanes<N> half = round_even(n * Lanes<N>::set(0.5f));
  Lanes<N> rest = n - half;
  const LaneInts<N> bias = LaneInts<N>::set(127);
  return (p * from_bits(shift_left<23>(to_ints(half) + bias))) * from_bits(shift_left<23>(to_ints(rest) + bias));
}
// Lanes with a set mask are replaced by f of the argument's lane.
template <int N>
NEURON_INLINE Lanes<N> patch(LaneMask<N> m, Lanes<N> r, Lanes<N> x, float (*f)(float)) {
  NEURON_EACH if (m.m[i]) r.v[i] = f(x.v[i]);
  return r;
}
// Adds lanes as a tree over distance 8, 4, 2, 1 (numerics.h), likewise the others.
template <class F>
NEURON_INLINE float tree(Lanes<16> a, F f) {
  for (int d = 8; d > 0; d /= 2)
    for (int l = 0; l < d; ++l) a.v[l] = f(a.v[l], a.v[l + d]);
  return a.v[0];
}

using V = Lanes<16>;
using Lane = Lanes<1>;

NEURON_INLINE V load_bf16(const uint16_t* p) {
  V r;
  for (int i = 0; i < 16; ++i) r.v[i] = bf16_to_f32(p[i]);
  return r;
}
NEURON_INLINE void store_bf16(uint16_t* p, V a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_bf16(a.v[i]);
}
NEURON_INLINE V load_f16(const uint16_t* p) {
  V r;
  for (int i = 0; i < 16; ++i) r.v[i] = f16_to_f32(p[i]);
  return r;
}
NEURON_INLINE void store_f16(uint16_t* p, V a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.v[i]);
}
NEURON_INLINE V load_i32(const int32_t* p) {
  V r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(p[i]);
  return r;
}

}  // namespace neuron::emulator::scalar

#undef NEURON_LANES_UNARY
#undef NEURON_LANES_BINARY
#undef NEURON_LANES_COMPARE
#undef NEURON_LANES_INTS
