// _C.GraphBuilder: one ir::Graph under construction, built by calling the lowerings that eager dispatch uses. For the FX
// importer and for tests.
//
//   b = GraphBuilder(name)
//   v = b.parameter(dtype, shape, strides)        tensor parameter, index = call order -> Value
//   s = b.scalar(kind, dtype=None)                runtime number ("bool", "int", "float", "complex"), order = call order;
//                                                 with dtype: a 0-dim tensor where a Tensor is expected
//   c = b.constant(cpu_tensor)                    baked in
//   r = b.call("aten::add.Tensor", {"self": v, "other": 2.0})   -> list of Value | None; numbers are known constants,
//   missing
//                                                 arguments take schema defaults; in-place and out= names are mapped to
//                                                 functional ones: first the new values of mutated arguments, then results
//   b.type(v) -> (dtype, shape)
//   b.output(v, strides, alias=-1)                alias: tensor parameter that the output overwrites
//   b.print(), b.stablehlo(), b.rng_increment
//   b.evaluate(cpu_tensors, scalars)              by ir::evaluate, on the host
//   g = b.compile(device_index);  g(tensors, scalars) -> list of Tensor | None (None for aliased outputs)
#include "pytorch/python/graph_builder.h"

#include <ATen/ops/empty.h>

#include "pytorch/dispatch/arguments.h"
#include "pytorch/dispatch/compiled_graph.h"
#include "pytorch/dispatch/registration.h"
#include "pytorch/error.h"
#include "pytorch/factory.h"
#include "pytorch/generator.h"
#include "pytorch/scalar.h"

namespace py = pybind11;

namespace neuron::pytorch {
namespace {

using Kind = ops::ScalarArg::Kind;

// What Python holds for an IR value.
struct Handle {
  ir::Value value;
  ops::TensorMeta meta;
  bool number = false;  // made by scalar() without a dtype
  Kind kind = Kind::floating;
};

struct OutputSpec {
  DType dtype;
  std::vector<int64_t> shape, strides;
  int32_t alias = -1;
  int32_t graph_output = -1;  // -1: no elements
};

struct ScalarSpec {
  int32_t slot;
  DType type;
};

struct Interface {
  std::vector<ops::TensorMeta> parameters;
  std::vector<OutputSpec> outputs;
  std::vector<ScalarSpec> scalars;
  int32_t slots = 0, seed_slot = -1;
  int64_t rng_increment = 0;

  void fill(const std::vector<c10::Scalar>& values, NeuronGenerator::Philox philox, std::vector<uint64_t>& slots_out) const {
    TORCH_CHECK(values.size() == scalars.size(), "the graph takes ", scalars.size(), " scalars, got ", values.size());
    slots_out.resize(slots);
    for (size_t i = 0; i < values.size(); ++i) write_slots(values[i], scalars[i].type, &slots_out[scalars[i].slot]);
    if (seed_slot >= 0) {
      slots_out[seed_slot] = philox.seed;
      slots_out[seed_slot + 1] = philox.offset;
    }
  }
};

Kind kind_from(const std::string& name) {
  if (name == "bool") return Kind::boolean;
  if (name == "int") return Kind::integer;
  if (name == "float") return Kind::floating;
  TORCH_CHECK_VALUE(name == "complex", "kind must be bool, int, float or complex, got ", name);
  return Kind::complex;
}

c10::Scalar scalar_from(py::handle value) {
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
  if (PyComplex_Check(value.ptr())) {
    return c10::complex<double>(PyComplex_RealAsDouble(value.ptr()), PyComplex_ImagAsDouble(value.ptr()));
  }
  return value.cast<double>();
}

// torch has no pybind caster for c10::Scalar.
std::vector<c10::Scalar> scalars_from(const std::vector<py::object>& values) {
  std::vector<c10::Scalar> scalars;
  for (const py::object& value : values) scalars.push_back(scalar_from(value));
  return scalars;
}

bool is_number(py::handle value) {
  return PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()) || PyComplex_Check(value.ptr());
}

class CompiledCallable {
 public:
  CompiledCallable(CompiledGraph graph, Interface interface, int device)
      : graph_(std::move(graph)), interface_(std::move(interface)), device_(device) {}

