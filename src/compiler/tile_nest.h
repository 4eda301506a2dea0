// Loop nests for regions with code of their own: dimensions are divided by DimPlan (loop_tiling.h), every combination of
// full and smaller pieces gets its loops, and the body sees a Frame.
#pragma once

#include <functional>
#include <vector>

#include "compiler/loop_tiling.h"
#include "compiler/tile_emitter.h"

namespace neuron::compiler {

class TileNest {
 public:
  TileNest(ProgramBuilder& builder, std::vector<int64_t> extents, std::vector<DimPlan> plans);

  // Loops over all dimensions in `order` (outermost first), all of this kind.
  Status run(const std::vector<size_t>& order, isa::LoopKind kind, LoopFacts facts,
             const std::function<Status(const Frame&)>& body);
  // The most partitions a piece has.
  int64_t widest() const;

 private:
  Status choose(size_t at, const std::vector<size_t>& order, std::vector<DimPiece>& choice, isa::LoopKind kind,
                LoopFacts facts, const std::function<Status(const Frame&)>& body);
  Status open(size_t at, const std::vector<size_t>& order, const std::vector<DimPiece>& choice, isa::LoopKind kind,
              LoopFacts facts, const std::function<Status(const Frame&)>& body);

  ProgramBuilder& builder_;
  std::vector<int64_t> extents_;
  std::vector<DimPlan> plans_;
  Frame frame_;
};

// Removes dimensions of size 1 and merges neighbours (inside each of the consecutive groups, given by their sizes) that are
// contiguous in every view. Views and extents change together; group sizes are updated.
void collapse_groups(std::vector<int64_t>& extents, std::vector<size_t>& groups, const std::vector<View*>& views);

}  // namespace neuron::compiler
