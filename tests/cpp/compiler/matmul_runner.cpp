#include "compiler/matmul_runner.h"

#include <algorithm>
#include <numeric>

namespace neuron::compiler::testing {
namespace {

void visit_layout(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                  const std::function<void(int64_t logical, int64_t memory)>& visit) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, memory = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      memory += rest % shape[d] * strides[d];
      rest /= shape[d];
    }
    visit(i, memory);
  }
}

const ir::ParameterAttrs* tensor_parameter(const ir::Graph& graph, int64_t index, const ir::Node** node) {
  for (const ir::Node& n : graph.nodes) {
    if (n.op != ir::Op::parameter) continue;
    const auto& attrs = std::get<ir::ParameterAttrs>(n.attrs);
    if (attrs.kind == ir::ParameterAttrs::Kind::tensor && attrs.index == index) {
      *node = &n;
      return &attrs;
    }
  }
  return nullptr;
}

}  // namespace

int64_t extent(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return last + 1;
}

ir::Literal random_literal(const ir::Type& type, std::mt19937_64& rng) {
  ir::Literal literal{type, std::vector<uint8_t>(static_cast<size_t>(type.elements()) * size_of(type.dtype))};
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int64_t> integer(is_unsigned_integer(type.dtype) ? 0 : -8, 8);
  for (int64_t i = 0; i < type.elements(); ++i) {
    uint8_t* p = literal.data.data() + static_cast<size_t>(i) * size_of(type.dtype);
    if (type.dtype == DType::boolean) {
      *p = rng() % 5 != 0;
    } else if (is_complex(type.dtype)) {
      ir::store(type.dtype, p, ir::Complex(normal(rng), normal(rng)));
    } else if (is_floating(type.dtype)) {
      ir::store(type.dtype, p, normal(rng));
    } else {
      ir::store(type.dtype, p, integer(rng));
    }
  }
  return literal;
}

std::vector<int64_t> random_strides(const std::vector<int64_t>& shape, std::mt19937_64& rng) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), rng);
  std::vector<int64_t> strides(shape.size());
  int64_t step = rng() % 4 == 0 ? 2 : 1;
  for (size_t d : order) {
    strides[d] = step;
    step *= shape[d];
    if (rng() % 4 == 0) step += 3;
  }
  return strides;
}

Result<std::vector<ir::Literal>> run(const ir::Graph& graph, const std::vector<ir::Literal>& inputs, Executed how,
                                     uint64_t seed, int threads, const Options& options) {
  NEURON_ASSIGN(isa::Program compiled, compile(graph, options));
  return execute(graph, std::move(compiled), inputs, how, seed, threads);
}

