#include "pytorch/dispatch/registration.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

#include "pytorch/dispatch/boxed_kernel.h"
#include "pytorch/dispatch/schema_overrides.h"
#include "pytorch/dispatch/tracking.h"
#include "pytorch/dispatch/value_checks.h"

namespace neuron::pytorch {
namespace {

using c10::TypeKind;

struct Registered {
  std::vector<std::string> bound, underived;
  Candidates candidates;
};
Registered& registered() {
  static auto* lists = new Registered();
  return *lists;
}

ArgumentKind kind_of_element(const c10::Type& element) {
  switch (element.kind()) {
    case TypeKind::TensorType:
      return ArgumentKind::tensor_list;
    case TypeKind::OptionalType:
      return ArgumentKind::tensor_list;  // Tensor?[]
    case TypeKind::NumberType:
      return ArgumentKind::number_list;
    case TypeKind::FloatType:
      return ArgumentKind::float_list;
    case TypeKind::BoolType:
      return ArgumentKind::bool_list;
    default:
      return ArgumentKind::int_list;
  }
}

// Nothing for types that no operator of ours takes (Dimname, Storage, ...).
bool classify(const c10::Argument& argument, ArgumentPlan& plan) {
  c10::TypePtr type = argument.real_type();
  if (type->kind() == TypeKind::OptionalType) type = type->castRaw<c10::OptionalType>()->getElementType();
  switch (type->kind()) {
    case TypeKind::TensorType:
      plan.kind = ArgumentKind::tensor;
      return true;
    case TypeKind::NumberType:
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      plan.kind = ArgumentKind::number;
      return true;
    case TypeKind::BoolType:
      plan.is_boolean = true;
      [[fallthrough]];
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::SymBoolType:
    case TypeKind::MemoryFormatType:
      plan.kind = ArgumentKind::structural;
      return true;
    case TypeKind::ScalarTypeType:
      plan.kind = ArgumentKind::structural;
      plan.is_dtype = true;
      return true;
    case TypeKind::LayoutType:
      plan.kind = ArgumentKind::ignored;
      return true;
    case TypeKind::StringType:
      plan.kind = ArgumentKind::text;
      return true;
    case TypeKind::GeneratorType:
      plan.kind = ArgumentKind::generator;
      return true;
    case TypeKind::DeviceObjType:
      plan.kind = ArgumentKind::device;
      return true;
    case TypeKind::ListType:
      plan.kind = kind_of_element(*type->castRaw<c10::ListType>()->getElementType());
      return true;
    default:
      return false;
  }
}

bool writes(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

bool returns_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& r) { return r.alias_info() && !r.alias_info()->isWrite(); });
}

// A lowering registered under a mutating name returns the new values of the mutated arguments, then the results.
bool plan_results_of_mutating(OperatorPlan& plan, const c10::FunctionSchema& schema, const std::vector<int>& written) {
  plan.results.clear();
  for (const int w : written) {
    ResultPlan r;
    r.list = plan.arguments[w].kind == ArgumentKind::tensor_list;
    r.written = w;
    plan.results.push_back(r);
  }
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() && result.alias_info()->isWrite()) continue;
    if (result.real_type()->kind() != TypeKind::TensorType) return false;
    plan.results.emplace_back();
  }
  return true;
}