  std::vector<std::optional<at::Tensor>> call(const std::vector<at::Tensor>& tensors,
                                              const std::vector<c10::Scalar>& scalars) {
    check_tensors(tensors);
    NeuronGenerator::Philox philox{};
    const auto index = static_cast<c10::DeviceIndex>(device_);
    if (interface_.rng_increment > 0) {
      philox = generator_for(std::nullopt, index).consume(static_cast<uint64_t>(interface_.rng_increment));
    }
    std::vector<uint64_t> slots;
    interface_.fill(scalars, philox, slots);
    std::vector<std::optional<at::Tensor>> results;
    std::vector<void*> addresses;
    for (const OutputSpec& spec : interface_.outputs) {
      void* address = nullptr;
      if (spec.alias >= 0) {
        address = address_of(tensors[spec.alias]);
        results.emplace_back();
      } else {
        results.emplace_back(make_tensor(index, spec.shape, spec.strides, to_scalar_type(spec.dtype)));
        address = address_of(*results.back());
      }
      if (spec.graph_output < 0) continue;
      if (addresses.size() <= static_cast<size_t>(spec.graph_output)) addresses.resize(spec.graph_output + 1);
      addresses[spec.graph_output] = address;
    }
    if (graph_.executable) {
      graph_.launch([&](int32_t i) { return address_of(tensors[i]); }, [&](int32_t i) { return addresses[i]; }, slots,
                    device_);
    }
    return results;
  }

  int64_t sequence() const { return graph_.record ? graph_.record->sequence : 0; }

 private:
  void check_tensors(const std::vector<at::Tensor>& tensors) const {
    TORCH_CHECK(tensors.size() == interface_.parameters.size(), "the graph takes ", interface_.parameters.size(),
                " tensors, got ", tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ops::TensorMeta& meta = interface_.parameters[i];
      const at::Tensor& t = tensors[i];
      TORCH_CHECK(t.is_privateuseone() && t.device().index() == device_, "tensor ", i, " is on ", t.device(),
                  ", the graph was compiled for neuron:", device_);
      bool fits = t.scalar_type() == to_scalar_type(meta.dtype) && t.sizes() == c10::IntArrayRef(meta.shape);
      for (int64_t d = 0; fits && d < t.dim(); ++d) fits = t.size(d) <= 1 || t.stride(d) == meta.strides[d];
      TORCH_CHECK(fits && !t.is_conj() && !t.is_neg(), "tensor ", i, " is ", describe(t), ", the graph was compiled for ",
                  c10::toString(to_scalar_type(meta.dtype)), c10::IntArrayRef(meta.shape), " with strides ",
                  c10::IntArrayRef(meta.strides));
    }
  }

  CompiledGraph graph_;
  Interface interface_;
  int device_;
};

class PyGraphBuilder {
 public:
  explicit PyGraphBuilder(std::string name) : builder_(graph_) { graph_.name = std::move(name); }

  Handle parameter(c10::ScalarType type, std::vector<int64_t> shape, std::vector<int64_t> strides) {
    Handle h;
    h.meta = {dtype_or_raise(type, "parameter"), std::move(shape), std::move(strides)};
    h.value =
        builder_.parameter({h.meta.dtype, h.meta.shape}, static_cast<int32_t>(interface_.parameters.size()), h.meta.strides);
    interface_.parameters.push_back(h.meta);
    return checked(h);
  }

  Handle scalar(const std::string& kind, std::optional<c10::ScalarType> type) {
    Handle h;
    h.kind = kind_from(kind);
    h.number = !type.has_value();
    const DType slot = slot_type(h.kind);
    interface_.scalars.push_back({interface_.slots, slot});
    h.value = builder_.scalar_parameter(slot, interface_.slots);
    interface_.slots += slots_of(slot);
    h.meta.dtype = type ? dtype_or_raise(*type, "scalar") : h.kind == Kind::boolean ? DType::boolean : slot;
    return checked(h);
  }

