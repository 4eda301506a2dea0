// Caching allocator of one core: segments from libnrt, blocks split from them, coalesced when freed.
//
// All streams of a core share one FIFO (core.h), so a freed block may be reused by any stream at once: whoever gets it is
// queued behind its last reader.
#pragma once

#include <mutex>
#include <set>
#include <vector>

#include "nrt/library.h"
#include "runtime/address_space.h"
#include "runtime/runtime.h"

namespace neuron::runtime {

inline constexpr size_t kBlockBytes = 512;  // every block is a multiple

struct Block {
  Segment* segment = nullptr;
  char* address = nullptr;
  size_t bytes = 0;
  size_t requested = 0;
  bool active = false;
  bool quick = false;  // in a quick bin: free, not coalesced
  Block* previous = nullptr;
  Block* next = nullptr;
};

class Allocator {
 public:
  Allocator(const nrt::Library& library, int core) : library_(library), core_(core), quick_(kQuickBins) {}

  Result<void*> allocate(size_t bytes);
  void free(void* address);
  // Returns every segment without an active block to libnrt.
  void empty_cache();
  MemoryStats stats();
  void reset_peak();
  void reset_accumulated();
  bool extent(const void* address, void** start, size_t* bytes);

 private:
  // Small blocks go back to a stack of their exact size and are coalesced only under pressure.
  static constexpr size_t kQuickBins = 129;  // up to 64 KiB

  struct ByBytes {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    }
  };
  using Pool = std::set<Block*, ByBytes>;

  Pool& pool(const Segment& segment) { return segment.small ? small_ : large_; }
  Block* take_free(size_t bytes, bool small);
  Result<Block*> new_segment(size_t bytes, bool small);
  Block* split(Block* block, size_t bytes);
  void activate(Block* block, size_t requested);
  void give_back(Block* block);  // coalesce, into the pool
  void flush_quick();
  void release_segments();
  Status exhausted(size_t bytes);

  const nrt::Library& library_;
  const int core_;
  std::mutex mutex_;
  Pool small_, large_;
  std::vector<std::vector<Block*>> quick_;
  std::vector<Block*> spare_;  // Block records to reuse
  MemoryStats stats_;
};

}  // namespace neuron::runtime
