// Element-wise f32 kernels and lane reductions of one ISA level.
#include "emulator/kernels/level.h"

namespace neuron::emulator::NEURON_LEVEL {

namespace {

namespace fn = functions;
using isa::ActFn;
using isa::AluOp;

// Element-wise loops go one lane at a time in the baseline build: 16 lanes in plain C++ gain nothing and compile for
// minutes.
#if defined(__AVX2__)
using E = V;
#else
using E = scalar::Lane;
#endif
constexpr size_t kStep = E::lanes;

// --- loops ---

struct Three {
  template <class F>
  static NEURON_INLINE void run(float* d, const float* a, const float* b, const float* c, size_t sa, size_t sb, size_t sc,
                                size_t n) {
    sa *= kStep;
    sb *= kStep;
    sc *= kStep;
    size_t i = 0;
#pragma GCC unroll 2
    for (; i + kStep <= n; i += kStep, a += sa, b += sb, c += sc) F::apply(E::load(a), E::load(b), E::load(c)).store(d + i);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
      const E x = E::load_partial(a, rest), y = E::load_partial(b, rest), z = E::load_partial(c, rest);
      F::apply(x, y, z).store_partial(d + i, rest);
    }
  }
};
struct Two {
  template <class F>
  static NEURON_INLINE void run(float* d, const float* a, const float* b, const float*, size_t sa, size_t sb, size_t,
                                size_t n) {
    sa *= kStep;
    sb *= kStep;
    size_t i = 0;
#pragma GCC unroll 4
    for (; i + kStep <= n; i += kStep, a += sa, b += sb) F::apply(E::load(a), E::load(b)).store(d + i);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) {
      const E x = E::load_partial(a, rest), y = E::load_partial(b, rest);
      F::apply(x, y).store_partial(d + i, rest);
    }
  }
};
struct One {
  template <class F>
  static NEURON_INLINE void run(float* d, const float* a, const float*, const float*, size_t sa, size_t, size_t, size_t n) {
    sa *= kStep;
    size_t i = 0;
    for (; i + kStep <= n; i += kStep, a += sa) F::apply(E::load(a)).store(d + i);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) F::apply(E::load_partial(a, rest)).store_partial(d + i, rest);
  }
};

template <class Loop, class F>
void kernel(float* d, const float* a, const float* b, const float* c, size_t sa, size_t sb, size_t sc, size_t n) {
  Loop::template run<F>(d, a, b, c, sa, sb, sc, n);
}

// --- operations ---

NEURON_INLINE E zero() { return E::set(0.0f); }
template <class M>
NEURON_INLINE E truth(M m) {
  return select(m, E::set(1.0f), zero());
}

#define NEURON_BINARY(Name, expr)            \
  struct Name {                              \
    template <class T>                       \
    static NEURON_INLINE T apply(T x, T y) { \
      return expr;                           \
    }                                        \
  };
NEURON_BINARY(Bypass, ((void)y, x))
NEURON_BINARY(Add, x + y)
NEURON_BINARY(Subtract, x - y)
NEURON_BINARY(Multiply, x* y)
NEURON_BINARY(Divide, x / y)
NEURON_BINARY(Maximum, max(x, y))
NEURON_BINARY(Minimum, min(x, y))
NEURON_BINARY(TruncDivide, trunc(x / y))
NEURON_BINARY(CopySign, fn::copy_sign(x, y))
NEURON_BINARY(Equal, truth(x == y))
NEURON_BINARY(NotEqual, truth(x != y))
NEURON_BINARY(Less, truth(x < y))
NEURON_BINARY(LessEqual, truth(x <= y))
NEURON_BINARY(Greater, truth(y < x))
NEURON_BINARY(GreaterEqual, truth(y <= x))
NEURON_BINARY(LogicalAnd, truth((x != zero()) & (y != zero())))
NEURON_BINARY(LogicalOr, truth((x != zero()) | (y != zero())))
NEURON_BINARY(LogicalXor, truth(truth(x != zero()) != truth(y != zero())))
#undef NEURON_BINARY

template <class F, class G>
struct Pair {
  static NEURON_INLINE E apply(E x, E y, E z) { return G::apply(F::apply(x, y), z); }
};
struct MultiplyAdd {
  static NEURON_INLINE E apply(E x, E y, E z) { return fma(x, y, z); }
};
struct MultiplySubtract {
  static NEURON_INLINE E apply(E x, E y, E z) { return fma(x, y, negate(z)); }
};
struct Select {
  static NEURON_INLINE E apply(E m, E x, E y) { return select(m != zero(), x, y); }
};

// What a function of one vector becomes: alone, and after the scale and bias of `activation`.
#define NEURON_UNARY(Name, expr)                                                              \
  struct Name {                                                                               \
    static NEURON_INLINE E apply(E x) { return expr; }                                        \
    static NEURON_INLINE E apply(E x, E scale, E bias) { return apply(fma(x, scale, bias)); } \
  };
