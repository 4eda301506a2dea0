// Pinned host memory: page-aligned, locked where the system allows it, cached by size class.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace neuron::pytorch {

at::HostAllocator* host_allocator();
// True for any address inside a live block of host_allocator(). Does not initialise the device.
bool is_pinned_address(const void* address);

}  // namespace neuron::pytorch
