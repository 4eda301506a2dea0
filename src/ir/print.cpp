// One line per node: "%3 = add f32[2,3] (%1, %2) {...} ; aten::add.Tensor". For dumps and test expectations.
#include "ir/element.h"
#include "ir/rules.h"

namespace neuron::ir {
namespace {

std::string value_name(Value v) {
  std::string s = "%" + std::to_string(v.node);
  if (v.result > 0) s += "#" + std::to_string(v.result);
  return s;
}

std::string real_text(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

std::string element_text(DType dtype, const uint8_t* p) {
  return with_number(dtype, [&]<class T>(T) -> std::string {
    const T v = load<T>(dtype, p);
    if constexpr (std::is_same_v<T, Complex>) {
      return real_text(v.real()) + "+" + real_text(v.imag()) + "i";
    } else if constexpr (std::is_same_v<T, double>) {
      return real_text(v);
    } else {
      return std::to_string(v);
    }
  });
}

std::string constant_text(const ConstantAttrs& a, const Type& type) {
  const size_t size = size_of(type.dtype);
  const size_t count = a.data.size() / size, shown = std::min<size_t>(count, 8);
  std::string s = a.splat ? "splat " : "[";
  for (size_t i = 0; i < shown; ++i) s += (i ? " " : "") + element_text(type.dtype, a.data.data() + i * size);
  if (shown < count) s += " ..." + std::to_string(count);
  return a.splat ? s : s + "]";
}

struct AttrText {
  const Node& node;
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const ParameterAttrs& a) const {
    const bool scalar = a.kind == ParameterAttrs::Kind::scalar;
    std::string s = (scalar ? "slot " : "index ") + std::to_string(a.index);
    if (!scalar) s += " strides " + list(a.strides);
    return a.name.empty() ? s : s + " " + a.name;
  }
  std::string operator()(const ConstantAttrs& a) const { return constant_text(a, node.types[0]); }
  std::string operator()(const DimAttrs& a) const { return "dim " + std::to_string(a.dim); }
  std::string operator()(const DimsAttrs& a) const { return "dims " + list(a.dims); }
  std::string operator()(const CompareAttrs& a) const { return std::string(name_of(a.direction)); }
  std::string operator()(const SliceAttrs& a) const {
    return "start " + list(a.start) + " limit " + list(a.limit) + " stride " + list(a.stride);
  }
  std::string operator()(const PadAttrs& a) const {
    return "low " + list(a.low) + " high " + list(a.high) + " interior " + list(a.interior);
  }
  std::string operator()(const StridedViewAttrs& a) const {
    return "offset " + std::to_string(a.offset) + " strides " + list(a.strides);
  }
  std::string operator()(const ReduceAttrs& a) const { return std::string(name_of(a.reducer)) + " dims " + list(a.dims); }
  std::string operator()(const ArgReduceAttrs& a) const {
    return std::string(a.maximum ? "maximum" : "minimum") + " dim " + std::to_string(a.dim);
  }
  std::string operator()(const ScanAttrs& a) const {
    return std::string(name_of(a.reducer)) + " dim " + std::to_string(a.dim) + (a.reverse ? " reverse" : "");
  }
  std::string operator()(const DotAttrs& a) const {
    return "batch " + list(a.lhs_batch) + list(a.rhs_batch) + " contract " + list(a.lhs_contract) + list(a.rhs_contract);
  }
  std::string operator()(const GatherAttrs& a) const {
    return "offset_dims " + list(a.offset_dims) + " collapsed " + list(a.collapsed_slice_dims) + " batching " +
           list(a.operand_batching_dims) + list(a.start_indices_batching_dims) + " map " + list(a.start_index_map) +
           " ivd " + std::to_string(a.index_vector_dim) + " sizes " + list(a.slice_sizes) +
           (a.check_bounds ? " checked" : " clamped");
  }
  std::string operator()(const ScatterAttrs& a) const {
    return std::string(name_of(a.combine)) + " window " + list(a.update_window_dims) + " inserted " +
           list(a.inserted_window_dims) + " batching " + list(a.input_batching_dims) +
           list(a.scatter_indices_batching_dims) + " map " + list(a.scatter_dims_to_operand_dims) + " ivd " +
           std::to_string(a.index_vector_dim) + (a.check_bounds ? " checked" : " dropped");
  }
  std::string operator()(const SortAttrs& a) const {
    return "dim " + std::to_string(a.dim) + (a.descending ? " descending" : " ascending");
  }
  std::string operator()(const TopKAttrs& a) const {
    return "k " + std::to_string(a.k) + (a.largest ? " largest" : " smallest");
  }
  std::string operator()(const RngAttrs&) const { return ""; }
  std::string operator()(const AttentionAttrs& a) const {
    std::string s = "scale " + real_text(a.scale);
    if (a.causal) s += " causal";
    if (a.has_mask) s += " mask";
    if (a.has_keep) s += " keep_scale " + real_text(a.keep_scale);
    return s;
  }
  std::string operator()(const CustomProgramAttrs& a) const { return std::to_string(a.container.size()) + " bytes"; }
};

}  // namespace

std::string print(const Graph& graph) {
  std::string s = "graph " + graph.name + "\n";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    s += "  %" + std::to_string(i) + " = " + std::string(name_of(node.op));
    for (const Type& t : node.types) s += " " + to_string(t);
    s += " (";
    for (size_t k = 0; k < node.operands.size(); ++k) s += (k ? ", " : "") + value_name(node.operands[k]);
    s += ")";
    const std::string attrs = std::visit(AttrText{node}, node.attrs);
    if (!attrs.empty()) s += " {" + attrs + "}";
    if (node.label > 0) s += " ; " + graph.labels[node.label];
    s += "\n";
  }
  for (const Output& o : graph.outputs) {
    s += "  output " + value_name(o.value) + " strides " + list(o.strides);
    if (o.alias >= 0) s += " alias " + std::to_string(o.alias);
    s += "\n";
  }
  return s;
}

}  // namespace neuron::ir
