// The one kernel behind every operator of ours: signature -> cached call -> outputs -> launch.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>

#include "pytorch/dispatch/operator_plan.h"

namespace neuron::pytorch {

struct CachedCall;

class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(std::unique_ptr<OperatorPlan> plan) : plan_(std::move(plan)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

 private:
  std::unique_ptr<OperatorPlan> plan_;
};

// The slow half (miss.cpp): result metadata, lowering, compilation. Raises PyTorch's errors for bad arguments; a call that
// has no lowering gives an entry with `fallback` set.
std::shared_ptr<const CachedCall> build_call(const OperatorPlan& plan, const c10::OperatorHandle& op,
                                             const c10::IValue* args, int device);

}  // namespace neuron::pytorch
