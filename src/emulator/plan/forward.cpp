// Elision of copies: a tile that only repeats other memory becomes a name for that memory.
//
// Loads: the tile has one writer, a copy or transposition of equal dtype, and every reader comes behind it in the same loop
// body (or deeper). The source must not be written between the copy and the last reader. Stores: the tile is written by
// compute and copied out once; its writers then write the destination, if nobody looks at that memory in between.
#include <algorithm>

#include "emulator/plan/plan.h"

namespace neuron::emulator::plan {

using isa::Opcode;

void Ref::set_step(int level, int64_t bytes) {
  for (int s = 0; s < step_count; ++s) {
    if (steps[s].level != level) continue;
    steps[s].bytes = bytes;
    if (bytes == 0) steps[s] = steps[--step_count];
    return;
  }
  if (bytes != 0) steps[step_count++] = {static_cast<uint8_t>(level), bytes};
}

namespace {

struct Extent {
  int64_t low, high;  // bytes [low, high) of the object
};
Extent extent_of(const Build& build, const Draft& d, const Ref& r) {
  Extent e{r.offset, r.offset};
  const auto add = [&e](int64_t stride, uint32_t count) { (stride > 0 ? e.high : e.low) += stride * (int64_t{count} - 1); };
  add(r.partition_stride, r.partitions);
  for (int i = 0; i < r.rank; ++i) add(r.dims[i].stride, r.dims[i].count);
  for (int s = 0; s < r.step_count; ++s) {
    const size_t level = r.steps[s].level;
    if (level < d.loops.size()) add(r.steps[s].bytes, build.loops[static_cast<size_t>(d.loops[level])].trip);
  }
  e.high += static_cast<int64_t>(size_of(r.dtype));
  return e;
}

}  // namespace

bool Build::may_meet(const Draft& a, const Ref& x, const Draft& b, const Ref& y) const {
  if (!x.present() || !y.present() || !same_memory(x.object, y.object)) return false;
  // Tensors of one class begin at one address, unless this plan is for launches where they do not.
  if (pessimistic && x.object != y.object) return true;
  // Indices say where an indirect access goes.
  if (x.buffers > 1 || y.buffers > 1 || a.indices.present() || b.indices.present()) return true;
  const Extent e = extent_of(*this, a, x), f = extent_of(*this, b, y);
  return e.low < f.high && f.low < e.high;
}

namespace {

// The tile as seen through the copy: element (p, byte f) of the tile's covered region is at
// base + p*partition_stride + (f / size)*element_stride.
struct View {
  Ref base;  // the source's object, offset, steps, rotation
  int64_t partition_stride = 0;
  int64_t element_stride = 0;
  int64_t size = 0;        // of one element
  int64_t bytes = 0;       // covered part of each row, from row_offset
  int64_t row_offset = 0;  // of the covered part
  uint32_t partition_start = 0, partitions = 0;
  DType dtype = DType::f32;

