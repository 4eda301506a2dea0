// The one definition of every instruction: which engines run it, which operands it has, its numbered constraints, what it
// computes, in which order it sums, what it costs, and how it differs from the chip. The validator cites the constraint
// numbers, the disassembler prints the names, the tool `isa_docs` turns the table into docs/instructions.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "isa/program.h"
#include "isa/target.h"

namespace neuron::isa {

// Operand bits of InstructionInfo::required and ::optional.
enum OperandBit : uint16_t {
  kDst = 1 << 0,
  kDst2 = 1 << 1,
  kSrc0 = 1 << 2,
  kSrc1 = 1 << 3,
  kSrc2 = 1 << 4,
  kScalar0 = 1 << 5,
  kScalar1 = 1 << 6,
  kIndex = 1 << 7,
  kPattern = 1 << 8,  // not checked for presence: a pattern of zeros is a pattern
};

constexpr uint32_t engine_bit(Engine e) { return 1u << static_cast<uint32_t>(e); }

struct Constraint {
  std::string_view id;    // "nc_matmul.3"
  std::string_view text;  // what must hold
};

struct InstructionInfo {
  Opcode opcode;
  std::string_view name;
  uint32_t engines;   // engine_bit mask
  uint16_t required;  // OperandBit mask
  uint16_t optional;
  bool routine;                 // a GpSimd routine: what no instruction of the chip expresses
  bool moves_only;              // ignores Instruction::compute: converts or copies directly from source to destination type
  std::string_view operands;    // how the operands read, for people: "dst, src0, op0, src1"
  std::string_view semantics;   // a sentence
  std::string_view order;       // order of summation; "" if nothing is summed
  std::string_view cost;        // formula and source
  std::string_view difference;  // from the chip
  std::span<const Constraint> constraints;  // those of this instruction only
};

const InstructionInfo& info(Opcode opcode);
std::span<const InstructionInfo> instruction_table();

// Constraints that hold for whole programs, tables, accesses and every instruction ("access.2", "loop.1", ...).
std::span<const Constraint> general_constraints();
// The constraint with this id, or nullptr.
const Constraint* find_constraint(std::string_view id);

std::string_view name_of(Opcode opcode);
std::string_view name_of(AluOp op);
std::string_view name_of(ActFn func);
std::string_view name_of(Engine engine);
std::string_view name_of(Space space);
std::string_view name_of(TensorRole role);
std::optional<AluOp> alu_op_from_name(std::string_view name);
std::optional<ActFn> act_fn_from_name(std::string_view name);

// How the engines see an ALU operation.
struct AluInfo {
  std::string_view name;
  uint32_t engines;  // with compute type f32; every other compute type runs on GpSimd
  bool reduces;      // legal in tensor_reduce, tensor_partition_reduce, scatter_reduce
  bool integer_only;
  bool real_only;  // no meaning for complex compute types
};
const AluInfo& info(AluOp op);

struct ActInfo {
  std::string_view name;
  uint32_t engines;  // with compute type f32; every other compute type runs on GpSimd
  uint8_t table;     // ScalarE function table; 0 = in every table, so it never forces a load
};
const ActInfo& info(ActFn func);

// --- questions a code generator asks -----------------------------------------------------------------------------------
// Element types of at most four bytes that are not complex: what Tensor-, Vector- and ScalarE can read and write. The
// others (u64, i64, f64, c64, c128) need GpSimd or DMA.
bool narrow(DType t);
// The compute type in which operands of type t are computed exactly as PyTorch does: f32 for floats up to f32 and bool,
// i64/u64 for integers, itself for f64, c64, c128.
DType compute_type_for(DType t);
bool is_compute_type(DType t);
// Has the operation or function a meaning in this compute type?
bool alu_defined_for(AluOp op, DType compute);
bool act_defined_for(ActFn func, DType compute);
// May `engine` run `opcode` with these operations in this compute type? (Element types: see narrow().)
bool runs_on(Engine engine, Opcode opcode, DType compute, AluOp op0 = AluOp::bypass, AluOp op1 = AluOp::bypass,
             ActFn func = ActFn::copy);

// Partition placement rule of engine operands: counts of 65..128 start at 0, 33..64 at 0 or 64, 1..32 at 0, 32, 64 or 96.
bool partition_start_legal(uint32_t start, uint32_t count);

}  // namespace neuron::isa
