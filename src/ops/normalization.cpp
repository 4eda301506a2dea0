// Layer norm, group norm, rms norm and the softmax family, forward and backward.
//
// Batch norm is in batch_norm.cpp. Arithmetic is in f32 for f16 and bf16, in the tensor's dtype otherwise.
#include <limits>
#include <numeric>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

Val widen(const Val& x) { return convert(x, opmath(x.dtype())); }

std::vector<int64_t> last_dims(int64_t rank, size_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), rank - static_cast<int64_t>(count));
  return dims;
}
std::vector<int64_t> first_dims(int64_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return dims;
}

Val mean_keep(const Val& x, const std::vector<int64_t>& dims) {
  return sum(x, dims, true) / static_cast<double>(reduced_count(x, dims));
}

// --- layer norm ---

// CPU keeps the statistics in f32 only where a half-precision input meets f32 parameters.
DType statistics_dtype(const Lowering& l) {
  const DType input = l.meta("input").dtype;
  for (const char* name : {"weight", "bias"}) {
    if (l.tensor(name) && l.meta(name).dtype == DType::f32) return opmath(input);
  }
  return input;
}

bool ends_with(const Shape& shape, const std::vector<int64_t>& tail) {
  return tail.size() <= shape.size() && !tail.empty() && std::equal(tail.begin(), tail.end(), shape.end() - tail.size());
}

bool normalizes(const Lowering& l) {
  const auto normalized = l.ints("normalized_shape");
  if (!is_floating(l.meta("input").dtype) || !ends_with(l.meta("input").shape, normalized)) return false;
  for (const char* name : {"weight", "bias"}) {
    if (l.tensor(name) && l.meta(name).shape != normalized) return false;
  }
  return true;
}

Shape statistics_shape(const Lowering& l) {
  const Shape& shape = l.meta("input").shape;
  return reduced_shape(shape, last_dims(static_cast<int64_t>(shape.size()), l.ints("normalized_shape").size()), true);
}

std::optional<Metas> layer_norm_result(const Lowering& l) {
  if (!normalizes(l)) return std::nullopt;
  const TensorMeta& x = l.meta("input");
  const TensorMeta statistic = contiguous_meta(statistics_dtype(l), statistics_shape(l));
  return Metas{contiguous_meta(x.dtype, x.shape), statistic, statistic};
}

// Results that callers may have decided in another dtype (PyTorch's meta functions keep f32 statistics).
Val as_expected(const Lowering& l, size_t index, const Val& v, DType otherwise) {
  return convert(v, l.expected(index) ? l.expected(index)->dtype : otherwise);
}

std::vector<Val> layer_norm(Lowering& l) {
  const Val input = l.raw("input"), x = widen(input);
  const auto dims = last_dims(x.rank(), l.ints("normalized_shape").size());
  const Val mean = mean_keep(x, dims);
  const Val distance = x - mean;
  const Val variance = mean_keep(distance * distance, dims);
  const Val rstd = unary(ir::Op::rsqrt, variance + l.scalar("eps", x.dtype()));
  Val y = distance * rstd;
  if (l.has("weight")) y = y * convert(l.raw("weight"), x.dtype());
  if (l.has("bias")) y = y + convert(l.raw("bias"), x.dtype());
  const DType statistic = statistics_dtype(l);
  return {convert(y, input.dtype()), as_expected(l, 1, mean, statistic), as_expected(l, 2, rstd, statistic)};
}

std::vector<bool> output_mask(const Lowering& l, size_t count) {
  const auto* mask = l.argument("output_mask") ? std::get_if<std::vector<bool>>(l.argument("output_mask")) : nullptr;
  return mask && mask->size() == count ? *mask : std::vector<bool>(count, true);
}

std::optional<Metas> layer_norm_backward_result(const Lowering& l) {
  if (!normalizes(l)) return std::nullopt;
  const auto mask = output_mask(l, 3);
  const TensorMeta& x = l.meta("input");
  Metas metas(3);
  if (mask[0]) metas[0] = contiguous_meta(x.dtype, x.shape);
  if (mask[1] && l.has("weight")) metas[1] = contiguous_meta(l.meta("weight").dtype, l.meta("weight").shape);
  if (mask[2] && l.has("bias")) metas[2] = contiguous_meta(l.meta("bias").dtype, l.meta("bias").shape);
  return metas;
}

