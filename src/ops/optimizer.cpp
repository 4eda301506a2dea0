// Fused optimizer steps and gradient-scaler operators over lists of tensors. Results: the new values of the mutated
// arguments in schema order, lists flattened.
//
// Not supported: complex parameters. Arithmetic is in f32 for f16 and bf16; numbers that are the same for every element
// (bias corrections) are computed in f64, where 1 - beta^step keeps its digits.
#include <map>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

// Metas of the mutated arguments, as they are.
ResultRule mutates(std::vector<std::string> names) {
  return [names = std::move(names)](const Lowering& l) -> std::optional<Metas> {
    Metas metas;
    for (const std::string& name : names) {
      if (const TensorArg* t = l.tensor(name)) metas.push_back(t->meta);
      for (const auto& t : l.list(name)) metas.push_back(t ? std::optional<TensorMeta>(t->meta) : std::nullopt);
    }
    return metas;
  };
}

Val number_or_tensor(Lowering& l, const char* name) {
  return l.tensor(name) ? convert(reshape(l.raw(name), {}), DType::f64) : l.scalar(name, DType::f64);
}

// What all steps share: gradient scaling, the skip of a step whose gradients were not finite.
class Step {
 public:
  explicit Step(Lowering& l) : l_(l), params_(l.tensors("self")), grads_(l.tensors("grads")) {
    if (l.has("found_inf")) skip_ = ne(reshape(l.raw("found_inf"), {}), 0.0);
  }

  size_t size() const { return params_.size(); }
  const Val& param(size_t i) const { return params_[i]; }
  DType compute(size_t i) const { return opmath(params_[i].dtype()); }

  // The gradient in the compute dtype after unscaling; the unscaled one is also what `grads` becomes.
  Val gradient(size_t i) {
    Val g = convert(grads_[i], compute(i));
    if (l_.has("grad_scale")) {
      g = g / convert(reshape(l_.raw("grad_scale"), {}), g.dtype());
      new_grads_.push_back(keep(grads_[i], g));
    } else {
      new_grads_.push_back(grads_[i]);
    }
    return l_.flag("maximize") ? -g : g;
  }

  // The new value in the old one's dtype, or the old one when the step is skipped.
  Val keep(const Val& old, const Val& fresh) const {
    const Val rounded = convert(fresh, old.dtype());
    return skip_.present() ? where(skip_, old, rounded) : rounded;
  }

  const std::vector<Val>& new_grads() const { return new_grads_; }

  // Numbers for all elements of parameter i: an f64 value in its compute dtype, converted once for all parameters.
  Val shared(const Val& f64_value, size_t i) {
    Val& converted = converted_[{f64_value.value().node, compute(i)}];
    if (!converted.present()) converted = convert(f64_value, compute(i));
    return converted;
  }

 private:
  Lowering& l_;
  std::vector<Val> params_, grads_, new_grads_;
  std::map<std::pair<int32_t, DType>, Val> converted_;
  Val skip_;
};

std::vector<Val> joined(std::initializer_list<const std::vector<Val>*> lists) {
  std::vector<Val> all;
  for (const auto* list : lists) all.insert(all.end(), list->begin(), list->end());
  return all;
}

// The steps of all parameters as one f64 vector, so that their bias corrections are a handful of operations.
Val step_vector(Lowering& l) {
  std::vector<Val> parts;
  for (const Val& step : l.tensors("state_steps")) parts.push_back(reshape(convert(step, DType::f64), {1}));
  return concatenate(parts, 0);
}

Val entry(const Val& vector, size_t i) { return select(vector, 0, static_cast<int64_t>(i)); }

