// Life of the library: init, close, fork, errors.
#include <pthread.h>

#include <cstdio>
#include <cstring>

#include "base/environment.h"
#include "emulator/abi/library_state.h"

namespace neuron::emulator {
namespace {

thread_local std::string last_error;
thread_local OutOfRange last_out_of_range;
thread_local bool has_out_of_range = false;

void in_forked_child() {
  Library& lib = library();
  Phase open = Phase::open;
  if (lib.phase.compare_exchange_strong(open, Phase::forked)) lib.locks.abandon();
}

NRT_STATUS code_of(const Status& status) {
  switch (status.code()) {
    case Code::ok:
      return NRT_SUCCESS;
    case Code::out_of_memory:
    case Code::does_not_fit:
      return NRT_RESOURCE;
    case Code::out_of_range:
      return NRT_EXEC_OOB;
    case Code::unavailable:
    case Code::internal:
      return NRT_FAILURE;
    default:
      return NRT_INVALID;
  }
}

Status open_library_state(Library& lib) {
  NEURON_RETURN_IF_ERROR(environment::check());
  NEURON_RETURN_IF_ERROR(check_executor_name(environment::text("NEURON_EMULATOR_EXECUTOR")));
  NEURON_ASSIGN(const std::vector<int> visible, visible_cores());
  NEURON_RETURN_IF_ERROR(lib.locks.acquire(visible));
  const isa::Target& target = *isa::find_target(instance_type().target);
  const int64_t limit = environment::integer("NEURON_EMULATOR_HBM_BYTES");
  for (size_t c = 0; c < visible.size(); ++c) {
    lib.cores.push_back(
        std::make_unique<Core>(static_cast<int>(c), target, limit > 0 ? static_cast<uint64_t>(limit) : target.hbm_bytes));
  }
  return {};
}

}  // namespace

Library& library() {
  static Library* lib = [] {
    auto* l = new Library;  // never destroyed: callers' deleters run at exit
    l->executor_name = environment::text("NEURON_EMULATOR_EXECUTOR");
    return l;
  }();
  return *lib;
}

ThreadPool& pool() {
  Library& lib = library();
  std::lock_guard lock(lib.executor_mutex);
  if (!lib.pool) lib.pool = std::make_unique<ThreadPool>(static_cast<int>(environment::integer("NEURON_EMULATOR_THREADS")));
  return *lib.pool;
}

NRT_STATUS fail(NRT_STATUS code, const char* call, const std::string& message) {
  last_error = std::string(call) + ": " + message;
  has_out_of_range = false;
  if (environment::text("TORCH_NEURONX_LOG") != "error") {
    std::fprintf(stderr, "[nrt_emulated] %s (%s)\n", last_error.c_str(), nrt_get_status_as_str(code));
  }
  return code;
}

NRT_STATUS fail(const char* call, const Status& status) { return fail(code_of(status), call, status.message()); }

NRT_STATUS refuse_phase(const char* call) {
  switch (library().phase.load()) {
    case Phase::closed:
      return fail(NRT_CLOSED, call, "called after nrt_close");
    case Phase::forked:
      return fail(NRT_UNINITIALIZED, call,
                  "this process was forked from one that had called nrt_init; start it with spawn instead");
    default:
      return fail(NRT_UNINITIALIZED, call, "called before nrt_init");
  }
}

void remember_out_of_range(const OutOfRange& where) {
  last_out_of_range = where;
  has_out_of_range = true;
}

NRT_STATUS find_core(const char* call, int vnc, Core** core) {
  Library& lib = library();
  if (vnc < 0 || static_cast<size_t>(vnc) >= lib.cores.size()) {
    return fail(NRT_INVALID, call,
                "core " + std::to_string(vnc) + " of " + std::to_string(lib.cores.size()) + " visible cores");
  }
  *core = lib.cores[static_cast<size_t>(vnc)].get();
  return NRT_SUCCESS;
}

}  // namespace neuron::emulator

using namespace neuron::emulator;

NRT_STATUS nrt_init(nrt_framework_type_t framework, const char*, const char*) {
  Library& lib = library();
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, in_forked_child); });
  if (lib.phase == Phase::forked) return refuse_phase("nrt_init");
  if (framework == NRT_FRAMEWORK_TYPE_INVALID)
    return fail(NRT_INVALID, "nrt_init", "framework type NRT_FRAMEWORK_TYPE_INVALID");
  std::lock_guard lock(lib.mutex);
  if (lib.phase == Phase::open) return fail(NRT_FAILURE, "nrt_init", "already initialised");
  const neuron::Status status = open_library_state(lib);
  if (!status.ok()) {
    lib.locks.release();
    lib.cores.clear();
    return fail("nrt_init", status);
  }
  pool();
  lib.phase.store(Phase::open, std::memory_order_release);
  return NRT_SUCCESS;
}

void nrt_close(void) {
  Library& lib = library();
  std::lock_guard lock(lib.mutex);
  Phase open = Phase::open;
  if (!lib.phase.compare_exchange_strong(open, Phase::closed)) return;
  for (auto& core : lib.cores) core->executing.lock();  // waits for running launches
  for (auto& core : lib.cores) core->executing.unlock();
  lib.sets.for_each([&](SetHandle* s) {
    if (!lib.sets.retire(s)) return;
    delete s->set;
    lib.sets.release(s);
  });
  lib.models.for_each([&](nrt_model* m) {
    if (!lib.models.retire(m)) return;
    destroy_model(m->model);
    lib.models.release(m);
  });
  lib.tensors.for_each([&](nrt_tensor* t) {
    if (!lib.tensors.retire(t)) return;
    drop_reference(t->storage);
    lib.tensors.release(t);
  });
  for (auto& core : lib.cores) {
    if (core->scratch) core->hbm.release(core->scratch, core->scratch_bytes);
  }
  lib.cores.clear();
  lib.locks.release();
}

const char* nrtx_last_error(void) { return last_error.c_str(); }

NRT_STATUS nrtx_last_out_of_range(nrtx_out_of_range_t* out, size_t size) {
  if (!out || size == 0) return fail(NRT_INVALID, "nrtx_last_out_of_range", "no place for the result");
  if (!has_out_of_range) return NRT_FAILURE;
  nrtx_out_of_range_t value{};
  std::strncpy(value.label, last_out_of_range.label.c_str(), sizeof value.label - 1);
  value.index = last_out_of_range.index;
  value.bound = last_out_of_range.bound;
  std::memcpy(out, &value, std::min(size, sizeof value));
  return NRT_SUCCESS;
}
