// nrtx_*: modelled time, timelines, disassembly, executor and thread selection.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "emulator/abi/library_state.h"
#include "isa/disassembler.h"
#include "isa/instruction_table.h"
#include "timing/timing.h"

namespace neuron::emulator {
namespace {

Result<std::shared_ptr<const isa::Program>> program_of(nrt_model_t* model) {
  nrt_model* handle = library().models.find(model);
  if (!handle) return invalid_argument(std::string("the model ") + library().models.what_is_wrong(model));
  return handle->model->program;
}

NRT_STATUS give_text(const char* call, const std::string& text, char** out, size_t* length) {
  if (!out) return fail(NRT_INVALID, call, "no place for the result");
  *out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!*out) return fail(NRT_FAIL_HOST_MEM_ALLOC, call, "no host memory");
  std::memcpy(*out, text.c_str(), text.size() + 1);
  if (length) *length = text.size();
  return NRT_SUCCESS;
}

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

// One row per engine and DMA queue of each physical core.
int row_of(const timing::Event& e) {
  constexpr int kFirstQueue = 16;
  return e.engine == isa::Engine::dma ? kFirstQueue + e.queue : static_cast<int>(e.engine);
}

std::string row_name(const timing::Event& e) {
  std::string name(isa::name_of(e.engine));
  return e.engine == isa::Engine::dma ? name + " queue " + std::to_string(e.queue) : name;
}

std::string chrome_trace(const isa::Program& program, const timing::Estimate& estimate) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  std::set<std::pair<int, int>> named;
  bool first = true;
  const auto add = [&](const std::string& event) {
    if (!first) out += ",\n";
    first = false;
    out += event;
  };
  for (const timing::Event& e : estimate.events) {
    const int core = e.core, row = row_of(e);
    if (named.emplace(core, row).second) {
      add("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" + std::to_string(core) + ",\"tid\":" + std::to_string(row) +
          ",\"args\":{\"name\":" + json_string(row_name(e)) + "}}");
    }
    const isa::Instruction& i = program.instructions[e.instruction];
    char times[96];
    std::snprintf(times, sizeof times, "\"ts\":%.4f,\"dur\":%.4f", e.start_ns / 1000, (e.end_ns - e.start_ns) / 1000);
    add("{\"ph\":\"X\",\"name\":" + json_string(std::string(isa::name_of(i.opcode))) + ",\"pid\":" + std::to_string(core) +
        ",\"tid\":" + std::to_string(row) + "," + times +
        ",\"args\":{\"op\":" + json_string(i.label < program.labels.size() ? program.labels[i.label] : std::string()) +
        ",\"instruction\":" + std::to_string(e.instruction) + "}}");
  }
  return out + "]}\n";
}

nrtx_model_time_t model_time(const isa::Program& program) {
  const timing::Estimate e = timing::estimate(program);
  const auto busy = [&](isa::Engine engine) { return e.busy_ns[static_cast<int>(engine)]; };
  nrtx_model_time_t t{};
  t.total_ns = e.total_ns - e.launch_ns;
  t.launch_ns = e.launch_ns;
  t.tensor_busy_ns = busy(isa::Engine::tensor);
  t.vector_busy_ns = busy(isa::Engine::vector);
  t.scalar_busy_ns = busy(isa::Engine::scalar);
  t.gpsimd_busy_ns = busy(isa::Engine::gpsimd);
  t.dma_busy_ns = busy(isa::Engine::dma);
  t.routine_ns = e.routine_ns;
  t.hbm_bytes_read = e.hbm_bytes_read;
  t.hbm_bytes_written = e.hbm_bytes_written;
  t.flops = e.flops;
  t.physical_cores_used = static_cast<uint32_t>(
      std::count_if(program.streams.begin(), program.streams.end(), [](const isa::Stream& s) { return !s.steps.empty(); }));
  std::strncpy(t.bound_by, e.bound_by.c_str(), sizeof t.bound_by - 1);
  return t;
}

}  // namespace

double priced_launch_ns(const isa::Program& program) { return timing::estimate(program).total_ns; }

