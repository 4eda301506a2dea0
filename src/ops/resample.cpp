#include "ops/resample.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "ops/tables.h"

namespace neuron::ops {
namespace {

using Tap = Taps::Tap;

constexpr size_t kFewTaps = 16;  // added one after the other; more are reduced

// --- which elements ---

// Source elements per result. PyTorch takes the scale factor that the user gave for the true one.
template <class T>
T source_scale(int64_t size, int64_t count, bool align_corners, std::optional<double> scale) {
  if (align_corners) return count > 1 ? static_cast<T>(size - 1) / static_cast<T>(count - 1) : T{0};
  if (scale && *scale > 0) return static_cast<T>(1.0 / *scale);
  return static_cast<T>(size) / static_cast<T>(count);
}

template <class T>
T source_position(T scale, int64_t i, bool align_corners, bool may_be_negative) {
  const T at = align_corners ? scale * static_cast<T>(i) : scale * (static_cast<T>(i) + T(0.5)) - T(0.5);
  return at < 0 && !may_be_negative ? T{0} : at;
}

int64_t whole(double at) { return static_cast<int64_t>(std::floor(static_cast<float>(at))); }

template <class T>
T cubic_filter(T x, T a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : T{0};
}

template <class T>
T antialias_filter(Kernel kernel, T x) {
  if (kernel == Kernel::cubic_antialias) return cubic_filter(x, T(-0.5));
  x = std::abs(x);
  if (kernel == Kernel::linear_antialias) return x < 1 ? 1 - x : T{0};
  const auto sinc = [](T v) {
    v *= static_cast<T>(std::numbers::pi);
    return v == 0 ? T{1} : std::sin(v) / v;
  };
  return x < 3 ? sinc(x) * sinc(x / 3) : T{0};
}

bool is_antialias(Kernel kernel) { return kernel >= Kernel::linear_antialias; }

template <class T>
std::vector<Tap> antialiased(Kernel kernel, int64_t size, T scale, int64_t i) {
  const T reach = kernel == Kernel::linear_antialias ? T(1) : kernel == Kernel::cubic_antialias ? T(2) : T(3);
  const T support = scale >= 1 ? reach * scale : reach, inverse = scale >= 1 ? 1 / scale : T(1);
  const T center = scale * (static_cast<T>(i) + T(0.5));
  const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + T(0.5)), 0);
  const int64_t most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  const int64_t length =
      std::clamp<int64_t>(std::min<int64_t>(static_cast<int64_t>(center + support + T(0.5)), size) - first, 0, most);
  std::vector<T> weights;
  T total = 0;
  for (int64_t j = 0; j < length; ++j) {
    weights.push_back(antialias_filter(kernel, (static_cast<T>(j + first) - center + T(0.5)) * inverse));
    total += weights.back();
  }
  std::vector<Tap> row;
  for (int64_t j = 0; j < length; ++j) {
    row.push_back({first + j, static_cast<double>(total != 0 ? weights[j] / total : weights[j])});
  }
  return row;
}

template <class T>
Taps make(Kernel kernel, int64_t size, int64_t count, bool align_corners, std::optional<double> given) {
  const T scale = source_scale<T>(size, count, align_corners, given);
  Taps taps{size, {}};
  for (int64_t i = 0; i < count; ++i) {
    if (kernel == Kernel::nearest || kernel == Kernel::nearest_exact) {
      const bool exact = kernel == Kernel::nearest_exact;
      const T at = source_position(scale, i, !exact, false);
      taps.rows.push_back({{std::min(whole(exact ? at + T(0.5) : at), size - 1), 1}});
      continue;
    }
    if (is_antialias(kernel)) {
      taps.rows.push_back(antialiased(kernel, size, scale, i));
      continue;
    }
    if (kernel == Kernel::linear && size == count) {
      taps.rows.push_back({{i, 1}});
      continue;
    }
    const T at = source_position(scale, i, align_corners, kernel == Kernel::cubic);
    const int64_t first = std::min(whole(at), size - 1);
    const T part = std::clamp(at - static_cast<T>(first), T(0), T(1));
    if (kernel == Kernel::linear) {
      taps.rows.push_back({{first, 1 - part}, {std::min(first + 1, size - 1), part}});
      continue;
    }
    std::vector<Tap> row;
    for (int64_t j = -1; j <= 2; ++j) {
      row.push_back({std::clamp<int64_t>(first + j, 0, size - 1), cubic_filter(part - static_cast<T>(j), T(-0.75))});
    }
    taps.rows.push_back(std::move(row));
  }
  return taps;
}

// --- the map ---

size_t widest(const Taps& taps) {
  size_t most = 0;
  for (const auto& row : taps.rows) most = std::max(most, row.size());
  return most;
}

// The elements of every row, first all first ones: [most, rows, rest..], the dimension in front. Shorter rows repeat their
// last element.
Val gather_taps(const Val& front, const Taps& taps, size_t most) {
  std::vector<int64_t> positions;
  for (size_t t = 0; t < most; ++t) {
    for (const auto& row : taps.rows) positions.push_back(row.empty() ? 0 : row[std::min(t, row.size() - 1)].position);
  }
  const Val rows = take_positions(front, 0, positions);
  Shape shape = front.shape();
  shape[0] = static_cast<int64_t>(taps.rows.size());
  shape.insert(shape.begin(), static_cast<int64_t>(most));
  return reshape(rows, shape);
}

