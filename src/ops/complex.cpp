// Making complex tensors from real ones. real, imag, view_as_real and view_as_complex are views (views.cpp).
//
// Not supported: complex numbers of half precision.
#include "ops/registry.h"

namespace neuron::ops {
namespace {

std::optional<DTypes> parts_rule(const Lowering& l, const Names& names) {
  auto types = same_rule(l, names);
  if (!types || (types->common != DType::f32 && types->common != DType::f64)) return std::nullopt;
  types->result = to_complex(types->common);
  return types;
}

}  // namespace

void register_complex(Registry& registry) {
  NEURON_OP("aten::complex", promotes(parts_rule, {"real", "imag"}), result(pointwise),
            [](Lowering& l) {
              const Val re = l.arg("real"), im = l.arg("imag");
              const auto shape = broadcast_shapes(re.shape(), im.shape());
              if (!shape) return l.unsupported("parts that do not broadcast");
              return make_complex(broadcast_to(re, *shape), broadcast_to(im, *shape));
            });
  NEURON_OP("aten::polar", promotes(parts_rule, {"abs", "angle"}), result(pointwise), [](Lowering& l) {
    const Val size = l.arg("abs"), angle = l.arg("angle");
    return make_complex(size * unary(ir::Op::cosine, angle), size * unary(ir::Op::sine, angle));
  });
}

}  // namespace neuron::ops
