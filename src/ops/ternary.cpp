// where, clamp, lerp, addcmul and other element-wise operators of three operands.
//
// Not supported: nothing that CPU does.
#include "ops/registry.h"

namespace neuron::ops {
namespace {

std::optional<DTypes> no_bool_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && types->common == DType::boolean ? std::nullopt : types;
}
std::optional<DTypes> lerp_rule(const Lowering& l, const Names& names) {
  const auto types = same_rule(l, names);
  return types && is_integral(types->common) ? std::nullopt : types;
}

Val limit(Lowering& l, const char* low, const char* high) {
  Val x = l.arg("self");
  if (low && l.has(low)) x = maximum(x, l.arg(low));
  if (high && l.has(high)) x = minimum(x, l.arg(high));
  return x;
}

std::optional<Metas> clamp_result(const Lowering& l) { return l.has("min") || l.has("max") ? pointwise(l) : std::nullopt; }

// The numerically stable form: exact at both ends.
Val lerp(const Val& start, const Val& end, const Val& weight) {
  const Val difference = end - start;
  const Val near_start = lt(abs(weight), 0.5);
  return where(near_start, start + weight * difference, end - difference * (1 - weight));
}

// masked_fill: the tensor's dtype decides; contiguous.
std::optional<Metas> masked_fill_result(const Lowering& l) {
  const TensorMeta& self = l.meta("self");
  const TensorMeta& mask = l.meta("mask");
  const auto shape = broadcast_shapes(self.shape, mask.shape);
  if (!shape || mask.dtype != DType::boolean) return std::nullopt;
  if (const TensorArg* value = l.tensor("value"); value && !value->meta.shape.empty()) return std::nullopt;
  return one(contiguous_meta(self.dtype, *shape));
}

Val masked_fill(Lowering& l) {
  const Val x = l.raw("self");
  const Val value = l.tensor("value") ? convert(l.raw("value"), x.dtype()) : l.scalar("value", x.dtype());
  return where(l.raw("mask"), value, x);
}

std::optional<Metas> where_result(const Lowering& l) {
  const DType condition = l.meta("condition").dtype;
  if (condition != DType::boolean && condition != DType::u8) return std::nullopt;
  std::vector<Operand> operands{{l.meta("condition").shape, l.meta("condition").strides}};
  Shape shape = l.meta("condition").shape;
  for (const char* name : {"self", "other"}) {
    Operand o;
    if (const TensorArg* t = l.tensor(name)) {
      o = {t->meta.shape, t->meta.dtype == l.common() ? t->meta.strides : preserved_strides(t->meta.shape, t->meta.strides)};
    }
    const auto joined = broadcast_shapes(shape, o.shape);
    if (!joined) return std::nullopt;
    shape = *joined;
    operands.push_back(std::move(o));
  }
  Shape strides = iterator_strides(shape, operands);
  return one({l.result_dtype(), std::move(shape), std::move(strides)});
}

}  // namespace

void register_ternary(Registry& registry) {
  for (const char* name : {"aten::where.self", "aten::where.ScalarSelf", "aten::where.ScalarOther", "aten::where.Scalar"}) {
    NEURON_OP(name, promotes(move_rule, {"self", "other"}), result(where_result),
              [](Lowering& l) { return where(to_bool(l.raw("condition")), l.arg("self"), l.arg("other")); });
  }
  for (const char* name : {"aten::masked_fill.Scalar", "aten::masked_fill.Tensor"}) {
    NEURON_OP(name, no_promotion(), result(masked_fill_result), masked_fill).must_fit("value");
  }

  for (const char* name : {"aten::clamp", "aten::clamp.Tensor"}) {
    NEURON_OP(name, promotes(ordered_rule, {"self", "min", "max"}), result(clamp_result),
              [](Lowering& l) { return limit(l, "min", "max"); })
        .must_fit("min")
        .must_fit("max");
  }
  for (const char* name : {"aten::clamp_min", "aten::clamp_min.Tensor"}) {
    NEURON_OP(name, promotes(ordered_rule, {"self", "min"}), result(pointwise), [](Lowering& l) {
      return limit(l, "min", nullptr);
    }).must_fit("min");
  }
  for (const char* name : {"aten::clamp_max", "aten::clamp_max.Tensor"}) {
    NEURON_OP(name, promotes(ordered_rule, {"self", "max"}), result(pointwise), [](Lowering& l) {
      return limit(l, nullptr, "max");
    }).must_fit("max");
  }

  NEURON_OP("aten::addcmul", promotes(no_bool_rule, {"self", "tensor1", "tensor2"}), result(pointwise),  // + value * t1 * t2
            [](Lowering& l) { return l.arg("self") + l.scalar("value") * (l.arg("tensor1") * l.arg("tensor2")); });
  NEURON_OP("aten::addcdiv", promotes(float_or_complex_rule, {"self", "tensor1", "tensor2"}), result(pointwise),
            [](Lowering& l) { return l.arg("self") + l.scalar("value") * l.arg("tensor1") / l.arg("tensor2"); });
  NEURON_OP("aten::lerp.Tensor", promotes(lerp_rule, {"self", "end", "weight"}), result(pointwise),
            [](Lowering& l) { return lerp(l.arg("self"), l.arg("end"), l.arg("weight")); });
  NEURON_OP("aten::lerp.Scalar", promotes(lerp_rule, {"self", "end"}), result(pointwise),
            [](Lowering& l) { return lerp(l.arg("self"), l.arg("end"), l.scalar("weight")); });
}

}  // namespace neuron::ops