  Handle constant(const at::Tensor& t) {
    TORCH_CHECK(t.is_cpu(), "constants are CPU tensors");
    const at::Tensor dense = t.detach().resolve_conj().resolve_neg().contiguous();
    const auto* bytes = static_cast<const uint8_t*>(dense.const_data_ptr());
    Handle h;
    h.meta = {dtype_or_raise(t.scalar_type(), "constant"), dense.sizes().vec(), dense.strides().vec()};
    h.value = builder_.constant({h.meta.dtype, h.meta.shape}, {bytes, bytes + dense.nbytes()});
    return checked(h);
  }

  std::vector<std::optional<Handle>> call(const std::string& op, const py::dict& arguments, bool /*wrapped*/) {
    const OperatorPlan* plan = find_plan(op);
    TORCH_CHECK_NOT_IMPLEMENTED(plan, op, " has no lowering");
    const auto schema = c10::Dispatcher::singleton().findSchema(
        {op.substr(0, op.find('.')), op.find('.') == std::string::npos ? "" : op.substr(op.find('.') + 1)});
    builder_.set_label(op);
    std::vector<ops::NamedArgument> named;
    for (size_t i = 0; i < plan->arguments.size(); ++i) {
      const ArgumentPlan& a = plan->arguments[i];
      if (!a.read) continue;
      if (arguments.contains(a.name.c_str())) {
        named.push_back({a.name, convert(*plan, a, arguments[a.name.c_str()])});
      } else if (const auto& fallback = schema->schema().arguments()[i].default_value(); fallback.has_value()) {
        named.push_back({a.name, convert_default(a, *fallback)});
      } else {
        named.push_back({a.name, ops::None{}});
      }
    }
    ops::Call call;
    call.op = plan->functional;
    call.arguments = named;
    call.ambient = ambient();
    const std::optional<ops::Metas> metas = ops::infer(*plan->definition, call);
    if (plan->uses_rng) add_generator(*plan, call);
    std::vector<ir::Value> values = check(ops::lower(*plan->definition, call, metas ? &*metas : nullptr, builder_));
    check(builder_.status());
    return ordered(*plan, values, named);
  }

  py::tuple type(const Handle& h) const {
    const ir::Type& t = builder_.type(h.value);
    return py::make_tuple(to_scalar_type(t.dtype), t.shape);
  }

  void output(const Handle& h, std::vector<int64_t> strides, int32_t alias) {
    const ir::Type type = builder_.type(h.value);
    OutputSpec spec{type.dtype, type.shape, std::move(strides), alias, -1};
    if (alias >= 0) {
      TORCH_CHECK(alias < static_cast<int32_t>(interface_.parameters.size()), "there is no tensor parameter ", alias);
      spec.dtype = interface_.parameters[alias].dtype;
    }
    if (type.elements() > 0) {
      spec.graph_output = static_cast<int32_t>(graph_.outputs.size());
      builder_.output(builder_.convert(h.value, spec.dtype), spec.strides, alias);
    }
    interface_.outputs.push_back(std::move(spec));
    check(builder_.status());
  }

  std::string print() const { return ir::print(graph_); }
  std::string stablehlo() const { return ir::print_stablehlo(graph_); }
  int64_t rng_increment() const { return interface_.rng_increment; }

  std::shared_ptr<CompiledCallable> compile(int device) {
    CompiledGraph compiled;
    {
      py::gil_scoped_release release;
      check(ir::verify(graph_));
      if (!graph_.outputs.empty()) compiled = check(compile_graph(graph_, device, interface_.slots, signature()));
    }
    return std::make_shared<CompiledCallable>(std::move(compiled), interface_, device);
  }

