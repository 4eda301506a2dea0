// Batch norm in its overloads, and their gradient. Instance norm is made of it by PyTorch.
//
// Not supported: inference without running statistics, training on nothing (CPU refuses both). Arithmetic is in f32 for f16
// and bf16. The deviation, and bf16's mean, are rounded to the dtype they are kept in before they are used, as on CPU.
#include <array>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

constexpr std::array kParameters = {"weight", "bias", "running_mean", "running_var", "save_mean", "save_invstd", "save_var"};

// Parameters and statistics have the input's dtype, or all are f32 beside a half-precision input. Nothing: CPU refuses.
std::optional<DType> statistics_dtype(const Lowering& l) {
  const TensorMeta& x = l.meta("input");
  if (!is_floating(x.dtype) || x.shape.size() < 2) return std::nullopt;
  std::optional<DType> dtype;
  for (const char* name : kParameters) {
    if (!l.tensor(name)) continue;
    const TensorMeta& m = l.meta(name);
    const bool saved_nothing = std::string_view(name).starts_with("save") && m.shape == Shape{0};
    if (element_count(m.shape) != x.shape[1] && !saved_nothing) return std::nullopt;
    if (dtype && *dtype != m.dtype) return std::nullopt;
    dtype = m.dtype;
  }
  if (dtype && *dtype != x.dtype && *dtype != opmath(x.dtype)) return std::nullopt;
  return dtype.value_or(x.dtype);
}

TensorMeta like_image(const TensorMeta& x) {
  return {x.dtype, x.shape, strides_for(suggested_format(x.shape, x.strides), x.shape, x.strides)};
}

// What distinguishes the overloads.
struct Form {
  enum class Mode { argument, training, inference } mode = Mode::argument;
  bool reserve = false;     // one more result, empty on CPU
  bool functional = false;  // the running statistics come back as results
};

bool trains(const Lowering& l, const Form& form) {
  return form.mode == Form::Mode::argument ? l.flag("training") : form.mode == Form::Mode::training;
}

bool is_possible(const Lowering& l, const Form& form) {
  if (!statistics_dtype(l) || l.has("running_mean") != l.has("running_var")) return false;
  return trains(l, form) ? element_count(l.meta("input").shape) > 0 : l.has("running_mean");
}

// Results: the output, the batch's mean and 1 / deviation (empty in inference), (a reserve,) (new running statistics).
std::optional<Metas> batch_norm_result(const Lowering& l, const Form& form) {
  if (!is_possible(l, form)) return std::nullopt;
  const TensorMeta& x = l.meta("input");
  const TensorMeta saved = contiguous_meta(*statistics_dtype(l), {trains(l, form) ? x.shape[1] : 0});
  Metas metas{like_image(x), saved, saved};
  if (form.reserve) metas.emplace_back(contiguous_meta(DType::u8, {0}));
  for (const char* name : {"running_mean", "running_var"}) {
    if (form.functional) metas.push_back(l.tensor(name) ? std::optional(l.meta(name)) : std::nullopt);
  }
  return metas;
}

std::vector<int64_t> all_but_channels(const Val& x) {
  std::vector<int64_t> dims{0};
  for (int64_t d = 2; d < x.rank(); ++d) dims.push_back(d);
  return dims;
}

// A value per channel as it broadcasts over x.
Val per_channel(const Val& v, const Val& x) {
  Shape shape(x.rank(), 1);
  shape[1] = x.size(1);
  return reshape(convert(v, x.dtype()), shape);
}

Val rounded(const Val& v, DType to) { return convert(convert(v, to), v.dtype()); }

std::vector<Val> batch_norm(Lowering& l, const Form& form) {
  if (!is_possible(l, form)) {
    l.unsupported("this form");
    return std::vector<Val>(3 + (form.reserve ? 1 : 0) + (form.functional ? 2 : 0));
  }
  const Val input = l.raw("input"), x = convert(input, opmath(input.dtype()));
  const DType t = x.dtype(), kept = *statistics_dtype(l);
  const Val eps = l.scalar("eps", t);
  std::array<Val, 2> running;
  if (l.has("running_mean")) running[0] = l.raw("running_mean");
  if (l.has("running_var")) running[1] = l.raw("running_var");

  Val mean, invstd;
  if (trains(l, form)) {
    const auto dims = all_but_channels(x);
    const auto count = static_cast<double>(reduced_count(x, dims));
    mean = sum(x, dims) / count;
    if (kept == DType::bf16) mean = rounded(mean, kept);
    const Val distance = x - per_channel(mean, x), squares = sum(distance * distance, dims);
    invstd = rounded(1.0 / sqrt(squares / count + eps), kept);
    const std::array<Val, 2> observed{mean, squares / (count - 1)};
    const Val momentum = l.scalar("momentum", t);
    for (size_t i = 0; i < 2; ++i) {
      if (!running[i].present()) continue;
      const Val blended = momentum * observed[i] + (1.0 - momentum) * convert(running[i], t);
      running[i] = convert(blended, running[i].dtype());
    }
  } else {
    mean = convert(running[0], t);
    invstd = 1.0 / sqrt(convert(running[1], t) + eps);
  }
  Val scale = invstd;
  if (l.has("weight")) scale = scale * convert(l.raw("weight"), t);
  Val y = (x - per_channel(mean, x)) * per_channel(scale, x);
  if (l.has("bias")) y = y + per_channel(l.raw("bias"), x);

  // Other callers than CPU's kernels expect the statistics of inference as well.
  const auto saved = [&](size_t index, const Val& v) {
    const TensorMeta* expected = l.expected(index);
    const bool whole = expected ? expected->shape == v.shape() : trains(l, form);
    const DType dtype = expected ? expected->dtype : kept;
    return whole ? convert(v, dtype) : full(l.builder(), dtype, {0}, 0);
  };
  std::vector<Val> results{convert(y, input.dtype()), saved(1, mean), saved(2, invstd)};
  if (form.reserve) results.push_back(full(l.builder(), DType::u8, {0}, 0));
  if (form.functional) results.insert(results.end(), running.begin(), running.end());
  return results;
}

