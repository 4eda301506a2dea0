// The vector kernels of one host ISA level, as a table of function pointers. kernels() picks the level once (environment
// variable NEURON_EMULATOR_ISA, else CPUID). Every level gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "isa/program.h"

namespace neuron::emulator {

// d[i] = f(a[i*sa], b[i*sb], c[i*sc]) for i in [0, n). A step is 1, or 0 for an operand that is the same for all i: then the
// pointer names 16 copies of the value. d may be one of the sources exactly; else they do not overlap. Unused operands are
// ignored.
using ElementKernel = void (*)(float* d, const float* a, const float* b, const float* c, size_t sa, size_t sb, size_t sc,
                               size_t n);
// n elements of a small or integer type, contiguous, to or from f32.
using LoadKernel = void (*)(float* d, const void* s, size_t n);
using StoreKernel = void (*)(void* d, const float* s, size_t n);
// lanes[(i mod 16)] = op(lanes[i mod 16], a[i]).
using LaneKernel = void (*)(float* lanes, const float* a, size_t n);

// One block of a matmul: C[m, n] (+)= sum over segments s and k of A[m, s, k] * B[s, k, n], one chain in ascending (s, k).
// f32 elements that lie like C's, at[m*row + 4*n] in bytes: read or written once C is there.
struct Beside {
  const char* at;
  ptrdiff_t row;
};

struct MatmulBlock {
  const float* a = nullptr;  // A[m, s, k] = a[m*a_row + s*a_segment + k*a_column]
  ptrdiff_t a_row = 0, a_column = 1, a_segment = 0;
  const float* b = nullptr;  // panels of `panel_width` columns: b[panel*b_panel + s*b_segment + k*panel_width + column]
  ptrdiff_t b_panel = 0, b_segment = 0;
  const float* b_next = nullptr;  // the panel that will be read after this block's last one (only ever prefetched), or null
  float* c = nullptr;             // c[m*c_row + n]
  ptrdiff_t c_row = 0;
  const Beside* beside = nullptr;  // what comes after C (only ever prefetched)
  int besides = 0;
  int m = 0, n = 0, k = 0, segments = 1;  // matrix-unit order: k is a multiple of 32, padded with zeros on both sides
  bool accumulate = false;
};
using MatmulKernel = void (*)(const MatmulBlock&);

// The same on a matrix unit. A is bf16 in rows (padded to 16 rows), k a multiple of 32. B is bf16 in panels of 32 columns,
// b[panel*b_panel + s*b_segment + (k/2)*64 + column*2 + k%2]. Strides in elements.
struct UnitBlock {
  const uint16_t* a = nullptr;
  ptrdiff_t a_row = 0, a_segment = 0;
  const uint16_t* b = nullptr;
  ptrdiff_t b_panel = 0, b_segment = 0;
  float* c = nullptr;
  ptrdiff_t c_row = 0;
  int m = 0, n = 0, k = 0, segments = 1;
  bool accumulate = false;
};

struct Kernels {
  const char* name;
  int panel_width;                                                      // columns of a packed panel of the moving operand
  ElementKernel alu[static_cast<int>(isa::AluOp::count_)];              // a op b; null: no vector form
  ElementKernel function[static_cast<int>(isa::ActFn::count_)];         // f(a); null: no vector form
  ElementKernel function_affine[static_cast<int>(isa::ActFn::count_)];  // f(fma(a, b, c))
  ElementKernel pair[5][5];    // (a op0 b) op1 c for add, subtract, multiply, maximum, minimum (the order of AluOp's subset)
  ElementKernel multiply_add;  // fma(a, b, c)
  ElementKernel multiply_subtract;  // fma(a, b, -c)
  ElementKernel select;             // a != 0 ? b : c
  LoadKernel load[kDTypeCount];     // null: none
  StoreKernel store[kDTypeCount];
  LaneKernel lanes_add, lanes_multiply, lanes_maximum, lanes_minimum;
  // The same for four rows at once: lanes[r*16 + (i mod 16)] with a[r*row + i].
  void (*four_rows_add)(float* lanes, const float* a, ptrdiff_t row, size_t n);
  void (*four_rows_maximum)(float* lanes, const float* a, ptrdiff_t row, size_t n);
  LaneKernel lanes_square_deviation;  // lanes[0..15] sums, a: (a - lanes[16])^2, product rounded, then added
  void (*stream)(float* d, const float* s, size_t n);  // non-temporal copy; d 64-byte aligned
  void (*transpose32)(uint32_t* d, ptrdiff_t d_row, const uint32_t* s, ptrdiff_t s_row, int rows, int columns);  // d[c][r]
  void (*pack_f32)(float* panel, const float* s, int n, ptrdiff_t panel_stride);  // one row of n columns into its panels
  void (*pack_bf16)(float* panel, const uint16_t* s, int n, ptrdiff_t panel_stride);
  MatmulKernel matmul_chain;              // one FMA chain
  MatmulKernel matmul_matrix_unit;        // numerics.h: bf16 and fp8 order; denormals count as zero
  void (*unit_matmul)(const UnitBlock&);  // null: no matrix unit
  void (*unit_pack_pair)(uint16_t* panel, const uint16_t* first, const uint16_t* second, int n, ptrdiff_t panel_stride);
  void (*fma_row_f64)(double* sum, double w, const double* x, size_t n);  // sum[i] = fma(w, x[i], sum[i])
  // Words of Philox4x32-10 for counters first..first+n-1: u32 takes word 0, u64 words 0 and 1.
  void (*random_u32)(uint32_t* d, uint64_t key, uint64_t first, size_t n);
  void (*random_u64)(uint64_t* d, uint64_t key, uint64_t first, size_t n);
};

// Index into Kernels::pair, or -1.
inline int pair_index(isa::AluOp op) {
  switch (op) {
    case isa::AluOp::add:
      return 0;
    case isa::AluOp::subtract:
      return 1;
    case isa::AluOp::multiply:
      return 2;
    case isa::AluOp::maximum:
      return 3;
    case isa::AluOp::minimum:
      return 4;
    default:
      return -1;
  }
}

const Kernels& kernels();
// The table of a level by name ("scalar", "avx2", "avx512", "amx"), or null when this host cannot run it.
const Kernels* kernels_of(const char* name);

}  // namespace neuron::emulator
