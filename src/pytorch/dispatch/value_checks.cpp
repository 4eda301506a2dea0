#include "pytorch/dispatch/value_checks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <array>

namespace neuron::pytorch {
namespace {

double number(const c10::IValue& value) { return value.isDouble() ? value.toDouble() : value.toScalar().toDouble(); }

// Suspicious values only: the CPU kernel, asked next, decides and words the error.
bool suspicious(const c10::FunctionSchema& schema, const c10::IValue* args) {
  double from = 0;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (args[i].isNone() || !args[i].isScalar()) continue;
    const double value = number(args[i]);
    if (name == "from") from = value;
    if (name == "to" && !(from < value)) return true;
    if (name == "std" && !(value > 0)) return true;
    if (name == "p" && !(value > 0 && value < 1)) return true;
    if ((name == "lambd" || name == "sigma") && !(value > 0)) return true;
  }
  return false;
}

bool check_values(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const c10::IValue* args = stack->data() + stack->size() - count;
  if (!suspicious(schema, args)) [[likely]]
    return false;
  torch::jit::Stack host(args, args + count);
  for (c10::IValue& value : host) {
    if (value.isTensor() && value.toTensor().defined()) {
      value = at::zeros({1}, value.toTensor().options().device(at::kCPU));
    } else if (value.isGenerator()) {
      value = c10::IValue();
    }
  }
  // The CPU's default generator must not notice.
  const at::Generator& generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state(generator.get_state());
  at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &host);
  at::Generator(generator).set_state(state);
  return false;
}

}  // namespace

Preparation value_check_for(const std::string& op) {
  static constexpr std::array<std::string_view, 9> kOperators = {
      "aten::normal_", "aten::uniform_",    "aten::bernoulli_.float", "aten::exponential_", "aten::geometric_",
      "aten::cauchy_", "aten::log_normal_", "aten::random_.from",     "aten::bernoulli.p"};
  for (const std::string_view name : kOperators) {
    if (op == name) return &check_values;
  }
  return nullptr;
}

}  // namespace neuron::pytorch
