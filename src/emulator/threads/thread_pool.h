// A small persistent pool for the plan's parallel loops. The caller takes part; workers spin for a bounded time and then
// sleep.
//
// Results must never depend on the number of threads: parallel_for promises only that every index is run once. Only pool
// workers are pinned to host cores, never the calling thread. A nested call, a call while another thread uses the pool, and
// any call in a forked child run inline on the caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace neuron::emulator {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 = no workers. 0 = all cores this process may use.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_.load(std::memory_order_relaxed); }
  // Waits for a running parallel_for, then changes the number of threads.
  void resize(int threads);

  // fn(index, worker) for every index in [0, count); worker in [0, threads()), 0 = the caller. No two calls with one worker
  // number overlap. fn must not throw.
  template <class Function>
  void parallel_for(int64_t count, Function&& fn) {
    using Body = std::remove_reference_t<Function>;
    run(
        count, [](void* context, int64_t index, int worker) { (*static_cast<Body*>(context))(index, worker); },
        const_cast<std::remove_const_t<Body>*>(&fn));
  }

 private:
  using Thunk = void (*)(void* context, int64_t index, int worker);

  void run(int64_t count, Thunk thunk, void* context);
  void start_workers();
  void stop_workers();
  void work(int worker);
  void take_indices(int worker);

  std::atomic<int> threads_{1};
  std::atomic<bool> in_use_{false};  // set by the thread whose parallel_for (or resize) runs
  std::vector<std::thread> workers_;
  std::atomic<bool> stopping_{false};

  // The open job. state_ counts workers inside it; kOpen is set while they may enter.
  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // futex word: changes when a job opens or the pool stops
  std::atomic<uint32_t> sleepers_{0};
  alignas(64) std::atomic<int64_t> next_{0};
  int64_t count_ = 0;
  Thunk thunk_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace neuron::emulator
