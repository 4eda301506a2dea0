#include "compiler/tile_nest.h"

#include <algorithm>

namespace neuron::compiler {

TileNest::TileNest(ProgramBuilder& builder, std::vector<int64_t> extents, std::vector<DimPlan> plans)
    : builder_(builder), extents_(std::move(extents)), plans_(std::move(plans)) {
  frame_.dims.resize(extents_.size());
  for (size_t d = 0; d < extents_.size(); ++d) {
    if (!plans_[d].slot) continue;
    frame_.dims[d].slot = static_cast<int>(frame_.slots.size());
    frame_.slots.push_back(1);
  }
}

int64_t TileNest::widest() const {
  for (size_t d = 0; d < extents_.size(); ++d)
    if (plans_[d].partition) return pieces(extents_[d], plans_[d]).front().partitions;
  return 1;
}

Status TileNest::run(const std::vector<size_t>& order, isa::LoopKind kind, LoopFacts facts,
                     const std::function<Status(const Frame&)>& body) {
  std::vector<DimPiece> choice(extents_.size());
  return choose(0, order, choice, kind, facts, body);
}

Status TileNest::choose(size_t at, const std::vector<size_t>& order, std::vector<DimPiece>& choice, isa::LoopKind kind,
                        LoopFacts facts, const std::function<Status(const Frame&)>& body) {
  if (at == order.size()) {
    frame_.partitions = 1;
    for (size_t d : order) {
      const DimPiece& p = choice[d];
      frame_.dims[d].start = p.start;
      frame_.dims[d].partition_step = p.partition_step;
      if (frame_.dims[d].slot != kNoSlot) frame_.slots[static_cast<size_t>(frame_.dims[d].slot)] = p.chunk;
      if (plans_[d].partition) frame_.partitions = p.partitions;
    }
    return open(0, order, choice, kind, facts, body);
  }
  const size_t d = order[at];
  for (const DimPiece& p : pieces(extents_[d], plans_[d])) {
    choice[d] = p;
    NEURON_RETURN_IF_ERROR(choose(at + 1, order, choice, kind, facts, body));
  }
  return {};
}

Status TileNest::open(size_t at, const std::vector<size_t>& order, const std::vector<DimPiece>& choice, isa::LoopKind kind,
                      LoopFacts facts, const std::function<Status(const Frame&)>& body) {
  if (at == order.size()) return body(frame_);
  const size_t d = order[at];
  const DimPiece& p = choice[d];
  Status status;
  builder_.loop(
      p.loops, kind,
      [&](int level) {
        frame_.dims[d].start = Index(p.start) + Index::of_loop(level, p.loop_step);
        status = open(at + 1, order, choice, kind, facts, body);
        frame_.dims[d].start = p.start;
      },
      facts);
  return status;
}

void collapse_groups(std::vector<int64_t>& extents, std::vector<size_t>& groups, const std::vector<View*>& views) {
  size_t begin = 0;
  for (size_t& size : groups) {
    const auto erase = [&](size_t d) {
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(d));
      for (View* v : views) v->strides.erase(v->strides.begin() + static_cast<std::ptrdiff_t>(d));
      --size;
    };
    for (size_t d = begin + size; d-- > begin;) {
      if (extents[d] == 1) {
        erase(d);
        continue;
      }
      if (d + 1 >= begin + size) continue;
      const bool merge = std::all_of(views.begin(), views.end(),
                                     [&](const View* v) { return v->strides[d] == v->strides[d + 1] * extents[d + 1]; });
      if (!merge) continue;
      extents[d + 1] *= extents[d];
      erase(d);
    }
    begin += size;
  }
}

}  // namespace neuron::compiler
