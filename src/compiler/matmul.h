// Region kind matmul: dot_general with everything that happens to its result before it is stored. dot_general's own
// generality (batch, several contracted dimensions, any strides) is in matmul_space.h, the loop nest in matmul_emitter.h.
#pragma once

#include "base/status.h"
#include "compiler/region.h"

namespace neuron::compiler {

Status emit_matmul_region(EmitContext& context, const Region& region);

}  // namespace neuron::compiler
