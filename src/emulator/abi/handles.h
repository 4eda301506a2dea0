// Handles of the C ABI: slots of one reserved address range per kind, so that any pointer a caller passes can be checked
// without touching memory that is not ours, and a freed handle is recognised for a while (freed slots queue up before
// reuse).
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace neuron::emulator {

class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) {
      while (flag_.test(std::memory_order_relaxed)) __builtin_ia32_pause();
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

// Slot: a trivially destructible struct with `std::atomic<uint64_t> serial` (0 = free; otherwise unique for ever).
template <class Slot>
class HandleTable {
 public:
  explicit HandleTable(uint32_t capacity) : capacity_(capacity) {
    // The ring of freed slots lies behind the slots.
    void* map = mmap(nullptr, uint64_t{capacity} * (sizeof(Slot) + sizeof(uint32_t)), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
      capacity_ = 0;
      return;
    }
    slots_ = static_cast<Slot*>(map);
    freed_ = reinterpret_cast<uint32_t*>(slots_ + capacity);
  }

  // nullptr when all handles are in use. The caller fills the slot, then publish() makes it valid.
  Slot* allocate() {
    lock_.lock();
    Slot* slot = nullptr;
    if (freed_count_ > kQuarantine || (freed_count_ > 0 && high_water_ == capacity_)) {
      slot = &slots_[freed_[freed_head_]];
      freed_head_ = freed_head_ + 1 == capacity_ ? 0 : freed_head_ + 1;
      --freed_count_;
    } else if (high_water_ < capacity_) {
      slot = &slots_[high_water_++];
    }
    lock_.unlock();
    return slot;
  }

  void publish(Slot* slot) {
    slot->serial.store(next_serial_.fetch_add(1, std::memory_order_relaxed), std::memory_order_release);
  }

  // Takes the handle out of use; false when it was not in use (a race of two frees has one winner).
  bool retire(Slot* slot) { return slot->serial.exchange(0, std::memory_order_acq_rel) != 0; }

  // The slot of a retired handle may be reused from now on.
  void release(Slot* slot) {
    lock_.lock();
    uint32_t tail = freed_head_ + freed_count_;
    if (tail >= capacity_) tail -= capacity_;
    freed_[tail] = static_cast<uint32_t>(slot - slots_);
    ++freed_count_;
    lock_.unlock();
  }

  // The slot if `handle` is in use, otherwise nullptr.
  Slot* find(const void* handle) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(slots_);
    if (offset >= uint64_t{capacity_} * sizeof(Slot) || offset % sizeof(Slot) != 0) return nullptr;
    Slot* slot = slots_ + offset / sizeof(Slot);
    return slot->serial.load(std::memory_order_acquire) ? slot : nullptr;
  }

  // "was freed", "is not a handle": for messages.
  const char* what_is_wrong(const void* handle) const {
    if (!handle) return "is NULL";
    const uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(slots_);
    if (offset < uint64_t{high_water_} * sizeof(Slot) && offset % sizeof(Slot) == 0) return "was freed before";
    return "is not a handle of this library";
  }

  template <class Function>
  void for_each(Function&& function) {
    for (uint32_t i = 0; i < high_water_; ++i) {
      if (slots_[i].serial.load()) function(&slots_[i]);
    }
  }

 private:
  static constexpr uint32_t kQuarantine = 64;

  uint32_t capacity_;
  Slot* slots_ = nullptr;
  uint32_t* freed_ = nullptr;  // ring of slot numbers
  uint32_t high_water_ = 0, freed_head_ = 0, freed_count_ = 0;
  SpinLock lock_;
  std::atomic<uint64_t> next_serial_{1};
};

}  // namespace neuron::emulator
