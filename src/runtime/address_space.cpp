#include "runtime/address_space.h"

#include <sys/mman.h>

#include <mutex>

namespace neuron::runtime {

AddressSpace& AddressSpace::get() {
  static AddressSpace* space = new AddressSpace;  // never destroyed: deleters run at exit
  return *space;
}

Status AddressSpace::reserve() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (base_) return {};
  constexpr size_t bytes = kMaxCores * kCoreSpan;
  void* range = mmap(nullptr, bytes + kGranule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    return unavailable("cannot reserve " + std::to_string(bytes >> 30) +
                       " GiB of address space for device addresses (is RLIMIT_AS set?)");
  }
  void* table = mmap(nullptr, bytes / kGranule * sizeof(std::atomic<Segment*>), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) {
    munmap(range, bytes + kGranule);
    return unavailable("cannot map the segment table");
  }
  granules_ = static_cast<std::atomic<Segment*>*>(table);
  const uintptr_t aligned = (reinterpret_cast<uintptr_t>(range) + kGranule - 1) & ~(kGranule - 1);
  base_ = reinterpret_cast<char*>(aligned);
  return {};
}

Status AddressSpace::place(Segment* segment) {
  auto& used = used_[segment->core];
  size_t start = 0;  // first fit; parts hold few segments
  for (const auto& [at, bytes] : used) {
    if (at - start >= segment->bytes) break;
    start = at + bytes;
  }
  if (start + segment->bytes > kCoreSpan) return out_of_memory("address space of one core is exhausted");
  used.emplace(start, segment->bytes);
  segment->base = base_ + segment->core * kCoreSpan + start;
  const size_t first = (segment->base - base_) / kGranule;
  for (size_t g = 0; g < segment->bytes / kGranule; ++g) granules_[first + g].store(segment, std::memory_order_release);
  return {};
}

void AddressSpace::remove(Segment* segment) {
  const size_t first = (segment->base - base_) / kGranule;
  for (size_t g = 0; g < segment->bytes / kGranule; ++g) granules_[first + g].store(nullptr, std::memory_order_release);
  used_[segment->core].erase(segment->base - (base_ + segment->core * kCoreSpan));
}

}  // namespace neuron::runtime
