// Variance, standard deviation, norms, logsumexp.
//
// Not supported: matrix norms (PyTorch decomposes them).
#include <cmath>
#include <limits>

#include "ops/norms.h"
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;
using ir::Reducer;

std::optional<DTypes> variance_rule(const Lowering& l, const Names& names) {
  auto types = default_rule(l, names);
  if (!types || is_integral(types->common)) return std::nullopt;
  types->result = real_type(types->common);
  return types;
}

struct Moments {
  Val mean, variance;
};

// Two passes: the mean first, then the squared distances from it.
Moments moments(Lowering& l) {
  const Val x = l.arg("self");
  const auto dims = l.dims("dim", x.rank());
  const bool keep = l.flag("keepdim");
  const auto count = static_cast<double>(reduced_count(x, dims));
  const double correction = l.has("correction") ? l.number("correction").value_or(1) : l.flag("unbiased", true) ? 1 : 0;
  const Val mean = sum(x, dims, true) / count;
  const Val distance = x - mean;
  const Val squared =
      is_complex(x.dtype()) ? real(distance) * real(distance) + imag(distance) * imag(distance) : distance * distance;
  const Val variance = sum(squared, dims, keep) / std::max(count - correction, 0.0);
  return {keep ? mean : reshape(mean, reduced_shape(x.shape(), dims, false)), variance};
}

std::optional<Metas> with_mean(const Lowering& l) {
  auto metas = reduction(l);
  TensorMeta mean = *(*metas)[0];
  mean.dtype = l.common();
  metas->push_back(std::move(mean));
  return metas;
}

void register_variance(Registry& registry) {
  for (const bool root : {false, true}) {
    const std::string name = root ? "aten::std" : "aten::var";
    const auto finish = [root](const Val& variance) { return root ? sqrt(variance) : variance; };
    NEURON_OP(name + ".correction", promotes(variance_rule, {"self"}), result(reduction), [finish](Lowering& l) {
      return finish(moments(l).variance);
    }).structural("correction");
    NEURON_OP(name + "_mean.correction", promotes(variance_rule, {"self"}), result(with_mean), [finish](Lowering& l) {
      const Moments m = moments(l);
      return std::vector<Val>{convert(finish(m.variance), l.result_dtype()), convert(m.mean, l.common())};
    }).structural("correction");
  }
}

// norm and linalg_vector_norm: `dtype` or the tensor's; the result is real.
std::optional<DTypes> norm_rule(const Lowering& l, const Names& names) {
  auto common = l.dtype("dtype");
  if (!common) {
    const auto types = default_rule(l, names);
    if (!types) return std::nullopt;
    common = types->common;
  }
  if (is_integral(*common)) return std::nullopt;
  return DTypes{*common, opmath(*common), real_type(*common)};
}

}  // namespace

Val vector_norm(const Val& x, double order, const std::vector<int64_t>& dims, bool keep) {
  const Val size = abs(x);
  if (std::isinf(order)) return reduce(order > 0 ? Reducer::maximum : Reducer::minimum, size, dims, keep);
  if (order == 0) return sum(convert(ne(size, 0), size.dtype()), dims, keep);
  if (order == 1) return sum(size, dims, keep);
  if (order == 2) {
    const Val squares = is_complex(x.dtype()) ? real(x) * real(x) + imag(x) * imag(x) : x * x;
    return sqrt(sum(squares, dims, keep));
  }
  return pow(sum(pow(size, like(size, order)), dims, keep), full(x.builder(), size.dtype(), {}, 1 / order));
}

namespace {

// Negative orders and infinity over no elements raise in PyTorch, for some dims only.
std::optional<Metas> norm_result(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  const auto order = l.has("ord") ? l.number("ord") : l.number("p");
  if (element_count(m.shape) == 0 && order && (*order < 0 || std::isinf(*order))) return std::nullopt;
  return reduction(l);
}

void register_norms(Registry& registry) {
  const auto norm = [](Lowering& l, const char* order) {
    const Val x = l.arg("self");
    const double p = l.has(order) ? l.number(order).value_or(2) : 2;
    return vector_norm(x, p, l.dims("dim", x.rank()), l.flag("keepdim"));
  };
  NEURON_OP("aten::linalg_vector_norm", promotes(norm_rule, {"self"}), result(norm_result), [norm](Lowering& l) {
    return norm(l, "ord");
  }).structural("ord");
  for (const char* suffix : {"Scalar", "ScalarOpt_dim", "ScalarOpt_dtype", "ScalarOpt_dim_dtype"}) {
    NEURON_OP(std::string("aten::norm.") + suffix, promotes(norm_rule, {"self"}), result(norm_result), [norm](Lowering& l) {
      return norm(l, "p");
    }).structural("p");
  }
}

void register_logsumexp(Registry& registry) {
  NEURON_OP("aten::logsumexp", promotes(float_rule, {"self"}), result(reduction), [](Lowering& l) {
    const Val x = l.arg("self");
    const auto dims = l.dims("dim", x.rank());
    const bool keep = l.flag("keepdim");
    const Val top = reduce(Reducer::maximum, real(x), dims, true);  // complex numbers are as large as their real parts
    const Val finite = where(unary(Op::is_inf, top), like(top, 0), top);
    const Val shift = is_complex(x.dtype()) ? make_complex(finite, like(finite, 0)) : finite;
    const Val total = log(sum(exp(x - shift), dims, keep));
    return total + (keep ? shift : reshape(shift, total.shape()));
  });
}

}  // namespace

void register_statistics(Registry& registry) {
  register_variance(registry);
  register_norms(registry);
  register_logsumexp(registry);
}

}  // namespace neuron::ops
