// What operator schemas do not say: which functional operator computes an in-place one of another name, hidden mutation,
// int results; and the matching of in-place and out= overloads with functional ones from what they do say.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace neuron::pytorch {

struct Derivation {
  std::string functional;          // "aten::add.Tensor"
  std::vector<int> hidden_writes;  // stack arguments written without an annotation, appended to the declared ones
};

// Operators with a lowering by name without overload: "aten::add" -> {"aten::add.Tensor", "aten::add.Scalar"}.
using Candidates = std::unordered_map<std::string, std::vector<std::string>>;

// The functional operator of a mutating overload, if there is one among the candidates.
std::optional<Derivation> derive(const c10::OperatorHandle& op, const Candidates& candidates);

// "aten::add.Tensor"
std::string full_name(const c10::OperatorName& name);

// True for operators whose composite kernel must give way to ours although they are CompositeImplicitAutograd.
bool stays_whole(const std::string& op);

// Value of result `index`, which is an int in the schema.
int64_t number_result(const std::string& functional, size_t index, const c10::IValue* args);

}  // namespace neuron::pytorch
