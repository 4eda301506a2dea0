// From a Program to a Plan: drafts, passes, nodes, groups, parallel levels.
#include <algorithm>
#include <map>
#include <set>

#include "emulator/interpreter/supported.h"
#include "emulator/kernels/kernel_table.h"
#include "emulator/plan/run.h"
#include "emulator/plan/space.h"

namespace neuron::emulator::plan {
namespace {

using isa::Opcode;
using isa::ScalarOperand;

// 64-byte rows unless short; never a multiple of 1 KiB, where all rows would share a few cache sets.
int64_t row_bytes(uint32_t bytes) {
  if (bytes < 1024) return (bytes + 3) / 4 * 4;
  const int64_t rounded = (int64_t{bytes} + 63) / 64 * 64;
  return rounded % 1024 == 0 ? rounded + 64 : rounded;
}

std::vector<TileLayout> layouts_of(const isa::Program& program) {
  std::vector<TileLayout> layouts;
  for (const isa::Tile& tile : program.tiles) {
    TileLayout l;
    l.row_bytes = row_bytes(tile.bytes_per_partition);
    if (tile.bytes_per_partition < 4) l.row_bytes = tile.bytes_per_partition;  // [P, 1] of a small type stays contiguous
    l.buffer_bytes = (l.row_bytes * tile.partitions + 63) / 64 * 64;
    l.buffers = tile.buffers;
    l.total_bytes = l.buffer_bytes * l.buffers;
    layouts.push_back(l);
  }
  return layouts;
}

Ref ref_of(const Build& build, const isa::Access& a) {
  Ref r;
  if (!a.present()) return r;
  r.dtype = a.dtype;
  r.rank = a.rank;
  r.partitions = a.partitions;
  r.dims = a.dims;
  r.offset = a.offset;
  for (int l = 0; l < isa::kMaxLoops; ++l) r.set_step(l, a.loop_step[l]);
  if (a.space == isa::Space::hbm) {
    r.object = a.object;
    r.partition_stride = a.partition_stride;
    return r;
  }
  const TileLayout& layout = build.layouts[a.object];
  const isa::Tile& tile = build.program->tiles[a.object];
  r.object = build.tile_object(a.object);
  r.partition_stride = layout.row_bytes;
  r.partition_start = a.partition_start;
  r.row_offset = a.offset;
  r.offset = a.offset + static_cast<int64_t>(a.partition_start) * layout.row_bytes;
  r.buffers = tile.buffers;
  r.rotate_level = static_cast<uint8_t>(tile.rotate_level);
  r.buffer_bytes = layout.buffer_bytes;
  return r;
}

Draft draft_of(const Build& build, const isa::Instruction& in, const std::vector<int>& loops) {
  Draft d;
  d.instruction = &in;
  d.loops = loops;
  d.dst = ref_of(build, in.dst);
  d.dst2 = ref_of(build, in.dst2);
  d.src0 = ref_of(build, in.src0);
  d.src1 = ref_of(build, in.src1);
  d.src2 = ref_of(build, in.src2);
  d.indices = ref_of(build, in.index);
  if (in.scalar0.kind == ScalarOperand::Kind::access) d.scalar0 = ref_of(build, in.scalar0.access);
  if (in.scalar1.kind == ScalarOperand::Kind::access) d.scalar1 = ref_of(build, in.scalar1.access);
  return d;
}

void collect_drafts(Build& build, const isa::Stream& stream) {
  std::vector<int> open;
  for (const isa::Step& step : stream.steps) {
    if (step.kind == isa::Step::Kind::instruction) {
      build.drafts.push_back(draft_of(build, build.program->instructions[step.value], open));
    } else if (step.kind == isa::Step::Kind::loop) {
      LoopInfo l;
      l.level = static_cast<int>(open.size());
      l.trip = step.value;
      l.affine = step.loop_kind == isa::LoopKind::affine;
      l.begin = build.drafts.size();
      open.push_back(static_cast<int>(build.loops.size()));
      build.loops.push_back(l);
    } else {
      build.loops[open.back()].end = build.drafts.size();
      open.pop_back();
    }
  }
}

// --- nodes ---

class TreeBuilder {
 public:
  explicit TreeBuilder(Build& build) : build_(build), users_(build.program->tiles.size()) {
    for (size_t i = 0; i < build.drafts.size(); ++i) {
      if (build.drafts[i].removed) continue;
      for (const Ref* r : build.drafts[i].operands()) {
        if (!build.is_tile(*r)) continue;
        std::vector<size_t>& users = users_[r->object - build.program->tensors.size()];
        if (users.empty() || users.back() != i) users.push_back(i);
      }
    }
  }