  bool row_dense() const { return element_stride == size; }
};

// What writing `dst` from `src` makes of dst's tile; false when it is not an affine repetition.
bool view_of(const Draft& copy, View* v) {
  const Ref &d = copy.dst, &s = copy.src0;
  if (d.dtype != s.dtype || copy.indices.present()) return false;
  uint64_t d_count = 0, s_count = 0;
  int64_t d_stride = 0, s_stride = 0;
  if (!d.single_run(&d_count, &d_stride) || !s.single_run(&s_count, &s_stride)) return false;
  v->size = static_cast<int64_t>(size_of(d.dtype));
  if (d_count > 1 && d_stride != v->size) return false;
  switch (copy.instruction->opcode) {
    case Opcode::dma_copy:
    case Opcode::tensor_copy:
      if (d_count != s_count || d.partitions != s.partitions) return false;
      v->partition_stride = s.partition_stride;
      v->element_stride = s_count > 1 ? s_stride : v->size;
      break;
    case Opcode::dma_transpose:
    case Opcode::nc_transpose:
      if (d_count != s.partitions || s_count != d.partitions) return false;
      v->partition_stride = s_count > 1 ? s_stride : v->size;
      v->element_stride = d_count > 1 ? s.partition_stride : v->size;
      break;
    default:
      return false;
  }
  v->base = s;
  v->bytes = static_cast<int64_t>(d_count) * v->size;
  v->row_offset = d.row_offset;
  v->partition_start = d.partition_start;
  v->partitions = d.partitions;
  v->dtype = d.dtype;
  return true;
}

// The access `q` to the tile, seen through the view of a writer whose destination was `d`.
bool through(const Build& build, const View& v, const Ref& d, const Ref& q, const std::vector<int>& loops, Ref* out) {
  if (q.partition_start < v.partition_start || q.partition_start + q.partitions > v.partition_start + v.partitions)
    return false;
  int64_t low = q.row_offset - v.row_offset, high = low;
  *out = v.base;
  const bool scaled = !v.row_dense();
  if (scaled && (q.dtype != v.dtype || low % v.size != 0)) return false;
  for (int level = 0; level < isa::kMaxLoops; ++level) {
    const int64_t step = q.step_at(level) - d.step_at(level);
    if (step == 0) continue;
    if (scaled && step % v.size != 0) return false;
    const uint32_t trip = level < static_cast<int>(loops.size()) ? build.loops[loops[level]].trip : 1;
    (step > 0 ? high : low) += step * (trip - 1);
    out->set_step(level, v.base.step_at(level) + (scaled ? step / v.size * v.element_stride : step));
  }
  out->rank = q.rank;
  out->dims = q.dims;
  for (int i = 0; i < q.rank; ++i) {
    if (scaled && q.dims[i].stride % v.size != 0) return false;
    (q.dims[i].stride > 0 ? high : low) += q.dims[i].stride * (q.dims[i].count - 1);
    if (scaled) out->dims[i].stride = q.dims[i].stride / v.size * v.element_stride;
  }
  if (low < 0 || high + static_cast<int64_t>(size_of(q.dtype)) > v.bytes) return false;
  const int64_t in_row = q.row_offset - v.row_offset;
  out->dtype = q.dtype;
  out->partitions = q.partitions;
  out->partition_stride = v.partition_stride;
  const int64_t rows = static_cast<int64_t>(q.partition_start - v.partition_start);
  out->offset = v.base.offset + rows * v.partition_stride + (scaled ? in_row / v.size * v.element_stride : in_row);
  // For a view of rows of another tile these stay meaningful; otherwise nobody asks.
  out->partition_start = v.base.partition_start + (q.partition_start - v.partition_start);
  out->row_offset = v.base.row_offset + (scaled ? in_row / v.size * v.element_stride : in_row);
  return true;
}

bool has_prefix(const std::vector<int>& loops, const std::vector<int>& prefix) {
  return loops.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), loops.begin());
}

// The first draft behind everything that runs up to and including `reader`, seen from the body `loops`.
size_t end_of(const Build& build, const std::vector<int>& loops, size_t reader) {
  const Draft& d = build.drafts[reader];
  return d.loops.size() == loops.size() ? reader + 1 : build.loops[d.loops[loops.size()]].end;
}

// Likewise the first of what runs from the first time that `writer` does.
size_t begin_of(const Build& build, const std::vector<int>& loops, size_t writer) {
  const Draft& d = build.drafts[writer];
  return d.loops.size() == loops.size() ? writer : build.loops[d.loops[loops.size()]].begin;
}

bool reads_strided_well(const Draft& reader, const Ref& r) {
  switch (reader.instruction->opcode) {
    case Opcode::nc_matmul:
      return &r == &reader.src0;
    case Opcode::tensor_copy:
    case Opcode::nc_transpose:
    case Opcode::dma_copy:
    case Opcode::dma_transpose:
      return true;
    default:
      return false;
  }
}

// Uses of a tile, in program order.
struct Uses {
  std::vector<size_t> writers, readers;
};
std::vector<Uses> uses_of_tiles(const Build& build) {
  std::vector<Uses> uses(build.program->tiles.size());
  const size_t tensors = build.program->tensors.size();
  for (size_t i = 0; i < build.drafts.size(); ++i) {
    const Draft& d = build.drafts[i];
    if (d.removed) continue;
    for (const Ref* r : {&d.dst, &d.dst2}) {
      if (r->present() && r->object >= tensors) uses[r->object - tensors].writers.push_back(i);
    }
    for (const Ref* r : d.sources()) {
      if (!r->present() || r->object < tensors) continue;
      std::vector<size_t>& readers = uses[r->object - tensors].readers;
      if (readers.empty() || readers.back() != i) readers.push_back(i);
    }
    // An accumulating matmul reads its destination.
    if (d.instruction->opcode == Opcode::nc_matmul && d.dst.object >= tensors &&
        (d.instruction->accumulate || d.instruction->accumulate_levels)) {
      uses[d.dst.object - tensors].readers.push_back(i);
    }
  }
  return uses;
}

