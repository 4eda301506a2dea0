// Which opcode, function and compute type combinations the executors define. Checked once, when a program is loaded.
#pragma once

#include "base/status.h"
#include "isa/program.h"

namespace neuron::emulator {

// unsupported, naming opcode, operation, dtype and label, for the first instruction that has no meaning.
Status check_supported(const isa::Program& program);

}  // namespace neuron::emulator
