#include "timing/costs.h"

#include <algorithm>
#include <cmath>

#include "isa/instruction_table.h"

namespace neuron::timing {
namespace {

using isa::Access;
using isa::ActFn;
using isa::AluOp;
using isa::Instruction;
using isa::Opcode;
using isa::Program;
using isa::Space;
using isa::Target;

double elements(const Access& a) { return static_cast<double>(a.elements_per_partition()); }
double bytes_of(DType t) { return static_cast<double>(size_of(t)); }

// Length, in elements, of the contiguous runs that a row's pattern consists of.
double contiguous_run(const Access& a) {
  double run = 1;
  for (int d = a.rank - 1; d >= 0; --d) {
    if (a.dims[d].count == 1) continue;
    if (static_cast<double>(a.dims[d].stride) != run * bytes_of(a.dtype)) break;
    run *= a.dims[d].count;
  }
  return run;
}

bool dense(const Access& a) { return contiguous_run(a) == elements(a); }
bool two_byte(const Access& a) { return size_of(a.dtype) == 2; }

// --- DMA -----------------------------------------------------------------------------------------------------------------

double descriptor_ns(const isa::DmaCosts& dma, double bytes) {
  const double pieces = std::max(1.0, std::ceil(bytes / dma.descriptor_bytes));
  return std::max(pieces * dma.least_descriptor_ns, pieces * dma.descriptor_ns + bytes / dma.bytes_per_ns);
}

uint64_t hbm_bytes(const Access& a) {
  return a.space == Space::hbm ? a.elements_per_partition() * a.partitions * size_of(a.dtype) : 0;
}

uint32_t first_partition(const Program& program, const Access& a) {
  return a.object < program.tiles.size() ? program.tiles[a.object].partition_start + a.partition_start : 0;
}

bool rows_adjoin(const Access& hbm) {
  return hbm.space == Space::hbm && dense(hbm) &&
         static_cast<double>(hbm.partition_stride) == elements(hbm) * bytes_of(hbm.dtype);
}

// Which engines serve the transfer, and how long the busiest of them works.
void place_transfer(const Program& program, const Instruction& i, const isa::DmaCosts& dma, Cost& cost) {
  const bool src_tile = i.src0.space != Space::hbm, dst_tile = i.dst.space != Space::hbm;
  const double wide = std::max(bytes_of(i.src0.dtype), bytes_of(i.dst.dtype));
  double run = std::min(contiguous_run(i.src0), contiguous_run(i.dst));
  if (i.index.present()) {  // every index names a row of its own
    const Access& hbm = src_tile ? i.dst : i.src0;
    if (hbm.rank > 0) run = std::min(run, elements(hbm) / hbm.dims[0].count);
  }
  if (!src_tile && !dst_tile) {  // HBM to HBM: descriptors are dealt out evenly
    const double total = elements(i.dst) * i.dst.partitions;
    if (rows_adjoin(i.src0) && rows_adjoin(i.dst)) run = std::max(run, std::ceil(total / dma.engines));
    const double descriptors = std::ceil(total / run);
    cost.engines = static_cast<uint32_t>(std::min<double>(dma.engines, descriptors));
    cost.transfer_ns = std::ceil(descriptors / cost.engines) * descriptor_ns(dma, run * wide);
    return;
  }
  const Access& tile = dst_tile ? i.dst : i.src0;
  const uint32_t first = first_partition(program, tile) / dma.partitions_per_engine;
  const uint32_t last = (first_partition(program, tile) + tile.partitions - 1) / dma.partitions_per_engine;
  cost.first_engine = first % dma.engines;
  cost.engines = std::min(last - first + 1, dma.engines);
  const double rows = std::ceil(static_cast<double>(tile.partitions) / cost.engines);
  const Access& hbm = dst_tile ? i.src0 : i.dst;
  if (!i.index.present() && dense(tile) && rows_adjoin(hbm)) {  // neighbouring rows go out as one descriptor
    cost.transfer_ns = descriptor_ns(dma, rows * elements(tile) * wide);
  } else {
    cost.transfer_ns = rows * std::ceil(elements(tile) / run) * descriptor_ns(dma, run * wide);
  }
}

Cost dma_cost(const Program& program, const Instruction& i, const Target& target) {
  const isa::DmaCosts& dma = target.dma;
  Cost cost;
  if (i.opcode == Opcode::dma_transpose) {
    const bool from_hbm = i.src0.space == Space::hbm;
    cost.engines =
        std::min<uint32_t>(dma.engines, (i.src0.partitions + dma.partitions_per_engine - 1) / dma.partitions_per_engine);
    const double rows = std::ceil(static_cast<double>(i.src0.partitions) / cost.engines);
    const double run = contiguous_run(i.src0);
    const double rate = (from_hbm ? dma.transpose_rate : dma.transpose_rate_on_chip) * (two_byte(i.src0) ? 1.0 : 0.5);
    cost.transfer_ns = rows * std::ceil(elements(i.src0) / run) * descriptor_ns(dma, run * bytes_of(i.src0.dtype)) / rate;
  } else {
    place_transfer(program, i, dma, cost);
  }
  cost.hbm_read = hbm_bytes(i.src0);
  cost.hbm_written = hbm_bytes(i.dst);
  cost.occupancy_ns = dma.trigger_ns + (i.index.present() ? dma.dynamic_issue_ns : 0);
  cost.completion_ns = cost.occupancy_ns + (i.waits.empty() ? dma.start_ns : dma.semaphore_start_ns) + cost.transfer_ns;
  return cost;
}

// --- engines -------------------------------------------------------------------------------------------------------------

Cost tensor_cost(const Instruction& i, const Target& target) {
  const isa::TensorCosts& t = target.tensor;
  const bool transpose = i.opcode == Opcode::nc_transpose;
  const double columns = transpose ? i.src0.partitions : elements(i.src1);
  const double load = elements(i.src0) / t.load_columns_per_cycle;
  // An f32 transpose moves bits, not four products: half the passes.
  const double passes = i.src0.dtype != DType::f32 ? 1 : transpose ? t.f32_passes / 2 : t.f32_passes;
  Cost cost;
  cost.occupancy_ns = (std::max({columns, t.least_columns, load}) * passes + t.overhead_cycles) / target.clocks.tensor;
  cost.completion_ns = cost.occupancy_ns + t.latency_ns;
  if (!transpose) cost.flops = 2 * i.src0.elements_per_partition() * i.src0.partitions * i.src1.elements_per_partition();
  return cost;
}

// Elements a VectorE lane takes per cycle. [doc] 2-byte modes; [profile] tensor_scalar bf16 -> f8 runs at 2.
double vector_speed(const Instruction& i) {
  if (!two_byte(i.src0) && i.src0.present()) return 1;
  if (i.opcode == Opcode::tensor_reduce) return two_byte(i.dst) ? 2 : 1;
  if (size_of(i.dst.dtype) > 2) return 1;
  const bool two_inputs = i.src1.present() || i.src2.present();
  const bool on_sbuf = i.dst.space == Space::sbuf && i.src0.space != Space::psum && i.src1.space != Space::psum;
  if (i.opcode == Opcode::memset) return 2;  // [doc] max(64, N / 2)
  const bool fast = on_sbuf && dense(i.dst) && dense(i.src0) && two_byte(i.dst) && (!i.src1.present() || dense(i.src1));
  if (two_inputs) return fast && (!i.src1.present() || two_byte(i.src1)) && !i.src2.present() ? 2 : 1;
  return fast ? 4 : 2;
}

bool divides(const Instruction& i) {
  return i.opcode == Opcode::reciprocal || i.op0 == AluOp::divide || i.op1 == AluOp::divide;
}

Cost vector_cost(const Instruction& i, const Target& target) {
  double n = std::max({elements(i.dst), elements(i.src0), elements(i.src2)});
  if (i.opcode == Opcode::bn_aggr) n *= 13.0 / 3;  // [doc] 13 * (N / 3)
  const double data = divides(i) ? n * target.vector.divide_cycles : n / vector_speed(i);
  Cost cost;
  cost.occupancy_ns = std::max(data, target.vector.initiation_cycles) / target.clocks.vector;
  cost.completion_ns = (data + target.vector.fixed_cycles) / target.clocks.vector;
  return cost;
}

Cost scalar_cost(const Instruction& i, const Target& target) {
  const isa::ScalarCosts& s = target.scalar;
  const double n = elements(i.dst);
  const double read_sum = i.dst2.present() ? s.initiation_cycles : 0;  // [doc] activation_reduce: max(64, N) + 64
  Cost cost;
  cost.occupancy_ns = (std::max(n, s.initiation_cycles) + read_sum) / target.clocks.scalar;
  cost.completion_ns = (n + s.fixed_cycles + read_sum) / target.clocks.scalar;
  if (i.opcode == Opcode::activation) cost.table = isa::info(i.func).table;
  return cost;
}

double gpsimd_op_cycles(AluOp op, const isa::GpSimdCosts& g) {
  switch (op) {
    case AluOp::bypass:
      return 0;
    case AluOp::divide:
    case AluOp::remainder:
    case AluOp::fmod:
    case AluOp::floor_divide:
    case AluOp::trunc_divide:
      return g.divide_cycles;
    case AluOp::power:
    case AluOp::atan2:
    case AluOp::hypot:
    case AluOp::gcd:
      return g.function_cycles;
    default:
      return 1;
  }
}

double gpsimd_function_cycles(ActFn func, const isa::GpSimdCosts& g) {
  switch (func) {
    case ActFn::sqrt:
    case ActFn::rsqrt:
    case ActFn::reciprocal:
      return g.divide_cycles;
    case ActFn::copy:
    case ActFn::negative:
    case ActFn::abs:
    case ActFn::sign:
    case ActFn::square:
    case ActFn::relu:
    case ActFn::floor:
    case ActFn::ceil:
    case ActFn::trunc:
    case ActFn::round:
    case ActFn::is_nan:
    case ActFn::is_inf:
    case ActFn::is_finite:
    case ActFn::logical_not:
    case ActFn::bitwise_not:
    case ActFn::population_count:
    case ActFn::real:
    case ActFn::imag:
    case ActFn::conj:
      return 1;
    default:
      return g.function_cycles;
  }
}

double wide_factor(const Instruction& i, const isa::GpSimdCosts& g) {
  if (i.compute == DType::c128) return g.complex_factor * g.wide_factor;
  if (i.compute == DType::c64) return g.complex_factor;
  const bool wide = !isa::narrow(i.dst.dtype) || (i.src0.present() && !isa::narrow(i.src0.dtype)) || i.compute == DType::f64;
  return wide ? g.wide_factor : 1;
}

double gpsimd_data_cycles(const Instruction& i, const Target& target) {
  const isa::GpSimdCosts& g = target.gpsimd;
  const double n = std::max(elements(i.dst), elements(i.src0));
  switch (i.opcode) {
    case Opcode::nc_matmul: {
      const double products = elements(i.src0) * elements(i.src1) * i.src0.partitions;
      return products / g.multiply_adds_per_cycle * (is_complex(i.compute) ? g.complex_factor : 1);
    }
    case Opcode::tensor_partition_reduce:
      return 2 * n * std::ceil(i.src0.partitions / 16.0) * wide_factor(i, g);
    case Opcode::random_bits:
      return n * g.random_cycles;
    case Opcode::top_k:
      return elements(i.src0) * g.top_k_cycles * wide_factor(i, g) + elements(i.dst);
    case Opcode::reciprocal:
      return n * g.divide_cycles * wide_factor(i, g);
    case Opcode::activation: {
      const double multiply_add =
          i.scalar0.kind != isa::ScalarOperand::Kind::none || i.scalar1.kind != isa::ScalarOperand::Kind::none;
      return n * (gpsimd_function_cycles(i.func, g) + multiply_add) * wide_factor(i, g);
    }
    default: {
      const double per_element = gpsimd_op_cycles(i.op0, g) + gpsimd_op_cycles(i.op1, g);
      return n * std::max(1.0, per_element) * wide_factor(i, g);
    }
  }
}

Cost gpsimd_cost(const Instruction& i, const Target& target) {
  Cost cost;
  cost.routine = isa::info(i.opcode).routine;
  if (i.opcode == Opcode::scatter_reduce) {  // reads and writes each row, in order, through the core's DMA engines
    const isa::DmaCosts& dma = target.dma;
    const double run = i.dst.rank > 0 ? elements(i.dst) / i.dst.dims[0].count : 1;
    const double rows = std::ceil(i.dst.partitions * (elements(i.dst) / run) / dma.engines);
    const double pieces = std::ceil(run / contiguous_run(i.dst));
    cost.hbm_read = cost.hbm_written = hbm_bytes(i.dst);
    cost.occupancy_ns =
        dma.dynamic_issue_ns +
        2 * rows * std::max(1.0, pieces) * descriptor_ns(dma, std::min(run, contiguous_run(i.dst)) * bytes_of(i.dst.dtype));
    cost.completion_ns = cost.occupancy_ns + dma.start_ns;
    return cost;
  }
  cost.occupancy_ns = (gpsimd_data_cycles(i, target) + target.gpsimd.start_cycles) / target.clocks.gpsimd;
  cost.completion_ns = cost.occupancy_ns;
  if (i.opcode == Opcode::nc_matmul) {
    cost.flops = 2 * i.src0.elements_per_partition() * i.src0.partitions * i.src1.elements_per_partition();
  }
  return cost;
}

}  // namespace

Cost cost_of(const Program& program, const Instruction& instruction, const Target& target) {
  switch (instruction.engine) {
    case isa::Engine::dma:
      return dma_cost(program, instruction, target);
    case isa::Engine::tensor:
      return tensor_cost(instruction, target);
    case isa::Engine::vector:
      return vector_cost(instruction, target);
    case isa::Engine::scalar:
      return scalar_cost(instruction, target);
    case isa::Engine::gpsimd:
      return gpsimd_cost(instruction, target);
    default: {
      Cost cost;
      cost.occupancy_ns = cost.completion_ns = target.semaphore_ns;
      return cost;
    }
  }
}

}  // namespace neuron::timing
