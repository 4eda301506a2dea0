// Vector norms, for every operator that needs one.
#pragma once

#include <vector>

#include "ops/registry.h"

namespace neuron::ops {

// The norm of that order over `dims`; of complex numbers a real number.
Val vector_norm(const Val& x, double order, const std::vector<int64_t>& dims, bool keep);

}  // namespace neuron::ops
