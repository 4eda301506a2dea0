// f32 functions written once over a vector type V (vec_scalar.h, vec_avx2.h, vec_avx512.h): the same bits at every level.
//
// Each is at most 3 ulp from the exact value over the full range, and right at NaN, infinities, zeros and denormals. All
// polynomials are minimax fits of our own on the stated interval. No template here may be called with a type that two
// translation units built for different instruction sets share.
#pragma once

#include <limits>

#include "emulator/kernels/vec_scalar.h"

namespace neuron::emulator::functions {

// sin and cos of arguments beyond the range where three-constant reduction is exact, through double (scalar_functions.cpp).
float sin_large(float x);
float cos_large(float x);

template <class V>
NEURON_INLINE V c(float x) {
  return V::set(x);
}
template <class V>
NEURON_INLINE V copy_sign(V magnitude, V sign) {
  using I = typename V::Ints;
  return from_bits((bits(magnitude) & I::set(0x7fffffff)) | (bits(sign) & I::set(INT32_MIN)));
}
template <class V, size_t K>
NEURON_INLINE V polynomial(V x, const float (&coefficients)[K]) {  // ascending powers
  V p = c<V>(coefficients[K - 1]);
#pragma GCC unroll 16
  for (int i = static_cast<int>(K) - 2; i >= 0; --i) p = fma(p, x, c<V>(coefficients[i]));
  return p;
}

// e^r - 1 = r + r^2 q(r) on |r| <= ln(2)/2.
inline constexpr float kExp[] = {0.49999997f, 0.166665435f, 0.0416675024f, 0.00836653728f, 0.00138645433f};
inline constexpr float kExp1[] = {0.5f, 0.166666642f, 0.0416664742f, 0.00833391212f, 0.00139340386f, 0.000195548244f};
// ln(1+f) = f - f^2/2 + f^3 l(f) on [sqrt(1/2)-1, sqrt(2)-1].
inline constexpr float kLog[] = {0.333333135f,  -0.250000119f, 0.20002073f,   -0.166678548f, 0.142202333f,
                                 -0.124081969f, 0.11886204f,   -0.116606608f, 0.0673301071f};
// sin x = x + x^3 s(x^2), cos x = 1 - x^2/2 + x^4 c(x^2) on |x| <= pi/4.
inline constexpr float kSin[] = {-0.166666672f, 0.00833337288f, -0.000198503039f, 2.80452946e-06f};
inline constexpr float kCos[] = {0.0416666679f, -0.00138889754f, 2.48201959e-05f, -2.87060061e-07f};
// tanh x = x + x^3 t(x^2) on |x| <= 0.625.
inline constexpr float kTanh[] = {-0.333333313f, 0.133332223f,    -0.053948462f,
                                  0.0217087492f, -0.00819508638f, 0.00215763575f};
// erf x = x + x e(x^2) on |x| <= 0.93; erf t = 1 - exp(-(t + t g(t))) on [0.92, 3.95].
inline constexpr float kErf[] = {0.128379166f,  -0.376126319f,    0.112836771f,   -0.0268585924f,
                                 0.0051993141f, -0.000812513521f, 8.30120262e-05f};
inline constexpr float kErfTail[] = {0.12865217f,    0.635135889f,     0.106263168f,   -0.0237853508f,
                                     0.00365375844f, -0.000325649657f, 1.15218618e-05f};

// erf x = x p(t), t = 2 x^2/3.92^2 - 1, on |x| <= 3.92 with absolute error 2.3e-8: for gelu, which needs no more.
inline constexpr float kErfWide[] = {0.360736817f,   -0.180108652f,   0.134084135f,   -0.109178215f,
                                     0.0906039625f,  -0.0740329921f,  0.0583499782f,  -0.0433615707f,
                                     0.029843282f,   -0.0202125926f,  0.0139733618f,  -0.00732908584f,
                                     0.00210957928f, -0.00164803199f, 0.00203939341f, -0.000767341291f};

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2High = 0.693359375f;  // 9 bits: n * kLn2High is exact
inline constexpr float kLn2Low = -2.12194440e-4f;
inline constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding and subtracting rounds to nearest even

template <class V>
NEURON_INLINE V exp(V x) {
  // Lanes far below (masked scores: -inf) are kept out of scale(): tiny results cost a microcode assist each.
  const auto vanishes = x < c<V>(-104.0f);
  x = clamp(select(vanishes, c<V>(0.0f), x), -104.0f, 89.0f);
  const V n = fma(x, c<V>(kLog2E), c<V>(kRound)) - c<V>(kRound);
  V r = fma(n, c<V>(-kLn2High), x);
  r = fma(n, c<V>(-kLn2Low), r);
  const V p = fma(polynomial(r, kExp), r * r, r) + c<V>(1.0f);
  return select(vanishes, c<V>(0.0f), scale(p, n));
}

template <class V>
NEURON_INLINE V exp2(V x) {
  x = clamp(x, -150.0f, 128.0f);
  const V n = (x + c<V>(kRound)) - c<V>(kRound);
  const V r = (x - n) * c<V>(0.693147181f);
  return scale(fma(polynomial(r, kExp), r * r, r) + c<V>(1.0f), n);
}

template <class V>
NEURON_INLINE V expm1(V x) {
  const V y = clamp(x, -104.0f, 89.0f);
  const V n = fma(y, c<V>(kLog2E), c<V>(kRound)) - c<V>(kRound);
  V r = fma(n, c<V>(-kLn2High), y);
  r = fma(n, c<V>(-kLn2Low), r);
  const V p = fma(polynomial(r, kExp1), r * r, r);
  // 2^n (1 + p) - 1 with 2^n split off where the subtraction matters; beyond 2^30 the 1 no longer does.
  const V m = clamp(n, -30.0f, 30.0f);
  const V s = scale(c<V>(1.0f), m);
  const V small = fma(s, p, s - c<V>(1.0f));
  const V large = scale(p + c<V>(1.0f), n);
  return select(x == c<V>(0.0f), x, select(c<V>(30.0f) < n, large, small));
}

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)): returns f = m - 1 and e. For positive finite x.
template <class V>
struct Split {
  V f, e;
};
template <class V>
NEURON_INLINE Split<V> split(V x) {
  using I = typename V::Ints;
  const auto tiny = x < c<V>(1.17549435e-38f);
  x = select(tiny, x * c<V>(33554432.0f), x);
  const I u = bits(x) - I::set(0x3f3504f3);  // sqrt(1/2)
  V e = to_floats(shift_right<23>(u));
  e = select(tiny, e - c<V>(25.0f), e);
  const I m = (u & I::set(0x007fffff)) + I::set(0x3f3504f3);
  return {from_bits(m) - c<V>(1.0f), e};
}
template <class V>
NEURON_INLINE V log_edges(V x, V r) {  // what the formulas do not cover: 0, negative, infinity, NaN
  const float inf = std::numeric_limits<float>::infinity();
  r = select(x == c<V>(0.0f), c<V>(-inf), r);
  r = select(x < c<V>(0.0f), c<V>(std::numeric_limits<float>::quiet_NaN()), r);
  r = select(x == c<V>(inf), x, r);
  return select(x != x, x, r);
}
template <class V>
NEURON_INLINE V log(V x) {
  const Split<V> s = split(x);
  const V f2 = s.f * s.f;
  V low = (polynomial(s.f, kLog) * s.f) * f2;
  low = fma(c<V>(-0.5f), f2, low);
  low = fma(s.e, c<V>(kLn2Low), low);
  return log_edges(x, fma(s.e, c<V>(kLn2High), s.f + low));
}
// log of x in base b, given 1/ln b split in two.
template <class V>
NEURON_INLINE V log_base(V x, float inv_high, float inv_low, float two_high, float two_low) {
  const Split<V> s = split(x);
  const V f2 = s.f * s.f;
  const V low = fma(c<V>(-0.5f), f2, (polynomial(s.f, kLog) * s.f) * f2);
  V r = fma(low, c<V>(inv_high), s.f * c<V>(inv_low));
  r = fma(s.f, c<V>(inv_high), fma(s.e, c<V>(two_low), r));
  return log_edges(x, fma(s.e, c<V>(two_high), r));
}
template <class V>
NEURON_INLINE V log2(V x) {
  return log_base(x, 1.44269502f, 1.92596299e-8f, 1.0f, 0.0f);
}
template <class V>
NEURON_INLINE V log10(V x) {
  return log_base(x, 0.434294492f, -1.01030501e-08f, 0.301025391f, 4.6050390e-6f);
}
template <class V>
NEURON_INLINE V log1p(V x) {
  const V u = c<V>(1.0f) + x;
  const Split<V> s = split(u);
  // The part of x that u lost, relative to u.
  const V lost = select(c<V>(1.0f) < x, c<V>(1.0f) - (u - x), x - (u - c<V>(1.0f)));
  const V f2 = s.f * s.f;
  V low = (polynomial(s.f, kLog) * s.f) * f2;
  low = low + lost / u;
  low = fma(c<V>(-0.5f), f2, low);
  low = fma(s.e, c<V>(kLn2Low), low);
  const V r = log_edges(u, fma(s.e, c<V>(kLn2High), s.f + low));
  return select(abs(x) < c<V>(1e-8f), x, r);
}

