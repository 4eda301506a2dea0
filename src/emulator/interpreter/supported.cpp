#include "emulator/interpreter/supported.h"

#include "isa/instruction_table.h"

namespace neuron::emulator {
namespace {

using isa::Instruction;
using isa::Opcode;

// What is wrong with the operation, or nullptr.
const char* problem(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::dma_copy:
    case Opcode::dma_transpose:
    case Opcode::nc_transpose:
    case Opcode::tensor_copy:
    case Opcode::iota:
    case Opcode::random_bits:
      return nullptr;  // no arithmetic in the compute type
    default:
      break;
  }
  if (!isa::is_compute_type(i.compute)) return "compute type";
  const char* const operation = "operation in this compute type";
  switch (i.opcode) {
    case Opcode::tensor_tensor:
      return isa::alu_defined_for(i.op0, i.compute) ? nullptr : operation;
    case Opcode::tensor_scalar:
    case Opcode::scalar_tensor_tensor:
    case Opcode::tensor_tensor_scan:
      return isa::alu_defined_for(i.op0, i.compute) && isa::alu_defined_for(i.op1, i.compute) ? nullptr : operation;
    case Opcode::activation:
      return isa::act_defined_for(i.func, i.compute) ? nullptr : "function in this compute type";
    case Opcode::tensor_reduce:
    case Opcode::tensor_partition_reduce:
      return isa::info(i.op0).reduces && isa::alu_defined_for(i.op0, i.compute) ? nullptr : "reduction in this compute type";
    case Opcode::scatter_reduce:
      return isa::alu_defined_for(i.op0, i.compute) ? nullptr : operation;
    case Opcode::bn_stats:
    case Opcode::bn_aggr:
      return i.compute == DType::f32 ? nullptr : "compute type";
    case Opcode::reciprocal:
      return i.compute == DType::i64 || i.compute == DType::u64 ? "compute type" : nullptr;
    case Opcode::max8:
    case Opcode::find_index8:
    case Opcode::top_k:
      return is_complex(i.compute) ? "compute type" : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace

Status check_supported(const isa::Program& program) {
  for (const Instruction& i : program.instructions) {
    if (const char* what = problem(i)) {
      std::string where(isa::name_of(i.opcode));
      if (i.label < program.labels.size() && !program.labels[i.label].empty()) where += " (" + program.labels[i.label] + ")";
      for (std::string_view part : {name_of(i.compute), isa::name_of(i.op0), isa::name_of(i.op1), isa::name_of(i.func)})
        where += ", " + std::string(part);
      return unsupported(where + ": no such " + what);
    }
  }
  return {};
}

}  // namespace neuron::emulator
