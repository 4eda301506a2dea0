// log(exp(x) + exp(y)) of complex numbers.
#pragma once

#include "ops/registry.h"

namespace neuron::ops {

// The imaginary part is that of the operand with the larger real part (x when equal) turned by at most a quarter turn, so
// the order of the operands and of repeated additions matters. Not a number in any part makes both parts so.
Val complex_log_add_exp(const Val& x, const Val& y);

}  // namespace neuron::ops
