// Loss functions that PyTorch does not compose from others, forward and backward.
//
// Not supported: ctc_loss. Probabilities outside [0, 1] in binary_cross_entropy
// are not reported.
#include <limits>

#include "ops/indexing.h"

namespace neuron::ops {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };  // at::Reduction

Reduction reduction_of(const Lowering& l) { return static_cast<Reduction>(l.int_("reduction", kMean)); }

// A value per element, or one number.
std::optional<Metas> loss_result(const Lowering& l) {
  auto metas = pointwise(l);
  if (!metas || reduction_of(l) == kNone) return metas;
  return one(contiguous_meta((*metas)[0]->dtype, {}));
}

Val reduced(Lowering& l, const Val& loss) {
  if (reduction_of(l) == kNone) return loss;
  const Val total = sum(loss, all_dims(loss));
  return reduction_of(l) == kSum ? total : total / static_cast<double>(loss.elements());
}

// grad_output, divided by the number of elements for the mean.
Val incoming(Lowering& l, int64_t elements) {
  const Val grad = l.arg("grad_output");
  return reduction_of(l) == kMean ? grad / static_cast<double>(elements) : grad;
}

Val clipped_log(const Val& x) { return maximum(log(x), like(x, -100)); }

void register_distances(Registry& registry) {
  const Names both{"self", "target"}, with_grad{"self", "target", "grad_output"};
  NEURON_OP("aten::mse_loss", promotes(floating_rule, both), result(loss_result), [](Lowering& l) {
    const Val d = l.arg("self") - l.arg("target");
    return reduced(l, d * d);
  });
  NEURON_OP("aten::mse_loss_backward", promotes(floating_rule, with_grad), result(contiguous_like("self")), [](Lowering& l) {
    const Val d = l.arg("self") - l.arg("target");
    return incoming(l, d.elements()) * (2.0 * d);
  });
  NEURON_OP("aten::smooth_l1_loss", promotes(floating_rule, both), result(loss_result), [](Lowering& l) {
    const Val d = abs(l.arg("self") - l.arg("target")), beta = l.scalar("beta");
    return reduced(l, where(lt(d, beta), 0.5 * d * d / beta, d - 0.5 * beta));
  });
  NEURON_OP("aten::smooth_l1_loss_backward", promotes(floating_rule, with_grad), result(contiguous_like("self")),
            [](Lowering& l) {
              const Val d = l.arg("self") - l.arg("target"), beta = l.scalar("beta"), grad = incoming(l, d.elements());
              return where(le(d, -beta), -grad, where(ge(d, beta), grad, grad * d / beta));
            });
  NEURON_OP("aten::huber_loss", promotes(floating_rule, both), result(loss_result), [](Lowering& l) {
    const Val d = abs(l.arg("self") - l.arg("target")), delta = l.scalar("delta");
    return reduced(l, where(le(d, delta), 0.5 * d * d, delta * (d - 0.5 * delta)));
  });
  NEURON_OP("aten::huber_loss_backward", promotes(floating_rule, with_grad), result(contiguous_like("self")),
            [](Lowering& l) {
              const Val d = l.arg("self") - l.arg("target"), delta = l.scalar("delta"), grad = incoming(l, d.elements());
              return where(le(d, -delta), -grad * delta, where(ge(d, delta), grad * delta, grad * d));
            });
  NEURON_OP("aten::soft_margin_loss", promotes(floating_rule, both), result(loss_result),
            [](Lowering& l) { return reduced(l, unary(ir::Op::softplus_unit, -(l.arg("self") * l.arg("target")))); });
  NEURON_OP("aten::soft_margin_loss_backward", promotes(floating_rule, with_grad), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self"), t = l.arg("target");
    return -(t * sigmoid(-(x * t))) * incoming(l, x.elements());
  });
}

void register_cross_entropies(Registry& registry) {
  NEURON_OP("aten::binary_cross_entropy", promotes(floating_rule, {"self", "target", "weight"}), result(loss_result),
            [](Lowering& l) {
              const Val x = l.arg("self"), t = l.arg("target");
              const Val loss = (t - 1.0) * maximum(unary(ir::Op::log_plus_one, -x), like(x, -100)) - t * clipped_log(x);
              return reduced(l, l.has("weight") ? loss * l.arg("weight") : loss);
            });
  NEURON_OP("aten::binary_cross_entropy_backward", promotes(floating_rule, {"self", "target", "weight", "grad_output"}),
            result(pointwise), [](Lowering& l) {
              const Val x = l.arg("self"), t = l.arg("target");
              const Val slope = incoming(l, x.elements()) * (x - t) / maximum((1.0 - x) * x, like(x, 1e-12));
              return l.has("weight") ? slope * l.arg("weight") : slope;
            });
  // log_sigmoid(x) = -softplus(-x).
  NEURON_OP("aten::binary_cross_entropy_with_logits", promotes(floating_rule, {"self", "target", "weight", "pos_weight"}),
            result(loss_result), [](Lowering& l) {
              const Val x = l.arg("self"), t = l.arg("target");
              Val positive = unary(ir::Op::softplus_unit, -x);
              if (l.has("pos_weight")) positive = positive * ((l.arg("pos_weight") - 1.0) * t + 1.0);
              const Val loss = (1.0 - t) * x + positive;
              return reduced(l, l.has("weight") ? loss * l.arg("weight") : loss);
            });
}

