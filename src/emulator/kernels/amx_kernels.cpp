// bf16 matmul on Intel's matrix unit (AMX): the order of numerics.h is this unit's own, so the bits are those of the
// portable kernels. The tile instructions are written as assembly because GCC 12's intrinsics do not say which memory they
// read.
#include <asm/prctl.h>
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emulator/kernels/kernel_table.h"

namespace neuron::emulator::avx512 {

namespace {

constexpr int kTile = 16;   // rows of a tile register; each row is 64 bytes
constexpr int kWidth = 32;  // columns of a panel
constexpr int kStep = 32;   // k's of one tile instruction

// Eight tile registers of 16 rows x 64 bytes: one configuration serves every shape, edges are padded.
alignas(64) constexpr unsigned char kConfiguration[64] = {
    1,  0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 64, 0,  64, 0,  64, 0,  64, 0,
    64, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0,  0, 16, 16, 16, 16, 16, 16, 16, 16};

#define NEURON_TILE_LOAD(tile, at, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile::"r"(at), "r"(static_cast<int64_t>(stride)) : "memory")
#define NEURON_TILE_STORE(tile, at, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(at), "r"(static_cast<int64_t>(stride)) : "memory")
#define NEURON_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile::)
#define NEURON_TILE_MULTIPLY(c, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c::)

// C block of 32 (or, with `half`, 16) rows by 32 columns, whole chain of k.
template <bool half>
inline void block(const UnitBlock& t, const uint16_t* a, const uint16_t* b, float* c, ptrdiff_t c_row) {
  const int64_t c_bytes = c_row * 4, a_bytes = t.a_row * 2;
  if (t.accumulate) {
    NEURON_TILE_LOAD(0, c, c_bytes);
    NEURON_TILE_LOAD(1, c + kTile, c_bytes);
    if (!half) {
      NEURON_TILE_LOAD(2, c + kTile * c_row, c_bytes);
      NEURON_TILE_LOAD(3, c + kTile * c_row + kTile, c_bytes);
    }
  } else {
    NEURON_TILE_ZERO(0);
    NEURON_TILE_ZERO(1);
    if (!half) {
      NEURON_TILE_ZERO(2);
      NEURON_TILE_ZERO(3);
    }
  }
  for (int s = 0; s < t.segments; ++s) {
    const uint16_t *x = a + s * t.a_segment, *y = b + s * t.b_segment;
    for (int k = 0; k < t.k; k += kStep, y += kStep * kWidth) {
      NEURON_TILE_LOAD(6, y, kWidth * 4);
      NEURON_TILE_LOAD(4, x + k, a_bytes);
      NEURON_TILE_MULTIPLY(0, 4, 6);
      NEURON_TILE_LOAD(7, y + 2 * kTile, kWidth * 4);
      NEURON_TILE_MULTIPLY(1, 4, 7);
      if (!half) {
        NEURON_TILE_LOAD(5, x + kTile * t.a_row + k, a_bytes);
        NEURON_TILE_MULTIPLY(2, 5, 6);
        NEURON_TILE_MULTIPLY(3, 5, 7);
      }
    }
  }
  NEURON_TILE_STORE(0, c, c_bytes);
  NEURON_TILE_STORE(1, c + kTile, c_bytes);
  if (!half) {
    NEURON_TILE_STORE(2, c + kTile * c_row, c_bytes);
    NEURON_TILE_STORE(3, c + kTile * c_row + kTile, c_bytes);
  }
}

void unit_matmul(const UnitBlock& t) {
  asm volatile("ldtilecfg %0" ::"m"(kConfiguration) : "memory");
  for (int n = 0; n < t.n; n += kWidth) {
    const uint16_t* b = t.b + (n / kWidth) * t.b_panel;
    const int columns = t.n - n < kWidth ? t.n - n : kWidth;
    for (int m = 0; m < t.m; m += 2 * kTile) {
      const int rows = t.m - m < 2 * kTile ? t.m - m : 2 * kTile;
      const uint16_t* a = t.a + m * t.a_row;
      float* c = t.c + m * t.c_row + n;
      const bool half = rows <= kTile;
      if (columns == kWidth && (rows == kTile || rows == 2 * kTile)) {
        if (half)
          block<true>(t, a, b, c, t.c_row);
        else
          block<false>(t, a, b, c, t.c_row);
        continue;
      }
      alignas(64) float edge[2 * kTile * kWidth] = {};
      for (int r = 0; t.accumulate && r < rows; ++r)
        for (int j = 0; j < columns; ++j) edge[r * kWidth + j] = c[r * t.c_row + j];
      if (half)
        block<true>(t, a, b, edge, kWidth);
      else
        block<false>(t, a, b, edge, kWidth);
      for (int r = 0; r < rows; ++r)
        for (int j = 0; j < columns; ++j) c[r * t.c_row + j] = edge[r * kWidth + j];
    }
  }
  asm volatile("tilerelease" ::: "memory");
}

// Rows k and k+1 of n columns, interleaved into one line of each panel. `second` may be null: zeros.
void unit_pack_pair(uint16_t* panel, const uint16_t* first, const uint16_t* second, int n, ptrdiff_t panel_stride) {
  alignas(64) static constexpr uint16_t kLow[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  alignas(64) static constexpr uint16_t kHigh[32] = {16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                                     24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  const __m512i low = _mm512_load_si512(kLow), high = _mm512_load_si512(kHigh);
  for (; n > 0; n -= kWidth, first += kWidth, second += second ? kWidth : 0, panel += panel_stride) {
    const __mmask32 m = n >= 32 ? 0xffffffffu : (1u << n) - 1u;
    const __m512i x = _mm512_maskz_loadu_epi16(m, first);
    const __m512i y = second ? _mm512_maskz_loadu_epi16(m, second) : _mm512_setzero_si512();
    _mm512_storeu_si512(panel, _mm512_permutex2var_epi16(x, low, y));
    _mm512_storeu_si512(panel + 32, _mm512_permutex2var_epi16(x, high, y));
  }
}

bool has_unit() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM: once per process
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

// False when this host has no matrix unit or the system does not permit its use.
bool fill_unit_kernels(Kernels& table) {
  if (!has_unit()) return false;
  table.unit_matmul = unit_matmul;
  table.unit_pack_pair = unit_pack_pair;
  return true;
}

}  // namespace neuron::emulator::avx512
