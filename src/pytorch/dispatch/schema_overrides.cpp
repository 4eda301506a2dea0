#include "pytorch/dispatch/schema_overrides.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace neuron::pytorch {
namespace {

struct Override {
  std::string_view op;
  std::string_view functional;
  std::vector<std::string_view> hidden_writes;
};

// Reviewed by hand: tests/python/dispatch lists every schema that is neither derived nor here.
const std::vector<Override>& overrides() {
  static const std::vector<Override> table = {
      {"aten::normal_", "aten::normal_functional", {}},
      {"aten::bernoulli_.float", "aten::bernoulli.p", {}},
      {"aten::_index_put_impl_", "aten::index_put", {}},
      {"aten::rrelu_with_noise", "aten::rrelu_with_noise_functional", {}},
      {"aten::rrelu_with_noise.out", "aten::rrelu_with_noise_functional", {}},
      {"aten::rrelu_with_noise_", "aten::rrelu_with_noise_functional", {}},
      {"aten::native_batch_norm", "aten::_native_batch_norm_legit_functional", {"running_mean", "running_var"}},
      {"aten::native_batch_norm.out", "aten::_native_batch_norm_legit_functional", {"running_mean", "running_var"}},
      {"aten::_native_batch_norm_legit.out", "aten::_native_batch_norm_legit_functional", {}},
      {"aten::_batch_norm_with_update.out", "aten::_batch_norm_with_update_functional", {}},
      {"aten::_native_batch_norm_legit", "aten::_native_batch_norm_legit_functional", {}},
      {"aten::_batch_norm_with_update", "aten::_batch_norm_with_update_functional", {}},
  };
  return table;
}

bool is_out(const c10::FunctionSchema& schema, size_t i) {
  const c10::Argument& argument = schema.arguments()[i];
  return argument.kwarg_only() && argument.alias_info() && argument.alias_info()->isWrite();
}

bool is_factory_option(const c10::Argument& argument) {
  return argument.name() == "dtype" || argument.name() == "layout" || argument.name() == "device" ||
         argument.name() == "pin_memory";
}

// Same arguments by type and order; the functional form of an out= overload may have tensor options besides.
bool same_inputs(const c10::FunctionSchema& op, const c10::FunctionSchema& functional) {
  bool has_out = false;
  std::vector<const c10::Argument*> inputs;
  for (size_t i = 0; i < op.arguments().size(); ++i) {
    if (is_out(op, i)) {
      has_out = true;
    } else {
      inputs.push_back(&op.arguments()[i]);
    }
  }
  size_t next = 0;
  for (const c10::Argument& argument : functional.arguments()) {
    if (next < inputs.size() && inputs[next]->name() == argument.name() &&
        *inputs[next]->real_type() == *argument.real_type()) {
      ++next;
    } else if (!has_out || !is_factory_option(argument)) {
      return false;
    }
  }
  return next == inputs.size();
}

// "add_" -> "add", "__iand__" -> "__and__".
std::string functional_base(const std::string& base) {
  if (base.starts_with("__i") && base.ends_with("__")) return "__" + base.substr(3);
  if (base.ends_with("_") && !base.ends_with("__")) return base.substr(0, base.size() - 1);
  return base;
}

int argument_index(const c10::FunctionSchema& schema, std::string_view name) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (schema.arguments()[i].name() == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::optional<Derivation> derive(const c10::OperatorHandle& op, const Candidates& candidates) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string full = full_name(schema.operator_name());
  for (const Override& entry : overrides()) {
    if (entry.op != full) continue;
    const auto found = candidates.find(std::string(entry.functional.substr(0, entry.functional.find('.'))));
    if (found == candidates.end()) return std::nullopt;
    if (std::find(found->second.begin(), found->second.end(), entry.functional) == found->second.end()) return std::nullopt;
    Derivation out{std::string(entry.functional), {}};
    for (const auto name : entry.hidden_writes) out.hidden_writes.push_back(argument_index(schema, name));
    return out;
  }
  const std::string base = "aten::" + functional_base(schema.operator_name().name.substr(6));
  const auto found = candidates.find(base);
  if (found == candidates.end()) return std::nullopt;
  for (const std::string& candidate : found->second) {
    const std::string overload = candidate.size() > base.size() ? candidate.substr(base.size() + 1) : std::string();
    const auto functional = c10::Dispatcher::singleton().findSchema({base, overload});
    if (functional && same_inputs(schema, functional->schema())) return Derivation{candidate, {}};
  }
  return std::nullopt;
}

bool stays_whole(const std::string& /*op*/) { return false; }

int64_t number_result(const std::string& functional, size_t index, const c10::IValue* args) {
  // (..., max_q, max_k, ...) of the attention operators: sequence lengths of query and key.
  if (functional == "aten::_scaled_dot_product_fused_attention_overrideable" && (index == 4 || index == 5)) {
    return args[index - 4].toTensor().size(2);
  }
  TORCH_CHECK(false, functional, ": result ", index, " is a number that nothing computes");
}

}  // namespace neuron::pytorch
