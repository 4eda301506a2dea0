// Pass "tile" for loop regions: the space's dimensions are ordered by memory, merged where every access allows it, and
// assigned to partitions, free slots and loops. Integer arithmetic on extents only.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/region.h"

namespace neuron::compiler {

// Orders the dimensions by the strides of the largest store (or load), merges neighbours that are contiguous for every
// access. Changes expression and store views together.
void collapse(Region& region);

// One dimension's part in the tile.
struct DimPlan {
  bool partition = false;  // its blocks of `chunk` elements go on partitions
  bool slot = false;       // `chunk` elements of it lie in the free dimension
  int64_t chunk = 1;
};

// A piece of a dimension: `loops` iterations of partitions x chunk elements, from `start`.
struct DimPiece {
  int64_t start = 0;
  int64_t loops = 1, loop_step = 0;
  int64_t partitions = 1, partition_step = 0;
  int64_t chunk = 1;
};
// Full blocks, then at most two smaller ones.
std::vector<DimPiece> pieces(int64_t extent, const DimPlan& plan);

struct LoopTiling {
  std::vector<DimPlan> dims;
  uint32_t dma_buffers = 2, other_buffers = 2;
};

// `budget`: SBUF bytes per partition. `rows`: see ReduceScheme.
LoopTiling choose_loop_tiling(const Region& region, int64_t budget);

}  // namespace neuron::compiler