bool forward_load(Build& build, size_t writer, const Uses& uses, uint32_t object) {
  Draft& copy = build.drafts[writer];
  if (copy.dst.buffers > 1 && copy.dst.rotate_level >= copy.loops.size()) return false;
  View view;
  if (uses.readers.empty() || !view_of(copy, &view)) return false;
  size_t end = writer + 1;
  for (size_t reader : uses.readers) {
    const Draft& d = build.drafts[reader];
    if (reader <= writer || !has_prefix(d.loops, copy.loops)) return false;
    end = std::max(end, end_of(build, copy.loops, reader));
    for (const Ref* r : d.sources()) {
      if (!r->present() || r->object != object) continue;
      Ref seen;
      if (!through(build, view, copy.dst, *r, d.loops, &seen)) return false;
      // Moving operands are better packed than read in place.
      if (d.instruction->opcode == Opcode::nc_matmul && r != &d.src0) return false;
      if (r == &d.indices) return false;
      if (!view.row_dense() && !reads_strided_well(d, *r)) return false;
    }
    if (d.writes(object)) return false;
  }
  // No writer of the source (or of what may be the same memory) may come between.
  for (size_t i = writer + 1; i < end; ++i) {
    const Draft& d = build.drafts[i];
    if (d.removed) continue;
    for (const Ref* r : {&d.dst, &d.dst2}) {
      if (build.may_meet(d, *r, copy, view.base)) return false;
    }
  }
  for (size_t reader : uses.readers) {
    Draft& d = build.drafts[reader];
    for (Ref* r : d.sources()) {
      if (!r->present() || r->object != object) continue;
      Ref seen;
      through(build, view, copy.dst, *r, d.loops, &seen);
      *r = seen;
    }
  }
  copy.removed = true;
  return true;
}

// Exactly the same elements in the same order.
bool same_access(const Ref& a, const Ref& b) {
  if (a.offset != b.offset || a.partition_stride != b.partition_stride || a.partitions != b.partitions || a.rank != b.rank)
    return false;
  if (size_of(a.dtype) != size_of(b.dtype) || a.step_count != b.step_count) return false;
  for (int s = 0; s < a.step_count; ++s) {
    if (a.steps[s].bytes != b.step_at(a.steps[s].level)) return false;
  }
  for (int d = 0; d < a.rank; ++d) {
    if (a.dims[d].count != b.dims[d].count || a.dims[d].stride != b.dims[d].stride) return false;
  }
  return true;
}

bool is_elementwise(Opcode op) {
  return op == Opcode::tensor_tensor || op == Opcode::tensor_scalar || op == Opcode::scalar_tensor_tensor ||
         op == Opcode::activation || op == Opcode::reciprocal || op == Opcode::select || op == Opcode::tensor_copy ||
         op == Opcode::memset;
}
// Whether the instruction may write to HBM instead of its tile. Matmuls that accumulate over inner loops may, when f32.
bool can_write_anywhere(const Draft& d, const Draft& store) {
  const Opcode op = d.instruction->opcode;
  if (op == Opcode::nc_matmul)
    return d.dst.dtype == DType::f32 && store.src0.dtype == DType::f32 && d.instruction->compute == DType::f32 &&
           has_prefix(d.loops, store.loops);
  return d.loops == store.loops && (is_elementwise(op) || op == Opcode::iota || op == Opcode::random_bits);
}

// Whether what is read of the tile of `copy`, a store, was written in the same iteration of the store's loops: elsewhere
// than in the tile it would not last longer.
bool lasts_one_iteration(const Build& build, const Draft& copy, const Uses& uses, uint32_t object) {
  const int depth = static_cast<int>(copy.loops.size());
  for (size_t i : uses.writers) {
    const Draft& d = build.drafts[i];
    if (d.instruction->accumulate_levels & ((1u << depth) - 1)) return false;
    for (int level = 0; level < depth; ++level) {  // or each iteration writes a part of its own
      if (d.dst.step_at(level) != copy.src0.step_at(level)) return false;
    }
  }
  for (size_t i : uses.readers) {
    const Draft& d = build.drafts[i];
    if (&d == &copy || (i > uses.writers.back() && !d.instruction->accumulate)) continue;
    const auto written = [&](const Ref& r) {
      return std::any_of(uses.writers.begin(), uses.writers.end(),
                         [&](size_t w) { return w < i && build.drafts[w].dst.covers(r, common_loops(build.drafts[w], d)); });
    };
    if (d.instruction->accumulate && d.dst.object == object && !written(d.dst)) return false;
    for (const Ref* r : d.sources()) {
      if (r->present() && r->object == object && !written(*r)) return false;
    }
  }
  return true;
}