std::vector<bool> wanted(const Lowering& l) {
  const auto* mask = l.argument("output_mask") ? std::get_if<std::vector<bool>>(l.argument("output_mask")) : nullptr;
  return mask && mask->size() == 3 ? *mask : std::vector<bool>(3, true);
}

// Names of the overload's saved deviation and of its flag for training.
struct BackwardNames {
  const char *invstd, *training;
};

bool is_differentiable(const Lowering& l, const BackwardNames& names) {
  if (!statistics_dtype(l) || l.meta("grad_out").shape != l.meta("input").shape) return false;
  const bool train = l.flag(names.training);
  return l.has(train ? "save_mean" : "running_mean") && l.has(train ? names.invstd : "running_var");
}

std::optional<Metas> batch_norm_backward_result(const Lowering& l, const BackwardNames& names) {
  if (!is_differentiable(l, names)) return std::nullopt;
  const TensorMeta& x = l.meta("input");
  const auto mask = wanted(l);
  Metas metas(3);
  if (mask[0]) metas[0] = like_image(x);
  for (const size_t i : {1, 2}) {
    if (mask[i]) metas[i] = contiguous_meta(*statistics_dtype(l), {x.shape[1]});
  }
  return metas;
}

// x_hat = (x - mean) * invstd; dx = invstd * weight * (grad - mean(grad) - x_hat * mean(grad * x_hat)); the statistics of
// inference do not depend on x: invstd * weight * grad.
std::vector<Val> batch_norm_backward(Lowering& l, const BackwardNames& names) {
  std::vector<Val> results(3);
  if (!is_differentiable(l, names)) {
    l.unsupported("this form");
    return results;
  }
  const bool train = l.flag(names.training);
  const Val input = l.raw("input"), x = convert(input, opmath(input.dtype()));
  const DType t = x.dtype(), kept = *statistics_dtype(l);
  const Val grad = convert(l.raw("grad_out"), t), mean = convert(l.raw(train ? "save_mean" : "running_mean"), t);
  const Val invstd =
      train ? convert(l.raw(names.invstd), t) : 1.0 / sqrt(convert(l.raw("running_var"), t) + l.scalar("eps", t));
  const auto dims = all_but_channels(x);
  const auto count = static_cast<double>(reduced_count(x, dims));
  const Val distance = x - per_channel(mean, x);
  const Val total = sum(grad, dims), slope = sum(grad * distance, dims) * invstd;
  const auto mask = wanted(l);
  if (mask[0]) {
    Val dx = grad;
    if (train) {
      dx = dx - per_channel(total / count, x) - distance * per_channel(invstd * slope / count, x);
    }
    const Val scale = l.has("weight") ? invstd * convert(l.raw("weight"), t) : invstd;
    results[0] = convert(dx * per_channel(scale, x), input.dtype());
  }
  if (mask[1]) results[1] = convert(slope, kept);
  if (mask[2]) results[2] = convert(total, kept);
  return results;
}

}  // namespace

void register_batch_norm(Registry& registry) {
  using Mode = Form::Mode;
  const std::array<std::pair<const char*, Form>, 5> forms = {{
      {"aten::_native_batch_norm_legit_functional", {Mode::argument, false, true}},
      {"aten::_native_batch_norm_legit.no_stats", {Mode::argument, false, false}},
      {"aten::_native_batch_norm_legit_no_training", {Mode::inference, false, false}},
      {"aten::_batch_norm_with_update_functional", {Mode::training, true, true}},
      {"aten::_batch_norm_no_update", {Mode::inference, true, false}},
  }};
  for (const auto& [name, form] : forms) {
    NEURON_OP(name, no_promotion(),
              result(ResultRule([form = form](const Lowering& l) { return batch_norm_result(l, form); })),
              [form = form](Lowering& l) { return batch_norm(l, form); });
  }
  const std::array<std::pair<const char*, BackwardNames>, 2> backward = {{
      {"aten::native_batch_norm_backward", {"save_invstd", "train"}},
      {"aten::batch_norm_backward", {"save_var", "update"}},
  }};
  for (const auto& [name, names] : backward) {
    NEURON_OP(name, no_promotion(),
              result(ResultRule([names = names](const Lowering& l) { return batch_norm_backward_result(l, names); })),
              [names = names](Lowering& l) { return batch_norm_backward(l, names); });
  }
}

}  // namespace neuron::ops
