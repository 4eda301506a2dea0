// What the files of this layer share: the loaded library, the cores, fork state. Internal.
#pragma once

#include <memory>
#include <vector>

#include "nrt/library.h"
#include "runtime/allocator.h"
#include "runtime/core.h"
#include "runtime/runtime.h"

namespace neuron::runtime {

struct Process {
  std::unique_ptr<nrt::Library> library;
  std::vector<std::unique_ptr<Core>> cores;
};

// The initialised process; nullptr before initialize(), after shutdown and in a forked child. Never blocks.
Process* process();
// initialize(), then the process; or why not.
Result<Process*> require_process();
Status check_device(const Process& process, int device);

}  // namespace neuron::runtime