// x_hat = (x - mean) * rstd; g = grad * weight; dx = rstd * (g - mean(g) - x_hat * mean(g * x_hat)).
std::vector<Val> layer_norm_backward(Lowering& l) {
  const Val input = l.raw("input"), x = widen(input);
  const DType t = x.dtype();
  const auto normalized = l.ints("normalized_shape");
  const auto dims = last_dims(x.rank(), normalized.size()),
             outer = first_dims(x.rank() - static_cast<int64_t>(normalized.size()));
  const auto mask = output_mask(l, 3);
  const Val grad = convert(l.raw("grad_out"), t), rstd = convert(l.raw("rstd"), t);
  const Val x_hat = (x - convert(l.raw("mean"), t)) * rstd;
  std::vector<Val> results(3);
  if (mask[0]) {
    const Val g = l.has("weight") ? grad * convert(l.raw("weight"), t) : grad;
    results[0] = convert(rstd * (g - mean_keep(g, dims) - x_hat * mean_keep(g * x_hat, dims)), input.dtype());
  }
  if (mask[1] && l.has("weight")) results[1] = convert(sum(grad * x_hat, outer), l.meta("weight").dtype);
  if (mask[2] && l.has("bias")) results[2] = convert(sum(grad, outer), l.meta("bias").dtype);
  return results;
}

// --- group norm ---

bool is_grouped(const Lowering& l) {
  const int64_t n = l.int_("N"), c = l.int_("C"), inner = l.int_("HxW"), groups = l.int_("group");
  const DType input = l.meta("input").dtype;
  if (!is_floating(input) || groups <= 0 || c % groups != 0) return false;
  if (element_count(l.meta("input").shape) != n * c * inner) return false;
  if (l.tensor("grad_out") && l.meta("grad_out").shape != l.meta("input").shape) return false;
  for (const char* name : {"mean", "rstd"}) {
    if (l.tensor(name) && element_count(l.meta(name).shape) != n * groups) return false;
  }
  for (const char* name : {"weight", "bias"}) {
    if (!l.tensor(name)) continue;
    const TensorMeta& m = l.meta(name);
    if (m.shape != Shape{c} || (m.dtype != input && m.dtype != opmath(input))) return false;
  }
  return true;
}

// (sample, group, channel of the group, place); statistics have the first two, parameters the middle two.
struct Grouping {
  Shape split, statistic, parameter;
};
Grouping grouping(const Lowering& l) {
  const int64_t n = l.int_("N"), groups = l.int_("group"), channels = l.int_("C") / groups;
  return {{n, groups, channels, l.int_("HxW")}, {n, groups, 1, 1}, {1, groups, channels, 1}};
}

TensorMeta group_norm_meta(const TensorMeta& x) {
  return {x.dtype, x.shape, strides_for(suggested_format(x.shape, x.strides), x.shape, x.strides)};
}

std::optional<Metas> group_norm_result(const Lowering& l) {
  if (!is_grouped(l)) return std::nullopt;
  const TensorMeta statistic = contiguous_meta(statistics_dtype(l), {l.int_("N"), l.int_("group")});
  return Metas{group_norm_meta(l.meta("input")), statistic, statistic};
}

std::vector<Val> group_norm(Lowering& l) {
  const Val input = l.raw("input");
  const TensorMeta& m = l.meta("input");
  if (!is_contiguous(m.shape, m.strides) && !is_channels_last(m.shape, m.strides)) {  // CPU refuses it
    return {l.unsupported("an input that is not contiguous"), Val(), Val()};
  }
  const DType t = opmath(input.dtype());
  const Grouping g = grouping(l);
  const Val x = reshape(convert(input, t), g.split), mean = mean_keep(x, {2, 3}), distance = x - mean;
  const Val rstd = unary(ir::Op::rsqrt, mean_keep(distance * distance, {2, 3}) + l.scalar("eps", t));
  Val y = distance * rstd;
  if (l.has("weight")) y = y * reshape(convert(l.raw("weight"), t), g.parameter);
  if (l.has("bias")) y = y + reshape(convert(l.raw("bias"), t), g.parameter);
  const Shape statistic{g.split[0], g.split[1]};
  const DType kept = statistics_dtype(l);
  return {convert(reshape(y, input.shape()), input.dtype()), as_expected(l, 1, reshape(mean, statistic), kept),
          as_expected(l, 2, reshape(rstd, statistic), kept)};
}

