// HBM of one logical core: host memory that is committed as it is touched.
//
// Every block is a mapping of its own, so that freeing it returns the memory to the host. A block is admitted against the
// core's capacity and against what the host can still give to all cores together, blocks that are allocated but not yet
// touched included: a refusal is an out-of-memory error, never a swap storm.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/status.h"

namespace neuron::emulator {

class Hbm {
 public:
  Hbm(int core, uint64_t capacity) : core_(core), capacity_(capacity) {}
  ~Hbm() = default;  // the blocks belong to whoever allocated them
  Hbm(const Hbm&) = delete;
  Hbm& operator=(const Hbm&) = delete;

  // At least 64-byte aligned, zero-filled; 2 MiB aligned with huge pages from 2 MiB on. out_of_memory when refused.
  Result<uint8_t*> allocate(uint64_t bytes);
  void release(uint8_t* block, uint64_t bytes);

  uint64_t used() const;
  uint64_t capacity() const { return capacity_; }

 private:
  const int core_;
  const uint64_t capacity_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0;
};

}  // namespace neuron::emulator
