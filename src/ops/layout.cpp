#include "ops/layout.h"

#include <algorithm>
#include <numeric>

namespace neuron::ops {

std::optional<MemoryFormat> memory_format_from_int(int64_t value) {
  switch (value) {
    case 0:
      return MemoryFormat::contiguous;
    case 1:
      return MemoryFormat::preserve;
    case 2:
      return MemoryFormat::channels_last;
    case 3:
      return MemoryFormat::channels_last_3d;
    default:
      return std::nullopt;
  }
}

int64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Shape contiguous_strides_of(const Shape& shape) {
  Shape strides(shape.size());
  int64_t next = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = next;
    next *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

Shape channels_last_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::vector<size_t> order{1};  // fastest first: C, then W, H, (D), N
  for (size_t d = shape.size() - 1; d >= 2; --d) order.push_back(d);
  order.push_back(0);
  int64_t next = 1;
  for (size_t d : order) {
    strides[d] = next;
    next *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Shape& strides) {
  if (element_count(shape) == 0) return true;
  int64_t next = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (strides[d] != next) return false;
    next *= shape[d];
  }
  return true;
}

bool is_channels_last(const Shape& shape, const Shape& strides) {
  if (shape.size() != 4 && shape.size() != 5) return false;
  int64_t next = 1;
  auto step = [&](size_t d) {
    if (shape[d] == 1) return true;
    if (strides[d] != next) return false;
    next *= shape[d];
    return true;
  };
  if (!step(1)) return false;
  for (size_t d = shape.size() - 1; d >= 2; --d) {
    if (!step(d)) return false;
  }
  return step(0);
}

bool is_dense(const Shape& shape, const Shape& strides) {
  if (is_contiguous(shape, strides)) return true;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (shape[a] < 2) return false;
    if (shape[b] < 2) return true;
    return strides[a] < strides[b];
  });
  int64_t next = 1;
  for (size_t d : order) {
    if (shape[d] < 2) return true;
    if (strides[d] != next) return false;
    next *= shape[d];
  }
  return true;
}

// c10::is_channels_last_strides_{2d,3d}: looser than contiguity, used by suggest_memory_format only.
static bool strides_look_channels_last(const Shape& shape, const Shape& strides) {
  if (shape.size() != 4 && shape.size() != 5) return false;
  if (strides[1] == 0) return false;
  int64_t least = 0;
  std::vector<size_t> order{1};
  for (size_t d = shape.size() - 1; d >= 2; --d) order.push_back(d);
  order.push_back(0);
  for (size_t d : order) {
    if (shape[d] == 0 || strides[d] < least) return false;
    if (d == 0 && least == strides[1]) return false;  // N111 and the like stay contiguous
    least = strides[d];
    if (shape[d] > 1) least *= shape[d];
  }
  return true;
}

MemoryFormat suggested_format(const Shape& shape, const Shape& strides) {
  if (!strides_look_channels_last(shape, strides)) return MemoryFormat::contiguous;
  return shape.size() == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
}

// The insertion sort of TensorIterator and of infer_dense_strides: dims from fastest to slowest. `compare` < 0: stay, > 0:
// swap, 0: ambiguous (look further).
template <class Compare>
static std::vector<size_t> sorted_dims(size_t rank, Compare compare) {
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  for (size_t i = 1; i < rank; ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      const int c = compare(order[j], order[moving]);
      if (c > 0) {
        std::swap(order[j], order[moving]);
        moving = j;
      } else if (c < 0) {
        break;
      }
    }
  }
  return order;
}

Shape preserved_strides(const Shape& shape, const Shape& strides) {
  if (is_dense(shape, strides)) return strides;
  const auto order = sorted_dims(shape.size(), [&](size_t a, size_t b) {
    if (strides[a] == 0 || strides[b] == 0) return 0;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    return shape[a] > shape[b] ? 1 : 0;
  });
  Shape out(shape.size());
  int64_t next = 1;
  for (size_t d : order) {
    out[d] = next;
    if (shape[d] > 1) next *= shape[d];
  }
  return out;
}

Shape strides_for(MemoryFormat format, const Shape& shape, const Shape& input_strides) {
  switch (format) {
    case MemoryFormat::contiguous:
      return contiguous_strides_of(shape);
    case MemoryFormat::preserve:
      return preserved_strides(shape, input_strides);
    default:
      return channels_last_strides(shape);
  }
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < out.size() - a.size() ? 1 : a[i - (out.size() - a.size())];
    const int64_t y = i < out.size() - b.size() ? 1 : b[i - (out.size() - b.size())];
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[i] = x == 1 ? y : x;
  }
  return out;
}

// Strides of an operand seen with the broadcast shape: 0 where it is repeated.
static Shape broadcast_strides(const Operand& operand, const Shape& shape) {
  Shape out(shape.size(), 0);
  const size_t lead = shape.size() - operand.shape.size();
  for (size_t i = 0; i < operand.shape.size(); ++i) {
    out[lead + i] = operand.shape[i] == 1 && shape[lead + i] != 1 ? 0 : operand.strides[i];
  }
  return out;
}

Shape iterator_strides(const Shape& shape, std::span<const Operand> inputs) {
  const bool same_shapes =
      std::all_of(inputs.begin(), inputs.end(), [&](const Operand& o) { return o.shape == shape; }) && !inputs.empty();
  if (same_shapes) {
    auto all = [&](auto&& test) {
      return std::all_of(inputs.begin(), inputs.end(), [&](const Operand& o) { return test(o.shape, o.strides); });
    };
    if (all(is_contiguous)) return contiguous_strides_of(shape);
    if (shape.size() == 4 && all(is_channels_last)) return channels_last_strides(shape);
    if (all(is_dense) && all([&](const Shape&, const Shape& s) { return s == inputs[0].strides; })) return inputs[0].strides;
  }
  if (shape.size() <= 1) return contiguous_strides_of(shape);
  std::vector<Shape> strides;
  for (const Operand& o : inputs) strides.push_back(broadcast_strides(o, shape));
  const auto order = sorted_dims(shape.size(), [&](size_t a, size_t b) {
    for (const Shape& s : strides) {
      if (s[a] == 0 || s[b] == 0) continue;
      if (s[a] != s[b]) return s[a] < s[b] ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  });
  bool inverted = true;
  for (size_t j = 0; j < order.size(); ++j) inverted = inverted && order[j] == shape.size() - 1 - j;
  if (inverted) return contiguous_strides_of(shape);
  Shape out(shape.size());
  int64_t next = 1;
  for (size_t d : order) {
    out[d] = next;
    next *= shape[d];
  }
  return out;
}

}  // namespace neuron::ops
