// What ran, what fell back, what was compiled and when: counters for torch_neuronx's get_executed_ops, get_fallback_ops,
// explain().
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/runtime.h"

namespace neuron::pytorch::tracking {

// One compiled executable.
struct Record {
  std::string name;       // operator, "copy", or the name of a compiled graph
  std::string signature;  // for people: "f32[2,3], f32[3]"
  int device = 0;
  double compile_ms = 0;  // lowering, compiling, loading
  int64_t sequence = 0;   // 1, 2, ...: order of compilation in this process
  std::atomic<uint64_t> launches{0};
  std::weak_ptr<runtime::Executable> executable;
};

std::shared_ptr<Record> add_record(std::string name, std::string signature, int device);
// Executables compiled so far in this process (never falls).
int64_t compile_count();
// Records of executables, the oldest unloaded ones excepted when there are very many.
std::vector<std::shared_ptr<Record>> records();

// A counter with a name that lives for the process; operators bump theirs without a lock.
std::atomic<uint64_t>& executed_counter(const std::string& op);
void count_fallback(const std::string& op, const std::string& reason);
std::map<std::string, uint64_t> executed();
struct Fallback {
  uint64_t count = 0;
  std::string reason;
};
std::map<std::string, Fallback> fallbacks();
// Operator counters only; records stay.
void clear();

}  // namespace neuron::pytorch::tracking
