// The common iteration space of an instruction's operands: the coarsest nest of loops in which every operand is affine.
#pragma once

#include <span>

#include "emulator/plan/plan.h"

namespace neuron::emulator::plan {

inline constexpr int kMaxRank = 8;
inline constexpr int kMaxOperands = 6;

struct Space {
  int rank = 0;  // dims, outermost first; dim 0 is the partition dim
  int operands = 0;
  uint32_t counts[kMaxRank] = {};
  int64_t strides[kMaxOperands][kMaxRank] = {};
  // Partition dim: counts[0] = (last - first) * per_partition at run time, partition_strides move to `first`.
  uint32_t per_partition = 1;
  int64_t partition_strides[kMaxOperands] = {};

  uint64_t elements(int from) const {
    uint64_t n = 1;
    for (int d = from; d < rank; ++d) n *= counts[d];
    return n;
  }
};

// Operands with one element per partition broadcast over the free elements; with one partition, over the partitions. False
// when the patterns have no common nest of at most kMaxRank loops. `merge_partitions` lets whole contiguous rows become one
// loop.
bool make_space(std::span<const Ref* const> refs, uint32_t partitions, bool merge_partitions, Space* out);

// As make_space, with the partition dim of each operand an ordinary outermost one (HBM to HBM copies): partitions may
// differ.
bool make_flat_space(std::span<const Ref* const> refs, Space* out);

}  // namespace neuron::emulator::plan
