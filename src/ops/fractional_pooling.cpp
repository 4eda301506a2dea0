// fractional_max_pool2d and 3d and their gradients: windows of one size that begin at places drawn for each channel.
//
// Not supported: samples outside [0, 1), for which CPU reads outside of its input: an IndexError here.
#include <algorithm>
#include <limits>

#include "ops/indexing.h"
#include "ops/pooling.h"
#include "ops/tables.h"
#include "ops/windows.h"

namespace neuron::ops {
namespace {

std::optional<Metas> fractional_result(const Lowering& l, size_t spatial) {
  const TensorMeta &x = l.meta("self"), &samples = l.meta("random_samples");
  const auto kernel = per_dim(l, "kernel_size", spatial), size = per_dim(l, "output_size", spatial);
  if (!is_pooled(x.shape, spatial) || !is_floating(x.dtype) || samples.dtype != x.dtype) return std::nullopt;
  if (kernel.size() != spatial || size.size() != spatial) return std::nullopt;
  const Shape input = spatial_of(x.shape, spatial), lead(x.shape.begin(), x.shape.end() - spatial);
  for (size_t d = 0; d < spatial; ++d) {
    if (kernel[d] <= 0 || size[d] <= 0 || size[d] + kernel[d] - 1 > input[d]) return std::nullopt;
  }
  const Shape expected{lead.size() == 2 ? lead[0] : 1, lead.back(), static_cast<int64_t>(spatial)};
  if (samples.shape != expected) return std::nullopt;
  const Shape shape = with_spatial(x.shape, size);
  return Metas{contiguous_meta(x.dtype, shape), contiguous_meta(DType::i64, shape)};
}

// Where the windows of one dimension begin: [rows, count], i32. In the tensor's own dtype, as CPU rounds.
Val window_starts(const Val& sample, int64_t size, int64_t kernel, int64_t count) {
  ir::Builder& b = sample.builder();
  const DType t = sample.dtype();
  const Val last = full_int(b, DType::i32, {sample.size(0), 1}, size - kernel);
  if (count == 1) return last;
  const Val span = convert(full_int(b, DType::i64, {}, size - kernel), t),
            steps = convert(full_int(b, DType::i64, {}, count - 1), t), alpha = span / steps;
  const Val window = convert(iota(b, DType::i32, {1, count - 1}, 1), t);
  const auto whole = [](const Val& v) { return convert(v, DType::i32); };
  return concatenate({whole((window + sample) * alpha) - whole(sample * alpha), last}, 1);
}

std::vector<Val> fractional_pool(Lowering& l, size_t spatial) {
  const Val input = l.raw("self");
  const auto kernel = per_dim(l, "kernel_size", spatial), size = per_dim(l, "output_size", spatial);
  const Shape volume = spatial_of(input.shape(), spatial), inner = contiguous_strides_of(volume),
              result = with_spatial(input.shape(), size);
  if (input.elements() == 0) return {full(l.builder(), input.dtype(), result, 0), full(l.builder(), DType::i64, result, 0)};
  const Val rows = rows_of(input, spatial);
  const Val samples = reshape(l.raw("random_samples"), {rows.size(0), static_cast<int64_t>(spatial)});

  // first: [rows, 1, places..], where each window begins in its channel's volume.
  const DType index = element_count(volume) > std::numeric_limits<int32_t>::max() ? DType::i64 : DType::i32;
  Val first;
  for (size_t d = 0; d < spatial; ++d) {
    const size_t drawn = spatial == 2 ? 1 - d : d;  // CPU's order of the samples
    const Val start = window_starts(slice(samples, 1, static_cast<int64_t>(drawn), static_cast<int64_t>(drawn) + 1),
                                    volume[d], kernel[d], size[d]);
    Shape shape(spatial + 2, 1);
    shape[0] = rows.size(0);
    shape[d + 2] = size[d];
    const Val part = convert(reshape(start, shape), index) * static_cast<double>(inner[d]);
    first = first.present() ? first + part : part;
  }
  std::vector<int64_t> offsets;  // of the elements of a window, in CPU's order
  for (int64_t t = 0; t < element_count(kernel); ++t) {
    int64_t rest = t, offset = 0;
    for (size_t d = spatial; d-- > 0; rest /= kernel[d]) offset += rest % kernel[d] * inner[d];
    offsets.push_back(offset);
  }
  const auto taps = static_cast<int64_t>(offsets.size()), places = element_count(size);
  const Val base = reshape(first, {rows.size(0), 1, places}),
            at = base + convert(along(index_table(l.builder(), offsets), 1, 3), index);
  const Val values = reshape(gather_elements(rows, reshape(at, {rows.size(0), taps * places}), 1), at.shape());
  const Windows whole{taps, 1, taps, 1, 1, 0, {}, {}};
  const Parts best = combine_windows(with_taps({values}, whole), 1, whole, first_maximum());
  const Val chosen = take_slices(index_table(l.builder(), offsets), convert(best[1], DType::i32), 0);
  return {reshape(best[0], result), reshape(convert(base + convert(chosen, index), DType::i64), result)};
}

std::optional<Metas> fractional_backward_result(const Lowering& l, size_t spatial) {
  const TensorMeta &x = l.meta("self"), &grad = l.meta("grad_output"), &indices = l.meta("indices");
  const auto size = per_dim(l, "output_size", spatial);
  if (!is_pooled(x.shape, spatial) || !is_floating(x.dtype) || size.size() != spatial) return std::nullopt;
  if (grad.dtype != x.dtype || indices.dtype != DType::i64 || indices.shape != grad.shape) return std::nullopt;
  if (grad.shape != with_spatial(x.shape, size)) return std::nullopt;
  return one(contiguous_meta(x.dtype, x.shape));
}

}  // namespace

void register_fractional_pooling(Registry& registry) {
  for (const size_t spatial : {size_t{2}, size_t{3}}) {
    const std::string name = spatial == 2 ? "aten::fractional_max_pool2d" : "aten::fractional_max_pool3d";
    NEURON_OP(name, no_promotion(), ResultRule([spatial](const Lowering& l) { return fractional_result(l, spatial); }),
              [spatial](Lowering& l) { return fractional_pool(l, spatial); });
    NEURON_OP(name + "_backward", no_promotion(),
              ResultRule([spatial](const Lowering& l) { return fractional_backward_result(l, spatial); }),
              [spatial](Lowering& l) { return add_at_indices(l, spatial); });
  }
}

}  // namespace neuron::ops