NEURON_UNARY(FnCopy, x)
NEURON_UNARY(FnNegative, negate(x))
NEURON_UNARY(FnAbs, abs(x))
NEURON_UNARY(FnSign, fn::sign(x))
NEURON_UNARY(FnSquare, x* x)
NEURON_UNARY(FnRelu, max(x, zero()))
NEURON_UNARY(FnSqrt, sqrt(x))
NEURON_UNARY(FnRsqrt, fn::rsqrt(x))
NEURON_UNARY(FnReciprocal, E::set(1.0f) / x)
NEURON_UNARY(FnExp, fn::exp(x))
NEURON_UNARY(FnExp2, fn::exp2(x))
NEURON_UNARY(FnExpm1, fn::expm1(x))
NEURON_UNARY(FnLog, fn::log(x))
NEURON_UNARY(FnLog2, fn::log2(x))
NEURON_UNARY(FnLog10, fn::log10(x))
NEURON_UNARY(FnLog1p, fn::log1p(x))
NEURON_UNARY(FnSin, fn::sin(x))
NEURON_UNARY(FnCos, fn::cos(x))
NEURON_UNARY(FnTanh, fn::tanh(x))
NEURON_UNARY(FnSigmoid, fn::sigmoid(x))
NEURON_UNARY(FnSilu, fn::silu(x))
NEURON_UNARY(FnSiluDx, fn::silu_dx(x))
NEURON_UNARY(FnGelu, fn::gelu(x))
NEURON_UNARY(FnGeluDx, fn::gelu_dx(x))
NEURON_UNARY(FnGeluTanh, fn::gelu_apprx_tanh(x))
NEURON_UNARY(FnGeluTanhDx, fn::gelu_apprx_tanh_dx(x))
NEURON_UNARY(FnSoftplus, fn::softplus(x))
NEURON_UNARY(FnMish, fn::mish(x))
NEURON_UNARY(FnLogSigmoid, fn::log_sigmoid(x))
NEURON_UNARY(FnErf, fn::erf(x))
NEURON_UNARY(FnFloor, floor(x))
NEURON_UNARY(FnCeil, ceil(x))
NEURON_UNARY(FnTrunc, trunc(x))
NEURON_UNARY(FnRound, round_even(x))
NEURON_UNARY(FnIsNan, truth(x != x))
NEURON_UNARY(FnIsInf, truth(abs(x) == E::set(__builtin_inff())))
NEURON_UNARY(FnIsFinite, truth(abs(x) < E::set(__builtin_inff())))
NEURON_UNARY(FnLogicalNot, truth(x == zero()))
NEURON_UNARY(FnImag, ((void)x, zero()))
#undef NEURON_UNARY

template <class F>
void set_function(Kernels& t, ActFn f) {
  t.function[static_cast<int>(f)] = kernel<One, F>;
  t.function_affine[static_cast<int>(f)] = kernel<Three, F>;
}
template <class F>
void set_alu(Kernels& t, AluOp op) {
  t.alu[static_cast<int>(op)] = kernel<Two, F>;
}
template <class F>
void set_pairs(ElementKernel (&row)[5]) {
  row[0] = kernel<Three, Pair<F, Add>>;
  row[1] = kernel<Three, Pair<F, Subtract>>;
  row[2] = kernel<Three, Pair<F, Multiply>>;
  row[3] = kernel<Three, Pair<F, Maximum>>;
  row[4] = kernel<Three, Pair<F, Minimum>>;
}

// --- lanes ---

template <class F>
void lanes(float* state, const float* a, size_t n) {
  V s = V::load(state);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) s = F::apply(s, V::load(a + i));
  s.store(state);
  const int rest = static_cast<int>(n - i);
  if (rest > 0) F::apply(s, V::load_partial(a + i, rest)).store_partial(state, rest);
}
template <class F>
void four_rows(float* state, const float* a, ptrdiff_t row, size_t n) {  // four chains hide the latency of one
  V s0 = V::load(state), s1 = V::load(state + 16), s2 = V::load(state + 32), s3 = V::load(state + 48);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    s0 = F::apply(s0, V::load(a + i));
    s1 = F::apply(s1, V::load(a + row + i));
    s2 = F::apply(s2, V::load(a + 2 * row + i));
    s3 = F::apply(s3, V::load(a + 3 * row + i));
  }
  s0.store(state);
  s1.store(state + 16);
  s2.store(state + 32);
  s3.store(state + 48);
  const int rest = static_cast<int>(n - i);
  for (int r = 0; rest > 0 && r < 4; ++r)
    F::apply(V::load(state + 16 * r), V::load_partial(a + r * row + static_cast<ptrdiff_t>(i), rest))
        .store_partial(state + 16 * r, rest);
}
void square_deviation(float* state, const float* a, size_t n) {
  const V mean = V::set(state[16]);
  V s = V::load(state);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const V x = V::load(a + i) - mean;
    s = s + x * x;
  }
  s.store(state);
  const int rest = static_cast<int>(n - i);
  if (rest > 0) {
    const V x = V::load_partial(a + i, rest) - mean;
    (s + x * x).store_partial(state, rest);
  }
}

