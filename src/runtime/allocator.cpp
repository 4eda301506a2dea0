#include "runtime/allocator.h"

#include <cstdio>
#include <cstdlib>

namespace neuron::runtime {
namespace {

constexpr size_t kSmallLimit = size_t{1} << 20;  // requests up to this share small segments
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kLargeSegment = size_t{20} << 20;  // for requests below kLargeLimit
constexpr size_t kLargeLimit = size_t{10} << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

void grow(MemoryStats::Stat& s, int64_t n) {
  s.current += n;
  s.allocated += n;
  if (s.current > s.peak) s.peak = s.current;
}
void shrink(MemoryStats::Stat& s, int64_t n) {
  s.current -= n;
  s.freed += n;
}

std::string readable(uint64_t bytes) {
  char text[64];
  const double b = static_cast<double>(bytes);
  if (bytes >= (uint64_t{1} << 30)) {
    std::snprintf(text, sizeof text, "%.2f GiB", b / (1 << 30));
  } else if (bytes >= (1 << 20)) {
    std::snprintf(text, sizeof text, "%.2f MiB", b / (1 << 20));
  } else {
    std::snprintf(text, sizeof text, "%llu bytes", static_cast<unsigned long long>(bytes));
  }
  return text;
}

}  // namespace

Result<void*> Allocator::allocate(size_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  if (bytes > kCoreSpan) {
    std::lock_guard lock(mutex_);
    return exhausted(bytes);
  }
  const size_t rounded = round_up(bytes, kBlockBytes);
  std::lock_guard lock(mutex_);
  ++stats_.alloc_calls;
  if (const size_t bin = rounded / kBlockBytes; bin < kQuickBins && !quick_[bin].empty()) {
    Block* block = quick_[bin].back();
    quick_[bin].pop_back();
    block->quick = false;
    activate(block, bytes);
    return static_cast<void*>(block->address);
  }
  const bool small = rounded <= kSmallLimit;
  Block* block = take_free(rounded, small);
  if (!block) {
    auto fresh = new_segment(rounded, small);
    if (!fresh.ok()) {
      if (fresh.status().code() != Code::out_of_memory) return fresh.status();
      ++stats_.alloc_retries;
      flush_quick();
      block = take_free(rounded, small);
      if (!block) {
        release_segments();
        fresh = new_segment(rounded, small);
        if (!fresh.ok()) {
          ++stats_.ooms;
          return exhausted(bytes);
        }
        block = *fresh;
      }
    } else {
      block = *fresh;
    }
  }
  block = split(block, rounded);
  activate(block, bytes);
  return static_cast<void*>(block->address);
}

Status Allocator::exhausted(size_t bytes) {
  uint64_t limit = 0, used = 0;
  nrt_vnc_memory_stats_t device{};
  size_t written = 0;
  if (library_.nrt_get_vnc_memory_stats &&
      library_.nrt_get_vnc_memory_stats(core_, &device, sizeof device, &written) == NRT_SUCCESS) {
    limit = device.bytes_limit;
    used = device.bytes_used;
  }
  const uint64_t allocated = stats_.allocated_bytes.current;
  const uint64_t cached = stats_.reserved_bytes.current - stats_.allocated_bytes.current;
  return out_of_memory("NeuronCore out of memory. Tried to allocate " + readable(bytes) + " (" + std::to_string(bytes) +
                       " bytes). Core " + std::to_string(core_) + " has " + readable(limit) + " of HBM, of which " +
                       readable(limit > used ? limit - used : 0) + " (" + std::to_string(limit > used ? limit - used : 0) +
                       " bytes) are free; PyTorch holds " + readable(allocated) + " in tensors and " + readable(cached) +
                       " (" + std::to_string(cached) + " bytes) cached.");
}

Block* Allocator::take_free(size_t bytes, bool small) {
  Block wanted;
  wanted.bytes = bytes;
  Pool& from = small ? small_ : large_;
  auto it = from.lower_bound(&wanted);
  if (it == from.end()) return nullptr;
  // A big block is not broken for a small large-pool request when that would leave most of it idle behind a live tensor.
  Block* block = *it;
  from.erase(it);
  if (block->previous || block->next)
    shrink(stats_.inactive_split_count, 1), shrink(stats_.inactive_split_bytes, block->bytes);
  return block;
}

Result<Block*> Allocator::new_segment(size_t bytes, bool small) {
  const size_t segment_bytes = small ? kSmallSegment : bytes < kLargeLimit ? kLargeSegment : round_up(bytes, kGranule);
  auto segment = std::make_unique<Segment>();
  segment->core = core_;
  segment->bytes = segment_bytes;
  segment->small = small;
  NEURON_RETURN_IF_ERROR(nrt::check(
      library_, library_.nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core_, segment_bytes, "segment", &segment->tensor),
      "nrt_tensor_allocate"));
  if (Status placed = AddressSpace::get().place(segment.get()); !placed.ok()) {
    library_.nrt_tensor_free(&segment->tensor);
    return placed;
  }
  // calloc: pages of the table that no block start touches stay unmapped.
  segment->block_at = static_cast<Block**>(std::calloc(segment_bytes / kBlockBytes, sizeof(Block*)));
  auto* block = new Block;
  block->segment = segment.get();
  block->address = segment->base;
  block->bytes = segment_bytes;
  segment->block_at[0] = block;
  segment->first = block;
  segment.release();
  grow(stats_.segment_count, 1);
  grow(stats_.reserved_bytes, segment_bytes);
  return block;
}

