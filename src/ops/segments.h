// Consecutive runs of rows, as segment_reduce and embedding_bag have them.
#pragma once

#include "ops/registry.h"

namespace neuron::ops {

// The number of `ends` (i64 [B, S], rising along S) that are at or before each of n places: the run a place is in, S behind
// the last one. i64 [B, n].
Val run_of_places(const Val& ends, int64_t n);

// Combines rows of `values` [M, I] into the rows of `into` [R, I] that `row` (i64 [M]) names; rows named outside are
// dropped.
Val combine_rows(const Val& into, const Val& row, const Val& values, ir::Reducer combine);

}  // namespace neuron::ops
