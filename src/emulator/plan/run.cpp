#include "emulator/plan/run.h"

#include <sys/mman.h>

#include <algorithm>

namespace neuron::emulator::plan {

void check_interrupt(Context& c, double nanoseconds) {
  if (c.worker != 0 || !c.launch->interrupt) return;
  c.nanoseconds_since_check += nanoseconds;
  if (c.nanoseconds_since_check < kInterruptNanoseconds) return;
  c.nanoseconds_since_check = 0;
  if (c.failed || !c.launch->interrupt(c.launch->interrupt_argument)) return;
  c.launch->stopped.store(true, std::memory_order_relaxed);
  c.fail(unavailable("the launch was interrupted"));
}

namespace {

// body(context of the worker, piece) for all pieces: the parallel region of a node.
template <class Body>
void in_parallel(Context& c, int threads, const std::vector<RegionTile>& own, int64_t pieces, Body body) {
  c.may_fork = false;
  const std::vector<Context*>& contexts = c.plan->fork(threads, c, own);
  c.launch->pool.parallel_for(
      pieces, [&](int64_t piece, int worker) { body(*contexts[static_cast<size_t>(worker)], piece); },
      [&] { check_interrupt(c, kInterruptNanoseconds); });
  c.may_fork = true;
  c.plan->join(c);
}

}  // namespace

// --- loops ---

void LoopNode::iterate(Context& c, int64_t from, int64_t to, uint32_t first, uint32_t last) {
  const double each = nanoseconds / trip;
  for (int64_t i = from; i < to && !c.stops(); ++i) {
    c.counters[level] = i;
    for (const NodePtr& node : body) node->run(c, row_independent ? first : 0, row_independent ? last : node->partitions);
    check_interrupt(c, each);
  }
  c.counters[level] = 0;
}

void LoopNode::run(Context& c, uint32_t first, uint32_t last) {
  const int threads = parallel ? threads_for(c, nanoseconds) : 1;
  if (threads < 2) return iterate(c, 0, trip, first, last);
  const int64_t inner_trip = joined ? joined->trip : 1;
  const int64_t iterations = trip * inner_trip;
  // Pieces of at least 5 us, and a few per thread for balance.
  const double each = nanoseconds / static_cast<double>(iterations);
  int64_t per_piece = std::max<int64_t>(1, static_cast<int64_t>(5000 / each));
  per_piece = std::min(per_piece, std::max<int64_t>(1, iterations / (threads * 4)));
  const int64_t pieces = (iterations + per_piece - 1) / per_piece;
  in_parallel(c, threads, own_tiles, pieces, [&](Context& own, int64_t piece) {
    const int64_t end = std::min(iterations, (piece + 1) * per_piece);
    if (!joined) return iterate(own, piece * per_piece, end, first, last);
    for (int64_t i = piece * per_piece; i < end && !own.stops(); ++i) {
      own.counters[level] = i / inner_trip;
      joined->iterate(own, i % inner_trip, i % inner_trip + 1, 0, 0);
    }
    own.counters[level] = 0;
  });
}

// --- groups ---

void GroupNode::strips(Context& c, uint32_t first, uint32_t last) {
  uint8_t* saved[32];
  for (size_t i = 0; i < contracted.size(); ++i) saved[i] = c.bases[contracted[i].object];
  for (uint32_t p = first; p < last && !c.stops(); p += rows) {
    const uint32_t end = std::min(last, p + rows);
    for (size_t i = 0; i < contracted.size(); ++i) {
      const Contracted& t = contracted[i];
      c.bases[t.object] = c.group_buffer + t.buffer_offset - static_cast<int64_t>(p + t.partition_start) * t.row_bytes;
    }
    for (const NodePtr& node : nodes) node->run(c, p, end);
  }
  for (size_t i = 0; i < contracted.size(); ++i) c.bases[contracted[i].object] = saved[i];
}

void GroupNode::run(Context& c, uint32_t first, uint32_t last) {
  const int threads = last - first > 1 ? threads_for(c, nanoseconds) : 1;
  if (threads < 2) {
    strips(c, first, last);
    return;
  }
  const uint32_t total = last - first;
  const uint32_t pieces =
      std::min<uint32_t>({total, static_cast<uint32_t>(threads) * 4, static_cast<uint32_t>(nanoseconds / 5000) + 1});
  in_parallel(c, threads, {}, pieces, [&](Context& own, int64_t piece) {
    strips(own, first + static_cast<uint32_t>(total * piece / pieces),
           first + static_cast<uint32_t>(total * (piece + 1) / pieces));
    check_interrupt(own, nanoseconds / pieces);
  });
}

// --- workers ---

Plan::Arena::~Arena() {
  for (const auto& [at, bytes] : maps) munmap(at, bytes);
}
uint8_t* Plan::Arena::allocate(size_t bytes) {
  bytes = (bytes + 127) / 64 * 64;
  if (bytes > left) {
    const size_t size = std::max<size_t>(size_t{1} << 16, (bytes + 4095) / 4096 * 4096);
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    if (size >= size_t{1} << 21) madvise(at, size, MADV_HUGEPAGE);
    maps.emplace_back(at, size);
    next = static_cast<uint8_t*>(at);
    left = size;
  }
  uint8_t* result = next;
  next += bytes;
  left -= bytes;
  return result;
}

std::unique_ptr<Context> Plan::new_context(Stream& s) {
  auto c = std::make_unique<Context>();
  c->plan = this;
  const size_t tensors = program_->tensors.size();
  c->bases.resize(tensors + s.layouts.size());
  c->blocks.resize(s.layouts.size());
  int64_t group_bytes = 0;
  for (const NodePtr& n : s.nodes) group_bytes = std::max(group_bytes, n->group_bytes);
  c->group_buffer = arena_.allocate(static_cast<size_t>(group_bytes) + 64);
  c->scratch = arena_.allocate(static_cast<size_t>(kScratchBuffers) * (kStrip + 64) * 16);
  return c;
}

void Plan::ready_workers(int threads) {
  Stream& s = *current_;
  if (static_cast<size_t>(threads) <= s.workers.size()) return;
  s.workers.resize(static_cast<size_t>(threads));
  for (int w = 1; w < threads; ++w) {
    std::unique_ptr<Context>& c = s.workers[static_cast<size_t>(w)];
    if (c) continue;
    c = new_context(s);
    for (size_t t = 0; t < s.layouts.size(); ++t)
      c->blocks[t] = arena_.allocate(static_cast<size_t>(s.layouts[t].total_bytes));
  }
}

const std::vector<Context*>& Plan::fork(int threads, Context& parent, const std::vector<RegionTile>& own) {
  ready_workers(threads);
  Stream& s = *current_;
  s.forked.assign(1, &parent);
  const size_t tensors = program_->tensors.size();
  for (int worker = 1; worker < threads; ++worker) {
    Context& c = *s.workers[static_cast<size_t>(worker)];
    c.bases = parent.bases;
    std::copy(std::begin(parent.counters), std::end(parent.counters), std::begin(c.counters));
    c.launch = parent.launch;
    c.worker = worker;
    c.may_fork = false;
    c.failed = false;
    for (const RegionTile& t : own) {
      uint8_t* block = c.blocks[t.object - tensors];
      if (t.copy_in)
        std::memcpy(block, parent.bases[t.object], static_cast<size_t>(s.layouts[t.object - tensors].total_bytes));
      c.bases[t.object] = block;
    }
    s.forked.push_back(&c);
  }
  return s.forked;
}

void Plan::join(Context& parent) {
  for (std::unique_ptr<Context>& c : current_->workers) {
    if (!c || !c->failed) continue;
    if (!parent.failed) parent.out_of_range = c->out_of_range;
    parent.fail(c->error);
    c->failed = false;
  }
}

// --- launches ---

bool Plan::overlaps(const Launch& launch) const {
  for (const auto& [a, b] : must_be_disjoint_) {
    const TensorView &x = launch.tensors[a], &y = launch.tensors[b];
    if (x.data < y.data + program_->tensors[b].bytes && y.data < x.data + program_->tensors[a].bytes) return true;
  }
  for (const auto& [a, b] : must_be_same_) {
    if (launch.tensors[a].data != launch.tensors[b].data) return true;
  }
  return false;
}

Status Plan::run(Launch& launch) {
  if (launch.tensors.size() != program_->tensors.size()) return internal_error("launch with a wrong number of tensors");
  if (!pessimistic_ && overlaps(launch)) {
    if (!for_overlaps_) {
      auto plan = std::make_unique<Plan>(program_);
      NEURON_RETURN_IF_ERROR(plan->prepare(true));
      for_overlaps_ = std::move(plan);
    }
    return for_overlaps_->run(launch);
  }
  return run_streams(launch);
}

// Streams that do not wait for each other may run one behind the other.
Status Plan::run_streams(Launch& launch) {
  for (Stream& s : streams_) {
    Context& c = *s.main;
    current_ = &s;
    c.launch = &launch;
    c.failed = false;
    c.may_fork = true;
    c.nanoseconds_since_check = 0;
    for (size_t t = 0; t < launch.tensors.size(); ++t) c.bases[t] = launch.tensors[t].data;
    for (const NodePtr& node : s.nodes) {
      node->run(c, 0, node->partitions);
      if (!c.failed) check_interrupt(c, node->nanoseconds);
      if (c.failed) {
        launch.out_of_range = c.out_of_range;
        return c.error;
      }
    }
  }
  return {};
}

}  // namespace neuron::emulator::plan
