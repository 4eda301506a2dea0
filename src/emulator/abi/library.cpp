// Questions about the library and the instance it emulates.
#include <algorithm>
#include <cstring>

#include "abi/status_names.h"
#include "emulator/abi/library_state.h"

namespace neuron::emulator {
namespace {

// Copies as much of `value` as a caller built for an older, shorter struct has room for.
template <class T>
NRT_STATUS answer(const char* call, void* out, size_t size, const T& value) {
  if (!out || size == 0) return fail(NRT_INVALID, call, "no place for the result");
  std::memcpy(out, &value, std::min(size, sizeof value));
  return NRT_SUCCESS;
}

}  // namespace
}  // namespace neuron::emulator

using namespace neuron::emulator;

// The release of the published interface that this library follows.
NRT_STATUS nrt_get_version(nrt_version_t* version, size_t size) {
  nrt_version_t v{};
  v.rt_major = 2;
  v.rt_minor = 34;
  v.rt_patch = 10;
  std::strncpy(v.rt_detail, "software NeuronCore, reference numerics", sizeof v.rt_detail - 1);
  return answer("nrt_get_version", version, size, v);
}

// Valid before nrt_init, after nrt_close and in a forked child: queries do not initialise.
NRT_STATUS nrt_get_total_vnc_count(uint32_t* count) {
  if (!count) return fail(NRT_INVALID, "nrt_get_total_vnc_count", "no place for the result");
  *count = total_cores();
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_visible_vnc_count(uint32_t* count) {
  if (!count) return fail(NRT_INVALID, "nrt_get_visible_vnc_count", "no place for the result");
  auto visible = visible_cores();
  if (!visible.ok()) return fail("nrt_get_visible_vnc_count", visible.status());
  *count = static_cast<uint32_t>(visible->size());
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t size) {
  nrt_instance_info_t v{};
  v.family = instance_type().family;
  v.size = instance_type().size;
  std::strncpy(v.arch_name, instance_type().name, sizeof v.arch_name - 1);
  std::strncpy(v.device_revision, "soft", sizeof v.device_revision - 1);
  return answer("nrt_get_instance_info", info, size, v);
}

NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t* stats, size_t size_in, size_t* size_out) {
  constexpr const char* kCall = "nrt_get_vnc_memory_stats";
  NEURON_NRT_ENTER(kCall);
  Core* core = nullptr;
  if (const NRT_STATUS s = find_core(kCall, static_cast<int>(std::min<uint32_t>(vnc, INT32_MAX)), &core)) return s;
  const nrt_vnc_memory_stats_t v{core->hbm.used(), core->hbm.capacity()};
  if (size_out) *size_out = std::min(size_in, sizeof v);
  return answer(kCall, stats, size_in, v);
}

const char* nrt_get_status_as_str(NRT_STATUS status) {
  const char* name = neuron::nrt_status_name(status);
  return name ? name : "unknown NRT_STATUS";
}
