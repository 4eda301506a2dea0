// The reserved range that device addresses come from, and the map address -> (segment, offset).
//
// The range is reserved with PROT_NONE, so a host dereference of a device address faults. Each core owns a fixed part; a
// part is divided into granules, and each granule knows its segment: look-up is two loads and needs no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "abi/nrt.h"
#include "base/status.h"

namespace neuron::runtime {

inline constexpr size_t kGranule = size_t{2} << 20;  // segments start and end on these
#if defined(__SANITIZE_THREAD__)
inline constexpr size_t kCoreSpan = size_t{1} << 30;  // ThreadSanitizer leaves a process little address space
#else
inline constexpr size_t kCoreSpan = size_t{64} << 30;  // address space of one core: more than any core's HBM
#endif
inline constexpr int kMaxCores = 128;

struct Block;

// One device allocation of libnrt.
struct Segment {
  nrt_tensor_t* tensor = nullptr;
  char* base = nullptr;
  size_t bytes = 0;
  int core = 0;
  bool small = false;
  Block** block_at = nullptr;  // block that starts at base + 512*i, or null; owned by the allocator
  Block* first = nullptr;
};

class AddressSpace {
 public:
  static AddressSpace& get();

  Status reserve();  // idempotent
  bool contains(const void* address) const {
    return base_ && static_cast<const char*>(address) >= base_ &&
           static_cast<const char*>(address) < base_ + kMaxCores * kCoreSpan;
  }
  int core_of(const void* address) const {
    return static_cast<int>((static_cast<const char*>(address) - base_) / kCoreSpan);
  }
  // The segment that contains the address, or null.
  Segment* find(const void* address) const {
    return contains(address)
               ? granules_[(static_cast<const char*>(address) - base_) / kGranule].load(std::memory_order_acquire)
               : nullptr;
  }

  // Picks an address range for the segment (bytes a multiple of kGranule) and publishes it. Caller holds the core's
  // allocator lock.
  Status place(Segment* segment);
  void remove(Segment* segment);

 private:
  char* base_ = nullptr;
  std::atomic<Segment*>* granules_ = nullptr;
  std::map<size_t, size_t> used_[kMaxCores];  // per core: start -> bytes, relative to the core's part
};

}  // namespace neuron::runtime
