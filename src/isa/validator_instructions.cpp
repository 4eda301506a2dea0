// The constraints of one instruction at one place in the loops.
#include <algorithm>
#include <numeric>

#include "isa/validator_internal.h"

namespace neuron::isa::validation {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 40;

std::string str(uint64_t v) { return std::to_string(v); }
std::string str(std::string_view v) { return std::string(v); }

enum class Use { source, destination, index, scalar };

struct Operand {
  const Access* access;
  std::string_view name;
  Use use;
};

bool raw_dtype_ok(DType t) { return static_cast<unsigned>(t) < static_cast<unsigned>(kDTypeCount); }

// All operands that are accesses, present or not.
std::array<Operand, 8> operands_of(const Instruction& i) {
  static constexpr Access kAbsent;
  const auto scalar = [](const ScalarOperand& s) { return s.kind == ScalarOperand::Kind::access ? &s.access : &kAbsent; };
  return {{{&i.dst, "dst", Use::destination},
           {&i.dst2, "dst2", Use::destination},
           {&i.src0, "src0", Use::source},
           {&i.src1, "src1", Use::source},
           {&i.src2, "src2", Use::source},
           {&i.index, "index", Use::index},
           {scalar(i.scalar0), "scalar0", Use::scalar},
           {scalar(i.scalar1), "scalar1", Use::scalar}}};
}

Status check_enumerations(const Place& place, const Instruction& i) {
  const auto scalar_ok = [](const ScalarOperand& s) { return s.kind <= ScalarOperand::Kind::access; };
  if (i.opcode >= Opcode::count_) return violation(place, "program.6", "opcode " + str(static_cast<uint64_t>(i.opcode)));
  if (i.engine > Engine::sync) return violation(place, "program.6", "engine " + str(static_cast<uint64_t>(i.engine)));
  if (!raw_dtype_ok(i.compute))
    return violation(place, "program.6", "compute type " + str(static_cast<uint64_t>(i.compute)));
  if (i.op0 >= AluOp::count_ || i.op1 >= AluOp::count_) return violation(place, "program.6", "ALU operation");
  if (i.func >= ActFn::count_) return violation(place, "program.6", "activation function");
  if (i.oob > OobMode::skip) return violation(place, "program.6", "out-of-bound mode");
  if (!scalar_ok(i.scalar0) || !scalar_ok(i.scalar1)) return violation(place, "program.6", "scalar operand kind");
  for (const Operand& o : operands_of(i)) {
    if (o.access->space > Space::psum || !raw_dtype_ok(o.access->dtype)) {
      return violation(place, "program.6", str(o.name) + ": space or element type");
    }
  }
  return {};
}

uint16_t present_operands(const Instruction& i) {
  uint16_t mask = 0;
  if (i.dst.present()) mask |= kDst;
  if (i.dst2.present()) mask |= kDst2;
  if (i.src0.present()) mask |= kSrc0;
  if (i.src1.present()) mask |= kSrc1;
  if (i.src2.present()) mask |= kSrc2;
  if (i.index.present()) mask |= kIndex;
  if (i.scalar0.kind != ScalarOperand::Kind::none) mask |= kScalar0;
  if (i.scalar1.kind != ScalarOperand::Kind::none) mask |= kScalar1;
  return mask;
}

std::string operand_names(uint16_t mask) {
  static constexpr std::string_view kNames[] = {"dst", "dst2", "src0", "src1", "src2", "scalar0", "scalar1", "index"};
  std::string out;
  for (size_t b = 0; b < std::size(kNames); ++b) {
    if (mask & (1u << b)) out += (out.empty() ? "" : ", ") + str(kNames[b]);
  }
  return out;
}

bool any_nonzero_beyond(const std::array<int64_t, kMaxLoops>& steps, uint32_t depth) {
  int64_t any = 0;
  for (uint32_t l = depth; l < kMaxLoops; ++l) any |= steps[l];
  return any != 0;
}

Status check_general(const Place& place, const Instruction& i, const InstructionInfo& about) {
  if (!(about.engines & engine_bit(i.engine))) {
    return violation(place, "instruction.1", str(about.name) + " on engine " + str(name_of(i.engine)));
  }
  const uint16_t present = present_operands(i);
  const uint16_t missing = about.required & ~kPattern & ~present;
  if (missing) return violation(place, "instruction.2", "missing " + operand_names(missing));
  const uint16_t extra = present & ~(about.required | about.optional);
  if (extra) return violation(place, "instruction.2", "has no " + operand_names(extra));
  if (!about.moves_only) {
    if (!is_compute_type(i.compute) || (i.compute != DType::f32 && i.engine != Engine::gpsimd)) {
      return violation(place, "instruction.3", "compute type " + str(name_of(i.compute)) + " on " + str(name_of(i.engine)));
    }
    if (!runs_on(i.engine, i.opcode, i.compute, i.op0, i.op1, i.func)) {
      return violation(place, "instruction.4",
                       "op0 " + str(name_of(i.op0)) + ", op1 " + str(name_of(i.op1)) + ", function " + str(name_of(i.func)) +
                           " in " + str(name_of(i.compute)) + " on " + str(name_of(i.engine)));
    }
  }
  if (i.engine == Engine::dma && i.queue >= place.target.dma.queues) {
    return violation(place, "instruction.8", "queue " + str(uint64_t{i.queue}));
  }
  if (any_nonzero_beyond(i.pattern.loop_step, place.depth) || (i.accumulate_levels >> place.depth) != 0) {
    return violation(place, "instruction.9", "nesting depth " + str(uint64_t{place.depth}));
  }
  const bool matmul = i.opcode == Opcode::nc_matmul;
  if (!matmul && (i.accumulate || i.accumulate_levels)) return violation(place, "instruction.10", "accumulate");
  if (i.label != 0 && i.label >= place.program.labels.size()) {
    return violation(place, "program.5", "label " + str(uint64_t{i.label}) + " of " + str(place.program.labels.size()));
  }
  return {};
}

// Which memories an engine reads and writes.
bool space_allowed(const Instruction& i, Space space, Use use) {
  const bool writes = use == Use::destination;
  if (use == Use::index) return space == Space::sbuf;
  switch (i.engine) {
    case Engine::tensor:
      return space == (writes ? Space::psum : Space::sbuf);
    case Engine::vector:
    case Engine::scalar:
      return space != Space::hbm;
    case Engine::gpsimd:
      return space == Space::sbuf ||
             (space == Space::hbm && ((i.opcode == Opcode::scatter_reduce && writes) || i.opcode == Opcode::top_k));
    case Engine::dma:
      return space != Space::psum;
    default:
      return false;
  }
}

Status check_pattern(const Place& place, const Operand& o, bool indexed) {
  const Access& a = *o.access;
  if (a.rank > kMaxFreeDims || a.partitions == 0) {
    return violation(place, "access.2",
                     str(o.name) + ": rank " + str(uint64_t{a.rank}) + ", partitions " + str(uint64_t{a.partitions}));
  }
  const int64_t unit = static_cast<int64_t>(std::min<size_t>(size_of(a.dtype), 8));
  int64_t all = a.offset | a.partition_stride;
  for (int d = 0; d < a.rank; ++d) {
    if (a.dims[d].count == 0)
      return violation(place, "access.2", str(o.name) + ": count 0 in dimension " + str(uint64_t(d)));
    all |= a.dims[d].stride;
    if (o.use == Use::destination && !indexed && a.dims[d].stride == 0 && a.dims[d].count > 1) {
      return violation(place, "access.5", str(o.name) + ": dimension " + str(uint64_t(d)));
    }
  }
  for (uint32_t l = 0; l < place.depth; ++l) all |= a.loop_step[l];
  // Units are powers of two, so the bits of all terms can be tested together.
  if (all & (unit - 1)) return violation(place, "access.4", str(o.name) + ": element type " + str(name_of(a.dtype)));
  if (any_nonzero_beyond(a.loop_step, place.depth)) return violation(place, "access.6", str(o.name));
  const uint64_t n = saturating_elements(a);
  if (n > kMostElements || static_cast<Wide>(n) * a.partitions > kMostElements)
    return violation(place, "access.2", str(o.name) + ": too many elements");
  return {};
}

Status check_hbm(const Place& place, const Instruction& i, const Operand& o, bool indexed) {
  const Access& a = *o.access;
  if (a.object >= place.program.tensors.size())
    return violation(place, "access.1", str(o.name) + ": tensor " + str(uint64_t{a.object}));
  const Tensor& tensor = place.program.tensors[a.object];
  if (o.use == Use::destination) {
    if (tensor.role != TensorRole::output && tensor.role != TensorRole::scratch) {
      return violation(place, "access.12", str(o.name) + ": tensor " + tensor.name);
    }
    if (!indexed && a.partition_stride == 0 && a.partitions > 1)
      return violation(place, "access.5", str(o.name) + ": partitions");
    for (uint32_t l = 0; l < place.depth; ++l) {
      if (place.loops[l].kind != LoopKind::affine || place.loops[l].trips <= 1) continue;
      if (indexed) return violation(place, "loop.2", str(o.name) + ": loop level " + str(uint64_t{l}));
      if (a.loop_step[l] == 0) return violation(place, "loop.1", str(o.name) + ": loop level " + str(uint64_t{l}));
    }
  }
  Extent e = extent(place, a);
  if (indexed && i.index_bound > 0) {
    const Wide reach = static_cast<Wide>(i.index_stride) * (i.index_bound - 1);
    (reach < 0 ? e.low : e.high) += reach;
  }
  if (indexed && i.index_bound == 0) return {};  // no index is in bounds, so nothing is ever touched
  if (e.low < 0 || e.high >= static_cast<Wide>(tensor.bytes)) {
    return violation(place, "access.3",
                     str(o.name) + ": tensor " + tensor.name + " of " + str(tensor.bytes) + " bytes, touched from byte " +
                         to_text(e.low) + " to " + to_text(e.high));
  }
  return {};
}

Status check_tile_placement(const Place& place, const Instruction& i, const Operand& o, const Tile& tile) {
  const Access& a = *o.access;
  if (static_cast<uint64_t>(a.partition_start) + a.partitions > tile.partitions) {
    return violation(place, "access.7",
                     str(o.name) + ": partitions " + str(uint64_t{a.partition_start}) + " + " + str(uint64_t{a.partitions}) +
                         " of tile " + tile.name);
  }
  if (tile.buffers > 1 && tile.rotate_level >= place.depth) {
    return violation(place, "tile.4",
                     str(o.name) + ": tile " + tile.name + " rotates with level " + str(uint64_t{tile.rotate_level}));
  }
  if (i.engine == Engine::dma) return {};
  if (!partition_start_legal(tile.partition_start + a.partition_start, a.partitions)) {
    return violation(place, "access.8",
                     str(o.name) + ": " + str(uint64_t{a.partitions}) + " partitions from " +
                         str(uint64_t{tile.partition_start} + a.partition_start));
  }
  const InstructionLimits& limits = place.target.limits;
  const uint64_t most = a.space == Space::psum ? limits.psum_elements : limits.sbuf_elements;
  bool long_dim = false;
  for (int d = 0; d < a.rank; ++d) long_dim |= a.dims[d].count > limits.dim_count;
  if (saturating_elements(a) > most || long_dim)
    return violation(place, "access.9", str(o.name) + ": " + str(saturating_elements(a)) + " elements");
  if (i.engine != Engine::gpsimd && !narrow(a.dtype)) {
    return violation(place, "access.11", str(o.name) + ": " + str(name_of(a.dtype)) + " on " + str(name_of(i.engine)));
  }
  return {};
}

Status check_access(const Place& place, const Instruction& i, const Operand& o, bool indexed) {
  const Access& a = *o.access;
  if (!space_allowed(i, a.space, o.use)) {
    return violation(place, "access.10",
                     str(o.name) + " in " + str(name_of(a.space)) + " on engine " + str(name_of(i.engine)));
  }
  NEURON_RETURN_IF_ERROR(check_pattern(place, o, indexed));
  if (a.space == Space::hbm) return check_hbm(place, i, o, indexed);
  if (a.object >= place.program.tiles.size() || place.program.tiles[a.object].space != a.space) {
    return violation(place, "access.1", str(o.name) + ": tile " + str(uint64_t{a.object}));
  }
  const Tile& tile = place.program.tiles[a.object];
  NEURON_RETURN_IF_ERROR(check_tile_placement(place, i, o, tile));
  const Extent e = extent(place, a);
  if (e.low < 0 || e.high >= static_cast<Wide>(tile.bytes_per_partition)) {
    return violation(place, "access.3",
                     str(o.name) + ": tile " + tile.name + " of " + str(uint64_t{tile.bytes_per_partition}) +
                         " bytes per partition, touched from byte " + to_text(e.low) + " to " + to_text(e.high));
  }
  return {};
}

// Does the access stay inside one PSUM bank in every iteration? Either it never leaves one bank at all, or all its movement
// is in steps of g bytes, g dividing the bank, and it stays inside one block of g bytes.
bool inside_one_bank(const Place& place, const Access& a) {
  const Tile& tile = place.program.tiles[a.object];
  const int64_t bank = place.target.psum_bank_bytes;
  const Wide base = static_cast<Wide>(tile.byte_offset);
  const Extent all = extent(place, a);
  const Wide rotation = tile.buffers > 1 ? static_cast<Wide>(tile.bytes_per_partition) * (tile.buffers - 1) : 0;
  if ((base + all.low) / bank == (base + all.high + rotation) / bank) return true;
  int64_t g = bank;
  if (rotation) g = std::gcd(g, static_cast<int64_t>(tile.bytes_per_partition));
  for (uint32_t l = 0; l < place.depth; ++l) {
    if (place.loops[l].trips > 1) g = std::gcd(g, a.loop_step[l] % bank);  // the remainder avoids |INT64_MIN|
  }
  const Extent one = extent(place, a, false);  // low >= 0: the pattern was found inside its tile at iteration 0
  return (base + one.low) / g == (base + one.high) / g;
}

bool matrix_unit_type(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f16 || t == DType::f8e4m3fn || t == DType::f8e5m2;
}

Status check_matmul(const Place& place, const Instruction& i) {
  const InstructionLimits& limits = place.target.limits;
  const uint64_t k = i.src0.partitions, m = saturating_elements(i.src0), n = saturating_elements(i.src1);
  if (i.src1.partitions != k || k > limits.matmul_contraction || m > limits.matmul_stationary_free ||
      n > limits.matmul_moving_free) {
    return violation(place, "nc_matmul.1",
                     "K " + str(k) + " and " + str(uint64_t{i.src1.partitions}) + ", M " + str(m) + ", N " + str(n));
  }
  if (i.dst.partitions != m || saturating_elements(i.dst) != n) {
    return violation(place, "nc_matmul.2",
                     "destination [" + str(uint64_t{i.dst.partitions}) + ", " + str(saturating_elements(i.dst)) +
                         "], product [" + str(m) + ", " + str(n) + "]");
  }
  if (i.engine == Engine::gpsimd) {
    const bool narrower = is_integer(i.dst.dtype) && is_integer(i.compute);
    if (i.dst.dtype != i.compute && !narrower)
      return violation(place, "nc_matmul.5", "destination " + str(name_of(i.dst.dtype)));
    return {};
  }
  const DType a = i.src0.dtype, b = i.src1.dtype;
  if (!matrix_unit_type(a) || !matrix_unit_type(b) || ((a == DType::f32) != (b == DType::f32))) {
    return violation(place, "nc_matmul.3", str(name_of(a)) + " with " + str(name_of(b)));
  }
  if (i.dst.dtype != DType::f32 || !inside_one_bank(place, i.dst)) {
    return violation(place, "nc_matmul.4",
                     "destination " + str(name_of(i.dst.dtype)) + " in tile " + place.program.tiles[i.dst.object].name);
  }
  return {};
}

Status check_transposes(const Place& place, const Instruction& i) {
  const bool dma = i.opcode == Opcode::dma_transpose;
  const std::string_view same = dma ? "dma_transpose.1" : "nc_transpose.1";
  const uint64_t rows = i.src0.partitions, columns = saturating_elements(i.src0);
  if (i.src0.dtype != i.dst.dtype)
    return violation(place, same, str(name_of(i.src0.dtype)) + " to " + str(name_of(i.dst.dtype)));
  const InstructionLimits& limits = place.target.limits;
  const uint64_t block = i.engine == Engine::tensor ? limits.transpose_tensor : limits.transpose_vector;
  const uint64_t most_rows = dma ? limits.dma_transpose_rows : block;
  const uint64_t most_columns = dma ? limits.dma_transpose_columns : block;
  if (rows > most_rows || columns > most_columns || (dma && i.src0.rank > 1)) {
    return violation(place, dma ? "dma_transpose.2" : "nc_transpose.2", str(rows) + " rows, " + str(columns) + " columns");
  }
  if (i.dst.partitions != columns || saturating_elements(i.dst) != rows || (dma && i.dst.space != Space::sbuf)) {
    return violation(place, dma ? "dma_transpose.3" : "nc_transpose.3",
                     "source [" + str(rows) + ", " + str(columns) + "], destination [" + str(uint64_t{i.dst.partitions}) +
                         ", " + str(saturating_elements(i.dst)) + "] in " + str(name_of(i.dst.space)));
  }
  return {};
}

Status check_scalars(const Place& place, const Instruction& i, uint64_t partitions) {
  for (const ScalarOperand* s : {&i.scalar0, &i.scalar1}) {
    if (s->kind != ScalarOperand::Kind::access) continue;
    if (saturating_elements(s->access) != 1 || s->access.partitions != partitions) {
      return violation(place, "instruction.7",
                       "[" + str(uint64_t{s->access.partitions}) + ", " + str(saturating_elements(s->access)) + "] for " +
                           str(partitions) + " partitions");
    }
  }
  return {};
}

Status check_index(const Place& place, const Instruction& i, const Access& hbm, bool scatter) {
  const std::string_view type_rule = scatter ? "scatter_reduce.3" : "dma_copy.2";
  const DType t = i.index.dtype;
  if (t != DType::i32 && t != DType::u32 && t != DType::i64)
    return violation(place, type_rule, "index of " + str(name_of(t)));
  if (hbm.rank == 0 || hbm.dims[0].count != saturating_elements(i.index) || hbm.partitions != i.index.partitions) {
    return violation(place, scatter ? "scatter_reduce.3" : "dma_copy.4",
                     "index [" + str(uint64_t{i.index.partitions}) + ", " + str(saturating_elements(i.index)) +
                         "], HBM side " + str(uint64_t{hbm.partitions}) + " partitions, first dimension " +
                         str(uint64_t{hbm.rank ? hbm.dims[0].count : 0}));
  }
  const int64_t unit = static_cast<int64_t>(std::min<size_t>(size_of(hbm.dtype), 8));
  if (i.index_bound < 0 || (i.index_stride & (unit - 1))) {
    return violation(place, scatter ? "scatter_reduce.4" : "dma_copy.5",
                     "bound " + std::to_string(i.index_bound) + ", stride " + std::to_string(i.index_stride));
  }
  return {};
}

Status check_dma_copy(const Place& place, const Instruction& i) {
  const bool both_hbm = i.dst.space == Space::hbm && i.src0.space == Space::hbm;
  const uint64_t d = saturating_elements(i.dst), s = saturating_elements(i.src0);
  const bool agree = both_hbm ? static_cast<Wide>(d) * i.dst.partitions == static_cast<Wide>(s) * i.src0.partitions
                              : d == s && i.dst.partitions == i.src0.partitions;
  if (!agree) {
    return violation(place, "dma_copy.1",
                     "dst [" + str(uint64_t{i.dst.partitions}) + ", " + str(d) + "], src [" +
                         str(uint64_t{i.src0.partitions}) + ", " + str(s) + "]");
  }
  if (!i.index.present()) return {};
  if ((i.dst.space == Space::hbm) == (i.src0.space == Space::hbm))
    return violation(place, "dma_copy.3", "both sides in the same memory");
  return check_index(place, i, i.dst.space == Space::hbm ? i.dst : i.src0, false);
}

Status check_scatter_reduce(const Place& place, const Instruction& i) {
  if (!info(i.op0).reduces) return violation(place, "scatter_reduce.1", str(name_of(i.op0)));
  if (i.dst.space != Space::hbm || i.src0.space != Space::sbuf || i.dst.partitions != i.src0.partitions ||
      saturating_elements(i.dst) != saturating_elements(i.src0)) {
    return violation(place, "scatter_reduce.2",
                     "dst [" + str(uint64_t{i.dst.partitions}) + ", " + str(saturating_elements(i.dst)) + "] in " +
                         str(name_of(i.dst.space)));
  }
  return check_index(place, i, i.dst, true);
}

Status check_reductions(const Place& place, const Instruction& i) {
  const uint64_t n = saturating_elements(i.src0), d = saturating_elements(i.dst);
  if (i.opcode == Opcode::tensor_partition_reduce) {
    if (!info(i.op0).reduces) return violation(place, "tensor_partition_reduce.1", str(name_of(i.op0)));
    if (i.dst.partitions != 1 || d != n) {
      return violation(place, "tensor_partition_reduce.2", "[" + str(uint64_t{i.dst.partitions}) + ", " + str(d) + "]");
    }
    return {};
  }
  if (!info(i.op0).reduces) return violation(place, "tensor_reduce.1", str(name_of(i.op0)));
  if (i.reduce_dims == 0 || i.reduce_dims > i.src0.rank)
    return violation(place, "tensor_reduce.2", str(uint64_t{i.reduce_dims}));
  uint64_t outer = 1;  // the product of all dims is bounded by access.9, so this one cannot overflow
  for (int k = 0; k < i.src0.rank - i.reduce_dims; ++k) outer *= i.src0.dims[k].count;
  if (d != outer) return violation(place, "tensor_reduce.3", str(d) + " destination elements for " + str(outer));
  if (i.dst.partitions != i.src0.partitions) return violation(place, "instruction.5", "dst");
  return {};
}

bool both_psum(const Access& a, const Access& b) { return a.space == Space::psum && b.space == Space::psum; }

Status check_scalar_engine(const Place& place, const Instruction& i) {
  const bool ok = !i.reverse0 && !i.reverse1 && (i.op0 == AluOp::multiply || i.op0 == AluOp::add) &&
                  (i.op1 == AluOp::bypass || (i.op0 == AluOp::multiply && i.op1 == AluOp::add));
  return ok ? Status() : violation(place, "tensor_scalar.2", str(name_of(i.op0)) + ", " + str(name_of(i.op1)));
}

Status check_select(const Place& place, const Instruction& i) {
  const auto one = [](const Access& a, const ScalarOperand& s) {
    return a.present() != (s.kind != ScalarOperand::Kind::none);
  };
  if (!one(i.src0, i.scalar0) || !one(i.src1, i.scalar1)) return violation(place, "select.1", "");
  const auto not_psum = [](const Access& a) { return a.space == Space::sbuf; };
  if (i.src2.space == Space::psum && (i.src0.present() || i.src1.present()) && !not_psum(i.src0) && !not_psum(i.src1)) {
    return violation(place, "select.2", "");
  }
  return {};
}

// The fixed shapes: bn_stats, bn_aggr, max8, find_index8, top_k, random_bits.
Status check_fixed_shapes(const Place& place, const Instruction& i) {
  const uint64_t n = saturating_elements(i.src0), d = saturating_elements(i.dst);
  const InstructionLimits& limits = place.target.limits;
  switch (i.opcode) {
    case Opcode::bn_stats:
      if (n > limits.bn_stats_elements) return violation(place, "bn_stats.1", str(n));
      if (d != 6 || i.dst.dtype != DType::f32)
        return violation(place, "bn_stats.2", str(d) + " of " + str(name_of(i.dst.dtype)));
      return {};
    case Opcode::bn_aggr:
      if (n % 3 != 0 || i.src0.dtype != DType::f32) return violation(place, "bn_aggr.1", str(n));
      if (d != 2 || i.dst.dtype != DType::f32)
        return violation(place, "bn_aggr.2", str(d) + " of " + str(name_of(i.dst.dtype)));
      return {};
    case Opcode::max8:
      if (n < 8 || n > limits.max8_elements) return violation(place, "max8.1", str(n));
      return d == 8 ? Status() : violation(place, "max8.2", str(d));
    case Opcode::find_index8:
      if (n < 8 || n > limits.max8_elements || saturating_elements(i.src1) != 8)
        return violation(place, "find_index8.1", str(n));
      return d == 8 && i.dst.dtype == DType::u32
                 ? Status()
                 : violation(place, "find_index8.2", str(d) + " of " + str(name_of(i.dst.dtype)));
    case Opcode::top_k:
      if (d > n || saturating_elements(i.dst2) != d) return violation(place, "top_k.1", str(d) + " of " + str(n));
      return i.dst2.dtype == DType::i64 ? Status() : violation(place, "top_k.2", str(name_of(i.dst2.dtype)));
    case Opcode::random_bits:
      return i.dst.dtype == DType::u32 || i.dst.dtype == DType::u64
                 ? Status()
                 : violation(place, "random_bits.1", str(name_of(i.dst.dtype)));
    default:
      return {};
  }
}

Status check_element_wise(const Place& place, const Instruction& i) {
  const uint64_t n = saturating_elements(i.dst);
  for (const Access* a : {&i.src0, &i.src1, &i.src2}) {
    if (a->present() && saturating_elements(*a) != n) {
      return violation(place, "instruction.6",
                       str(saturating_elements(*a)) + " source elements, " + str(n) + " destination elements");
    }
  }
  switch (i.opcode) {
    case Opcode::memset:
      if (i.scalar0.kind != ScalarOperand::Kind::immediate) return violation(place, "memset.1", "");
      return is_compute_type(i.compute) ? Status() : violation(place, "memset.2", str(name_of(i.compute)));
    case Opcode::tensor_tensor:
      return both_psum(i.src0, i.src1) ? violation(place, "tensor_tensor.1", "") : Status();
    case Opcode::scalar_tensor_tensor:
      return both_psum(i.src0, i.src1) ? violation(place, "scalar_tensor_tensor.1", "") : Status();
    case Opcode::tensor_scalar:
      if ((i.op1 == AluOp::bypass) != (i.scalar1.kind == ScalarOperand::Kind::none))
        return violation(place, "tensor_scalar.1", "");
      return i.engine == Engine::scalar ? check_scalar_engine(place, i) : Status();
    case Opcode::activation:
      if (i.dst2.present() && saturating_elements(i.dst2) != 1)
        return violation(place, "activation.1", str(saturating_elements(i.dst2)));
      return {};
    case Opcode::select:
      return check_select(place, i);
    case Opcode::tensor_tensor_scan:
      if (i.src0.rank == 0) return violation(place, "tensor_tensor_scan.1", "");
      if ((i.op1 == AluOp::bypass) == i.src1.present()) return violation(place, "tensor_tensor_scan.2", "");
      return both_psum(i.src0, i.src1) ? violation(place, "tensor_tensor_scan.3", "") : Status();
    default:
      return {};
  }
}

Status check_shapes(const Place& place, const Instruction& i) {
  switch (i.opcode) {
    case Opcode::dma_copy:
      return check_dma_copy(place, i);
    case Opcode::scatter_reduce:
      return check_scatter_reduce(place, i);
    case Opcode::dma_transpose:
    case Opcode::nc_transpose:
      return check_transposes(place, i);
    case Opcode::nc_matmul:
      return check_matmul(place, i);
    case Opcode::tensor_partition_reduce:
    case Opcode::tensor_reduce:
      return check_reductions(place, i);
    default:
      break;
  }
  const uint64_t partitions = i.dst.partitions;
  for (const Access* a : {&i.dst2, &i.src0, &i.src1, &i.src2}) {
    if (a->present() && a->partitions != partitions) {
      return violation(place, "instruction.5", str(uint64_t{a->partitions}) + " and " + str(partitions));
    }
  }
  NEURON_RETURN_IF_ERROR(check_scalars(place, i, partitions));
  switch (i.opcode) {
    case Opcode::bn_stats:
    case Opcode::bn_aggr:
    case Opcode::max8:
    case Opcode::find_index8:
    case Opcode::top_k:
    case Opcode::random_bits:
      return check_fixed_shapes(place, i);
    default:
      return check_element_wise(place, i);
  }
}

}  // namespace