  std::vector<at::Tensor> evaluate(const std::vector<at::Tensor>& tensors, const std::vector<c10::Scalar>& scalars,
                                   uint64_t seed, uint64_t offset) const {
    check(ir::verify(graph_));
    std::vector<ir::Literal> literals;
    for (const at::Tensor& t : tensors) {
      const at::Tensor dense = t.detach().resolve_conj().resolve_neg().contiguous();
      const auto* bytes = static_cast<const uint8_t*>(dense.const_data_ptr());
      literals.push_back(
          {{dtype_or_raise(t.scalar_type(), "evaluate"), dense.sizes().vec()}, {bytes, bytes + dense.nbytes()}});
    }
    std::vector<uint64_t> slots;
    interface_.fill(scalars, {seed, offset}, slots);
    const std::vector<ir::Literal> results = check(ir::evaluate(graph_, literals, slots));
    std::vector<at::Tensor> out;
    for (const OutputSpec& spec : interface_.outputs) {
      at::Tensor t = at::empty(spec.shape, at::TensorOptions().dtype(to_scalar_type(spec.dtype)));
      if (spec.graph_output >= 0) std::memcpy(t.mutable_data_ptr(), results[spec.graph_output].data.data(), t.nbytes());
      out.push_back(std::move(t));
    }
    return out;
  }

 private:
  Handle checked(Handle h) {
    check(builder_.status());
    return h;
  }

  std::string signature() const {
    std::string out;
    for (size_t i = 0; i < std::min<size_t>(interface_.parameters.size(), 8); ++i) {
      out += (i ? ", " : "") + ir::to_string({interface_.parameters[i].dtype, interface_.parameters[i].shape});
    }
    if (interface_.parameters.size() > 8) out += ", ... " + std::to_string(interface_.parameters.size()) + " in all";
    return out;
  }

  ir::Value constant_number(const c10::Scalar& scalar) {
    const DType slot = slot_type(kind_of(scalar));
    if (slot == DType::c128) {
      const auto z = scalar.toComplexDouble();
      return builder_.splat_complex({slot, {}}, {z.real(), z.imag()});
    }
    if (slot == DType::f64) return builder_.splat({slot, {}}, scalar.toDouble());
    return builder_.splat_int({slot, {}}, scalar.isBoolean() ? scalar.toBool() : scalar.toLong());
  }

  ops::ScalarArg known_number(const ArgumentPlan& plan, const c10::Scalar& scalar) {
    ops::ScalarArg out;
    out.kind = kind_of(scalar);
    out.value = constant_number(scalar);
    const auto z = scalar.toComplexDouble();
    out.known = std::complex<double>(z.real(), z.imag());
    if (out.kind <= Kind::integer) out.known_int = scalar.isBoolean() ? scalar.toBool() : scalar.toLong();
    for (const double c : plan.value_classes) {
      if (z.imag() == 0 && z.real() == c) out.value_class = c;
    }
    return out;
  }

  ops::ScalarArg number(const OperatorPlan& op, const ArgumentPlan& plan, py::handle value) {
    if (!py::isinstance<Handle>(value)) return known_number(plan, scalar_from(value));
    TORCH_CHECK_NOT_IMPLEMENTED(!plan.known, op.name, ": ", plan.name, " must be known when compiling");
    const auto& h = value.cast<const Handle&>();
    ops::ScalarArg out;
    const DType slot = slot_type(h.meta.dtype);
    out.kind = h.number                         ? h.kind
               : slot == DType::c128            ? Kind::complex
               : slot == DType::f64             ? Kind::floating
               : h.meta.dtype == DType::boolean ? Kind::boolean
                                                : Kind::integer;
    out.value = builder_.convert(h.value, slot_type(out.kind));
    return out;
  }