// The sum over taps of weight times element. Where a row has no such tap, infinities must not come in through a weight of 0.
Val combine_taps(const Val& elements, const Taps& taps, const std::function<Val(const std::vector<double>&)>& table) {
  ir::Builder& b = elements.builder();
  const auto most = static_cast<size_t>(elements.size(0));
  const auto rank = elements.rank();
  std::vector<double> weights;
  std::vector<bool> has;
  for (size_t t = 0; t < most; ++t) {
    for (const auto& row : taps.rows) {
      has.push_back(t < row.size());
      weights.push_back(t < row.size() ? row[t].weight : 0);
    }
  }
  const Shape shape{static_cast<int64_t>(most), static_cast<int64_t>(taps.rows.size())};
  Shape spread = shape;
  spread.resize(rank, 1);
  const Val weight = reshape(table(weights), spread), mask = reshape(mask_table(b, has), spread);
  const auto weighted = [&](const Val& x, const Val& w, const Val& m, bool complete) {
    return complete ? x * w : where(m, x * w, full(b, x.dtype(), {}, 0));
  };
  const auto complete = [&](size_t from, size_t to) {
    return std::all_of(has.begin() + from * taps.rows.size(), has.begin() + to * taps.rows.size(), [](bool h) { return h; });
  };
  if (most > kFewTaps) return sum(weighted(elements, weight, mask, complete(0, most)), {0});
  Val total;
  for (size_t t = 0; t < most; ++t) {
    const auto at = static_cast<int64_t>(t);
    const Val part = weighted(select(elements, 0, at), select(weight, 0, at), select(mask, 0, at), complete(t, t + 1));
    total = total.present() ? total + part : part;
  }
  return total;
}

// Taps that an edge has put on one element, as one. The largest weight is CPU's: of every sum on the way.
struct Merged {
  Taps taps;
  double largest = 0;
};
Merged merged(const Taps& taps) {
  Merged out{{taps.size, {}}};
  for (const auto& row : taps.rows) {
    auto& to = out.taps.rows.emplace_back();
    for (const Tap& t : row) {
      if (!to.empty() && to.back().position == t.position) {
        to.back().weight += t.weight;
      } else {
        to.push_back(t);
      }
      out.largest = std::max(out.largest, to.back().weight);
    }
  }
  return out;
}

// How many fraction bits let the largest weight fit 16 bits.
int weight_precision(double largest) {
  int precision = 0;
  while (precision < 22 && static_cast<int>(0.5 + largest * (1 << (precision + 1))) < (1 << 15)) ++precision;
  return precision;
}

}  // namespace

bool Taps::is_identity() const {
  if (static_cast<int64_t>(rows.size()) != size) return false;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != 1 || rows[i][0].position != static_cast<int64_t>(i) || rows[i][0].weight != 1) return false;
  }
  return true;
}

Taps Taps::transposed() const {
  Taps out{static_cast<int64_t>(rows.size()), std::vector<std::vector<Tap>>(static_cast<size_t>(size))};
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const Tap& t : rows[i]) {
      auto& row = out.rows[static_cast<size_t>(t.position)];
      const auto at = static_cast<int64_t>(i);
      if (!row.empty() && row.back().position == at) {  // an edge that stands for several elements
        row.back().weight += t.weight;
      } else {
        row.push_back({at, t.weight});
      }
    }
  }
  return out;
}

Taps interpolation(Kernel kernel, int64_t size, int64_t count, bool align_corners, std::optional<double> scale,
                   bool in_double) {
  return in_double ? make<double>(kernel, size, count, align_corners, scale)
                   : make<float>(kernel, size, count, align_corners, scale);
}

Val resample(const Val& x, int64_t dim, const Taps& taps) {
  if (taps.is_identity()) return x;
  const size_t most = widest(taps);
  if (most == 0) {
    Shape shape = x.shape();
    shape[dim] = static_cast<int64_t>(taps.rows.size());
    return full(x.builder(), x.dtype(), shape, 0);
  }
  const auto table = [&](const std::vector<double>& w) { return weight_table(x.builder(), x.dtype(), w); };
  return move_dim(combine_taps(gather_taps(move_dim(x, dim, 0), taps, most), taps, table), 0, dim);
}

Val resample_elements(const Val& x, int64_t dim, const Taps& taps) {
  if (taps.is_identity()) return x;
  std::vector<int64_t> positions;
  for (const auto& row : taps.rows) positions.push_back(row[0].position);
  return take_positions(x, dim, positions);
}

Val resample_bytes(const Val& x, int64_t dim, const Taps& taps) {
  if (taps.is_identity()) return x;
  const auto [one_each, largest] = merged(taps);
  const int precision = weight_precision(largest);
  const auto table = [&](const std::vector<double>& weights) {
    std::vector<int64_t> whole_weights;
    for (double w : weights) whole_weights.push_back(static_cast<int64_t>(w * (1 << precision) + (w < 0 ? -0.5 : 0.5)));
    return index_table(x.builder(), whole_weights);
  };
  const Val elements = convert(gather_taps(move_dim(x, dim, 0), one_each, widest(one_each)), DType::i32);
  const Val half = combine_taps(elements, one_each, table) + static_cast<double>(1 << precision >> 1);
  const Val rounded = binary(ir::Op::shift_right_arithmetic, half, like_int(half, precision));
  return move_dim(convert(clamp(rounded, 0, 255), DType::u8), 0, dim);
}

}  // namespace neuron::ops
