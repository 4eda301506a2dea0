// Average and maximum pooling over 2 or 3 dimensions, sliding and adaptive, and their gradients. The 1-d forms reach these.
//
// Not supported: bool and complex (nor by CPU). Gradients in f16 and bf16 are added up in f32 and rounded once; CPU's max
// pooling rounds after each addition.
#include "ops/pooling.h"

#include <algorithm>
#include <limits>

#include "ops/indexing.h"
#include "ops/tables.h"
#include "ops/windows.h"

namespace neuron::ops {

std::vector<int64_t> per_dim(const Lowering& l, std::string_view name, size_t spatial, int64_t otherwise) {
  std::vector<int64_t> values = l.ints(name);
  if (values.empty()) values.push_back(otherwise);
  return values.size() == 1 ? std::vector<int64_t>(spatial, values[0]) : values;
}

Shape spatial_of(const Shape& shape, size_t spatial) {
  return {shape.end() - static_cast<std::ptrdiff_t>(spatial), shape.end()};
}

bool is_pooled(const Shape& shape, size_t spatial) {
  if (shape.size() != spatial + 1 && shape.size() != spatial + 2) return false;
  return std::all_of(shape.end() - static_cast<std::ptrdiff_t>(spatial) - 1, shape.end(), [](int64_t s) { return s > 0; });
}

Shape with_spatial(const Shape& shape, const Shape& spatial) {
  Shape out(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(spatial.size()));
  out.insert(out.end(), spatial.begin(), spatial.end());
  return out;
}

TensorMeta pooled_meta(DType dtype, const Shape& shape, const TensorMeta& like, size_t spatial) {
  if (shape.size() == spatial + 2) return {dtype, shape, strides_for(suggested_format(like.shape, like.strides), shape, {})};
  if (spatial != 3) return contiguous_meta(dtype, shape);
  const auto batch_of_one = [](Shape s) {
    s.insert(s.begin(), 1);
    return s;
  };
  Shape strides = like.strides;
  strides.insert(strides.begin(), like.shape[0] * like.strides[0]);
  // CPU computes in a batch of one and keeps that one's format.
  if (is_contiguous(like.shape, like.strides) || !is_channels_last(batch_of_one(like.shape), strides)) {
    return contiguous_meta(dtype, shape);
  }
  const Shape last = channels_last_strides(batch_of_one(shape));
  return {dtype, shape, {last.begin() + 1, last.end()}};
}

TensorMeta planar_meta(DType dtype, const Shape& shape, const TensorMeta& like, size_t spatial) {
  return spatial == 2 ? pooled_meta(dtype, shape, like, spatial) : contiguous_meta(dtype, shape);
}

Val rows_of(const Val& x, size_t spatial) {
  const Shape shape = x.shape(), inner = spatial_of(shape, spatial);
  const int64_t volume = element_count(inner);
  return reshape(x, {element_count(shape) / std::max<int64_t>(volume, 1), volume});
}

Val scatter_rows(const Val& source, const Val& indices, const Shape& shape, size_t spatial, ir::Reducer combine) {
  if (element_count(shape) == 0) return full(source.builder(), source.dtype(), shape, 0);
  const Val nothing = rows_of(full(source.builder(), source.dtype(), shape, 0), spatial);
  return reshape(scatter_elements(nothing, rows_of(indices, spatial), rows_of(source, spatial), 1, combine), shape);
}

Val add_at_indices(Lowering& l, size_t spatial) {
  const Val grad = l.raw("grad_output"), wide = convert(grad, opmath(grad.dtype()));
  return convert(scatter_rows(wide, l.raw("indices"), l.meta("self").shape, spatial, ir::Reducer::add), grad.dtype());
}

Val position_in_volume(const std::vector<Val>& position, const Shape& volume) {
  Val flat = position[0];
  for (size_t d = 1; d < volume.size(); ++d) flat = flat * static_cast<double>(volume[d]) + position[d];
  return convert(flat, DType::i64);
}

namespace {

using ir::Reducer;
using Geometry = std::vector<Windows>;  // one per spatial dimension

std::optional<Geometry> sliding(const Lowering& l, size_t spatial) {
  const TensorMeta& x = l.meta("self");
  if (!is_pooled(x.shape, spatial)) return std::nullopt;
  const auto kernel = per_dim(l, "kernel_size", spatial), padding = per_dim(l, "padding", spatial, 0),
             dilation = per_dim(l, "dilation", spatial, 1);
  const auto stride = l.ints("stride").empty() ? kernel : per_dim(l, "stride", spatial);
  for (const auto* list : {&kernel, &padding, &dilation, &stride}) {
    if (list->size() != spatial) return std::nullopt;
  }
  const Shape sizes = spatial_of(x.shape, spatial);
  Geometry geometry;
  for (size_t d = 0; d < spatial; ++d) {
    const auto w = sliding_windows(sizes[d], kernel[d], stride[d], padding[d], dilation[d], l.flag("ceil_mode"));
    if (!w) return std::nullopt;
    geometry.push_back(*w);
  }
  return geometry;
}

std::optional<Geometry> adaptive(const Shape& from, const Shape& to) {
  Geometry geometry;
  for (size_t d = 0; d < from.size(); ++d) {
    if (to[d] <= 0) return std::nullopt;
    geometry.push_back(adaptive_windows(from[d], to[d]));
  }
  return geometry;
}

std::optional<Geometry> adaptive(const Lowering& l, size_t spatial) {
  const Shape& x = l.meta("self").shape;
  const auto to = per_dim(l, "output_size", spatial);
  if (!is_pooled(x, spatial) || to.size() != spatial) return std::nullopt;
  return adaptive(spatial_of(x, spatial), to);
}

Shape counts(const Geometry& geometry) {
  Shape shape;
  for (const Windows& w : geometry) shape.push_back(w.count);
  return shape;
}

Val padded(const Val& x, const Geometry& geometry, const Val& value) {
  Shape low(x.rank(), 0), high(x.rank(), 0);
  for (size_t d = 0; d < geometry.size(); ++d) {
    low[x.rank() - geometry.size() + d] = geometry[d].padding;
    high[x.rank() - geometry.size() + d] = geometry[d].high_padding();
  }
  const auto none = [](const Shape& s) { return std::all_of(s.begin(), s.end(), [](int64_t p) { return p == 0; }); };
  if (none(low) && none(high)) return x;
  return {x.builder(), x.builder().pad(x.value(), value.value(), low, high, Shape(x.rank(), 0))};
}

Val sum_all_windows(Val x, const Geometry& geometry) {
  for (size_t d = geometry.size(); d-- > 0;) {
    x = sum_windows(x, x.rank() - static_cast<int64_t>(geometry.size() - d), geometry[d]);
  }
  return x;
}

// --- average ---

// How many elements each window of a dimension counts.
std::vector<int64_t> window_sizes(const Windows& w, bool count_padding) {
  if (!w.lengths.empty()) return w.lengths;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < w.count; ++i) {
    const int64_t end = std::min(w.start(i) + w.kernel, w.size + w.padding);
    sizes.push_back(count_padding ? end - w.start(i) : std::min(end, w.size) - std::max<int64_t>(w.start(i), 0));
  }
  return sizes;
}

// x divided by the size of the window that its position stands for.
Val divide_by_sizes(const Val& x, const Geometry& geometry, bool count_padding) {
  double uniform = 1;
  Val varying;
  for (size_t d = 0; d < geometry.size(); ++d) {
    const auto sizes = window_sizes(geometry[d], count_padding);
    if (std::all_of(sizes.begin(), sizes.end(), [&](int64_t s) { return s == sizes[0]; })) {
      uniform *= static_cast<double>(sizes[0]);
      continue;
    }
    const Val factor =
        along(index_table(x.builder(), sizes), x.rank() - static_cast<int64_t>(geometry.size() - d), x.rank());
    varying = varying.present() ? varying * factor : factor;
  }
  if (!varying.present()) return x / uniform;
  return x / (convert(varying, x.dtype()) * uniform);
}

Val divide_average(const Lowering& l, const Val& x, const Geometry& geometry) {
  if (l.has("divisor_override")) return x / static_cast<double>(l.int_("divisor_override"));
  return divide_by_sizes(x, geometry, l.flag("count_include_pad", true));
}

bool averages(const Lowering& l, DType dtype) {
  if (l.has("divisor_override") && l.int_("divisor_override") == 0) return false;
  return is_floating(dtype) || dtype == DType::i64;
}

std::optional<Metas> average_result(const Lowering& l, size_t spatial) {
  const TensorMeta& x = l.meta("self");
  const auto geometry = sliding(l, spatial);
  if (!geometry || !averages(l, x.dtype)) return std::nullopt;
  return one(planar_meta(x.dtype, with_spatial(x.shape, counts(*geometry)), x, spatial));
}

Val average(Lowering& l, size_t spatial) {
  const Val input = l.raw("self");
  const auto geometry = sliding(l, spatial);
  if (!geometry) return l.unsupported("this window");
  const Val x = convert(input, opmath(input.dtype()));
  const Val sums = sum_all_windows(padded(x, *geometry, full(l.builder(), x.dtype(), {}, 0)), *geometry);
  return convert(divide_average(l, sums, *geometry), input.dtype());
}

std::optional<Metas> average_backward_result(const Lowering& l, size_t spatial) {
  const TensorMeta &x = l.meta("self"), &grad = l.meta("grad_output");
  const auto geometry = sliding(l, spatial);
  if (!geometry || !averages(l, x.dtype) || grad.shape != with_spatial(x.shape, counts(*geometry))) return std::nullopt;
  if (grad.dtype != x.dtype) return std::nullopt;
  return one(planar_meta(x.dtype, x.shape, x, spatial));
}

// Every element receives the gradient of the windows that hold it: those that begin at most kernel - 1 places before it.
// With the windows' gradients at the places where they begin, that is again a sum over windows.
Val average_backward(Lowering& l, size_t spatial) {
  const Val input = l.raw("grad_output");
  const auto geometry = sliding(l, spatial);
  if (!geometry) return l.unsupported("this window");
  const Val grad = divide_average(l, convert(input, opmath(input.dtype())), *geometry);
  Shape low(grad.rank(), 0), high = low, interior = low;
  Geometry covering;
  for (size_t d = 0; d < spatial; ++d) {
    const Windows& w = (*geometry)[d];
    const size_t at = grad.rank() - spatial + d;
    interior[at] = w.stride - 1;
    low[at] = w.kernel - 1 - w.padding;
    high[at] = w.size - 1 + w.padding - (w.count - 1) * w.stride;
    covering.push_back({w.size + w.kernel - 1, w.size, w.kernel, 1, 1, 0, {}, {}});
  }
  return convert(sum_all_windows(pad(grad, 0, low, high, interior), covering), input.dtype());
}

std::optional<Metas> adaptive_average_result(const Lowering& l, size_t spatial) {
  const TensorMeta& x = l.meta("self");
  const auto geometry = adaptive(l, spatial);
  if (!geometry || !is_floating(x.dtype)) return std::nullopt;
  return one(planar_meta(x.dtype, with_spatial(x.shape, counts(*geometry)), x, spatial));
}

Val adaptive_average(Lowering& l, size_t spatial) {
  const Val input = l.raw("self");
  const auto geometry = adaptive(l, spatial);
  if (!geometry) return l.unsupported("an empty result");
  const Val sums = sum_all_windows(convert(input, opmath(input.dtype())), *geometry);
  return convert(divide_by_sizes(sums, *geometry, true), input.dtype());
}

std::optional<Metas> adaptive_average_backward_result(const Lowering& l, size_t spatial) {
  const TensorMeta &x = l.meta("self"), &grad = l.meta("grad_output");
  if (!is_pooled(x.shape, spatial) || !is_pooled(grad.shape, spatial) || !is_floating(x.dtype)) return std::nullopt;
  if (grad.dtype != x.dtype || grad.shape != with_spatial(x.shape, spatial_of(grad.shape, spatial))) return std::nullopt;
  return one(planar_meta(x.dtype, x.shape, x, spatial));
}

// The adaptive windows that hold an element are the adaptive window of that element in the other direction.
Val adaptive_average_backward(Lowering& l, size_t spatial) {
  const Val input = l.raw("grad_output");
  const Shape from = spatial_of(l.meta("self").shape, spatial), to = spatial_of(input.shape(), spatial);
  const auto forward = adaptive(from, to), back = adaptive(to, from);
  if (!forward || !back) return l.unsupported("an empty tensor");
  const Val grad = divide_by_sizes(convert(input, opmath(input.dtype())), *forward, true);
  return convert(sum_all_windows(grad, *back), input.dtype());
}

// --- maximum ---

bool has_order(DType dtype) { return is_floating(dtype) || is_integer(dtype); }

using MetaRule = TensorMeta (*)(DType, const Shape&, const TensorMeta&, size_t);

std::optional<Metas> maximum_metas(const Lowering& l, const std::optional<Geometry>& geometry, MetaRule meta) {
  const TensorMeta& x = l.meta("self");
  if (!geometry || !has_order(x.dtype)) return std::nullopt;
  const Shape shape = with_spatial(x.shape, counts(*geometry));
  return Metas{meta(x.dtype, shape, x, geometry->size()), meta(DType::i64, shape, x, geometry->size())};
}

// Where the chosen element of each window lies along its dimension. `tap`: how many elements after the window's first one.
Val chosen_position(const Val& tap, int64_t dim, const Windows& w) {
  std::vector<int64_t> starts, first_valid;
  for (int64_t i = 0; i < w.count; ++i) {
    starts.push_back(w.start(i));
    first_valid.push_back(w.start(i) < 0 ? (w.dilation - 1 - w.start(i)) / w.dilation : 0);
  }
  const auto table = [&](const std::vector<int64_t>& v) { return along(index_table(tap.builder(), v), dim, tap.rank()); };
  // Padding is chosen only where all elements are equal to it: CPU then names the first element that is none.
  const Val count = convert(tap, DType::i32), valid = w.padding > 0 ? maximum(count, table(first_valid)) : count;
  return table(starts) + valid * static_cast<double>(w.dilation);
}

std::vector<Val> maximum_pool(const Val& input, const Geometry& geometry) {
  const Val lowest = infinity_like(full(input.builder(), input.dtype(), {}, 0), true);
  Parts best{padded(input, geometry, lowest)};  // the value, then the taps from the last dimension on
  for (size_t d = geometry.size(); d-- > 0;) {
    const int64_t dim = input.rank() - static_cast<int64_t>(geometry.size() - d);
    best = combine_windows(with_taps(best, geometry[d]), dim, geometry[d], first_maximum());
  }
  std::vector<Val> position;
  Shape volume;
  for (size_t d = 0; d < geometry.size(); ++d) {
    const int64_t dim = input.rank() - static_cast<int64_t>(geometry.size() - d);
    position.push_back(chosen_position(best[geometry.size() - d], dim, geometry[d]));
    volume.push_back(geometry[d].size);
  }
  if (element_count(volume) > std::numeric_limits<int32_t>::max()) {
    for (Val& p : position) p = convert(p, DType::i64);
  }
  return {best[0], position_in_volume(position, volume)};
}

std::optional<Metas> maximum_backward_result(const Lowering& l, size_t spatial) {
  const TensorMeta &x = l.meta("self"), &grad = l.meta("grad_output"), &indices = l.meta("indices");
  if (!is_pooled(x.shape, spatial) || !is_floating(x.dtype) || grad.dtype != x.dtype) return std::nullopt;
  if (indices.dtype != DType::i64 || indices.shape != grad.shape || !is_pooled(grad.shape, spatial)) return std::nullopt;
  if (grad.shape != with_spatial(x.shape, spatial_of(grad.shape, spatial))) return std::nullopt;
  if (!l.has("kernel_size")) return one(planar_meta(x.dtype, x.shape, x, spatial));  // adaptive
  const auto geometry = sliding(l, spatial);
  if (!geometry || spatial_of(grad.shape, spatial) != counts(*geometry)) return std::nullopt;
  return one(pooled_meta(x.dtype, x.shape, spatial == 2 ? x : grad, spatial));
}

void register_rank(Registry& registry, size_t spatial) {
  const std::string rank = spatial == 2 ? "2d" : "3d";
  using Rule = std::optional<Metas> (*)(const Lowering&, size_t);
  const auto rule = [spatial](Rule f) { return ResultRule([f, spatial](const Lowering& l) { return f(l, spatial); }); };
  using Single = Val (*)(Lowering&, size_t);
  const auto body = [spatial](Single f) { return [f, spatial](Lowering& l) { return f(l, spatial); }; };

  NEURON_OP("aten::avg_pool" + rank, no_promotion(), rule(average_result), body(average));
  NEURON_OP("aten::avg_pool" + rank + "_backward", no_promotion(), rule(average_backward_result), body(average_backward));
  NEURON_OP("aten::_adaptive_avg_pool" + rank, no_promotion(), rule(adaptive_average_result), body(adaptive_average));
  NEURON_OP("aten::_adaptive_avg_pool" + rank + "_backward", no_promotion(), rule(adaptive_average_backward_result),
            body(adaptive_average_backward));

  const auto max_body = [spatial](auto geometry_of) {
    return [spatial, geometry_of](Lowering& l) -> std::vector<Val> {
      const auto geometry = geometry_of(l, spatial);
      if (!geometry) return {l.unsupported("this window"), Val()};
      return maximum_pool(l.raw("self"), *geometry);
    };
  };
  NEURON_OP("aten::max_pool" + rank + "_with_indices", no_promotion(),
            ResultRule([spatial](const Lowering& l) { return maximum_metas(l, sliding(l, spatial), pooled_meta); }),
            max_body([](const Lowering& l, size_t n) { return sliding(l, n); }));
  NEURON_OP("aten::adaptive_max_pool" + rank, no_promotion(), ResultRule([spatial](const Lowering& l) {
              const auto geometry = adaptive(l, spatial);
              if (!is_floating(l.meta("self").dtype)) return std::optional<Metas>();
              return maximum_metas(l, geometry, planar_meta);
            }),
            max_body([](const Lowering& l, size_t n) { return adaptive(l, n); }));
  for (const std::string& name :
       {"aten::max_pool" + rank + "_with_indices_backward", "aten::adaptive_max_pool" + rank + "_backward"}) {
    NEURON_OP(name, no_promotion(), rule(maximum_backward_result), body(add_at_indices));
  }
}

}  // namespace

void register_pooling(Registry& registry) {
  register_rank(registry, 2);
  register_rank(registry, 3);
}

}  // namespace neuron::ops
