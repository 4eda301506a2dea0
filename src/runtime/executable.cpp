// Executables: loading, binding device addresses to tensor sets, launching.
#include <algorithm>
#include <mutex>
#include <set>

#include "base/environment.h"
#include "runtime/process.h"

namespace neuron::runtime {
namespace {

// One named tensor of a tensor set and the slice bound to it. Rebinding is skipped while the address stays the same, which
// with a caching allocator is the common case.
struct Binding {
  TensorBinding tensor;
  const void* address = nullptr;
  nrt_tensor_t* slice = nullptr;
  int borrowed = -1;     // output: input whose slice it shares, because an in-place pair must be one tensor in both sets
  uint64_t version = 0;  // counts rebinds
  uint64_t borrowed_version = 0;
};

}  // namespace

class Executable {
 public:
  Executable(Core& core, nrt_model_t* model, const std::vector<TensorBinding>& inputs,
             const std::vector<TensorBinding>& outputs, int scalar_slots)
      : core_(core), model_(model), scalar_slots_(scalar_slots) {
    for (const TensorBinding& t : inputs) inputs_.push_back({t});
    for (const TensorBinding& t : outputs) outputs_.push_back({t});
  }
  ~Executable();

  Core& core() const { return core_; }
  nrt_model_t* model() const { return model_; }
  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  size_t scalar_slots() const { return scalar_slots_; }

  // The following run with the core's token held.
  Status execute(void* const* inputs, void* const* outputs, const uint64_t* scalars);
  // Forgets all slices, so that they do not keep memory alive.
  void unbind();

 private:
  Status ensure_sets();
  Status bind(nrt_tensor_set_t* set, Binding& binding, const void* address);
  Status bind_scalars(const uint64_t* values);
  Status failure(NRT_STATUS status) const;