Result<std::vector<ir::Literal>> execute(const ir::Graph& graph, isa::Program compiled,
                                         const std::vector<ir::Literal>& inputs, Executed how, uint64_t seed, int threads) {
  NEURON_RETURN_IF_ERROR(isa::validate(compiled));
  auto program = std::make_shared<const isa::Program>(std::move(compiled));

  std::vector<std::vector<uint8_t>> memory(program->tensors.size());
  for (size_t t = 0; t < memory.size(); ++t) {
    const isa::Tensor& tensor = program->tensors[t];
    memory[t].assign(tensor.bytes + 64, 0xff);
    if (tensor.role == isa::TensorRole::constant) {
      std::memcpy(memory[t].data(), program->constants.data() + tensor.constant_offset, tensor.bytes);
    }
    if (tensor.role != isa::TensorRole::input || tensor.name.rfind("input", 0) != 0) continue;
    const int64_t index = std::stoll(tensor.name.substr(5));
    const ir::Node* node = nullptr;
    const ir::ParameterAttrs* attrs = tensor_parameter(graph, index, &node);
    const ir::Literal& literal = inputs[static_cast<size_t>(index)];
    const size_t element = size_of(literal.type.dtype);
    visit_layout(literal.type.shape, attrs->strides, [&](int64_t logical, int64_t at) {
      std::memcpy(memory[t].data() + static_cast<size_t>(at) * element,
                  literal.data.data() + static_cast<size_t>(logical) * element, element);
    });
  }
  std::vector<emulator::TensorView> views(memory.size());
  for (size_t t = 0; t < memory.size(); ++t) {
    const int32_t alias = program->tensors[t].alias_of;
    std::vector<uint8_t>& bytes = memory[alias >= 0 ? static_cast<size_t>(alias) : t];
    views[t] = {bytes.data(), program->tensors[t].bytes};
  }

  emulator::InterpreterOptions interpreter;
  if (how == Executed::shuffled) interpreter.shuffle_seed = seed;
  auto executor = how == Executed::plan ? emulator::make_plan(program) : emulator::make_interpreter(program, interpreter);
  if (!executor.ok()) return executor.status();
  emulator::ThreadPool pool(threads);
  emulator::Launch launch{views, pool};
  NEURON_RETURN_IF_ERROR(executor.value()->run(launch));

  std::vector<ir::Literal> results;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ir::Output& output = graph.outputs[i];
    const ir::Type& type = graph.type(output.value);
    ir::Literal literal{type, std::vector<uint8_t>(static_cast<size_t>(type.elements()) * size_of(type.dtype))};
    for (size_t t = 0; t < memory.size(); ++t) {
      if (program->tensors[t].name != "output" + std::to_string(i)) continue;
      const size_t element = size_of(type.dtype);
      visit_layout(type.shape, output.strides, [&](int64_t logical, int64_t at) {
        std::memcpy(literal.data.data() + static_cast<size_t>(logical) * element,
                    views[t].data + static_cast<size_t>(at) * element, element);
      });
    }
    results.push_back(std::move(literal));
  }
  return results;
}

std::string difference(const ir::Literal& expected, const ir::Literal& actual, double scale) {
  const DType dtype = expected.type.dtype;
  double tolerance = 0;
  switch (real_type(dtype)) {
    case DType::f32:
      tolerance = 1e-4;
      break;
    case DType::f64:
      tolerance = 1e-11;
      break;
    case DType::f16:
      tolerance = 4e-3;
      break;
    case DType::bf16:
      tolerance = 3e-2;
      break;
    case DType::f8e4m3fn:
      tolerance = 0.13;
      break;
    case DType::f8e5m2:
      tolerance = 0.26;
      break;
    default:
      break;
  }
  double worst = 0;
  std::string text;
  for (int64_t i = 0; i < expected.type.elements(); ++i) {
    const uint8_t* e = expected.data.data() + static_cast<size_t>(i) * size_of(dtype);
    const uint8_t* a = actual.data.data() + static_cast<size_t>(i) * size_of(dtype);
    double error = 0, magnitude = 0;
    if (is_complex(dtype)) {
      const ir::Complex x = ir::load_complex(dtype, e), y = ir::load_complex(dtype, a);
      error = std::memcmp(e, a, size_of(dtype)) == 0 ? 0 : std::abs(x - y);
      if (std::isnan(error)) error = 1e300;
      magnitude = std::abs(x);
    } else if (is_floating(dtype)) {
      const double x = ir::load_floating(dtype, e), y = ir::load_floating(dtype, a);
      const bool same = x == y || (std::isnan(x) && std::isnan(y));
      error = same ? 0 : std::abs(x - y);
      if (std::isnan(error)) error = 1e300;
      magnitude = std::abs(x);
    } else {
      error = std::memcmp(e, a, size_of(dtype)) == 0 ? 0 : 1e300;
    }
    const double excess = error - scale * tolerance * (1 + magnitude);
    if (error > 0 && excess > 0 && error > worst) {
      worst = error;
      text = ir::to_string(expected.type) + " element " + std::to_string(i) + " differs by " + std::to_string(error);
      if (is_floating(dtype)) {
        text += ": expected " + std::to_string(ir::load_floating(dtype, e)) + ", got " +
                std::to_string(ir::load_floating(dtype, a));
      }
    }
  }
  return text;
}

bool same_bits(const std::vector<ir::Literal>& a, const std::vector<ir::Literal>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].data != b[i].data) return false;
  }
  return true;
}

}  // namespace neuron::compiler::testing