  // Nodes of the drafts [begin, end) inside `depth` loops.
  std::vector<NodePtr> body(size_t begin, size_t end, size_t depth) {
    std::vector<Item> items = items_of(begin, end, depth);
    return grouped(items);
  }

 private:
  struct Item {
    NodePtr node;
    std::vector<const Draft*> drafts;  // what it is made of; empty for loops that form no group
  };

  static std::vector<const Draft*> drafts_of(const std::vector<Item>& items) {
    std::vector<const Draft*> drafts;
    for (const Item& item : items) drafts.insert(drafts.end(), item.drafts.begin(), item.drafts.end());
    return drafts;
  }

  std::vector<Item> items_of(size_t begin, size_t end, size_t depth) {
    std::vector<Item> items;
    for (size_t i = begin; i < end;) {
      const Draft& d = build_.drafts[i];
      if (d.loops.size() == depth) {
        if (!d.removed) items.push_back({instruction(d), {&d}});
        ++i;
        continue;
      }
      const int loop = d.loops[depth];
      const size_t loop_end = build_.loops[loop].end;
      add_loop(items, loop, i, loop_end, depth);
      i = loop_end;
    }
    return items;
  }

  NodePtr instruction(const Draft& d) {
    if (NodePtr n = make_pack_node(build_, d)) return n;
    if (NodePtr n = make_matmul_node(build_, d)) return n;
    if (NodePtr n = make_element_node(build_, d)) return n;
    if (NodePtr n = make_copy_node(build_, d)) return n;
    if (NodePtr n = make_reduce_node(build_, d)) return n;
    if (NodePtr n = make_routine_node(build_, d)) return n;
    return make_general_node(build_, d);
  }

  // A sequential loop whose only instruction accumulates a matmul over it becomes a chain.
  Draft* chain_of(const LoopInfo& loop, size_t begin, size_t end, size_t depth) {
    Draft* only = nullptr;
    for (size_t i = begin; i < end; ++i) {
      Draft& d = build_.drafts[i];
      if (d.removed) continue;
      if (only || d.loops.size() != depth + 1) return nullptr;
      only = &d;
    }
    if (!only || only->instruction->opcode != Opcode::nc_matmul || only->instruction->compute != DType::f32) return nullptr;
    if (!(only->instruction->accumulate_levels >> loop.level & 1)) return nullptr;
    const auto fixed = [&](const Ref& r) { return r.buffers == 1 || r.rotate_level != loop.level; };
    if (only->dst.step_at(loop.level) != 0 || !fixed(only->dst) || !fixed(only->src0) || !fixed(only->src1)) return nullptr;
    if (only->dst.dtype != DType::f32 || only->chain_level >= 0) return nullptr;
    return only;
  }

