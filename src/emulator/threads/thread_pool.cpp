#include "emulator/threads/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

namespace neuron::emulator {
namespace {

constexpr auto kSpin = std::chrono::microseconds(200);
constexpr int kSpinsPerClockLook = 64;
constexpr int kLooksBeforeYield = 1000;

std::atomic<bool> g_forked_child{false};

// The pool in whose parallel_for this thread runs an index, and as which worker.
thread_local const ThreadPool* t_pool = nullptr;
thread_local int t_worker = 0;

void watch_for_fork() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { g_forked_child.store(true); });
  (void)registered;
}

void futex_wait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int c = 0; c < CPU_SETSIZE; ++c) {
      if (CPU_ISSET(c, &set)) cores.push_back(c);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

// True when `ready` became true within the bounded spin.
template <class Ready>
bool spin_until(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  for (;;) {
    for (int i = 0; i < kSpinsPerClockLook; ++i) {
      if (ready()) return true;
      _mm_pause();
    }
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  watch_for_fork();
  threads_ = threads > 0 ? threads : static_cast<int>(allowed_cores().size());
}

ThreadPool::~ThreadPool() { stop_workers(); }

void ThreadPool::resize(int threads) {
  if (g_forked_child) return;
  while (in_use_.exchange(true, std::memory_order_acquire)) sched_yield();
  stop_workers();
  threads_ = threads > 0 ? threads : static_cast<int>(allowed_cores().size());
  in_use_.store(false, std::memory_order_release);
}

// Workers start with the first parallel job, so that a process which only queries the library has no threads.
void ThreadPool::start_workers() {
  stopping_ = false;
  const std::vector<int> cores = allowed_cores();
  const int wanted = threads_.load();
  shared_ = std::make_unique<Job[]>(static_cast<size_t>(wanted));
  for (int worker = 1; worker < wanted; ++worker) {
    workers_.emplace_back([this, worker] { work(worker); });
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores[static_cast<size_t>(worker) % cores.size()], &set);
    pthread_setaffinity_np(workers_.back().native_handle(), sizeof set, &set);  // a refusal costs speed only
  }
}

void ThreadPool::stop_workers() {
  if (g_forked_child) {  // the threads do not exist here
    for (std::thread& t : workers_) t.detach();
    workers_.clear();
    return;
  }
  stopping_ = true;
  epoch_.fetch_add(1);
  futex_wake_all(&epoch_);
  for (std::thread& t : workers_) t.join();
  workers_.clear();
}

void ThreadPool::Job::open(int64_t count, Thunk thunk, void* context) {
  count_ = count;
  thunk_ = thunk;
  context_ = context;
  next_.store(0, std::memory_order_relaxed);
  state_.store(kOpen, std::memory_order_release);
}

bool ThreadPool::Job::enter() {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while (state & kOpen) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void ThreadPool::Job::take(int worker) {
  for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) thunk_(context_, i, worker);
}

void ThreadPool::Job::close() {
  state_.fetch_and(~kOpen);
  while (!spin_until([&] { return state_.load(std::memory_order_acquire) == 0; })) sched_yield();
}

// Indices of the job, then whatever others share until all of its indices are done.
void ThreadPool::take_part(int worker) {
  t_pool = this;
  t_worker = worker;
  busy_.fetch_add(1);
  job_.take(worker);
  busy_.fetch_sub(1);
  t_pool = nullptr;
  help(worker);
}

void ThreadPool::help(int worker) {
  const int threads = threads_.load(std::memory_order_relaxed);
  idle_.fetch_add(1, std::memory_order_relaxed);
  int looks = 0;
  while (busy_.load(std::memory_order_relaxed) > 0) {
    for (int w = 0; w < threads; ++w) {
      Job& job = shared_[static_cast<size_t>(w)];
      if (!job.is_open() || !job.enter()) continue;
      idle_.fetch_sub(1, std::memory_order_relaxed);
      job.take(worker);
      job.leave();
      idle_.fetch_add(1, std::memory_order_relaxed);
      looks = 0;
    }
    if (++looks < kLooksBeforeYield) {
      _mm_pause();
      continue;
    }
    if (worker == 0) poll_(poll_context_);
    sched_yield();  // the one to be helped may need this very core
  }
  idle_.fetch_sub(1, std::memory_order_relaxed);
}

void ThreadPool::work(int worker) {
  uint32_t seen = 0;
  for (;;) {
    const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(changed)) {
      sleepers_.fetch_add(1);
      while (!changed()) futex_wait(&epoch_, seen);
      sleepers_.fetch_sub(1);
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stopping_) return;
    if (!job_.enter()) continue;
    take_part(worker);
    job_.leave();
  }
}

void ThreadPool::run(int64_t count, Thunk thunk, void* context, void (*poll)(void*), void* poll_context) {
  if (count > 1 && threads_.load(std::memory_order_relaxed) > 1 && !g_forked_child.load(std::memory_order_relaxed) &&
      !in_use_.exchange(true, std::memory_order_acquire)) {
    if (workers_.empty()) start_workers();
    poll_ = poll;
    poll_context_ = poll_context;
    job_.open(count, thunk, context);
    epoch_.fetch_add(1);
    if (sleepers_.load() > 0) futex_wake_all(&epoch_);
    take_part(0);
    job_.close();
    in_use_.store(false, std::memory_order_release);
    return;
  }
  for (int64_t i = 0; i < count; ++i) thunk(context, i, 0);
}

void ThreadPool::run_shared(int64_t count, Thunk thunk, void* context) {
  if (t_pool != this) {
    for (int64_t i = 0; i < count; ++i) thunk(context, i, 0);
    return;
  }
  Job& job = shared_[static_cast<size_t>(t_worker)];
  job.open(count, thunk, context);
  job.take(t_worker);
  job.close();
}

}  // namespace neuron::emulator
