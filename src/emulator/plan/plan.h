// The host form of a tile program: a tree of nodes whose operands are resolved to (object, offset, strides, loop steps).
//
// Each tile has a compact host block of its own (never the literal SBUF layout). Nodes run on a Context: one per worker,
// with the base address of every HBM tensor and tile, the loop counters, and scratch.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "emulator/executor.h"
#include "isa/program.h"

namespace neuron::emulator::plan {

inline constexpr int kStrip = 1024;  // elements that go through scratch at a time
inline constexpr int kScratchBuffers = 6;
inline constexpr uint32_t kNoObject = 0xffffffffu;

struct LoopStep {
  uint8_t level;
  int64_t bytes;
};

// An access whose every constant is known. Objects 0..tensors-1 are HBM tensors, then come the tiles.
struct Ref {
  uint32_t object = kNoObject;
  DType dtype = DType::f32;
  uint8_t rank = 0;
  uint8_t step_count = 0;
  uint8_t rotate_level = 0;
  uint32_t buffers = 1;
  uint32_t partitions = 1;
  int64_t offset = 0;
  int64_t partition_stride = 0;
  int64_t buffer_bytes = 0;
  std::array<isa::Dim, isa::kMaxFreeDims> dims{};
  std::array<LoopStep, isa::kMaxLoops> steps{};
  // Tiles: where in the tile the access begins (already part of `offset`).
  uint32_t partition_start = 0;
  int64_t row_offset = 0;

  int64_t step_at(int level) const {
    for (int s = 0; s < step_count; ++s) {
      if (steps[s].level == level) return steps[s].bytes;
    }
    return 0;
  }
  void set_step(int level, int64_t bytes);
  // All free dims as one run of `count` elements `stride` bytes apart, or false.
  bool single_run(uint64_t* count, int64_t* stride) const;
  // For accesses to one tile from inside `depth` common loops: a write of this one fills all that `other` sees in the same
  // iteration.
  bool covers(const Ref& other, int depth) const;
  bool present() const { return object != kNoObject; }
  uint64_t elements() const {
    uint64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= dims[d].count;
    return n;
  }
};

class Plan;
struct Space;

struct Context {
  Plan* plan = nullptr;
  std::vector<uint8_t*> bases;
  std::vector<uint8_t*> blocks;  // this worker's own blocks of all tiles
  int64_t counters[isa::kMaxLoops] = {};
  Launch* launch = nullptr;
  int worker = 0;
  bool may_fork = true;  // false inside a parallel region
  bool failed = false;
  Status error;
  OutOfRange out_of_range;
  double nanoseconds_since_check = 0;  // estimated work since the last interrupt check
  uint8_t* scratch = nullptr;          // kScratchBuffers strips of 16-byte elements, 64-byte aligned
  uint8_t* group_buffer = nullptr;
  std::vector<uint8_t> matmul_scratch;

  template <class T>
  T* buffer(int i) {
    return reinterpret_cast<T*>(scratch + static_cast<size_t>(i) * (kStrip + 64) * 16);
  }
  bool stops() const { return failed || launch->stopped.load(std::memory_order_relaxed); }
  void fail(Status status) {
    if (!failed) error = std::move(status);
    failed = true;
  }
};

inline uint8_t* address(const Ref& r, const Context& c) {
  int64_t offset = r.offset;
  for (int s = 0; s < r.step_count; ++s) offset += r.steps[s].bytes * c.counters[r.steps[s].level];
  if (r.buffers > 1)
    offset += static_cast<int64_t>(static_cast<uint64_t>(c.counters[r.rotate_level]) % r.buffers) * r.buffer_bytes;
  return c.bases[r.object] + offset;
}

// What a node is made of: an instruction on partitions [first, last), a loop, a group.
class Node {
 public:
  virtual ~Node() = default;
  // `first`, `last` matter to row-independent instructions only; others run whole.
  virtual void run(Context& c, uint32_t first, uint32_t last) = 0;

  // What the next node of the body reads and writes in HBM: a node that computes for long brings it near meanwhile.
  virtual void fetch_for_next(const std::vector<Ref>&) {}

  uint32_t partitions = 1;
  bool row_independent = false;  // partition p of the result depends on partition p of the sources alone
  double nanoseconds = 0;        // rough cost of one run
  int64_t group_bytes = 0;       // of Context::group_buffer that it or a node inside needs
};
using NodePtr = std::unique_ptr<Node>;

// One instruction while the plan is built: operands may be redirected, the whole may be dropped.
struct Draft {
  const isa::Instruction* instruction = nullptr;
  bool removed = false;
  Ref dst, dst2, src0, src1, src2, scalar0, scalar1, indices;
  std::vector<int> loops;  // ids of the enclosing loops, outermost first
  // nc_matmul: a sequential loop that was folded into the instruction, and how often it ran.
  int chain_level = -1;
  uint32_t chain_segments = 1;
  // A DMA into a tile of panels: the common dims of both sides (null for dma_transpose).
  std::shared_ptr<Space> pack_space;
  bool pack_zero_tail = false;

