// weight_norm: w = v * g / ||v||, the norm taken over all dims but the first or the last.
//
// Not supported: dims in between (PyTorch composes those of smaller operators).
#include "ops/norms.h"
#include "ops/registry.h"

namespace neuron::ops {
namespace {

bool takes(const Lowering& l, const char* v) {
  const auto rank = static_cast<int64_t>(l.meta(v).shape.size());
  const int64_t dim = l.int_("dim");
  return rank > 0 && (dim == 0 || dim == rank - 1) && is_floating(l.meta(v).dtype);
}

std::vector<int64_t> other_dims(const Val& x, int64_t dim) {
  std::vector<int64_t> dims = all_dims(x);
  dims.erase(dims.begin() + dim);
  return dims;
}

std::optional<Metas> weight_norm_result(const Lowering& l) {
  if (!takes(l, "v")) return std::nullopt;
  const TensorMeta &v = l.meta("v"), &g = l.meta("g");
  return Metas{contiguous_meta(v.dtype, v.shape), contiguous_meta(opmath(g.dtype), g.shape)};
}

std::vector<Val> weight_norm(Lowering& l) {
  const DType compute = opmath(l.meta("v").dtype);
  const Val v = convert(l.raw("v"), compute), g = convert(l.raw("g"), compute);
  const Val norms = vector_norm(v, 2, other_dims(v, l.int_("dim")), true);
  return {convert(v * (g / norms), l.meta("v").dtype), reshape(norms, g.shape())};
}

std::optional<Metas> backward_result(const Lowering& l) {
  if (!takes(l, "saved_v")) return std::nullopt;
  const TensorMeta &v = l.meta("saved_v"), &g = l.meta("saved_g");
  return Metas{contiguous_meta(v.dtype, v.shape), contiguous_meta(g.dtype, g.shape)};
}

std::vector<Val> backward(Lowering& l) {
  const DType compute = opmath(l.meta("saved_v").dtype);
  const auto read = [&](const char* name) { return convert(l.raw(name), compute); };
  const Val grad = read("grad_w"), v = read("saved_v"), g = read("saved_g"), norms = read("saved_norms");
  const Val along = sum(grad * v, other_dims(v, l.int_("dim")), true);
  const Val grad_v = (g / norms) * (grad - v * (along / (norms * norms)));
  return {convert(grad_v, l.meta("saved_v").dtype), convert(along / norms, l.meta("saved_g").dtype)};
}

}  // namespace

void register_weight_norm(Registry& registry) {
  NEURON_OP("aten::_weight_norm_interface", no_promotion(), result(weight_norm_result), weight_norm);
  NEURON_OP("aten::_weight_norm_interface_backward", no_promotion(), result(backward_result), backward);
}

}  // namespace neuron::ops
