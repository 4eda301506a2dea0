// Conversions, packing, transposition and random words of one ISA level.
#include <cstring>
#include <type_traits>

#include "base/integer_casts.h"
#include "emulator/kernels/level.h"

namespace neuron::emulator::NEURON_LEVEL {

namespace {

// Values of a 256-entry format, filled on first use.
template <float (*convert)(uint8_t)>
const float* byte_table() {
  struct Table {
    float values[256];
    Table() {
      for (int i = 0; i < 256; ++i) values[i] = convert(static_cast<uint8_t>(i));
    }
  };
  static const Table table;
  return table.values;
}

template <float (*convert)(uint8_t)>
void load_byte_format(float* d, const void* s, size_t n) {
  const float* table = byte_table<convert>();
  const uint8_t* p = static_cast<const uint8_t*>(s);
  for (size_t i = 0; i < n; ++i) d[i] = table[p[i]];
}
float from_e4m3(uint8_t v) { return f8e4m3fn_to_f32(v); }
float from_e5m2(uint8_t v) { return f8e5m2_to_f32(v); }

void load_bool(float* d, const void* s, size_t n) {
  const uint8_t* p = static_cast<const uint8_t*>(s);
  for (size_t i = 0; i < n; ++i) d[i] = p[i] != 0 ? 1.0f : 0.0f;
}
template <class T>
void load_integer(float* d, const void* s, size_t n) {
  const T* p = static_cast<const T*>(s);
  for (size_t i = 0; i < n; ++i) d[i] = static_cast<float>(p[i]);
}
void load_f32(float* d, const void* s, size_t n) {
  const float* p = static_cast<const float*>(s);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) V::load(p + i).store(d + i);
  const int rest = static_cast<int>(n - i);
  if (rest > 0) V::load_partial(p + i, rest).store_partial(d + i, rest);
}
// 16-bit formats: full vectors, then one through a padded copy.
template <class LoadVector>
NEURON_INLINE void load_half(float* d, const void* s, size_t n, LoadVector load) {
  const uint16_t* p = static_cast<const uint16_t*>(s);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) load(p + i).store(d + i);
  if (i < n) {
    uint16_t rest[16] = {};
    std::memcpy(rest, p + i, (n - i) * 2);
    load(rest).store_partial(d + i, static_cast<int>(n - i));
  }
}
template <class StoreVector>
NEURON_INLINE void store_half(void* d, const float* s, size_t n, StoreVector store) {
  uint16_t* p = static_cast<uint16_t*>(d);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) store(p + i, V::load(s + i));
  if (i < n) {
    uint16_t rest[16];
    store(rest, V::load_partial(s + i, static_cast<int>(n - i)));
    std::memcpy(p + i, rest, (n - i) * 2);
  }
}
void load_bf16s(float* d, const void* s, size_t n) {
  load_half(d, s, n, [](const uint16_t* p) __attribute__((always_inline)) { return load_bf16(p); });
}
void load_f16s(float* d, const void* s, size_t n) {
  load_half(d, s, n, [](const uint16_t* p) __attribute__((always_inline)) { return load_f16(p); });
}
void store_bf16s(void* d, const float* s, size_t n) {
  store_half(d, s, n, [](uint16_t* p, V x) __attribute__((always_inline)) { store_bf16(p, x); });
}
void store_f16s(void* d, const float* s, size_t n) {
  store_half(d, s, n, [](uint16_t* p, V x) __attribute__((always_inline)) { store_f16(p, x); });
}

