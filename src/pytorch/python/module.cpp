// torch_neuronx._C: registration at import, and the functions that the Python package is made of.
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "base/environment.h"
#include "pytorch/allocator.h"
#include "pytorch/autograd_workers.h"
#include "pytorch/device.h"
#include "pytorch/dispatch/call_cache.h"
#include "pytorch/dispatch/fallback.h"
#include "pytorch/dispatch/registration.h"
#include "pytorch/error.h"
#include "pytorch/generator.h"
#include "pytorch/hooks.h"
#include "pytorch/host_allocator.h"
#include "pytorch/python/graph_builder.h"
#include "pytorch/python/tracking_bindings.h"
#include "runtime/runtime.h"

namespace py = pybind11;

namespace neuron::pytorch {
namespace {

py::dict stat_dict(const runtime::MemoryStats::Stat& stat) {
  py::dict out;
  out["current"] = stat.current;
  out["peak"] = stat.peak;
  out["allocated"] = stat.allocated;
  out["freed"] = stat.freed;
  return out;
}

py::dict memory_stats(int device) {
  const runtime::MemoryStats s = runtime::memory_stats(device);
  py::dict out;
  out["allocation"] = stat_dict(s.allocation_count);
  out["segment"] = stat_dict(s.segment_count);
  out["active"] = stat_dict(s.active_count);
  out["inactive_split"] = stat_dict(s.inactive_split_count);
  out["allocated_bytes"] = stat_dict(s.allocated_bytes);
  out["reserved_bytes"] = stat_dict(s.reserved_bytes);
  out["active_bytes"] = stat_dict(s.active_bytes);
  out["inactive_split_bytes"] = stat_dict(s.inactive_split_bytes);
  out["requested_bytes"] = stat_dict(s.requested_bytes);
  out["num_alloc_retries"] = s.alloc_retries;
  out["num_ooms"] = s.ooms;
  out["num_device_alloc"] = s.alloc_calls;
  out["num_device_free"] = s.free_calls;
  return out;
}

py::dict runtime_info() {
  const runtime::RuntimeInfo info = check(runtime::info());
  py::dict out;
  out["library"] = info.library;
  out["reason"] = info.reason;
  out["version"] = info.version;
  out["instance"] = info.instance;
  out["host_isa"] = info.host_isa;
  out["emulated"] = info.emulated;
  return out;
}

py::list environment_table() {
  py::list out;
  for (const environment::Variable& v : environment::table()) {
    py::dict row;
    row["name"] = std::string(v.name);
    row["value"] = environment::text(v.name);
    row["default"] = std::string(v.default_value);
    row["valid"] = std::string(v.valid);
    row["help"] = std::string(v.help);
    out.append(row);
  }
  return out;
}

void set_fallback(const std::string& mode) {
  TORCH_CHECK_VALUE(mode == "allow" || mode == "warn" || mode == "error", "fallback mode must be allow, warn or error, got ",
                    mode);
  set_fallback_mode(mode == "allow" ? FallbackMode::allow : mode == "error" ? FallbackMode::error : FallbackMode::warn);
}

std::string get_fallback() {
  switch (fallback_mode()) {
    case FallbackMode::allow:
      return "allow";
    case FallbackMode::error:
      return "error";
    default:
      return "warn";
  }
}

void bind_device(py::module_& m) {
  using release = py::call_guard<py::gil_scoped_release>;
  m.def("init", &ensure_initialized, release());
  m.def("is_initialized", &runtime::initialized);
  m.def("device_count", &runtime::device_count);
  m.def("current_device", &runtime::current_device);
  m.def("synchronize", [](int device) { check(runtime::synchronize(device)); }, release());
  m.def("core_clock_ns", &runtime::core_clock_ns);
  m.def("drain_autograd_workers", &drain_autograd_workers, release());
  m.def("runtime_info", &runtime_info);
  m.def("set_executor", [](const std::string& name) { check(runtime::set_executor(name)); });
  m.def("set_threads", [](int count) { check(runtime::set_threads(count)); });
  m.def("default_generator", [](int device) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_initDefaultGenerator(default_generator(static_cast<c10::DeviceIndex>(device))));
  });
}

py::dict host_memory_stats() {
  const at::HostStats s = host_allocator()->get_stats();
  py::dict out;
  auto add = [&out](const std::string& name, const c10::CachingAllocator::Stat& stat) {
    out[py::str(name + ".current")] = stat.current;
    out[py::str(name + ".peak")] = stat.peak;
    out[py::str(name + ".allocated")] = stat.allocated;
    out[py::str(name + ".freed")] = stat.freed;
  };
  add("active_requests", s.active_requests);
  add("active_bytes", s.active_bytes);
  add("allocations", s.allocations);
  add("allocated_bytes", s.allocated_bytes);
  out["num_host_alloc"] = s.num_host_alloc;
  out["num_host_free"] = s.num_host_free;
  return out;
}

void bind_memory(py::module_& m) {
  using release = py::call_guard<py::gil_scoped_release>;
  m.def("memory_stats", &memory_stats);
  m.def("reset_peak_memory_stats", &runtime::reset_peak_stats);
  m.def("reset_accumulated_memory_stats", &runtime::reset_accumulated_stats);
  m.def("memory_info", [](int device) {
    ensure_initialized();
    const runtime::MemoryInfo info = check(runtime::memory_info(device));
    return std::make_pair(info.free_bytes, info.total_bytes);
  });
  m.def("host_memory_stats", &host_memory_stats);
  m.def("empty_cache", [] { device_allocator()->emptyCache(); }, release());
}

void bind_dispatch(py::module_& m) {
  m.def("registered_operators", &ops::registered_operators);
  m.def("registered_overloads", &registered_overloads);
  m.def("underived_overloads", &underived_overloads);
  m.def("set_fallback_mode", &set_fallback);
  m.def("get_fallback_mode", &get_fallback);
  m.def("cache_stats", [] {
    const CallCache::Stats s = CallCache::instance().stats();
    py::dict out;
    out["hits"] = s.hits;
    out["misses"] = s.misses;
    out["evictions"] = s.evictions;
    out["entries"] = s.entries;
    out["capacity"] = s.capacity;
    return out;
  });
  m.def("clear_executables", [] { CallCache::instance().clear(); }, py::call_guard<py::gil_scoped_release>());
}

}  // namespace
}  // namespace neuron::pytorch

PYBIND11_MODULE(_C, m) {
  using namespace neuron::pytorch;
  m.doc() = "PyTorch device 'neuron': registration and the functions behind torch.neuron and torch_neuronx.";
  check(neuron::environment::check());
  register_hooks();
  register_operators();
  bind_device(m);
  bind_memory(m);
  bind_dispatch(m);
  bind_tracking(m);
  bind_graph_builder(m);
  m.def("environment_table", &environment_table);
}
