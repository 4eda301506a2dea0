// Running a plan: loops, row groups, workers.
#pragma once

#include "emulator/plan/plan.h"

namespace neuron::emulator::plan {

inline constexpr double kForkNanoseconds = 20000;        // less work than this stays on the calling thread
inline constexpr double kInterruptNanoseconds = 200000;  // estimated work between interrupt checks

// Threads for work of that length: one inside a parallel region, or when it is too short to share.
inline int threads_for(const Context& c, double nanoseconds) {
  return c.may_fork && nanoseconds > kForkNanoseconds ? c.launch->pool.threads() : 1;
}

// Where a tile's host block comes from while a parallel region runs.
struct RegionTile {
  uint32_t object = 0;
  bool copy_in = false;  // partly written outside the region: workers start from a copy
};

// A row-independent one runs all iterations for the given partitions; its body then is too.
class LoopNode final : public Node {
 public:
  int level = 0;
  uint32_t trip = 1;
  bool parallel = false;              // iterations are independent and this is the level to share out
  LoopNode* joined = nullptr;         // the body, a loop that is shared out together with this one
  std::vector<RegionTile> own_tiles;  // written inside: every worker has its own
  std::vector<NodePtr> body;

  void run(Context& c, uint32_t first, uint32_t last) override;

 private:
  void iterate(Context& c, int64_t from, int64_t to, uint32_t first, uint32_t last);
};

// Consecutive row-independent instructions over the same partitions, executed for a few partitions at a time. Tiles that
// only this group sees live in a buffer of just those rows.
class GroupNode final : public Node {
 public:
  struct Contracted {
    uint32_t object = 0;
    int64_t row_bytes = 0;
    int64_t buffer_offset = 0;
    uint32_t partition_start = 0;
  };
  std::vector<NodePtr> nodes;
  std::vector<Contracted> contracted;
  int64_t buffer_bytes = 0;
  uint32_t rows = 1;  // partitions per strip

  void run(Context& c, uint32_t first, uint32_t last) override;

 private:
  void strips(Context& c, uint32_t first, uint32_t last);
};

// Calls the launch's interrupt check when enough work has passed on the calling thread; sets c.failed when it says stop, and
// all workers stop.
void check_interrupt(Context& c, double nanoseconds);

class Plan final : public Executor {
 public:
  explicit Plan(std::shared_ptr<const isa::Program> program) : program_(std::move(program)) {}
  Status prepare(bool pessimistic);
  Status run(Launch& launch) override;

  // One context per pool worker for a parallel region of `parent`, which is worker 0's itself. The others begin as copies,
  // with tiles of their own for `own`. Before the region: in it, worker 0 already changes what they copy.
  const std::vector<Context*>& fork(int threads, Context& parent, const std::vector<RegionTile>& own);
  void join(Context& parent);

 private:
  struct Stream {
    std::vector<NodePtr> nodes;
    std::vector<TileLayout> layouts;
    std::unique_ptr<Context> main;
    std::vector<std::unique_ptr<Context>> workers;  // 0 is empty; most programs never need them
    std::vector<Context*> forked;                   // of the parallel region that runs
  };
  struct Arena {
    ~Arena();
    uint8_t* allocate(size_t bytes);
    std::vector<std::pair<void*, size_t>> maps;
    uint8_t* next = nullptr;
    size_t left = 0;
  };

  Status prepare_stream(size_t index, bool pessimistic);
  void ready_workers(int threads);
  std::unique_ptr<Context> new_context(Stream& s);
  bool overlaps(const Launch& launch) const;
  Status run_streams(Launch& launch);

  std::shared_ptr<const isa::Program> program_;
  std::vector<uint32_t> memory_class_;
  std::vector<std::pair<uint32_t, uint32_t>> must_be_disjoint_, must_be_same_;  // tensor indices
  std::vector<Stream> streams_;
  Stream* current_ = nullptr;
  Arena arena_;
  bool pessimistic_ = false;
  std::unique_ptr<Executor> for_overlaps_;
};

}  // namespace neuron::emulator::plan
