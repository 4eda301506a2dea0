// Everything that is true of one chip: memories, limits of one instruction, clocks, costs. Nothing about a chip is written
// anywhere else; the validator, the compiler, the emulator and the timing model all read this table.
//
// Sources, named beside each number in target.cpp, are public: AWS Neuron SDK documentation (architecture guides, NKI API
// pages, the NKI performance and DMA guides), published kernel profiles, and fits of published timings. docs/hardware.md
// says how each number was obtained and how far to trust it.
#pragma once

#include <cstdint>
#include <string_view>

namespace neuron::isa {

struct Clocks {  // GHz
  double tensor = 0, vector = 0, scalar = 0, gpsimd = 0;
};

// What one instruction may name.
struct InstructionLimits {
  uint32_t matmul_contraction = 0;      // K: partitions of both nc_matmul sources
  uint32_t matmul_stationary_free = 0;  // M
  uint32_t matmul_moving_free = 0;      // N
  uint32_t transpose_tensor = 0;        // rows and columns of an nc_transpose on TensorE
  uint32_t transpose_vector = 0;        // the same on VectorE
  uint32_t dma_transpose_rows = 0;      // R of dma_transpose
  uint32_t dma_transpose_columns = 0;   // C
  uint32_t sbuf_elements = 0;           // per partition, of one SBUF operand of an engine (not DMA)
  uint32_t psum_elements = 0;           // per partition, of one PSUM operand
  uint32_t dim_count = 0;               // elements of one free dimension of an engine's operand
  uint32_t bn_stats_elements = 0;       // per partition
  uint32_t max8_elements = 0;           // per partition
};

struct VectorCosts {
  double fixed_cycles = 0;       // from start to the first result, on top of the data cycles
  double initiation_cycles = 0;  // least distance of two starts
  double divide_cycles = 0;      // per element: reciprocal and division
};

struct ScalarCosts {
  double fixed_cycles = 0;
  double initiation_cycles = 0;
  double table_load_ns = 0;  // another function table than the previous instruction's
};

struct TensorCosts {
  double overhead_cycles = 0;         // per multiply instruction, on top of its columns
  double f32_passes = 0;              // multiplies of one f32 nc_matmul, relative to bf16
  double least_columns = 0;           // a multiply never takes less than this many cycles
  double load_columns_per_cycle = 0;  // stationary load, hidden behind the previous multiply
  double latency_ns = 0;              // last column in to PSUM written and signalled
  double throttle_window_ns = 0;      // window whose use decides the clock
  double throttle_below = 0;          // below this share of the window the array runs at half rate for one window
};

struct GpSimdCosts {
  double start_cycles = 0;
  double wide_factor = 0;              // 8-byte real types, per element
  double complex_factor = 0;           // c64; c128 takes this times wide_factor
  double function_cycles = 0;          // per element: a function or an operation that the fixed-function engines lack
  double divide_cycles = 0;            // per element: divide, remainder
  double multiply_adds_per_cycle = 0;  // nc_matmul in 64-bit types, whole engine
  double random_cycles = 0;            // per element of random_bits (one Philox block)
  double top_k_cycles = 0;             // per source element of top_k
};

struct DmaCosts {
  uint32_t engines = 0;                // per physical core
  uint32_t queues = 0;                 // that a program may name
  uint32_t partitions_per_engine = 0;  // partition p is served by engine p / this
  double bytes_per_ns = 0;             // of one engine while it moves data
  double descriptor_ns = 0;            // per descriptor, on top of the bytes
  double least_descriptor_ns = 0;      // no descriptor takes less
  uint32_t descriptor_bytes = 0;       // a contiguous run is cut into descriptors of at most this size
  double trigger_ns = 0;               // a queue's time per static trigger
  double start_ns = 0;                 // trigger to first byte
  double semaphore_start_ns = 0;       // the same when the trigger had to wait for another engine
  double dynamic_issue_ns = 0;         // GpSimd time per indirect transfer
  double transpose_rate = 0;           // dma_transpose from HBM, share of the copy rate
  double transpose_rate_on_chip = 0;   // from SBUF
};

struct HbmCosts {
  double core_bytes_per_ns = 0;  // one physical core alone
  double pair_bytes_per_ns = 0;  // both physical cores of a logical core together
};

struct Target {
  std::string_view name;         // "trn2", as in Program::target
  std::string_view description;  // for people
  uint32_t physical_cores = 0;   // per logical core (streams of one Program)
  uint32_t logical_cores_per_chip = 0;
  uint64_t hbm_bytes = 0;  // per logical core

  uint32_t partitions = 0;                // of SBUF and PSUM
  uint32_t sbuf_bytes_per_partition = 0;  // that a program may use
  uint32_t psum_banks = 0;
  uint32_t psum_bank_bytes = 0;  // per partition
  uint32_t psum_bytes_per_partition() const { return psum_banks * psum_bank_bytes; }

  InstructionLimits limits;
  Clocks clocks;
  VectorCosts vector;
  ScalarCosts scalar;
  TensorCosts tensor;
  GpSimdCosts gpsimd;
  DmaCosts dma;
  HbmCosts hbm;
  double semaphore_ns = 0;  // one wait or post instruction
  double launch_ns = 0;     // fixed part of a launch on the core: preamble and postamble
};

// nullptr if the name is not in the table.
const Target* find_target(std::string_view name);
// "trn2" or "trn2, trn3": for error messages.
std::string_view target_names();

}  // namespace neuron::isa