std::optional<Metas> group_norm_backward_result(const Lowering& l) {
  const auto mask = output_mask(l, 3);
  if (!is_grouped(l) || ((mask[1] || mask[2]) && !l.has("weight"))) return std::nullopt;
  const TensorMeta& x = l.meta("input");
  Metas metas(3);
  if (mask[0]) metas[0] = group_norm_meta(x);
  for (const size_t i : {1, 2}) {
    if (mask[i]) metas[i] = contiguous_meta(l.meta("weight").dtype, l.meta("weight").shape);
  }
  return metas;
}

// As layer norm's, with the statistics of (sample, group) and the parameters of the channel.
std::vector<Val> group_norm_backward(Lowering& l) {
  const Val input = l.raw("input");
  const DType t = opmath(input.dtype());
  const auto [split, statistic, parameter] = grouping(l);
  const auto mask = output_mask(l, 3);
  const auto wide = [&](const char* name, const Shape& shape) { return reshape(convert(l.raw(name), t), shape); };
  const Val grad = wide("grad_out", split), rstd = wide("rstd", statistic);
  const Val x_hat = (wide("input", split) - wide("mean", statistic)) * rstd;
  std::vector<Val> results(3);
  if (mask[0]) {
    const Val g = l.has("weight") ? grad * wide("weight", parameter) : grad;
    const Val dx = rstd * (g - mean_keep(g, {2, 3}) - x_hat * mean_keep(g * x_hat, {2, 3}));
    results[0] = convert(reshape(dx, input.shape()), input.dtype());
  }
  const auto per_channel = [&](const Val& v) {
    return convert(reshape(sum(v, {0, 3}), l.meta("weight").shape), l.meta("weight").dtype);
  };
  if (mask[1] && l.has("weight")) results[1] = per_channel(grad * x_hat);
  if (mask[2] && l.has("weight")) results[2] = per_channel(grad);
  return results;
}

// --- rms norm ---

std::optional<Metas> rms_norm_result(const Lowering& l) {
  if (!normalizes(l)) return std::nullopt;
  const TensorMeta& x = l.meta("input");
  return Metas{TensorMeta{x.dtype, x.shape, preserved_strides(x.shape, x.strides)},
               contiguous_meta(opmath(x.dtype), statistics_shape(l))};
}

std::vector<Val> rms_norm(Lowering& l) {
  const Val input = l.raw("input"), x = widen(input);
  const auto dims = last_dims(x.rank(), l.ints("normalized_shape").size());
  const double epsilon =
      x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const Val square = mean_keep(x * x, dims);
  const Val rstd = unary(ir::Op::rsqrt, l.has("eps") ? square + l.scalar("eps", x.dtype()) : square + epsilon);
  Val y = x * rstd;
  if (l.has("weight")) y = y * convert(l.raw("weight"), x.dtype());
  return {convert(y, input.dtype()), as_expected(l, 1, rstd, x.dtype())};
}

std::optional<Metas> rms_norm_backward_result(const Lowering& l) {
  if (!normalizes(l)) return std::nullopt;
  const auto mask = output_mask(l, 2);
  const TensorMeta& x = l.meta("input");
  Metas metas(2);
  if (mask[0]) metas[0] = TensorMeta{x.dtype, x.shape, preserved_strides(x.shape, x.strides)};
  if (mask[1] && l.has("weight")) metas[1] = contiguous_meta(l.meta("weight").dtype, l.meta("weight").shape);
  return metas;
}

// x_hat = x * rstd; g = grad * weight; dx = rstd * (g - x_hat * mean(g * x_hat)).
std::vector<Val> rms_norm_backward(Lowering& l) {
  const Val input = l.raw("input"), x = widen(input);
  const DType t = x.dtype();
  const auto normalized = l.ints("normalized_shape");
  const auto mask = output_mask(l, 2);
  const Val grad = convert(l.raw("grad_out"), t), rstd = convert(l.raw("rstd"), t), x_hat = x * rstd;
  std::vector<Val> results(2);
  if (mask[0]) {
    const Val g = l.has("weight") ? grad * convert(l.raw("weight"), t) : grad;
    results[0] = convert(rstd * (g - x_hat * mean_keep(g * x_hat, last_dims(x.rank(), normalized.size()))), input.dtype());
  }
  if (mask[1] && l.has("weight")) {
    results[1] =
        convert(sum(grad * x_hat, first_dims(x.rank() - static_cast<int64_t>(normalized.size()))), l.meta("weight").dtype);
  }
  return results;
}