void fold_clock(Core& core) {
  for (const Executions& e : core.retired) core.clock_ns += priced_launch_ns(*e.program) * static_cast<double>(e.count);
  core.retired.clear();
  std::lock_guard lock(library().models_mutex);
  library().models.for_each([&](nrt_model* handle) {
    Model& m = *handle->model;
    if (m.core != &core || m.executions == 0) return;
    if (!m.priced) {
      m.launch_to_launch_ns = priced_launch_ns(*m.program);
      m.priced = true;
    }
    core.clock_ns += m.launch_to_launch_ns * static_cast<double>(m.executions);
    m.executions = 0;
  });
  // Copies: device to device at HBM's rate behind a DMA start; host copies at the DMA engines' rate.
  const isa::Target& t = core.target;
  core.clock_ns += static_cast<double>(core.device_copy_bytes.exchange(0)) / t.hbm.core_bytes_per_ns +
                   static_cast<double>(core.device_copies.exchange(0)) * t.dma.start_ns +
                   static_cast<double>(core.host_copy_bytes.exchange(0)) / (t.dma.engines * t.dma.bytes_per_ns);
}

}  // namespace neuron::emulator

using namespace neuron::emulator;

NRT_STATUS nrtx_get_model_time(nrt_model_t* model, nrtx_model_time_t* out, size_t size) {
  constexpr const char* kCall = "nrtx_get_model_time";
  NEURON_NRT_ENTER(kCall);
  if (!out || size == 0) return fail(NRT_INVALID, kCall, "no place for the result");
  nrt_model* handle = library().models.find(model);
  if (!handle) return fail(NRT_INVALID_HANDLE, kCall, std::string("the model ") + library().models.what_is_wrong(model));
  Model& m = *handle->model;
  std::lock_guard lock(m.core->executing);
  if (!m.time) {
    m.time = std::make_unique<nrtx_model_time_t>(model_time(*m.program));
    m.launch_to_launch_ns = m.time->total_ns + m.time->launch_ns;
    m.priced = true;
  }
  std::memcpy(out, m.time.get(), std::min(size, sizeof *out));
  return NRT_SUCCESS;
}

NRT_STATUS nrtx_get_model_timeline(nrt_model_t* model, uint64_t max_events, char** json, size_t* length) {
  constexpr const char* kCall = "nrtx_get_model_timeline";
  NEURON_NRT_ENTER(kCall);
  auto program = program_of(model);
  if (!program.ok()) return fail(NRT_INVALID_HANDLE, kCall, program.status().message());
  return give_text(kCall, chrome_trace(**program, neuron::timing::estimate(**program, max_events)), json, length);
}

NRT_STATUS nrtx_disassemble(nrt_model_t* model, char** text, size_t* length) {
  constexpr const char* kCall = "nrtx_disassemble";
  NEURON_NRT_ENTER(kCall);
  auto program = program_of(model);
  if (!program.ok()) return fail(NRT_INVALID_HANDLE, kCall, program.status().message());
  return give_text(kCall, neuron::isa::disassemble(**program), text, length);
}

void nrtx_free(void* memory) { std::free(memory); }

NRT_STATUS nrtx_get_core_clock(uint32_t vnc, double* ns) {
  constexpr const char* kCall = "nrtx_get_core_clock";
  NEURON_NRT_ENTER(kCall);
  if (!ns) return fail(NRT_INVALID, kCall, "no place for the result");
  Core* core = nullptr;
  if (const NRT_STATUS s = find_core(kCall, static_cast<int>(std::min<uint32_t>(vnc, INT32_MAX)), &core)) return s;
  std::lock_guard lock(core->executing);
  fold_clock(*core);
  *ns = core->clock_ns;
  return NRT_SUCCESS;
}

NRT_STATUS nrtx_set_executor(const char* name) {
  constexpr const char* kCall = "nrtx_set_executor";
  if (!name) return fail(NRT_INVALID, kCall, "no name");
  const neuron::Status status = check_executor_name(name);
  if (!status.ok()) return fail(kCall, status);
  Library& lib = library();
  std::lock_guard lock(lib.executor_mutex);
  if (lib.executor_name == name) return NRT_SUCCESS;
  lib.executor_name = name;
  lib.executor_choice.fetch_add(1, std::memory_order_release);
  return NRT_SUCCESS;
}

NRT_STATUS nrtx_set_threads(uint32_t count) {
  constexpr uint32_t kMostThreads = 1024;
  if (count == 0 || count > kMostThreads)
    return fail(NRT_INVALID, "nrtx_set_threads", std::to_string(count) + " threads; valid: 1 to 1024");
  pool().resize(static_cast<int>(count));
  return NRT_SUCCESS;
}

const char* nrtx_host_isa(void) { return host_isa_name(); }

void nrtx_set_interrupt_check(int (*check)(void*), void* argument) {
  Library& lib = library();
  lib.interrupt_argument.store(argument, std::memory_order_relaxed);
  lib.interrupt.store(check, std::memory_order_release);
}