// Builds the plan's results from the functional schema; false if they are of a kind that cannot be mapped.
bool plan_results(OperatorPlan& plan, const c10::FunctionSchema& functional, const std::vector<int>& written) {
  int lists = 0;
  for (const c10::Argument& result : functional.returns()) {
    ResultPlan r;
    const auto kind = result.real_type()->kind();
    r.list = kind == TypeKind::ListType;
    r.number = kind == TypeKind::IntType || kind == TypeKind::SymIntType;
    if (!r.list && !r.number && kind != TypeKind::TensorType) return false;
    for (size_t i = 0; r.list && i < plan.arguments.size(); ++i) {
      const bool twin =
          plan.arguments[i].kind == ArgumentKind::tensor_list && result.name() == plan.arguments[i].name + "_out";
      if (twin) r.length_from = static_cast<int>(i);
    }
    lists += r.list && r.length_from < 0;
    plan.results.push_back(r);
  }
  if (written.empty()) return lists <= 1;
  if (plan.functional == plan.name) return plan_results_of_mutating(plan, functional, written);
  if (plan.results.size() < written.size()) return false;
  const size_t first = plan.results.size() - written.size();
  for (size_t i = 0; i < written.size(); ++i) {
    ResultPlan& r = plan.results[first + i];
    r.written = written[i];
    if (r.list != (plan.arguments[written[i]].kind == ArgumentKind::tensor_list)) return false;
  }
  return true;
}

std::optional<c10::OperatorHandle> find_schema(const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? std::string() : name.substr(dot + 1)});
}

std::unique_ptr<OperatorPlan> make_plan(const c10::OperatorHandle& op, const std::string& functional_name,
                                        const std::vector<int>& hidden_writes) {
  static uint32_t next_id = 16;  // smaller ones belong to copies and other built-in signatures
  const c10::FunctionSchema& schema = op.schema();
  auto plan = std::make_unique<OperatorPlan>();
  plan->id = next_id++;
  plan->name = full_name(schema.operator_name());
  plan->functional = functional_name;
  plan->definition = ops::find(functional_name);
  plan->uses_rng = ops::uses_rng(*plan->definition);
  const auto functional = find_schema(functional_name);
  if (!functional) return nullptr;

  std::vector<int> written;
  bool has_dtype = false;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    ArgumentPlan a;
    a.name = argument.name();
    if (!classify(argument, a)) return nullptr;
    if (a.name == "pin_memory") a.kind = ArgumentKind::ignored;
    has_dtype = has_dtype || a.is_dtype;
    a.written = writes(argument) ||
                std::find(hidden_writes.begin(), hidden_writes.end(), static_cast<int>(i)) != hidden_writes.end();
    if (a.written) written.push_back(static_cast<int>(i));
    if (writes(argument) && argument.kwarg_only()) {
      a.read = false;
      plan->resizes = true;
    }
    if (a.kind == ArgumentKind::device) plan->device_argument = static_cast<int>(i);
    if (a.kind == ArgumentKind::generator) plan->generator_argument = static_cast<int>(i);
    plan->lists = plan->lists || a.kind == ArgumentKind::tensor_list;
    plan->arguments.push_back(std::move(a));
  }
  for (const ops::ScalarRequirement& requirement : ops::scalar_requirements(*plan->definition)) {
    for (ArgumentPlan& a : plan->arguments) {
      if (a.name != requirement.name) continue;
      a.known = requirement.structural;
      a.decides_shape = requirement.decides_shape && !requirement.structural;
      plan->shape_from_numbers = plan->shape_from_numbers || a.decides_shape;
      a.value_classes = requirement.value_classes;
      a.fits = requirement.fits;
    }
  }
  plan->mutates = !written.empty();
  if (functional_name != plan->name) {  // functional twins return out= results before the new values of mutated arguments
    std::stable_partition(written.begin(), written.end(), [&](int w) { return !plan->arguments[w].read; });
  }
  if (!plan_results(*plan, functional->schema(), written)) return nullptr;
  for (const c10::Argument& argument : functional->schema().arguments()) {
    if (argument.name() == "dtype" && plan->resizes && !has_dtype && argument.real_type()->kind() != TypeKind::TensorType) {
      plan->output_dtype_from = written.front();
    }
  }
  plan->returns = static_cast<int>(schema.returns().size());
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    const c10::Argument& r = schema.returns()[i];
    int from = -1;
    if (r.alias_info() && r.alias_info()->isWrite()) {
      for (const int w : written) {
        const auto* alias = schema.arguments()[w].alias_info();
        if (alias && alias->beforeSets() == r.alias_info()->beforeSets()) from = w;
      }
    }
    plan->returned_argument.push_back(from);
  }
  plan->preparation = preparation_for(plan->name);
  if (!plan->preparation) plan->preparation = value_check_for(plan->name);
  plan->executed = &tracking::executed_counter(plan->name);
  return plan;
}

