#include "pytorch/host_allocator.h"

#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace neuron::pytorch {
namespace {

constexpr size_t kPage = 4096;

// Copies between host and device are complete when they return (runtime.h), so a freed block may be reused at once and
// record_event has nothing to wait for.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &delete_block, c10::Device(c10::kCPU)};
    void* block = take(std::bit_ceil(std::max(bytes, kPage)));
    return {block, block, &delete_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
  void copy_data(void* target, const void* source, size_t bytes) const override { std::memcpy(target, source, bytes); }

  bool record_event(void* ptr, void* /*ctx*/, c10::Stream /*stream*/) override { return contains(ptr); }
  void empty_cache() override {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) {
      for (void* block : blocks) release(block, size);
      stats_.allocated_bytes.decrease(size * blocks.size());
      stats_.allocations.decrease(blocks.size());
    }
    free_.clear();
  }
  at::HostStats get_stats() override {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    std::lock_guard lock(mutex_);
    for (auto* stat : all()) stat->reset_accumulated();
    stats_.num_host_alloc = stats_.num_host_free = 0;
  }
  void reset_peak_stats() override {
    std::lock_guard lock(mutex_);
    for (auto* stat : all()) stat->reset_peak();
  }

  bool contains(const void* address) {
    std::lock_guard lock(mutex_);
    auto next = live_.upper_bound(reinterpret_cast<uintptr_t>(address));
    if (next == live_.begin()) return false;
    const auto& [start, size] = *std::prev(next);
    return reinterpret_cast<uintptr_t>(address) < start + size;
  }

  void give_back(void* block) {
    std::lock_guard lock(mutex_);
    auto it = live_.find(reinterpret_cast<uintptr_t>(block));
    if (it == live_.end()) return;
    stats_.active_bytes.decrease(it->second);
    stats_.active_requests.decrease(1);
    free_[it->second].push_back(block);
    live_.erase(it);
  }

 private:
  static void delete_block(void* block);

  std::array<c10::CachingAllocator::Stat*, 4> all() {
    return {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations, &stats_.allocated_bytes};
  }

  void* take(size_t size) {
    std::lock_guard lock(mutex_);
    auto& cached = free_[size];
    void* block = nullptr;
    if (!cached.empty()) {
      block = cached.back();
      cached.pop_back();
    } else {
      block = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      TORCH_CHECK(block != MAP_FAILED, "cannot allocate ", size, " bytes of pinned host memory: ", std::strerror(errno));
      (void)mlock(block, size);  // a refusal (RLIMIT_MEMLOCK) costs speed on hardware, nothing else
      ++stats_.num_host_alloc;
      stats_.allocated_bytes.increase(size);
      stats_.allocations.increase(1);
    }
    live_.emplace(reinterpret_cast<uintptr_t>(block), size);
    stats_.active_bytes.increase(size);
    stats_.active_requests.increase(1);
    return block;
  }

  void release(void* block, size_t size) {
    munmap(block, size);
    ++stats_.num_host_free;
  }

  std::mutex mutex_;
  std::map<uintptr_t, size_t> live_;
  std::map<size_t, std::vector<void*>> free_;
  at::HostStats stats_;
};

// Never destroyed: tensors may outlive static destruction.
PinnedAllocator& instance() {
  static auto* allocator = new PinnedAllocator();
  return *allocator;
}

void PinnedAllocator::delete_block(void* block) {
  if (block) instance().give_back(block);
}

at::HostAllocatorRegistry<at::kPrivateUse1> registry(&instance());

}  // namespace

at::HostAllocator* host_allocator() { return &instance(); }
bool is_pinned_address(const void* address) { return instance().contains(address); }

}  // namespace neuron::pytorch
