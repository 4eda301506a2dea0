// Cumulative sums, products and extremes along a dim.
//
// Not supported: logcumsumexp of complex numbers.
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;
using ir::Reducer;

std::optional<DTypes> ordered_rule(const Lowering& l, const Names& names) {
  const auto types = move_rule(l, names);
  return types && is_complex(types->common) ? std::nullopt : types;
}
std::optional<DTypes> float_type_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && is_floating(types->common) ? types : std::nullopt;
}

std::optional<Metas> same_shape(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  l.dim("dim", static_cast<int64_t>(m.shape.size()));
  return one(contiguous_meta(l.result_dtype(), m.shape));
}

// Shifts by 1, 2, 4, .. and combines: for combiners that no reducer expresses. log2(n) steps.
template <class Combine>
Val doubling_scan(Val x, int64_t dim, double identity, Combine combine) {
  const int64_t n = x.size(dim);
  for (int64_t step = 1; step < n; step *= 2) {
    Shape low(x.rank(), 0), high(x.rank(), 0);
    low[dim] = step;
    high[dim] = -step;
    x = combine(x, pad(x, identity, low, high));
  }
  return x;
}

Val log_add(const Val& a, const Val& b) {
  const Val high = maximum(a, b), low = minimum(a, b);
  const Val sum = high + unary(Op::log_plus_one, exp(low - high));
  return where(unary(Op::is_inf, high), high, sum);
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
    NEURON_OP(largest ? "aten::cummax" : "aten::cummin", promotes(ordered_rule, {"self"}),
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
  NEURON_OP("aten::logcumsumexp", promotes(float_type_rule, {"self"}), result(same_shape), [](Lowering& l) {
    const Val x = l.arg("self");
    if (x.rank() == 0) return x;
    return doubling_scan(x, l.dim("dim", x.rank()), -std::numeric_limits<double>::infinity(), log_add);
  });
}

}  // namespace neuron::ops