// decoupled: AdamW shrinks the parameter itself; Adam adds the decay to the gradient.
std::vector<Val> adam(Lowering& l, bool decoupled) {
  Step step(l);
  if (step.size() == 0) return {};
  const auto averages = l.tensors("exp_avgs"), squares = l.tensors("exp_avg_sqs"), maxima = l.tensors("max_exp_avg_sqs");
  const bool amsgrad = l.flag("amsgrad");
  const Val lr = number_or_tensor(l, "lr"), beta1 = l.scalar("beta1", DType::f64), beta2 = l.scalar("beta2", DType::f64);
  const Val decay = l.scalar("weight_decay", DType::f64), eps = l.scalar("eps", DType::f64);
  const Val shrink = lr * decay, fresh1 = 1.0 - beta1, fresh2 = 1.0 - beta2;
  const Val steps = step_vector(l);
  const Val step_sizes = lr / (1.0 - pow(broadcast_to(beta1, steps.shape()), steps));
  const Val roots = sqrt(1.0 - pow(broadcast_to(beta2, steps.shape()), steps));

  std::vector<Val> params, new_averages, new_squares, new_maxima;
  for (size_t i = 0; i < step.size(); ++i) {
    const DType t = step.compute(i);
    const auto number = [&](const Val& v) { return step.shared(v, i); };
    if (is_complex(t)) return {l.unsupported("a complex parameter")};
    Val g = step.gradient(i), p = convert(step.param(i), t);
    if (decoupled) {
      p = p - number(shrink) * p;
    } else {
      g = g + number(decay) * p;
    }
    const Val average = convert(averages[i], t), square = convert(squares[i], t);
    const Val m = average + number(fresh1) * (g - average);
    const Val v = number(beta2) * square + number(fresh2) * g * g;
    Val largest = v;
    if (amsgrad) {
      largest = maximum(convert(maxima[i], t), v);
      new_maxima.push_back(step.keep(maxima[i], largest));
    }
    const Val denominator = sqrt(largest) / entry(number(roots), i) + number(eps);
    params.push_back(step.keep(step.param(i), p - entry(number(step_sizes), i) * m / denominator));
    new_averages.push_back(step.keep(averages[i], m));
    new_squares.push_back(step.keep(squares[i], v));
  }
  if (!amsgrad) new_maxima = maxima;
  return joined({&params, &step.new_grads(), &new_averages, &new_squares, &new_maxima});
}

// Buffers are absent (None or an empty list) without momentum; the first step fills them with the gradient.
std::vector<Val> sgd(Lowering& l) {
  Step step(l);
  const auto buffers = l.tensors("momentum_buffer_list");
  const Val lr = number_or_tensor(l, "lr"), decay = l.scalar("weight_decay", DType::f64),
            momentum = l.scalar("momentum", DType::f64);
  const Val undamped = 1.0 - l.scalar("dampening", DType::f64);
  const bool first = l.flag("is_first_step"), nesterov = l.flag("nesterov");
  std::vector<Val> params, new_buffers;
  for (size_t i = 0; i < step.size(); ++i) {
    const DType t = step.compute(i);
    const auto number = [&](const Val& v) { return step.shared(v, i); };
    if (is_complex(t)) return {l.unsupported("a complex parameter")};
    const Val p = convert(step.param(i), t);
    Val g = step.gradient(i) + number(decay) * p;
    if (i < buffers.size() && buffers[i].present()) {
      const Val buffer = first ? g : number(momentum) * convert(buffers[i], t) + number(undamped) * g;
      new_buffers.push_back(step.keep(buffers[i], buffer));
      g = nesterov ? g + number(momentum) * buffer : buffer;
    } else if (i < buffers.size()) {
      new_buffers.push_back(Val());
    }
    params.push_back(step.keep(step.param(i), p - number(lr) * g));
  }
  return joined({&params, &step.new_grads(), &new_buffers});
}

std::vector<Val> adagrad(Lowering& l) {
  Step step(l);
  if (step.size() == 0) return {};
  const auto sums = l.tensors("state_sums"), counts = l.tensors("state_steps");
  const Val lr = number_or_tensor(l, "lr"), decay = l.scalar("weight_decay", DType::f64), eps = l.scalar("eps", DType::f64);
  const Val rates = lr / (1.0 + (step_vector(l) - 1.0) * l.scalar("lr_decay", DType::f64));
  std::vector<Val> params, new_sums;
  for (size_t i = 0; i < step.size(); ++i) {
    const DType t = step.compute(i);
    if (is_complex(t)) return {l.unsupported("a complex parameter")};
    const Val p = convert(step.param(i), t), g = step.gradient(i) + step.shared(decay, i) * p;
    const Val total = convert(sums[i], t) + g * g;
    params.push_back(
        step.keep(step.param(i), p - entry(step.shared(rates, i), i) * g / (sqrt(total) + step.shared(eps, i))));
    new_sums.push_back(step.keep(sums[i], total));
  }
  return joined({&params, &step.new_grads(), &new_sums, &counts});
}

