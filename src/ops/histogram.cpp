// histc, histogram and the parts of histogramdd.
//
// Not supported: dtypes CPU refuses; whether a range is finite and in order is checked by the caller
// (pytorch/dispatch/value_checks.cpp). bincount is composed there (counting.cpp), as its size depends on values.
#include <limits>

#include "ops/indexing.h"
#include "ops/search.h"
#include "ops/spacing.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

// --- ranges and edges; `x` is [M] ---

struct Range {
  Val low, high;  // 0-dim
};

Range range_of(const Val& x) {
  if (x.elements() == 0) return {full(x.builder(), x.dtype(), {}, 0), full(x.builder(), x.dtype(), {}, 1)};
  return {reduce(Reducer::minimum, x, {0}), reduce(Reducer::maximum, x, {0})};
}

// A range of one number is widened to both sides.
Range widened(const Range& r, double by) {
  const Val same = eq(r.low, r.high);
  return {where(same, r.low - by, r.low), where(same, r.high + by, r.high)};
}

Val number(const Val& like, const ScalarArg& s) {
  ir::Builder& b = like.builder();
  return convert(s.value.present() ? Val(b, s.value) : full(b, DType::f64, {}, s.known ? s.known->real() : 0), like.dtype());
}

// Argument `range` holds two numbers per dimension.
Range asked_range(Lowering& l, const Val& x, int64_t dimension) {
  const auto* given = l.has("range") ? std::get_if<std::vector<ScalarArg>>(l.argument("range")) : nullptr;
  const Range r = given ? Range{number(x, (*given)[2 * dimension]), number(x, (*given)[2 * dimension + 1])} : range_of(x);
  return widened(r, 0.5);
}

// The bins of one coordinate: edges [bins + 1], and the range if they are evenly spaced in one.
struct Axis {
  Val edges;
  std::optional<Range> spaced;
  int64_t bins() const { return edges.size(0) - 1; }
};

Axis spaced_axis(Lowering& l, const Val& x, int64_t dimension, int64_t bins) {
  const Range r = asked_range(l, x, dimension);
  return {evenly_spaced(r.low, r.high, bins + 1), r};
}

// The last edge that is not above x. Among evenly spaced ones interpolation comes within one of it.
Val last_edge_before(const Axis& axis, const Val& x) {
  if (!axis.spaced) return convert(search_sorted(axis.edges, x, Side::right), DType::i64) - 1;
  const auto& [low, high] = *axis.spaced;
  const int64_t bins = axis.bins();
  const Val near =
      convert(clamp((x - low) / (high - low) * static_cast<double>(bins), 0, static_cast<double>(bins)), DType::i64);
  const auto edge = [&](const Val& place) { return spaced_at(low, high, bins + 1, place); };
  const Val up = convert(ge(x, edge(near + 1)), DType::i64), down = convert(lt(x, edge(near)), DType::i64);
  return near + up - down;
}

// --- counting ---

// Values outside [low, high] and NaNs are counted nowhere; the last bin holds its upper end.
Val bin_or_outside(const Val& x, const Val& bin, const Val& low, const Val& high, int64_t bins) {
  const Val last = minimum(bin, like_int(bin, bins - 1));
  return where(ge(x, low) & le(x, high), last, like_int(bin, bins));
}

// How often each bin is named, or the sum of the weights that name it. Bins outside are dropped. Counts are exact until they
// are rounded to `dtype`.
Val tally(const Val& bin, const Val& weight, int64_t bins, DType dtype) {
  const DType t = weight.present() ? weight.dtype() : DType::i64;
  ir::Builder& b = bin.builder();
  if (bin.elements() == 0) return full(b, dtype, {bins}, 0);
  const Val zeros = full_int(b, t, {bins}, 0), added = weight.present() ? weight : full_int(b, t, bin.shape(), 1);
  ir::ScatterAttrs s;
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  s.combine = Reducer::add;
  s.check_bounds = false;
  return convert(Val(b, b.scatter(zeros.value(), bin.value(), added.value(), s)), dtype);
}

