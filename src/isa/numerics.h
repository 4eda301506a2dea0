// The `reference` numerics of tile programs: the rules that the interpreter and the fast plan both follow, bit for bit.
//
// Conversions (one rounding, source value -> destination type):
//   float -> narrower float   round to nearest even; overflow to infinity (e4m3fn: to its largest value); NaN stays NaN
//   float -> integer          truncate toward zero; NaN and values outside the destination's range give what PyTorch's CPU
//                             cast gives on x86-64 (base/integer_casts.h): i8, i16, u16 and i32 convert to i32 (out of range
//                             = 0x80000000), the others to i64, then wrap
//   float -> bool             value != 0 (NaN is true);   integer -> bool  value != 0
//   integer -> integer        wrap modulo 2^bits;   integer -> float  nearest even from the exact value
//   complex -> real           the real part;   real -> complex  imaginary part 0
//
// f32 arithmetic: IEEE single, no contraction except where `fma` is written. activation uses fma(src, scale, bias);
// tensor_scalar with op0 multiply and op1 add (or subtract), neither reversed, and scalar_tensor_tensor with op0 multiply
// and op1 add use one fma as well. Division and square root are correctly rounded. maximum and minimum return NaN if either
// operand is NaN.
//
// Partial-sum order of add reductions along the free elements (tensor_reduce add, activation's dst2, bn_stats): elements are
// taken in order e = 0,1,..,n-1; lane l = e mod 16 has its own running sum starting at +0; then lanes are added as a tree
// over distance 8, 4, 2, 1:  s[l] += s[l+d] for l < d. The same lanes and tree serve multiply (start 1), maximum, minimum
// (start: first elements; lanes without element are skipped by starting at the identity). Integer and bit reductions are
// exact, any order.
// tensor_partition_reduce: one running value in ascending partition order. tensor_tensor_scan: sequential.
//
// nc_matmul, f32 and f16 sources: one FMA chain per output element in ascending k, starting from the destination's value
// (accumulate) or +0. bf16 and fp8 sources: per block of 32 k's (zero-padded), one FMA chain over the even and one over the
// odd k's, each from +0, then c += (even + odd); denormal inputs and results count as zero. f64 and complex: ascending k,
// multiply then add without fma for complex. Two accumulating instructions of K=128 equal one of K=256.
//
// NaN payloads and signs are unspecified everywhere.
#pragma once

namespace neuron::isa {

inline constexpr int kPartialSums = 16;
inline constexpr int kMatrixUnitBlock = 32;

}  // namespace neuron::isa
