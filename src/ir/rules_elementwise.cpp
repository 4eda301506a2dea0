// Rules of leaves and element-wise operators.
#include "ir/rules.h"

namespace neuron::ir {
namespace {

Status check_requested(const RuleInput& r, int rule) {
  NEURON_RULE(r.requested != nullptr, rule, "needs a result type");
  return {};
}

// parameter.3 result type given; .4 tensor: one stride per dimension; .5 index not negative; .6 scalar: 0-dim i64, u64, f64
// or c128.
Result<Types> infer_parameter(const RuleInput& r) {
  NEURON_RETURN_IF_ERROR(check_requested(r, 3));
  const auto& a = std::get<ParameterAttrs>(r.attrs);
  const Type& t = *r.requested;
  if (a.kind == ParameterAttrs::Kind::tensor) {
    NEURON_RULE(a.strides.size() == t.shape.size(), 4, "strides " + list(a.strides) + " for " + to_string(t));
  } else {
    const bool slot = t.dtype == DType::i64 || t.dtype == DType::u64 || t.dtype == DType::f64 || t.dtype == DType::c128;
    NEURON_RULE(t.shape.empty() && slot, 6, "scalar parameter of type " + to_string(t));
  }
  NEURON_RULE(a.index >= 0, 5, "index " + std::to_string(a.index));
  return Types{t};
}

// constant.3 result type given; .4 byte count = elements (splat: one element) * size.
Result<Types> infer_constant(const RuleInput& r) {
  NEURON_RETURN_IF_ERROR(check_requested(r, 3));
  const auto& a = std::get<ConstantAttrs>(r.attrs);
  const int64_t elements = a.splat ? 1 : r.requested->elements();
  const auto bytes = static_cast<size_t>(elements) * size_of(r.requested->dtype);
  NEURON_RULE(a.data.size() == bytes, 4,
              std::to_string(a.data.size()) + " bytes for " + to_string(*r.requested) + (a.splat ? " (splat)" : ""));
  return Types{*r.requested};
}

// iota.3 result type given; .4 dim in range; .5 a number type.
Result<Types> infer_iota(const RuleInput& r) {
  NEURON_RETURN_IF_ERROR(check_requested(r, 3));
  const int64_t dim = std::get<DimAttrs>(r.attrs).dim;
  NEURON_RULE(dim >= 0 && dim < static_cast<int64_t>(r.requested->shape.size()), 4,
              "dim " + std::to_string(dim) + " of " + to_string(*r.requested));
  NEURON_RULE(in_domain(r.requested->dtype, kNumber), 5, "of dtype bool");
  return Types{*r.requested};
}

// convert.3 result type given; .4 equal shapes. bitcast_convert.3, .4 the same; .5 equal element sizes; .6 neither bool.
Result<Types> infer_convert(const RuleInput& r) {
  NEURON_RETURN_IF_ERROR(check_requested(r, 3));
  const Type& from = *r.in[0];
  const Type& to = *r.requested;
  NEURON_RULE(from.shape == to.shape, 4, "shape of the result " + to_string(to) + " differs");
  if (r.op == Op::bitcast_convert) {
    NEURON_RULE(size_of(from.dtype) == size_of(to.dtype), 5, "element sizes differ from result " + to_string(to));
    NEURON_RULE(from.dtype != DType::boolean && to.dtype != DType::boolean, 6, "bool has no bit pattern");
  }
  return Types{to};
}

// Element-wise: <op>.3 dtype in the operator's domain; .4 equal operand types.
Result<Types> infer_plain(const RuleInput& r) {
  const OpInfo& row = info(r.op);
  const Type& a = *r.in[0];
  NEURON_RULE(in_domain(a.dtype, row.domain), 3, "does not take " + std::string(neuron::name_of(a.dtype)));
  if (row.form == Form::binary) NEURON_RULE(a == *r.in[1], 4, "operand types differ");
  Type result = a;
  if (row.form == Form::unary_to_bool) result.dtype = DType::boolean;
  if (row.form == Form::unary_to_real) result.dtype = real_type(a.dtype);
  return Types{std::move(result)};
}

// complex.3 operands f32 or f64; .4 equal types.
Result<Types> infer_complex(const RuleInput& r) {
  Type t = *r.in[0];
  NEURON_RULE(t.dtype == DType::f32 || t.dtype == DType::f64, 3, "parts must be f32 or f64");
  NEURON_RULE(t == *r.in[1], 4, "operand types differ");
  t.dtype = t.dtype == DType::f32 ? DType::c64 : DType::c128;
  return Types{t};
}

// compare.3 equal operand types; .4 complex only eq and ne.
Result<Types> infer_compare(const RuleInput& r) {
  Type t = *r.in[0];
  NEURON_RULE(t == *r.in[1], 3, "operand types differ");
  const Comparison c = std::get<CompareAttrs>(r.attrs).direction;
  NEURON_RULE(!is_complex(t.dtype) || c == Comparison::eq || c == Comparison::ne, 4, "complex numbers have no order");
  t.dtype = DType::boolean;
  return Types{t};
}

// select.3 predicate bool; .4 predicate of the branches' shape; .5 equal branch types.
Result<Types> infer_select(const RuleInput& r) {
  NEURON_RULE(r.in[0]->dtype == DType::boolean, 3, "predicate is not bool");
  NEURON_RULE(r.in[0]->shape == r.in[1]->shape, 4, "predicate shape differs");
  NEURON_RULE(*r.in[1] == *r.in[2], 5, "branch types differ");
  return Types{*r.in[1]};
}

// clamp.3 integer or float; .4 equal types.
Result<Types> infer_clamp(const RuleInput& r) {
  NEURON_RULE(in_domain(r.in[1]->dtype, kInt | kFloat), 3, "does not take " + std::string(neuron::name_of(r.in[1]->dtype)));
  NEURON_RULE(*r.in[0] == *r.in[1] && *r.in[1] == *r.in[2], 4, "operand types differ");
  return Types{*r.in[1]};
}

}  // namespace

Result<Types> infer_elementwise(const RuleInput& r) {
  switch (r.op) {
    case Op::parameter:
      return infer_parameter(r);
    case Op::constant:
      return infer_constant(r);
    case Op::iota:
      return infer_iota(r);
    case Op::convert:
    case Op::bitcast_convert:
      return infer_convert(r);
    case Op::complex:
      return infer_complex(r);
    case Op::compare:
      return infer_compare(r);
    case Op::select:
      return infer_select(r);
    case Op::clamp:
      return infer_clamp(r);
    default:
      return infer_plain(r);
  }
}

}  // namespace neuron::ir
