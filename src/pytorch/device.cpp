#include "pytorch/device.h"

#include <c10/util/Exception.h>

#include "pytorch/error.h"
#include "runtime/runtime.h"

namespace neuron::pytorch {

void ensure_initialized() {
  if (!runtime::initialized()) [[unlikely]]
    check(runtime::initialize());
}

c10::DeviceIndex resolve_index(c10::Device device) {
  TORCH_CHECK(device.type() == kNeuron, "expected a neuron device, got ", device);
  ensure_initialized();
  if (!device.has_index()) return static_cast<c10::DeviceIndex>(runtime::current_device());
  const int count = runtime::device_count();
  TORCH_CHECK(device.index() >= 0 && device.index() < count, "invalid device ordinal: ", device, "; this process sees ",
              count, " core(s), neuron:0 to neuron:", count - 1);
  return device.index();
}

c10::DeviceIndex resolve_index(std::optional<c10::Device> device) {
  return resolve_index(device.value_or(c10::Device(kNeuron)));
}

}  // namespace neuron::pytorch
