// Cumulative sums, products, extremes and log-sum-exps along a dim.
//
// Not supported: cummax and cummin of complex numbers (PyTorch refuses them).
#include <limits>
#include <numbers>

#include "ops/indexing.h"
#include "ops/log_add_exp.h"
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;
using ir::Reducer;

std::optional<Metas> same_shape(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  l.dim("dim", static_cast<int64_t>(m.shape.size()));
  return one(contiguous_meta(l.result_dtype(), m.shape));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// x[.., i - step, ..], and `before` where there is none.
Val shifted(const Val& x, int64_t dim, int64_t step, double before) {
  Shape low(x.rank(), 0), high(x.rank(), 0);
  low[dim] = step;
  high[dim] = -step;
  return pad(x, before, low, high);
}

// Shifts by 1, 2, 4, .. and combines: for combiners that no reducer expresses. log2(n) steps.
template <class Combine>
Val doubling_scan(Val x, int64_t dim, double identity, Combine combine) {
  const int64_t n = x.size(dim);
  for (int64_t step = 1; step < n; step *= 2) x = combine(x, shifted(x, dim, step, identity));
  return x;
}

// In halves the sums are right but for whole turns of the imaginary part. One by one, as CPU adds, sum k is within a quarter
// turn of element k where that is at least as large as the sum before it, and of the sum before it elsewhere: whole turns
// are therefore counted from the last element of the first kind.
Val complex_log_cumsum_exp(const Val& x, int64_t dim) {
  const Val sums = doubling_scan(complex_log_add_exp(x, like(x, -kInfinity)), dim, -kInfinity, complex_log_add_exp);
  if (x.size(dim) < 2) return sums;
  const Val re = real(sums), im = imag(sums);
  const auto turns = [](const Val& angle) {
    const Val whole = unary(Op::round_nearest_even, angle * (0.5 * std::numbers::inv_pi));
    return where(unary(Op::is_finite, whole), whole, like(whole, 0));
  };
  const Val from_element = turns(imag(x) - im);
  const Val running = scan(Reducer::add, turns(shifted(im, dim, 1, 0) - im), dim);
  const Val place = iota(x.builder(), DType::i64, x.shape(), dim);
  const Val starts = where(ge(real(x), shifted(re, dim, 1, -kInfinity)), place, like_int(place, 0));
  const Val counted = running + gather_elements(from_element - running, scan(Reducer::maximum, starts, dim), dim);
  const Val exact = where(unary(Op::is_finite, re), counted, like(counted, 0));
  return make_complex(re, im + exact * (2 * std::numbers::pi));
}

}  // namespace

void register_cumulative(Registry& registry) {
  const auto scan_of = [](Reducer reducer) {
    return [reducer](Lowering& l) {
      const Val x = l.arg("self");
      if (x.rank() == 0) return x;
      return scan(reducer, x, l.dim("dim", x.rank()));
    };
  };
  NEURON_OP("aten::cumsum", promotes(sum_rule, {"self"}), result(same_shape), scan_of(Reducer::add));
  NEURON_OP("aten::cumprod", promotes(sum_rule, {"self"}), result(same_shape), scan_of(Reducer::multiply));
  for (const bool largest : {true, false}) {
    NEURON_OP(largest ? "aten::cummax" : "aten::cummin", promotes(ordered_move_rule, {"self"}),
              result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
                auto metas = same_shape(l);
                metas->push_back(contiguous_meta(DType::i64, l.meta("self").shape));
                return metas;
              })),
              [largest](Lowering& l) {
                const Val x = l.arg("self");
                if (x.rank() == 0) return std::vector<Val>{x, full_int(l.builder(), DType::i64, {}, 0)};
                const Val values = scan(largest ? Reducer::maximum : Reducer::minimum, x, l.dim("dim", x.rank()));
                return std::vector<Val>{values, values.result(1)};
              });
  }
  NEURON_OP("aten::logcumsumexp", promotes(float_or_complex_rule, {"self"}), result(same_shape), [](Lowering& l) {
    const Val x = l.arg("self");
    if (x.rank() == 0) return x;
    const int64_t dim = l.dim("dim", x.rank());
    if (is_complex(x.dtype())) return complex_log_cumsum_exp(x, dim);
    return doubling_scan(x, dim, -kInfinity, [](const Val& a, const Val& b) { return log_add_exp(a, b, false); });
  });
}

}  // namespace neuron::ops
