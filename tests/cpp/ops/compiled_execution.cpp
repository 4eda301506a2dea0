#include "ops/compiled_execution.h"

#include <cstring>
#include <memory>

#include "compiler/compiler.h"
#include "emulator/executor.h"
#include "isa/validator.h"

namespace neuron::ops::testing {

Result<std::vector<ir::Literal>> execute_compiled(const ir::Graph& graph, const std::vector<ir::Literal>& tensors,
                                                  const std::vector<uint64_t>& scalars, const std::string& executor) {
  if (executor != "plan" && executor != "interpreter") return invalid_argument("no executor '" + executor + "'");
  NEURON_ASSIGN(isa::Program compiled, compiler::compile(graph));
  NEURON_RETURN_IF_ERROR(isa::validate(compiled));
  const auto program = std::make_shared<const isa::Program>(std::move(compiled));

  std::vector<std::vector<uint8_t>> memory(program->tensors.size());
  const auto fill = [&](size_t t, const void* data, size_t bytes) {
    std::memcpy(memory[t].data(), data, std::min<size_t>(bytes, program->tensors[t].bytes));
  };
  std::vector<emulator::TensorView> views(memory.size());
  for (size_t t = 0; t < memory.size(); ++t) {
    const isa::Tensor& tensor = program->tensors[t];
    memory[t].assign(tensor.bytes + 64, 0xff);
    if (tensor.role == isa::TensorRole::constant) fill(t, program->constants.data() + tensor.constant_offset, tensor.bytes);
    if (tensor.name == "scalars") fill(t, scalars.data(), scalars.size() * sizeof(uint64_t));
    if (tensor.role == isa::TensorRole::input && tensor.name.rfind("input", 0) == 0) {
      const ir::Literal& literal = tensors[std::stoul(tensor.name.substr(5))];
      fill(t, literal.data.data(), literal.data.size());
    }
    views[t] = {memory[t].data(), tensor.bytes};
  }

  auto ready = executor == "plan" ? emulator::make_plan(program) : emulator::make_interpreter(program, {});
  if (!ready.ok()) return ready.status();
  emulator::ThreadPool pool(1);
  emulator::Launch launch{views, pool};
  NEURON_RETURN_IF_ERROR((*ready)->run(launch));

  std::vector<ir::Literal> results;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ir::Type& type = graph.type(graph.outputs[i].value);
    ir::Literal result{type, std::vector<uint8_t>(static_cast<size_t>(type.elements()) * size_of(type.dtype))};
    for (size_t t = 0; t < memory.size(); ++t) {
      if (program->tensors[t].name == "output" + std::to_string(i)) {
        std::memcpy(result.data.data(), memory[t].data(), result.data.size());
      }
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace neuron::ops::testing