void store_bool(void* d, const float* s, size_t n) {
  uint8_t* p = static_cast<uint8_t*>(d);
  for (size_t i = 0; i < n; ++i) p[i] = s[i] != 0 ? 1 : 0;
}
// base/integer_casts.h in a form that vectorises (a float beyond i32 has no low byte, so u8 may come from i32).
template <class T>
void store_integer(void* d, const float* s, size_t n) {
  T* p = static_cast<T*>(d);
  for (size_t i = 0; i < n; ++i) {
    const float x = s[i];
    if constexpr (std::is_same_v<T, uint64_t>)
      p[i] = float_to_u64(x);
    else if constexpr (sizeof(T) == 8 || std::is_same_v<T, uint32_t>)
      p[i] = static_cast<T>(float_to_i64(x));
    else
      p[i] = static_cast<T>(x >= -2147483648.0f && x < 2147483648.0f ? static_cast<int32_t>(x) : INT32_MIN);
  }
}
void store_f32(void* d, const float* s, size_t n) { load_f32(static_cast<float*>(d), s, n); }
void store_f64(void* d, const float* s, size_t n) {
  double* p = static_cast<double*>(d);
  for (size_t i = 0; i < n; ++i) p[i] = s[i];
}
void load_f64(float* d, const void* s, size_t n) {
  const double* p = static_cast<const double*>(s);
  for (size_t i = 0; i < n; ++i) d[i] = static_cast<float>(p[i]);
}
void store_e4m3(void* d, const float* s, size_t n) {
  uint8_t* p = static_cast<uint8_t*>(d);
  for (size_t i = 0; i < n; ++i) p[i] = f32_to_f8e4m3fn(s[i]);
}
void store_e5m2(void* d, const float* s, size_t n) {
  uint8_t* p = static_cast<uint8_t*>(d);
  for (size_t i = 0; i < n; ++i) p[i] = f32_to_f8e5m2(s[i]);
}

void stream(float* d, const float* s, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) V::load(s + i).stream(d + i);
  for (; i < n; ++i) d[i] = s[i];
}

// One block: d[c*d_row + r] = s[r*s_row + c] for r < rows, c < columns, both at most kBlock.
#if defined(__AVX512F__)
constexpr int kBlock = 16;

template <bool whole>
NEURON_INLINE void transpose_block(uint32_t* d, ptrdiff_t d_row, const uint32_t* s, ptrdiff_t s_row, int rows, int columns) {
  // The rows below come next; hardware prefetchers do not follow from the end of one row to the start of another.
#pragma GCC unroll 16
  for (int r = 0; whole && r < 16; ++r) _mm_prefetch(reinterpret_cast<const char*>(s + (16 + r) * s_row), _MM_HINT_T0);
  const __mmask16 row_mask = static_cast<__mmask16>((1u << rows) - 1u),
                  column_mask = static_cast<__mmask16>((1u << columns) - 1u);
  __m512i x[16], y[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) {
    if (whole)
      x[r] = _mm512_loadu_si512(s + r * s_row);
    else
      x[r] = r < rows ? _mm512_maskz_loadu_epi32(column_mask, s + r * s_row) : _mm512_setzero_si512();
  }
  // Pairs of rows, then fours: y[4i + j] holds column 4L + j of rows 4i..4i+3 in its 128-bit lane L.
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
  // Lanes of four registers.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i even_low = _mm512_shuffle_i32x4(x[j], x[4 + j], 0x88),
                  odd_low = _mm512_shuffle_i32x4(x[j], x[4 + j], 0xdd);
    const __m512i even_high = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0x88),
                  odd_high = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0xdd);
    y[j] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    y[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    y[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    y[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
#pragma GCC unroll 16
  for (int c = 0; c < 16; ++c) {
    if (whole)
      _mm512_storeu_si512(d + c * d_row, y[c]);
    else if (c < columns)
      _mm512_mask_storeu_epi32(d + c * d_row, row_mask, y[c]);
  }
}
#else
constexpr int kBlock = 8;

template <bool whole>
NEURON_INLINE void transpose_block(uint32_t* d, ptrdiff_t d_row, const uint32_t* s, ptrdiff_t s_row, int rows, int columns) {
#if defined(__AVX2__)
  if (whole) {
    const auto* from = reinterpret_cast<const float*>(s);
    __m256 x[8], y[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) x[r] = _mm256_loadu_ps(from + r * s_row);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
      y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      x[i] = _mm256_shuffle_ps(y[i], y[i + 2], 0x44);
      x[i + 1] = _mm256_shuffle_ps(y[i], y[i + 2], 0xee);
      x[i + 2] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0x44);
      x[i + 3] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      _mm256_storeu_ps(reinterpret_cast<float*>(d) + j * d_row, _mm256_permute2f128_ps(x[j], x[4 + j], 0x20));
      _mm256_storeu_ps(reinterpret_cast<float*>(d) + (4 + j) * d_row, _mm256_permute2f128_ps(x[j], x[4 + j], 0x31));
    }
    return;
  }
#endif
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) d[c * d_row + r] = s[r * s_row + c];
}
#endif

