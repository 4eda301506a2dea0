// Devices, streams, events, device memory and executables over a libnrt (src/nrt). No ATen, no IR.
//
// Device addresses come from a reserved range of the process's address space that is never mapped: address -> (segment,
// offset). Dereferencing one on the host faults instead of quietly working.
//
// Order. Each core has one FIFO of launches and copies and one execution token. A launch runs on the caller's thread only if
// "queue empty, worker idle, token taken" is one atomic step; otherwise it queues behind. Streams of one core share that
// FIFO.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace neuron::runtime {

// --- process ---

// Loads libnrt and claims the cores; called by the first real use, never by queries. Errors stay: later calls repeat them.
// After fork() in a child: unavailable("... forked child ...").
Status initialize();
bool initialized();
// Cores visible to this process; 0 when there is no usable runtime. Never initialises, never throws, safe before fork.
int device_count();
// What `./dev doctor` and torch_neuronx.config print: which library, why, version, instance.
struct RuntimeInfo {
  std::string library, reason, version, instance, host_isa;
  bool emulated = false;
};
Result<RuntimeInfo> info();

// Per-thread current core.
int current_device();
void set_current_device(int device);

// --- memory ---

struct MemoryStats {  // bytes and counts, per core, as c10::CachingDeviceAllocator's DeviceStats wants them
  struct Stat {
    int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  };
  Stat allocation_count, segment_count, active_count, inactive_split_count;
  Stat allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  int64_t alloc_retries = 0, ooms = 0, alloc_calls = 0, free_calls = 0;
};

// The caching allocator. Streams of a core share one FIFO, so a freed block may be reused at once by any of them.
Result<void*> allocate(size_t bytes, int device, int64_t stream);  // bytes == 0: a null pointer
void free(void* address);                                          // never throws; safe after close
Status empty_cache(int device);
MemoryStats memory_stats(int device);
void reset_peak_stats(int device);
void reset_accumulated_stats(int device);
struct MemoryInfo {
  uint64_t free_bytes = 0, total_bytes = 0;
};
Result<MemoryInfo> memory_info(int device);
// True when the address lies in the reserved range; `device` gets its core.
bool owns_address(const void* address, int* device);
// Extent of the allocation that contains `address`: start and size; false if none.
bool allocation_extent(const void* address, void** start, size_t* bytes);

// --- copies: in FIFO order; host copies return when done unless said ---
Status copy_to_device(void* target, const void* source, size_t bytes);
Status copy_to_host(void* target, const void* source, size_t bytes);
Status copy_on_device(void* target, const void* source, size_t bytes);  // same core: device copy; else through the host
Status fill(void* target, int byte, size_t bytes);

// --- executables ---

class Executable;  // a loaded model with its names resolved; shared between caches and queued launches

struct TensorBinding {
  std::string name;
  uint64_t bytes = 0;
};
// Loads container bytes on `device`. `inputs` in the order launch() will pass them; `scalar_slots` = 8-byte slots of the
// "scalars" input (0 = none).
Result<std::shared_ptr<Executable>> load(std::span<const uint8_t> container, int device, std::vector<TensorBinding> inputs,
                                         std::vector<TensorBinding> outputs, int scalar_slots);

// Launches: `inputs`/`outputs` are device addresses (any address inside an allocation), in load()'s order. `scalars` are
// written into a slot ring just before execution, so changing values never race a queued launch. Returns when queued (or
// done). Errors of queued launches surface at the next synchronize(), with the operator's name.
Status launch(const std::shared_ptr<Executable>& executable, std::span<void* const> inputs, std::span<void* const> outputs,
              std::span<const uint64_t> scalars, int64_t stream);

// Modelled time (nrtx); zeros and available == false on hardware.
struct ModelTime {
  bool available = false;
  double total_ns = 0, launch_ns = 0, tensor_ns = 0, vector_ns = 0, scalar_ns = 0, gpsimd_ns = 0, dma_ns = 0, routine_ns = 0;
  uint64_t hbm_bytes_read = 0, hbm_bytes_written = 0, flops = 0;
  int physical_cores_used = 1;
  std::string bound_by;
};
ModelTime model_time(const Executable& executable);
Result<std::string> timeline_json(const Executable& executable, uint64_t max_events);
Result<std::string> disassembly(const Executable& executable);
double core_clock_ns(int device);

// --- streams and events ---

Status synchronize(int device);
Status synchronize_stream(int device, int64_t stream);
bool query_stream(int device, int64_t stream);
int64_t current_stream(int device);  // per thread; 0 = default
int64_t exchange_stream(int device, int64_t stream);
int64_t new_stream(int device, int priority);

class Event;
std::shared_ptr<Event> create_event(bool timing);
Status record_event(Event& event, int device, int64_t stream);
Status wait_event(Event& event, int device, int64_t stream);
bool query_event(const Event& event);
Status synchronize_event(const Event& event);
Result<double> elapsed_ms(const Event& start, const Event& end);  // modelled clock

// Executors of the emulator ("plan", "interpreter", "shuffled:SEED"); unavailable on hardware.
Status set_executor(const std::string& name);
Status set_threads(int count);

}  // namespace neuron::runtime