// --- softmax ---

std::optional<Metas> softmax_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  if (!is_floating(x.dtype)) return std::nullopt;
  l.dim("dim", static_cast<int64_t>(x.shape.size()));
  return one(contiguous_meta(l.flag("half_to_float") ? DType::f32 : x.dtype, x.shape));
}

std::vector<int64_t> softmax_dims(Lowering& l, const Val& x) {
  const int64_t dim = l.dim("dim", x.rank());
  return x.rank() == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{dim};
}

struct Shifted {
  Val distance, exponential, total;  // x - max, exp of it, its sum
};
Shifted shifted(const Val& x, const std::vector<int64_t>& dims) {
  const Val distance = x - reduce(Reducer::maximum, x, dims, true);
  const Val exponential = exp(distance);
  return {distance, exponential, sum(exponential, dims, true)};
}

Val softmax(Lowering& l) {
  const Val input = l.raw("self"), x = widen(input);
  const Shifted s = shifted(x, softmax_dims(l, x));
  return convert(s.exponential / s.total, l.flag("half_to_float") ? DType::f32 : input.dtype());
}

Val log_softmax(Lowering& l) {
  const Val input = l.raw("self"), x = widen(input);
  const Shifted s = shifted(x, softmax_dims(l, x));
  return convert(s.distance - log(s.total), l.flag("half_to_float") ? DType::f32 : input.dtype());
}

std::optional<Metas> safe_softmax_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  const DType t = l.dtype("dtype").value_or(x.dtype);
  return is_floating(t) ? std::optional<Metas>(one(contiguous_meta(t, x.shape))) : std::nullopt;
}

// softmax, but rows of -inf give zeros.
Val safe_softmax(Lowering& l) {
  const DType target = l.dtype("dtype").value_or(l.meta("self").dtype);
  const Val x = widen(convert(l.raw("self"), target));
  const auto dims = softmax_dims(l, x);
  const Shifted s = shifted(x, dims);
  const Val masked = eq(reduce(Reducer::maximum, x, dims, true), -std::numeric_limits<double>::infinity());
  return convert(where(masked, like(x, 0), s.exponential / s.total), target);
}

std::optional<Metas> softmax_backward_result(const Lowering& l) {
  const TensorMeta& grad = l.meta("grad_output");
  return one(contiguous_meta(l.dtype("input_dtype").value_or(grad.dtype), grad.shape));
}

// (grad - sum(grad * output)) * output; for log_softmax: grad - exp(output) * sum(grad).
Val softmax_backward(Lowering& l, bool logarithm) {
  const DType target = l.dtype("input_dtype").value_or(l.meta("grad_output").dtype);
  const Val grad = widen(l.raw("grad_output")), output = convert(l.raw("output"), grad.dtype());
  const auto dims = softmax_dims(l, grad);
  const Val result =
      logarithm ? grad - exp(output) * sum(grad, dims, true) : (grad - sum(grad * output, dims, true)) * output;
  return convert(result, target);
}

}  // namespace

void register_normalization(Registry& registry) {
  NEURON_OP("aten::native_layer_norm", no_promotion(), result(layer_norm_result), layer_norm);
  NEURON_OP("aten::native_layer_norm_backward", no_promotion(), result(layer_norm_backward_result), layer_norm_backward);
  NEURON_OP("aten::native_group_norm", no_promotion(), result(group_norm_result), group_norm);
  NEURON_OP("aten::native_group_norm_backward", no_promotion(), result(group_norm_backward_result), group_norm_backward);
  NEURON_OP("aten::_fused_rms_norm", no_promotion(), result(rms_norm_result), rms_norm);
  NEURON_OP("aten::_fused_rms_norm_backward", no_promotion(), result(rms_norm_backward_result), rms_norm_backward);

  NEURON_OP("aten::_softmax", no_promotion(), result(softmax_result), softmax);
  NEURON_OP("aten::_log_softmax", no_promotion(), result(softmax_result), log_softmax);
  NEURON_OP("aten::_safe_softmax", no_promotion(), result(safe_softmax_result), safe_softmax);
  for (const bool logarithm : {false, true}) {
    NEURON_OP(logarithm ? "aten::_log_softmax_backward_data" : "aten::_softmax_backward_data", no_promotion(),
              result(softmax_backward_result), [logarithm](Lowering& l) { return softmax_backward(l, logarithm); });
  }
}

}  // namespace neuron::ops
