#include "pytorch/dispatch/call_cache.h"

#include <algorithm>

#include "base/environment.h"
#include "pytorch/dispatch/cached_call.h"

namespace neuron::pytorch {

CallCache& CallCache::instance() {
  static auto* cache = new CallCache(static_cast<size_t>(environment::integer("TORCH_NEURONX_CACHE_ENTRIES")));
  return *cache;
}

std::shared_ptr<const CachedCall> CallCache::find(const Signature& signature) {
  const View view{signature.hash(), signature.words()};
  std::lock_guard lock(mutex_);
  const auto it = map_.find(view);
  if (it == map_.end()) {
    ++misses_;
    return nullptr;
  }
  ++hits_;
  it->second.last_used = ++clock_;
  return it->second.call;
}

std::shared_ptr<const CachedCall> CallCache::insert(const Signature& signature, std::shared_ptr<const CachedCall> call) {
  const auto words = signature.words();
  std::lock_guard lock(mutex_);
  if (map_.size() >= capacity_) evict();
  auto [it, inserted] = map_.try_emplace(Key{signature.hash(), {words.begin(), words.end()}}, Slot{std::move(call), 0});
  it->second.last_used = ++clock_;
  return it->second.call;
}

// Drops the eighth that was used longest ago, so that the scan is rare.
void CallCache::evict() {
  std::vector<uint64_t> ages;
  ages.reserve(map_.size());
  for (const auto& [key, slot] : map_) ages.push_back(slot.last_used);
  const auto limit = ages.begin() + static_cast<ptrdiff_t>(ages.size() / 8);
  std::nth_element(ages.begin(), limit, ages.end());
  evictions_ += std::erase_if(map_, [oldest = *limit](const auto& entry) { return entry.second.last_used <= oldest; });
}

void CallCache::clear() {
  std::lock_guard lock(mutex_);
  map_.clear();
}

CallCache::Stats CallCache::stats() {
  std::lock_guard lock(mutex_);
  return {hits_, misses_, evictions_, map_.size(), capacity_};
}

}  // namespace neuron::pytorch
