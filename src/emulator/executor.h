// The contract between the ABI layer and the two executors of tile programs: the literal interpreter
// (src/emulator/interpreter), which defines what every opcode means, and the fast plan (src/emulator/plan), which must give
// the same bits.
//
// What isa/program.h and isa/numerics.h leave open is settled here, and both executors follow it:
// - Conversions: dma_copy and tensor_copy convert straight from the source's to the destination's dtype; the compute type
//   plays no part. Equal dtypes: the bytes are copied unchanged (bool bytes and NaN payloads included). Complex to bool is
//   "either part is non-zero". Everything else goes through the compute type; memset takes its immediate in the compute
//   type.
// - Memory: each stream (physical core) has an SBUF and a PSUM of its own. Reading tile bytes that nothing wrote gives
//   unspecified values (the interpreter fills with 0xff per launch). An instruction whose destination overlaps one of its
//   sources without being exactly the same access of equal element size is undefined.
// - fma: the fma rules hold for f32 and f64. reverse0 or reverse1 set: no fma.
// - maximum is `a is NaN ? a : (a > b ? a : b)`, minimum the same with <. sign(NaN) is NaN. Reductions do
//   running = op(running, element), trees op(s[l], s[l + d]); lanes and tree apply to f32, f64, c64 and c128 alike.
// - f32 remainder and floor_divide follow from fmod as in PyTorch, trunc_divide is trunc(a / b), hypot goes through f64 and
//   one rounding; all written once, in interpreter/scalar_operations.h, which the plan may call.
// - Complex products are (ar*br - ai*bi, ar*bi + ai*br) without fma, then added.
// - tensor_partition_reduce starts with partition 0's value.
// - bn_stats: mean = sum / count; then the sum of (x-mean)*(x-mean), product rounded, in lane order; count 0 gives 0, 0, 0.
// - bn_aggr, triples in ascending order, those of count 0 skipped: delta = mb - ma, n = na + nb,
//   mean = ma + delta*(nb/n), M2 = (Ma + Mb) + (delta*delta)*((na*nb)/n); variance = M2 / n, 0 when n = 0.
// - max8 and top_k are stable: equal values keep the lower index first; NaN is the largest.
// - find_index8: NaN equals NaN; an absent value gives 0xffffffff; a value equal to an earlier one of src1 is searched from
//   just behind the place where that one was found.
// - nc_matmul uses the matrix-unit order when both sources are bf16 or fp8, the FMA chain otherwise; f64 uses fma.
// - nc_transpose and dma_transpose copy size_of(dtype) bytes per element.
// - random_bits: counter words {low, high, 0, 0} of the u64 counter, key words {low, high} of the seed.
// - Integers: divide means trunc_divide. A zero divisor anywhere in an instruction's elements fails the launch.
//   INT64_MIN / -1 wraps. power wraps; a negative exponent gives 1, +-1 or 0 as in PyTorch.
// - After a failed launch the outputs hold unspecified values.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "emulator/threads/thread_pool.h"
#include "isa/program.h"

namespace neuron::emulator {

// Where one entry of Program::tensors lives during a launch: host address and extent (>= Tensor::bytes).
struct TensorView {
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
};

// The index that left its bound in the last failed launch.
struct OutOfRange {
  std::string label;
  int64_t index = 0;
  int64_t bound = 0;
};

struct Launch {
  std::span<const TensorView> tensors;  // one per Program::tensors entry, constants and scratch included
  ThreadPool& pool;
  int (*interrupt)(void*) =
      nullptr;  // called between bounded pieces of work on the calling thread; non-zero stops the launch
  void* interrupt_argument = nullptr;
  OutOfRange out_of_range;           // filled when the Status is out_of_range
  std::atomic<bool> stopped{false};  // the interrupt check said so: threads other than the calling one look here
};

// Runs one program. A run uses state of the executor (tiles), so two runs of one executor must not overlap in time.
class Executor {
 public:
  virtual ~Executor() = default;
  // out_of_range: see Launch::out_of_range. unavailable: the interrupt check stopped it. invalid_argument: integer division
  // by zero, or a program whose waits can never be satisfied.
  virtual Status run(Launch& launch) = 0;
};

struct InterpreterOptions {
  // Absent: program order. Present: engine queues advance in a pseudo-random legal order derived from the seed.
  std::optional<uint64_t> shuffle_seed;
};

// The program must have passed isa::validate. It is shared, not copied.
Result<std::unique_ptr<Executor>> make_interpreter(std::shared_ptr<const isa::Program> program,
                                                   InterpreterOptions options = {});
Result<std::unique_ptr<Executor>> make_plan(std::shared_ptr<const isa::Program> program);

// Host ISA level of the kernels in use: "scalar", "avx2", "avx512". Chosen by NEURON_EMULATOR_ISA or CPUID at the first
// call.
const char* host_isa_name();

}  // namespace neuron::emulator
