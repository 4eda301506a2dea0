#include "pytorch/dispatch/value_checks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>

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

// The CPU kernel, for the error it may raise.
void ask_cpu(const c10::OperatorHandle& op, torch::jit::Stack host) {
  for (c10::IValue& value : host) {
    if (value.isGenerator()) value = c10::IValue();
  }
  // The CPU's default generator must not notice.
  const at::Generator& generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state(generator.get_state());
  at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &host);
  at::Generator(generator).set_state(state);
}

bool check_values(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const c10::IValue* args = stack->data() + stack->size() - count;
  if (!suspicious(schema, args)) [[likely]]
    return false;
  torch::jit::Stack host(args, args + count);
  for (c10::IValue& value : host) {
    if (value.isTensor() && value.toTensor().defined()) value = at::zeros({1}, value.toTensor().options().device(at::kCPU));
  }
  ask_cpu(op, std::move(host));
  return false;
}

// --- ranges of histograms, which the values may decide ---

// The range that the numbers give; nothing if the values decide it.
std::optional<std::vector<double>> given_range(const c10::FunctionSchema& schema, const c10::IValue* args) {
  std::vector<double> range;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (name == "range" && !args[i].isNone()) return args[i].toDoubleVector();
    if (name == "min" || name == "max") range.push_back(number(args[i]));
  }
  if (range.size() == 2 && range[0] != range[1]) return range;
  return std::nullopt;
}

// The smallest and the largest value of each coordinate, as two points on the CPU.
at::Tensor extremes(const at::Tensor& points) {
  const auto [low, high] = at::aminmax(points, 0);
  return at::stack({low, high}).cpu();
}

bool in_order(const std::vector<double>& range) {
  for (size_t i = 0; i + 1 < range.size(); i += 2) {
    if (!std::isfinite(range[i]) || !std::isfinite(range[i + 1]) || range[i] > range[i + 1]) return false;
  }
  return range.size() % 2 == 0;
}

// Costs a synchronisation where the values decide the range.
bool check_range(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const c10::IValue* args = stack->data() + stack->size() - count;
  const at::Tensor self = args[0].toTensor();
  const bool dimensional = schema.name().starts_with("aten::_histogramdd");
  const int64_t dimensions = dimensional && self.dim() > 0 ? self.size(-1) : 1;
  if (!self.is_floating_point() || self.numel() == 0) return false;
  const auto range = given_range(schema, args);
  if (range && in_order(*range) && (!dimensional || static_cast<int64_t>(range->size()) == 2 * dimensions)) return false;
  const at::Tensor points = self.reshape({-1, dimensions});
  const at::Tensor ends = range ? at::zeros({2, dimensions}, self.options().device(at::kCPU)) : extremes(points);
  if (!range && at::isfinite(ends).all().item<bool>()) return false;
  torch::jit::Stack host(args, args + count);
  host[0] = dimensional ? ends : ends.flatten();
  for (size_t i = 1; i < count; ++i) {
    if (!host[i].isTensor()) continue;
    const bool written = schema.arguments()[i].alias_info() != nullptr;
    host[i] = written ? c10::IValue(at::empty({0}, host[i].toTensor().options().device(at::kCPU))) : c10::IValue();
  }
  ask_cpu(op, std::move(host));
  return false;
}

// --- renorm's largest norm ---

bool check_largest_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const c10::IValue* args = stack->data() + stack->size() - count;
  if (number(args[3]) >= 0) return false;
  torch::jit::Stack host(args, args + count);
  for (c10::IValue& value : host) {
    if (!value.isTensor()) continue;
    const at::Tensor t = value.toTensor();
    value = at::zeros(t.sizes(), t.options().device(at::kCPU));
  }
  ask_cpu(op, std::move(host));
  return false;
}

// --- lengths of segments ---

// Costs a synchronisation, unless the caller vouches for the lengths.
bool check_lengths(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const c10::IValue* args = stack->data() + stack->size() - count;
  const at::Tensor data = args[0].toTensor();
  const auto lengths = args[2].toOptional<at::Tensor>();
  const bool vouched = args[6].toBool();
  if (vouched || !lengths || !lengths->defined() || lengths->numel() == 0 || lengths->dim() > data.dim()) return false;
  const at::Tensor on_host = lengths->cpu();
  const bool negative = on_host.lt(0).any().item<bool>();
  if (!negative && on_host.sum(-1).eq(data.size(lengths->dim() - 1)).all().item<bool>()) return false;
  torch::jit::Stack host(args, args + count);
  host[0] = at::zeros(data.sizes(), data.options().device(at::kCPU));
  host[2] = on_host;
  ask_cpu(op, std::move(host));
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
  static constexpr std::array<std::string_view, 4> kHistograms = {
      "aten::histc", "aten::histogram.bin_ct", "aten::_histogramdd_bin_edges", "aten::_histogramdd_from_bin_cts"};
  for (const std::string_view name : kHistograms) {
    if (op.starts_with(name)) return &check_range;
  }
  if (op == "aten::renorm" || op == "aten::renorm_" || op == "aten::renorm.out") return &check_largest_norm;
  if (op == "aten::segment_reduce") return &check_lengths;
  return nullptr;
}

}  // namespace neuron::pytorch
