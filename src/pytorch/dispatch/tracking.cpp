#include "pytorch/dispatch/tracking.h"

#include <algorithm>
#include <deque>

namespace neuron::pytorch::tracking {
namespace {

struct State {
  std::mutex mutex;
  std::deque<std::shared_ptr<Record>> records;
  int64_t compiled = 0;
  std::map<std::string, std::unique_ptr<std::atomic<uint64_t>>> executed;
  std::map<std::string, Fallback> fallbacks;
};

State& state() {
  static auto* s = new State();  // counters are bumped until the very end of the process
  return *s;
}

constexpr size_t kMaxRecords = 20000;  // bounded: the oldest unloaded go first

}  // namespace

std::shared_ptr<Record> add_record(std::string name, std::string signature, int device) {
  auto record = std::make_shared<Record>();
  record->name = std::move(name);
  record->signature = std::move(signature);
  record->device = device;
  std::lock_guard lock(state().mutex);
  record->sequence = ++state().compiled;
  if (state().records.size() >= kMaxRecords) {
    auto& all = state().records;
    all.erase(std::remove_if(all.begin(), all.end(), [](const auto& r) { return r->executable.expired(); }), all.end());
    while (all.size() >= kMaxRecords) all.pop_front();
  }
  state().records.push_back(record);
  return record;
}

int64_t compile_count() {
  std::lock_guard lock(state().mutex);
  return state().compiled;
}

std::vector<std::shared_ptr<Record>> records() {
  std::lock_guard lock(state().mutex);
  return {state().records.begin(), state().records.end()};
}

std::atomic<uint64_t>& executed_counter(const std::string& op) {
  std::lock_guard lock(state().mutex);
  auto& slot = state().executed[op];
  if (!slot) slot = std::make_unique<std::atomic<uint64_t>>(0);
  return *slot;
}

void count_fallback(const std::string& op, const std::string& reason) {
  std::lock_guard lock(state().mutex);
  Fallback& fallback = state().fallbacks[op];
  ++fallback.count;
  fallback.reason = reason;
}

std::map<std::string, uint64_t> executed() {
  std::lock_guard lock(state().mutex);
  std::map<std::string, uint64_t> out;
  for (const auto& [op, count] : state().executed) {
    if (const uint64_t n = count->load(std::memory_order_relaxed)) out.emplace(op, n);
  }
  return out;
}

std::map<std::string, Fallback> fallbacks() {
  std::lock_guard lock(state().mutex);
  return state().fallbacks;
}

void clear() {
  std::lock_guard lock(state().mutex);
  for (auto& [op, count] : state().executed) count->store(0, std::memory_order_relaxed);
  state().fallbacks.clear();
}

}  // namespace neuron::pytorch::tracking
