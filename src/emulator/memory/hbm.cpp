#include "emulator/memory/hbm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

namespace neuron::emulator {
namespace {

constexpr uint64_t kHugePage = 2ull << 20;
constexpr uint64_t kSmallest = 4096;                // one host page
constexpr uint64_t kLookAtHostEvery = 16ull << 20;  // bytes of small blocks between two looks at the host's memory
constexpr uint64_t kLeastMargin = 256ull << 20;     // left to the rest of the host

uint64_t mapped_size(uint64_t bytes) {
  const uint64_t unit = bytes >= kHugePage ? kHugePage : kSmallest;
  return (bytes + unit - 1) / unit * unit;
}

// The number behind `key` in a file of lines "key number ...", or UINT64_MAX.
uint64_t number_of(const char* path, std::string_view key) {
  std::ifstream in(path);
  std::string name, rest;
  uint64_t number = 0;
  while (in >> name >> number) {
    std::getline(in, rest);
    if (name == key) return number;
  }
  return UINT64_MAX;
}

uint64_t meminfo(std::string_view key) {
  const uint64_t kilobytes = number_of("/proc/meminfo", key);
  return kilobytes == UINT64_MAX ? kilobytes : kilobytes << 10;
}

uint64_t number_in(const char* path) {
  std::ifstream in(path);
  uint64_t value = 0;
  return in >> value ? value : UINT64_MAX;  // "max" or absent
}

// Bytes that can still be committed: the host's, or the control group's if that is less.
uint64_t host_available() {
  uint64_t available = meminfo("MemAvailable:");
  const uint64_t limit = number_in("/sys/fs/cgroup/memory.max"), current = number_in("/sys/fs/cgroup/memory.current");
  if (limit != UINT64_MAX && current != UINT64_MAX) {
    const uint64_t cache =
        number_of("/sys/fs/cgroup/memory.stat", "inactive_file");  // counted as used, given back on demand
    const uint64_t used = cache == UINT64_MAX ? current : current - std::min(cache, current);
    available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

uint64_t host_margin() {
  static const uint64_t margin = [] {
    const uint64_t total = meminfo("MemTotal:");
    return total == UINT64_MAX ? kLeastMargin : std::max(kLeastMargin, total / 50);
  }();
  return margin;
}

// All blocks of all cores of this process.
struct Blocks {
  std::mutex mutex;
  std::map<uint8_t*, uint64_t> size;  // block -> mapped bytes
  uint64_t total = 0;
  uint64_t since_last_look = 0;

  // Bytes of our blocks that are not committed yet.
  uint64_t untouched() const {
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    uint64_t resident = 0;
    std::vector<unsigned char> map;
    for (const auto& [block, bytes] : size) {
      map.resize(bytes / page);
      if (mincore(block, bytes, map.data()) != 0) continue;
      resident += page * static_cast<uint64_t>(std::count_if(map.begin(), map.end(), [](unsigned char c) { return c & 1; }));
    }
    return total - std::min(resident, total);
  }

  Status admit(uint64_t bytes) {
    since_last_look += bytes;
    if (bytes < kHugePage && since_last_look < kLookAtHostEvery) return {};
    since_last_look = 0;
    const uint64_t available = host_available(), margin = host_margin();
    if (available == UINT64_MAX || total + bytes + margin <= available) return {};
    const uint64_t promised = untouched();
    if (promised + bytes + margin <= available) return {};
    return out_of_memory(std::to_string(bytes) + " bytes requested, but the host can give only " +
                         std::to_string(available) + " bytes more, of which " + std::to_string(promised) +
                         " are promised and " + std::to_string(margin) + " are left to other programs");
  }
};

Blocks& blocks() {
  static Blocks* b = new Blocks;
  return *b;
}

}  // namespace

Result<uint8_t*> Hbm::allocate(uint64_t bytes) {
  const uint64_t size = bytes <= capacity_ ? mapped_size(bytes) : bytes;
  {
    std::lock_guard lock(mutex_);
    if (size > capacity_ - std::min(used_, capacity_)) {
      return out_of_memory("core " + std::to_string(core_) + ": " + std::to_string(bytes) + " bytes requested, " +
                           std::to_string(used_) + " of " + std::to_string(capacity_) + " bytes are in use");
    }
    used_ += size;
  }
  std::lock_guard lock(blocks().mutex);
  Status admitted = blocks().admit(size);
  void* map = MAP_FAILED;
  const bool huge = size >= kHugePage;
  const uint64_t reserve = huge ? size + kHugePage : size;
  if (admitted.ok()) {
    map = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
      admitted = out_of_memory(std::to_string(bytes) + " bytes requested: the host refused the mapping");
  }
  if (!admitted.ok()) {
    std::lock_guard own(mutex_);
    used_ -= size;
    return admitted.within("core " + std::to_string(core_));
  }
  uint8_t* block = static_cast<uint8_t*>(map);
  if (huge) {  // cut the mapping to a huge-page boundary
    const uint64_t head = (kHugePage - reinterpret_cast<uintptr_t>(block) % kHugePage) % kHugePage;
    if (head) munmap(block, head);
    block += head;
    if (kHugePage - head) munmap(block + size, kHugePage - head);
    madvise(block, size, MADV_HUGEPAGE);
  }
  madvise(block, size, MADV_DONTFORK);  // a forked child does not inherit device memory
  blocks().size.emplace(block, size);
  blocks().total += size;
  return block;
}

void Hbm::release(uint8_t* block, uint64_t bytes) {
  const uint64_t size = mapped_size(bytes);
  {
    std::lock_guard lock(blocks().mutex);
    blocks().size.erase(block);
    blocks().total -= size;
    munmap(block, size);
  }
  std::lock_guard lock(mutex_);
  used_ -= size;
}

uint64_t Hbm::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace neuron::emulator
