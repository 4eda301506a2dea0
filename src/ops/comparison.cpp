// Comparisons, logical and bitwise operators, shifts.
//
// Not supported: order comparisons of complex numbers (PyTorch refuses them too).
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Comparison;
using ir::Op;

std::optional<DTypes> order_rule(const Lowering& l, const Names& names) {
  const auto types = compare_rule(l, names);
  return types && is_complex(types->common) ? std::nullopt : types;
}
std::optional<DTypes> bits_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && is_integral(types->common) ? types : std::nullopt;
}
std::optional<DTypes> shift_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && is_integer(types->common) ? types : std::nullopt;
}

// PyTorch: an amount that is negative or at least the width shifts everything out.
Val shift(bool left, const Val& x, const Val& amount) {
  const DType t = x.dtype();
  const int bits = static_cast<int>(size_of(t)) * 8;
  Val in_range = lt(amount, bits);
  if (is_signed_integer(t)) in_range = in_range & ge(amount, 0);
  if (left) return where(in_range, binary(Op::shift_left, x, where(in_range, amount, like(amount, 0))), like(x, 0));
  const Op op = is_signed_integer(t) ? Op::shift_right_arithmetic : Op::shift_right_logical;
  const Val safe = where(in_range, amount, like(amount, bits - 1));
  const Val shifted = binary(op, x, safe);
  return is_signed_integer(t) ? shifted : where(in_range, shifted, like(shifted, 0));
}

}  // namespace

void register_comparison(Registry& registry) {
  const Names operands{"self", "other"};
  struct Compare {
    const char* name;
    Comparison direction;
  };
  static constexpr Compare kComparisons[] = {{"eq", Comparison::eq}, {"ne", Comparison::ne}, {"lt", Comparison::lt},
                                             {"le", Comparison::le}, {"gt", Comparison::gt}, {"ge", Comparison::ge}};
  for (const Compare& c : kComparisons) {
    const bool equality = c.direction == Comparison::eq || c.direction == Comparison::ne;
    for (const char* suffix : {".Tensor", ".Scalar"}) {
      NEURON_OP(std::string("aten::") + c.name + suffix, promotes(equality ? compare_rule : order_rule, operands),
                result(pointwise), [c](Lowering& l) { return compare(c.direction, l.arg("self"), l.arg("other")); });
    }
  }

  struct Logic {
    const char* name;
    Op op;
  };
  static constexpr Logic kLogic[] = {{"and", Op::and_}, {"or", Op::or_}, {"xor", Op::xor_}};
  for (const Logic& g : kLogic) {
    NEURON_OP(std::string("aten::logical_") + g.name, promotes(compare_rule, operands), result(pointwise),
              [g](Lowering& l) { return binary(g.op, to_bool(l.arg("self")), to_bool(l.arg("other"))); });
    for (const char* suffix : {".Tensor", ".Scalar", ".Scalar_Tensor"}) {
      NEURON_OP(std::string("aten::bitwise_") + g.name + suffix, promotes(bits_rule, operands), result(pointwise),
                [g](Lowering& l) { return binary(g.op, l.arg("self"), l.arg("other")); });
    }
    for (const char* suffix : {"__.Tensor", "__.Scalar"}) {
      NEURON_OP(std::string("aten::__") + g.name + suffix, promotes(bits_rule, operands), result(pointwise),
                [g](Lowering& l) { return binary(g.op, l.arg("self"), l.arg("other")); });
    }
  }

  for (const bool left : {true, false}) {
    const auto body = [left](Lowering& l) { return shift(left, l.arg("self"), l.arg("other")); };
    const std::string name = left ? "left" : "right";
    for (const char* suffix : {".Tensor", ".Tensor_Scalar", ".Scalar_Tensor"}) {
      NEURON_OP("aten::bitwise_" + name + "_shift" + suffix, promotes(shift_rule, operands), result(pointwise), body);
    }
    for (const char* suffix : {".Tensor", ".Scalar"}) {
      NEURON_OP(std::string(left ? "aten::__lshift__" : "aten::__rshift__") + suffix, promotes(shift_rule, operands),
                result(pointwise), body);
    }
  }
}

}  // namespace neuron::ops
