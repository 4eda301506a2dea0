// src/ops and ir::evaluate for Python tests: describe one operator call, ask for metadata, lower and evaluate it. No ATen.
//
// Arguments are tuples (name, kind, payload):
//   tensor (dtype, shape, strides, category, row-major bytes) · tensors [tensor payload or None] · scalar (kind, value,
//   known, value_class) · bool · int · dtype · str · ints · bools · none
#include <pybind11/complex.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>

#ifdef NEURON_TEST_COMPILED
#include "ops/compiled_execution.h"
#endif
#include "ops/lowering.h"

namespace py = pybind11;

namespace neuron::ops {
namespace {

[[noreturn]] void raise(const Status& status) {
  static constexpr const char* kCodes[] = {"ok",           "invalid_argument", "unsupported", "out_of_memory",
                                           "does_not_fit", "out_of_range",     "unavailable", "internal"};
  throw std::runtime_error(std::string(kCodes[static_cast<int>(status.code())]) + ": " + status.message());
}

DType parse_dtype(const std::string& name) {
  const auto dtype = dtype_from_name(name);
  if (!dtype) throw std::invalid_argument("unknown dtype " + name);
  return *dtype;
}

// One call with everything it owns: names, parameters of a graph, their contents.
struct Described {
  std::vector<std::string> names;
  std::vector<NamedArgument> arguments;
  ir::Graph graph;
  ir::Builder builder{graph};
  std::vector<ir::Literal> tensors;
  std::vector<uint64_t> slots;

  TensorArg tensor(const py::tuple& t) {
    TensorArg arg;
    arg.meta = {parse_dtype(t[0].cast<std::string>()), t[1].cast<std::vector<int64_t>>(), t[2].cast<std::vector<int64_t>>()};
    const auto category = t[3].cast<std::string>();
    arg.category = category == "wrapped_number" ? Category::wrapped_number
                   : category == "zero_dim"     ? Category::zero_dim
                                                : Category::tensor;
    const std::string bytes = t[4].cast<py::bytes>();
    const ir::Type type{arg.meta.dtype, arg.meta.shape};
    arg.value = builder.parameter(type, static_cast<int32_t>(tensors.size()), ir::contiguous_strides(type.shape));
    tensors.push_back({type, std::vector<uint8_t>(bytes.begin(), bytes.end())});
    return arg;
  }

  ScalarArg scalar(const py::tuple& t) {
    ScalarArg s;
    const auto kind = t[0].cast<std::string>();
    const auto slot = static_cast<int32_t>(slots.size());
    const auto push = [&](auto value) {
      uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(value));
      slots.push_back(bits);
    };
    if (kind == "bool" || kind == "int") {
      s.kind = kind == "bool" ? ScalarArg::Kind::boolean : ScalarArg::Kind::integer;
      const auto value = t[1].cast<int64_t>();
      push(value);
      s.value = builder.scalar_parameter(DType::i64, slot);
      if (t[2].cast<bool>()) {
        s.known_int = value;
        s.known = static_cast<double>(value);
      }
    } else if (kind == "float") {
      push(t[1].cast<double>());
      s.value = builder.scalar_parameter(DType::f64, slot);
      if (t[2].cast<bool>()) s.known = t[1].cast<double>();
    } else {
      s.kind = ScalarArg::Kind::complex;
      const auto value = t[1].cast<std::complex<double>>();
      push(value.real());
      push(value.imag());
      s.value = builder.scalar_parameter(DType::c128, slot);
      if (t[2].cast<bool>()) s.known = value;
    }
    if (!t[3].is_none()) s.value_class = t[3].cast<double>();
    return s;
  }

  Argument argument(const std::string& kind, const py::object& payload) {
    if (kind == "none") return None{};
    if (kind == "tensor") return tensor(payload.cast<py::tuple>());
    if (kind == "tensors") {
      TensorList list;
      for (const py::handle& t : payload) {
        list.push_back(t.is_none() ? std::nullopt : std::optional<TensorArg>(tensor(t.cast<py::tuple>())));
      }
      return list;
    }
    if (kind == "scalar") return scalar(payload.cast<py::tuple>());
    if (kind == "scalars") {
      std::vector<ScalarArg> list;
      for (const py::handle& s : payload) list.push_back(scalar(s.cast<py::tuple>()));
      return list;
    }
    if (kind == "bool") return payload.cast<bool>();
    if (kind == "int") return payload.cast<int64_t>();
    if (kind == "dtype") return parse_dtype(payload.cast<std::string>());
    if (kind == "str") return payload.cast<std::string>();
    if (kind == "ints") return payload.cast<std::vector<int64_t>>();
    if (kind == "bools") return payload.cast<std::vector<bool>>();
    throw std::invalid_argument("unknown kind of argument: " + kind);
  }

  explicit Described(const py::list& described) {
    names.reserve(described.size());  // arguments hold views into it
    for (const py::handle& h : described) {
      const auto t = h.cast<py::tuple>();
      names.push_back(t[0].cast<std::string>());
      arguments.push_back({names.back(), argument(t[1].cast<std::string>(), t[2])});
    }
  }