  Core& core_;
  nrt_model_t* model_;
  std::vector<Binding> inputs_, outputs_;
  size_t scalar_slots_;
  nrt_tensor_t* scalar_parent_ = nullptr;
  nrt_tensor_t* scalar_slice_ = nullptr;
  nrt_tensor_set_t* input_set_ = nullptr;
  nrt_tensor_set_t* output_set_ = nullptr;
};

namespace {

// Executables alive, so that empty_cache() can drop their slices.
struct Registry {
  std::mutex mutex;
  std::set<Executable*> executables;
};
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

}  // namespace

Executable::~Executable() {
  {
    std::lock_guard lock(registry().mutex);
    registry().executables.erase(this);
  }
  if (!process()) return;  // closed or forked: the library's handles are gone
  // The unloading closure owns what it needs: this object dies now, queued launches of the core may still be ahead.
  struct Remains {
    const nrt::Library& library;
    nrt_model_t* model;
    nrt_tensor_set_t *input_set, *output_set;
    std::vector<nrt_tensor_t*> slices;
  };
  Remains remains{core_.library, model_, input_set_, output_set_, {}};
  for (Binding& b : inputs_) remains.slices.push_back(b.slice);
  for (Binding& b : outputs_) {
    if (b.borrowed < 0) remains.slices.push_back(b.slice);
  }
  remains.slices.push_back(scalar_slice_);
  auto unload = [remains]() mutable {
    if (remains.input_set) remains.library.nrt_destroy_tensor_set(&remains.input_set);
    if (remains.output_set) remains.library.nrt_destroy_tensor_set(&remains.output_set);
    for (nrt_tensor_t*& slice : remains.slices) {
      if (slice) remains.library.nrt_tensor_free(&slice);
    }
    return nrt::check(remains.library, remains.library.nrt_unload(remains.model), "nrt_unload");
  };
  Status status;
  if (!core_.try_run(unload, &status)) core_.enqueue(unload);
}

void Executable::unbind() {
  const nrt::Library& library = core_.library;
  if (input_set_) library.nrt_destroy_tensor_set(&input_set_);
  if (output_set_) library.nrt_destroy_tensor_set(&output_set_);
  input_set_ = output_set_ = nullptr;
  for (auto* bindings : {&inputs_, &outputs_}) {
    for (Binding& b : *bindings) {
      if (b.slice && b.borrowed < 0) library.nrt_tensor_free(&b.slice);
      b.slice = nullptr;
      b.address = nullptr;
      b.borrowed = -1;
    }
  }
  if (scalar_slice_) library.nrt_tensor_free(&scalar_slice_);
  scalar_slice_ = scalar_parent_ = nullptr;
}

Status Executable::ensure_sets() {
  if (input_set_) return {};
  const nrt::Library& library = core_.library;
  NEURON_RETURN_IF_ERROR(nrt::check(library, library.nrt_allocate_tensor_set(&input_set_), "nrt_allocate_tensor_set"));
  return nrt::check(library, library.nrt_allocate_tensor_set(&output_set_), "nrt_allocate_tensor_set");
}

Status Executable::bind(nrt_tensor_set_t* set, Binding& b, const void* address) {
  const nrt::Library& library = core_.library;
  const Segment* segment = AddressSpace::get().find(address);
  if (!segment) return invalid_argument("tensor '" + b.tensor.name + "' has an address that is not device memory");
  if (segment->core != core_.index) {
    return invalid_argument("tensor '" + b.tensor.name + "' is on core " + std::to_string(segment->core) +
                            ", the executable on core " + std::to_string(core_.index));
  }
  nrt_tensor_t* slice = nullptr;
  NEURON_RETURN_IF_ERROR(
      nrt::check(library,
                 library.nrt_tensor_allocate_slice(segment->tensor, static_cast<const char*>(address) - segment->base,
                                                   b.tensor.bytes, b.tensor.name.c_str(), &slice),
                 "nrt_tensor_allocate_slice"));
  const NRT_STATUS added = library.nrt_add_tensor_to_tensor_set(set, b.tensor.name.c_str(), slice);
  if (b.slice && b.borrowed < 0) library.nrt_tensor_free(&b.slice);
  b.slice = slice;
  b.borrowed = -1;
  b.address = address;
  ++b.version;
  return nrt::check(library, added, "nrt_add_tensor_to_tensor_set");
}

Status Executable::bind_scalars(const uint64_t* values) {
  const nrt::Library& library = core_.library;
  NEURON_ASSIGN(nrt_tensor_t* const parent, core_.scalar_slots(scalar_slots_));
  if (parent != scalar_parent_) {
    nrt_tensor_t* slice = nullptr;
    NEURON_RETURN_IF_ERROR(nrt::check(library,
                                      library.nrt_tensor_allocate_slice(parent, 0, scalar_slots_ * 8, "scalars", &slice),
                                      "nrt_tensor_allocate_slice"));
    NEURON_RETURN_IF_ERROR(nrt::check(library, library.nrt_add_tensor_to_tensor_set(input_set_, "scalars", slice),
                                      "nrt_add_tensor_to_tensor_set"));
    if (scalar_slice_) library.nrt_tensor_free(&scalar_slice_);
    scalar_slice_ = slice;
    scalar_parent_ = parent;
  }
  return nrt::check(library, library.nrt_tensor_write(scalar_slice_, values, 0, scalar_slots_ * 8), "nrt_tensor_write");
}

Status Executable::execute(void* const* inputs, void* const* outputs, const uint64_t* scalars) {
  NEURON_RETURN_IF_ERROR(ensure_sets());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].address != inputs[i]) NEURON_RETURN_IF_ERROR(bind(input_set_, inputs_[i], inputs[i]));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Binding& b = outputs_[i];
    const bool lender_moved = b.borrowed >= 0 && inputs_[b.borrowed].version != b.borrowed_version;
    if (b.address == outputs[i] && !lender_moved) continue;
    auto lender = std::find_if(inputs_.begin(), inputs_.end(), [&](const Binding& in) {
      return in.address == outputs[i] && in.tensor.bytes == b.tensor.bytes;
    });
    if (lender == inputs_.end()) {
      NEURON_RETURN_IF_ERROR(bind(output_set_, b, outputs[i]));
      continue;
    }
    const nrt::Library& library = core_.library;
    NEURON_RETURN_IF_ERROR(
        nrt::check(library, library.nrt_add_tensor_to_tensor_set(output_set_, b.tensor.name.c_str(), lender->slice),
                   "nrt_add_tensor_to_tensor_set"));
    if (b.slice && b.borrowed < 0) library.nrt_tensor_free(&b.slice);
    b.slice = lender->slice;
    b.borrowed = static_cast<int>(lender - inputs_.begin());
    b.borrowed_version = lender->version;
    b.address = outputs[i];
    ++b.version;
  }
  if (scalar_slots_) NEURON_RETURN_IF_ERROR(bind_scalars(scalars));
  const NRT_STATUS status = core_.library.nrt_execute(model_, input_set_, output_set_);
  return status == NRT_SUCCESS ? Status() : failure(status);
}

Status Executable::failure(NRT_STATUS status) const {
  const nrt::Library& library = core_.library;
  nrtx_out_of_range_t where{};
  if (status == NRT_EXEC_OOB && library.nrtx_last_out_of_range &&
      library.nrtx_last_out_of_range(&where, sizeof where) == NRT_SUCCESS) {
    return out_of_range(std::string(where.label) + ": index " + std::to_string(where.index) +
                        " is out of bounds for dimension with size " + std::to_string(where.bound));
  }
  return nrt::check(library, status, "nrt_execute");
}