// --- negative log likelihood: scores [N, C, d1, ..] or [C], target [N, d1, ..] or [] ---

int64_t class_dim(int64_t rank) { return rank == 1 ? 0 : 1; }

std::optional<Metas> nll_result(const Lowering& l) {
  const TensorMeta &x = l.meta("self"), &target = l.meta("target");
  const auto rank = static_cast<int64_t>(x.shape.size());
  if (!is_floating(x.dtype) || rank == 0 || !is_integral(target.dtype) || target.dtype == DType::boolean)
    return std::nullopt;
  if (target.shape != reduced_shape(x.shape, {class_dim(rank)}, false)) return std::nullopt;
  if (l.tensor("weight") && l.meta("weight").shape != Shape{x.shape[class_dim(rank)]}) return std::nullopt;
  const bool each = reduction_of(l) == kNone;
  return Metas{contiguous_meta(x.dtype, each ? target.shape : Shape{}), contiguous_meta(x.dtype, {})};
}

struct Nll {
  Val scores, target;  // [M, C] and [M] i64
  Val counted;         // bool [M]: not ignored
  Val weights;         // of each row; 0 where ignored
  Val safe_target;     // 0 where ignored
};

Nll prepare_nll(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t classes = class_dim(x.rank()), count = x.size(classes);
  Nll n;
  n.scores = reshape(move_dim(convert(x, opmath(x.dtype())), classes, x.rank() - 1),
                     {x.elements() / std::max<int64_t>(count, 1), count});
  n.target = flatten(convert(l.raw("target"), DType::i64));
  n.counted = ne(n.target, like_int(n.target, l.int_("ignore_index", -100)));
  n.safe_target = where(n.counted, n.target, like_int(n.target, 0));
  const Val zero = full(l.builder(), n.scores.dtype(), n.target.shape(), 0);
  const Val weight = l.has("weight") ? take_slices(convert(l.raw("weight"), zero.dtype()), n.safe_target, 0) : zero + 1.0;
  n.weights = where(n.counted, weight, zero);
  return n;
}

std::vector<Val> nll_forward(Lowering& l) {
  const DType target_dtype = l.meta("self").dtype;
  const Nll n = prepare_nll(l);
  const Val picked = reshape(gather_elements(n.scores, unsqueeze(n.safe_target, 1), 1), n.target.shape());
  const Val losses = where(n.counted, -(n.weights * picked), like(picked, 0));
  const Reduction reduction = reduction_of(l);
  const bool one_row = l.meta("self").shape.size() == 1;  // CPU reports its weight for any reduction
  if (reduction == kNone && !one_row) {
    return {convert(reshape(losses, l.meta("target").shape), target_dtype), full(l.builder(), target_dtype, {}, 0)};
  }
  const Val total = sum(losses, {0}), weight = sum(n.weights, {0});
  return {convert(reduction == kMean ? total / weight : total, target_dtype), convert(weight, target_dtype)};
}

std::optional<Metas> nll_backward_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  return one(contiguous_meta(x.dtype, x.shape));
}

// -weight * grad at each row's target, zero elsewhere.
Val nll_backward(Lowering& l) {
  const Val x = l.raw("self");
  const Nll n = prepare_nll(l);
  const DType t = n.scores.dtype();
  Val grad = convert(l.raw("grad_output"), t);
  if (reduction_of(l) == kMean) grad = grad / convert(l.raw("total_weight"), t);
  if (reduction_of(l) == kNone) grad = flatten(grad);
  const Val slope = where(n.counted, -(n.weights * grad), like(n.weights, 0));
  const Val column = iota(l.builder(), DType::i64, n.scores.shape(), 1);
  const Val result = where(eq(column, unsqueeze(n.safe_target, 1)), unsqueeze(slope, 1), like(n.scores, 0));
  Shape moved = x.shape();
  const int64_t classes = class_dim(x.rank());
  moved.erase(moved.begin() + classes);
  moved.push_back(x.size(classes));
  return convert(move_dim(reshape(result, moved), x.rank() - 1, classes), x.dtype());
}

}  // namespace

void register_loss(Registry& registry) {
  register_distances(registry);
  register_cross_entropies(registry);
  for (const std::string name : {"aten::nll_loss", "aten::nll_loss2d"}) {
    NEURON_OP(name + "_forward", no_promotion(), result(nll_result), nll_forward);
    NEURON_OP(name + "_backward", no_promotion(), result(nll_backward_result), nll_backward);
  }
}

}  // namespace neuron::ops
