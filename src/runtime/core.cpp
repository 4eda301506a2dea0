#include "runtime/core.h"

#include <algorithm>

namespace neuron::runtime {

void Core::enqueue(std::function<Status()> fn) {
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(fn));
  if (!worker_started_) {
    worker_started_ = true;
    std::thread([this] { work(); }).detach();  // cores live as long as the process
  }
  changed_.notify_all();
}

Status Core::enqueue_and_wait(std::function<Status()> fn) {
  struct Completion {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    Status status;
  };
  auto completion = std::make_shared<Completion>();
  enqueue([completion, fn = std::move(fn)] {
    Status status = fn();
    std::lock_guard lock(completion->mutex);
    completion->status = std::move(status);
    completion->done = true;
    completion->changed.notify_all();
    return Status();  // reported to the waiter, not to synchronize()
  });
  std::unique_lock lock(completion->mutex);
  completion->changed.wait(lock, [&] { return completion->done; });
  return completion->status;
}

void Core::release() {
  std::lock_guard lock(mutex_);
  executing_ = false;
  if (worker_started_) changed_.notify_all();
}

void Core::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !executing_ && !queue_.empty(); });
    executing_ = true;
    std::function<Status()> fn = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Status status = fn();
    fn = nullptr;  // what it kept alive may take locks
    lock.lock();
    executing_ = false;
    if (!status.ok() && deferred_.ok()) deferred_ = std::move(status);
    changed_.notify_all();
  }
}

Status Core::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !worker_started_ || (!executing_ && queue_.empty()); });
  Status status = std::move(deferred_);
  deferred_ = Status();
  return status;
}

bool Core::idle() {
  std::lock_guard lock(mutex_);
  return !executing_ && queue_.empty();
}

double Core::clock_ns() {
  double ns = 0;
  if (library.nrtx_get_core_clock) library.nrtx_get_core_clock(index, &ns);
  std::lock_guard lock(mutex_);
  return ns + clock_offset_ns_;
}

void Core::raise_clock(double ns) {
  const double now = clock_ns();
  std::lock_guard lock(mutex_);
  clock_offset_ns_ += std::max(0.0, ns - now);
}

Result<nrt_tensor_t*> Core::scalar_slots(size_t slots) {
  if (slots > scalar_capacity_) {
    if (scalars_) library.nrt_tensor_free(&scalars_);  // slices of it keep the storage alive
    const size_t capacity = std::max<size_t>(1024, slots);
    NEURON_RETURN_IF_ERROR(nrt::check(
        library, library.nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, index, capacity * 8, "runtime scalars", &scalars_),
        "nrt_tensor_allocate"));
    scalar_capacity_ = capacity;
  }
  return scalars_;
}

}  // namespace neuron::runtime
