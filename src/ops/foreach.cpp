// _foreach_* operators: each is its element-wise operator applied to every tensor of the list, with that operator's own
// promotion, result rule and lowering. In-place forms are derived by the caller.
//
// Not supported: _foreach_powsum (PyTorch decomposes it).
#include "ops/registry.h"

namespace neuron::ops {
namespace {

struct Mapping {
  const char* from;  // name of the foreach argument
  const char* to;    // name of the single operator's argument
};

struct Each {
  std::string name;    // "add.Scalar"
  std::string single;  // "aten::add.Scalar"
  std::vector<Mapping> arguments;
};

// Entry i of an argument that is a list; a tensor or number serves all. nullopt: the list is too short or the entry is None.
std::optional<Argument> entry(const Argument& argument, size_t i) {
  if (const auto* tensors = std::get_if<TensorList>(&argument)) {
    if (i >= tensors->size() || !(*tensors)[i]) return std::nullopt;
    return Argument(*(*tensors)[i]);
  }
  if (const auto* scalars = std::get_if<std::vector<ScalarArg>>(&argument)) {
    if (i >= scalars->size()) return std::nullopt;
    return Argument((*scalars)[i]);
  }
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&argument)) {  // Scalar[] of ints, as some callers write it
    if (i >= numbers->size()) return std::nullopt;
    ScalarArg number;
    number.kind = ScalarArg::Kind::integer;
    number.known_int = (*numbers)[i];
    number.known = static_cast<double>((*numbers)[i]);
    return Argument(number);
  }
  return argument;
}

// The Tensor overloads of addcmul and addcdiv keep their numbers in one 1-D tensor: number i as a runtime scalar.
Argument number_of_tensor(const TensorArg& scalars, size_t i, ir::Builder* builder) {
  ScalarArg number;
  number.kind = is_floating(scalars.meta.dtype) ? ScalarArg::Kind::floating : ScalarArg::Kind::integer;
  if (builder) {
    const Val element = select(Val(*builder, scalars.value), 0, static_cast<int64_t>(i));
    number.value = convert(element, is_floating(scalars.meta.dtype) ? DType::f64 : DType::i64).value();
  }
  return number;
}

size_t count_of(const Lowering& l, const Each& each) {
  for (const Mapping& m : each.arguments) {
    if (!l.list(m.from).empty()) return l.list(m.from).size();
  }
  return 0;
}

std::optional<std::vector<NamedArgument>> arguments_of(const Lowering& l, const Each& each, size_t i, ir::Builder* builder) {
  std::vector<NamedArgument> arguments;
  for (const Mapping& m : each.arguments) {
    const Argument* given = l.argument(m.from);
    if (!given) continue;
    const auto* packed = std::get_if<TensorArg>(given);
    if (packed && std::string_view(m.from) == "scalars") {
      arguments.push_back({m.to, number_of_tensor(*packed, i, builder)});
      continue;
    }
    auto value = entry(*given, i);
    if (!value) return std::nullopt;
    arguments.push_back({m.to, std::move(*value)});
  }
  return arguments;
}

std::optional<Metas> infer_each(const Lowering& l, const Each& each) {
  const OpDef* single = find(each.single);
  if (!single) return std::nullopt;
  Metas all;
  for (size_t i = 0; i < count_of(l, each); ++i) {
    const auto arguments = arguments_of(l, each, i, nullptr);
    if (!arguments) return std::nullopt;
    const auto metas = infer(*single, {each.single, *arguments, l.ambient(), {}, {}});
    if (!metas || metas->empty()) return std::nullopt;
    all.push_back((*metas)[0]);
  }
  return all;
}

std::vector<Val> lower_each(Lowering& l, const Each& each) {
  const OpDef* single = find(each.single);
  if (!single) return {l.unsupported("this overload")};
  std::vector<Val> results;
  for (size_t i = 0; i < count_of(l, each); ++i) {
    const auto arguments = arguments_of(l, each, i, &l.builder());
    if (!arguments) {
      l.fail(invalid_argument("the lists have different lengths"));
      return {};
    }
    // An in-place form rounds once, straight to the dtype of the tensor it overwrites.
    const Metas expected = l.expected(i) ? Metas{*l.expected(i)} : Metas{};
    auto values =
        lower(*single, {each.single, *arguments, l.ambient(), {}, {}}, expected.empty() ? nullptr : &expected, l.builder());
    if (!values.ok()) {
      l.fail(values.status());
      return {};
    }
    results.emplace_back(l.builder(), (*values)[0]);
  }
  l.builder().set_label(l.op().name);
  return results;
}

void add_each(Registry& registry, const Each& each) {
  OpDef& def = NEURON_OP("aten::_foreach_" + each.name, no_promotion(),
                         result(ResultRule([each](const Lowering& l) { return infer_each(l, each); })),
                         [each](Lowering& l) { return lower_each(l, each); });
  // What the single operator must know about a number, the list form must know too.
  const OpDef* single = registry.find(each.single);
  if (!single) return;
  for (const ScalarRequirement& requirement : single->scalars) {
    for (const Mapping& m : each.arguments) {
      if (requirement.name != m.to) continue;
      def.scalars.push_back(requirement);
      def.scalars.back().name = m.from;
    }
  }
}

