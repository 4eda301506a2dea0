// multi_margin_loss and multilabel_margin_loss, forward and backward.
//
// Not supported: dtypes other than f32 and f64 (CPU refuses them). Targets outside the classes raise IndexError.
#include "ops/indexing.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

enum Reduction : int64_t { kNone, kMean, kSum };  // at::Reduction

// Scores [N, C] or, without a batch, [C] or a number; target has one entry per sample, or per sample and class.
struct Layout {
  int64_t samples = 1, classes = 1;
  bool batched = false;
};

std::optional<Layout> layout(const Lowering& l, bool many_labels) {
  const TensorMeta &x = l.meta("self"), &target = l.meta("target");
  if ((x.dtype != DType::f32 && x.dtype != DType::f64) || target.dtype != DType::i64 || x.shape.size() > 2) {
    return std::nullopt;
  }
  Layout out{1, x.shape.empty() ? 1 : x.shape.back(), x.shape.size() == 2};
  if (out.batched) out.samples = x.shape[0];
  if (out.classes == 0 || out.samples == 0) return std::nullopt;
  if (many_labels) return target.shape == x.shape ? std::optional<Layout>(out) : std::nullopt;
  if (target.shape.size() > 1 || element_count(target.shape) != out.samples) return std::nullopt;
  if (l.tensor("weight") && (l.meta("weight").shape != Shape{out.classes} || l.meta("weight").dtype != x.dtype)) {
    return std::nullopt;
  }
  return out;
}

Val reduced(const Lowering& l, const Val& losses, const Shape& each) {
  if (l.int_("reduction", kMean) == kNone) return reshape(losses, each);
  const Val total = sum(losses, {0});
  return l.int_("reduction", kMean) == kSum ? total : total / static_cast<double>(losses.elements());
}

// The gradient of each sample's loss, [N, 1]; the mean over the classes is part of it.
Val incoming(Lowering& l, const Layout& shape) {
  const Val grad = l.raw("grad_output");
  const double divisor = static_cast<double>(shape.classes) * (l.int_("reduction", kMean) == kMean ? shape.samples : 1);
  const Val each = grad.elements() == shape.samples ? reshape(grad, {shape.samples, 1}) : reshape(grad, {1, 1});
  return broadcast_to(each, {shape.samples, 1}) / divisor;
}

// --- one label: the distances by which other classes come nearer than the margin ---

bool known_power(const Lowering& l) {
  const auto p = l.has("p") ? l.number("p") : 1.0;
  return p && (*p == 1 || *p == 2);
}

struct Margins {
  Val distance;  // [N, C], 0 at the label
  Val is_label;  // bool [N, C]
  Val weight;    // [N, 1] of the label, absent without weights
  bool squared = false;
};

Margins margins(Lowering& l, const Layout& shape) {
  const Val x = reshape(l.raw("self"), {shape.samples, shape.classes});
  const Val label = reshape(l.raw("target"), {shape.samples, 1});
  Margins m;
  m.squared = l.has("p") && l.number("p").value_or(1) == 2;
  const Val margin = l.has("margin") ? l.scalar("margin", x.dtype()) : full(l.builder(), x.dtype(), {}, 1);
  m.is_label = eq(iota(l.builder(), DType::i64, x.shape(), 1), label);
  const Val z = margin - gather_elements(x, label, 1) + x;
  m.distance = where(m.is_label | le(z, 0), like(z, 0), z);
  if (l.has("weight")) m.weight = take_slices(l.raw("weight"), label, 0);
  return m;
}

std::optional<Metas> multi_margin_result(const Lowering& l) {
  if (!layout(l, false) || !known_power(l)) return std::nullopt;
  const DType t = l.meta("self").dtype;
  return one(contiguous_meta(t, l.int_("reduction", kMean) == kNone ? l.meta("target").shape : Shape{}));
}

Val multi_margin(Lowering& l) {
  const auto shape = layout(l, false);
  if (!shape || !known_power(l)) return l.unsupported("these operands");
  const Margins m = margins(l, *shape);
  Val terms = m.squared ? m.distance * m.distance : m.distance;
  if (m.weight.present()) terms = terms * m.weight;
  return reduced(l, sum(terms, {1}) / static_cast<double>(shape->classes), l.meta("target").shape);
}

Val multi_margin_backward(Lowering& l) {
  const auto shape = layout(l, false);
  if (!shape || !known_power(l)) return l.unsupported("these operands");
  const Margins m = margins(l, *shape);
  Val slope = m.squared ? 2.0 * m.distance : convert(gt(m.distance, 0), m.distance.dtype());
  if (m.weight.present()) slope = slope * m.weight;
  slope = slope * incoming(l, *shape);
  return reshape(where(m.is_label, -sum(slope, {1}, true), slope), l.meta("self").shape);
}