  ops::TensorArg tensor(py::handle value) {
    ops::TensorArg out;
    if (py::isinstance<Handle>(value)) {
      const auto& h = value.cast<const Handle&>();
      out.meta = h.meta;
      out.value = builder_.convert(h.value, h.meta.dtype);
      out.category = h.number               ? ops::Category::wrapped_number
                     : h.meta.shape.empty() ? ops::Category::zero_dim
                                            : ops::Category::tensor;
      return out;
    }
    if (is_number(value)) {
      const c10::Scalar scalar = scalar_from(value);
      const Kind kind = kind_of(scalar);
      out.meta.dtype = kind == Kind::boolean ? DType::boolean : slot_type(kind);
      out.value = builder_.convert(constant_number(scalar), out.meta.dtype);
      out.category = ops::Category::wrapped_number;
      return out;
    }
    const Handle h = constant(value.cast<at::Tensor>());
    out.meta = h.meta;
    out.value = h.value;
    out.category = h.meta.shape.empty() ? ops::Category::zero_dim : ops::Category::tensor;
    return out;
  }

  ops::Argument convert(const OperatorPlan& op, const ArgumentPlan& plan, py::handle value) {
    if (value.is_none()) return ops::None{};
    switch (plan.kind) {
      case ArgumentKind::tensor:
        return tensor(value);
      case ArgumentKind::number:
        return number(op, plan, value);
      case ArgumentKind::tensor_list: {
        ops::TensorList list;
        for (py::handle element : value)
          list.push_back(element.is_none() ? std::nullopt : std::make_optional(tensor(element)));
        return list;
      }
      case ArgumentKind::number_list:
      case ArgumentKind::float_list: {
        std::vector<ops::ScalarArg> list;
        for (py::handle element : value) list.push_back(number(op, plan, element));
        return list;
      }
      case ArgumentKind::structural:
        if (plan.is_dtype) return dtype_or_raise(value.cast<c10::ScalarType>(), op.name.c_str());
        if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
        if (!PyLong_Check(value.ptr())) return ops::None{};  // a memory format: the importer decides layouts
        if (plan.is_boolean) return value.cast<int64_t>() != 0;
        return value.cast<int64_t>();
      case ArgumentKind::int_list:
        if (PyLong_Check(value.ptr())) return std::vector<int64_t>{value.cast<int64_t>()};
        return value.cast<std::vector<int64_t>>();
      case ArgumentKind::bool_list:
        return value.cast<std::vector<bool>>();
      case ArgumentKind::text:
        return value.cast<std::string>();
      default:
        return ops::None{};
    }
  }

  ops::Argument convert_default(const ArgumentPlan& plan, const c10::IValue& value) {
    if (value.isNone()) return ops::None{};
    switch (plan.kind) {
      case ArgumentKind::number:
        return known_number(plan, value.toScalar());
      case ArgumentKind::structural:
        if (plan.is_dtype) return dtype_or_raise(static_cast<c10::ScalarType>(value.toInt()), "default");
        if (value.isBool()) return value.toBool();
        if (plan.is_boolean) return value.toInt() != 0;
        return value.toInt();
      case ArgumentKind::int_list:
        if (value.isInt()) return std::vector<int64_t>{value.toInt()};
        return value.toIntVector();
      case ArgumentKind::bool_list: {
        std::vector<bool> list;
        for (const c10::IValue& element : value.toListRef()) list.push_back(element.toBool());
        return list;
      }
      case ArgumentKind::tensor_list:
        return ops::TensorList{};
      case ArgumentKind::number_list:
        return std::vector<ops::ScalarArg>{};
      case ArgumentKind::text:
        return std::string(value.toStringRef());
      default:
        return ops::None{};
    }
  }

  void add_generator(const OperatorPlan& plan, ops::Call& call) {
    if (interface_.seed_slot < 0) {
      interface_.seed_slot = interface_.slots;
      seed_ = builder_.scalar_parameter(DType::u64, interface_.slots);
      offset_ = builder_.scalar_parameter(DType::u64, interface_.slots + 1);
      interface_.slots += 2;
    }
    call.seed = seed_;
    call.offset = builder_.binary(ir::Op::add, offset_, builder_.splat_int({DType::u64, {}}, interface_.rng_increment));
    interface_.rng_increment += ops::rng_increment(*plan.definition, call);
  }

