#include "isa/target.h"

#include <array>

namespace neuron::isa {
namespace {

// Tags: [doc] the AWS Neuron SDK documentation states it; [profile] read from a published profile or measurement;
// [fit] chosen here so that published timings come out.
constexpr Target trn2() {
  Target t;
  t.name = "trn2";
  t.description = "AWS Trainium2, NeuronCore-v3, two physical cores per logical core";
  t.physical_cores = 2;          // [doc] logical NeuronCore configuration 2, the default
  t.logical_cores_per_chip = 4;  // [doc] 8 physical cores
  t.hbm_bytes = 24ull << 30;     // [doc] 96 GiB per chip: one 24 GiB stack per pair of cores

  t.partitions = 128;                    // [doc] architecture guide: SBUF and PSUM have 128 partitions
  t.sbuf_bytes_per_partition = 212'984;  // [doc] NKI target info; nkipy HardwareConstants.h. 224 KiB less the reserved part
  t.psum_banks = 8;                      // [doc] 2 MiB = 128 x 16 KiB
  t.psum_bank_bytes = 2'048;             // [doc] 512 f32

  t.limits.matmul_contraction = 128;  // [doc] nki.isa.nc_matmul
  t.limits.matmul_stationary_free = 128;
  t.limits.matmul_moving_free = 512;
  t.limits.transpose_tensor = 128;  // [doc] nki.isa.nc_transpose
  t.limits.transpose_vector = 32;
  t.limits.dma_transpose_rows = 512;     // ours: four 128-row transposes with one trigger
  t.limits.dma_transpose_columns = 128;  // [doc] nki.isa.dma_transpose
  t.limits.sbuf_elements = 65'536;       // [doc] instruction addressing: 64 Ki elements per partition from SBUF,
  t.limits.psum_elements = 4'096;        //       4 Ki from PSUM
  t.limits.dim_count = 65'535;           // [doc] 16-bit counts. 65,536 elements need two dimensions
  t.limits.bn_stats_elements = 512;      // [doc] bn_stats_fmax
  t.limits.max8_elements = 16'384;       // [doc] nki.isa.max8

  t.clocks = {.tensor = 2.4, .vector = 0.96, .scalar = 1.2, .gpsimd = 1.2};  // [doc] Trainium2 architecture guide

  t.vector.fixed_cycles = 144;      // [profile] 256 PSUM evictions of 512 f32 take 687 ns each; nki-library's topk model
  t.vector.initiation_cycles = 64;  // [doc] cost formulas of the NKI pages up to SDK 2.26; tiny instructions take 66 cycles
  t.vector.divide_cycles = 8;       // [doc] nki.isa.reciprocal: max(64, 8N)

  t.scalar.fixed_cycles = 350;      // [profile] activation of 128 elements ~0.4 us, of 4096 ~3.7 us
  t.scalar.initiation_cycles = 64;  // [doc] as vector
  t.scalar.table_load_ns = 1'280;   // [profile] 1.28 - 1.3 us

  t.tensor.overhead_cycles = 10;        // [profile] 8192 bf16 multiplies of 512 columns in 1781 us: 522 cycles each
  t.tensor.f32_passes = 4;              // [doc] four bf16 passes; [profile] two instructions of 1031 cycles
  t.tensor.least_columns = 64;          // [doc] nc_matmul cost max(min(64, M), N)
  t.tensor.load_columns_per_cycle = 4;  // [doc] weight load up to 4 x faster than streaming
  t.tensor.latency_ns = 180;  // [fit] Trn1 profile: 96 columns 219 ns, 128 columns 188 ns; Trn2: 512 columns cold 0.62 us
  t.tensor.throttle_window_ns = 3'000;  // [doc] neuron-explorer, tensor engine throttling
  t.tensor.throttle_below = 0.5;

  t.gpsimd.start_cycles = 150;            // [doc] cost formulas up to SDK 2.26
  t.gpsimd.wide_factor = 2;               // [fit] 512-bit SIMD: eight 64-bit lanes where sixteen 32-bit ones fit
  t.gpsimd.complex_factor = 3;            // [fit] two lanes, and up to four multiplies
  t.gpsimd.function_cycles = 16;          // [fit] polynomial of about 12 terms with range reduction
  t.gpsimd.divide_cycles = 8;             // [fit] as VectorE's reciprocal
  t.gpsimd.multiply_adds_per_cycle = 64;  // [fit] 8 processors x 8 lanes
  t.gpsimd.random_cycles = 64;            // [fit] ten Philox rounds, four 32-bit multiplies each
  t.gpsimd.top_k_cycles = 4;              // [doc] nki.isa.topk: 4n + k

  t.dma.engines = 16;                // [doc] per NeuronCore
  t.dma.queues = 16;                 // [doc] rings per engine
  t.dma.partitions_per_engine = 8;   // [doc] DMA bandwidth guide: a [128, F] transfer puts 8 partitions on each engine
  t.dma.bytes_per_ns = 25;           // [fit] 32 KiB on one engine in 1416 ns; [128, 2000] f32 stored in 2.65 us
  t.dma.descriptor_ns = 20;          // [fit] same
  t.dma.least_descriptor_ns = 65;    // [fit] 65 - 85 ns: 256 B to 1 KiB rows, 152 - 259 GB/s over 16 engines
  t.dma.descriptor_bytes = 65'536;   // [doc] 16-bit sizes; rows of 8,000 bytes show no further fixed cost
  t.dma.trigger_ns = 8;              // [profile] static trigger instruction
  t.dma.start_ns = 900;              // [profile] SyncE trigger to first byte, vector-add trace
  t.dma.semaphore_start_ns = 1'300;  // [doc] DMA guide: semaphore to start about 1.3 us
  t.dma.dynamic_issue_ns = 604;      // [profile] GpSimd descriptor generation in the f32 matmul tutorial
  t.dma.transpose_rate = 0.9;        // [doc] nki.isa.dma_transpose
  t.dma.transpose_rate_on_chip = 0.5;

  t.hbm.core_bytes_per_ns = 380;  // [fit] decode MLPs of nki-library on one core: 375 - 385 GB/s of weights
  t.hbm.pair_bytes_per_ns = 670;  // [fit] the same on a pair: 630 - 670 GB/s

  t.semaphore_ns = 9;    // [profile] EVENT_SEMAPHORE
  t.launch_ns = 16'000;  // [profile] 13.1 us before the first instruction and about 3 us after the last
  return t;
}

constexpr std::array<Target, 1> kTargets = {trn2()};

}  // namespace

const Target* find_target(std::string_view name) {
  for (const Target& t : kTargets) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

std::string_view target_names() { return "trn2"; }

}  // namespace neuron::isa