// --- histc: bins by linear interpolation, each step rounded to the tensor's dtype as CPU does. Integers, which CPU refuses
// and accelerators accept (transformers count tokens per expert so), in exact integer arithmetic. ---

std::optional<Metas> histc_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  if (is_complex(x.dtype) || x.dtype == DType::boolean || l.int_("bins", 100) < 1) return std::nullopt;
  return one(contiguous_meta(x.dtype, {l.int_("bins", 100)}));
}

Val histc(Lowering& l) {
  if (!histc_result(l)) return l.unsupported("a histogram of this dtype");
  const DType stored = l.meta("self").dtype, t = is_floating(stored) ? stored : DType::i64, math = opmath(t);
  const Val x = convert(flatten(l.raw("self")), t);
  const int64_t bins = l.int_("bins", 100);
  const Range given{l.scalar("min", t), l.scalar("max", t)}, own = range_of(x);
  const Val unset = eq(given.low, given.high);
  const Range r = widened({where(unset, own.low, given.low), where(unset, own.high, given.high)}, 1);
  if (!is_floating(t)) {
    const Val bin = (x - r.low) * static_cast<double>(bins) / (r.high - r.low);
    return convert(tally(bin_or_outside(x, bin, r.low, r.high, bins), Val(), bins, t), stored);
  }
  const auto rounded = [&](const Val& v) { return convert(convert(v, t), math); };
  const auto distance = [&](const Val& v) { return rounded(convert(v, math) - convert(r.low, math)); };
  const Val bin = rounded(rounded(distance(x) * static_cast<double>(bins)) / distance(r.high));
  return tally(bin_or_outside(x, convert(bin, DType::i64), r.low, r.high, bins), Val(), bins, t);
}

// --- histogram and histogramdd ---

bool is_histogram_dtype(DType t) { return t == DType::f32 || t == DType::f64; }

bool weight_fits(const Lowering& l, const Shape& shape) {
  return !l.tensor("weight") || (l.meta("weight").shape == shape && l.meta("weight").dtype == l.meta("self").dtype);
}

// [M, D] points; axes[d] are the bins of coordinate d. Returns the histogram with one dim per coordinate.
Val histogram_of(Lowering& l, const Val& points, const std::vector<Axis>& axes) {
  Shape shape;
  for (const Axis& a : axes) shape.push_back(a.bins());
  const int64_t total = element_count(shape);
  const Shape strides = contiguous_strides_of(shape);
  Val place, inside;
  for (size_t d = 0; d < axes.size(); ++d) {
    const Val x = select(points, 1, static_cast<int64_t>(d)), &edges = axes[d].edges;
    const Val bin =
        bin_or_outside(x, last_edge_before(axes[d], x), select(edges, 0, 0), select(edges, 0, shape[d]), shape[d]);
    const Val counted = lt(bin, static_cast<double>(shape[d])), offset = bin * like_int(bin, strides[d]);
    place = d == 0 ? offset : place + offset;
    inside = d == 0 ? counted : inside & counted;
  }
  place = where(inside, place, like_int(place, total));
  const Val weight = l.has("weight") ? flatten(l.raw("weight")) : Val();
  Val histogram = reshape(tally(place, weight, total, points.dtype()), shape);
  if (!l.flag("density")) return histogram;
  histogram = histogram / sum(histogram, all_dims(histogram));
  for (size_t d = 0; d < axes.size(); ++d) {
    const Val& edges = axes[d].edges;
    Shape along(shape.size(), 1);
    along[d] = shape[d];
    histogram = histogram / reshape(slice(edges, 0, 1, shape[d] + 1) - slice(edges, 0, 0, shape[d]), along);
  }
  return histogram;
}

std::optional<Metas> histogram_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  const bool tensor = l.tensor("bins") != nullptr;
  if (!is_histogram_dtype(x.dtype) || !weight_fits(l, x.shape)) return std::nullopt;
  if (tensor && (l.meta("bins").shape.size() != 1 || l.meta("bins").dtype != x.dtype)) return std::nullopt;
  const int64_t bins = tensor ? l.meta("bins").shape[0] - 1 : l.int_("bins", 100);
  if (bins < 1) return std::nullopt;
  return Metas{contiguous_meta(x.dtype, {bins}), contiguous_meta(x.dtype, {bins + 1})};
}

