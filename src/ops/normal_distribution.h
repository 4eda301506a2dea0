// What other families need of the relatives of the error function.
#pragma once

#include "ops/val.h"

namespace neuron::ops {

Val erfcx(const Val& x);  // exp(x^2) erfc(x)

}  // namespace neuron::ops