  void add_loop(std::vector<Item>& items, int id, size_t begin, size_t end, size_t depth) {
    const LoopInfo& loop = build_.loops[id];
    bool live = false;
    for (size_t i = begin; i < end; ++i) live = live || !build_.drafts[i].removed;
    if (!live) return;
    if (Draft* d = chain_of(loop, begin, end, depth)) {
      Draft folded = *d;
      folded.chain_level = loop.level;
      folded.chain_segments = loop.trip;
      if (NodePtr n = make_matmul_node(build_, folded)) {
        items.push_back({std::move(n), {d}});
        return;
      }
    }
    auto node = std::make_unique<LoopNode>();
    node->level = loop.level;
    node->trip = loop.trip;
    std::vector<Item> inner = items_of(begin, end, depth + 1);
    std::vector<const Draft*> drafts;
    if (!loop.affine && rows_apart(inner)) {
      drafts = drafts_of(inner);
      node->row_independent = true;
      node->partitions = inner.front().node->partitions;
      for (Item& item : inner) node->body.push_back(std::move(item.node));
    } else {
      node->body = grouped(inner);
    }
    for (const NodePtr& n : node->body) {
      node->nanoseconds += n->nanoseconds + 5;
      node->group_bytes = std::max(node->group_bytes, n->group_bytes);
    }
    node->nanoseconds *= loop.trip;
    node->parallel = loop.affine && !build_.pessimistic && own_tiles(begin, end, loop.level, &node->own_tiles);
    items.push_back({std::move(node), std::move(drafts)});
  }

  // Whether all iterations may run for a few partitions before the next ones begin: what crosses iterations stays in its
  // row. Rows of HBM move from iteration to iteration, so writes to it do not qualify.
  bool rows_apart(const std::vector<Item>& items) const {
    if (items.empty()) return false;
    for (const Item& item : items) {
      if (!item.node->row_independent || item.node->partitions != items.front().node->partitions) return false;
    }
    const std::vector<const Draft*> drafts = drafts_of(items);
    for (const Draft* d : drafts) {
      for (const Ref* r : {&d->dst, &d->dst2}) {
        if (r->present() && !build_.is_tile(*r)) return false;
      }
    }
    return std::all_of(drafts.begin(), drafts.end(), [&](const Draft* d) { return fits(drafts, {d}); });
  }

  // Tiles written in [begin, end), a loop at `depth`; false when one of them is read behind the loop, or by its next run.
  bool own_tiles(size_t begin, size_t end, int depth, std::vector<RegionTile>* out) const {
    std::set<uint32_t> written;
    for (size_t i = begin; i < end; ++i) {
      const Draft& d = build_.drafts[i];
      if (d.removed) continue;
      for (const Ref* r : {&d.dst, &d.dst2}) {
        if (build_.is_tile(*r)) written.insert(r->object);
      }
    }
    for (uint32_t object : written) {
      if (comes_back(begin, end, depth, object)) return false;
      bool outside = false;
      for (const size_t i : users_of(object)) {
        if (i >= begin && i < end) continue;
        const Draft& d = build_.drafts[i];
        if (d.reads(object) && i >= end) return false;
        // An outer loop may come back to a reader in front of this one.
        if (d.reads(object) && !d.loops.empty() && !build_.drafts[begin].loops.empty() &&
            d.loops[0] == build_.drafts[begin].loops[0])
          return false;
        outside = outside || d.writes(object);
      }
      out->push_back({object, outside});
    }
    return true;
  }

