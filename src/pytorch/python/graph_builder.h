#pragma once

#include <torch/csrc/utils/pybind.h>

namespace neuron::pytorch {

void bind_graph_builder(pybind11::module_& module);

}  // namespace neuron::pytorch
