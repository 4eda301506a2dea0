// Checks about device indices that guard, hooks, factories and copies share.
#pragma once

#include <c10/core/Device.h>

namespace neuron::pytorch {

inline constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;

// Initialises the runtime if that has not happened; raises its error.
void ensure_initialized();
// `device` with an index: the current core when it has none. Raises when there is no such core.
c10::DeviceIndex resolve_index(c10::Device device);
c10::DeviceIndex resolve_index(std::optional<c10::Device> device);

}  // namespace neuron::pytorch
