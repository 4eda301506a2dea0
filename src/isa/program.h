// A tile program: what the compiler emits, the container stores, the timing model prices and the emulator executes.
//
// A Program is plain data. It names HBM tensors and on-chip tiles in tables and holds one instruction stream per physical
// core: counted loops around instructions whose operands are affine access patterns. Everything an executor needs is here;
// nothing here depends on a host. Instruction names and operand roles are those of NKI (nki.isa); docs/instructions.md is
// generated from instruction_table.h.
//
// Addresses. An Access walks a tensor or a tile: element (p, i0, i1, ..) of the pattern lives at byte
//     HBM        offset + sum_l loop_step[l]*iv[l] + p*partition_stride + sum_d i_d*dims[d].stride      of the tensor
//     SBUF/PSUM  offset + sum_l loop_step[l]*iv[l]                      + sum_d i_d*dims[d].stride      of the tile's row in
//                partition  tile.partition_start + access.partition_start + p
// where iv[l] is the current iteration (0-based) of the enclosing loop at nesting level l, 0 = outermost. A stride of 0
// broadcasts. Tiles with `buffers` > 1 rotate: an access uses buffer  iv[tile.rotate_level] mod tile.buffers.
//
// Arithmetic. An instruction has a compute type: every source element is converted to it, the operation is done in it, and
// the result is converted to the destination's dtype on store (conversions: isa/numerics.h). f32 is what the fixed-function
// engines do; f64, i64, u64, c64 and c128 are the same instructions on engine GpSimd. Integer types narrower than 64 bits
// compute in i64 (u64 for u64) and wrap on store, which is exact for every operation listed here; bool reads as 0 or 1 and
// stores `value != 0`.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace neuron::isa {

inline constexpr int kMaxLoops = 8;     // nesting depth of counted loops
inline constexpr int kMaxFreeDims = 4;  // free dimensions of one access pattern
inline constexpr uint16_t kNoSemaphore = 0xffff;

enum class Space : uint8_t { none, hbm, sbuf, psum };

// Engine numbers are NKI's. `dma` instructions also name a queue.
enum class Engine : uint8_t { unknown, tensor, scalar, gpsimd, dma, vector, sync };

enum class TensorRole : uint8_t { input, output, constant, scratch };

// One HBM tensor: a named byte extent that starts where the caller's buffer (or slice) starts.
struct Tensor {
  std::string name;  // the name in the nrt tensor set: "input0", "output0", "scalars", ...
  TensorRole role = TensorRole::input;
  DType dtype = DType::f32;
  uint64_t bytes = 0;            // extent that accesses may touch
  std::vector<int64_t> shape;    // for people and for nrt_get_model_tensor_info
  std::vector<int64_t> strides;  // elements; same length as shape
  int32_t alias_of = -1;         // output: index of the input tensor whose buffer it must be (in-place), or -1
  uint64_t constant_offset = 0;  // constant: where its `bytes` start in Program::constants
};

// One on-chip tile: `buffers` x [partitions, bytes_per_partition].
struct Tile {
  std::string name;
  Space space = Space::sbuf;
  uint32_t partitions = 0;           // <= 128
  uint32_t bytes_per_partition = 0;  // of one buffer
  uint32_t buffers = 1;
  uint32_t rotate_level = 0;     // loop level whose iteration selects the buffer (unused when buffers == 1)
  uint32_t partition_start = 0;  // placement
  uint64_t byte_offset = 0;      // placement of buffer 0 in each partition; buffer b follows at b*bytes_per_partition
};

struct Dim {
  uint32_t count = 1;
  int64_t stride = 0;  // bytes
};

struct Access {
  Space space = Space::none;     // none = operand absent
  uint32_t object = 0;           // index into Program::tensors or Program::tiles
  DType dtype = DType::f32;      // how the bytes are read (may differ from the table's dtype: bit casts)
  uint8_t rank = 0;              // number of free dims in use; 0 = one element per partition
  uint32_t partition_start = 0;  // tiles only
  uint32_t partitions = 1;
  int64_t partition_stride = 0;  // HBM only, bytes
  int64_t offset = 0;            // bytes
  std::array<Dim, kMaxFreeDims> dims{};
  std::array<int64_t, kMaxLoops> loop_step{};  // bytes per iteration

  bool present() const { return space != Space::none; }
  uint64_t elements_per_partition() const {
    uint64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= dims[d].count;
    return n;
  }
};

// A scalar operand of tensor_scalar and friends: an immediate, or one value per partition from a [P,1] access.
struct ScalarOperand {
  enum class Kind : uint8_t { none, immediate, access } kind = Kind::none;
  // Immediates are exact for every compute type: integers in `i`, floats in `re`, complex in re, im.
  double re = 0, im = 0;
  int64_t i = 0;  // also carries u64 bit patterns
  Access access;
};

