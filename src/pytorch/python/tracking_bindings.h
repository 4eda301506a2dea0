#pragma once

#include <torch/csrc/utils/pybind.h>

namespace neuron::pytorch {

// get_executed_ops, get_fallback_ops, executables, model_time, ...: dispatch/tracking.h for Python.
void bind_tracking(pybind11::module_& module);

}  // namespace neuron::pytorch
