// Result metadata by PyTorch's Meta kernels, for operators whose lowering declares no rule and for arguments that a rule
// does not accept: shapes, dtypes, strides, and PyTorch's own errors in its own words.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

#include "pytorch/dispatch/operator_plan.h"

namespace neuron::pytorch {

struct MetaResult {
  std::vector<c10::IValue> returns;    // of the overload, on device meta
  std::vector<c10::IValue> arguments;  // after the call: written ones have their final sizes
};

// Runs the overload on meta tensors. Nothing when PyTorch has no Meta kernel for it. Warnings about resizing are left to the
// real call.
std::optional<MetaResult> run_meta(const OperatorPlan& plan, const c10::OperatorHandle& op, const c10::IValue* args);

// Runs the CPU kernel on stand-ins of the same sizes and dtypes (zeros, inputs without memory of their own), only to have it
// raise what it raises for such arguments. Returns normally if it does not, or if the call is too large to try.
void raise_as_cpu_does(const OperatorPlan& plan, const c10::OperatorHandle& op, const c10::IValue* args);

// "Expected all tensors to be on the same device, ..." if an operand is neither on `device` nor a number.
void check_devices(const OperatorPlan& plan, const c10::IValue* args, int device);

}  // namespace neuron::pytorch
