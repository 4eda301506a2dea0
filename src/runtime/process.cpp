#include "runtime/process.h"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/environment.h"

namespace neuron::runtime {

Status unbind_executables(Core& core);  // executable.cpp

namespace {

std::atomic<Process*> active{nullptr};
std::atomic<bool> forked{false};  // this is a child of a process that had initialised
std::mutex initializing;
thread_local int current = 0;

struct LibraryState {
  std::unique_ptr<nrt::Library> library;
  Status status;
};

// The library is opened once and kept; opening it initialises nothing.
LibraryState& library_state() {
  static LibraryState* state = [] {
    auto* s = new LibraryState;
    auto opened = nrt::open_selected();
    if (opened.ok()) {
      s->library = std::move(opened).value();
    } else {
      s->status = opened.status();
    }
    return s;
  }();
  return *state;
}

void in_forked_child() {
  if (active.exchange(nullptr)) forked = true;
}

Status forked_error() {
  return unavailable(
      "Cannot re-initialize neuron in forked subprocess. To use neuron with multiprocessing, you must use the 'spawn' start "
      "method");
}

Status start() {
  LibraryState& state = library_state();
  if (!state.library) return state.status;
  nrt::Library& library = *state.library;
  const std::string& level = environment::text("TORCH_NEURONX_LOG");
  if (level == "info" || level == "debug") {
    std::fprintf(stderr, "[torch_neuronx] runtime %s (%s)\n", library.path.c_str(), library.reason.c_str());
  }
  NEURON_RETURN_IF_ERROR(AddressSpace::get().reserve());
  NEURON_RETURN_IF_ERROR(nrt::check(library, library.nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init"));
  uint32_t count = 0;
  NEURON_RETURN_IF_ERROR(nrt::check(library, library.nrt_get_visible_vnc_count(&count), "nrt_get_visible_vnc_count"));
  auto* p = new Process;  // never destroyed: deleters run at exit
  p->library = std::move(state.library);
  for (uint32_t i = 0; i < count && i < kMaxCores; ++i)
    p->cores.push_back(std::make_unique<Core>(*p->library, static_cast<int>(i)));
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, in_forked_child); });
  active.store(p, std::memory_order_release);
  return {};
}

}  // namespace

Process* process() { return active.load(std::memory_order_acquire); }

Status initialize() {
  if (process()) return {};
  if (forked) return forked_error();
  std::lock_guard lock(initializing);
  static Status failed;  // a failure stays: half-claimed cores must not be claimed again
  if (process()) return {};
  if (!failed.ok()) return failed;
  Status status = start();
  if (!status.ok()) failed = status;
  return status;
}

bool initialized() { return process() != nullptr; }

Result<Process*> require_process() {
  NEURON_RETURN_IF_ERROR(initialize());
  return process();
}

Status check_device(const Process& p, int device) {
  if (device >= 0 && device < static_cast<int>(p.cores.size())) return {};
  return invalid_argument("invalid device ordinal " + std::to_string(device) + ": " + std::to_string(p.cores.size()) +
                          " logical NeuronCores are visible");
}

int device_count() {
  if (const Process* p = process()) return static_cast<int>(p->cores.size());
  const LibraryState& state = library_state();
  if (!state.library) return 0;
  uint32_t count = 0;
  if (state.library->nrt_get_visible_vnc_count(&count) != NRT_SUCCESS &&
      state.library->nrt_get_total_vnc_count(&count) != NRT_SUCCESS) {
    return 0;
  }
  return static_cast<int>(std::min<uint32_t>(count, kMaxCores));
}

Result<RuntimeInfo> info() {
  const LibraryState& state = library_state();
  const Process* p = process();
  const nrt::Library* library = p ? p->library.get() : state.library.get();
  if (!library) return state.status;
  RuntimeInfo out;
  out.library = library->path;
  out.reason = library->reason;
  out.emulated = library->emulated;
  nrt_version_t version{};
  if (library->nrt_get_version(&version, sizeof version) == NRT_SUCCESS) {
    out.version = std::to_string(version.rt_major) + "." + std::to_string(version.rt_minor) + "." +
                  std::to_string(version.rt_patch) + "." + std::to_string(version.rt_maintenance);
  }
  nrt_instance_info_t instance{};
  if (library->nrt_get_instance_info && library->nrt_get_instance_info(&instance, sizeof instance) == NRT_SUCCESS) {
    out.instance = std::string(instance.arch_name, strnlen(instance.arch_name, sizeof instance.arch_name));
  }
  if (library->nrtx_host_isa) out.host_isa = library->nrtx_host_isa();
  return out;
}

int current_device() { return current; }
void set_current_device(int device) { current = device; }

// --- memory ---

Result<void*> allocate(size_t bytes, int device, int64_t) {
  Process* p = process();
  if (!p) {
    NEURON_ASSIGN(p, require_process());
  }
  NEURON_RETURN_IF_ERROR(check_device(*p, device));
  Core& core = *p->cores[device];
  auto result = core.allocator.allocate(bytes);
  if (result.ok() || result.status().code() != Code::out_of_memory) return result;
  // Slices that executables keep bound hold segments alive: let go of them and try once more.
  NEURON_RETURN_IF_ERROR(unbind_executables(core));
  core.allocator.empty_cache();
  return core.allocator.allocate(bytes);
}

void free(void* address) {
  Process* p = process();
  if (!p || !address) return;
  AddressSpace& space = AddressSpace::get();
  if (space.contains(address)) p->cores[space.core_of(address)]->allocator.free(address);
}

Status empty_cache(int device) {
  Process* p = process();
  if (!p) return {};
  NEURON_RETURN_IF_ERROR(check_device(*p, device));
  NEURON_RETURN_IF_ERROR(unbind_executables(*p->cores[device]));
  p->cores[device]->allocator.empty_cache();
  return {};
}