  std::array<const Ref*, 8> operands() const { return {&dst, &dst2, &src0, &src1, &src2, &scalar0, &scalar1, &indices}; }
  std::array<Ref*, 8> operands() { return {&dst, &dst2, &src0, &src1, &src2, &scalar0, &scalar1, &indices}; }
  std::array<Ref*, 6> sources() { return {&src0, &src1, &src2, &scalar0, &scalar1, &indices}; }
  std::array<const Ref*, 6> sources() const { return {&src0, &src1, &src2, &scalar0, &scalar1, &indices}; }
  bool writes(uint32_t object) const {
    return (dst.present() && dst.object == object) || (dst2.present() && dst2.object == object);
  }
  bool reads(uint32_t object) const {
    if (instruction->accumulate && dst.object == object) return true;
    for (const Ref* r : sources()) {
      if (r->present() && r->object == object) return true;
    }
    return false;
  }
  // Whether it writes all of its dst, a part of that tile, without regard to what earlier iterations of the `depth`
  // outermost loops left there.
  bool fills(uint32_t object, int depth) const;
};

// How many loops two drafts have around both.
int common_loops(const Draft& a, const Draft& b);

// How a tile's bytes are laid out in its host block.
struct TileLayout {
  int64_t row_bytes = 0;     // from one partition to the next
  int64_t buffer_bytes = 0;  // from one rotating buffer to the next
  int64_t total_bytes = 0;
  uint32_t buffers = 1;
  // Packed for matmul: the logical row is cut into segments of `columns` elements, each held as f32 panels of
  // Kernels::panel_width columns, [segment][panel][partition][column].
  bool panels = false;
  uint32_t columns = 0;
  DType dtype = DType::f32;   // of the logical tile
  int64_t panel_floats = 0;   // one panel: panel_width * partitions (rounded up to 32)
  int64_t segment_bytes = 0;  // all panels of one segment
  bool unit = false;          // bf16 panels for the matrix unit (UnitBlock) instead; panel_floats counts bf16 elements then
};

struct LoopInfo {
  int level = 0;
  uint32_t trip = 1;
  bool affine = false;
  size_t begin = 0, end = 0;  // drafts [begin, end) are inside
};

struct Build {
  const isa::Program* program = nullptr;
  std::vector<TileLayout> layouts;     // per tile
  std::vector<uint32_t> memory_class;  // per tensor: equal for tensors that may be the same memory
  bool pessimistic = false;            // tensors may overlap in any way: nothing moves across a store
  std::vector<LoopInfo> loops;
  std::vector<Draft> drafts;  // program order
  bool same_memory(uint32_t a, uint32_t b) const {
    if (a == b) return true;
    const size_t tensors = program->tensors.size();
    return a < tensors && b < tensors && memory_class[a] == memory_class[b];
  }
  // Whether access x of draft a and access y of draft b may meet in any iterations. One scratch tensor holds all
  // temporaries: within a tensor it is the bytes that count.
  bool may_meet(const Draft& a, const Ref& x, const Draft& b, const Ref& y) const;
  uint32_t tile_object(uint32_t tile) const { return static_cast<uint32_t>(program->tensors.size()) + tile; }
  bool is_tile(const Ref& r) const { return r.present() && r.object >= program->tensors.size(); }
};

// Passes over the drafts, in this order.
void drop_rotation(Build& build);   // tiles that are written anew in each iteration need one buffer only
void forward_loads(Build& build);   // tiles that only repeat HBM or another tile become names for it
void forward_stores(Build& build);  // tiles that are only copied out become names for their destination
void choose_panels(Build& build);   // moving tiles of matmuls are packed by their DMA

// Each returns null when it has no form for the instruction; make_general_node takes everything.
NodePtr make_element_node(const Build& build, const Draft& draft);
NodePtr make_copy_node(const Build& build, const Draft& draft);
NodePtr make_reduce_node(const Build& build, const Draft& draft);
NodePtr make_matmul_node(const Build& build, const Draft& draft);
NodePtr make_unit_matmul_node(const Build& build, const Draft& draft);
NodePtr make_pack_node(const Build& build, const Draft& draft);
NodePtr make_routine_node(const Build& build, const Draft& draft);
NodePtr make_general_node(const Build& build, const Draft& draft);

}  // namespace neuron::emulator::plan
