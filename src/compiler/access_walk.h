// Visits the operands of an instruction.
#pragma once

#include "isa/program.h"

namespace neuron::compiler {

// f(access, writes) for every present operand. In is Instruction or const Instruction.
template <class In, class F>
void for_each_access(In& in, F&& f) {
  for (auto* a : {&in.src0, &in.src1, &in.src2, &in.index})
    if (a->present()) f(*a, false);
  for (auto* s : {&in.scalar0, &in.scalar1})
    if (s->kind == isa::ScalarOperand::Kind::access && s->access.present()) f(s->access, false);
  for (auto* a : {&in.dst, &in.dst2})
    if (a->present()) f(*a, true);
}

}  // namespace neuron::compiler
