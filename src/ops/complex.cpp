// Making complex tensors from real ones, and complex arithmetic that several families share. real, imag, view_as_real and
// view_as_complex are views (views.cpp).
//
// Not supported: complex numbers of half precision.
#include <limits>

#include "ops/log_add_exp.h"
#include "ops/registry.h"

namespace neuron::ops {
namespace {

std::optional<DTypes> parts_rule(const Lowering& l, const Names& names) {
  auto types = same_rule(l, names);
  if (!types || (types->common != DType::f32 && types->common != DType::f64)) return std::nullopt;
  types->result = to_complex(types->common);
  return types;
}

// exp(x) of an infinite real part: a direction, whose components along an axis stay zero.
struct Parts {
  Val re, im;
};
Parts infinite_exponential(const Val& x) {
  const double inf = std::numeric_limits<double>::infinity();
  const Val angle = imag(x);
  const auto along = [&](const Val& component) { return where(eq(component, 0), like(component, 0), component * inf); };
  const Val finite = unary(ir::Op::is_finite, angle);
  const Val no_number = like(angle, std::numeric_limits<double>::quiet_NaN());
  return {where(finite, along(unary(ir::Op::cosine, angle)), like(angle, inf)),
          where(finite, along(unary(ir::Op::sine, angle)), no_number)};
}

}  // namespace

// log1p(exp(smaller - larger)) + larger, and what CPU does where the real parts are infinite.
Val complex_log_add_exp(const Val& x, const Val& y) {
  using ir::Op;
  const Val below = lt(real(x), real(y));
  const Val low = where(below, x, y), high = where(below, y, x);
  const Val gap = low - high;
  const Val size = exp(real(gap)), angle = imag(gap);
  const Val turned = make_complex(size * unary(Op::cosine, angle), size * unary(Op::sine, angle));
  const Val usual = unary(Op::log_plus_one, where(unary(Op::is_inf, real(gap)), like(turned, 0), turned)) + high;
  const Parts a = infinite_exponential(low), b = infinite_exponential(high);
  const Val re = a.re + b.re, im = a.im + b.im;
  const Val upper = make_complex(log(binary(Op::hypot, re, im)), binary(Op::atan2, im, re));
  const Val equal_infinities = unary(Op::is_inf, real(low)) & eq(real(low), real(high));
  const Val sum = where(equal_infinities, where(lt(real(low), 0), low, upper), usual);
  const Val no_number = like(real(sum), std::numeric_limits<double>::quiet_NaN());
  return where(is_nan(x) | is_nan(y), make_complex(no_number, no_number), sum);
}

void register_complex(Registry& registry) {
  NEURON_OP("aten::complex", promotes(parts_rule, {"real", "imag"}), result(pointwise), [](Lowering& l) {
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
