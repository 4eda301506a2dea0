#include "ir/graph.h"

#include <algorithm>

#include "ir/op_info.h"

namespace neuron::ir {

int64_t Type::elements() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string to_string(const Type& type) {
  std::string s(neuron::name_of(type.dtype));
  s += '[';
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i) s += ',';
    s += std::to_string(type.shape[i]);
  }
  return s + ']';
}

namespace {

// Highest index of the parameters of one kind, plus one.
int32_t parameter_count(const Graph& graph, ParameterAttrs::Kind kind) {
  int32_t count = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::parameter) continue;
    const auto* attrs = std::get_if<ParameterAttrs>(&node.attrs);
    if (!attrs || attrs->kind != kind) continue;
    // A c128 scalar takes two slots.
    const int32_t slots = kind == ParameterAttrs::Kind::scalar && node.types[0].dtype == DType::c128 ? 2 : 1;
    count = std::max(count, attrs->index + slots);
  }
  return count;
}

}  // namespace

int32_t Graph::tensor_parameter_count() const { return parameter_count(*this, ParameterAttrs::Kind::tensor); }
int32_t Graph::scalar_parameter_count() const { return parameter_count(*this, ParameterAttrs::Kind::scalar); }

}  // namespace neuron::ir