MemoryStats memory_stats(int device) {
  Process* p = process();
  return p && check_device(*p, device).ok() ? p->cores[device]->allocator.stats() : MemoryStats{};
}

void reset_peak_stats(int device) {
  Process* p = process();
  if (p && check_device(*p, device).ok()) p->cores[device]->allocator.reset_peak();
}

void reset_accumulated_stats(int device) {
  Process* p = process();
  if (p && check_device(*p, device).ok()) p->cores[device]->allocator.reset_accumulated();
}

Result<MemoryInfo> memory_info(int device) {
  NEURON_ASSIGN(Process* const p, require_process());
  NEURON_RETURN_IF_ERROR(check_device(*p, device));
  if (!p->library->nrt_get_vnc_memory_stats) return unavailable("this libnrt does not report memory statistics");
  nrt_vnc_memory_stats_t stats{};
  size_t written = 0;
  NEURON_RETURN_IF_ERROR(nrt::check(*p->library,
                                    p->library->nrt_get_vnc_memory_stats(device, &stats, sizeof stats, &written),
                                    "nrt_get_vnc_memory_stats"));
  return MemoryInfo{stats.bytes_limit - stats.bytes_used, stats.bytes_limit};
}

bool owns_address(const void* address, int* device) {
  AddressSpace& space = AddressSpace::get();
  if (!space.contains(address)) return false;
  *device = space.core_of(address);
  return true;
}

bool allocation_extent(const void* address, void** start, size_t* bytes) {
  Process* p = process();
  AddressSpace& space = AddressSpace::get();
  return p && space.contains(address) && p->cores[space.core_of(address)]->allocator.extent(address, start, bytes);
}

// --- copies ---

namespace {

struct Place {
  Core* core;
  nrt_tensor_t* tensor;
  size_t offset;
};

Result<Place> place_of(const void* address, size_t bytes) {
  NEURON_ASSIGN(Process* const p, require_process());
  const Segment* segment = AddressSpace::get().find(address);
  if (!segment) return invalid_argument("address is not device memory");
  const size_t offset = static_cast<const char*>(address) - segment->base;
  if (offset + bytes > segment->bytes) return invalid_argument("copy runs past the end of its allocation");
  return Place{p->cores[segment->core].get(), segment->tensor, offset};
}

}  // namespace

Status copy_to_device(void* target, const void* source, size_t bytes) {
  if (bytes == 0) return {};
  NEURON_ASSIGN(const Place to, place_of(target, bytes));
  const nrt::Library& library = to.core->library;
  return to.core->run([&] {
    return nrt::check(library, library.nrt_tensor_write(to.tensor, source, to.offset, bytes), "nrt_tensor_write");
  });
}

Status copy_to_host(void* target, const void* source, size_t bytes) {
  if (bytes == 0) return {};
  NEURON_ASSIGN(const Place from, place_of(source, bytes));
  const nrt::Library& library = from.core->library;
  return from.core->run([&] {
    return nrt::check(library, library.nrt_tensor_read(from.tensor, target, from.offset, bytes), "nrt_tensor_read");
  });
}

Status copy_on_device(void* target, const void* source, size_t bytes) {
  if (bytes == 0) return {};
  NEURON_ASSIGN(const Place to, place_of(target, bytes));
  NEURON_ASSIGN(const Place from, place_of(source, bytes));
  const nrt::Library& library = to.core->library;
  if (to.core == from.core) {
    return to.core->run([&] {
      return nrt::check(library, library.nrt_tensor_copy(from.tensor, from.offset, to.tensor, to.offset, bytes),
                        "nrt_tensor_copy");
    });
  }
  constexpr size_t kChunk = size_t{16} << 20;
  std::vector<char> buffer(std::min(bytes, kChunk));
  for (size_t done = 0; done < bytes; done += buffer.size()) {
    const size_t n = std::min(buffer.size(), bytes - done);
    NEURON_RETURN_IF_ERROR(copy_to_host(buffer.data(), static_cast<const char*>(source) + done, n));
    NEURON_RETURN_IF_ERROR(copy_to_device(static_cast<char*>(target) + done, buffer.data(), n));
  }
  return {};
}

Status fill(void* target, int byte, size_t bytes) {
  if (bytes == 0) return {};
  NEURON_ASSIGN(const Place to, place_of(target, bytes));
  const nrt::Library& library = to.core->library;
  if (library.nrt_tensor_memset) {
    return to.core->run([&] {
      return nrt::check(library, library.nrt_tensor_memset(to.tensor, to.offset, byte, bytes), "nrt_tensor_memset");
    });
  }
  const std::vector<char> pattern(bytes, static_cast<char>(byte));
  return copy_to_device(target, pattern.data(), bytes);
}

// --- extensions ---

double core_clock_ns(int device) {
  Process* p = process();
  return p && check_device(*p, device).ok() ? p->cores[device]->clock_ns() : 0;
}

Status set_executor(const std::string& name) {
  NEURON_ASSIGN(Process* const p, require_process());
  if (!p->library->nrtx_set_executor) return unavailable("executors can be chosen on the software NeuronCore only");
  return nrt::check(*p->library, p->library->nrtx_set_executor(name.c_str()), "nrtx_set_executor");
}

Status set_threads(int count) {
  NEURON_ASSIGN(Process* const p, require_process());
  if (count < 1) return invalid_argument("threads must be at least 1, not " + std::to_string(count));
  if (!p->library->nrtx_set_threads) return unavailable("host threads can be set on the software NeuronCore only");
  return nrt::check(*p->library, p->library->nrtx_set_threads(static_cast<uint32_t>(count)), "nrtx_set_threads");
}

}  // namespace neuron::runtime
