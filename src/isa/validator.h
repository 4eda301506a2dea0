// Checks a Program against the numbered constraints of its instructions (instruction_table.h), its target's limits, table
// bounds (no access leaves its tensor or tile for any iteration), tile placement and capacity, loop structure, semaphores.
#pragma once

#include "base/status.h"
#include "isa/program.h"

namespace neuron::isa {

// The message starts with the constraint's number and names instruction, operand and values.
Status validate(const Program& program);

}  // namespace neuron::isa
