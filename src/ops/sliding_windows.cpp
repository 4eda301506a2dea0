#include "ops/sliding_windows.h"

#include <algorithm>
#include <numeric>

namespace neuron::ops {
namespace {

Val view(const Val& x, const Shape& shape, const Shape& strides, int64_t offset) {
  return {x.builder(), x.builder().strided_view(x.value(), shape, strides, offset)};
}

bool is_zero(const Shape& amounts) {
  return std::all_of(amounts.begin(), amounts.end(), [](int64_t n) { return n == 0; });
}

Val pad_if_needed(const Val& x, const Shape& low, const Shape& high, const Shape& interior) {
  return is_zero(low) && is_zero(high) && is_zero(interior) ? x : pad(x, 0, low, high, interior);
}

// The sum of views of x that start at offset + index * strides, for every index below `counts`. Few views are added one by
// one, which runs along their rows; many are one reduction.
Val add_views(const Val& x, const Shape& shape, const Shape& strides, int64_t offset, const Shape& counts,
              const Shape& count_strides) {
  constexpr int64_t kFew = 64;
  if (element_count(counts) > kFew) {
    Shape stacked = counts, stacked_strides = count_strides;
    stacked.insert(stacked.end(), shape.begin(), shape.end());
    stacked_strides.insert(stacked_strides.end(), strides.begin(), strides.end());
    std::vector<int64_t> added(counts.size());
    std::iota(added.begin(), added.end(), int64_t{0});
    return sum(view(x, stacked, stacked_strides, offset), added);
  }
  Shape offsets{offset};
  for (size_t i = 0; i < counts.size(); ++i) {
    Shape next;
    for (const int64_t o : offsets) {
      for (int64_t k = 0; k < counts[i]; ++k) next.push_back(o + k * count_strides[i]);
    }
    offsets = std::move(next);
  }
  Val total = view(x, shape, strides, offsets[0]);
  for (size_t i = 1; i < offsets.size(); ++i) total = total + view(x, shape, strides, offsets[i]);
  return total;
}

Shape first(const Shape& shape, size_t count) { return {shape.begin(), shape.begin() + static_cast<ptrdiff_t>(count)}; }

}  // namespace

int64_t positions_in(int64_t size, const Sliding& s) {
  const int64_t room = size + 2 * s.padding - s.span();
  return room < 0 ? 0 : room / s.stride + 1;
}

Val windows(const Val& x, const SlidingDims& dims) {
  const size_t lead = x.shape().size() - dims.size();
  Shape shape = first(x.shape(), lead), low(x.rank(), 0), high(x.rank(), 0);
  bool trivial = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Sliding& s = dims[i];
    const int64_t size = x.shape()[lead + i];
    low[lead + i] = s.padding;
    high[lead + i] = std::max<int64_t>((s.positions - 1) * s.stride + s.span() - s.padding - size, 0);
    shape.push_back(s.taps);
    trivial = trivial && s.trivial(size);
  }
  for (const Sliding& s : dims) shape.push_back(s.positions);
  if (element_count(shape) == 0) return full(x.builder(), x.dtype(), shape, 0);
  if (trivial) return reshape(x, shape);

  const Val padded = pad_if_needed(x, low, high, Shape(low.size(), 0));
  const Shape steps = contiguous_strides_of(padded.shape());
  Shape strides = first(steps, lead);
  for (size_t i = 0; i < dims.size(); ++i) strides.push_back(steps[lead + i] * dims[i].dilation);
  for (size_t i = 0; i < dims.size(); ++i) strides.push_back(steps[lead + i] * dims[i].stride);
  return view(padded, shape, strides, 0);
}

// Taps are seen as blocks of `stride` elements: block a, place b within it. Block a of window j falls on block j + a of the
// result, so a view whose rows are shifted against each other by one window holds, in its dim of blocks, exactly what one
// block of the result adds up; then places become the inner part of the result's dim. With stride 1 a block is a tap, and
// dilation is the shift; otherwise dilation fills the taps up with zeros.
Val overlap_add(const Val& pieces, const SlidingDims& dims, const Shape& sizes) {
  const size_t n = dims.size(), lead = pieces.shape().size() - 2 * n;
  const Shape outer = first(pieces.shape(), lead);
  Shape result = outer;
  result.insert(result.end(), sizes.begin(), sizes.end());
  if (pieces.elements() == 0) return full(pieces.builder(), pieces.dtype(), result, 0);

  const size_t rank = lead + 2 * n;
  Shape low(rank, 0), high(rank, 0), interior(rank, 0), blocks(n), shift(n), length(n);
  bool trivial = true;
  for (size_t i = 0; i < n; ++i) {
    const Sliding& s = dims[i];
    const bool dense = s.stride == 1;
    interior[lead + i] = dense ? 0 : s.dilation - 1;
    shift[i] = dense ? s.dilation : 1;
    blocks[i] = dense ? s.taps : (s.span() + s.stride - 1) / s.stride;
    high[lead + i] = dense ? 0 : blocks[i] * s.stride - s.span();
    low[lead + n + i] = high[lead + n + i] = (blocks[i] - 1) * shift[i];
    length[i] = s.positions + (blocks[i] - 1) * shift[i];
    trivial = trivial && s.trivial(sizes[i]);
  }
  if (trivial) return reshape(pieces, result);

  const Val padded = pad_if_needed(pieces, low, high, interior);
  const Shape steps = contiguous_strides_of(padded.shape());
  Shape shape = outer, strides = first(steps, lead), block_strides, stacked = outer, crop_low(lead, 0), crop_high(lead, 0);
  int64_t offset = 0;
  std::vector<int64_t> order(lead);
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t i = 0; i < n; ++i) {
    const int64_t position = steps[lead + n + i];
    shape.push_back(dims[i].stride);
    strides.push_back(steps[lead + i]);
    block_strides.push_back(steps[lead + i] * dims[i].stride - position * shift[i]);
    offset += position * (blocks[i] - 1) * shift[i];
    order.push_back(static_cast<int64_t>(lead + n + i));
    order.push_back(static_cast<int64_t>(lead + i));
    stacked.push_back(length[i] * dims[i].stride);
    crop_low.push_back(-dims[i].padding);
    crop_high.push_back(sizes[i] + dims[i].padding - length[i] * dims[i].stride);
  }
  for (size_t i = 0; i < n; ++i) {
    shape.push_back(length[i]);
    strides.push_back(steps[lead + n + i]);
  }
  const Val summed = add_views(padded, shape, strides, offset, blocks, block_strides);
  return pad_if_needed(reshape(transpose(summed, order), stacked), crop_low, crop_high, Shape(crop_low.size(), 0));
}

}  // namespace neuron::ops
