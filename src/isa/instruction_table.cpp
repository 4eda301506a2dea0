#include "isa/instruction_table.h"

#include <array>

namespace neuron::isa {
namespace {

constexpr uint32_t kT = engine_bit(Engine::tensor);
constexpr uint32_t kV = engine_bit(Engine::vector);
constexpr uint32_t kS = engine_bit(Engine::scalar);
constexpr uint32_t kG = engine_bit(Engine::gpsimd);
constexpr uint32_t kD = engine_bit(Engine::dma);

constexpr Constraint kGeneral[] = {
    {"program.1", "target names an entry of the target table"},
    {"program.2", "there is at least one stream and at most one per physical core of the logical core"},
    {"program.3", "numerics is \"reference\""},
    {"program.4", "every instruction is executed by at least one step"},
    {"program.5", "every label is an index into labels (0 is allowed when there are none)"},
    {"program.6", "every enumeration holds one of its named values"},
    {"tensor.1", "shape and strides have the same length"},
    {"tensor.2", "a constant lies inside Program::constants"},
    {"tensor.3", "alias_of is set on outputs only and names an input"},
    {"tensor.4", "names are not empty and not repeated"},
    {"tile.1", "a tile is in SBUF or PSUM, has 1 to 128 partitions, at least one byte and at least one buffer"},
    {"tile.2", "all buffers of a tile lie inside the partitions and the bytes per partition of its memory"},
    {"tile.3", "two tiles share bytes only if their uses in each stream, from first to last step, do not interleave"},
    {"tile.4", "a rotating tile is used only inside the loop level that rotates it"},
    {"stream.1", "every loop has its end and the other way round, nested at most 8 deep"},
    {"stream.2", "trip counts are at least 1"},
    {"stream.3", "an instruction step names an instruction"},
    {"loop.1", "inside an affine loop every HBM destination moves with that loop"},
    {"loop.2", "an affine loop holds no scatter: rows named by an index may collide"},
    {"access.1", "the object exists, and a tile access names the tile's own memory"},
    {"access.2", "at most 4 free dimensions; every count is at least 1; at most 2^40 elements in all"},
    {"access.3", "no element of any loop iteration lies outside its tensor or its tile's row"},
    {"access.4", "offset, strides and loop steps are multiples of the element size (of 8 for 16-byte elements)"},
    {"access.5", "a destination does not repeat elements: no stride of 0 with a count above 1 (except an indexed one)"},
    {"access.6", "loop steps at levels deeper than the instruction's nesting are 0"},
    {"access.7", "the access's partitions lie inside its tile"},
    {"access.8", "partitions of an engine's operand: 65 to 128 start at 0, 33 to 64 at 0 or 64, 1 to 32 at 0, 32, 64 or 96"},
    {"access.9",
     "an engine's operand has at most 65,535 elements in one dimension, 65,536 per partition from SBUF, 4,096 from PSUM"},
    {"access.10",
     "TensorE reads SBUF and writes PSUM; VectorE and ScalarE use SBUF and PSUM; GpSimd uses SBUF (top_k HBM too); DMA uses "
     "HBM "
     "and SBUF"},
    {"access.11", "only GpSimd and DMA have operands of 8-byte, 16-byte or complex element types"},
    {"access.12", "an HBM destination is an output or scratch tensor"},
    {"instruction.1", "the engine is one that has the instruction"},
    {"instruction.2", "required operands are present, others absent"},
    {"instruction.3", "the compute type is f32, or, on GpSimd, f64, i64, u64, c64 or c128"},
    {"instruction.4", "the operations are defined for the compute type and available on the engine"},
    {"instruction.5", "all operands have the same number of partitions"},
    {"instruction.6", "all element-wise operands have the same number of elements per partition"},
    {"instruction.7", "a scalar operand that is an access has one element in each of the instruction's partitions"},
    {"instruction.8", "a DMA instruction's queue is one of the target's"},
    {"instruction.9", "pattern steps, accumulate levels and wait steps name loop levels that enclose the instruction"},
    {"instruction.10", "flags that the instruction does not have are unset"},
    {"sync.1", "semaphores are below Program::semaphores"},
    {"sync.2", "what a wait asks for fits 63 bits in every iteration"},
    {"sync.3", "the program signals a semaphore at least as often as any wait asks for"},
};

constexpr Constraint kDmaCopy[] = {
    {"dma_copy.1", "both sides in HBM: equal numbers of elements; otherwise equal partitions and elements per partition"},
    {"dma_copy.2", "an index is an SBUF access of i32, u32 or i64"},
    {"dma_copy.3", "with an index, exactly one side is in HBM"},
    {"dma_copy.4",
     "the indexed HBM side has a first free dimension whose count is the index's elements per partition, "
     "and the same partitions"},
    {"dma_copy.5", "index_bound is not negative; index_stride is a multiple of the element size"},
};
constexpr Constraint kDmaTranspose[] = {
    {"dma_transpose.1", "source and destination have the same element type"},
    {"dma_transpose.2", "the source has at most 512 rows (partitions) and one free dimension of at most 128 columns"},
    {"dma_transpose.3", "the destination is an SBUF tile with a partition per column and an element per row"},
};
constexpr Constraint kMatmul[] = {
    {"nc_matmul.1", "both sources have the same partitions K <= 128; M <= 128; N <= 512"},
    {"nc_matmul.2", "the destination has M partitions and N elements in each"},
    {"nc_matmul.3", "on TensorE sources are f32, bf16, f16, f8e4m3fn or f8e5m2, and f32 pairs only with f32"},
    {"nc_matmul.4", "on TensorE the destination is f32 in PSUM and stays inside one bank in every iteration"},
    {"nc_matmul.5", "on GpSimd the compute type is wide and the destination is of that type or of a narrower integer type"},
};
constexpr Constraint kTranspose[] = {
    {"nc_transpose.1", "source and destination have the same element type"},
    {"nc_transpose.2", "the source has at most 128 rows and columns on TensorE, 32 on VectorE and GpSimd"},
    {"nc_transpose.3", "the destination has a partition per source element and an element per source partition"},
};
constexpr Constraint kMemset[] = {
    {"memset.1", "the value is an immediate"},
    {"memset.2", "the compute type, through which the value converts, is f32, f64, i64, u64, c64 or c128"},
};
constexpr Constraint kTensorTensor[] = {
    {"tensor_tensor.1", "the two sources are not both in PSUM"},
};
constexpr Constraint kTensorScalar[] = {
    {"tensor_scalar.1", "scalar1 is present exactly when op1 is not bypass"},
    {"tensor_scalar.2", "on ScalarE the operations are (multiply), (add) or (multiply, add), not reversed"},
};
constexpr Constraint kScalarTensorTensor[] = {
    {"scalar_tensor_tensor.1", "the two tensor sources are not both in PSUM"},
};
constexpr Constraint kActivation[] = {
    {"activation.1", "dst2 has one element per partition"},
};
constexpr Constraint kSelect[] = {
    {"select.1", "each of the two values is either a tensor or a scalar, not both and not neither"},
    {"select.2", "the tensor sources are not all in PSUM"},
};
constexpr Constraint kTensorReduce[] = {
    {"tensor_reduce.1", "op0 is one that reduces"},
    {"tensor_reduce.2", "reduce_dims is between 1 and the source's rank"},
    {"tensor_reduce.3", "the destination has one element per index of the source's remaining dimensions"},
};
constexpr Constraint kPartitionReduce[] = {
    {"tensor_partition_reduce.1", "op0 is one that reduces"},
    {"tensor_partition_reduce.2", "the destination has one partition and the source's elements per partition"},
};
constexpr Constraint kScan[] = {
    {"tensor_tensor_scan.1", "the source has a free dimension"},
    {"tensor_tensor_scan.2", "src1 is present exactly when op1 is not bypass"},
    {"tensor_tensor_scan.3", "the two tensor sources are not both in PSUM"},
};
constexpr Constraint kBnStats[] = {
    {"bn_stats.1", "the source has at most 512 elements per partition"},
    {"bn_stats.2", "the destination is f32 with 6 elements per partition"},
};
constexpr Constraint kBnAggr[] = {
    {"bn_aggr.1", "the source is f32 with a multiple of 3 elements per partition"},
    {"bn_aggr.2", "the destination is f32 with 2 elements per partition"},
};
constexpr Constraint kMax8[] = {
    {"max8.1", "the source has 8 to 16,384 elements per partition"},
    {"max8.2", "the destination has 8 elements per partition"},
};
constexpr Constraint kFindIndex8[] = {
    {"find_index8.1", "src0 has 8 to 16,384 elements per partition, src1 has 8"},
    {"find_index8.2", "the destination is u32 with 8 elements per partition"},
};
constexpr Constraint kRandomBits[] = {
    {"random_bits.1", "the destination is u32 or u64"},
};
constexpr Constraint kScatterReduce[] = {
    {"scatter_reduce.1", "op0 is one that reduces"},
    {"scatter_reduce.2", "the destination is in HBM, the source in SBUF, with equal partitions and elements per partition"},
    {"scatter_reduce.3",
     "the index is an SBUF access of i32, u32 or i64 with the same partitions, and as many elements per "
     "partition as the destination's first free dimension"},
    {"scatter_reduce.4", "index_bound is not negative; index_stride is a multiple of the element size"},
};
constexpr Constraint kTopK[] = {
    {"top_k.1", "both destinations have the same elements per partition k, between 1 and the source's"},
    {"top_k.2", "dst2 is i64"},
};

constexpr std::string_view kConversions =
    "Conversions are exact or rounded once from the source type (the chip goes through f32); float to integer truncates as "
    "PyTorch's CPU cast does (the chip rounds to nearest even and saturates).";
constexpr std::string_view kWide = "64-bit and complex types on GpSimd are exact; the chip has 32-bit types.";

constexpr InstructionInfo kTable[] = {
    {Opcode::dma_copy, "dma_copy", kD, kDst | kSrc0, kIndex, false, true, "dst, src0 [, index]",
     "dst[e] = convert(src0[e]) in pattern order. With an index: gather when the source is in HBM, scatter when the "
     "destination is; element (p, j, ..) of the HBM side moves by index[p, j] * index_stride.",
     "",
     "per descriptor max(65 ns, 20 ns + bytes / 25 B/ns), one descriptor per contiguous run of at most 64 KiB, 8 partitions "
     "per DMA engine, 900 ns (1300 ns after a semaphore) to the first byte; 604 ns of GpSimd if indexed. Rate: fit of "
     "published "
     "transfers; latencies: DMA guide and profiles.",
     kConversions, kDmaCopy},
    {Opcode::dma_transpose, "dma_transpose", kD, kDst | kSrc0, 0, false, true, "dst, src0",
     "dst[c, r] = src0[r, c], bit exact.", "",
     "as a dma_copy of the source rows at 90 % of the rate from HBM, 50 % from SBUF, halved for element types other than 2 "
     "bytes. NKI documentation, the last factor a fit.",
     "Any element size and up to 512 rows; the chip's generator takes 2-byte types.", kDmaTranspose},
    {Opcode::nc_matmul, "nc_matmul", kT | kG, kDst | kSrc0 | kSrc1, 0, false, false, "dst, src0 (stationary), src1 (moving)",
     "dst[m, n] (+)= sum over k of src0[k, m] * src1[k, n].",
     "f32 and f16: one fma chain in ascending k from the destination's value or +0. bf16 and f8: per 32 k's an even and an "
     "odd "
     "fma chain from +0, then c += even + odd, denormals as zero. f64: fma chain; complex: ascending k, no fma.",
     "max(N, 64, M/4) + 10 cycles at 2.4 GHz, four times the columns for f32, 180 ns to the result, half rate while the "
     "array "
     "is cold. Profiles of 8192 multiplies (522 cycles each) and of the f32 tutorial. GpSimd: K*M*N / 64 cycles.",
     "f32 is one full-precision chain (the chip adds four bf16-class passes). The chip's order inside a column is not "
     "public. "
     "Wide types on GpSimd do not exist on the chip.",
     kMatmul},
    {Opcode::nc_transpose, "nc_transpose", kT | kV | kG, kDst | kSrc0, 0, false, true, "dst, src0",
     "dst[f, p] = src0[p, f], bit exact.", "",
     "TensorE: as an nc_matmul with N = partitions; VectorE: 144 + max(64, N) cycles. NKI documentation.",
     "One-byte and wide types keep their size.", kTranspose},
    {Opcode::tensor_copy,
     "tensor_copy",
     kV | kS | kG,
     kDst | kSrc0,
     0,
     false,
     true,
     "dst, src0",
     "dst = convert(src0).",
     "",
     "fixed + N / speed cycles; VectorE speed 4 for contiguous 2-byte SBUF to SBUF, 2 if one side is in PSUM or strided, "
     "else 1.",
     kConversions,
     {}},
    {Opcode::memset, "memset", kV | kG, kDst | kScalar0, 0, false, true, "dst, scalar0", "dst = convert(scalar0).", "",
     "fixed + N / speed cycles, as tensor_copy.", "", kMemset},
    {Opcode::iota,
     "iota",
     kG,
     kDst | kPattern,
     0,
     false,
     true,
     "dst, pattern",
     "dst = convert(base + loop, partition and element steps), in 64-bit wrapping integers.",
     "",
     "150 + N cycles. NKI documentation up to SDK 2.26.",
     "64-bit arithmetic; the chip has 32-bit.",
     {}},
    {Opcode::tensor_tensor, "tensor_tensor", kV | kG, kDst | kSrc0 | kSrc1, 0, false, false, "dst, src0, op0, src1",
     "dst = src0 op0 src1.", "",
     "fixed + N cycles on VectorE (N / 2 when all three are contiguous 2-byte in SBUF), division 8 N; profile of [128, "
     "2000] "
     "f32 in 2.30 us.",
     "Division on VectorE, and on GpSimd remainder, fmod, floor and truncating division, atan2, hypot, copysign, nextafter, "
     "gcd, "
     "shifts and exact integers.",
     kTensorTensor},
    {Opcode::tensor_scalar, "tensor_scalar", kV | kS | kG, kDst | kSrc0 | kScalar0, kScalar1, false, false,
     "dst, src0, op0, scalar0 [, op1, scalar1]",
     "dst = (src0 op0 scalar0) op1 scalar1; reverse0 and reverse1 swap that operation's operands. multiply then add or "
     "subtract, not reversed, is one fma.",
     "", "fixed + N / speed cycles, as tensor_copy.", "The fma; the operations that tensor_tensor adds.", kTensorScalar},
    {Opcode::scalar_tensor_tensor, "scalar_tensor_tensor", kV | kG, kDst | kSrc0 | kScalar0 | kSrc1, 0, false, false,
     "dst, src0, op0, scalar0, op1, src1",
     "dst = (src0 op0 scalar0) op1 src1; reverse as tensor_scalar. multiply then add, not reversed, is one fma.", "",
     "fixed + N cycles; profile of 512 elements in ~0.7 us.", "The fma; the operations that tensor_tensor adds.",
     kScalarTensorTensor},
    {Opcode::activation, "activation", kS | kG, kDst | kSrc0, kScalar0 | kScalar1 | kDst2, false, false,
     "dst [, dst2], src0, func [, scale scalar0] [, bias scalar1]",
     "dst = func(fma(src0, scalar0, scalar1)), absent scalars 1 and 0 (without both, no multiply-add at all); dst2 = the "
     "sum "
     "over the free elements of the unrounded results.",
     "dst2: 16 interleaved partial sums, then a tree of distance 8, 4, 2, 1.",
     "350 + N cycles at 1.2 GHz, + 64 with dst2, + 1.28 us when the function table changes. Profiles.",
     "Functions are accurate over their whole range (the chip's tables are piecewise polynomials with limited ranges); "
     "gelu_apprx_tanh_dx and the functions that only GpSimd offers.",
     kActivation},
    {Opcode::reciprocal,
     "reciprocal",
     kV | kG,
     kDst | kSrc0,
     0,
     false,
     false,
     "dst, src0",
     "dst = 1 / src0.",
     "",
     "fixed + 8 N cycles. NKI documentation up to SDK 2.26.",
     "Correctly rounded.",
     {}},
    {Opcode::select, "select", kV | kG, kDst | kSrc2, kSrc0 | kSrc1 | kScalar0 | kScalar1, false, false,
     "dst, src2 (predicate), src0 or scalar0 (true), src1 or scalar1 (false)",
     "dst = src2 != 0 ? (src0 or scalar0) : (src1 or scalar1).", "",
     "fixed + N cycles (tensor_copy_predicated, select_reduce).",
     "Any predicate type; values convert through the compute type.", kSelect},
    {Opcode::tensor_reduce, "tensor_reduce", kV | kG, kDst | kSrc0, 0, false, false, "dst, op0, src0, reduce_dims",
     "dst[outer] = src0 reduced with op0 over its last reduce_dims free dimensions.",
     "16 interleaved partials in element order, then a tree of distance 8, 4, 2, 1; exact for integers and bits.",
     "fixed + N cycles (N / 2 for 2-byte source and destination); profile of 16,384 bf16 in ~17.2 us.",
     "The order (the chip's is not public).", kTensorReduce},
    {Opcode::tensor_partition_reduce, "tensor_partition_reduce", kG, kDst | kSrc0, 0, false, false, "dst, op0, src0",
     "dst[0, f] = src0[., f] reduced with op0 over the partitions.", "One running value in ascending partition order.",
     "150 + 2 N cycles per 16 partitions: a fit.", "The order; multiply and the logical operations.", kPartitionReduce},
    {Opcode::tensor_tensor_scan, "tensor_tensor_scan", kV | kG, kDst | kSrc0 | kScalar0, kSrc1, false, false,
     "dst, src0, op0, scalar0 (initial) [, op1, src1]",
     "y[i] = (src0[i] op0 y[i-1]) op1 src1[i] along the last free dimension, y[-1] = scalar0, restarting for each outer "
     "index.",
     "Sequential.", "fixed + N cycles (2 N up to SDK 2.26, which describes Trn1).", "", kScan},
    {Opcode::bn_stats, "bn_stats", kV, kDst | kSrc0, 0, false, false, "dst, src0",
     "dst = count, mean, count * variance of the even elements, then of the odd ones.",
     "Each half: 16 interleaved partials, then a tree.", "fixed + N cycles. NKI documentation.", "The order.", kBnStats},
    {Opcode::bn_aggr, "bn_aggr", kV, kDst | kSrc0, 0, false, false, "dst, src0",
     "dst = mean, biased variance of the data whose (count, mean, count * variance) triples are in src0.",
     "Triples combined in ascending order.", "fixed + 13 N / 3 cycles. NKI documentation.", "The order.", kBnAggr},
    {Opcode::max8, "max8", kV | kG, kDst | kSrc0, 0, false, false, "dst, src0",
     "dst = the 8 largest elements of src0, descending; NaN is the largest.", "", "fixed + N cycles. NKI documentation.",
     "NaN order.", kMax8},
    {Opcode::find_index8, "find_index8", kV | kG, kDst | kSrc0 | kSrc1, 0, false, false, "dst, src0, src1",
     "dst[i] = first position in src0 of the value src1[i]; equal values of src1 take successive positions; absent values "
     "give "
     "0xffffffff.",
     "", "fixed + N cycles. NKI documentation.", "NaN equals NaN.", kFindIndex8},
    {Opcode::random_bits, "random_bits", kG, kDst | kScalar0 | kScalar1 | kPattern, 0, true, true,
     "dst, seed scalar0, offset scalar1, pattern",
     "dst = words of Philox4x32-10 with key = seed and counter = offset + pattern: word 0 for u32, words 0 and 1 for u64.",
     "", "150 + 64 N cycles: a fit.", "The chip has other generators; Philox draws what PyTorch draws.", kRandomBits},
    {Opcode::scatter_reduce, "scatter_reduce", kG, kDst | kSrc0 | kIndex, 0, true, false, "dst, op0, src0, index",
     "dst[index] = dst[index] op0 src0, duplicates included.", "Ascending (p, j).",
     "604 ns, then twice the row descriptors of a dma_copy: read and write.",
     "A routine: the chip's read-modify-write DMA needs "
     "unique indices.",
     kScatterReduce},
    {Opcode::top_k, "top_k", kG, kDst | kDst2 | kSrc0, 0, true, false, "dst (values), dst2 (indices), src0",
     "The k largest (or smallest) elements of each row in order, ties by lower index, NaN as the largest.", "",
     "150 + 4 N + k cycles. NKI documentation of topk.",
     "A routine: any type and order; rows too long for SBUF may lie in HBM.", kTopK},
};
static_assert(std::size(kTable) == static_cast<size_t>(Opcode::count_));

constexpr bool in_opcode_order() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (kTable[i].opcode != static_cast<Opcode>(i)) return false;
  }
  return true;
}
static_assert(in_opcode_order());

