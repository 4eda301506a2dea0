#include "pytorch/python/tracking_bindings.h"

#include "pytorch/dispatch/tracking.h"
#include "pytorch/error.h"

namespace py = pybind11;

namespace neuron::pytorch {
namespace {

// The loaded executable with this sequence number, or null when it is gone.
std::shared_ptr<runtime::Executable> executable_of(int64_t sequence) {
  for (const auto& record : tracking::records()) {
    if (record->sequence == sequence) return record->executable.lock();
  }
  return nullptr;
}

std::shared_ptr<runtime::Executable> executable_or_raise(int64_t sequence) {
  auto executable = executable_of(sequence);
  TORCH_CHECK_VALUE(executable, "there is no loaded executable with sequence number ", sequence);
  return executable;
}

py::list executables() {
  py::list out;
  for (const auto& record : tracking::records()) {
    py::dict row;
    row["sequence"] = record->sequence;
    row["name"] = record->name;
    row["signature"] = record->signature;
    row["device"] = record->device;
    row["compile_ms"] = record->compile_ms;
    row["launches"] = record->launches.load(std::memory_order_relaxed);
    out.append(row);
  }
  return out;
}

py::object model_time(int64_t sequence) {
  const auto executable = executable_of(sequence);
  if (!executable) return py::none();
  const runtime::ModelTime t = runtime::model_time(*executable);
  if (!t.available) return py::none();
  py::dict out;
  out["total_ns"] = t.total_ns;
  out["launch_ns"] = t.launch_ns;
  out["tensor_ns"] = t.tensor_ns;
  out["vector_ns"] = t.vector_ns;
  out["scalar_ns"] = t.scalar_ns;
  out["gpsimd_ns"] = t.gpsimd_ns;
  out["dma_ns"] = t.dma_ns;
  out["routine_ns"] = t.routine_ns;
  out["hbm_bytes_read"] = t.hbm_bytes_read;
  out["hbm_bytes_written"] = t.hbm_bytes_written;
  out["flops"] = t.flops;
  out["physical_cores_used"] = t.physical_cores_used;
  out["bound_by"] = t.bound_by;
  return out;
}

py::dict fallbacks() {
  py::dict out;
  for (const auto& [op, fallback] : tracking::fallbacks())
    out[py::str(op)] = py::make_tuple(fallback.count, fallback.reason);
  return out;
}

}  // namespace

void bind_tracking(py::module_& m) {
  m.def("executed_ops", &tracking::executed);
  m.def("fallback_ops", &fallbacks);
  m.def("clear_op_tracking", &tracking::clear);
  m.def("compile_count", &tracking::compile_count);
  m.def("executables", &executables);
  m.def("model_time", &model_time, py::arg("sequence"));
  m.def(
      "timeline",
      [](int64_t sequence, uint64_t max_events) {
        return check(runtime::timeline_json(*executable_or_raise(sequence), max_events));
      },
      py::arg("sequence"), py::arg("max_events") = 20000);
  m.def(
      "disassemble", [](int64_t sequence) { return check(runtime::disassembly(*executable_or_raise(sequence))); },
      py::arg("sequence"));
}

}  // namespace neuron::pytorch
