// Models: load, unload, execute, tensor information.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "emulator/abi/library_state.h"
#include "emulator/interpreter/supported.h"
#include "isa/container.h"
#include "isa/disassembler.h"

namespace neuron::emulator {
namespace {

constexpr uint64_t kScratchAlignment = 256;
constexpr size_t kNameLimit = sizeof(nrt_tensor_info_t::name);

bool parse_shuffle_seed(const std::string& name, uint64_t* seed) {
  constexpr std::string_view kPrefix = "shuffled:";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  const char* end = name.data() + name.size();
  auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, *seed);
  return error == std::errc() && stop == end;
}

// Where the model's tensors come from; names must be unique per set and fit into nrt_tensor_info_t.
Status plan_bindings(Model& m) {
  const isa::Program& p = *m.program;
  m.views.resize(p.tensors.size());
  for (uint32_t i = 0; i < p.tensors.size(); ++i) {
    const isa::Tensor& t = p.tensors[i];
    switch (t.role) {
      case isa::TensorRole::input:
      case isa::TensorRole::output: {
        if (t.name.empty() || t.name.size() >= kNameLimit)
          return invalid_argument("tensor name '" + t.name.substr(0, 32) + "' has a bad length");
        const bool output = t.role == isa::TensorRole::output;
        for (const Model::Binding& b : m.bindings) {
          if (b.output == output && p.tensors[b.tensor].name == t.name)
            return invalid_argument("two tensors named '" + t.name + "'");
        }
        m.bindings.push_back({i, output, 0, t.bytes});
        if (t.alias_of >= 0) m.aliases.emplace_back(i, static_cast<uint32_t>(t.alias_of));
        break;
      }
      case isa::TensorRole::constant:
        m.constant_bytes = std::max(m.constant_bytes, t.constant_offset + t.bytes);
        break;
      case isa::TensorRole::scratch:
        m.scratch_tensors.emplace_back(i, m.scratch_bytes);
        m.scratch_bytes += (t.bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
        break;
    }
  }
  return {};
}

Status place_constants(Model& m) {
  if (m.constant_bytes == 0) return {};
  const std::vector<uint8_t>& bytes = m.program->constants;
  if (m.constant_bytes > bytes.size()) return invalid_argument("constants outside the constant section");
  NEURON_ASSIGN(m.constants, m.core->hbm.allocate(m.constant_bytes));
  std::memcpy(m.constants, bytes.data(), m.constant_bytes);
  for (size_t i = 0; i < m.views.size(); ++i) {
    const isa::Tensor& t = m.program->tensors[i];
    if (t.role == isa::TensorRole::constant) m.views[i] = {m.constants + t.constant_offset, t.bytes};
  }
  return {};
}

// The core's scratch, grown when this model needs more; then this model's views of it.
Status place_scratch(Model& m) {
  Core& core = *m.core;
  if (core.scratch_bytes < m.scratch_bytes) {
    if (core.scratch) core.hbm.release(core.scratch, core.scratch_bytes);
    core.scratch = nullptr;
    core.scratch_bytes = 0;
    NEURON_ASSIGN(core.scratch, core.hbm.allocate(m.scratch_bytes));
    core.scratch_bytes = m.scratch_bytes;
  }
  for (const auto& [tensor, offset] : m.scratch_tensors)
    m.views[tensor] = {core.scratch + offset, m.program->tensors[tensor].bytes};
  return {};
}

Result<std::unique_ptr<Model>> build_model(Core& core, std::span<const uint8_t> bytes) {
  NEURON_ASSIGN(isa::Program program, isa::parse(bytes));
  if (program.target != core.target.name) {
    return invalid_argument("the executable is for target '" + program.target + "', the core is a '" +
                            std::string(core.target.name) + "'");
  }
  auto m = std::make_unique<Model>();
  m->core = &core;
  m->program = std::make_shared<const isa::Program>(std::move(program));
  NEURON_RETURN_IF_ERROR(check_supported(*m->program));
  NEURON_RETURN_IF_ERROR(plan_bindings(*m));
  m->executor_choice = library().executor_choice.load();
  NEURON_ASSIGN(m->executor, make_executor(m->program));
  NEURON_RETURN_IF_ERROR(place_constants(*m));
  return m;
}

// Maps the program's names to positions in the two sets; exact: no name missing, none too many.
Status match_sets(Model& m, const TensorSet& inputs, const TensorSet& outputs) {
  m.input_layout = m.output_layout = 0;
  size_t counts[2] = {0, 0};
  for (Model::Binding& b : m.bindings) {
    const TensorSet& set = b.output ? outputs : inputs;
    const std::string& name = m.program->tensors[b.tensor].name;
    const size_t guess = counts[b.output]++;
    auto it = guess < set.entries.size() && set.entries[guess].name == name
                  ? set.entries.begin() + static_cast<ptrdiff_t>(guess)
                  : std::find_if(set.entries.begin(), set.entries.end(), [&](const auto& e) { return e.name == name; });
    if (it == set.entries.end())
      return invalid_argument(std::string(b.output ? "output" : "input") + " '" + name + "' is missing from the tensor set");
    b.entry = static_cast<uint32_t>(it - set.entries.begin());
  }
  for (const TensorSet* set : {&inputs, &outputs}) {
    const bool output = set == &outputs;
    if (counts[output] == set->entries.size()) continue;
    for (const TensorSet::Entry& e : set->entries) {
      const bool known = std::any_of(m.bindings.begin(), m.bindings.end(), [&](const Model::Binding& b) {
        return b.output == output && m.program->tensors[b.tensor].name == e.name;
      });
      if (!known)
        return invalid_argument("the executable has no " + std::string(output ? "output" : "input") + " '" + e.name + "'");
    }
  }
  m.input_layout = inputs.layout;
  m.output_layout = outputs.layout;
  return {};
}

// Binds the sets' tensors to the model's views. The message of a failure is made by the slow path.
Status describe_bad_tensor(const Model& m, const Model::Binding& b, const TensorSet::Entry& e) {
  const std::string what = std::string(b.output ? "output" : "input") + " '" + e.name + "'";
  if (e.tensor->serial.load() != e.serial) return invalid_argument(what + " was freed");
  if (e.tensor->core != m.core) {
    return invalid_argument(what + " is on core " + std::to_string(e.tensor->core->index) + ", the executable on core " +
                            std::to_string(m.core->index));
  }
  return invalid_argument(what + " has " + std::to_string(e.tensor->bytes) + " bytes, the executable needs " +
                          std::to_string(b.bytes));
}

Status bind_tensors(Model& m, const TensorSet& inputs, const TensorSet& outputs) {
  if (m.input_layout != inputs.layout || m.output_layout != outputs.layout)
    NEURON_RETURN_IF_ERROR(match_sets(m, inputs, outputs));
  for (const Model::Binding& b : m.bindings) {
    const TensorSet::Entry& e = (b.output ? outputs : inputs).entries[b.entry];
    const nrt_tensor* t = e.tensor;
    if (t->serial.load(std::memory_order_acquire) != e.serial || t->core != m.core || t->bytes != b.bytes) [[unlikely]] {
      return describe_bad_tensor(m, b, e);
    }
    m.views[b.tensor] = {t->data, t->bytes};
  }
  for (const auto& [output, input] : m.aliases) {
    if (m.views[output].data != m.views[input].data) {
      return invalid_argument("output '" + m.program->tensors[output].name + "' is computed in place of input '" +
                              m.program->tensors[input].name + "': both sets must hold the same tensor");
    }
  }
  return {};
}

NRT_STATUS execution_failure(const Launch& launch, const Status& status) {
  constexpr const char* kCall = "nrt_execute";
  switch (status.code()) {
    case Code::out_of_range: {
      const NRT_STATUS code = fail(NRT_EXEC_OOB, kCall, status.message());
      remember_out_of_range(launch.out_of_range);
      return code;
    }
    case Code::out_of_memory:
      return fail(NRT_RESOURCE, kCall, status.message());
    default:
      return fail(NRT_EXEC_COMPLETED_WITH_ERR, kCall, status.message());
  }
}

nrt_dtype_t reported_dtype(DType t) {
  switch (t) {
    case DType::boolean:
    case DType::u8:
      return NRT_DTYPE_UINT8;
    case DType::i8:
      return NRT_DTYPE_INT8;
    case DType::u16:
      return NRT_DTYPE_UINT16;
    case DType::i16:
      return NRT_DTYPE_INT16;
    case DType::u32:
      return NRT_DTYPE_UINT32;
    case DType::i32:
      return NRT_DTYPE_INT32;
    case DType::u64:
      return NRT_DTYPE_UINT64;
    case DType::i64:
      return NRT_DTYPE_INT64;
    case DType::f8e4m3fn:
      return NRT_DTYPE_FP8_E4;
    case DType::f8e5m2:
      return NRT_DTYPE_FP8_E5;
    case DType::f16:
      return NRT_DTYPE_FLOAT16;
    case DType::bf16:
      return NRT_DTYPE_BFLOAT16;
    case DType::f32:
      return NRT_DTYPE_FLOAT32;
    default:
      return NRT_DTYPE_INVALID;
  }
}

}  // namespace

Status check_executor_name(const std::string& name) {
  uint64_t seed = 0;
  if (name == "plan" || name == "interpreter" || parse_shuffle_seed(name, &seed)) return {};
  return invalid_argument("NEURON_EMULATOR_EXECUTOR '" + name + "'; valid: plan, interpreter, shuffled:SEED");
}

Result<std::unique_ptr<Executor>> make_executor(const std::shared_ptr<const isa::Program>& program) {
  Library& lib = library();
  std::string name;
  {
    std::lock_guard lock(lib.executor_mutex);
    name = lib.executor_name;
  }
  uint64_t seed = 0;
  if (name == "interpreter") return make_interpreter(program);
  if (parse_shuffle_seed(name, &seed)) return make_interpreter(program, {seed});
  return make_plan(program);
}

void destroy_model(Model* model) {
  std::lock_guard lock(library().models_mutex);
  if (model->constants) model->core->hbm.release(model->constants, model->constant_bytes);
  delete model;
}

}  // namespace neuron::emulator