  std::optional<Handle> handle(ir::Value value) const {
    if (!value.present()) return std::nullopt;
    Handle h;
    h.value = value;
    const ir::Type& t = builder_.type(value);
    h.meta = {t.dtype, t.shape, ir::contiguous_strides(t.shape)};
    return h;
  }

  // New values of mutated arguments first, then the other results. A lowering under a mutating name does that already.
  std::vector<std::optional<Handle>> ordered(const OperatorPlan& plan, const std::vector<ir::Value>& values,
                                             const std::vector<ops::NamedArgument>& named) const {
    std::vector<std::optional<Handle>> written, others;
    size_t flat = 0;
    for (const ResultPlan& result : plan.results) {
      size_t count = 1;
      if (result.list && result.written >= 0) count = list_length(plan.arguments[result.written].name, named);
      if (result.list && result.written < 0) {
        count = result.length_from >= 0 ? list_length(plan.arguments[result.length_from].name, named)
                                        : values.size() - (plan.results.size() - 1);
      }
      for (size_t e = 0; e < count && flat < values.size(); ++e, ++flat) {
        (result.written >= 0 ? written : others).push_back(handle(values[flat]));
      }
    }
    written.insert(written.end(), others.begin(), others.end());
    return written;
  }

  static size_t list_length(const std::string& name, const std::vector<ops::NamedArgument>& named) {
    for (const ops::NamedArgument& a : named) {
      if (a.name != name) continue;
      if (const auto* list = std::get_if<ops::TensorList>(&a.value)) return list->size();
    }
    return 0;
  }

  ir::Graph graph_;
  ir::Builder builder_;
  Interface interface_;
  ir::Value seed_, offset_;
};

}  // namespace

void bind_graph_builder(py::module_& m) {
  py::class_<Handle>(m, "Value");
  py::class_<CompiledCallable, std::shared_ptr<CompiledCallable>>(m, "CompiledGraph")
      .def(
          "__call__",
          [](CompiledCallable& graph, const std::vector<at::Tensor>& tensors, const std::vector<py::object>& scalars) {
            const std::vector<c10::Scalar> numbers = scalars_from(scalars);
            py::gil_scoped_release no_gil;
            return graph.call(tensors, numbers);
          },
          py::arg("tensors"), py::arg("scalars") = std::vector<py::object>())
      .def_property_readonly("sequence", &CompiledCallable::sequence);
  py::class_<PyGraphBuilder>(m, "GraphBuilder")
      .def(py::init<std::string>(), py::arg("name"))
      .def("parameter", &PyGraphBuilder::parameter, py::arg("dtype"), py::arg("shape"), py::arg("strides"))
      .def("scalar", &PyGraphBuilder::scalar, py::arg("kind"), py::arg("dtype") = std::nullopt)
      .def("constant", &PyGraphBuilder::constant, py::arg("tensor"))
      .def("call", &PyGraphBuilder::call, py::arg("op"), py::arg("arguments"), py::arg("wrapped") = false)
      .def("type", &PyGraphBuilder::type, py::arg("value"))
      .def("output", &PyGraphBuilder::output, py::arg("value"), py::arg("strides"), py::arg("alias") = -1)
      .def("print", &PyGraphBuilder::print)
      .def("stablehlo", &PyGraphBuilder::stablehlo)
      .def_property_readonly("rng_increment", &PyGraphBuilder::rng_increment)
      .def("compile", &PyGraphBuilder::compile, py::arg("device_index") = 0)
      .def(
          "evaluate",
          [](PyGraphBuilder& builder, const std::vector<at::Tensor>& tensors, const std::vector<py::object>& scalars,
             uint64_t seed, uint64_t offset) { return builder.evaluate(tensors, scalars_from(scalars), seed, offset); },
          py::arg("tensors"), py::arg("scalars") = std::vector<py::object>(), py::arg("seed") = 0, py::arg("offset") = 0);
  m.def("has_lowering", [](const std::string& op) { return find_plan(op) != nullptr; }, py::arg("op"));
}

}  // namespace neuron::pytorch