void register_fused(Registry& registry) {
  const auto adam_result = mutates({"self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"});
  const auto sgd_result = mutates({"self", "grads", "momentum_buffer_list"});
  const auto adagrad_result = mutates({"self", "grads", "state_sums", "state_steps"});
  for (const std::string inplace : {"", "_"}) {
    for (const std::string overload : {"", ".tensor_lr"}) {
      const std::string suffix = inplace + overload;
      for (const bool decoupled : {false, true}) {
        NEURON_OP((decoupled ? "aten::_fused_adamw" : "aten::_fused_adam") + suffix, no_promotion(), result(adam_result),
                  [decoupled](Lowering& l) { return adam(l, decoupled); });
      }
      NEURON_OP("aten::_fused_sgd" + suffix, no_promotion(), result(sgd_result), sgd);
      // Only the in-place form without tensor_lr declares state_steps as mutated; its value stays.
      if (suffix == "_") NEURON_OP("aten::_fused_adagrad_", no_promotion(), result(adagrad_result), adagrad);
    }
  }
}

// --- gradient scaler ---

// Gradients times inv_scale; found_inf becomes 1 if any was not finite, and stays otherwise.
std::vector<Val> unscale(Lowering& l) {
  const Val scale = l.raw("inv_scale"), found = l.raw("found_inf");
  Val bad = full(l.builder(), DType::boolean, {}, 0);
  std::vector<Val> results;
  for (const Val& g : l.tensors("self")) {
    const DType t = opmath(g.dtype());
    if (!is_floating(t)) return {l.unsupported("a gradient of this dtype")};
    const Val x = convert(g, t);
    bad = bad | reduce(ir::Reducer::or_, !unary(ir::Op::is_finite, x), all_dims(x));
    results.push_back(convert(x * convert(reshape(scale, {}), t), g.dtype()));
  }
  results.push_back(where(bad, like(found, 1), found));
  return results;
}

// Backs off after a bad step, grows after growth_interval good ones.
std::vector<Val> update_scale(Lowering& l) {
  const Val scale = l.raw("self"), tracker = l.raw("growth_tracker"), found = reshape(l.raw("found_inf"), {});
  const Val bad = ne(found, 0.0), zero = like_int(tracker, 0);
  const Val counted = tracker + like_int(tracker, 1);
  const Val due = eq(counted, convert(l.scalar("growth_interval", DType::i64), tracker.dtype()));
  const Val grown = convert(convert(scale, DType::f64) * l.scalar("scale_growth_factor", DType::f64), scale.dtype());
  const Val grown_if_finite = where(unary(ir::Op::is_finite, grown), grown, scale);
  const Val backed = convert(convert(scale, DType::f64) * l.scalar("scale_backoff_factor", DType::f64), scale.dtype());
  const Val bad_here = broadcast_to(bad, scale.shape()), due_here = broadcast_to(reshape(due, {}), scale.shape());
  return {where(bad_here, backed, where(due_here, grown_if_finite, scale)),
          where(broadcast_to(bad, tracker.shape()), zero, where(due, zero, counted))};
}

}  // namespace

void register_optimizer(Registry& registry) {
  register_fused(registry);
  for (const std::string inplace : {"", "_"}) {
    NEURON_OP("aten::_amp_foreach_non_finite_check_and_unscale" + inplace, no_promotion(),
              result(mutates({"self", "found_inf"})), unscale);
    NEURON_OP("aten::_amp_update_scale" + inplace, no_promotion(), result(mutates({"self", "growth_tracker"})),
              update_scale);
  }
}

}  // namespace neuron::ops
