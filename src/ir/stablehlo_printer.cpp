// StableHLO in MLIR's generic form: "stablehlo.add"(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>.
//
// Generic form for every operator, dims as array<i64: ..>, floats as bit patterns, bulk data as raw little-endian hex (bool
// as true/false lists, whose binary form differs between MLIR versions). Nothing newer than StableHLO 1.4 is used.
// Arguments: tensor parameters by index, then scalar slots. An output that overwrites a parameter carries
// tf.aliasing_output.
#include <algorithm>
#include <map>

#include "ir/evaluate.h"
#include "ir/expand.h"
#include "ir/rules.h"

namespace neuron::ir {
namespace {

std::string element_type(DType t) {
  switch (t) {
    case DType::boolean:
      return "i1";
    case DType::f8e4m3fn:
      return "f8E4M3FN";
    case DType::f8e5m2:
      return "f8E5M2";
    case DType::c64:
      return "complex<f32>";
    case DType::c128:
      return "complex<f64>";
    default:
      break;
  }
  const std::string name(neuron::name_of(t));
  if (is_unsigned_integer(t)) return "u" + ("i" + name.substr(1));
  return name;
}

std::string tensor_type(const Type& t) {
  std::string s = "tensor<";
  for (int64_t d : t.shape) s += std::to_string(d) + "x";
  return s + element_type(t.dtype) + ">";
}

std::string hex(const uint8_t* p, size_t bytes, bool most_significant_first) {
  constexpr char digits[] = "0123456789ABCDEF";
  std::string s;
  for (size_t i = 0; i < bytes; ++i) {
    const uint8_t byte = p[most_significant_first ? bytes - 1 - i : i];
    s += digits[byte >> 4];
    s += digits[byte & 15];
  }
  return s;
}

// One element as a literal inside dense<..>.
std::string literal(DType t, const uint8_t* p) {
  if (t == DType::boolean) return *p ? "true" : "false";
  if (is_floating(t)) return "0x" + hex(p, size_of(t), true);
  if (is_unsigned_integer(t)) return std::to_string(load_unsigned(t, p));
  return std::to_string(load_signed(t, p));
}

// Elements as nested lists.
std::string nested(const Type& t, const uint8_t* data, size_t dim, int64_t& at) {
  if (dim == t.shape.size()) return literal(t.dtype, data + at++ * static_cast<int64_t>(size_of(t.dtype)));
  std::string s = "[";
  for (int64_t i = 0; i < t.shape[dim]; ++i) s += (i ? ", " : "") + nested(t, data, dim + 1, at);
  return s + "]";
}

std::string dense(const Type& t, const ConstantAttrs& a) {
  const std::string type = " : " + tensor_type(t);
  if (t.elements() == 0) return "dense<>" + type;
  const bool one = a.splat || t.elements() == 1;
  if (one && !is_complex(t.dtype)) return "dense<" + literal(t.dtype, a.data.data()) + ">" + type;
  if (t.dtype == DType::boolean) {
    int64_t at = 0;
    return "dense<" + nested(t, a.data.data(), 0, at) + ">" + type;
  }
  if (!a.splat) return "dense<\"0x" + hex(a.data.data(), a.data.size(), false) + "\">" + type;
  std::vector<uint8_t> all;  // complex numbers have no exact literal but raw data
  for (int64_t i = 0; i < t.elements(); ++i) all.insert(all.end(), a.data.begin(), a.data.end());
  return "dense<\"0x" + hex(all.data(), all.size(), false) + "\">" + type;
}

std::string dims(const std::vector<int64_t>& values) {
  std::string s = "array<i64";
  for (size_t i = 0; i < values.size(); ++i) s += (i ? ", " : ": ") + std::to_string(values[i]);
  return s + ">";
}

// Fields of a structured attribute, empty lists left out.
class Fields {
 public:
  void add(const char* name, const std::vector<int64_t>& values) {
    if (!values.empty()) append(std::string(name) + " = " + list(values));
  }
  void add(const char* name, int64_t value) { append(std::string(name) + " = " + std::to_string(value)); }
  const std::string& text() const { return text_; }