void transpose32(uint32_t* d, ptrdiff_t d_row, const uint32_t* s, ptrdiff_t s_row, int rows, int columns) {
  for (int r = 0; r < rows; r += kBlock) {
    const int r_count = rows - r < kBlock ? rows - r : kBlock;
    for (int c = 0; c < columns; c += kBlock) {
      const int c_count = columns - c < kBlock ? columns - c : kBlock;
      if (r_count == kBlock && c_count == kBlock)
        transpose_block<true>(d + c * d_row + r, d_row, s + r * s_row + c, s_row, kBlock, kBlock);
      else
        transpose_block<false>(d + c * d_row + r, d_row, s + r * s_row + c, s_row, r_count, c_count);
    }
  }
}

#if defined(__AVX512F__)
constexpr int kPanelWidth = 64;
#else
constexpr int kPanelWidth = 16;
#endif

void pack_f32(float* panel, const float* s, int n, ptrdiff_t panel_stride) {
  for (; n >= kPanelWidth; n -= kPanelWidth, s += kPanelWidth, panel += panel_stride) {
#pragma GCC unroll 4
    for (int v = 0; v < kPanelWidth; v += 16) V::load(s + v).store(panel + v);
  }
  if (n > 0) {
    for (int v = 0; v < kPanelWidth; v += 16)
      (n > v ? V::load_partial(s + v, n - v < 16 ? n - v : 16) : V::set(0)).store(panel + v);
  }
}
void pack_bf16(float* panel, const uint16_t* s, int n, ptrdiff_t panel_stride) {
  for (; n >= kPanelWidth; n -= kPanelWidth, s += kPanelWidth, panel += panel_stride) {
#pragma GCC unroll 4
    for (int v = 0; v < kPanelWidth; v += 16) load_bf16(s + v).store(panel + v);
  }
  if (n > 0) {
    uint16_t rest[kPanelWidth] = {};
    std::memcpy(rest, s, static_cast<size_t>(n) * 2);
    for (int v = 0; v < kPanelWidth; v += 16) load_bf16(rest + v).store(panel + v);
  }
}

void fma_row_f64(double* sum, double w, const double* x, size_t n) {
  for (size_t i = 0; i < n; ++i) sum[i] = std::fma(w, x[i], sum[i]);
}

// --- Philox4x32-10 ---

constexpr int kBatch = 16;

