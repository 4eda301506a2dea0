// Activation functions and their backwards.
//
// Not supported: multi_head fused activations. rrelu is in random.cpp.
#include <cmath>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;

std::optional<DTypes> ordered_no_bool(const Lowering& l, const Names& names) {
  const auto types = ordered_rule(l, names);
  return types && types->common == DType::boolean ? std::nullopt : types;
}

Val relu(const Val& x) { return maximum(x, like(x, 0)); }

// beta * x beyond the threshold is returned as it is.
Val softplus(const Val& x, const Val& beta, const Val& threshold) {
  const Val scaled = x * beta;
  return where(gt(scaled, threshold), x, unary(Op::softplus_unit, scaled) / beta);
}

void register_gelu_silu(Registry& registry) {
  NEURON_OP("aten::gelu", promotes(floating_rule), result(pointwise),
            [](Lowering& l) { return unary(l.text("approximate") == "tanh" ? Op::gelu_tanh : Op::gelu, l.arg("self")); });
  NEURON_OP("aten::gelu_backward", promotes(floating_rule, {"grad_output", "self"}), result(pointwise), [](Lowering& l) {
    return l.arg("grad_output") * unary(l.text("approximate") == "tanh" ? Op::gelu_tanh_dx : Op::gelu_dx, l.arg("self"));
  });
  NEURON_OP("aten::silu", promotes(float_or_complex_rule), result(pointwise),
            [](Lowering& l) { return unary(Op::silu, l.arg("self")); });
  NEURON_OP("aten::silu_backward", promotes(float_or_complex_rule, {"grad_output", "self"}), result(pointwise),
            [](Lowering& l) {
              const Val x = l.arg("self"), s = sigmoid(x);
              return l.arg("grad_output") * s * (1 + x * (1 - s));
            });
  NEURON_OP("aten::mish", promotes(floating_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    return x * tanh(unary(Op::softplus_unit, x));
  });
  NEURON_OP("aten::mish_backward", promotes(floating_rule, {"grad_output", "self"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self"), s = sigmoid(x), t = tanh(unary(Op::softplus_unit, x));
    return l.arg("grad_output") * (t + x * s * (1 - t * t));
  });
}

void register_simple_backwards(Registry& registry) {
  NEURON_OP("aten::sigmoid_backward", promotes(float_or_complex_rule, {"grad_output", "output"}), result(pointwise),
            [](Lowering& l) {
              const Val y = conj(l.arg("output"));
              return l.arg("grad_output") * ((1 - y) * y);
            });
  NEURON_OP("aten::tanh_backward", promotes(float_or_complex_rule, {"grad_output", "output"}), result(pointwise),
            [](Lowering& l) {
              const Val y = conj(l.arg("output"));
              return l.arg("grad_output") * (1 - y * y);
            });
  NEURON_OP("aten::threshold", promotes(ordered_no_bool, {"self"}), result(pointwise),
            [](Lowering& l) {
              const Val x = l.arg("self");
              return where(le(x, l.scalar("threshold")), l.scalar("value"), x);
            })
      .must_fit("threshold")
      .must_fit("value");
  NEURON_OP("aten::threshold_backward", promotes(ordered_no_bool, {"self", "grad_output"}), result(pointwise),
            [](Lowering& l) {
              const Val grad = l.arg("grad_output");
              return where(le(l.arg("self"), l.scalar("threshold")), like(grad, 0), grad);
            });
}

void register_relu_family(Registry& registry) {
  NEURON_OP("aten::relu", promotes(ordered_no_bool), result(pointwise), [](Lowering& l) { return relu(l.arg("self")); });
  NEURON_OP("aten::leaky_relu", promotes(floating_rule, {"self"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    return where(gt(x, 0), x, x * l.scalar("negative_slope"));
  });
  NEURON_OP("aten::leaky_relu_backward", promotes(floating_rule, {"self", "grad_output"}), result(pointwise),
            [](Lowering& l) {
              const Val grad = l.arg("grad_output");
              return where(gt(l.arg("self"), 0), grad, grad * l.scalar("negative_slope"));
            });
  NEURON_OP("aten::elu", promotes(floating_rule, {"self"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self"), scale = l.scalar("scale");
    const Val low = unary(Op::exponential_minus_one, x * l.scalar("input_scale")) * (l.scalar("alpha") * scale);
    return where(lt(x, 0), low, x * scale);
  });
  NEURON_OP("aten::elu_backward", promotes(floating_rule, {"grad_output", "self_or_result"}), result(pointwise),
            [](Lowering& l) {
              const Val grad = l.arg("grad_output"), x = l.arg("self_or_result");
              const Val inner = l.scalar("input_scale"), scale = l.scalar("scale"), outer = l.scalar("alpha") * scale;
              const Val low = l.flag("is_result") ? grad * inner * (x + outer) : grad * inner * outer * exp(x * inner);
              return where(le(x, 0), low, grad * scale);
            });
  NEURON_OP("aten::celu", promotes(floating_rule, {"self"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self"), alpha = l.scalar("alpha");
    return where(lt(x, 0), unary(Op::exponential_minus_one, x / alpha) * alpha, x);
  });
  NEURON_OP("aten::selu", promotes(floating_rule), result(pointwise), [](Lowering& l) {
    constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
    const Val x = l.arg("self");
    return where(lt(x, 0), unary(Op::exponential_minus_one, x) * (kAlpha * kScale), x * kScale);
  });
  NEURON_OP("aten::_prelu_kernel", promotes(floating_rule, {"self", "weight"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    return where(gt(x, 0), x, l.arg("weight") * x);
  });
  // Gradients of the input and, of the input's shape, of the weight, which autograd sums.
  NEURON_OP("aten::_prelu_kernel_backward", promotes(floating_rule, {"self", "weight", "grad_output"}),
            result(ResultRule([](const Lowering& l) {
              auto metas = pointwise(l);
              if (metas) metas->push_back((*metas)[0]);
              return metas;
            })),
            [](Lowering& l) {
              const Val x = l.arg("self"), grad = l.arg("grad_output"), positive = gt(x, 0);
              return std::vector<Val>{where(positive, grad, l.arg("weight") * grad), where(positive, like(x, 0), x * grad)};
            });
}

void register_hard_family(Registry& registry) {
  NEURON_OP("aten::hardtanh", promotes(ordered_no_bool, {"self"}), result(pointwise),
            [](Lowering& l) { return minimum(maximum(l.arg("self"), l.scalar("min_val")), l.scalar("max_val")); })
      .must_fit("min_val")
      .must_fit("max_val");
  NEURON_OP("aten::hardtanh_backward", promotes(floating_rule, {"grad_output", "self"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self"), grad = l.arg("grad_output");
    return where(le(x, l.scalar("min_val")) | ge(x, l.scalar("max_val")), like(grad, 0), grad);
  });
  NEURON_OP("aten::hardsigmoid", promotes(floating_rule), result(pointwise),
            [](Lowering& l) { return clamp(l.arg("self") + 3, 0, 6) / 6; });
  NEURON_OP("aten::hardsigmoid_backward", promotes(floating_rule, {"grad_output", "self"}), result(pointwise),
            [](Lowering& l) {
              const Val x = l.arg("self"), grad = l.arg("grad_output");
              return where(gt(x, -3) & lt(x, 3), grad * (1.0 / 6), like(grad, 0));
            });
  NEURON_OP("aten::hardswish", promotes(floating_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    return x * clamp(x + 3, 0, 6) / 6;
  });
  NEURON_OP("aten::hardswish_backward", promotes(floating_rule, {"grad_output", "self"}), result(pointwise),
            [](Lowering& l) {
              const Val x = l.arg("self"), grad = l.arg("grad_output");
              return where(le(x, -3), like(grad, 0), where(lt(x, 3), grad * (x / 3 + 0.5), grad));
            });
  NEURON_OP("aten::hardshrink", promotes(floating_rule, {"self"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self"), lambda = l.scalar("lambd");
    return where(ge(x, -lambda) & le(x, lambda), like(x, 0), x);
  });
  NEURON_OP("aten::softshrink", promotes(floating_rule, {"self"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self"), lambda = l.scalar("lambd");
    return where(gt(x, lambda), x - lambda, where(lt(x, -lambda), x + lambda, x * 0));
  });
  for (const char* name : {"aten::hardshrink_backward", "aten::softshrink_backward"}) {
    const bool hard = std::string_view(name) == "aten::hardshrink_backward";
    const char* grad_name = hard ? "grad_out" : "grad_output";
    NEURON_OP(name, promotes(floating_rule, {grad_name, "self"}), result(pointwise), [grad_name](Lowering& l) {
      const Val x = l.arg("self"), grad = l.arg(grad_name), lambda = l.scalar("lambd");
      return where(ge(x, -lambda) & le(x, lambda), like(grad, 0), grad);
    });
  }
}

void register_log_family(Registry& registry) {
  NEURON_OP("aten::softplus", promotes(floating_rule, {"self"}), result(pointwise),
            [](Lowering& l) { return softplus(l.arg("self"), l.scalar("beta"), l.scalar("threshold")); });
  NEURON_OP("aten::softplus_backward", promotes(floating_rule, {"grad_output", "self"}), result(pointwise), [](Lowering& l) {
    const Val grad = l.arg("grad_output"), scaled = l.arg("self") * l.scalar("beta");
    return where(gt(scaled, l.scalar("threshold")), grad, grad * sigmoid(scaled));
  });
  // The second result is what CPU keeps for its backward, exp(-|x|).
  NEURON_OP("aten::log_sigmoid_forward", promotes(floating_rule), result(ResultRule([](const Lowering& l) {
              const TensorMeta m = contiguous_meta(l.common(), l.meta("self").shape);
              return std::optional<Metas>(Metas{m, m});
            })),
            [](Lowering& l) {
              const Val x = l.arg("self"), decay = exp(-abs(x));
              return std::vector<Val>{minimum(x, like(x, 0)) - unary(Op::log_plus_one, decay), decay};
            });
  NEURON_OP("aten::log_sigmoid_backward", promotes(floating_rule, {"grad_output", "self"}), result(pointwise),
            [](Lowering& l) { return l.arg("grad_output") * sigmoid(-l.arg("self")); });
  NEURON_OP("aten::logit", promotes(float_rule, {"self"}), result(pointwise), [](Lowering& l) {
    Val x = l.arg("self");
    if (l.has("eps")) {
      const Val eps = l.scalar("eps");
      x = minimum(maximum(x, eps), 1 - eps);
    }
    return log(x / (1 - x));
  });
  NEURON_OP("aten::logit_backward", promotes(floating_rule, {"grad_output", "self"}), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self"), grad = l.arg("grad_output");
    const Val inside = grad / (x * (1 - x));
    if (!l.has("eps")) return where(lt(x, 0) | gt(x, 1), like(x, std::nan("")), inside);
    const Val eps = l.scalar("eps");
    return where(lt(x, eps) | gt(x, 1 - eps), like(x, 0), inside);
  });
}

// glu: first half * sigmoid(second half) along a dim.
void register_glu(Registry& registry) {
  NEURON_OP("aten::glu", promotes(floating_rule, {"self"}), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              TensorMeta m = l.meta("self");
              const auto rank = static_cast<int64_t>(m.shape.size());
              const int64_t dim = l.dim("dim", rank, -1);
              if (rank == 0 || l.failed() || m.shape[dim] % 2 != 0) return std::nullopt;
              m.shape[dim] /= 2;
              const std::vector<Operand> halves(2, Operand{m.shape, m.strides});
              return one({m.dtype, m.shape, iterator_strides(m.shape, halves)});
            })),
            [](Lowering& l) {
              const Val x = l.arg("self");
              const int64_t dim = l.dim("dim", x.rank(), -1), half = x.size(dim) / 2;
              return slice(x, dim, 0, half) * sigmoid(slice(x, dim, half, 2 * half));
            });
  NEURON_OP("aten::glu_backward", promotes(floating_rule, {"grad_output", "self"}), result(contiguous_like("self")),
            [](Lowering& l) {
              const Val x = l.arg("self"), grad = l.arg("grad_output");
              const int64_t dim = l.dim("dim", x.rank(), -1), half = x.size(dim) / 2;
              const Val s = sigmoid(slice(x, dim, half, 2 * half));
              const Val first = s * grad;
              return concatenate({first, first * (1 - s) * slice(x, dim, 0, half)}, dim);
            });
}

}  // namespace

void register_activation(Registry& registry) {
  register_gelu_silu(registry);
  register_simple_backwards(registry);
  register_relu_family(registry);
  register_hard_family(registry);
  register_log_family(registry);
  register_glu(registry);
}

}  // namespace neuron::ops
