// Pass "plan memory": places of tiles in SBUF and PSUM, places of scratch tensors in one HBM arena. Both by lifetime: two
// things may share bytes only if the steps that use them do not interleave.
#pragma once

#include <vector>

#include "base/status.h"
#include "compiler/program_builder.h"

namespace neuron::compiler {

// Places the tiles that were created since `mark` (those of one region). does_not_fit: names the memory and the bytes.
Status place_tiles(ProgramBuilder& builder, const ProgramBuilder::Mark& mark);

// Where each scratch tensor lies in the arena (by tensor index; -1 for others), and the arena's size.
struct ArenaPlan {
  std::vector<int64_t> offset;
  int64_t bytes = 0;
};
ArenaPlan place_scratch(const isa::Program& program);

// Replaces all scratch tensors by one, "scratch", and renumbers the tensor table.
void merge_scratch(isa::Program& program, const ArenaPlan& plan);

}  // namespace neuron::compiler
