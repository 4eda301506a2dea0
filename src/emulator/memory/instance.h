// The software instance that a process uses: which logical cores exist, which this process sees, and, for a named instance
// that several processes share, the locks that give a core one owner.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace neuron::emulator {

struct InstanceType {
  const char* name;    // NEURON_EMULATOR_INSTANCE_TYPE
  const char* target;  // isa/target.h
  uint32_t chips;
  uint32_t family, size;  // values of nrt_instance_info_t
};

const InstanceType& instance_type();
uint32_t total_cores();

// The cores of NEURON_RT_VISIBLE_CORES, all if empty: indices within the instance, in the order given.
Result<std::vector<int>> visible_cores();

// Locks of cores of a named instance; a private instance has nothing to lock.
class CoreLocks {
 public:
  // unavailable, naming the owner, when another process has one of the cores.
  Status acquire(const std::vector<int>& cores);
  void release();
  // In a forked child: closes our copies of the descriptors; the parent keeps the locks.
  void abandon() { release(); }

 private:
  std::vector<int> files_;
};

}  // namespace neuron::emulator
