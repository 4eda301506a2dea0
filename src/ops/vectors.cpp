// Vector products and lengths, and hashes: linalg_cross, renorm, hash_tensor.
//
// Not supported: what CPU refuses.
#include "ops/norms.h"
#include "ops/registry.h"

namespace neuron::ops {
namespace {

// --- cross product ---

std::optional<Metas> cross_result(const Lowering& l) {
  const Shape &a = l.meta("self").shape, &b = l.meta("other").shape;
  if (a.size() != b.size() || a.empty() || l.result_dtype() == DType::boolean) return std::nullopt;
  const int64_t dim = l.dim("dim", static_cast<int64_t>(a.size()), -1);
  const auto shape = broadcast_shapes(a, b);
  if (!shape || a[dim] != 3 || b[dim] != 3) return std::nullopt;
  return one(contiguous_meta(l.result_dtype(), *shape));
}

Val cross(Lowering& l) {
  const Val a = l.arg("self"), b = l.arg("other");
  const int64_t dim = l.dim("dim", a.rank(), -1);
  const auto turned = [&](const Val& x, int64_t by) {
    return concatenate({slice(x, dim, by, 3), slice(x, dim, 0, by)}, dim);
  };
  return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1);
}

// --- renorm: slices along a dim scaled down to a norm; the factor is rounded to the tensor's dtype ---

std::optional<Metas> renorm_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  const auto p = l.number("p");
  if (x.shape.size() < 2 || is_integral(x.dtype) || !p || !(*p > 0)) return std::nullopt;
  l.dim("dim", static_cast<int64_t>(x.shape.size()));
  return one(contiguous_meta(x.dtype, x.shape));
}

Val renorm(Lowering& l) {
  if (!renorm_result(l)) return l.unsupported("this dtype or norm");
  const Val self = l.raw("self"), x = convert(self, opmath(self.dtype()));
  if (x.elements() == 0) return self;
  const int64_t dim = l.dim("dim", x.rank());
  std::vector<int64_t> others;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) others.push_back(d);
  }
  const Val norm = vector_norm(x, *l.number("p"), others, true), limit = l.scalar("maxnorm", norm.dtype());
  const Val scale = where(gt(norm, limit), limit / (norm + 1e-7), like(norm, 1));
  const Val factor = convert(convert(scale, real_type(self.dtype())), norm.dtype());
  return convert(x * convert(factor, x.dtype()), self.dtype());
}

// --- hash_tensor: the exclusive or of all values as 64-bit integers, floats by the bits of their f64 ---

std::optional<Metas> hash_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  if (is_complex(x.dtype) || element_count(x.shape) == 0 || l.int_("mode") != 0) return std::nullopt;
  auto metas = reduction(l);
  if (metas) (*metas)[0]->dtype = DType::u64;
  return metas;
}

Val hash(Lowering& l) {
  const Val x = l.raw("self");
  if (!hash_result(l)) return l.unsupported("this hash");
  const Val bits = is_floating(x.dtype()) ? Val(l.builder(), l.builder().bitcast(convert(x, DType::f64).value(), DType::u64))
                                          : convert(convert(x, DType::i64), DType::u64);
  return reduce(ir::Reducer::xor_, bits, l.dims("dim", x.rank()), l.flag("keepdim"));
}

}  // namespace

void register_vectors(Registry& registry) {
  NEURON_OP("aten::linalg_cross", promotes(same_rule, {"self", "other"}), result(cross_result), cross);
  NEURON_OP("aten::renorm", no_promotion(), result(renorm_result), renorm).structural("p");
  NEURON_OP("aten::hash_tensor", no_promotion(), result(hash_result), hash);
}

}  // namespace neuron::ops
