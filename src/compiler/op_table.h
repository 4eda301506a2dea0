// IR operations -> what NeuronCore's engines call them.
#pragma once

#include <optional>

#include "ir/graph.h"
#include "isa/program.h"

namespace neuron::compiler {

// The ALU operation of a two-operand IR operation (compare included) on operands of `operand` dtype.
std::optional<isa::AluOp> alu_op_of(const ir::Node& node, DType operand);
// The function of a one-operand IR operation on operands of `operand` dtype.
std::optional<isa::ActFn> act_fn_of(ir::Op op, DType operand);
// The ALU operation of a reduction.
isa::AluOp alu_op_of(ir::Reducer reducer, DType dtype);
// The reduction's identity as a number of `dtype`.
isa::ScalarOperand identity_of(ir::Reducer reducer, DType dtype);

// True if func(fma(x, scale, bias)) may replace func(x * scale + bias): the sign of a zero argument does not matter.
bool absorbs_scale_and_bias(isa::ActFn func);

// True if every value of `from` is a value of `to`, so that reading `from` bytes where `to` is asked for is exact.
bool exact_widening(DType from, DType to);

}  // namespace neuron::compiler
