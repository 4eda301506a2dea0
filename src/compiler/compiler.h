// ir::Graph -> isa::Program: named passes (canonicalise, fuse, tile, select, plan memory, schedule), analytic choices only.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"
#include "isa/program.h"

namespace neuron::compiler {

struct Options {
  std::string target = "trn2";
  // Passes to leave out, by name: "canonicalize", "fuse", "select", "schedule_double_buffer", ... (for tests and debugging).
  std::vector<std::string> disabled_passes;
  // Round every float intermediate to its dtype, as eager PyTorch does between operators (compiled graphs keep f32 inside a
  // region otherwise).
  bool emulate_precision_casts = false;
  // Directory for graph, regions and disassembly of this compilation; "" = none.
  std::string dump_dir;
};

// The program's HBM tensors: "input<i>" for tensor parameter i, "output<i>" for graph output i, "scalars" for the table of
// runtime scalar slots (8 bytes each; present only if used), "scratch" and constants as needed. An output with an alias has
// Tensor::alias_of set and is passed the same buffer. Unused parameters have no tensor.
//
// Errors: unsupported (names op, dtype, shape), does_not_fit (names the region and the bytes).
Result<isa::Program> compile(const ir::Graph& graph, const Options& options = {});

// What fused into what, one line per region; for explain() and tests.
Result<std::string> describe_regions(const ir::Graph& graph, const Options& options = {});

}  // namespace neuron::compiler