bool operation_runs_on(Engine engine, DType compute, AluOp op) {
  if (!alu_defined_for(op, compute)) return false;
  return compute != DType::f32 ? engine == Engine::gpsimd : (info(op).engines & engine_bit(engine)) != 0;
}

}  // namespace

const InstructionInfo& info(Opcode opcode) {
  const size_t i = static_cast<size_t>(opcode);
  return kTable[i < std::size(kTable) ? i : 0];
}

std::span<const InstructionInfo> instruction_table() { return kTable; }
std::span<const Constraint> general_constraints() { return kGeneral; }

std::string_view name_of(Opcode opcode) { return opcode < Opcode::count_ ? info(opcode).name : std::string_view("?"); }

const Constraint* find_constraint(std::string_view id) {
  for (const Constraint& c : kGeneral) {
    if (c.id == id) return &c;
  }
  for (const InstructionInfo& i : kTable) {
    for (const Constraint& c : i.constraints) {
      if (c.id == id) return &c;
    }
  }
  return nullptr;
}

bool runs_on(Engine engine, Opcode opcode, DType compute, AluOp op0, AluOp op1, ActFn func) {
  const InstructionInfo& i = info(opcode);
  if (!(i.engines & engine_bit(engine))) return false;
  if (i.moves_only) return true;
  if (!is_compute_type(compute)) return false;
  if (opcode == Opcode::nc_matmul) return (engine == Engine::tensor) == (compute == DType::f32);
  if (compute != DType::f32 && engine != Engine::gpsimd) return false;
  if (opcode == Opcode::activation) {
    return act_defined_for(func, compute) && (compute != DType::f32 || (info(func).engines & engine_bit(engine)));
  }
  if (opcode == Opcode::top_k || opcode == Opcode::max8 || opcode == Opcode::find_index8) return !is_complex(compute);
  return operation_runs_on(engine, compute, op0) && operation_runs_on(engine, compute, op1);
}

}  // namespace neuron::isa