// x = k * pi/2 + r, |r| <= pi/4, for |x| < 2^16: three constants, products with k fused.
inline constexpr float kTrigLimit = 65536.0f;
template <class V>
NEURON_INLINE V reduce(V x, V& k) {
  k = fma(x, c<V>(0.636619772f), c<V>(kRound)) - c<V>(kRound);
  V r = fma(k, c<V>(-1.57079637f), x);  // exact
  r = fma(k, c<V>(4.37113883e-08f), r);
  return fma(k, c<V>(1.71512451e-15f), r);
}
template <class V>
NEURON_INLINE V quadrant(V x, typename V::Ints q, V r) {
  using I = typename V::Ints;
  (void)x;
  const V r2 = r * r;
  const V s = fma(polynomial(r2, kSin) * r2, r, r);
  const V co = fma(polynomial(r2, kCos), r2 * r2, fma(c<V>(-0.5f), r2, c<V>(1.0f)));
  const auto odd = to_floats(q & I::set(1)) != c<V>(0.0f);
  const V y = select(odd, co, s);
  return from_bits(bits(y) ^ (shift_left<30>(q & I::set(2))));
}
template <class V>
NEURON_INLINE V sin(V x) {
  V k;
  const V r = reduce(x, k);
  const V y = quadrant(x, to_ints(k), r);
  const auto large = c<V>(kTrigLimit) < abs(x);
  const V z = select(x == c<V>(0.0f), x, select(x != x, x, y));
  return any(large) ? patch(large, z, x, sin_large) : z;
}
template <class V>
NEURON_INLINE V cos(V x) {
  using I = typename V::Ints;
  V k;
  const V r = reduce(x, k);
  const V y = quadrant(x, to_ints(k) + I::set(1), r);
  const auto large = c<V>(kTrigLimit) < abs(x);
  const V z = select(x != x, x, y);
  return any(large) ? patch(large, z, x, cos_large) : z;
}

