// Region kind node for attention and attention_backward: binds the graph's values to the emitters of attention_emitter.h.
#pragma once

#include "base/status.h"
#include "compiler/region.h"

namespace neuron::compiler {

Status emit_attention_region(EmitContext& context, const Region& region);

}  // namespace neuron::compiler
