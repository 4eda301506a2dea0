// Interpolation to another size (upsample_* and _upsample_*: nearest, linear, cubic, with and without antialiasing) over 1,
// 2 and 3 dimensions, and the gradients.
//
// Not supported: integers other than uint8 (nor by CPU).
#include <algorithm>

#include "ops/pooling.h"
#include "ops/resample.h"

namespace neuron::ops {
namespace {

struct Interpolation {
  Kernel kernel;
  size_t spatial;
  bool backward_keeps_format;  // CPU's gradients of the others are always contiguous
};

std::vector<std::string> scale_names(size_t spatial) {
  if (spatial == 1) return {"scales"};
  if (spatial == 2) return {"scales_h", "scales_w"};
  return {"scales_d", "scales_h", "scales_w"};
}

bool is_nearest(Kernel kernel) { return kernel == Kernel::nearest || kernel == Kernel::nearest_exact; }

std::vector<Taps> taps_of(const Lowering& l, const Interpolation& how, const Shape& from, const Shape& to, bool in_double) {
  const auto scales = scale_names(how.spatial);
  std::vector<Taps> taps;
  for (size_t d = 0; d < how.spatial; ++d) {
    taps.push_back(interpolation(how.kernel, from[d], to[d], l.flag("align_corners"), l.number(scales[d]), in_double));
  }
  return taps;
}

bool all_positive(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](int64_t s) { return s > 0; });
}

TensorMeta in_format_of(DType dtype, const Shape& shape, const TensorMeta& like, bool keeps_format) {
  const MemoryFormat format = keeps_format ? suggested_format(like.shape, like.strides) : MemoryFormat::contiguous;
  return {dtype, shape, strides_for(format, shape, like.strides)};
}

std::optional<Metas> interpolated_result(const Lowering& l, const Interpolation& how) {
  const TensorMeta& x = l.meta("self");
  const Shape size = l.ints("output_size");
  if (x.shape.size() != how.spatial + 2 || size.size() != how.spatial || !all_positive(size)) return std::nullopt;
  if (!is_pooled(x.shape, how.spatial) || !(is_floating(x.dtype) || x.dtype == DType::u8)) return std::nullopt;
  return one(in_format_of(x.dtype, with_spatial(x.shape, size), x, true));
}

Val interpolated(Lowering& l, const Interpolation& how) {
  const Val input = l.raw("self");
  const Shape size = l.ints("output_size");
  if (input.elements() == 0) return full(l.builder(), input.dtype(), with_spatial(input.shape(), size), 0);
  const bool bytes = input.dtype() == DType::u8;
  if (bytes && !is_nearest(how.kernel) && how.spatial != 2) return l.unsupported("uint8");
  const bool in_double = input.dtype() == DType::f64 || (bytes && !is_nearest(how.kernel));
  const auto taps = taps_of(l, how, spatial_of(input.shape(), how.spatial), size, in_double);
  Val x = is_nearest(how.kernel) || bytes ? input : convert(input, opmath(input.dtype()));
  for (size_t d = how.spatial; d-- > 0;) {
    const auto dim = static_cast<int64_t>(d) + 2;
    x = is_nearest(how.kernel) ? resample_elements(x, dim, taps[d])
        : bytes                ? resample_bytes(x, dim, taps[d])
                               : resample(x, dim, taps[d]);
  }
  return convert(x, input.dtype());
}

std::optional<Metas> backward_result(const Lowering& l, const Interpolation& how) {
  const TensorMeta& grad = l.meta("grad_output");
  const Shape size = l.ints("output_size"), input = l.ints("input_size");
  if (input.size() != how.spatial + 2 || size.size() != how.spatial || !all_positive(size)) return std::nullopt;
  if (!is_pooled(input, how.spatial) || !is_floating(grad.dtype) || grad.shape != with_spatial(input, size)) {
    return std::nullopt;
  }
  return one(in_format_of(grad.dtype, input, grad, how.backward_keeps_format));
}

Val interpolated_backward(Lowering& l, const Interpolation& how) {
  const Val input = l.raw("grad_output");
  const Shape shape = l.ints("input_size");
  if (input.elements() == 0) return full(l.builder(), input.dtype(), shape, 0);
  // CPU computes the places of the nearest elements in float here, whatever the dtype.
  const bool in_double = input.dtype() == DType::f64 && !is_nearest(how.kernel);
  const auto taps = taps_of(l, how, spatial_of(shape, how.spatial), l.ints("output_size"), in_double);
  Val x = convert(input, opmath(input.dtype()));
  for (size_t d = 0; d < how.spatial; ++d) x = resample(x, static_cast<int64_t>(d) + 2, taps[d].transposed());
  return convert(x, input.dtype());
}

void register_kernel(Registry& registry, const std::string& name, const Interpolation& how) {
  OpDef& forward = NEURON_OP("aten::" + name, no_promotion(),
                             ResultRule([how](const Lowering& l) { return interpolated_result(l, how); }),
                             [how](Lowering& l) { return interpolated(l, how); });
  OpDef& backward = NEURON_OP("aten::" + name + "_backward", no_promotion(),
                              ResultRule([how](const Lowering& l) { return backward_result(l, how); }),
                              [how](Lowering& l) { return interpolated_backward(l, how); });
  for (const std::string& scale : scale_names(how.spatial)) {
    forward.structural(scale);
    backward.structural(scale);
  }
}

}  // namespace

void register_upsample(Registry& registry) {
  for (const size_t spatial : {size_t{1}, size_t{2}, size_t{3}}) {
    const std::string rank = std::to_string(spatial) + "d";
    register_kernel(registry, "upsample_nearest" + rank, {Kernel::nearest, spatial, spatial != 3});
    register_kernel(registry, "_upsample_nearest_exact" + rank, {Kernel::nearest_exact, spatial, spatial != 3});
  }
  register_kernel(registry, "upsample_linear1d", {Kernel::linear, 1, true});
  register_kernel(registry, "upsample_bilinear2d", {Kernel::linear, 2, true});
  register_kernel(registry, "upsample_trilinear3d", {Kernel::linear, 3, true});
  register_kernel(registry, "upsample_bicubic2d", {Kernel::cubic, 2, false});
  register_kernel(registry, "_upsample_bilinear2d_aa", {Kernel::linear_antialias, 2, true});
  register_kernel(registry, "_upsample_bicubic2d_aa", {Kernel::cubic_antialias, 2, true});
  register_kernel(registry, "_upsample_lanczos2d_aa", {Kernel::lanczos_antialias, 2, true});
}

}  // namespace neuron::ops
