// Binary search in sorted rows, for the families that look values up.
#pragma once

#include "ops/registry.h"

namespace neuron::ops {

enum class Side : uint8_t { left, right };

// For each value the first place in its row of `rows` (sorted along the last dim) whose element is not below the value, or
// above it for Side::right: i32 (i64 for very long rows), shaped like `values`. `rows` has one dim, or values' leading dims.
// Comparisons are CPU's: a NaN among the values is above everything, one in the rows below everything.
Val search_sorted(const Val& rows, const Val& values, Side side);

// The same with NaN as the largest element of the rows, where sort puts it.
Val search_sorted_nan_last(const Val& rows, const Val& values, Side side);

// rows[.., places[..]], rows as in search_sorted; places outside are clamped to the last element.
Val look_up(const Val& rows, const Val& places);

}  // namespace neuron::ops
