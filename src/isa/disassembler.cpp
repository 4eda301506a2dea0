#include "isa/disassembler.h"

#include <charconv>
#include <vector>

#include "isa/instruction_table.h"

namespace neuron::isa {
namespace {

std::string text(int64_t v) { return std::to_string(v); }
std::string text(std::string_view v) { return std::string(v); }

std::string text(double v) {  // the shortest digits that read back to the same value
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return {buffer, end};
}

std::string_view dtype_text(DType t) {
  return static_cast<unsigned>(t) < static_cast<unsigned>(kDTypeCount) ? neuron::name_of(t) : std::string_view("?");
}

std::string list(const std::vector<int64_t>& values) {
  std::string out;
  for (int64_t v : values) out += (out.empty() ? "" : ",") + text(v);
  return out;
}

constexpr std::string_view kLoopNames = "ijklmnop";

// " + 512*i - 4*j"
std::string loop_terms(const std::array<int64_t, kMaxLoops>& steps) {
  std::string out;
  for (int l = 0; l < kMaxLoops; ++l) {
    if (!steps[l]) continue;
    out += steps[l] < 0 ? " - " : " + ";
    const std::string digits = text(steps[l]);
    out += digits.substr(steps[l] < 0) + "*" + kLoopNames[l];
  }
  return out;
}

std::string object_name(const Program& p, const Access& a) {
  if (a.space == Space::hbm)
    return a.object < p.tensors.size() ? p.tensors[a.object].name : "tensor" + text(int64_t{a.object});
  std::string name = a.object < p.tiles.size() ? p.tiles[a.object].name : "tile" + text(int64_t{a.object});
  if (name.empty()) name = "tile" + text(int64_t{a.object});
  if (a.object < p.tiles.size() && p.tiles[a.object].buffers > 1) {
    const Tile& t = p.tiles[a.object];
    name += "[" + std::string(1, kLoopNames[t.rotate_level % kMaxLoops]) + "%" + text(int64_t{t.buffers}) + "]";
  }
  return name;
}

// The stride of a dense, ascending pattern is not printed.
std::string dims_text(const Access& a, int64_t element) {
  std::string shape =
      a.space == Space::hbm ? text(int64_t{a.partitions}) + ":" + text(a.partition_stride) : text(int64_t{a.partitions});
  if (a.space != Space::hbm && a.partition_start) shape = text(int64_t{a.partition_start}) + "+" + shape;
  std::string out = shape;
  std::string dims;
  int64_t dense = element;
  for (int d = std::min<int>(a.rank, kMaxFreeDims) - 1; d >= 0; --d) {
    std::string one = ", " + text(int64_t{a.dims[d].count});
    if (a.dims[d].stride != dense) one += ":" + text(a.dims[d].stride);
    dense = static_cast<int64_t>(static_cast<uint64_t>(a.dims[d].stride) * a.dims[d].count);
    dims = one + dims;
  }
  return out + dims;
}

std::string access_text(const Program& p, const Access& a) {
  if (!a.present()) return "-";
  const bool known = static_cast<unsigned>(a.dtype) < static_cast<unsigned>(kDTypeCount);
  std::string out = object_name(p, a);
  if (a.offset) out += (a.offset > 0 ? "+" : "") + text(a.offset);
  out += loop_terms(a.loop_step);
  return out + " " + text(dtype_text(a.dtype)) + "[" + dims_text(a, known ? static_cast<int64_t>(size_of(a.dtype)) : 0) +
         "]";
}

std::string scalar_text(const Program& p, const Instruction& i, const ScalarOperand& s) {
  if (s.kind == ScalarOperand::Kind::access) return access_text(p, s.access);
  if (i.compute == DType::u64) return std::to_string(static_cast<uint64_t>(s.i));
  if (i.compute == DType::i64 || i.opcode == Opcode::random_bits) return text(s.i);
  if (i.compute == DType::c64 || i.compute == DType::c128) return "(" + text(s.re) + "," + text(s.im) + ")";
  return text(s.re);
}

bool has(const ScalarOperand& s) { return s.kind != ScalarOperand::Kind::none; }

// "a op b" or, reversed, "b op a".
std::string binary(AluOp op, bool reverse, const std::string& a, const std::string& b) {
  return reverse ? b + " " + text(name_of(op)) + " " + a : a + " " + text(name_of(op)) + " " + b;
}

std::string pattern_text(const IndexPattern& p) {
  std::string out = text(p.base) + loop_terms(p.loop_step);
  if (p.partition_step) out += " + " + text(p.partition_step) + "*p";
  for (int d = 0; d < kMaxFreeDims; ++d) {
    if (p.step[d]) out += " + " + text(p.step[d]) + "*i" + text(int64_t{d});
  }
  return out;
}

std::string index_text(const Program& p, const Instruction& i) {
  return " index " + access_text(p, i.index) + " * " + text(i.index_stride) + " below " + text(i.index_bound) +
         (i.oob == OobMode::skip ? " else skip" : "");
}

std::string operands_text(const Program& p, const Instruction& i) {
  const std::string src0 = access_text(p, i.src0), src1 = access_text(p, i.src1);
  const auto s0 = [&] { return scalar_text(p, i, i.scalar0); };
  const auto s1 = [&] { return scalar_text(p, i, i.scalar1); };
  switch (i.opcode) {
    case Opcode::dma_copy:
      return src0 + (i.index.present() ? index_text(p, i) : "");
    case Opcode::nc_matmul: {
      std::string out = src0 + " x " + src1;
      if (i.accumulate) return out + " accumulate";
      for (int l = 0; l < kMaxLoops; ++l) {
        if (i.accumulate_levels & (1u << l)) out += std::string(" accumulate(") + kLoopNames[l] + ">0)";
      }
      return out;
    }
    case Opcode::memset:
      return s0();
    case Opcode::iota:
      return pattern_text(i.pattern);
    case Opcode::tensor_tensor:
      return binary(i.op0, false, src0, src1);
    case Opcode::tensor_scalar: {
      const std::string first = binary(i.op0, i.reverse0, src0, s0());
      return has(i.scalar1) ? binary(i.op1, i.reverse1, "(" + first + ")", s1()) : first;
    }
    case Opcode::scalar_tensor_tensor:
      return binary(i.op1, i.reverse1, "(" + binary(i.op0, i.reverse0, src0, s0()) + ")", src1);
    case Opcode::activation: {
      std::string out = text(name_of(i.func)) + "(" + src0;
      if (has(i.scalar0)) out += " * " + s0();
      if (has(i.scalar1)) out += " + " + s1();
      return out + ")";
    }
    case Opcode::select:
      return access_text(p, i.src2) + " ? " + (i.src0.present() ? src0 : s0()) + " : " + (i.src1.present() ? src1 : s1());
    case Opcode::tensor_reduce:
      return text(name_of(i.op0)) + " over " + text(int64_t{i.reduce_dims}) + " of " + src0;
    case Opcode::tensor_partition_reduce:
      return text(name_of(i.op0)) + " over partitions of " + src0;
    case Opcode::tensor_tensor_scan: {
      const std::string out = "scan(" + s0() + ") " + binary(i.op0, false, src0, "y");
      return i.src1.present() ? "(" + out + ") " + text(name_of(i.op1)) + " " + src1 : out;
    }
    case Opcode::find_index8:
      return src1 + " in " + src0;
    case Opcode::random_bits:
      return "philox(" + s0() + ", " + s1() + " + " + pattern_text(i.pattern) + ")";
    case Opcode::scatter_reduce:
      return text(name_of(i.op0)) + " " + src0 + index_text(p, i);
    case Opcode::top_k:
      return std::string(i.largest ? "largest of " : "smallest of ") + src0;
    default:
      return src0;
  }
}

std::string sync_text(const Instruction& i) {
  std::string out;
  for (const Wait& w : i.waits)
    out += " wait s" + text(int64_t{w.semaphore}) + ">=" + text(w.base) + loop_terms(w.loop_step);
  if (i.signal != kNoSemaphore) out += " signal s" + text(int64_t{i.signal});
  return out;
}

void print_tables(const Program& p, std::string& out) {
  for (const Tensor& t : p.tensors) {
    out += "  " + text(name_of(t.role)) + " " + t.name + " " + text(dtype_text(t.dtype)) + "[" + list(t.shape) +
           "] strides(" + list(t.strides) + ") " + std::to_string(t.bytes) + " bytes";
    if (t.alias_of >= 0 && static_cast<size_t>(t.alias_of) < p.tensors.size()) out += " = " + p.tensors[t.alias_of].name;
    if (t.role == TensorRole::constant) out += " at " + std::to_string(t.constant_offset);
    out += "\n";
  }
  for (size_t n = 0; n < p.tiles.size(); ++n) {
    const Tile& t = p.tiles[n];
    out += "  tile " + (t.name.empty() ? "tile" + std::to_string(n) : t.name) + " " + text(name_of(t.space)) + " [" +
           text(int64_t{t.partitions}) + ", " + text(int64_t{t.bytes_per_partition}) + " bytes]";
    if (t.buffers > 1) out += " x " + text(int64_t{t.buffers});
    out += " at " + text(int64_t{t.partition_start}) + "," + std::to_string(t.byte_offset) + "\n";
  }
}

void print_stream(const Program& p, const Stream& stream, std::string& out) {
  size_t depth = 0;
  for (const Step& step : stream.steps) {
    if (step.kind == Step::Kind::end) {
      if (depth) --depth;
      continue;
    }
    out.append(2 + 2 * depth, ' ');
    if (step.kind == Step::Kind::loop) {
      out += std::string("loop ") + kLoopNames[depth % kMaxLoops] + " 0.." + std::to_string(step.value) +
             (step.loop_kind == LoopKind::affine ? " affine" : "") + "\n";
      ++depth;
      continue;
    }
    if (step.value >= p.instructions.size()) {
      out += "instruction " + std::to_string(step.value) + "?\n";
      continue;
    }
    const Instruction& i = p.instructions[step.value];
    out += disassemble(p, i) + sync_text(i);
    if (i.label && i.label < p.labels.size()) out += "  ; " + p.labels[i.label];
    out += "\n";
  }
}

}  // namespace

std::string disassemble(const Program& program, const Instruction& i) {
  std::string out = text(name_of(i.engine));
  if (i.engine == Engine::dma) out += text(int64_t{i.queue});
  out += "." + text(name_of(i.opcode));
  if (i.compute != DType::f32 && i.opcode < Opcode::count_ && !info(i.opcode).moves_only)
    out += "." + text(dtype_text(i.compute));
  out += " " + access_text(program, i.dst);
  if (i.dst2.present()) out += ", " + access_text(program, i.dst2);
  return out + (i.opcode == Opcode::nc_matmul && i.accumulate ? " += " : " = ") + operands_text(program, i);
}

std::string disassemble(const Program& program) {
  std::string out = "program " + program.name + "  target " + program.target + "\n";
  print_tables(program, out);
  for (size_t s = 0; s < program.streams.size(); ++s) {
    if (program.streams.size() > 1) out += "core " + std::to_string(s) + "\n";
    print_stream(program, program.streams[s], out);
  }
  return out;
}

}  // namespace neuron::isa
