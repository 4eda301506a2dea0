// Constant tables: numbers that follow from shapes alone (positions, counts, weights per position along a dimension).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/val.h"

namespace neuron::ops {

// One dim, i32.
Val index_table(ir::Builder& b, const std::vector<int64_t>& values);
// One dim; dtype f32 or f64.
Val weight_table(ir::Builder& b, DType dtype, const std::vector<double>& values);
// One dim, bool.
Val mask_table(ir::Builder& b, const std::vector<bool>& values);

// A vector with its elements along `dim` of a tensor of that rank, size 1 elsewhere: broadcasts against it.
Val along(const Val& vector, int64_t dim, int64_t rank);

// x at `positions` along `dim`. The dimension travels in front, so that whole rows are gathered.
Val take_positions(const Val& x, int64_t dim, const std::vector<int64_t>& positions);

}  // namespace neuron::ops
