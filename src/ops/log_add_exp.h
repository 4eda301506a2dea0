// log(exp(x) + exp(y)), without overflow.
#pragma once

#include "ops/registry.h"

namespace neuron::ops {

// Floats; with `base2`, log2(2^a + 2^b).
Val log_add_exp(const Val& a, const Val& b, bool base2);

// The imaginary part is that of the operand with the larger real part (x when equal) turned by at most a quarter turn, so
// the order of the operands and of repeated additions matters. Not a number in any part makes both parts so.
Val complex_log_add_exp(const Val& x, const Val& y);

}  // namespace neuron::ops
