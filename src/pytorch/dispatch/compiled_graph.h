// ir::Graph -> loaded executable, and its launch: the one way in which anything of src/pytorch reaches the device to compute
// (boxed kernels, copies, data-dependent operators, compiled graphs).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>

#include "ir/graph.h"
#include "pytorch/dispatch/tracking.h"
#include "runtime/runtime.h"

namespace neuron::pytorch {

struct CompiledGraph {
  std::shared_ptr<runtime::Executable> executable;
  std::vector<int32_t> inputs;   // tensor-parameter index of each launch input, in launch order (unused ones are absent)
  std::vector<int32_t> outputs;  // graph-output index of each launch output, in launch order
  int scalar_slots = 0;          // slots the caller passes; 0 when the program reads none
  std::shared_ptr<tracking::Record> record;

  // `parameter(i)` and `output(i)` give the address of tensor parameter i and graph output i.
  template <class Parameter, class Output>
  void launch(Parameter&& parameter, Output&& output, std::span<const uint64_t> scalars, int device) const {
    c10::SmallVector<void*, 16> in, out;
    for (const int32_t i : inputs) in.push_back(parameter(i));
    for (const int32_t i : outputs) out.push_back(output(i));
    launch_addresses(in, out, scalars, device);
  }
  void launch_addresses(std::span<void* const> in, std::span<void* const> out, std::span<const uint64_t> scalars,
                        int device) const;
};

// `scalar_slots`: slots that the graph's scalar parameters use. `signature` is for people.
Result<CompiledGraph> compile_graph(const ir::Graph& graph, int device, int scalar_slots, std::string signature);

std::string describe(const at::Tensor& t);  // "f32[2,3]"

}  // namespace neuron::pytorch