 private:
  void append(const std::string& field) { text_ += (text_.empty() ? "" : ", ") + field; }
  std::string text_;
};

std::string dot_attrs(const DotAttrs& a) {
  Fields f;
  f.add("lhs_batching_dimensions", a.lhs_batch);
  f.add("rhs_batching_dimensions", a.rhs_batch);
  f.add("lhs_contracting_dimensions", a.lhs_contract);
  f.add("rhs_contracting_dimensions", a.rhs_contract);
  return "dot_dimension_numbers = #stablehlo.dot<" + f.text() + ">";
}

std::string gather_attrs(const GatherAttrs& a) {
  Fields f;
  f.add("offset_dims", a.offset_dims);
  f.add("collapsed_slice_dims", a.collapsed_slice_dims);
  f.add("operand_batching_dims", a.operand_batching_dims);
  f.add("start_indices_batching_dims", a.start_indices_batching_dims);
  f.add("start_index_map", a.start_index_map);
  f.add("index_vector_dim", a.index_vector_dim);
  return "dimension_numbers = #stablehlo.gather<" + f.text() + ">, slice_sizes = " + dims(a.slice_sizes) +
         ", indices_are_sorted = false";
}

std::string scatter_attrs(const ScatterAttrs& a) {
  Fields f;
  f.add("update_window_dims", a.update_window_dims);
  f.add("inserted_window_dims", a.inserted_window_dims);
  f.add("input_batching_dims", a.input_batching_dims);
  f.add("scatter_indices_batching_dims", a.scatter_indices_batching_dims);
  f.add("scatter_dims_to_operand_dims", a.scatter_dims_to_operand_dims);
  f.add("index_vector_dim", a.index_vector_dim);
  return "scatter_dimension_numbers = #stablehlo.scatter<" + f.text() +
         ">, indices_are_sorted = false, unique_indices = false";
}

// Attributes of operators that need no region.
std::string attributes(const Node& n) {
  switch (n.op) {
    case Op::constant:
      return "value = " + dense(n.types[0], std::get<ConstantAttrs>(n.attrs));
    case Op::iota:
      return "iota_dimension = " + std::to_string(std::get<DimAttrs>(n.attrs).dim) + " : i64";
    case Op::concatenate:
      return "dimension = " + std::to_string(std::get<DimAttrs>(n.attrs).dim) + " : i64";
    case Op::compare:
      return "comparison_direction = #stablehlo<comparison_direction " +
             std::string(name_of(std::get<CompareAttrs>(n.attrs).direction)) + ">";
    case Op::broadcast_in_dim:
      return "broadcast_dimensions = " + dims(std::get<DimsAttrs>(n.attrs).dims);
    case Op::transpose:
      return "permutation = " + dims(std::get<DimsAttrs>(n.attrs).dims);
    case Op::reverse:
      return "dimensions = " + dims(std::get<DimsAttrs>(n.attrs).dims);
    case Op::slice: {
      const auto& a = std::get<SliceAttrs>(n.attrs);
      return "start_indices = " + dims(a.start) + ", limit_indices = " + dims(a.limit) + ", strides = " + dims(a.stride);
    }
    case Op::pad: {
      const auto& a = std::get<PadAttrs>(n.attrs);
      return "edge_padding_low = " + dims(a.low) + ", edge_padding_high = " + dims(a.high) +
             ", interior_padding = " + dims(a.interior);
    }
    case Op::dynamic_slice:
      return "slice_sizes = " + dims(n.types[0].shape);
    case Op::dot_general:
      return dot_attrs(std::get<DotAttrs>(n.attrs));
    case Op::gather:
      return gather_attrs(std::get<GatherAttrs>(n.attrs));
    case Op::scatter:
      return scatter_attrs(std::get<ScatterAttrs>(n.attrs));
    default:
      return "";
  }
}

bool is_custom_call(const Node& n) {
  switch (n.op) {
    case Op::asin:
    case Op::acos:
    case Op::atan:
    case Op::asinh:
    case Op::acosh:
    case Op::atanh:
      return true;  // of complex numbers; of floats they are expanded
    case Op::erf:
    case Op::erfc:
    case Op::erf_inv:
    case Op::lgamma:
    case Op::digamma:
    case Op::nextafter:
    case Op::gcd:
    case Op::custom_program:
      return true;
    default:
      return false;
  }
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph), names_(graph.nodes.size()) {}