// value(p, i0, ..) = base + sum_l loop_step[l]*iv[l] + p*partition_step + sum_d i_d*step[d], in 64-bit wrapping integers.
// Used by iota and by random_bits (the counter offset of each element).
struct IndexPattern {
  int64_t base = 0;
  int64_t partition_step = 0;
  std::array<int64_t, kMaxFreeDims> step{};
  std::array<int64_t, kMaxLoops> loop_step{};
};

// clang-format off
enum class Opcode : uint8_t {
  // --- data movement (Engine::dma) ---
  // dst[e] = convert(src[e]); equal element counts per partition, or per whole pattern when both sides are HBM.
  // With `index` present it is a gather (src in HBM) or a scatter (dst in HBM), see Instruction::index.
  dma_copy,
  // dst[p=c, i=r] = src[p=r, i=c]; equal dtypes. src [R<=512 rows, rank-1 C<=128 columns], dst tile [C, R].
  dma_transpose,
  // --- TensorE ---
  // dst[m, n] (+)= sum_k src0[k, m] * src1[k, n]. src0 = stationary [K<=128, M<=128], src1 = moving [K, N<=512].
  // Engine tensor: dst f32 in PSUM, sources f32, bf16, f16 or fp8 in SBUF. Engine gpsimd: f64/i64/u64/c64/c128 compute,
  // dst in SBUF with the compute type's dtype (or a narrower integer).
  nc_matmul,
  // dst[f, p] = src0[p, f], bit exact. TensorE: SBUF [<=128,<=128] -> PSUM. VectorE: [<=32,<=32] any on-chip.
  nc_transpose,
  // --- element-wise, VectorE / ScalarE / GpSimd; every access has the same partitions and element count ---
  tensor_copy,           // dst = convert(src0)
  memset,                // dst = imm (scalar0.immediate)
  iota,                  // dst = pattern, computed in i64 then converted
  tensor_tensor,         // dst = src0 op0 src1
  tensor_scalar,         // dst = (src0 op0 scalar0) op1 scalar1; op1 may be bypass; reverse swaps that op's operands
  scalar_tensor_tensor,  // dst = (src0 op0 scalar0) op1 src1; reverse as above
  activation,            // dst = func(fma(src0, scalar0, scalar1)); absent scalar0 = 1, absent scalar1 = 0 (then no
                         // multiply-add is done at all). dst2 [P,1], if present, = sum over the free elements of the
                         // unrounded results (numerics.h: partial-sum order)
  reciprocal,            // dst = 1 / src0, one correctly rounded division
  select,                // dst = src2 != 0 ? src0 : src1; src1 (or src0) absent -> scalar1 (scalar0)
  // --- reductions and scans ---
  tensor_reduce,            // dst[outer..] = reduce op0 over the last `reduce_dims` free dims of src0
  tensor_partition_reduce,  // GpSimd: dst [1, F] = reduce op0 over partitions of src0 [P, F], ascending p
  tensor_tensor_scan,       // y_i = (src0_i op0 y_{i-1}) op1 src1_i, y_{-1} = scalar0, along the last free dim, restarting
                            // for each outer free index. src1 absent (op1 bypass): y_i = src0_i op0 y_{i-1}
  bn_stats,                 // dst [P,6] f32: count, mean, count*variance of even, then odd elements of src0 [P, N<=512]
  bn_aggr,                  // dst [P,2] f32 = mean, variance (biased) of src0 [P, 3*k] triples
  max8,                     // dst [P,8] = the 8 largest of src0 [P, 8..16384], descending, NaN largest
  find_index8,              // dst [P,8] u32 = first index in src0 of each src1 [P,8] value; duplicates advance
  // --- routines (GpSimd), a closed list ---
  random_bits,  // dst u32 or u64 = Philox4x32-10(key = scalar0 (u64 seed), counter = scalar1 (u64 offset) + pattern);
                // u32 takes word 0; u64 takes words 0 (low) and 1 (high)
  scatter_reduce,  // as an indirect dma_copy store, but dst[..] = dst[..] op0 src, in ascending (p, j) order, exact for
                   // duplicate indices
  top_k,  // dst [P,k] values, dst2 [P,k] indices (i64) of the k largest (flag `largest`) or smallest of src0 [P,N],
          // ordered; ties keep the lower index first; NaN counts as largest
  count_
};
// clang-format on

