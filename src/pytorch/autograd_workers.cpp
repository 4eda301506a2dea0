#include "pytorch/autograd_workers.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include "pytorch/device.h"
#include "runtime/runtime.h"

namespace neuron::pytorch {
namespace {

// A backward pass of one node without work. A thread runs it after what it still holds, and nothing in it is known to
// Python.
struct Marker final : torch::autograd::Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&& inputs) override { return {}; }
};

void pass_through(int device) {
  const at::Tensor gradient =
      at::empty({0}, at::TensorOptions().device(at::Device(kNeuron, static_cast<c10::DeviceIndex>(device))));
  auto marker = c10::make_intrusive<Marker>();
  marker->add_input_metadata(gradient);
  const torch::autograd::edge_list roots{torch::autograd::Edge(std::move(marker), 0)};
  torch::autograd::Engine::get_default_engine().execute(roots, {gradient}, /*keep_graph=*/false, /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
}

}  // namespace

void drain_autograd_workers() noexcept {
  if (!runtime::initialized()) {
    return;
  }
  try {
    for (int device = 0; device < runtime::device_count(); ++device) {
      pass_through(device);
    }
  } catch (const std::exception&) {
    // The engine refuses to run, in a forked child for example: then there are no threads to wait for.
  }
}

}  // namespace neuron::pytorch
