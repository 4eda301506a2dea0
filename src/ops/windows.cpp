#include "ops/windows.h"

#include <algorithm>

#include "ops/tables.h"

namespace neuron::ops {

static constexpr int64_t kShortWindow = 8;  // combined element by element

int64_t Windows::high_padding() const {
  if (!starts.empty()) return 0;
  return std::max<int64_t>(0, start(count - 1) + (kernel - 1) * dilation + 1 - size);
}

std::optional<Windows> sliding_windows(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                                       bool ceil_mode) {
  if (size <= 0 || kernel <= 0 || stride <= 0 || dilation <= 0 || padding < 0) return std::nullopt;
  if (padding > ((kernel - 1) * dilation + 1) / 2) return std::nullopt;
  const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
  if (room < 0 && !(ceil_mode && room + stride - 1 >= 0)) return std::nullopt;
  int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + padding) --count;  // the last one must begin inside
  if (count < 1) return std::nullopt;
  return Windows{size, count, kernel, stride, dilation, padding, {}, {}};
}

Windows adaptive_windows(int64_t size, int64_t count) {
  Windows w{size, count, 1, 1, 1, 0, {}, {}};
  if (size % count == 0) {
    w.kernel = w.stride = size / count;
    return w;
  }
  for (int64_t i = 0; i < count; ++i) {
    w.starts.push_back(i * size / count);
    w.lengths.push_back(((i + 1) * size + count - 1) / count - w.starts.back());
  }
  w.kernel = *std::min_element(w.lengths.begin(), w.lengths.end());
  return w;
}

static Parts each(const Parts& x, const std::function<Val(const Val&)>& f) {
  Parts out;
  for (const Val& v : x) out.push_back(f(v));
  return out;
}

static Parts every(const Parts& x, int64_t dim, int64_t start, int64_t count, int64_t step) {
  return each(x, [&](const Val& v) { return slice(v, dim, start, start + (count - 1) * step + 1, step); });
}

// Windows of equal length, `stride` apart.
static Parts combine_regular(const Parts& x, int64_t dim, const Windows& w, const Combine& combine) {
  if (w.kernel <= kShortWindow) {
    Parts result = every(x, dim, 0, w.count, w.stride);
    for (int64_t t = 1; t < w.kernel; ++t) {
      result = combine(result, every(x, dim, t * w.dilation, w.count, w.stride), t);
    }
    return result;
  }
  // power: windows of `length` elements at every position; the kernel is put together from its powers of two.
  Parts power = x, result;
  for (int64_t length = 1, done = 0;; length *= 2) {
    if (w.kernel & length) {
      const Parts piece = every(power, dim, done * w.dilation, w.count, w.stride);
      result = result.empty() ? piece : combine(result, piece, done);
      done += length;
    }
    if (done == w.kernel) return result;
    const int64_t shift = length * w.dilation, left = power[0].size(dim) - shift;
    power = combine(every(power, dim, 0, left, 1), every(power, dim, shift, left, 1), length);
  }
}

Parts combine_windows(const Parts& x, int64_t dim, const Windows& w, const Combine& combine) {
  if (w.starts.empty()) return combine_regular(x, dim, w, combine);
  const auto at = [&](const Parts& from, const std::vector<int64_t>& positions) {
    return each(from, [&](const Val& v) { return take_positions(v, dim, positions); });
  };
  // What all windows have, then the elements that only the longer ones have.
  const Windows shortest{w.size, w.size - w.kernel + 1, w.kernel, 1, 1, 0, {}, {}};
  Parts result = at(combine_regular(x, dim, shortest, combine), w.starts);
  const int64_t longest = *std::max_element(w.lengths.begin(), w.lengths.end());
  for (int64_t t = w.kernel; t < longest; ++t) {
    std::vector<int64_t> positions;
    std::vector<bool> has;
    for (size_t i = 0; i < w.starts.size(); ++i) {
      positions.push_back(w.starts[i] + std::min(t, w.lengths[i] - 1));
      has.push_back(t < w.lengths[i]);
    }
    const Parts longer = combine(result, at(x, positions), t);
    const Val mask = along(mask_table(x[0].builder(), has), dim, x[0].rank());
    for (size_t i = 0; i < result.size(); ++i) result[i] = where(mask, longer[i], result[i]);
  }
  return result;
}

// Taps are counted in f32, the engines' own number, where it is exact.
Parts with_taps(Parts parts, const Windows& w) {
  const DType count = w.size + 2 * w.padding < (1 << 24) ? DType::f32 : DType::i32;
  parts.push_back(full_int(parts[0].builder(), count, parts[0].shape(), 0));
  return parts;
}

Combine first_maximum() {
  return [](const Parts& a, const Parts& b, int64_t distance) {
    const Val takes = gt(b[0], a[0]) | is_nan(b[0]);
    Parts out;
    for (size_t i = 0; i < a.size(); ++i) {
      const bool tap = i + 1 == a.size();  // along the dimension being combined
      out.push_back(where(takes, tap ? b[i] + like_int(b[i], distance) : b[i], a[i]));
    }
    return out;
  };
}

Val sum_windows(const Val& x, int64_t dim, const Windows& windows) {
  const Combine add = [](const Parts& a, const Parts& b, int64_t) { return Parts{a[0] + b[0]}; };
  return combine_windows({x}, dim, windows, add)[0];
}

}  // namespace neuron::ops