std::vector<Val> histogram(Lowering& l) {
  if (!histogram_result(l)) return {l.unsupported("a histogram of these operands"), Val()};
  const Val x = flatten(l.raw("self"));
  const Axis axis = l.tensor("bins") ? Axis{l.raw("bins"), {}} : spaced_axis(l, x, 0, l.int_("bins", 100));
  return {histogram_of(l, unsqueeze(x, 1), {axis}), axis.edges};
}

// Numbers of bins, one per coordinate, from a list of numbers or of edges.
std::optional<Shape> bin_counts(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  if (!is_histogram_dtype(x.dtype) || x.shape.size() < 2) return std::nullopt;
  if (!weight_fits(l, Shape(x.shape.begin(), x.shape.end() - 1))) return std::nullopt;
  Shape counts = l.ints("bins");
  for (const auto& edges : l.list("bins")) {
    if (!edges || edges->meta.shape.size() != 1 || edges->meta.dtype != x.dtype) return std::nullopt;
    counts.push_back(edges->meta.shape[0] - 1);
  }
  if (static_cast<int64_t>(counts.size()) != x.shape.back()) return std::nullopt;
  for (const int64_t n : counts) {
    if (n < 1) return std::nullopt;
  }
  return counts;
}

Val points_of(Lowering& l) {
  const Val x = l.raw("self");
  return reshape(x, {x.elements() / std::max<int64_t>(x.size(-1), 1), x.size(-1)});
}

std::vector<Axis> spaced_axes(Lowering& l, const Val& points, const Shape& counts) {
  std::vector<Axis> axes;
  for (size_t d = 0; d < counts.size(); ++d) {
    const auto axis = static_cast<int64_t>(d);
    axes.push_back(spaced_axis(l, select(points, 1, axis), axis, counts[d]));
  }
  return axes;
}

void register_dimensional(Registry& registry) {
  NEURON_OP("aten::_histogramdd_bin_edges", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const auto counts = bin_counts(l);
              if (!counts) return std::nullopt;
              Metas metas;
              for (const int64_t n : *counts) metas.emplace_back(contiguous_meta(l.meta("self").dtype, {n + 1}));
              return metas;
            })),
            [](Lowering& l) {
              const auto counts = bin_counts(l);
              if (!counts) return std::vector<Val>{l.unsupported("a histogram of these operands")};
              std::vector<Val> edges;
              for (const Axis& a : spaced_axes(l, points_of(l), *counts)) edges.push_back(a.edges);
              return edges;
            });
  const auto histogram_shape = ResultRule([](const Lowering& l) -> std::optional<Metas> {
    const auto counts = bin_counts(l);
    return counts ? std::optional<Metas>(one(contiguous_meta(l.meta("self").dtype, *counts))) : std::nullopt;
  });
  NEURON_OP("aten::_histogramdd_from_bin_cts", no_promotion(), histogram_shape, [](Lowering& l) {
    const auto counts = bin_counts(l);
    if (!counts) return l.unsupported("a histogram of these operands");
    const Val points = points_of(l);
    return histogram_of(l, points, spaced_axes(l, points, *counts));
  });
  NEURON_OP("aten::_histogramdd_from_bin_tensors", no_promotion(), histogram_shape, [](Lowering& l) {
    if (!bin_counts(l)) return l.unsupported("a histogram of these operands");
    std::vector<Axis> axes;
    for (const Val& edges : l.tensors("bins")) axes.push_back({edges, {}});
    return histogram_of(l, points_of(l), axes);
  });
}

}  // namespace

void register_histogram(Registry& registry) {
  NEURON_OP("aten::histc", no_promotion(), result(histc_result), histc);
  NEURON_OP("aten::histogram.bin_ct", no_promotion(), result(histogram_result), histogram);
  NEURON_OP("aten::histogram.bins_tensor", no_promotion(), result(histogram_result), histogram);
  register_dimensional(registry);
}

}  // namespace neuron::ops
