// Numbers are runtime values, so what PyTorch checks about them must be checked at every call, not when compiling.
#pragma once

#include "pytorch/dispatch/data_dependent.h"

namespace neuron::pytorch {

// For random operators with parameters that have a valid range (normal_, uniform_, bernoulli_, ...), histograms, whose range
// may come from the values, lengths of segments and renorm's largest norm: raises PyTorch's error where CPU does. nullptr
// for every other operator.
Preparation value_check_for(const std::string& op);

}  // namespace neuron::pytorch
