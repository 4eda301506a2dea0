// Operators whose result size depends on values: count -> one synchronisation -> fill. The fill executable is made for a
// capacity class (the next power of two), so a new count seldom compiles.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace neuron::pytorch {

// Something that looks at a call before its signature is built: it may rewrite arguments on the stack (boolean masks become
// index tensors), or complete the call itself and return true.
using Preparation = bool (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// For index, index_put and relatives; nullptr for every other operator.
Preparation preparation_for(const std::string& op);

// The capacity that results of `count` elements are computed with.
int64_t capacity_class(int64_t count);

}  // namespace neuron::pytorch
