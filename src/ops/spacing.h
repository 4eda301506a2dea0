// Evenly spaced numbers, as linspace and the edges of histograms need them.
#pragma once

#include "ops/registry.h"

namespace neuron::ops {

// n numbers from `start` to `end` (0-dim, one dtype), computed from both ends towards the middle, as CPU does.
Val evenly_spaced(const Val& start, const Val& end, int64_t n);
// Those of them at `place` (i64, any shape).
Val spaced_at(const Val& start, const Val& end, int64_t n, const Val& place);

}  // namespace neuron::ops
