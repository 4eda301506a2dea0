// Operators without a lowering run on the CPU: counted by name, warned about or refused (TORCH_NEURONX_FALLBACK).
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace neuron::pytorch {

// Copies device tensors to the CPU (same strides where they are dense), runs the CPU kernel, copies mutated arguments back
// and results to the device. `reason`: why there is no device kernel.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason);

enum class FallbackMode : uint8_t { allow, warn, error };
FallbackMode fallback_mode();
void set_fallback_mode(FallbackMode mode);

}  // namespace neuron::pytorch