void fill_alu(Kernels& t) {
  set_alu<Bypass>(t, AluOp::bypass);
  set_alu<Add>(t, AluOp::add);
  set_alu<Subtract>(t, AluOp::subtract);
  set_alu<Multiply>(t, AluOp::multiply);
  set_alu<Divide>(t, AluOp::divide);
  set_alu<Maximum>(t, AluOp::maximum);
  set_alu<Minimum>(t, AluOp::minimum);
  set_alu<TruncDivide>(t, AluOp::trunc_divide);
  set_alu<CopySign>(t, AluOp::copysign);
  set_alu<Equal>(t, AluOp::equal);
  set_alu<NotEqual>(t, AluOp::not_equal);
  set_alu<Less>(t, AluOp::less);
  set_alu<LessEqual>(t, AluOp::less_equal);
  set_alu<Greater>(t, AluOp::greater);
  set_alu<GreaterEqual>(t, AluOp::greater_equal);
  set_alu<LogicalAnd>(t, AluOp::logical_and);
  set_alu<LogicalOr>(t, AluOp::logical_or);
  set_alu<LogicalXor>(t, AluOp::logical_xor);
}

void fill_functions(Kernels& t) {
  set_function<FnCopy>(t, ActFn::copy);
  set_function<FnCopy>(t, ActFn::real);
  set_function<FnCopy>(t, ActFn::conj);
  set_function<FnNegative>(t, ActFn::negative);
  set_function<FnAbs>(t, ActFn::abs);
  set_function<FnSign>(t, ActFn::sign);
  set_function<FnSquare>(t, ActFn::square);
  set_function<FnRelu>(t, ActFn::relu);
  set_function<FnSqrt>(t, ActFn::sqrt);
  set_function<FnRsqrt>(t, ActFn::rsqrt);
  set_function<FnReciprocal>(t, ActFn::reciprocal);
  set_function<FnExp>(t, ActFn::exp);
  set_function<FnExp2>(t, ActFn::exp2);
  set_function<FnExpm1>(t, ActFn::expm1);
  set_function<FnLog>(t, ActFn::log);
  set_function<FnLog2>(t, ActFn::log2);
  set_function<FnLog10>(t, ActFn::log10);
  set_function<FnLog1p>(t, ActFn::log1p);
  set_function<FnSin>(t, ActFn::sin);
  set_function<FnCos>(t, ActFn::cos);
  set_function<FnTanh>(t, ActFn::tanh);
  set_function<FnSigmoid>(t, ActFn::sigmoid);
  set_function<FnSilu>(t, ActFn::silu);
  set_function<FnSiluDx>(t, ActFn::silu_dx);
  set_function<FnGelu>(t, ActFn::gelu);
  set_function<FnGeluDx>(t, ActFn::gelu_dx);
  set_function<FnGeluTanh>(t, ActFn::gelu_apprx_tanh);
  set_function<FnGeluTanhDx>(t, ActFn::gelu_apprx_tanh_dx);
  set_function<FnSoftplus>(t, ActFn::softplus);
  set_function<FnMish>(t, ActFn::mish);
  set_function<FnLogSigmoid>(t, ActFn::log_sigmoid);
  set_function<FnErf>(t, ActFn::erf);
  set_function<FnFloor>(t, ActFn::floor);
  set_function<FnCeil>(t, ActFn::ceil);
  set_function<FnTrunc>(t, ActFn::trunc);
  set_function<FnRound>(t, ActFn::round);
  set_function<FnIsNan>(t, ActFn::is_nan);
  set_function<FnIsInf>(t, ActFn::is_inf);
  set_function<FnIsFinite>(t, ActFn::is_finite);
  set_function<FnLogicalNot>(t, ActFn::logical_not);
  set_function<FnImag>(t, ActFn::imag);
}

}  // namespace

void fill_vector_kernels(Kernels& t) {
  fill_alu(t);
  fill_functions(t);
  set_pairs<Add>(t.pair[0]);
  set_pairs<Subtract>(t.pair[1]);
  set_pairs<Multiply>(t.pair[2]);
  set_pairs<Maximum>(t.pair[3]);
  set_pairs<Minimum>(t.pair[4]);
  t.multiply_add = kernel<Three, MultiplyAdd>;
  t.multiply_subtract = kernel<Three, MultiplySubtract>;
  t.select = kernel<Three, Select>;
  t.lanes_add = lanes<Add>;
  t.lanes_multiply = lanes<Multiply>;
  t.lanes_maximum = lanes<Maximum>;
  t.lanes_minimum = lanes<Minimum>;
  t.four_rows_add = four_rows<Add>;
  t.four_rows_maximum = four_rows<Maximum>;
  t.lanes_square_deviation = square_deviation;
}

}  // namespace neuron::emulator::NEURON_LEVEL