using namespace neuron::emulator;

NRT_STATUS nrt_load(const void* bytes, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t** model) {
  constexpr const char* kCall = "nrt_load";
  NEURON_NRT_ENTER(kCall);
  if (!model) return fail(NRT_INVALID, kCall, "no place for the result");
  *model = nullptr;
  if (!bytes || size == 0) return fail(NRT_INVALID, kCall, "no bytes");
  Library& lib = library();
  if (vnc_count > static_cast<int32_t>(lib.cores.size())) {
    return fail(NRT_LOAD_NOT_ENOUGH_NC, kCall,
                std::to_string(vnc_count) + " cores wanted, " + std::to_string(lib.cores.size()) + " visible");
  }
  if (vnc_count != -1 && vnc_count != 1)
    return fail(NRT_INVALID, kCall, "vnc_count " + std::to_string(vnc_count) + "; valid: 1 or -1");
  Core* core = nullptr;
  if (const NRT_STATUS s = find_core(kCall, vnc == -1 ? 0 : vnc, &core)) return s;
  const auto version = neuron::isa::container_version({static_cast<const uint8_t*>(bytes), size});
  if (!version) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION, kCall,
                "the bytes are no executable of the software NeuronCore (a NEFF runs on a Trainium host only)");
  }
  if (*version != neuron::isa::kContainerVersion) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION, kCall,
                "executable of format version " + std::to_string(*version) + ", this library reads " +
                    std::to_string(neuron::isa::kContainerVersion));
  }
  auto built = build_model(*core, {static_cast<const uint8_t*>(bytes), size});
  if (!built.ok()) return fail(kCall, built.status());
  nrt_model* handle = lib.models.allocate();
  if (!handle) {
    destroy_model(std::move(*built).release());
    return fail(NRT_RESOURCE, kCall, "too many models");
  }
  handle->model = std::move(*built).release();
  lib.models.publish(handle);
  *model = handle;
  return NRT_SUCCESS;
}

