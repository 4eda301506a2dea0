// Operations along one dimension, a row at a time on each partition: cumulative scans, sort and top_k.
#pragma once

#include "compiler/region.h"

namespace neuron::compiler {

Status emit_scan(EmitContext& context, const Region& region);
// sort and top_k: the routine top_k orders whole rows.
Status emit_order(EmitContext& context, const Region& region);

}  // namespace neuron::compiler
