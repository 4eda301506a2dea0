#include "pytorch/dispatch/compiled_graph.h"

#include <charconv>
#include <chrono>

#include "base/environment.h"
#include "compiler/compiler.h"
#include "isa/container.h"
#include "pytorch/error.h"
#include "pytorch/scalar.h"

namespace neuron::pytorch {
namespace {

// "input12" -> 12 for prefix "input".
std::optional<int32_t> numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() == prefix.size()) return std::nullopt;
  int32_t number = 0;
  const char* end = name.data() + name.size();
  auto [parsed, error] = std::from_chars(name.data() + prefix.size(), end, number);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return number;
}

const compiler::Options& compiler_options() {
  static const compiler::Options options = [] {
    compiler::Options o;
    o.dump_dir = environment::text("TORCH_NEURONX_DUMP_DIR");
    std::string_view rest = environment::text("TORCH_NEURONX_DISABLE_PASSES");
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      o.disabled_passes.emplace_back(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    return o;
  }();
  return options;
}

}  // namespace

Result<CompiledGraph> compile_graph(const ir::Graph& graph, int device, int scalar_slots, std::string signature) {
  const auto begin = std::chrono::steady_clock::now();
  CompiledGraph out;
  NEURON_ASSIGN(const isa::Program program, compiler::compile(graph, compiler_options()));
  std::vector<runtime::TensorBinding> inputs, outputs;
  for (const isa::Tensor& tensor : program.tensors) {
    if (tensor.role == isa::TensorRole::input) {
      if (tensor.name == "scalars") {
        out.scalar_slots = static_cast<int>(tensor.bytes / sizeof(uint64_t));  // up to the last one that is read
        if (out.scalar_slots > scalar_slots) return internal_error("the program reads more scalars than the graph has");
      } else if (auto index = numbered(tensor.name, "input")) {
        out.inputs.push_back(*index);
        inputs.push_back({tensor.name, tensor.bytes});
      } else {
        return internal_error("the compiler made an input named " + tensor.name);
      }
    } else if (tensor.role == isa::TensorRole::output) {
      const auto index = numbered(tensor.name, "output");
      if (!index) return internal_error("the compiler made an output named " + tensor.name);
      out.outputs.push_back(*index);
      outputs.push_back({tensor.name, tensor.bytes});
    }
  }
  NEURON_ASSIGN(out.executable,
                runtime::load(isa::serialize(program), device, std::move(inputs), std::move(outputs), out.scalar_slots));
  out.record = tracking::add_record(graph.name, std::move(signature), device);
  out.record->executable = out.executable;
  out.record->compile_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

void CompiledGraph::launch_addresses(std::span<void* const> in, std::span<void* const> out,
                                     std::span<const uint64_t> scalars, int device) const {
  static const bool blocking = environment::boolean("NEURON_LAUNCH_BLOCKING");
  record->launches.fetch_add(1, std::memory_order_relaxed);
  check(runtime::launch(executable, in, out, scalars.first(scalar_slots), runtime::current_stream(device)));
  if (blocking) [[unlikely]]
    check(runtime::synchronize(device).within(record->name));
}

std::string describe(const at::Tensor& t) {
  if (!t.defined()) return "None";
  const auto dtype = to_dtype(t.scalar_type());
  std::string out(dtype ? name_of(*dtype) : std::string_view(c10::toString(t.scalar_type())));
  out += '[';
  for (int64_t d = 0; d < t.dim(); ++d) out += (d ? "," : "") + std::to_string(t.size(d));
  out += ']';
  if (!t.is_contiguous()) {
    out += "{";
    for (int64_t d = 0; d < t.dim(); ++d) out += (d ? "," : "") + std::to_string(t.stride(d));
    out += "}";
  }
  if (t.device().is_cpu()) out += "@cpu";
  return out;
}

}  // namespace neuron::pytorch
