// A small persistent pool for the plan's parallel loops. The caller takes part; workers spin for a bounded time and then
// sleep.
//
// Results must never depend on the number of threads: parallel_for promises only that every index is run once. Only pool
// workers are pinned to host cores, never the calling thread. A nested call, a call while another thread uses the pool, and
// any call in a forked child run inline on the caller.
//
// Workers that find no index left help those that are still at theirs with what these share(): a few long indices keep all
// cores busy to the end although one core is slower than the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
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
  // number overlap. The caller calls poll() now and then while it waits for the others. Neither must throw.
  template <class Function, class Poll>
  void parallel_for(int64_t count, Function&& fn, Poll&& poll) {
    using Body = std::remove_reference_t<Function>;
    using PollBody = std::remove_reference_t<Poll>;
    run(
        count, [](void* context, int64_t index, int worker) { (*static_cast<Body*>(context))(index, worker); },
        const_cast<std::remove_const_t<Body>*>(&fn), [](void* context) { (*static_cast<PollBody*>(context))(); },
        const_cast<std::remove_const_t<PollBody>*>(&poll));
  }
  template <class Function>
  void parallel_for(int64_t count, Function&& fn) {
    parallel_for(count, std::forward<Function>(fn), [] {});
  }

  // Inside a function of parallel_for: fn(index) for every index in [0, count), on this thread and on workers that have
  // nothing else left to do; returns when all are done. Anywhere else it runs inline. fn must not throw, fork or share.
  template <class Function>
  void share(int64_t count, Function&& fn) {
    using Body = std::remove_reference_t<Function>;
    run_shared(
        count, [](void* context, int64_t index, int) { (*static_cast<Body*>(context))(index); },
        const_cast<std::remove_const_t<Body>*>(&fn));
  }
  // Workers that wait for something to help with.
  int idle() const { return idle_.load(std::memory_order_relaxed); }

 private:
  using Thunk = void (*)(void* context, int64_t index, int worker);

  // Indices that several threads take. Its owner opens and closes it; others join while it is open.
  class alignas(64) Job {
   public:
    void open(int64_t count, Thunk thunk, void* context);
    bool enter();  // false: not open
    void leave() { state_.fetch_sub(1, std::memory_order_release); }
    void take(int worker);
    void close();  // nobody enters any more; returns when all have left
    bool is_open() const { return state_.load(std::memory_order_relaxed) & kOpen; }

   private:
    static constexpr uint32_t kOpen = 0x80000000u;
    std::atomic<uint32_t> state_{0};  // threads inside, the owner not counted; kOpen
    alignas(64) std::atomic<int64_t> next_{0};
    int64_t count_ = 0;
    Thunk thunk_ = nullptr;
    void* context_ = nullptr;
  };

  void run(int64_t count, Thunk thunk, void* context, void (*poll)(void*), void* poll_context);
  void run_shared(int64_t count, Thunk thunk, void* context);
  void start_workers();
  void stop_workers();
  void work(int worker);
  void take_part(int worker);
  void help(int worker);

  std::atomic<int> threads_{1};
  std::atomic<bool> in_use_{false};  // set by the thread whose parallel_for (or resize) runs
  std::vector<std::thread> workers_;
  std::atomic<bool> stopping_{false};

  Job job_;
  void (*poll_)(void*) = nullptr;
  void* poll_context_ = nullptr;
  std::unique_ptr<Job[]> shared_;               // what each worker shares
  std::atomic<int> busy_{0};                    // threads that run indices of the job
  std::atomic<int> idle_{0};                    // threads that look for something to help with
  alignas(64) std::atomic<uint32_t> epoch_{0};  // futex word: changes when a job opens or the pool stops
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace neuron::emulator