  std::string module() {
    std::string name = graph_.name.empty() ? "graph" : graph_.name;
    for (char& c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    }
    text_ = "module @" + name + " {\n  func.func public @main(" + arguments() + ") -> (" + results() + ") {\n";
    for (size_t i = 0; i < graph_.nodes.size(); ++i) print_node(static_cast<int32_t>(i));
    std::string values, types;
    for (const Output& o : graph_.outputs) {
      values += (values.empty() ? "" : ", ") + name_of_value(o.value);
      types += (types.empty() ? "" : ", ") + tensor_type(graph_.type(o.value));
    }
    line("\"func.return\"(" + values + ") : (" + types + ") -> ()");
    return text_ + "  }\n}\n";
  }

 private:
  void line(const std::string& s) { text_ += "    " + s + "\n"; }

  std::string name_of_value(Value v) const {
    const std::string& base = names_[v.node];
    return graph_.nodes[v.node].types.size() == 1 ? base : base + "#" + std::to_string(v.result);
  }

  // Argument order: (kind, index). Several parameter nodes of one index share the argument.
  std::string arguments() {
    std::map<std::pair<int, int32_t>, std::vector<int32_t>> parameters;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].op != Op::parameter) continue;
      const auto& a = std::get<ParameterAttrs>(graph_.nodes[i].attrs);
      parameters[{static_cast<int>(a.kind), a.index}].push_back(static_cast<int32_t>(i));
    }
    std::string s;
    int count = 0;
    for (const auto& [key, nodes] : parameters) {
      const std::string name = "%arg" + std::to_string(count);
      for (int32_t node : nodes) names_[node] = name;
      s += (count++ ? ", " : "") + name + ": " + tensor_type(graph_.nodes[nodes[0]].types[0]) + aliasing(key);
    }
    return s;
  }

  std::string aliasing(const std::pair<int, int32_t>& key) const {
    if (key.first != static_cast<int>(ParameterAttrs::Kind::tensor)) return "";
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (graph_.outputs[i].alias == key.second) return " {tf.aliasing_output = " + std::to_string(i) + " : i32}";
    }
    return "";
  }

  std::string results() const {
    std::string s;
    for (const Output& o : graph_.outputs) s += (s.empty() ? "" : ", ") + tensor_type(graph_.type(o.value));
    return s;
  }

  std::string signature(const Node& n, const std::vector<std::string>& extra_types = {}) const {
    std::string s = " : (";
    for (size_t i = 0; i < n.operands.size(); ++i) s += (i ? ", " : "") + tensor_type(graph_.type(n.operands[i]));
    for (const std::string& t : extra_types) s += ", " + t;
    s += ") -> ";
    if (n.types.size() == 1) return s + tensor_type(n.types[0]);
    s += "(";
    for (size_t i = 0; i < n.types.size(); ++i) s += (i ? ", " : "") + tensor_type(n.types[i]);
    return s + ")";
  }

  std::string operands(const Node& n) const {
    std::string s;
    for (size_t i = 0; i < n.operands.size(); ++i) s += (i ? ", " : "") + name_of_value(n.operands[i]);
    return s;
  }

  // ({ ^bb0(%a: T, %b: T): %r = combine(%a, %b); return %r })
  std::string combiner(Reducer reducer, DType t) const {
    const std::string type = tensor_type({t, {}});
    std::string s = "({\n      ^bb0(%a: " + type + ", %b: " + type + "):\n";
    std::string result = "%b";
    if (reducer != Reducer::assign) {
      s += "        %r = \"stablehlo." + std::string(name_of(reducer)) + "\"(%a, %b) : (" + type + ", " + type + ") -> " +
           type + "\n";
      result = "%r";
    }
    return s + "        \"stablehlo.return\"(" + result + ") : (" + type + ") -> ()\n    })";
  }

  void print_reduce(const Node& n, const std::string& result) {
    const auto& a = std::get<ReduceAttrs>(n.attrs);
    const DType t = n.types[0].dtype;
    const Type scalar{t, {}};
    ConstantAttrs identity{std::vector<uint8_t>(size_of(t)), true};
    with_number(t, [&]<class T>(T) { store(t, identity.data.data(), reducer_identity<T>(a.reducer, t)); });
    const std::string init = result + "_init";
    line(init + " = \"stablehlo.constant\"() <{value = " + dense(scalar, identity) + "}> : () -> " + tensor_type(scalar));
    line(result + " = \"stablehlo.reduce\"(" + operands(n) + ", " + init + ") <{dimensions = " + dims(a.dims) + "}> " +
         combiner(a.reducer, t) + signature(n, {tensor_type(scalar)}));
  }

  // Values with their positions; NaN sorts as the largest number.
  void print_sort(const Node& n, const std::string& result) {
    const auto& a = std::get<SortAttrs>(n.attrs);
    const Type& type = n.types[0];
    const std::string scalar = tensor_type({type.dtype, {}}), index = tensor_type({DType::i64, {}}),
                      flag = tensor_type({DType::boolean, {}});
    line(result + "_at = \"stablehlo.iota\"() <{iota_dimension = " + std::to_string(a.dim) + " : i64}> : () -> " +
         tensor_type(n.types[1]));
    std::string s = result + ":2 = \"stablehlo.sort\"(" + operands(n) + ", " + result +
                    "_at) <{dimension = " + std::to_string(a.dim) +
                    " : i64, is_stable = true}> ({\n      ^bb0(%a: " + scalar + ", %b: " + scalar + ", %i: " + index +
                    ", %j: " + index + "):\n";
    const auto compare = [&](const char* name, const char* direction, const char* x, const char* y) {
      s += std::string("        ") + name + " = \"stablehlo.compare\"(" + x + ", " + y +
           ") <{comparison_direction = #stablehlo<comparison_direction " + direction + ">}> : (" + scalar + ", " + scalar +
           ") -> " + flag + "\n";
    };
    const auto logic = [&](const char* name, const char* op, const char* x, const char* y) {
      s += std::string("        ") + name + " = \"stablehlo." + op + "\"(" + x + ", " + y + ") : (" + flag + ", " + flag +
           ") -> " + flag + "\n";
    };
    compare("%less", a.descending ? "GT" : "LT", "%a", "%b");
    std::string before = "%less";
    if (is_floating(type.dtype)) {
      compare("%nan", "NE", a.descending ? "%a" : "%b", a.descending ? "%a" : "%b");
      compare("%number", "EQ", a.descending ? "%b" : "%a", a.descending ? "%b" : "%a");
      logic("%edge", "and", "%nan", "%number");
      logic("%before", "or", "%less", "%edge");
      before = "%before";
    }
    s += "        \"stablehlo.return\"(" + before + ") : (" + flag + ") -> ()\n    })" +
         signature(n, {tensor_type(n.types[1])});
    line(s);
  }

  void print_node(int32_t i) {
    const Node& n = graph_.nodes[i];
    if (n.op == Op::parameter) return;
    const std::string result = names_[i] = "%v" + std::to_string(i);
    if (n.op == Op::reduce) return print_reduce(n, result);
    if (n.op == Op::sort) return print_sort(n, result);
    std::string name = "stablehlo." + std::string(name_of(n.op)), attrs = attributes(n);
    if (is_custom_call(n)) {
      attrs = "call_target_name = \"neuron." + std::string(name_of(n.op)) + "\"";
      name = "stablehlo.custom_call";
    }
    std::string s = result + (n.types.size() > 1 ? ":" + std::to_string(n.types.size()) : "") + " = \"" + name + "\"(" +
                    operands(n) + ")";
    if (!attrs.empty()) s += " <{" + attrs + "}>";
    if (n.op == Op::scatter) s += " " + combiner(std::get<ScatterAttrs>(n.attrs).combine, n.types[0].dtype);
    line(s + signature(n));
  }

  const Graph& graph_;
  std::vector<std::string> names_;
  std::string text_;
};

}  // namespace

std::string print_stablehlo(const Graph& graph) {
  auto expanded = expand_to_stablehlo(graph);
  if (!expanded.ok()) return "// " + expanded.status().message() + "\n";
  return Printer(*expanded).module();
}

}  // namespace neuron::ir
