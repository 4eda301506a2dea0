#include "compiler/loop_tiling.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>

namespace neuron::compiler {

namespace {

constexpr int64_t kPartitions = 128;
constexpr int64_t kMostFree = 2048;   // elements per partition of one tile
constexpr int64_t kCopyFree = 32768;  // of a copy that needs no tile
constexpr int64_t kLeastFree = 128;   // below this, runs are too short for DMA and loops too short for the engines
constexpr int64_t kLongestRow = 8192;
constexpr int64_t kWideColumns = 128;
constexpr int kMaxSlots = isa::kMaxFreeDims;

// The access whose memory order decides: the store that moves along most dimensions, else such a load.
const View* leading_view(const Region& r) {
  const View* best = nullptr;
  size_t most = 0;
  const auto consider = [&](const View& v) {
    const auto moving =
        static_cast<size_t>(std::count_if(v.strides.begin(), v.strides.end(), [](int64_t s) { return s != 0; }));
    if (best == nullptr || moving > most) best = &v, most = moving;
  };
  for (const Store& s : r.stores) consider(s.view);
  if (best != nullptr && most == r.expression.rank()) return best;
  for (const Term& t : r.expression.terms)
    if (t.kind == TermKind::load) consider(t.view);
  return best;
}

template <class F>
void for_each_view(Region& r, F&& f) {
  for (Term& t : r.expression.terms) f(t.view);
  for (Store& s : r.stores) f(s.view);
}

}  // namespace

void collapse(Region& r) {
  Expression& e = r.expression;
  const View* lead = leading_view(r);
  if (lead != nullptr && e.rank() > 1) {
    std::vector<size_t> order(e.rank());
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<int64_t> key = lead->strides;
    for (int64_t& k : key) k = k == 0 ? std::numeric_limits<int64_t>::max() : std::llabs(k);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key[a] > key[b]; });
    if (!std::is_sorted(order.begin(), order.end())) {
      const auto permute = [&](auto& v) {
        auto old = v;
        for (size_t d = 0; d < order.size(); ++d) v[d] = old[order[d]];
      };
      permute(e.extents);
      permute(e.reduced);
      for_each_view(r, [&](View& v) { permute(v.strides); });
    }
  }
  for (size_t d = e.rank(); d-- > 1;) {
    bool merge = e.reduced[d - 1] == e.reduced[d];
    for_each_view(r, [&](View& v) { merge = merge && v.strides[d - 1] == v.strides[d] * e.extents[d]; });
    if (!merge) continue;
    const auto at = static_cast<std::ptrdiff_t>(d - 1);
    e.extents[d] *= e.extents[d - 1];
    e.extents.erase(e.extents.begin() + at);
    e.reduced.erase(e.reduced.begin() + at);
    for_each_view(r, [&](View& v) { v.strides.erase(v.strides.begin() + at); });
  }
}

std::vector<DimPiece> pieces(int64_t extent, const DimPlan& plan) {
  std::vector<DimPiece> out;
  const int64_t c = plan.chunk, rows = extent / c, rest = extent % c;
  if (plan.partition) {
    const int64_t blocks = rows / kPartitions, left = rows % kPartitions;
    if (blocks > 0) out.push_back({0, blocks, kPartitions * c, kPartitions, c, c});
    if (left > 0) out.push_back({blocks * kPartitions * c, 1, 0, left, c, c});
  } else if (rows > 0) {
    out.push_back({0, rows, c, 1, 0, c});
  }
  if (rest > 0) out.push_back({rows * c, 1, 0, 1, 0, rest});
  return out;
}