Block* Allocator::split(Block* block, size_t bytes) {
  const size_t rest = block->bytes - bytes;
  // Large blocks keep remainders up to 1 MiB to themselves: slivers in the large pool only fragment it.
  if (rest == 0 || (!block->segment->small && rest <= kSmallLimit)) return block;
  auto* tail = new Block;
  tail->segment = block->segment;
  tail->address = block->address + bytes;
  tail->bytes = rest;
  tail->previous = block;
  tail->next = block->next;
  if (tail->next) tail->next->previous = tail;
  block->next = tail;
  block->bytes = bytes;
  block->segment->block_at[(tail->address - block->segment->base) / kBlockBytes] = tail;
  pool(*block->segment).insert(tail);
  grow(stats_.inactive_split_count, 1);
  grow(stats_.inactive_split_bytes, rest);
  return block;
}

void Allocator::activate(Block* block, size_t requested) {
  block->active = true;
  block->requested = requested;
  grow(stats_.allocation_count, 1);
  grow(stats_.active_count, 1);
  grow(stats_.allocated_bytes, block->bytes);
  grow(stats_.active_bytes, block->bytes);
  grow(stats_.requested_bytes, requested);
}

void Allocator::free(void* address) {
  if (!address) return;
  Segment* segment = AddressSpace::get().find(address);
  if (!segment) return;
  std::lock_guard lock(mutex_);
  Block* block = segment->block_at[(static_cast<char*>(address) - segment->base) / kBlockBytes];
  if (!block || !block->active) return;
  ++stats_.free_calls;
  block->active = false;
  shrink(stats_.allocation_count, 1);
  shrink(stats_.active_count, 1);
  shrink(stats_.allocated_bytes, block->bytes);
  shrink(stats_.active_bytes, block->bytes);
  shrink(stats_.requested_bytes, block->requested);
  if (const size_t bin = block->bytes / kBlockBytes; bin < kQuickBins) {
    block->quick = true;
    quick_[bin].push_back(block);
  } else {
    give_back(block);
  }
}

void Allocator::give_back(Block* block) {
  auto absorb = [&](Block* a, Block* b) {  // a becomes a+b
    a->bytes += b->bytes;
    a->next = b->next;
    if (a->next) a->next->previous = a;
    b->segment->block_at[(b->address - b->segment->base) / kBlockBytes] = nullptr;
    delete b;
  };
  auto mergeable = [](Block* b) { return b && !b->active && !b->quick; };
  auto leave_pool = [&](Block* b) {
    pool(*b->segment).erase(b);
    shrink(stats_.inactive_split_count, 1);
    shrink(stats_.inactive_split_bytes, b->bytes);
  };
  if (mergeable(block->next)) {
    leave_pool(block->next);
    absorb(block, block->next);
  }
  if (mergeable(block->previous)) {
    Block* previous = block->previous;
    leave_pool(previous);
    absorb(previous, block);
    block = previous;
  }
  pool(*block->segment).insert(block);
  if (block->previous || block->next) {
    grow(stats_.inactive_split_count, 1);
    grow(stats_.inactive_split_bytes, block->bytes);
  }
}

void Allocator::flush_quick() {
  for (auto& bin : quick_) {
    for (Block* block : bin) {
      block->quick = false;
      give_back(block);
    }
    bin.clear();
  }
}

void Allocator::release_segments() {
  for (Pool* from : {&small_, &large_}) {
    for (auto it = from->begin(); it != from->end();) {
      Block* block = *it;
      if (block->previous || block->next) {
        ++it;
        continue;
      }
      it = from->erase(it);
      Segment* segment = block->segment;
      AddressSpace::get().remove(segment);
      library_.nrt_tensor_free(&segment->tensor);
      shrink(stats_.segment_count, 1);
      shrink(stats_.reserved_bytes, segment->bytes);
      std::free(segment->block_at);
      delete block;
      delete segment;
    }
  }
}

void Allocator::empty_cache() {
  std::lock_guard lock(mutex_);
  flush_quick();
  release_segments();
}

MemoryStats Allocator::stats() {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peak() {
  std::lock_guard lock(mutex_);
  for (auto* s : {&stats_.allocation_count, &stats_.segment_count, &stats_.active_count, &stats_.inactive_split_count,
                  &stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes,
                  &stats_.requested_bytes}) {
    s->peak = s->current;
  }
}

void Allocator::reset_accumulated() {
  std::lock_guard lock(mutex_);
  for (auto* s : {&stats_.allocation_count, &stats_.segment_count, &stats_.active_count, &stats_.inactive_split_count,
                  &stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes, &stats_.inactive_split_bytes,
                  &stats_.requested_bytes}) {
    s->allocated = s->freed = 0;
  }
  stats_.alloc_retries = stats_.ooms = 0;
}

bool Allocator::extent(const void* address, void** start, size_t* bytes) {
  Segment* segment = AddressSpace::get().find(address);
  if (!segment) return false;
  std::lock_guard lock(mutex_);
  for (Block* block = segment->first; block; block = block->next) {
    if (address >= block->address && address < block->address + block->bytes) {
      if (!block->active) return false;
      *start = block->address;
      *bytes = block->bytes;
      return true;
    }
  }
  return false;
}

}  // namespace neuron::runtime