uint64_t saturating_elements(const Access& access) {
  // Counts are 32 bits, so a product of two fits; stop where a third could overflow.
  uint64_t n = 1;
  for (int d = 0; d < access.rank && d < kMaxFreeDims; ++d) {
    if (n > (uint64_t{1} << 31)) return uint64_t{1} << 63;
    n *= access.dims[d].count;
  }
  return n;
}

Extent extent(const Place& place, const Access& access, bool with_loops) {
  Extent e{access.offset, access.offset};
  const auto add = [&e](int64_t step, uint32_t count) {
    const Wide reach = static_cast<Wide>(step) * (count - 1);
    (reach < 0 ? e.low : e.high) += reach;
  };
  for (int d = 0; d < access.rank; ++d) add(access.dims[d].stride, access.dims[d].count);
  if (access.space == Space::hbm) add(access.partition_stride, access.partitions);
  if (with_loops) {
    for (uint32_t l = 0; l < place.depth; ++l) {
      if (access.loop_step[l]) add(access.loop_step[l], place.loops[l].trips);
    }
  }
  e.high += static_cast<Wide>(size_of(access.dtype)) - 1;
  return e;
}

Status check_instruction(const Place& place) {
  const Instruction& i = place.program.instructions[place.instruction];
  NEURON_RETURN_IF_ERROR(check_enumerations(place, i));
  const InstructionInfo& about = info(i.opcode);
  NEURON_RETURN_IF_ERROR(check_general(place, i, about));
  const Space indexed_side = i.index.present() ? Space::hbm : Space::none;
  for (const Operand& o : operands_of(i)) {
    if (!o.access->present()) continue;
    const bool indexed = o.use != Use::index && o.access->space == indexed_side;
    NEURON_RETURN_IF_ERROR(check_access(place, i, o, indexed));
  }
  return check_shapes(place, i);
}

}  // namespace neuron::isa::validation
