// One logical core: its FIFO of work, its execution token, its worker, its modelled clock, its memory.
//
// The token is taken by a caller only if "queue empty, nobody executing" is one atomic step; otherwise work queues and the
// worker (started when first needed) executes it in order. Nothing but the token is held while executing.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "nrt/library.h"
#include "runtime/allocator.h"

namespace neuron::runtime {

class Core {
 public:
  Core(const nrt::Library& library, int index) : library(library), index(index), allocator(library, index) {}

  const nrt::Library& library;
  const int index;
  Allocator allocator;

  // Runs `fn` (returning Status) in FIFO order on this thread if the core is free; otherwise returns false: nothing ran.
  template <class F>
  bool try_run(F&& fn, Status* status) {
    {
      std::lock_guard lock(mutex_);
      if (executing_ || !queue_.empty()) return false;
      executing_ = true;
    }
    *status = fn();
    release();
    return true;
  }

  // Queues `fn` behind everything before it. Its error is kept for the next synchronize().
  void enqueue(std::function<Status()> fn);

  // Runs `fn` in FIFO order and returns when it is done.
  template <class F>
  Status run(F&& fn) {
    Status status;
    if (try_run(fn, &status)) return status;
    return enqueue_and_wait(std::forward<F>(fn));
  }

  // Waits until everything queued so far is done; returns and clears the first error of queued work.
  Status synchronize();
  bool idle();

  // Modelled clock, ns.
  double clock_ns();
  // Raises the clock to at least `ns`: what waiting for another core's event does.
  void raise_clock(double ns);

  // A device tensor that holds the slots of the launch being executed; owned by whoever holds the token.
  Result<nrt_tensor_t*> scalar_slots(size_t slots);

 private:
  Status enqueue_and_wait(std::function<Status()> fn);
  void release();
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> queue_;
  bool executing_ = false;
  bool worker_started_ = false;
  Status deferred_;
  double clock_offset_ns_ = 0;
  nrt_tensor_t* scalars_ = nullptr;
  size_t scalar_capacity_ = 0;
};

}  // namespace neuron::runtime
