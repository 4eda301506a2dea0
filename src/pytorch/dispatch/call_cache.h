// Signature -> what to do: bounded, counted, thread-safe. Entries are shared, so eviction never harms a call in flight.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "pytorch/dispatch/signature.h"

namespace neuron::pytorch {

struct CachedCall;

class CallCache {
 public:
  static CallCache& instance();

  std::shared_ptr<const CachedCall> find(const Signature& signature);
  // Returns the entry that is in the cache afterwards (another thread may have been first).
  std::shared_ptr<const CachedCall> insert(const Signature& signature, std::shared_ptr<const CachedCall> call);
  void clear();

  struct Stats {
    uint64_t hits = 0, misses = 0, evictions = 0;
    size_t entries = 0, capacity = 0;
  };
  Stats stats();

 private:
  explicit CallCache(size_t capacity) : capacity_(capacity) {}
  struct Key {
    uint64_t hash;
    std::vector<uint64_t> words;
  };
  struct View {
    uint64_t hash;
    std::span<const uint64_t> words;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const Key& k) const { return k.hash; }
    size_t operator()(const View& k) const { return k.hash; }
  };
  struct Equal {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return a.hash == b.hash && a.words.size() == b.words.size() &&
             std::memcmp(a.words.data(), b.words.data(), a.words.size() * sizeof(uint64_t)) == 0;
    }
  };
  struct Slot {
    std::shared_ptr<const CachedCall> call;
    uint64_t last_used = 0;
  };
  void evict();

  std::mutex mutex_;
  std::unordered_map<Key, Slot, Hash, Equal> map_;
  size_t capacity_;
  uint64_t clock_ = 0, hits_ = 0, misses_ = 0, evictions_ = 0;
};

}  // namespace neuron::pytorch