  // Whether an iteration of the loop at `depth` may read of the tile what an earlier run of the loop left there.
  bool comes_back(size_t begin, size_t end, int depth, uint32_t object) const {
    const std::vector<int>& loops = build_.drafts[begin].loops;
    const bool again = std::any_of(loops.begin(), loops.begin() + depth,
                                   [&](int l) { return !build_.loops[l].affine && build_.loops[l].trip > 1; });
    if (!again) return false;
    std::vector<const Draft*> writers;  // so far
    size_t last = begin;
    const std::vector<size_t>& users = users_of(object);
    for (const size_t i : users) {
      if (i >= begin && i < end && build_.drafts[i].writes(object)) last = i;
    }
    for (const size_t i : users) {
      const Draft& d = build_.drafts[i];
      if (i < begin || i >= end) continue;
      const auto written = [&](const Ref& r) {
        const auto same_place = [&](const Draft* w) {
          for (int level = 0; level <= depth; ++level) {
            if ((w->dst.object == object ? w->dst : w->dst2).step_at(level) != r.step_at(level)) return false;
          }
          return true;
        };
        if (i > last) return std::all_of(writers.begin(), writers.end(), same_place);
        return std::any_of(writers.begin(), writers.end(),
                           [&](const Draft* w) { return w->fills(object, depth + 1) && w->dst.covers(r, depth + 1); });
      };
      const isa::Instruction& in = *d.instruction;
      if (d.dst.object == object && (in.accumulate_levels & ((2u << depth) - 1))) return true;
      if (d.dst.object == object && in.accumulate && !written(d.dst)) return true;
      for (const Ref* r : d.sources()) {
        if (r->present() && r->object == object && !written(*r)) return true;
      }
      if (d.writes(object)) writers.push_back(&d);
    }
    return false;
  }

  // --- groups of row-independent instructions ---

  // Whether `next` may run strip by strip behind the drafts of the group.
  bool fits(const std::vector<const Draft*>& group, const std::vector<const Draft*>& next) const {
    for (const Draft* before : group) {
      for (const Draft* d : next) {
        if (!independent(*before, *d) || !independent(*d, *before)) return false;
      }
    }
    return true;
  }
  // What `writer` writes is seen by `other` only in the same row, or not at all.
  bool independent(const Draft& writer, const Draft& other) const {
    for (const Ref* w : {&writer.dst, &writer.dst2}) {
      if (!w->present()) continue;
      for (const Ref* r : other.operands()) {
        if (!build_.may_meet(writer, *w, other, *r)) continue;
        if (!same_rows(*w, *r)) return false;
      }
    }
    return true;
  }
  bool same_rows(const Ref& a, const Ref& b) const {
    if (a.partitions != b.partitions || a.partition_stride != b.partition_stride) return false;
    if (build_.is_tile(a)) return a.object == b.object && a.partition_start == b.partition_start;
    if (build_.pessimistic) return false;
    // HBM: equal start, equal steps, and rows that do not reach into each other.
    if (a.offset != b.offset || a.step_count != b.step_count) return false;
    for (int s = 0; s < a.step_count; ++s) {
      if (a.steps[s].bytes != b.step_at(a.steps[s].level)) return false;
    }
    return row_extent(a) <= std::abs(a.partition_stride) && row_extent(b) <= std::abs(b.partition_stride);
  }
  static int64_t row_extent(const Ref& r) {
    int64_t extent = static_cast<int64_t>(size_of(r.dtype));
    for (int d = 0; d < r.rank; ++d) {
      if (r.dims[d].stride < 0) return INT64_MAX;
      extent += r.dims[d].stride * (r.dims[d].count - 1);
    }
    return extent;
  }

  std::vector<NodePtr> grouped(std::vector<Item>& items) {
    std::vector<NodePtr> out;
    for (size_t i = 0; i < items.size();) {
      Item& first = items[i];
      if (!first.node->row_independent) {
        out.push_back(std::move(first.node));
        ++i;
        continue;
      }
      std::vector<const Draft*> members = first.drafts;
      size_t end = i + 1;
      while (end < items.size() && items[end].node->row_independent &&
             items[end].node->partitions == first.node->partitions && fits(members, items[end].drafts)) {
        members.insert(members.end(), items[end].drafts.begin(), items[end].drafts.end());
        ++end;
      }
      if (!out.empty()) out.back()->fetch_for_next(in_memory(members));
      out.push_back(make_group(items, i, end, members));
      i = end;
    }
    return out;
  }

  std::vector<Ref> in_memory(const std::vector<const Draft*>& drafts) const {
    std::vector<Ref> refs;
    for (const Draft* d : drafts) {
      for (const Ref* r : d->operands()) {
        if (r->present() && !build_.is_tile(*r)) refs.push_back(*r);
      }
    }
    return refs;
  }