bool forward_store(Build& build, size_t store, const Uses& uses, uint32_t object) {
  Draft& copy = build.drafts[store];
  if (copy.instruction->opcode != Opcode::dma_copy || copy.dst.dtype != copy.src0.dtype || copy.indices.present())
    return false;
  if (copy.src0.partitions != copy.dst.partitions || build.is_tile(copy.dst)) return false;
  // The destination seen from the tile: the copy turned round.
  Draft turned = copy;
  std::swap(turned.dst, turned.src0);
  View view;
  if (!view_of(turned, &view) || !view.row_dense()) return false;
  if (copy.src0.buffers > 1 && copy.src0.rotate_level >= copy.loops.size()) return false;
  if (uses.writers.empty() || !lasts_one_iteration(build, copy, uses, object)) return false;
  // Rows that lie over each other do not hold what the tile's rows hold.
  if (view.partitions > 1 && std::abs(view.partition_stride) < view.bytes) return false;
  // Other than whole rows of the tile: a view of it that an elided transposition left.
  const int64_t row_bytes = build.layouts[object - build.program->tensors.size()].row_bytes;
  const auto in_rows = [&](const Ref& r) { return r.partitions == 1 || r.partition_stride == row_bytes; };
  if (!in_rows(copy.src0)) return false;
  Ref seen;
  for (size_t i : uses.writers) {
    const Draft& d = build.drafts[i];
    if (i >= store || !can_write_anywhere(d, copy)) return false;
    if (d.dst2.present() && d.dst2.object == object) return false;
    if (!through(build, view, turned.dst, d.dst, d.loops, &seen)) return false;
  }
  for (size_t i : uses.readers) {
    const Draft& d = build.drafts[i];
    const bool accumulates = d.instruction->opcode == Opcode::nc_matmul && d.dst.object == object;
    if ((i != store && i < uses.writers.front()) || (d.loops != copy.loops && !accumulates)) return false;
    for (const Ref* r : d.sources()) {
      if (i == store || !r->present() || r->object != object) continue;
      if (r == &d.indices || !in_rows(*r) || !through(build, view, turned.dst, *r, d.loops, &seen))
        return false;  // indices are read from tiles
    }
  }
  // Between the first early write and the store nobody may look at the destination's memory, except the element-wise writer
  // itself at exactly the elements that it writes.
  const size_t first = uses.writers.front();
  for (size_t i = begin_of(build, copy.loops, first); i < store; ++i) {
    const Draft& d = build.drafts[i];
    if (d.removed) continue;
    for (const Ref* r : {&d.dst, &d.dst2}) {
      if (build.may_meet(d, *r, copy, copy.dst)) return false;
    }
    for (const Ref* r : d.sources()) {
      if (!build.may_meet(d, *r, copy, copy.dst)) continue;
      if (i != first || uses.writers.size() != 1 || !is_elementwise(d.instruction->opcode)) return false;
      if (build.pessimistic && copy.dst.object != r->object) return false;
      if (!through(build, view, turned.dst, d.dst, d.loops, &seen) || !same_access(seen, *r)) return false;
    }
  }
  // Those that read the tile behind the store will read the destination, which must still be what was stored.
  const size_t last = std::max(store, uses.readers.back());
  for (size_t i = store + 1; i <= last; ++i) {
    const Draft& d = build.drafts[i];
    for (const Ref* r : {&d.dst, &d.dst2}) {
      if (!d.removed && build.may_meet(d, *r, copy, copy.dst)) return false;
    }
  }
  for (size_t i = first; i <= last; ++i) {
    Draft& d = build.drafts[i];
    if (d.removed || i == store) continue;
    for (Ref* r : {&d.dst, &d.src0, &d.src1, &d.src2, &d.scalar0, &d.scalar1}) {
      if (!r->present() || r->object != object) continue;
      through(build, view, turned.dst, *r, d.loops, &seen);
      *r = seen;
    }
  }
  copy.removed = true;
  return true;
}

}  // namespace

void forward_loads(Build& build) {
  const size_t tensors = build.program->tensors.size();
  std::vector<Uses> uses = uses_of_tiles(build);
  for (size_t i = 0; i < build.drafts.size(); ++i) {
    const Draft& d = build.drafts[i];
    if (d.removed || !build.is_tile(d.dst)) continue;
    switch (d.instruction->opcode) {
      case Opcode::dma_copy:
      case Opcode::dma_transpose:
      case Opcode::nc_transpose:
      case Opcode::tensor_copy:
        break;
      default:
        continue;
    }
    const uint32_t object = d.dst.object, source = d.src0.object;
    const Uses& u = uses[object - tensors];
    if (u.writers.size() != 1 || !forward_load(build, i, u, object) || source < tensors) continue;
    std::vector<size_t>& readers = uses[source - tensors].readers;  // the copy's readers are now the source's
    std::erase(readers, i);
    readers.insert(readers.end(), u.readers.begin(), u.readers.end());
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  }
}

void forward_stores(Build& build) {
  const size_t tensors = build.program->tensors.size();
  const std::vector<Uses> uses = uses_of_tiles(build);
  for (size_t i = 0; i < build.drafts.size(); ++i) {
    const Draft& d = build.drafts[i];
    if (d.removed || d.instruction->opcode != Opcode::dma_copy || !build.is_tile(d.src0)) continue;
    forward_store(build, i, uses[d.src0.object - tensors], d.src0.object);
  }
}

}  // namespace neuron::emulator::plan