namespace {

// Elements per partition for a dimension of n elements spread over partitions, about `target`, at most `most`: the value
// whose tiles take least time, by elements per partition and a fixed price per tile.
int64_t choose_chunk(int64_t n, int64_t target, int64_t most) {
  constexpr int64_t kTilePrice = 160;  // elements; VectorE's fixed cycles
  target = std::max<int64_t>(1, std::min(target, most));
  if (n <= target) return n;
  int64_t best = target, best_price = std::numeric_limits<int64_t>::max();
  const auto consider = [&](int64_t c) {
    if (c < 1 || c > most) return;
    const int64_t rows = n / c, rest = n % c;
    const int64_t tiles = (rows + kPartitions - 1) / kPartitions;
    const int64_t price = tiles * (c + kTilePrice) + (rest > 0 ? rest + 2 * kTilePrice : 0);
    if (price < best_price) best = c, best_price = price;
  };
  const int64_t fewest = std::max<int64_t>(1, n / (kPartitions * most));
  for (int64_t tiles = fewest; tiles <= fewest + 4; ++tiles) consider((n + kPartitions * tiles - 1) / (kPartitions * tiles));
  const int64_t low = std::max<int64_t>(1, std::min(target, most) / 3), high = std::min(most, 2 * target);
  const int64_t step = std::max<int64_t>(1, (high - low) / 128);
  for (int64_t c = high; c >= low; c -= step) consider(c);
  for (int64_t p = kPartitions; p >= 64; --p)  // exact divisions
    if (n % p == 0)
      for (int64_t tiles = fewest; tiles <= fewest + 4; ++tiles)
        if (n / p % tiles == 0) consider(n / p / tiles);
  return best;
}

// Bytes on chip per element of a full tile: everything at once, and with tiles reused as soon as they are dead.
struct Footprint {
  int64_t loads = 0, others = 0, peak_others = 0;
};

Footprint footprint(const Expression& e) {
  Footprint f;
  const std::vector<uint64_t> varies = e.varies();
  std::vector<size_t> last(e.terms.size(), 0);
  for (size_t t = 0; t < e.terms.size(); ++t)
    for (int32_t i : e.terms[t].inputs) last[static_cast<size_t>(i)] = t;
  for (size_t t = 0; t < e.terms.size(); ++t)
    if (e.terms[t].stores > 0) last[t] = e.terms.size();
  std::vector<int64_t> dying(e.terms.size() + 1, 0);
  int64_t live = 0;
  for (size_t t = 0; t < e.terms.size(); ++t) {
    const Term& x = e.terms[t];
    const bool none = x.kind == TermKind::immediate || varies[t] == 0 || (x.kind == TermKind::reduce);
    const auto size = none ? 0
                           : std::max<int64_t>(static_cast<int64_t>(size_of(x.dtype)),
                                               is_floating(x.dtype) && x.kind != TermKind::load ? 4 : 1);
    if (x.kind == TermKind::load) {
      f.loads += size;
    } else {
      f.others += size;
      live += size;
      f.peak_others = std::max(f.peak_others, live);
      dying[std::max(last[t], t)] += size;
    }
    live -= dying[t];
  }
  return f;
}

// A load that is contiguous along another dimension than the stores.
bool transposes(const Region& r) {
  if (r.expression.rank() < 2) return false;
  const size_t last = r.expression.rank() - 1;
  for (const Term& t : r.expression.terms) {
    if (t.kind != TermKind::load || t.view.strides[last] == 0 || t.view.strides[last] == 1 ||
        r.expression.extents[last] < 16)
      continue;
    for (size_t d = 0; d < last; ++d)
      if (t.view.strides[d] == 1 && r.expression.extents[d] >= 16) return true;
  }
  return false;
}

bool is_plain_copy(const Region& r) {
  return !transposes(r) && std::all_of(r.stores.begin(), r.stores.end(), [&](const Store& s) {
    const Term& t = r.expression.terms[static_cast<size_t>(s.term)];
    return t.kind == TermKind::load && t.stores == 1;
  });
}

class Tiler {
 public:
  Tiler(const Region& r, int64_t budget) : r_(r), e_(r.expression), budget_(budget) { tiling_.dims.resize(e_.rank()); }

  LoopTiling run() {
    size_free();
    if (e_.has_reduced() && r_.rows) {
      place_rows();
    } else {
      place_flat();
    }
    return tiling_;
  }

