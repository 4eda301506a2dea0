// What torch.accelerator, autograd, torch.Generator, pin_memory and storages ask of the device.
// Queries neither initialise the device nor throw.
#include "pytorch/hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "pytorch/device.h"
#include "pytorch/generator.h"
#include "pytorch/host_allocator.h"
#include "pytorch/storage.h"
#include "runtime/runtime.h"

namespace neuron::pytorch {
namespace {

struct NeuronHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return runtime::device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return runtime::initialized(); }
  void init() const override { ensure_initialized(); }

  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(runtime::device_count()); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(runtime::current_device()); }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    const int count = runtime::device_count();
    TORCH_CHECK(device >= 0 && device < count, "invalid device ordinal: neuron:", static_cast<int>(device),
                "; this process sees ", count, " core(s)");
    runtime::set_current_device(device);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex before = getCurrentDevice();
    if (device >= 0 && device != before) setCurrentDevice(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<NeuronGenerator>(device < 0 ? getCurrentDevice() : device);
  }
  at::Device getDeviceFromPtr(void* data) const override {
    int device = 0;
    TORCH_CHECK(runtime::owns_address(data, &device), "The specified pointer is not a neuron device address");
    return {kNeuron, static_cast<c10::DeviceIndex>(device)};
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned_address(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void register_hooks() {
  static auto* hooks = new NeuronHooks();
  if (!at::isPrivateUse1HooksRegistered()) at::RegisterPrivateUse1HooksInterface(hooks);
}

}  // namespace neuron::pytorch
