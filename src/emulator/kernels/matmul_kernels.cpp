// Matmul micro-kernels of one ISA level: register blocks of up to 6 rows (scalar: 2) by one panel (64 columns with AVX-512,
// else 16).
#include <immintrin.h>

#include "emulator/kernels/level.h"

namespace neuron::emulator::NEURON_LEVEL {

namespace {

#if defined(__AVX512F__)
constexpr int kVectors = 4, kLanes = 16, kRows = 6;
using R = __m512;
NEURON_INLINE R load(const float* p) { return _mm512_loadu_ps(p); }
NEURON_INLINE void store(float* p, R x) { _mm512_storeu_ps(p, x); }
NEURON_INLINE R splat(const float* p) { return _mm512_set1_ps(*p); }
NEURON_INLINE R zero() { return _mm512_setzero_ps(); }
NEURON_INLINE R multiply_add(R a, R b, R c) { return _mm512_fmadd_ps(a, b, c); }
NEURON_INLINE R add(R a, R b) { return _mm512_add_ps(a, b); }
#elif defined(__AVX2__)
constexpr int kVectors = 2, kLanes = 8, kRows = 6;
using R = __m256;
NEURON_INLINE R load(const float* p) { return _mm256_loadu_ps(p); }
NEURON_INLINE void store(float* p, R x) { _mm256_storeu_ps(p, x); }
NEURON_INLINE R splat(const float* p) { return _mm256_broadcast_ss(p); }
NEURON_INLINE R zero() { return _mm256_setzero_ps(); }
NEURON_INLINE R multiply_add(R a, R b, R c) { return _mm256_fmadd_ps(a, b, c); }
NEURON_INLINE R add(R a, R b) { return _mm256_add_ps(a, b); }
#else
constexpr int kVectors = 4, kLanes = 4, kRows = 2;
struct R {
  float v[4];
};
NEURON_INLINE R load(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
NEURON_INLINE void store(float* p, R x) {
  for (int i = 0; i < 4; ++i) p[i] = x.v[i];
}
NEURON_INLINE R splat(const float* p) { return {{*p, *p, *p, *p}}; }
NEURON_INLINE R zero() { return {}; }
NEURON_INLINE R multiply_add(R a, R b, R c) {
  for (int i = 0; i < 4; ++i) c.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
  return c;
}
NEURON_INLINE R add(R a, R b) {
  for (int i = 0; i < 4; ++i) a.v[i] += b.v[i];
  return a;
}
#endif
constexpr int kWidth = kVectors * kLanes;

#define NEURON_UNROLL _Pragma("GCC unroll 12")
#define NEURON_BLOCK NEURON_UNROLL for (int m = 0; m < MR; ++m) NEURON_UNROLL for (int v = 0; v < NV; ++v)

// Rows of A. `k_major`: a_row is 1 and a[k*stride + m]; else a[m*stride + k], with one base per three rows to save
// registers.
template <int MR, bool k_major>
struct Rows {
  const float* base[(MR + 2) / 3];
  ptrdiff_t stride;
  NEURON_INLINE Rows(const float* a, ptrdiff_t s) : stride(s) {
    NEURON_UNROLL for (int i = 0; i < (MR + 2) / 3; ++i) base[i] = k_major ? a : a + 3 * i * s;
  }
  NEURON_INLINE const float* at(int m, ptrdiff_t k) const {
    return k_major ? base[0] + k * stride + m : base[m / 3] + (m % 3) * stride + k;
  }
};

// A row block's share of the next panel, which it fetches into L2 while it works: a panel that has to come from L3 would
// otherwise stall its first row block, and with all cores at work for longer than that block's arithmetic takes.
struct Ahead {
  const char* at;  // null: nothing
  ptrdiff_t step;  // bytes per k
};

// NV of the panel's vectors: narrow results leave the others out.
template <int MR, int NV, bool k_major>
void chain_block(const MatmulBlock& t, const float* a, const float* b, float* c, ptrdiff_t c_row, bool accumulate,
                 Ahead ahead) {
  R x[MR][NV];
  NEURON_BLOCK x[m][v] = accumulate ? load(c + m * c_row + kLanes * v) : zero();
  const ptrdiff_t stride = k_major ? t.a_column : t.a_row;
  const ptrdiff_t a_segment = t.a_segment, b_segment = t.b_segment;
  const int k_count = t.k, segments = t.segments;
#if defined(__AVX2__)
  NEURON_UNROLL for (int m = 0; m < MR; ++m) {  // the next row block's C comes from L2 or further
    NEURON_UNROLL for (int v = 0; v < NV * kLanes; v += 16)
        _mm_prefetch(reinterpret_cast<const char*>(c + (MR + m) * c_row + v), _MM_HINT_T0);
  }
#endif
  for (int s = 0; s < segments; ++s, a += a_segment, b += b_segment) {
    const Rows<MR, k_major> rows(a, stride);
    const float* p = b;
    const char* next = ahead.at ? ahead.at + s * b_segment * 4 : reinterpret_cast<const char*>(b);
    for (int k = 0; k < k_count; ++k, p += kWidth, next += ahead.step) {
      R y[NV];
#if defined(__AVX2__)
      _mm_prefetch(next, _MM_HINT_T1);
#endif
      NEURON_UNROLL for (int v = 0; v < NV; ++v) y[v] = load(p + kLanes * v);
      NEURON_UNROLL for (int m = 0; m < MR; ++m) {
        const R w = splat(rows.at(m, k));
        NEURON_UNROLL for (int v = 0; v < NV; ++v) x[m][v] = multiply_add(w, y[v], x[m][v]);
      }
    }
  }
  NEURON_BLOCK store(c + m * c_row + kLanes * v, x[m][v]);
}

// The matrix unit's order: per 32 k's an even and an odd chain in two passes over the same registers, C in a small buffer.
template <int MR, int NV, bool k_major>
void unit_block(const MatmulBlock& t, const float* a, const float* b, float* c, ptrdiff_t c_row, bool accumulate, Ahead) {
  alignas(64) float even[MR * kWidth], sum[MR * kWidth];
  NEURON_BLOCK store(sum + m * kWidth + kLanes * v, accumulate ? load(c + m * c_row + kLanes * v) : zero());
  const ptrdiff_t stride = k_major ? t.a_column : t.a_row;
  const ptrdiff_t a_segment = t.a_segment, b_segment = t.b_segment;
  const int k_count = t.k, segments = t.segments;
  for (int s = 0; s < segments; ++s, a += a_segment, b += b_segment) {
    const Rows<MR, k_major> rows(a, stride);
    const float* p = b;
    for (int k0 = 0; k0 < k_count; k0 += 32, p += 32 * kWidth) {
      R x[MR][NV];
#define NEURON_PASS(parity)                                                                \
  NEURON_BLOCK x[m][v] = zero();                                                           \
  for (int k = parity; k < 32; k += 2) {                                                   \
    R y[NV];                                                                               \
    NEURON_UNROLL for (int v = 0; v < NV; ++v) y[v] = load(p + k * kWidth + kLanes * v);   \
    NEURON_UNROLL for (int m = 0; m < MR; ++m) {                                           \
      const R w = splat(rows.at(m, k0 + k));                                               \
      NEURON_UNROLL for (int v = 0; v < NV; ++v) x[m][v] = multiply_add(w, y[v], x[m][v]); \
    }                                                                                      \
  }
      NEURON_PASS(0)
      NEURON_BLOCK store(even + m * kWidth + kLanes * v, x[m][v]);
      asm volatile("" ::: "memory");
      NEURON_PASS(1)
#undef NEURON_PASS
      NEURON_BLOCK {
        const int at = m * kWidth + kLanes * v;
        store(sum + at, add(load(sum + at), add(load(even + at), x[m][v])));
      }
    }
  }
  NEURON_BLOCK store(c + m * c_row + kLanes * v, load(sum + m * kWidth + kLanes * v));
}

using BlockKernel = void (*)(const MatmulBlock&, const float* a, const float* b, float* c, ptrdiff_t c_row, bool accumulate,
                             Ahead ahead);

// All row blocks of all panels; a last panel narrower than kWidth goes through a buffer. `tall`, or null: blocks of twice
// kRows by half a panel, which read a panel half as often; it comes from L2, whose bandwidth is the limit.
NEURON_INLINE void all_blocks(const MatmulBlock& t, const BlockKernel (*by_vectors)[7], const BlockKernel* tall) {
  for (int n = 0; n < t.n; n += kWidth) {
    const float* b = t.b + (n / kWidth) * t.b_panel;
    const int columns = t.n - n < kWidth ? t.n - n : kWidth;
    const bool halves = tall != nullptr && columns == kWidth && t.m > kRows;
    const int most = halves ? 2 * kRows : kRows;
    const int blocks = (t.m + most - 1) / most, small = t.m / blocks, larger = t.m % blocks;
    const BlockKernel* by_rows = by_vectors[columns <= kLanes ? 0 : columns <= 2 * kLanes ? 1 : 2];
    const float* next = n + kWidth < t.n ? b + t.b_panel : t.b_next;
    const ptrdiff_t share = next ? kWidth * 4 / blocks : 0;
    int m = 0;
    for (int i = 0; i < blocks; ++i) {
      const Ahead ahead{next ? reinterpret_cast<const char*>(next) + i * share * t.k : nullptr, share};
      const int rows = small + (i < larger ? 1 : 0);
      const float* a = t.a + m * t.a_row;
      float* c = t.c + m * t.c_row + n;
#if defined(__AVX2__)
      for (int o = 0; o < t.besides; ++o) {
        for (int r = m; r < m + rows; ++r)
          for (int j = n; j < n + columns; j += 16) _mm_prefetch(t.beside[o].at + r * t.beside[o].row + 4 * j, _MM_HINT_T1);
      }
#endif
      if (halves) {
        constexpr int half = kWidth / 2;
        const Ahead first{ahead.at, share / 2};
        const Ahead second{ahead.at ? ahead.at + share / 2 * t.k : nullptr, share / 2};
        tall[rows](t, a, b, c, t.c_row, t.accumulate, first);
        tall[rows](t, a, b + half, c + half, t.c_row, t.accumulate, second);
      } else if (columns == kWidth) {
        by_rows[rows](t, a, b, c, t.c_row, t.accumulate, ahead);
      } else {
        alignas(64) float edge[2 * kRows * kWidth];
        if (t.accumulate) {
          for (int r = 0; r < rows; ++r)
            for (int j = 0; j < kWidth; ++j) edge[r * kWidth + j] = j < columns ? c[r * t.c_row + j] : 0.0f;
        }
        by_rows[rows](t, a, b, edge, kWidth, t.accumulate, ahead);
        for (int r = 0; r < rows; ++r)
          for (int j = 0; j < columns; ++j) c[r * t.c_row + j] = edge[r * kWidth + j];
      }
      m += rows;
    }
  }
}

#if defined(__AVX2__)
#define NEURON_ROW_TABLE(block, nv, k_major) \
  {nullptr,                                  \
   block<1, nv, k_major>,                    \
   block<2, nv, k_major>,                    \
   block<3, nv, k_major>,                    \
   block<4, nv, k_major>,                    \
   block<5, nv, k_major>,                    \
   block<6, nv, k_major>}
#else
#define NEURON_ROW_TABLE(block, nv, k_major) {nullptr, block<1, nv, k_major>, block<2, nv, k_major>}
#endif
#define NEURON_TABLE(block, k_major) \
  {NEURON_ROW_TABLE(block, 1, k_major), NEURON_ROW_TABLE(block, 2, k_major), NEURON_ROW_TABLE(block, kVectors, k_major)}
// By layout of A, by vectors (1, 2, all), by rows.
constexpr BlockKernel kChain[2][3][7] = {NEURON_TABLE(chain_block, false), NEURON_TABLE(chain_block, true)};
constexpr BlockKernel kUnit[2][3][7] = {NEURON_TABLE(unit_block, false), NEURON_TABLE(unit_block, true)};

#if defined(__AVX512F__)
#define NEURON_TALL_TABLE(k_major) \
  {nullptr,                        \
   chain_block<1, 2, k_major>,     \
   chain_block<2, 2, k_major>,     \
   chain_block<3, 2, k_major>,     \
   chain_block<4, 2, k_major>,     \
   chain_block<5, 2, k_major>,     \
   chain_block<6, 2, k_major>,     \
   chain_block<7, 2, k_major>,     \
   chain_block<8, 2, k_major>,     \
   chain_block<9, 2, k_major>,     \
   chain_block<10, 2, k_major>,    \
   chain_block<11, 2, k_major>,    \
   chain_block<12, 2, k_major>}
constexpr BlockKernel kTall[2][2 * kRows + 1] = {NEURON_TALL_TABLE(false), NEURON_TALL_TABLE(true)};
#else  // too few registers
constexpr BlockKernel* kTall[2] = {nullptr, nullptr};
#endif

void matmul_chain(const MatmulBlock& t) {
  const int layout = t.a_column == 1 ? 0 : 1;
  all_blocks(t, kChain[layout], kTall[layout]);
}

__attribute__((noinline)) void unit_blocks(const MatmulBlock& t) { all_blocks(t, kUnit[t.a_column == 1 ? 0 : 1], nullptr); }

// Flush-to-zero and denormals-are-zero hold for exactly this call.
void matmul_matrix_unit(const MatmulBlock& t) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);
  asm volatile("" ::: "memory");
  unit_blocks(t);
  asm volatile("" ::: "memory");
  _mm_setcsr(before);
}

}  // namespace

void fill_matmul_kernels(Kernels& t) {
  t.matmul_chain = matmul_chain;
  t.matmul_matrix_unit = matmul_matrix_unit;
}

}  // namespace neuron::emulator::NEURON_LEVEL