  NodePtr make_group(std::vector<Item>& items, size_t begin, size_t end, const std::vector<const Draft*>& members) {
    auto group = std::make_unique<GroupNode>();
    group->partitions = items[begin].node->partitions;
    double bytes_per_row = 0;
    for (size_t i = begin; i < end; ++i) group->nanoseconds += items[i].node->nanoseconds;
    for (const Draft* d : members) {
      for (const Ref* r : {&d->dst, &d->src0, &d->src1, &d->src2}) {
        if (r->present()) bytes_per_row = std::max(bytes_per_row, static_cast<double>(r->elements() * size_of(r->dtype)));
      }
    }
    const double target = 8192;
    group->rows =
        members.size() == 1
            ? group->partitions
            : static_cast<uint32_t>(std::clamp(target / bytes_per_row, 1.0, static_cast<double>(group->partitions)));
    if (members.size() > 1) contract(*group, members);
    for (size_t i = begin; i < end; ++i) group->nodes.push_back(std::move(items[i].node));
    group->group_bytes = group->buffer_bytes;
    return group;
  }

  // Whether nobody else touches the tile of `ref`, each row is filled before it is read (or it would carry over from an
  // earlier strip), and a partition of the tile is always the same partition of the group.
  bool stays_inside(const Ref& ref, const std::vector<const Draft*>& members, int depth) const {
    const Draft* filler = nullptr;
    for (const size_t i : users_of(ref.object)) {
      const Draft& d = build_.drafts[i];
      if (!std::binary_search(members.begin(), members.end(), &d)) return false;
      if (!filler && !d.fills(ref.object, depth)) return false;
      if (!filler) filler = &d;
      for (const Ref* r : d.operands()) {
        if (!r->present() || r->object != ref.object) continue;
        if (r->buffers > 1 || r->partitions != members.front()->dst.partitions ||
            r->partition_start != ref.partition_start || !filler->dst.covers(*r, depth))
          return false;
      }
    }
    return true;
  }

  // Tiles that only these drafts touch, each time in the same rows, shrink to one strip.
  void contract(GroupNode& group, const std::vector<const Draft*>& members) {
    std::map<uint32_t, const Ref*> candidates;
    int depth = isa::kMaxLoops;  // loops around all members
    for (const Draft* d : members) {
      depth = std::min(depth, common_loops(*members.front(), *d));
      for (const Ref* r : {&d->dst, &d->dst2}) {
        if (build_.is_tile(*r)) candidates.emplace(r->object, r);
      }
    }
    for (const auto& [object, ref] : candidates) {
      if (group.contracted.size() == 32 || !stays_inside(*ref, members, depth)) continue;
      GroupNode::Contracted t;
      t.object = object;
      t.row_bytes = ref->partition_stride;
      t.partition_start = ref->partition_start;
      t.buffer_offset = group.buffer_bytes;
      group.buffer_bytes += (t.row_bytes * group.rows + 63 + 64) / 64 * 64;
      group.contracted.push_back(t);
    }
  }

  const std::vector<size_t>& users_of(uint32_t tile) const { return users_[tile - build_.program->tensors.size()]; }