void register_binary(Registry& registry) {
  for (const std::string op : {"add", "sub", "mul", "div"}) {
    add_each(registry, {op + ".Scalar", "aten::" + op + ".Scalar", {{"self", "self"}, {"scalar", "other"}}});
    add_each(registry, {op + ".ScalarList", "aten::" + op + ".Scalar", {{"self", "self"}, {"scalars", "other"}}});
    for (const std::string overload : {".List", ".Tensor"}) {
      if (op == "sub" && overload == ".Tensor") continue;  // PyTorch has none
      add_each(registry,
               {op + overload, "aten::" + op + ".Tensor", {{"self", "self"}, {"other", "other"}, {"alpha", "alpha"}}});
    }
  }
  struct Bound {
    std::string name, single;
    const char* argument;
  };
  for (const Bound& b : {Bound{"clamp_min", "aten::clamp_min", "min"}, Bound{"maximum", "aten::clamp_min", "min"},
                         Bound{"clamp_max", "aten::clamp_max", "max"}, Bound{"minimum", "aten::clamp_max", "max"}}) {
    add_each(registry, {b.name + ".Scalar", b.single, {{"self", "self"}, {"scalar", b.argument}}});
    add_each(registry, {b.name + ".ScalarList", b.single, {{"self", "self"}, {"scalars", b.argument}}});
    add_each(registry, {b.name + ".List", b.single + ".Tensor", {{"self", "self"}, {"other", b.argument}}});
  }
  add_each(registry, {"pow.List", "aten::pow.Tensor_Tensor", {{"self", "self"}, {"exponent", "exponent"}}});
  for (const std::string overload : {".Scalar", ".ScalarList"}) {
    add_each(registry, {"pow" + overload, "aten::pow.Tensor_Scalar", {{"self", "self"}, {"exponent", "exponent"}}});
  }
  add_each(registry, {"pow.ScalarAndTensor", "aten::pow.Scalar", {{"self", "self"}, {"exponent", "exponent"}}});
  add_each(registry, {"mm", "aten::mm", {{"self", "self"}, {"mat2", "mat2"}}});
}

void register_ternary(Registry& registry) {
  for (const std::string op : {"addcmul", "addcdiv"}) {
    const std::vector<Mapping> tensors{{"self", "self"}, {"tensor1", "tensor1"}, {"tensor2", "tensor2"}};
    auto with = [&](const char* name) {
      auto all = tensors;
      all.push_back({name, "value"});
      return all;
    };
    add_each(registry, {op + ".Scalar", "aten::" + op, with("value")});
    add_each(registry, {op + ".ScalarList", "aten::" + op, with("scalars")});
    add_each(registry, {op + ".Tensor", "aten::" + op, with("scalars")});
  }
  add_each(registry, {"lerp.List", "aten::lerp.Tensor", {{"self", "self"}, {"tensors1", "end"}, {"weights", "weight"}}});
  for (const std::string overload : {".Scalar", ".ScalarList"}) {
    add_each(registry,
             {"lerp" + overload, "aten::lerp.Scalar", {{"self", "self"}, {"tensors1", "end"}, {"weight", "weight"}}});
  }
}

// Metas of the list `self`, as they are.
std::optional<Metas> like_self(const Lowering& l) {
  Metas metas;
  for (const auto& t : l.list("self")) {
    if (!t) return std::nullopt;
    metas.push_back(t->meta);
  }
  return metas;
}

void register_moves(Registry& registry) {
  NEURON_OP("aten::_foreach_copy", no_promotion(), result(like_self), [](Lowering& l) {
    std::vector<Val> results = l.tensors("src");
    for (size_t i = 0; i < results.size() && i < l.list("self").size(); ++i) {
      const TensorMeta& self = l.list("self")[i]->meta;
      results[i] = broadcast_to(convert(results[i], self.dtype), self.shape);
    }
    return results;
  });
  NEURON_OP("aten::_foreach_zero", no_promotion(), result(like_self), [](Lowering& l) {
    std::vector<Val> results;
    for (const auto& t : l.list("self")) results.push_back(full(l.builder(), t->meta.dtype, t->meta.shape, 0));
    return results;
  });
  NEURON_OP("aten::_foreach_clone", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const auto format =
                  l.has("memory_format") ? memory_format_from_int(l.int_("memory_format")) : MemoryFormat::preserve;
              auto metas = like_self(l);
              if (!format || !metas) return std::nullopt;
              for (auto& m : *metas) m->strides = strides_for(*format, m->shape, m->strides);
              return metas;
            })),
            [](Lowering& l) { return l.tensors("self"); });
}

}  // namespace

// After the families of the single operators: their scalar requirements are taken over.
void register_foreach(Registry& registry) {
  for (const std::string op :
       {"abs",   "acos",    "asin",   "atan", "ceil",  "cos",   "cosh", "erf",  "erfc", "exp",        "expm1",
        "floor", "frac",    "lgamma", "log",  "log10", "log1p", "log2", "max",  "neg",  "reciprocal", "round",
        "rsqrt", "sigmoid", "sign",   "sin",  "sinh",  "sqrt",  "tan",  "tanh", "trunc"}) {
    add_each(registry, {op, "aten::" + op, {{"self", "self"}}});
  }
  add_each(registry, {"norm.Scalar", "aten::linalg_vector_norm", {{"self", "self"}, {"ord", "ord"}, {"dtype", "dtype"}}});
  register_binary(registry);
  register_ternary(registry);
  register_moves(registry);
}

}  // namespace neuron::ops