template <class V>
NEURON_INLINE V tanh(V x) {
  const V a = abs(x);
  const V e = exp(a + a);
  const V large = c<V>(1.0f) - c<V>(2.0f) / (e + c<V>(1.0f));
  const V x2 = x * x;
  const V small = fma(polynomial(x2, kTanh) * x2, x, x);
  return copy_sign(select(a < c<V>(0.625f), small, large), x);  // -0 too, which the fma would make +0
}

template <class V>
NEURON_INLINE V sigmoid(V x) {
  return c<V>(1.0f) / (c<V>(1.0f) + exp(negate(x)));
}
template <class V>
NEURON_INLINE V silu(V x) {
  return x / (c<V>(1.0f) + exp(negate(x)));
}
template <class V>
NEURON_INLINE V silu_dx(V x) {
  const V s = sigmoid(x);
  return s * fma(x, c<V>(1.0f) - s, c<V>(1.0f));
}

template <class V>
NEURON_INLINE V erf(V x) {
  const V a = abs(x);
  const V t = clamp(a, 0.0f, 4.0f);
  const V e = exp(negate(fma(polynomial(t, kErfTail), t, t)));
  const V tail = copy_sign(c<V>(1.0f) - e, x);
  const V near = fma(polynomial(x * x, kErf), x, x);
  return select(a < c<V>(0.925f), near, select(x != x, x, tail));
}
// erf(x / sqrt(2)), and exactly +-1 beyond 3.92 sqrt(2).
template <class V>
NEURON_INLINE V erf_of_gelu(V x) {
  constexpr float limit = 2.0f * 3.92f * 3.92f;
  const V square = x * x;
  const V t = fma(clamp(square, 0.0f, limit), c<V>(2.0f / limit), c<V>(-1.0f));
  const V e = (x * c<V>(0.707106781f)) * polynomial(t, kErfWide);
  return select(c<V>(limit) < square, copy_sign(c<V>(1.0f), x), e);
}
template <class V>
NEURON_INLINE V gelu(V x) {
  const V h = c<V>(0.5f) * x;
  return fma(h, erf_of_gelu(x), h);
}
template <class V>
NEURON_INLINE V gelu_dx(V x) {
  const V cdf = fma(c<V>(0.5f), erf_of_gelu(x), c<V>(0.5f));
  // The exponent's rounding error stays: x e^(-x^2/2) is so small where it counts that the sum does not notice.
  return fma(x * c<V>(0.398942280f), exp((x * x) * c<V>(-0.5f)), cdf);
}
template <class V>
NEURON_INLINE V gelu_apprx_tanh(V x) {
  const V u = x * fma(x * x, c<V>(0.7978845608f * 0.044715f), c<V>(0.7978845608f));
  const V h = c<V>(0.5f) * x;
  return fma(h, tanh(u), h);
}
template <class V>
NEURON_INLINE V gelu_apprx_tanh_dx(V x) {
  const V x2 = x * x;
  const V t = tanh(x * fma(x2, c<V>(0.7978845608f * 0.044715f), c<V>(0.7978845608f)));
  const V du = fma(x2, c<V>(3.0f * 0.7978845608f * 0.044715f), c<V>(0.7978845608f));
  const V left = fma(c<V>(0.5f), t, c<V>(0.5f));
  return left + (c<V>(0.5f) * x) * (fma(negate(t), t, c<V>(1.0f)) * du);
}

template <class V>
NEURON_INLINE V softplus(V x) {
  return max(x, c<V>(0.0f)) + log1p(exp(negate(abs(x))));
}
template <class V>
NEURON_INLINE V log_sigmoid(V x) {
  return min(x, c<V>(0.0f)) - log1p(exp(negate(abs(x))));
}
template <class V>
NEURON_INLINE V mish(V x) {
  return x * tanh(softplus(x));
}
template <class V>
NEURON_INLINE V rsqrt(V x) {
  return c<V>(1.0f) / sqrt(x);
}
template <class V>
NEURON_INLINE V sign(V x) {
  const V s = select(x < c<V>(0.0f), c<V>(-1.0f), select(c<V>(0.0f) < x, c<V>(1.0f), c<V>(0.0f)));
  return select(x != x, x, s);
}
template <class V, class M>
NEURON_INLINE V truth(M m) {
  return select(m, c<V>(1.0f), c<V>(0.0f));
}

}  // namespace neuron::emulator::functions
