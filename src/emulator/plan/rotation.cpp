// Rotating buffers let the chip's engines overlap iterations. The host runs instructions in order: a tile that each
// iteration fills before it reads needs one buffer, and stays in a nearer cache.
#include <algorithm>

#include "emulator/plan/plan.h"

namespace neuron::emulator::plan {

using isa::Opcode;

bool Ref::covers(const Ref& other, int depth) const {
  for (int level = 0; level < isa::kMaxLoops; ++level) {
    if (step_at(level) != other.step_at(level) || (level >= depth && step_at(level) != 0)) return false;
  }
  if (other.partition_start < partition_start || other.partition_start + other.partitions > partition_start + partitions)
    return false;
  uint64_t count = 0;
  int64_t stride = 0;
  const auto size = static_cast<int64_t>(size_of(dtype));
  if (!single_run(&count, &stride) || (count > 1 && stride != size)) return false;
  int64_t low = other.row_offset, high = low + static_cast<int64_t>(size_of(other.dtype));
  for (int d = 0; d < other.rank; ++d)
    (other.dims[d].stride > 0 ? high : low) += other.dims[d].stride * (other.dims[d].count - 1);
  return low >= row_offset && high <= row_offset + static_cast<int64_t>(count) * size;
}

bool Draft::fills(uint32_t object, int depth) const {
  if (dst.object != object || reads(object) || (dst2.present() && dst2.object == object)) return false;
  if (indices.present() && instruction->oob == isa::OobMode::skip) return false;  // skipped rows keep what they had
  return instruction->opcode != Opcode::nc_matmul || (instruction->accumulate_levels & ((1u << depth) - 1)) == 0;
}

int common_loops(const Draft& a, const Draft& b) {
  return static_cast<int>(std::mismatch(a.loops.begin(), a.loops.end(), b.loops.begin(), b.loops.end()).first -
                          a.loops.begin());
}

void drop_rotation(Build& build) {
  const size_t tensors = build.program->tensors.size();
  struct Tile {
    const Draft* first = nullptr;  // to touch it in each iteration; null: rotation stays
    std::vector<Ref*> refs;
  };
  std::vector<Tile> tiles(build.program->tiles.size());
  for (Draft& d : build.drafts) {
    for (Ref* r : d.operands()) {
      if (!build.is_tile(*r) || r->buffers == 1) continue;
      Tile& t = tiles[r->object - tensors];
      const int depth = r->rotate_level + 1;
      if (t.refs.empty() && d.fills(r->object, depth)) t.first = &d;
      if (t.first && !(common_loops(*t.first, d) >= depth && t.first->dst.covers(*r, depth))) t.first = nullptr;
      t.refs.push_back(r);
    }
  }
  for (size_t i = 0; i < tiles.size(); ++i) {
    if (!tiles[i].first) continue;
    for (Ref* r : tiles[i].refs) r->buffers = 1;
    build.layouts[i].buffers = 1;
    build.layouts[i].total_bytes = build.layouts[i].buffer_bytes;
  }
}

}  // namespace neuron::emulator::plan