 private:
  void size_free() {
    if (is_plain_copy(r_)) {
      most_ = kCopyFree;
      return;
    }
    const Footprint f = footprint(e_);
    const int64_t budget = budget_ * 7 / 8;
    transposes_ = transposes(r_);
    const int64_t all = std::max<int64_t>(1, 2 * (f.loads + f.others));
    const int64_t some = std::max<int64_t>(1, 2 * f.loads + f.peak_others + 8);
    const int64_t none = std::max<int64_t>(1, f.loads + f.peak_others + 8);
    row_limit_ = std::min(kLongestRow, budget / none);
    if (budget / all >= 512) {
      most_ = std::min(kMostFree, budget / all);
    } else if (budget / some >= 256) {
      most_ = std::min(kMostFree, budget / some);
      tiling_.other_buffers = 1;
    } else {
      most_ = std::max<int64_t>(1, std::min(kMostFree, budget / none));
      tiling_.other_buffers = tiling_.dma_buffers = 1;
    }
    full_ = all;
    some_ = some;
    budget_used_ = budget;
  }

  // Buffers that a row of `free` elements leaves room for.
  void fit_buffers(int64_t free) {
    tiling_.dma_buffers = tiling_.other_buffers = 2;
    if (free * full_ > budget_used_) tiling_.other_buffers = 1;
    if (free * some_ > budget_used_) tiling_.dma_buffers = 1;
  }

  int64_t remaining(size_t d) const {  // blocks of dimension d that are not inside the tile's free part
    return tiling_.dims[d].slot ? e_.extents[d] / tiling_.dims[d].chunk : e_.extents[d];
  }

  // Maps that read something transposed: the fastest dimension free, the load's fastest on partitions, so that blocks can be
  // turned by the DMA.
  bool place_transposed() {
    const size_t last = e_.rank() - 1;
    for (const Term& t : e_.terms) {
      if (t.kind != TermKind::load || t.view.strides[last] <= 1) continue;
      for (size_t d = 0; d < last; ++d) {
        if (t.view.strides[d] != 1 || e_.extents[d] < 16) continue;
        tiling_.dims[last] = {false, true, std::min<int64_t>(e_.extents[last], std::min<int64_t>(most_, 512))};
        tiling_.dims[d].partition = true;
        return true;
      }
    }
    return false;
  }

  // Maps, and reductions across partitions: fill the free part from the fastest dimension.
  void place_flat() {
    if (transposes_ && !e_.has_reduced() && place_transposed()) return;
    const int64_t n = e_.elements();
    int64_t target = std::clamp<int64_t>((n + kPartitions - 1) / kPartitions, std::min(kLeastFree, most_), most_);
    if (e_.has_reduced() && !e_.reduced[e_.rank() - 1])
      target = std::min(most_, std::max(target, e_.extents[e_.rank() - 1]));
    int64_t f = 1;
    int slots = 0;
    std::optional<size_t> cut;  // the dimension of which only a part is in a tile
    for (size_t d = e_.rank(); d-- > 0 && slots < kMaxSlots;) {
      const int64_t extent = e_.extents[d];
      DimPlan& p = tiling_.dims[d];
      // Columns wide enough are added up tile by tile; reducing a few rows inside a tile would cost more per element.
      if (e_.has_reduced() && e_.reduced[d] && !e_.reduced[e_.rank() - 1] && f >= kWideColumns) break;
      if (f * extent <= target) {
        p = {false, true, extent};
        f *= extent;
        ++slots;
        continue;
      }
      const int64_t room = target / f;
      if (room >= 2 || f == 1) {
        p = {false, true, choose_chunk(extent, room, std::max<int64_t>(1, most_ / f))};
        ++slots;
        cut = d;
      }
      break;
    }
    pick_partition([&](size_t d) { return !e_.has_reduced() || e_.reduced[d]; });
    // The part was chosen to spread over the partitions. Where another dimension does that, equal parts as long as fit.
    if (cut && !tiling_.dims[*cut].partition && !e_.has_reduced()) {
      const int64_t extent = e_.extents[*cut], room = std::max<int64_t>(1, target / f);
      const int64_t parts = (extent + room - 1) / room;
      tiling_.dims[*cut].chunk = (extent + parts - 1) / parts;
    }
  }