  Call call(const std::string& op, const std::string& default_dtype) const {
    Call c;
    c.op = op;
    c.arguments = arguments;
    c.ambient.default_dtype = parse_dtype(default_dtype);
    return c;
  }
};

const OpDef& definition(const std::string& op) {
  const OpDef* def = find(op);
  if (!def) throw std::invalid_argument("no lowering for " + op);
  return *def;
}

py::object infer_metas(const std::string& op, const py::list& arguments, const std::string& default_dtype) {
  const Described d(arguments);
  const auto metas = infer(definition(op), d.call(op, default_dtype));
  if (!metas) return py::none();
  py::list out;
  for (const auto& m : *metas) {
    if (m) {
      out.append(py::make_tuple(std::string(name_of(m->dtype)), m->shape, m->strides));
    } else {
      out.append(py::none());
    }
  }
  return out;
}

Result<std::vector<ir::Literal>> execute(const Described& d, const std::string& executor) {
  if (executor == "evaluate") return ir::evaluate(d.graph, d.tensors, d.slots);
#ifdef NEURON_TEST_COMPILED
  return testing::execute_compiled(d.graph, d.tensors, d.slots, executor);
#else
  return invalid_argument("built without the compiler: no executor " + executor);
#endif
}

// Lowered against `expected` [(dtype, shape, strides) or None], then executed ("evaluate", "interpreter" or "plan"):
// [(dtype, shape, bytes) or None].
py::list run(const std::string& op, const py::list& arguments, const py::object& expected, const std::string& default_dtype,
             uint64_t seed, uint64_t offset, const std::string& executor) {
  Described d(arguments);
  const OpDef& def = definition(op);
  Call call = d.call(op, default_dtype);
  if (uses_rng(def)) {
    const auto push = [&](uint64_t value) {
      d.slots.push_back(value);
      return d.builder.scalar_parameter(DType::u64, static_cast<int32_t>(d.slots.size() - 1));
    };
    call.seed = push(seed);
    call.offset = push(offset);
  }
  std::optional<Metas> metas;
  if (!expected.is_none()) {
    metas.emplace();
    for (const py::handle& h : expected) {
      if (h.is_none()) {
        metas->push_back(std::nullopt);
        continue;
      }
      const auto t = h.cast<py::tuple>();
      metas->push_back(TensorMeta{parse_dtype(t[0].cast<std::string>()), t[1].cast<std::vector<int64_t>>(),
                                  t[2].cast<std::vector<int64_t>>()});
    }
  }
  const auto values = lower(def, call, metas ? &*metas : nullptr, d.builder);
  if (!values.ok()) raise(values.status());
  for (const ir::Value& v : *values) {
    if (v.present()) d.builder.output(v, ir::contiguous_strides(d.graph.type(v).shape));
  }
  if (!d.builder.status().ok()) raise(d.builder.status());
  if (const Status s = ir::verify(d.graph); !s.ok()) raise(s);
  const auto results = execute(d, executor);
  if (!results.ok()) raise(results.status());
  py::list out;
  size_t next = 0;
  for (const ir::Value& v : *values) {
    if (!v.present()) {
      out.append(py::none());
      continue;
    }
    const ir::Literal& r = (*results)[next++];
    out.append(py::make_tuple(std::string(name_of(r.type.dtype)), r.type.shape,
                              py::bytes(reinterpret_cast<const char*>(r.data.data()), r.data.size())));
  }
  return out;
}

py::list requirements(const std::string& op) {
  py::list out;
  for (const ScalarRequirement& r : scalar_requirements(definition(op))) {
    out.append(py::make_tuple(r.name, r.structural, r.value_classes, r.decides_shape));
  }
  return out;
}

std::string graph_text(const std::string& op, const py::list& arguments, const std::string& default_dtype) {
  Described d(arguments);
  const auto values = lower(definition(op), d.call(op, default_dtype), nullptr, d.builder);
  if (!values.ok()) raise(values.status());
  return ir::print(d.graph);
}

}  // namespace
}  // namespace neuron::ops

PYBIND11_MODULE(ops_testlib, m) {
  using namespace neuron::ops;
  m.def("registered_operators", &registered_operators);
  m.def("uses_rng", [](const std::string& op) { return uses_rng(definition(op)); });
  m.def("rng_increment", [](const std::string& op, const py::list& arguments, const std::string& default_dtype) {
    const Described d(arguments);
    return rng_increment(definition(op), d.call(op, default_dtype));
  });
  m.def("requirements", &requirements);
  m.def("infer", &infer_metas, py::arg("op"), py::arg("arguments"), py::arg("default_dtype") = "f32");
  m.def("run", &run, py::arg("op"), py::arg("arguments"), py::arg("expected") = py::none(), py::arg("default_dtype") = "f32",
        py::arg("seed") = 0, py::arg("offset") = 0, py::arg("executor") = "evaluate");
  m.def("graph_text", &graph_text, py::arg("op"), py::arg("arguments"), py::arg("default_dtype") = "f32");
}
