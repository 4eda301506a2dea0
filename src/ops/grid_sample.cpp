// grid_sampler_2d and 3d (bilinear, nearest, bicubic; zeros, border, reflection padding) and their gradients.
//
// Not supported: an input and a grid of different dtypes.
#include <limits>

#include "ops/indexing.h"
#include "ops/pooling.h"

namespace neuron::ops {
namespace {

using ir::Op;
using ir::Reducer;

// PyTorch's numbers.
enum Mode : int64_t { kBilinear = 0, kNearest = 1, kBicubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

struct Sampler {
  size_t spatial;
  int64_t mode, padding;
  bool align_corners;
};

Sampler sampler(const Lowering& l, size_t spatial) {
  return {spatial, l.int_("interpolation_mode"), l.int_("padding_mode"), l.flag("align_corners")};
}

// A number along one dimension and its derivative by the grid's coordinate.
struct Place {
  Val at, slope;
};

// One element that a point reads along one dimension: where it lies (whole numbers, in the tensor's float type), its weight
// and the weight's derivative by the position.
struct Tap {
  Val position, weight, slope;
};

Val zero_like(const Val& x) { return like(x, 0); }

// [-1, 1] to positions of elements.
Place unnormalized(const Val& coordinate, int64_t size, bool align_corners) {
  const double factor = static_cast<double>(align_corners ? size - 1 : size) / 2;
  const Val at = (coordinate + 1.0) * factor;
  return {align_corners ? at : at - 0.5, like(coordinate, factor)};
}

Place clipped(const Place& p, int64_t size) {
  const double last = static_cast<double>(size - 1);
  const Val above = gt(p.at, 0.0), below = lt(p.at, last);  // NaN becomes 0
  const Val at = where(above, where(below, p.at, like(p.at, last)), zero_like(p.at));
  return {at, where(above & below, p.slope, zero_like(p.slope))};
}

Place reflected(const Place& p, int64_t size, bool align_corners) {
  const double shift = align_corners ? 0 : 0.5, period = 2 * static_cast<double>(align_corners ? size - 1 : size);
  if (period == 0) return {zero_like(p.at), zero_like(p.slope)};
  const Val from_edge = p.at + shift, distance = abs(from_edge);
  const Val extra = distance - unary(Op::trunc, distance / period) * period, back = period - extra;
  const Val turned = lt(from_edge, 0.0) ^ gt(extra, back);
  return {minimum(extra, back) - shift, where(turned, -p.slope, p.slope)};
}

Place padded(const Place& p, int64_t size, const Sampler& s) {
  if (s.padding == kZeros) return p;
  return clipped(s.padding == kReflection ? reflected(p, size, s.align_corners) : p, size);
}

// Weights of the elements at -1, 0, 1, 2 from the one before the point, and their derivatives by the part t behind it.
std::vector<std::pair<Val, Val>> cubic_weights(const Val& t) {
  constexpr double a = -0.75;
  const auto near = [&](const Val& x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  const auto far = [&](const Val& x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto near_slope = [&](const Val& x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
  const auto far_slope = [&](const Val& x) { return (3 * a * x - 10 * a) * x + 8 * a; };
  const Val u = 1.0 - t;
  return {{far(t + 1.0), far_slope(t + 1.0)},
          {near(t), near_slope(t)},
          {near(u), -near_slope(u)},
          {far(u + 1.0), -far_slope(u + 1.0)}};
}

struct Axis {
  std::vector<Tap> taps;
  Val slope;  // of the position, by the grid's coordinate
};

Axis axis(const Val& coordinate, int64_t size, const Sampler& s) {
  const Place place = unnormalized(coordinate, size, s.align_corners);
  if (s.mode == kBicubic) {
    const Val before = unary(Op::floor, place.at);
    Axis out{{}, place.slope};
    double offset = -1;
    for (const auto& [weight, slope] : cubic_weights(place.at - before)) {
      out.taps.push_back({padded({before + offset, place.slope}, size, s).at, weight, slope});
      offset += 1;
    }
    return out;
  }
  const Place at = padded(place, size, s);
  if (s.mode == kNearest) return {{{unary(Op::round_nearest_even, at.at), like(at.at, 1), zero_like(at.at)}}, at.slope};
  const Val before = unary(Op::floor, at.at), part = at.at - before;
  return {{{before, 1.0 - part, like(part, -1)}, {before + 1.0, part, like(part, 1)}}, at.slope};
}

// All elements that the points read: one entry per combination of the axes' taps. Points are [N, places].
struct Reads {
  std::vector<Axis> axes;
  std::vector<std::vector<size_t>> combinations;  // a tap of every axis
  Val rows;                                       // [combinations, N, places]: row of the input as [N * volume, channels]
  std::vector<Val> inside;                        // bool [N, places]

  Val weight(size_t combination) const { return product(combination, axes.size()); }
  // The derivative of a combination's weight by the position along one axis.
  Val slope(size_t combination, size_t axis) const { return product(combination, axis); }

 private:
  Val product(size_t combination, size_t derived) const {
    Val total;
    for (size_t d = 0; d < axes.size(); ++d) {
      const Tap& tap = axes[d].taps[combinations[combination][d]];
      const Val& factor = d == derived ? tap.slope : tap.weight;
      total = total.present() ? total * factor : factor;
    }
    return total;
  }
};

Reads reads(const Val& grid, const Shape& input, const Sampler& s) {
  Reads out;
  const Shape volume = spatial_of(input, s.spatial), inner = contiguous_strides_of(volume);
  const int64_t n = input[0], places = grid.elements() / n / static_cast<int64_t>(s.spatial);
  const Val points = reshape(grid, {n, places, static_cast<int64_t>(s.spatial)});
  const DType index = n * element_count(volume) > std::numeric_limits<int32_t>::max() ? DType::i64 : DType::i32;
  std::vector<std::vector<Val>> valid(s.spatial), offset(s.spatial);
  out.combinations = {{}};
  for (size_t d = 0; d < s.spatial; ++d) {
    out.axes.push_back(axis(select(points, 2, static_cast<int64_t>(s.spatial - 1 - d)), volume[d], s));
    std::vector<std::vector<size_t>> longer;
    for (const auto& combination : out.combinations) {
      for (size_t t = 0; t < out.axes[d].taps.size(); ++t) {
        longer.push_back(combination);
        longer.back().push_back(t);
      }
    }
    out.combinations = std::move(longer);
    for (const Tap& tap : out.axes[d].taps) {
      const Val in = ge(tap.position, 0.0) & le(tap.position, static_cast<double>(volume[d] - 1));
      valid[d].push_back(in);
      offset[d].push_back(convert(where(in, tap.position, zero_like(tap.position)), index) * static_cast<double>(inner[d]));
    }
  }
  const Val sample = iota(grid.builder(), index, {n, places}, 0) * static_cast<double>(element_count(volume));
  std::vector<Val> rows;
  for (const auto& combination : out.combinations) {
    Val row = sample, inside;
    for (size_t d = 0; d < s.spatial; ++d) {
      row = row + offset[d][combination[d]];
      const Val& in = valid[d][combination[d]];
      inside = inside.present() ? inside & in : in;
    }
    rows.push_back(unsqueeze(row, 0));
    out.inside.push_back(inside);
  }
  out.rows = concatenate(rows, 0);
  return out;
}

// [N, C, spatial..] to [N, places, C] and back.
Val channels_behind(const Val& x) {
  return swap_dims(reshape(x, {x.size(0), x.size(1), x.elements() / x.size(0) / x.size(1)}), 1, 2);
}
Val channels_in_front(const Val& x, const Shape& shape) { return reshape(swap_dims(x, 1, 2), shape); }

// [combinations, N, places, C]
Val read_elements(const Val& input, const Reads& r) {
  const Val rows = channels_behind(input);
  return take_slices(reshape(rows, {rows.size(0) * rows.size(1), rows.size(2)}), r.rows, 0);
}

// What a combination reads, 0 outside of the input.
Val element(const Val& elements, const Reads& r, size_t combination) {
  const Val v = select(elements, 0, static_cast<int64_t>(combination));
  return where(unsqueeze(r.inside[combination], 2), v, full(v.builder(), v.dtype(), {}, 0));
}

bool accepts(const Lowering& l, const Sampler& s) {
  const TensorMeta &x = l.meta("input"), &grid = l.meta("grid");
  const size_t rank = s.spatial + 2;
  if (x.shape.size() != rank || grid.shape.size() != rank || !is_floating(x.dtype) || grid.dtype != x.dtype) return false;
  if (x.shape[0] != grid.shape[0] || grid.shape.back() != static_cast<int64_t>(s.spatial)) return false;
  if (s.mode < kBilinear || s.mode > (s.spatial == 2 ? kBicubic : kNearest)) return false;
  if (s.padding < kZeros || s.padding > kReflection) return false;
  return element_count(spatial_of(x.shape, s.spatial)) > 0;
}

Shape sampled_shape(const Shape& input, const Shape& grid) {
  Shape shape = input;
  std::copy(grid.begin() + 1, grid.end() - 1, shape.begin() + 2);
  return shape;
}

std::optional<Metas> sample_result(const Lowering& l, size_t spatial) {
  const TensorMeta& x = l.meta("input");
  if (!accepts(l, sampler(l, spatial))) return std::nullopt;
  return one(contiguous_meta(x.dtype, sampled_shape(x.shape, l.meta("grid").shape)));
}

Val sample(Lowering& l, size_t spatial) {
  const Val input = l.raw("input"), grid = l.raw("grid");
  const Shape shape = sampled_shape(input.shape(), grid.shape());
  if (element_count(shape) == 0) return full(l.builder(), input.dtype(), shape, 0);
  const DType t = opmath(input.dtype());
  const Reads r = reads(convert(grid, t), input.shape(), sampler(l, spatial));
  const Val elements = convert(read_elements(input, r), t);
  Val total;
  for (size_t i = 0; i < r.combinations.size(); ++i) {
    const Val part = element(elements, r, i) * unsqueeze(r.weight(i), 2);
    total = total.present() ? total + part : part;
  }
  return convert(channels_in_front(total, shape), input.dtype());
}

bool wants_input_gradient(const Lowering& l) {
  const auto* mask = l.argument("output_mask") ? std::get_if<std::vector<bool>>(l.argument("output_mask")) : nullptr;
  return !mask || mask->empty() || (*mask)[0];
}

// The grid's gradient is made whether it is asked for or not, as on CPU.
std::optional<Metas> sample_backward_result(const Lowering& l, size_t spatial) {
  const TensorMeta &x = l.meta("input"), &grid = l.meta("grid"), &grad = l.meta("grad_output");
  if (!accepts(l, sampler(l, spatial)) || grad.dtype != x.dtype) return std::nullopt;
  if (grad.shape != sampled_shape(x.shape, grid.shape)) return std::nullopt;
  Metas metas{std::nullopt, contiguous_meta(grid.dtype, grid.shape)};
  if (wants_input_gradient(l)) metas[0] = contiguous_meta(x.dtype, x.shape);
  return metas;
}

std::vector<Val> sample_backward(Lowering& l, size_t spatial) {
  const Val input = l.raw("input"), grid = l.raw("grid"), grad = l.raw("grad_output");
  const DType t = opmath(input.dtype());
  const Sampler s = sampler(l, spatial);
  std::vector<Val> results(2);
  if (grad.elements() == 0) {
    if (wants_input_gradient(l)) results[0] = zero_like(input);
    results[1] = zero_like(grid);
    return results;
  }
  const Reads r = reads(convert(grid, t), input.shape(), s);
  const Val g = convert(channels_behind(grad), t);  // [N, places, C]
  const int64_t n = input.size(0), channels = input.size(1), volume = input.elements() / n / channels;
  if (wants_input_gradient(l)) {
    std::vector<Val> updates;
    for (size_t i = 0; i < r.combinations.size(); ++i) {
      const Val update = g * unsqueeze(r.weight(i), 2);
      updates.push_back(unsqueeze(where(unsqueeze(r.inside[i], 2), update, full(l.builder(), t, {}, 0)), 0));
    }
    const Val all = reshape(concatenate(updates, 0), {r.rows.elements(), channels});
    const Val nothing = full(l.builder(), t, {n * volume, channels}, 0);
    const Val total = scatter_slices(nothing, flatten(r.rows), all, 0, Reducer::add);
    results[0] = convert(channels_in_front(reshape(total, {n, volume, channels}), input.shape()), input.dtype());
  }
  if (s.mode == kNearest) {
    results[1] = zero_like(grid);
    return results;
  }
  const Val elements = convert(read_elements(input, r), t);
  std::vector<Val> gradient(spatial);
  for (size_t i = 0; i < r.combinations.size(); ++i) {
    const Val agreement = sum(element(elements, r, i) * g, {2});  // [N, places]
    for (size_t d = 0; d < spatial; ++d) {
      const Val part = agreement * r.slope(i, d);
      gradient[d] = gradient[d].present() ? gradient[d] + part : part;
    }
  }
  std::vector<Val> coordinates;
  for (size_t d = spatial; d-- > 0;) coordinates.push_back(unsqueeze(gradient[d] * r.axes[d].slope, 2));
  results[1] = convert(reshape(concatenate(coordinates, 2), grid.shape()), grid.dtype());
  return results;
}

}  // namespace

void register_grid_sample(Registry& registry) {
  for (const size_t spatial : {size_t{2}, size_t{3}}) {
    const std::string name = spatial == 2 ? "aten::grid_sampler_2d" : "aten::grid_sampler_3d";
    NEURON_OP(name, no_promotion(), ResultRule([spatial](const Lowering& l) { return sample_result(l, spatial); }),
              [spatial](Lowering& l) { return sample(l, spatial); });
    NEURON_OP(name + "_backward", no_promotion(),
              ResultRule([spatial](const Lowering& l) { return sample_backward_result(l, spatial); }),
              [spatial](Lowering& l) { return sample_backward(l, spatial); });
  }
}

}  // namespace neuron::ops