  template <class F>
  void pick_partition(F&& allowed) {
    size_t best = e_.rank();
    int64_t most = 1;
    for (size_t d = 0; d < e_.rank(); ++d) {
      if (!allowed(d)) continue;
      const int64_t blocks = remaining(d);
      // The slowest dimension wins ties at full partitions: longer runs per partition.
      if (std::min(blocks, kPartitions) > std::min(most, kPartitions)) best = d, most = blocks;
    }
    if (best < e_.rank()) tiling_.dims[best].partition = true;
  }

  void place_rows() {
    // The reduced row, from its fastest dimension.
    int64_t f = 1;
    int slots = 0;
    bool whole = true;
    int64_t row = 1;
    for (size_t d = 0; d < e_.rank(); ++d)
      if (e_.reduced[d]) row *= e_.extents[d];
    const int64_t limit = row <= row_limit_ ? row_limit_ : most_;
    for (size_t d = e_.rank(); d-- > 0;) {
      if (!e_.reduced[d]) continue;
      const int64_t extent = e_.extents[d];
      if (slots >= kMaxSlots - 1 || !whole) {
        whole = false;
        continue;
      }
      if (f * extent <= limit) {
        tiling_.dims[d] = {false, true, extent};
        f *= extent;
        ++slots;
        continue;
      }
      const int64_t room = std::max<int64_t>(1, limit / f), parts = (extent + room - 1) / room;
      const int64_t chunk = (extent + parts - 1) / parts;
      if (chunk > 1) {
        tiling_.dims[d] = {false, true, chunk};
        f *= chunk;
        ++slots;
      }
      whole = false;
    }
    widen_rows(f, slots);
    int64_t free = f;
    for (size_t d = 0; d < e_.rank(); ++d)
      if (!e_.reduced[d] && tiling_.dims[d].slot) free *= tiling_.dims[d].chunk;
    fit_buffers(free);
  }

  // Several rows per partition where rows are short, and runs along the fastest dimension where that is not the row's.
  void widen_rows(int64_t f, int slots) {
    const size_t fastest = e_.rank() - 1;
    const int64_t room = std::max<int64_t>(1, most_ / 2 / f);
    size_t widen = e_.rank();
    if (!e_.reduced[fastest]) {
      widen = fastest;
    } else if (f < 64) {
      int64_t most = kPartitions;
      for (size_t d = 0; d < e_.rank(); ++d)
        if (!e_.reduced[d] && e_.extents[d] > most) widen = d, most = e_.extents[d];
    }
    if (widen < e_.rank() && slots < kMaxSlots && room > 1) {
      const int64_t extent = e_.extents[widen];
      const int64_t target =
          !e_.reduced[fastest] && extent < 64 ? extent : std::min(room, (extent + kPartitions - 1) / kPartitions);
      int64_t chunk = std::min(extent, std::max<int64_t>(1, target));
      // Runs of at least 16 elements when other dimensions can fill the partitions.
      int64_t others = 1;
      for (size_t d = 0; d < e_.rank(); ++d)
        if (!e_.reduced[d] && d != widen) others = std::max(others, e_.extents[d]);
      if (!e_.reduced[fastest] && others >= 16) chunk = std::min({extent, room, kMostFree});
      if (chunk > 1) tiling_.dims[widen] = {false, true, chunk == extent ? extent : choose_chunk(extent, chunk, room)};
    }
    pick_partition([&](size_t d) { return !e_.reduced[d]; });
  }

  const Region& r_;
  const Expression& e_;
  int64_t budget_;
  int64_t most_ = kMostFree, row_limit_ = kMostFree;
  int64_t full_ = 1, some_ = 1, budget_used_ = 0;
  bool transposes_ = false;
  LoopTiling tiling_;
};

}  // namespace

LoopTiling choose_loop_tiling(const Region& region, int64_t budget) { return Tiler(region, budget).run(); }

}  // namespace neuron::compiler