Result<std::shared_ptr<Executable>> load(std::span<const uint8_t> container, int device, std::vector<TensorBinding> inputs,
                                         std::vector<TensorBinding> outputs, int scalar_slots) {
  NEURON_ASSIGN(Process* const p, require_process());
  NEURON_RETURN_IF_ERROR(check_device(*p, device));
  Core& core = *p->cores[device];
  nrt_model_t* model = nullptr;
  static std::mutex loading;  // one load at a time: what libnrt documents as safe everywhere
  {
    std::lock_guard lock(loading);
    NEURON_RETURN_IF_ERROR(
        nrt::check(core.library, core.library.nrt_load(container.data(), container.size(), device, 1, &model), "nrt_load"));
  }
  auto executable = std::make_shared<Executable>(core, model, inputs, outputs, scalar_slots);
  std::lock_guard lock(registry().mutex);
  registry().executables.insert(executable.get());
  return executable;
}

Status launch(const std::shared_ptr<Executable>& executable, std::span<void* const> inputs, std::span<void* const> outputs,
              std::span<const uint64_t> scalars, int64_t) {
  if (!process()) return require_process().status();
  assert(inputs.size() == executable->input_count() && outputs.size() == executable->output_count() &&
         scalars.size() == executable->scalar_slots());
  Core& core = executable->core();
  Status status;
  if (core.try_run([&] { return executable->execute(inputs.data(), outputs.data(), scalars.data()); }, &status))
    return status;
  auto queued = [executable, in = std::vector<void*>(inputs.begin(), inputs.end()),
                 out = std::vector<void*>(outputs.begin(), outputs.end()),
                 values = std::vector<uint64_t>(scalars.begin(), scalars.end())] {
    return executable->execute(in.data(), out.data(), values.data());
  };
  static const bool blocking = environment::boolean("NEURON_LAUNCH_BLOCKING");
  if (blocking) return core.run(queued);
  core.enqueue(queued);
  return {};
}

Status unbind_executables(Core& core) {
  return core.run([&] {
    std::lock_guard lock(registry().mutex);
    for (Executable* e : registry().executables) {
      if (&e->core() == &core) e->unbind();
    }
    return Status();
  });
}

ModelTime model_time(const Executable& executable) {
  ModelTime time;
  const nrt::Library& library = executable.core().library;
  nrtx_model_time_t t{};
  if (!process() || !library.nrtx_get_model_time ||
      library.nrtx_get_model_time(executable.model(), &t, sizeof t) != NRT_SUCCESS) {
    return time;
  }
  time.available = true;
  time.total_ns = t.total_ns;
  time.launch_ns = t.launch_ns;
  time.tensor_ns = t.tensor_busy_ns;
  time.vector_ns = t.vector_busy_ns;
  time.scalar_ns = t.scalar_busy_ns;
  time.gpsimd_ns = t.gpsimd_busy_ns;
  time.dma_ns = t.dma_busy_ns;
  time.routine_ns = t.routine_ns;
  time.hbm_bytes_read = t.hbm_bytes_read;
  time.hbm_bytes_written = t.hbm_bytes_written;
  time.flops = t.flops;
  time.physical_cores_used = static_cast<int>(t.physical_cores_used);
  time.bound_by = t.bound_by;
  return time;
}

namespace {

Result<std::string> take_text(const nrt::Library& library, NRT_STATUS status, const char* call, char* text, size_t length) {
  NEURON_RETURN_IF_ERROR(nrt::check(library, status, call));
  std::string copy(text, length);
  library.nrtx_free(text);
  return copy;
}

}  // namespace

Result<std::string> timeline_json(const Executable& executable, uint64_t max_events) {
  const nrt::Library& library = executable.core().library;
  if (!library.nrtx_get_model_timeline) return unavailable("timelines need the software NeuronCore");
  char* text = nullptr;
  size_t length = 0;
  const NRT_STATUS status = library.nrtx_get_model_timeline(executable.model(), max_events, &text, &length);
  return take_text(library, status, "nrtx_get_model_timeline", text, length);
}

Result<std::string> disassembly(const Executable& executable) {
  const nrt::Library& library = executable.core().library;
  if (!library.nrtx_disassemble) return unavailable("disassembly needs the software NeuronCore");
  char* text = nullptr;
  size_t length = 0;
  const NRT_STATUS status = library.nrtx_disassemble(executable.model(), &text, &length);
  return take_text(library, status, "nrtx_disassemble", text, length);
}

}  // namespace neuron::runtime
