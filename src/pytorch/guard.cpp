// Devices, streams and events for c10 (torch.Stream, torch.Event, torch.accelerator, DeviceGuard) over src/runtime.
//
// A c10 stream id is the runtime's stream number; 0 is the default stream of a core.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "pytorch/allocator.h"
#include "pytorch/device.h"
#include "pytorch/error.h"
#include "runtime/runtime.h"

namespace neuron::pytorch {
namespace {

using EventHandle = std::shared_ptr<runtime::Event>;

runtime::Event& event_of(void* event) { return **static_cast<EventHandle*>(event); }

struct NeuronGuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNeuron; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (before.index() != device.index()) setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kNeuron, static_cast<c10::DeviceIndex>(runtime::current_device())}; }
  void setDevice(c10::Device device) const override {
    if (!device.has_index()) return;
    const int count = runtime::device_count();
    TORCH_CHECK(device.index() >= 0 && device.index() < count, "invalid device ordinal: ", device, "; this process sees ",
                count, " core(s)");
    runtime::set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) runtime::set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(runtime::device_count()); }
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override {
    c10::DeviceCapability capability;
    uint64_t bits = 0;
    for (const auto index : {c10::kIndex_Byte, c10::kIndex_Char, c10::kIndex_Short, c10::kIndex_Int, c10::kIndex_Long,
                             c10::kIndex_Half, c10::kIndex_Float, c10::kIndex_Double, c10::kIndex_ComplexFloat,
                             c10::kIndex_ComplexDouble, c10::kIndex_Bool, c10::kIndex_BFloat16, c10::kIndex_Float8_e5m2,
                             c10::kIndex_Float8_e4m3fn, c10::kIndex_UInt16, c10::kIndex_UInt32, c10::kIndex_UInt64}) {
      bits |= uint64_t{1} << index;
    }
    capability.capability_data.capability_bits = bits;
    return capability;
  }

  // --- streams ---
  static c10::Stream stream(c10::DeviceIndex device, int64_t id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, device), id);
  }
  static c10::DeviceIndex index_of(c10::Device device) {
    return device.has_index() ? device.index() : static_cast<c10::DeviceIndex>(runtime::current_device());
  }
  c10::Stream getStream(c10::Device device) const override {
    const c10::DeviceIndex index = index_of(device);
    return stream(index, runtime::current_stream(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(index_of(device), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    const c10::DeviceIndex index = resolve_index(device);
    return stream(index, runtime::new_stream(index, priority));
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream(to.device_index(), runtime::exchange_stream(to.device_index(), to.id()));
  }
  bool queryStream(const c10::Stream& s) const override { return runtime::query_stream(s.device_index(), s.id()); }
  void synchronizeStream(const c10::Stream& s) const override {
    check(runtime::synchronize_stream(s.device_index(), s.id()));
  }
  void synchronizeDevice(c10::DeviceIndex device) const override { check(runtime::synchronize(device)); }
  void* getStreamNativeHandle(const c10::Stream s) const override { return reinterpret_cast<void*>(s.id()); }

  // --- events: PYTORCH_DEFAULT has no timing, BACKEND_DEFAULT has ---
  void record(void** event, const c10::Stream& s, c10::DeviceIndex device, c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == s.device_index(), "Event device ", static_cast<int>(device),
                " does not match recording stream's device ", static_cast<int>(s.device_index()), ".");
    ensure_initialized();
    if (!*event) *event = new EventHandle(runtime::create_event(flag == c10::EventFlag::BACKEND_DEFAULT));
    check(runtime::record_event(event_of(*event), s.device_index(), s.id()));
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event) check(runtime::wait_event(event_of(event), s.device_index(), s.id()));
  }
  bool queryEvent(void* event) const override { return !event || runtime::query_event(event_of(event)); }
  void synchronizeEvent(void* event) const override {
    if (event) check(runtime::synchronize_event(event_of(event)));
  }
  double elapsedTime(void* start, void* end, c10::DeviceIndex /*device*/) const override {
    TORCH_CHECK(start && end, "Both events must be recorded before calculating elapsed time.");
    return check(runtime::elapsed_ms(event_of(start), event_of(end)));
  }
  void destroyEvent(void* event, c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<EventHandle*>(event);
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& s) const override {
    device_allocator()->recordStream(data, s);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, NeuronGuardImpl);

}  // namespace
}  // namespace neuron::pytorch
