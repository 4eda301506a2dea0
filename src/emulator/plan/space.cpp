#include "emulator/plan/space.h"

#include <algorithm>

namespace neuron::emulator::plan {

bool Ref::single_run(uint64_t* count, int64_t* stride) const {
  *count = 1;
  *stride = static_cast<int64_t>(size_of(dtype));
  for (int d = rank - 1; d >= 0; --d) {
    if (dims[d].count == 1) continue;
    if (*count == 1)
      *stride = dims[d].stride;
    else if (dims[d].stride != *stride * static_cast<int64_t>(*count))
      return false;
    *count *= dims[d].count;
  }
  return true;
}
namespace {

struct Dims {
  uint64_t counts[kMaxRank + 2];
  int64_t strides[kMaxRank + 2];
  int rank = 0;  // outermost first
};

Dims free_dims(const Ref& r) {
  Dims d;
  for (int i = 0; i < r.rank; ++i) {
    if (r.dims[i].count == 1) continue;
    d.counts[d.rank] = r.dims[i].count;
    d.strides[d.rank++] = r.dims[i].stride;
  }
  return d;
}

// Cuts all operands' dims at common places, innermost first, and joins neighbours that are contiguous for every operand.
bool refine(std::span<Dims> all, const bool* broadcast, uint64_t total, Space* out) {
  const int operands = static_cast<int>(all.size());
  uint64_t counts[32];
  int64_t strides[kMaxOperands][32];
  int rank = 0;
  for (uint64_t done = 1; done < total;) {
    uint64_t count = total / done;
    for (int o = 0; o < operands; ++o) {
      if (!broadcast[o]) count = std::min(count, all[o].counts[all[o].rank - 1]);
    }
    bool joins = rank > 0;
    int64_t next[kMaxOperands];
    for (int o = 0; o < operands; ++o) {
      if (broadcast[o]) {
        next[o] = 0;
        continue;
      }
      Dims& d = all[o];
      uint64_t& left = d.counts[d.rank - 1];
      if (left % count != 0) return false;
      next[o] = d.strides[d.rank - 1];
      d.strides[d.rank - 1] *= static_cast<int64_t>(count);
      left /= count;
      if (left == 1) --d.rank;
    }
    for (int o = 0; o < operands && joins; ++o)
      joins = next[o] == strides[o][rank - 1] * static_cast<int64_t>(counts[rank - 1]);
    if (joins) {
      counts[rank - 1] *= count;
    } else {
      if (rank == 31) return false;
      counts[rank] = count;
      for (int o = 0; o < operands; ++o) strides[o][rank] = next[o];
      ++rank;
    }
    done *= count;
  }
  if (rank > kMaxRank - 1) return false;
  out->rank = rank;
  out->operands = operands;
  for (int d = 0; d < rank; ++d) {
    if (counts[rank - 1 - d] > 0xffffffffu) return false;
    out->counts[d] = static_cast<uint32_t>(counts[rank - 1 - d]);
    for (int o = 0; o < operands; ++o) out->strides[o][d] = strides[o][rank - 1 - d];
  }
  return true;
}

}  // namespace

bool make_space(std::span<const Ref* const> refs, uint32_t partitions, bool merge_partitions, Space* out) {
  Dims dims[kMaxOperands];
  bool broadcast[kMaxOperands] = {};
  uint64_t total = 1;
  for (const Ref* r : refs) total = std::max(total, r->elements());
  for (size_t o = 0; o < refs.size(); ++o) {
    dims[o] = free_dims(*refs[o]);
    broadcast[o] = dims[o].rank == 0;
    if (!broadcast[o] && refs[o]->elements() != total) return false;
  }
  if (!refine({dims, refs.size()}, broadcast, total, out)) return false;
  for (size_t o = 0; o < refs.size(); ++o)
    out->partition_strides[o] = refs[o]->partitions == 1 && partitions > 1 ? 0 : refs[o]->partition_stride;
  // The partition dim goes in front, or joins the only free dim.
  bool joins = merge_partitions && out->rank == 1;
  for (size_t o = 0; o < refs.size() && joins; ++o)
    joins = out->partition_strides[o] == out->strides[o][0] * static_cast<int64_t>(out->counts[0]);
  if (joins) {
    out->per_partition = out->counts[0];
    out->counts[0] *= partitions;
    return true;
  }
  for (int d = out->rank; d > 0; --d) {
    out->counts[d] = out->counts[d - 1];
    for (size_t o = 0; o < refs.size(); ++o) out->strides[o][d] = out->strides[o][d - 1];
  }
  ++out->rank;
  out->counts[0] = partitions;
  for (size_t o = 0; o < refs.size(); ++o) out->strides[o][0] = out->partition_strides[o];
  return true;
}

bool make_flat_space(std::span<const Ref* const> refs, Space* out) {
  Dims dims[kMaxOperands];
  bool broadcast[kMaxOperands] = {};
  uint64_t total = 0;
  for (size_t o = 0; o < refs.size(); ++o) {
    const Dims free = free_dims(*refs[o]);
    Dims& d = dims[o];
    if (refs[o]->partitions > 1) {
      d.counts[0] = refs[o]->partitions;
      d.strides[0] = refs[o]->partition_stride;
      d.rank = 1;
    }
    for (int i = 0; i < free.rank; ++i) {
      d.counts[d.rank] = free.counts[i];
      d.strides[d.rank++] = free.strides[i];
    }
    const uint64_t elements = refs[o]->elements() * refs[o]->partitions;
    if (o > 0 && elements != total) return false;
    total = elements;
  }
  if (!refine({dims, refs.size()}, broadcast, total, out)) return false;
  // One imaginary partition in front.
  for (int d = out->rank; d > 0; --d) {
    out->counts[d] = out->counts[d - 1];
    for (size_t o = 0; o < refs.size(); ++o) out->strides[o][d] = out->strides[o][d - 1];
  }
  ++out->rank;
  out->counts[0] = 1;
  for (size_t o = 0; o < refs.size(); ++o) out->strides[o][0] = out->partition_strides[o] = 0;
  return true;
}

}  // namespace neuron::emulator::plan
