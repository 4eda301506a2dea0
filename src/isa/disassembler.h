// Program -> text for people: dumps, error reports, tests. Deterministic; works for any Program, valid or not.
#pragma once

#include <string>

#include "isa/program.h"

namespace neuron::isa {

std::string disassemble(const Program& program);
// One instruction on one line, as disassemble() prints it (without waits and label).
std::string disassemble(const Program& program, const Instruction& instruction);

}  // namespace neuron::isa