NRT_STATUS nrt_unload(nrt_model_t* model) {
  constexpr const char* kCall = "nrt_unload";
  NEURON_NRT_ENTER(kCall);
  Library& lib = library();
  nrt_model* handle = lib.models.find(model);
  if (!handle || !lib.models.retire(handle)) {
    return fail(NRT_INVALID_HANDLE, kCall, std::string("the model ") + lib.models.what_is_wrong(model));
  }
  Model* m = handle->model;
  {
    std::lock_guard lock(m->core->executing);  // a running launch ends first
    if (m->executions) {
      if (m->priced)
        m->core->clock_ns += m->launch_to_launch_ns * static_cast<double>(m->executions);
      else
        m->core->retired.push_back({m->program, m->executions});
      // Pricing is put off until the clock is read, but not without bound.
      constexpr size_t kMostRetired = 64;
      if (m->core->retired.size() > kMostRetired) {
        for (const Executions& e : m->core->retired)
          m->core->clock_ns += priced_launch_ns(*e.program) * static_cast<double>(e.count);
        m->core->retired.clear();
      }
    }
    destroy_model(m);
  }
  lib.models.release(handle);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* inputs, nrt_tensor_set_t* outputs) {
  constexpr const char* kCall = "nrt_execute";
  NEURON_NRT_ENTER(kCall);
  Library& lib = library();
  nrt_model* handle = lib.models.find(model);
  if (!handle) return fail(NRT_INVALID_HANDLE, kCall, std::string("the model ") + lib.models.what_is_wrong(model));
  const SetHandle* in = lib.sets.find(inputs);
  const SetHandle* out = lib.sets.find(outputs);
  if (!in || !out)
    return fail(NRT_INVALID_HANDLE, kCall, std::string("the tensor set ") + lib.sets.what_is_wrong(in ? outputs : inputs));
  Model& m = *handle->model;
  std::lock_guard lock(m.core->executing);
  if (neuron::Status s = bind_tensors(m, *in->set, *out->set); !s.ok()) [[unlikely]]
    return fail(kCall, s);
  if (m.scratch_bytes) {
    if (neuron::Status s = place_scratch(m); !s.ok()) return fail(kCall, s);
  }
  if (m.executor_choice != lib.executor_choice.load(std::memory_order_acquire)) [[unlikely]] {
    m.executor_choice = lib.executor_choice.load();
    auto made = make_executor(m.program);
    if (!made.ok()) return fail(kCall, made.status());
    m.executor = std::move(*made);
  }
  Launch launch{m.views,
                *lib.pool,
                lib.interrupt.load(std::memory_order_acquire),
                lib.interrupt_argument.load(std::memory_order_relaxed),
                {}};
  const neuron::Status status = m.executor->run(launch);
  ++m.executions;
  if (!status.ok()) [[unlikely]]
    return execution_failure(launch, status);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model, nrt_tensor_info_array_t** info) {
  constexpr const char* kCall = "nrt_get_model_tensor_info";
  NEURON_NRT_ENTER(kCall);
  Library& lib = library();
  nrt_model* handle = lib.models.find(model);
  if (!handle) return fail(NRT_INVALID_HANDLE, kCall, std::string("the model ") + lib.models.what_is_wrong(model));
  if (!info) return fail(NRT_INVALID, kCall, "no place for the result");
  const Model& m = *handle->model;
  size_t dims = 0;
  for (const Model::Binding& b : m.bindings) dims += m.program->tensors[b.tensor].shape.size();
  // One block: the array, then all shapes.
  const size_t array_bytes = sizeof(nrt_tensor_info_array_t) + m.bindings.size() * sizeof(nrt_tensor_info_t);
  void* block = std::calloc(1, array_bytes + dims * sizeof(uint32_t));
  if (!block) return fail(NRT_FAIL_HOST_MEM_ALLOC, kCall, "no host memory");
  auto* array = static_cast<nrt_tensor_info_array_t*>(block);
  auto* shapes = reinterpret_cast<uint32_t*>(static_cast<char*>(block) + array_bytes);
  for (const Model::Binding& b : m.bindings) {
    const neuron::isa::Tensor& t = m.program->tensors[b.tensor];
    nrt_tensor_info_t& out = array->tensor_array[array->tensor_count++];
    std::memcpy(out.name, t.name.c_str(), t.name.size());
    out.usage = b.output ? NRT_TENSOR_USAGE_OUTPUT : NRT_TENSOR_USAGE_INPUT;
    out.size = t.bytes;
    out.dtype = reported_dtype(t.dtype);
    out.shape = shapes;
    out.ndim = static_cast<uint32_t>(t.shape.size());
    for (int64_t d : t.shape) *shapes++ = static_cast<uint32_t>(d);
  }
  *info = array;
  return NRT_SUCCESS;
}

NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* info) {
  std::free(info);
  return NRT_SUCCESS;
}
