// Transfers whose address comes from index tensors: gather, scatter, dynamic_slice, dynamic_update_slice.
#pragma once

#include "compiler/region.h"

namespace neuron::compiler {

Status emit_gather(EmitContext& context, const Region& region);
Status emit_scatter(EmitContext& context, const Region& region);
Status emit_dynamic_slice(EmitContext& context, const Region& region);
Status emit_dynamic_update_slice(EmitContext& context, const Region& region);

// Copies operand 0 to every store of result 0 (what an update does not touch).
Status copy_operand(EmitContext& context, const Region& region, const Store& store);

}  // namespace neuron::compiler
