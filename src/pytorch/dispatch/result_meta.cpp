#include "pytorch/dispatch/result_meta.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include "pytorch/device.h"

namespace neuron::pytorch {
namespace {

at::Tensor to_meta(const at::Tensor& t) {
  if (!t.defined() || !t.is_privateuseone()) return t;  // host numbers stay: promotion looks at them
  at::Tensor meta = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta));
  if (t.is_conj()) meta._set_conj(true);
  if (t.is_neg()) meta._set_neg(true);
  return meta;
}

c10::IValue to_meta(const ArgumentPlan& plan, const c10::IValue& value) {
  if (value.isNone()) return value;
  switch (plan.kind) {
    case ArgumentKind::tensor:
      return to_meta(value.toTensor());
    case ArgumentKind::device:
      return c10::Device(c10::kMeta);
    case ArgumentKind::generator:
      return {};
    case ArgumentKind::tensor_list: {
      if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const c10::IValue& element : value.toListRef()) list.push_back(to_meta(element.toTensor()));
        return list;
      }
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& element : value.toListRef()) {
        list.push_back(element.isNone() ? std::nullopt : std::make_optional(to_meta(element.toTensor())));
      }
      return list;
    }
    default:
      return value;
  }
}

constexpr int64_t kMaxProbeElements = 1 << 22;

// A CPU tensor of the same sizes and dtype. Inputs share one zero element, unless an operator may ask whether they are
// contiguous; written ones have their own memory and strides.
at::Tensor stand_in(const at::Tensor& t, bool written, int64_t& elements) {
  if (!t.defined() || !t.is_privateuseone()) return t;
  elements += t.numel();
  if (elements > kMaxProbeElements) return t;
  const auto options = t.options().device(at::kCPU);
  if (!written && !t.is_contiguous()) return at::zeros({}, options).expand(t.sizes());
  return at::empty_strided(t.sizes(), t.strides(), options).zero_();
}

c10::IValue stand_in(const ArgumentPlan& plan, const c10::IValue& value, int64_t& elements) {
  if (value.isNone()) return value;
  switch (plan.kind) {
    case ArgumentKind::tensor:
      return stand_in(value.toTensor(), plan.written, elements);
    case ArgumentKind::device:
      return c10::Device(c10::kCPU);
    case ArgumentKind::generator:
      return {};
    case ArgumentKind::tensor_list: {
      if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const c10::IValue& element : value.toListRef())
          list.push_back(stand_in(element.toTensor(), plan.written, elements));
        return list;
      }
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& element : value.toListRef()) {
        list.push_back(element.isNone() ? std::nullopt : std::make_optional(stand_in(element.toTensor(), false, elements)));
      }
      return list;
    }
    default:
      return value;
  }
}

class Silence final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

std::optional<MetaResult> run_meta(const OperatorPlan& plan, const c10::OperatorHandle& op, const c10::IValue* args) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return std::nullopt;
  at::AutoDispatchBelowADInplaceOrView guard;
  MetaResult out;
  torch::jit::Stack stack;
  for (size_t i = 0; i < plan.arguments.size(); ++i) stack.push_back(to_meta(plan.arguments[i], args[i]));
  out.arguments = stack;
  Silence silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } catch (const std::exception&) {
    raise_as_cpu_does(plan, op, args);  // many Meta kernels are Python references with words of their own
    throw;
  }
  out.returns = std::move(stack);
  return out;
}

void raise_as_cpu_does(const OperatorPlan& plan, const c10::OperatorHandle& op, const c10::IValue* args) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return;
  at::AutoDispatchBelowADInplaceOrView guard;
  Silence silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  torch::jit::Stack stack;
  int64_t elements = 0;
  for (size_t i = 0; i < plan.arguments.size(); ++i) stack.push_back(stand_in(plan.arguments[i], args[i], elements));
  if (elements > kMaxProbeElements) return;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

void check_devices(const OperatorPlan& plan, const c10::IValue* args, int device) {
  const c10::Device here(kNeuron, static_cast<c10::DeviceIndex>(device));
  auto check = [&](const c10::IValue& value, const std::string& name, bool written) {
    if (!value.isTensor() || !value.toTensor().defined()) return;
    const at::Tensor& t = value.toTensor();
    const bool number = t.device().is_cpu() && t.dim() == 0 && !written;
    TORCH_CHECK(t.device() == here || number,
                "Expected all tensors to be on the same device, but found at least two devices, ", here, " and ", t.device(),
                "! (when checking argument for argument ", name, " of ", plan.name, ")");
  };
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const ArgumentPlan& argument = plan.arguments[i];
    if (argument.kind == ArgumentKind::tensor) {
      check(args[i], argument.name, argument.written);
    } else if (argument.kind == ArgumentKind::tensor_list && !args[i].isNone()) {
      for (const c10::IValue& element : args[i].toListRef()) check(element, argument.name, argument.written);
    }
  }
}

}  // namespace neuron::pytorch
