// c10's view of the runtime's caching allocator: what torch.accelerator.memory, tensors and storages use.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace neuron::pytorch {

c10::DeviceAllocator* device_allocator();
// `bytes` of core `device`, on the calling thread's current stream there. Raises torch.OutOfMemoryError.
c10::DataPtr allocate_on(c10::DeviceIndex device, size_t bytes);

}  // namespace neuron::pytorch
