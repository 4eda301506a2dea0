// What the library holds between calls: its phase, the visible cores, the handles, and how errors are reported.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi/nrt.h"
#include "abi/nrtx.h"
#include "emulator/abi/handles.h"
#include "emulator/executor.h"
#include "emulator/memory/hbm.h"
#include "emulator/memory/instance.h"
#include "isa/program.h"
#include "isa/target.h"

namespace neuron::emulator {

struct Core;

// Memory that tensors and their slices share; freed with the last of them.
struct Storage {
  Core* core = nullptr;
  uint8_t* data = nullptr;
  uint64_t bytes = 0;
  std::atomic<uint32_t> references{1};
};

}  // namespace neuron::emulator

// The opaque types of the ABI.
struct nrt_tensor {
  std::atomic<uint64_t> serial;
  neuron::emulator::Storage* storage;
  neuron::emulator::Core* core;
  uint8_t* data;
  uint64_t bytes;
};

namespace neuron::emulator {
struct Model;
struct TensorSet;
}  // namespace neuron::emulator

struct nrt_model {
  std::atomic<uint64_t> serial;
  neuron::emulator::Model* model;
};

namespace neuron::emulator {

struct SetHandle {
  std::atomic<uint64_t> serial;
  TensorSet* set;
};

struct TensorSet {
  struct Entry {
    std::string name;
    nrt_tensor* tensor = nullptr;
    uint64_t serial = 0;  // of the tensor when it was added: a freed one is noticed
  };
  std::vector<Entry> entries;
  std::unordered_map<std::string, uint32_t> index;  // filled from kIndexFrom entries on
  uint32_t hint = 0;                                // where the next name probably is: callers rebind in order
  uint64_t layout = 0;                              // unique per list of names: models remember how theirs map onto it
  static constexpr size_t kIndexFrom = 16;

  Entry* find(const char* name);
};

// Executions whose modelled time is not yet in a core's clock.
struct Executions {
  std::shared_ptr<const isa::Program> program;
  uint64_t count = 0;
};

struct Core {
  Core(int index_, const isa::Target& target, uint64_t capacity) : index(index_), target(target), hbm(index_, capacity) {}

  const int index;  // within the visible cores
  const isa::Target& target;
  Hbm hbm;
  std::mutex executing;  // one launch at a time; also guards what follows

  uint8_t* scratch = nullptr;  // shared by all models of the core: only one runs
  uint64_t scratch_bytes = 0;

  // Modelled clock: what is folded in, and unloaded models still to be priced.
  double clock_ns = 0;
  std::vector<Executions> retired;
  std::atomic<uint64_t> host_copy_bytes{0}, device_copy_bytes{0}, device_copies{0};
};

struct Model {
  // Where a program tensor comes from at a launch.
  struct Binding {
    uint32_t tensor = 0;  // index into Program::tensors
    bool output = false;  // which set
    uint32_t entry = 0;   // position in the set of the remembered layout
    uint64_t bytes = 0;
  };

  Core* core = nullptr;
  std::shared_ptr<const isa::Program> program;
  std::unique_ptr<Executor> executor;
  uint64_t executor_choice = 0;  // Library::executor_choice when it was made
  std::vector<TensorView> views;
  std::vector<Binding> bindings;
  std::vector<std::pair<uint32_t, uint32_t>> aliases;          // output tensor, input tensor
  std::vector<std::pair<uint32_t, uint64_t>> scratch_tensors;  // tensor, offset in the core's scratch
  uint64_t scratch_bytes = 0;
  uint8_t* constants = nullptr;
  uint64_t constant_bytes = 0;
  uint64_t input_layout = 0, output_layout = 0;  // for which Binding::entry holds
  uint64_t executions = 0;                       // not yet in the core's clock
  bool priced = false;                           // the estimate below is known
  double launch_to_launch_ns = 0;
  std::unique_ptr<nrtx_model_time_t> time;  // answered to nrtx_get_model_time
};

enum class Phase : uint8_t { uninitialized, open, closed, forked };

struct Library {
  std::atomic<Phase> phase{Phase::uninitialized};
  std::mutex mutex;  // init, close, load, unload
  std::vector<std::unique_ptr<Core>> cores;
  CoreLocks locks;
  HandleTable<nrt_tensor> tensors{1u << 22};
  HandleTable<nrt_model> models{1u << 20};
  HandleTable<SetHandle> sets{1u << 20};
  std::mutex models_mutex;  // held while a model dies and while all are visited; taken after a core's mutex
  std::atomic<uint64_t> next_layout{1};

  std::unique_ptr<ThreadPool> pool;
  std::atomic<int (*)(void*)> interrupt{nullptr};
  std::atomic<void*> interrupt_argument{nullptr};

  // The executor that models use; a model with an older choice makes a new one.
  std::atomic<uint64_t> executor_choice{1};
  std::mutex executor_mutex;
  std::string executor_name;
};

Library& library();

// --- errors ---
// Remembers the message for nrtx_last_error, logs one line when TORCH_NEURONX_LOG allows, and returns `code`.
NRT_STATUS fail(NRT_STATUS code, const char* call, const std::string& message);
NRT_STATUS fail(const char* call, const Status& status);  // by the status' code
NRT_STATUS refuse_phase(const char* call);                // the library is not open
void remember_out_of_range(const OutOfRange& where);

inline bool is_open() { return library().phase.load(std::memory_order_acquire) == Phase::open; }

// --- shared by the files of this folder ---
void drop_reference(Storage* storage);
NRT_STATUS find_core(const char* call, int vnc, Core** core);
// An executor of the kind chosen by nrtx_set_executor.
Result<std::unique_ptr<Executor>> make_executor(const std::shared_ptr<const isa::Program>& program);
Status check_executor_name(const std::string& name);
// Modelled time of one launch including its launch overhead.
double priced_launch_ns(const isa::Program& program);
// Folds all executions into the core's clock. The core's mutex is held.
void fold_clock(Core& core);
void destroy_model(Model* model);
ThreadPool& pool();

}  // namespace neuron::emulator

// Every call begins so.
#define NEURON_NRT_ENTER(call) \
  if (!::neuron::emulator::is_open()) return ::neuron::emulator::refuse_phase(call)