// --- many labels: those before the first -1, each against every class that is none ---

struct Labels {
  Val scores;  // [N, C]
  Val listed;  // bool [N, C]: places of the target before the first -1
  Val label;   // i64 [N, C], 0 where not listed
  Val flat;    // i64 [N * C]: where the label lies in [N * C], outside where not listed
  Val nearer;  // bool [N, C labels, C classes]: the class is no label and within the margin
  Val z;       // by how much
};

Val mark_labels(const Labels& s, const Val& values) {
  const Val zeros = full(values.builder(), values.dtype(), {s.flat.elements()}, 0);
  ir::ScatterAttrs attrs;
  attrs.inserted_window_dims = attrs.scatter_dims_to_operand_dims = {0};
  attrs.index_vector_dim = 1;
  attrs.combine = Reducer::add;
  attrs.check_bounds = false;
  const Val sums(values.builder(), values.builder().scatter(zeros.value(), s.flat.value(), flatten(values).value(), attrs));
  return reshape(sums, s.scores.shape());
}

Labels labels(Lowering& l, const Layout& shape) {
  const Shape table{shape.samples, shape.classes};
  Labels s;
  s.scores = reshape(l.raw("self"), table);
  const Val target = reshape(l.raw("target"), table);
  s.listed = eq(scan(Reducer::add, convert(lt(target, 0), DType::i64), 1), 0);
  s.label = where(s.listed, target, like(target, 0));
  const Val row = iota(l.builder(), DType::i64, table, 0);
  s.flat =
      flatten(where(s.listed, row * like_int(row, shape.classes) + s.label, like_int(row, shape.samples * shape.classes)));
  const Val is_label = gt(mark_labels(s, like(s.scores, 1)), 0);
  s.z = 1.0 - unsqueeze(gather_elements(s.scores, s.label, 1), 2) + unsqueeze(s.scores, 1);
  s.nearer = gt(s.z, 0) & unsqueeze(s.listed, 2) & !unsqueeze(is_label, 1);
  return s;
}

std::optional<Metas> multilabel_result(const Lowering& l) {
  const auto shape = layout(l, true);
  if (!shape) return std::nullopt;
  const TensorMeta& x = l.meta("self");
  const bool each = l.int_("reduction", kMean) == kNone && shape->batched;
  return Metas{contiguous_meta(x.dtype, each ? Shape{shape->samples} : Shape{}),
               contiguous_meta(x.dtype, l.meta("target").shape)};
}

std::vector<Val> multilabel(Lowering& l) {
  const auto shape = layout(l, true);
  if (!shape) return {l.unsupported("these operands"), Val()};
  const Labels s = labels(l, *shape);
  const Val losses = sum(where(s.nearer, s.z, like(s.z, 0)), {1, 2}) / static_cast<double>(shape->classes);
  const Val is_target = convert(gt(mark_labels(s, like(s.scores, 1)), 0), s.scores.dtype());
  return {reduced(l, losses, shape->batched ? Shape{shape->samples} : Shape{}), reshape(is_target, l.meta("target").shape)};
}

Val multilabel_backward(Lowering& l) {
  const auto shape = layout(l, true);
  if (!shape) return l.unsupported("these operands");
  const Labels s = labels(l, *shape);
  const Val pairs = convert(s.nearer, s.scores.dtype());
  const Val grad = (sum(pairs, {1}) - mark_labels(s, sum(pairs, {2}))) * incoming(l, *shape);
  return reshape(grad, l.meta("self").shape);
}

}  // namespace

void register_margin_loss(Registry& registry) {
  NEURON_OP("aten::multi_margin_loss", no_promotion(), result(multi_margin_result), multi_margin).structural("p");
  NEURON_OP("aten::multi_margin_loss_backward", no_promotion(), result(ResultRule([](const Lowering& l) {
              return layout(l, false) && known_power(l) ? contiguous_like()(l) : std::nullopt;
            })),
            multi_margin_backward)
      .structural("p");
  NEURON_OP("aten::multilabel_margin_loss_forward", no_promotion(), result(multilabel_result), multilabel);
  NEURON_OP("aten::multilabel_margin_loss_backward", no_promotion(),
            result(ResultRule([](const Lowering& l) { return layout(l, true) ? contiguous_like()(l) : std::nullopt; })),
            multilabel_backward);
}

}  // namespace neuron::ops