// clang-format off
enum class AluOp : uint8_t {
  bypass,
  // arithmetic
  add, subtract, multiply, divide,
  maximum, minimum,  // NaN in either operand gives NaN
  power, remainder,  // remainder: sign of the divisor (Python %); integer divisor 0 is an error reported at execution
  fmod,              // sign of the dividend (C fmod)
  floor_divide, trunc_divide,
  atan2, hypot, copysign, nextafter,
  // comparisons give 0 or 1 in the compute type
  equal, not_equal, less, less_equal, greater, greater_equal,
  logical_and, logical_or, logical_xor,
  // bits (integer compute types)
  bitwise_and, bitwise_or, bitwise_xor,
  shift_left, shift_right_arithmetic, shift_right_logical,  // amount >= width or < 0: 0 (or the sign), as PyTorch
  gcd,
  count_
};
// clang-format on

// Unary functions of `activation`. f32 has polynomials of our own (same bits at every host level).
// clang-format off
enum class ActFn : uint8_t {
  copy, negative, abs, sign, square, relu,
  sqrt, rsqrt, reciprocal,
  exp, exp2, expm1, log, log2, log10, log1p,
  sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh,
  sigmoid, silu, silu_dx, gelu, gelu_dx, gelu_apprx_tanh, gelu_apprx_tanh_dx, softplus, mish, log_sigmoid,
  erf, erfc, erf_inv, lgamma, digamma,
  floor, ceil, trunc, round,  // round: half to even
  is_nan, is_inf, is_finite,  // give 0 or 1
  logical_not, bitwise_not, population_count,
  real, imag, conj, angle,  // complex compute types (also defined on reals)
  count_
};
// clang-format on

enum class OobMode : uint8_t { error, skip };

// Waits until the semaphore has been signalled at least base + sum_l loop_step[l]*iv[l] times in this launch.
struct Wait {
  uint16_t semaphore = kNoSemaphore;
  int64_t base = 0;
  std::array<int64_t, kMaxLoops> loop_step{};
};

struct Instruction {
  Opcode opcode = Opcode::tensor_copy;
  Engine engine = Engine::unknown;
  uint8_t queue = 0;  // Engine::dma: which DMA queue (0..15); instructions of one queue run in order
  DType compute = DType::f32;
  AluOp op0 = AluOp::bypass;
  AluOp op1 = AluOp::bypass;
  bool reverse0 = false;
  bool reverse1 = false;
  ActFn func = ActFn::copy;
  uint8_t reduce_dims = 1;
  bool largest = true;  // top_k

  // nc_matmul: adds to dst when `accumulate`, or when any loop level in `accumulate_levels` (bit l) is past its first
  // iteration; otherwise overwrites.
  bool accumulate = false;
  uint8_t accumulate_levels = 0;

  // Indirect dma_copy and scatter_reduce: index is a tile access [P, J] of i32, u32 or i64. The HBM operand's first free
  // dimension is j; its address gains index[p, j] * index_stride. Each index must satisfy 0 <= index < index_bound,
  // else `oob`: error = the launch fails with OutOfRange naming op_label, index and bound; skip = that row is left alone.
  Access index;
  int64_t index_stride = 0;  // bytes
  int64_t index_bound = 0;
  OobMode oob = OobMode::error;

  Access dst, dst2;
  Access src0, src1, src2;
  ScalarOperand scalar0, scalar1;
  IndexPattern pattern;  // iota, random_bits

  uint16_t signal = kNoSemaphore;  // incremented when the instruction completes
  std::vector<Wait> waits;
  uint32_t label = 0;  // index into Program::labels: which operator this came from, for errors and timelines
};

enum class LoopKind : uint8_t {
  affine,      // iterations are independent: they write disjoint HBM bytes and pass nothing through tiles
  sequential,  // iterations may depend on earlier ones
};

struct Step {
  enum class Kind : uint8_t { instruction, loop, end } kind = Kind::instruction;
  LoopKind loop_kind = LoopKind::sequential;
  uint32_t value = 0;  // instruction: index into Program::instructions; loop: trip count (>= 1)
  uint32_t match = 0;  // loop: step index of its end; end: step index of its loop
};

struct Stream {
  std::vector<Step> steps;
};

struct Program {
  std::string target = "trn2";  // a name in isa/target.h
  std::string name;             // for people: "aten::add.Tensor", "forward graph 3"
  std::string numerics = "reference";
  std::vector<Tensor> tensors;
  std::vector<Tile> tiles;
  std::vector<Instruction> instructions;
  std::vector<Stream> streams;  // one per physical core of the logical core: 1 or 2
  uint16_t semaphores = 0;
  std::vector<uint8_t> constants;
  std::vector<std::string> labels;  // [0] is ""
};

}  // namespace neuron::isa