bool composite_must_stay(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !stays_whole(full_name(op.schema().operator_name()));
}

// Operators whose composite form is better than a compiled graph: they end in copy_ (a plain device copy when dtype and
// layout allow it), allocate only, or say something about the tensor and not its values.
bool composite_is_better(const std::string& name) {
  static const std::set<std::string> names = {"aten::clone",
                                              "aten::contiguous",
                                              "aten::_to_copy",
                                              "aten::copy",
                                              "aten::alias",
                                              "aten::detach",
                                              "aten::lift",
                                              "aten::lift_fresh",
                                              "aten::resolve_conj",
                                              "aten::resolve_neg",
                                              "aten::_reshape_copy",
                                              "aten::empty",
                                              "aten::empty_like",
                                              "aten::empty_permuted",
                                              "aten::empty_strided",
                                              "aten::new_empty",
                                              "aten::new_empty_strided",
                                              "aten::new_zeros",
                                              "aten::new_ones",
                                              "aten::new_full",
                                              "aten::lift_fresh_copy",
                                              "aten::alias_copy",
                                              "aten::detach_copy",
                                              "aten::view_copy",
                                              "aten::expand_copy",
                                              "aten::_unsafe_view"};
  return names.contains(name.substr(0, name.find('.')));
}

class Registrar {
 public:
  Registrar() : library_(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__) {}

  void bind(const c10::OperatorHandle& op, const std::string& functional, const std::vector<int>& hidden_writes) {
    const std::string name = full_name(op.schema().operator_name());
    if (op.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) || composite_must_stay(op)) return;
    if (composite_is_better(name) || composite_is_better(functional)) return;
    auto plan = make_plan(op, functional, hidden_writes);
    if (!plan) {
      registered().underived.push_back(name);
      return;
    }
    library_.impl(name.substr(6).c_str(),
                  torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(std::move(plan))));
    registered().bound.push_back(name);
  }

 private:
  torch::Library library_;
};

}  // namespace

void register_operators() {
  static auto* registrar = new Registrar();
  auto& dispatcher = c10::Dispatcher::singleton();
  Candidates& candidates = registered().candidates;
  for (const std::string& name : ops::registered_operators()) {
    if (!name.starts_with("aten::")) continue;
    const auto op = find_schema(name);
    if (!op || returns_view(op->schema())) continue;
    candidates[name.substr(0, name.find('.'))].push_back(name);
    registrar->bind(*op, name, {});
  }
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op) continue;
    const auto& arguments = op->schema().arguments();
    const bool mutates = std::any_of(arguments.begin(), arguments.end(), writes);
    if (!mutates && name.name != "aten::native_batch_norm") continue;
    if (const auto derivation = derive(*op, candidates))
      registrar->bind(*op, derivation->functional, derivation->hidden_writes);
  }
}

const OperatorPlan* find_plan(const std::string& name) {
  static std::mutex mutex;
  static auto* plans = new std::unordered_map<std::string, std::unique_ptr<OperatorPlan>>();
  std::lock_guard lock(mutex);
  auto [it, inserted] = plans->try_emplace(name);
  if (inserted) {
    if (const auto op = find_schema(name)) {
      if (ops::find(name)) {
        it->second = make_plan(*op, name, {});
      } else if (const auto derivation = derive(*op, registered().candidates)) {
        it->second = make_plan(*op, derivation->functional, derivation->hidden_writes);
      }
    }
  }
  return it->second.get();
}

std::vector<std::string> registered_overloads() { return registered().bound; }
std::vector<std::string> underived_overloads() { return registered().underived; }

}  // namespace neuron::pytorch
