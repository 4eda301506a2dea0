#include "pytorch/allocator.h"

#include <c10/core/impl/GPUTrace.h>

#include "pytorch/device.h"
#include "pytorch/error.h"
#include "runtime/runtime.h"

namespace neuron::pytorch {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

// Deleters never throw, never take the GIL, and are safe after the runtime has closed.
void delete_block(void* address) {
  if (!address) return;
  if (c10::memoryProfilingEnabled()) [[unlikely]] {
    void* start = nullptr;
    size_t bytes = 0;
    int device = 0;
    if (runtime::owns_address(address, &device) && runtime::allocation_extent(address, &start, &bytes)) {
      c10::reportMemoryUsageToProfiler(address, -static_cast<int64_t>(bytes), 0, 0,
                                       c10::Device(kNeuron, static_cast<c10::DeviceIndex>(device)));
    }
  }
  runtime::free(address);
}

void delete_nothing(void* /*address*/) {}

void fill(StatArray& out, const runtime::MemoryStats::Stat& in) {
  Stat& stat = out[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  stat.current = in.current;
  stat.peak = in.peak;
  stat.allocated = in.allocated;
  stat.freed = in.freed;
}

class NeuronAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    ensure_initialized();
    return allocate_on(static_cast<c10::DeviceIndex>(runtime::current_device()), bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void copy_data(void* target, const void* source, size_t bytes) const override {
    check(runtime::copy_on_device(target, source, bytes));
  }
  bool initialized() override { return runtime::initialized(); }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    if (!runtime::initialized()) return;
    for (int device = 0; device < runtime::device_count(); ++device) check(runtime::empty_cache(device));
  }
  // Nothing to keep alive: the streams of a core share its FIFO of launches and copies, and every copy to another core
  // passes through the host before it returns. Whoever gets a freed block is queued behind its last user, whatever their
  // streams.
  void recordStream(const c10::DataPtr& /*data*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const runtime::MemoryStats in = runtime::memory_stats(device);
    c10::CachingDeviceAllocator::DeviceStats out;
    fill(out.allocation, in.allocation_count);
    fill(out.segment, in.segment_count);
    fill(out.active, in.active_count);
    fill(out.inactive_split, in.inactive_split_count);
    fill(out.allocated_bytes, in.allocated_bytes);
    fill(out.reserved_bytes, in.reserved_bytes);
    fill(out.active_bytes, in.active_bytes);
    fill(out.inactive_split_bytes, in.inactive_split_bytes);
    fill(out.requested_bytes, in.requested_bytes);
    out.num_alloc_retries = in.alloc_retries;
    out.num_ooms = in.ooms;
    out.num_device_alloc = in.alloc_calls;
    out.num_device_free = in.free_calls;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override { runtime::reset_accumulated_stats(device); }
  void resetPeakStats(c10::DeviceIndex device) override { runtime::reset_peak_stats(device); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    ensure_initialized();
    const runtime::MemoryInfo info = check(runtime::memory_info(device));
    return {info.free_bytes, info.total_bytes};
  }
};

NeuronAllocator allocator;
REGISTER_ALLOCATOR(c10::kPrivateUse1, &allocator);

[[noreturn]] void raise_out_of_memory(c10::DeviceIndex device, size_t bytes, const Status& status) {
  const runtime::MemoryStats stats = runtime::memory_stats(device);
  const auto info = runtime::memory_info(device);
  const uint64_t free_bytes = info.ok() ? info->free_bytes : 0;
  const uint64_t total_bytes = info.ok() ? info->total_bytes : 0;
  const int64_t cached = stats.reserved_bytes.current - stats.allocated_bytes.current;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "neuron:", static_cast<int>(device), " out of memory. Tried to allocate ", bytes,
                   " bytes. The core has ", total_bytes, " bytes of which ", free_bytes, " bytes are free. PyTorch holds ",
                   stats.allocated_bytes.current, " bytes in tensors and ", cached,
                   " bytes cached and unused (torch.neuron.empty_cache() returns them). ", status.message());
  __builtin_unreachable();
}

}  // namespace

c10::DeviceAllocator* device_allocator() { return &allocator; }

c10::DataPtr allocate_on(c10::DeviceIndex device, size_t bytes) {
  const c10::Device where(kNeuron, device);
  if (bytes == 0) return {nullptr, nullptr, &delete_nothing, where};
  auto block = runtime::allocate(bytes, device, runtime::current_stream(device));
  if (!block.ok()) [[unlikely]] {
    if (block.status().code() == Code::out_of_memory) raise_out_of_memory(device, bytes, block.status());
    raise(block.status());
  }
  if (c10::memoryProfilingEnabled()) [[unlikely]] {
    const runtime::MemoryStats stats = runtime::memory_stats(device);
    c10::reportMemoryUsageToProfiler(*block, static_cast<int64_t>(bytes), stats.allocated_bytes.current,
                                     stats.reserved_bytes.current, where);
  }
  return {*block, *block, &delete_block, where};
}

}  // namespace neuron::pytorch