  Build& build_;
  std::vector<std::vector<size_t>> users_;  // of each tile: drafts that read or write it, in program order
};

// One parallel level per loop nest: the outermost that keeps all workers busy, else the best below.
void choose_levels(std::vector<NodePtr>& nodes, int threads) {
  for (NodePtr& n : nodes) {
    auto* loop = dynamic_cast<LoopNode*>(n.get());
    if (!loop) continue;
    const auto efficiency = [threads](const LoopNode* l) {
      if (!l->parallel) return 0.0;
      const double rounds = (l->trip + threads - 1) / threads;
      return l->trip / (rounds * threads);
    };
    // The busiest inner loop decides whether going deeper is better.
    const LoopNode* inner = nullptr;
    for (const NodePtr& b : loop->body) {
      const auto* l = dynamic_cast<const LoopNode*>(b.get());
      if (l && l->nanoseconds > 0.7 * loop->nanoseconds / loop->trip) inner = l;
    }
    const double here = efficiency(loop);
    if (here >= 0.8 || (inner == nullptr ? here > 0.5 : here >= efficiency(inner) && here > 0.5)) {
      auto* only = loop->body.size() == 1 ? dynamic_cast<LoopNode*>(loop->body.front().get()) : nullptr;
      if (only && only->parallel) loop->joined = only;
      continue;
    }
    loop->parallel = false;
    choose_levels(loop->body, threads);
  }
}

}  // namespace

Status Plan::prepare(bool pessimistic) {
  pessimistic_ = pessimistic;
  const isa::Program& program = *program_;
  const size_t tensors = program.tensors.size();
  memory_class_.resize(tensors);
  std::vector<bool> written(tensors, false);
  for (const isa::Instruction& in : program.instructions) {
    if (in.dst.space == isa::Space::hbm) written[in.dst.object] = true;
    if (in.dst2.space == isa::Space::hbm) written[in.dst2.object] = true;
  }
  for (size_t t = 0; t < tensors; ++t) memory_class_[t] = pessimistic ? 0 : static_cast<uint32_t>(t);
  for (size_t t = 0; t < tensors && !pessimistic; ++t) {
    if (program.tensors[t].alias_of < 0) continue;
    memory_class_[t] = memory_class_[static_cast<size_t>(program.tensors[t].alias_of)];
    must_be_same_.emplace_back(static_cast<uint32_t>(t), static_cast<uint32_t>(program.tensors[t].alias_of));
  }
  for (uint32_t a = 0; a < tensors && !pessimistic; ++a) {
    if (!written[a]) continue;
    for (uint32_t b = 0; b < tensors; ++b) {
      if (memory_class_[a] != memory_class_[b] && !(written[b] && b < a)) must_be_disjoint_.emplace_back(a, b);
    }
  }
  streams_.resize(program.streams.size());
  for (size_t i = 0; i < streams_.size(); ++i) NEURON_RETURN_IF_ERROR(prepare_stream(i, pessimistic));
  return {};
}

Status Plan::prepare_stream(size_t index, bool pessimistic) {
  Build build;
  build.program = program_.get();
  build.layouts = layouts_of(*program_);
  build.memory_class = memory_class_;
  build.pessimistic = pessimistic;
  collect_drafts(build, program_->streams[index]);
  drop_rotation(build);
  forward_loads(build);
  forward_stores(build);
  choose_panels(build);
  TreeBuilder tree(build);
  Stream& s = streams_[index];
  s.nodes = tree.body(0, build.drafts.size(), 0);
  choose_levels(s.nodes, 2);
  s.layouts = build.layouts;
  s.main = new_context(s);
  for (size_t t = 0; t < s.layouts.size(); ++t) {
    s.main->blocks[t] = arena_.allocate(static_cast<size_t>(s.layouts[t].total_bytes));
    if (!s.main->blocks[t]) return out_of_memory("no host memory for on-chip tiles");
    s.main->bases[program_->tensors.size() + t] = s.main->blocks[t];
  }
  return {};
}

}  // namespace neuron::emulator::plan

namespace neuron::emulator {

Result<std::unique_ptr<Executor>> make_plan(std::shared_ptr<const isa::Program> program) {
  NEURON_RETURN_IF_ERROR(check_supported(*program));
  // Streams that wait for each other need the interleaving that only the interpreter has.
  if (program->streams.size() > 1 && program->semaphores > 0) return make_interpreter(std::move(program));
  auto plan = std::make_unique<plan::Plan>(std::move(program));
  NEURON_RETURN_IF_ERROR(plan->prepare(false));
  return std::unique_ptr<Executor>(std::move(plan));
}

}  // namespace neuron::emulator