#if defined(__AVX512F__)
using Words = __m512i;  // kWords 32-bit words
constexpr int kWords = 16;
NEURON_INLINE Words splat(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
NEURON_INLINE Words load_words(const uint32_t* p) { return _mm512_loadu_si512(p); }
NEURON_INLINE void store_words(uint32_t* p, Words x) { _mm512_storeu_si512(p, x); }
NEURON_INLINE Words exclusive_or(Words a, Words b, Words c) { return _mm512_xor_si512(_mm512_xor_si512(a, b), c); }
NEURON_INLINE Words multiply_low(Words a, Words m) { return _mm512_mullo_epi32(a, m); }
NEURON_INLINE Words multiply_high(Words a, Words m) {
  const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a, m), 32);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), m);
  return _mm512_mask_blend_epi32(0xaaaa, even, odd);
}
#elif defined(__AVX2__)
using Words = __m256i;
constexpr int kWords = 8;
NEURON_INLINE Words splat(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
NEURON_INLINE Words load_words(const uint32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
NEURON_INLINE void store_words(uint32_t* p, Words x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
NEURON_INLINE Words exclusive_or(Words a, Words b, Words c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
NEURON_INLINE Words multiply_low(Words a, Words m) { return _mm256_mullo_epi32(a, m); }
NEURON_INLINE Words multiply_high(Words a, Words m) {
  const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(a, m), 32);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
  return _mm256_blend_epi32(even, odd, 0xaa);
}
#else
using Words = uint32_t;
constexpr int kWords = 1;
NEURON_INLINE Words splat(uint32_t x) { return x; }
NEURON_INLINE Words load_words(const uint32_t* p) { return *p; }
NEURON_INLINE void store_words(uint32_t* p, Words x) { *p = x; }
NEURON_INLINE Words exclusive_or(Words a, Words b, Words c) { return a ^ b ^ c; }
NEURON_INLINE Words multiply_low(Words a, Words m) { return a * m; }
NEURON_INLINE Words multiply_high(Words a, Words m) { return static_cast<uint32_t>(uint64_t{a} * m >> 32); }
#endif

// Words 0 and 1 for counters first..first+15.
NEURON_INLINE void philox(uint64_t key, uint64_t first, uint32_t (&w0)[kBatch], uint32_t (&w1)[kBatch]) {
  for (int i = 0; i < kBatch; ++i) {
    const uint64_t counter = first + static_cast<uint64_t>(i);
    w0[i] = static_cast<uint32_t>(counter);
    w1[i] = static_cast<uint32_t>(counter >> 32);
  }
  for (int i = 0; i < kBatch; i += kWords) {
    Words c0 = load_words(w0 + i), c1 = load_words(w1 + i), c2 = splat(0), c3 = splat(0);
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const Words m0 = splat(0xD2511F53u), m1 = splat(0xCD9E8D57u);
      const Words n0 = exclusive_or(multiply_high(c2, m1), c1, splat(k0)),
                  n2 = exclusive_or(multiply_high(c0, m0), c3, splat(k1));
      c1 = multiply_low(c2, m1);
      c3 = multiply_low(c0, m0);
      c0 = n0;
      c2 = n2;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    store_words(w0 + i, c0);
    store_words(w1 + i, c1);
  }
}

void random_u32(uint32_t* d, uint64_t key, uint64_t first, size_t n) {
  uint32_t w0[kBatch], w1[kBatch];
  for (size_t i = 0; i < n; i += kBatch) {
    philox(key, first + i, w0, w1);
    std::memcpy(d + i, w0, (n - i < kBatch ? n - i : kBatch) * 4);
  }
}
void random_u64(uint64_t* d, uint64_t key, uint64_t first, size_t n) {
  uint32_t w0[kBatch], w1[kBatch];
  for (size_t i = 0; i < n; i += kBatch) {
    philox(key, first + i, w0, w1);
    for (size_t j = 0; j < kBatch && i + j < n; ++j) d[i + j] = w0[j] | static_cast<uint64_t>(w1[j]) << 32;
  }
}

void fill_conversions(Kernels& t) {
  const auto set = [&t](DType type, LoadKernel load, StoreKernel store) {
    t.load[static_cast<int>(type)] = load;
    t.store[static_cast<int>(type)] = store;
  };
  set(DType::boolean, load_bool, store_bool);
  set(DType::u8, load_integer<uint8_t>, store_integer<uint8_t>);
  set(DType::i8, load_integer<int8_t>, store_integer<int8_t>);
  set(DType::u16, load_integer<uint16_t>, store_integer<uint16_t>);
  set(DType::i16, load_integer<int16_t>, store_integer<int16_t>);
  set(DType::u32, load_integer<uint32_t>, store_integer<uint32_t>);
  set(DType::i32, load_integer<int32_t>, store_integer<int32_t>);
  set(DType::u64, load_integer<uint64_t>, store_integer<uint64_t>);
  set(DType::i64, load_integer<int64_t>, store_integer<int64_t>);
  set(DType::f8e4m3fn, load_byte_format<from_e4m3>, store_e4m3);
  set(DType::f8e5m2, load_byte_format<from_e5m2>, store_e5m2);
  set(DType::f16, load_f16s, store_f16s);
  set(DType::bf16, load_bf16s, store_bf16s);
  set(DType::f32, load_f32, store_f32);
  set(DType::f64, load_f64, store_f64);
}

}  // namespace

void fill_memory_kernels(Kernels& t) {
  fill_conversions(t);
  t.panel_width = kPanelWidth;
  t.stream = stream;
  t.transpose32 = transpose32;
  t.pack_f32 = pack_f32;
  t.pack_bf16 = pack_bf16;
  t.fma_row_f64 = fma_row_f64;
  t.random_u32 = random_u32;
  t.random_u64 = random_u64;
}

}  // namespace neuron::emulator::NEURON_LEVEL
