// Sums, means, extremes, logical reductions and arg-reductions.
//
// Not supported: amax, amin, max and min of complex numbers (PyTorch refuses them).
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

std::vector<int64_t> reduce_dims(Lowering& l, const Val& x) { return l.dims("dim", x.rank()); }

// any, all: bool, but u8 stays u8.
std::optional<DTypes> logical_rule(const Lowering& l, const Names& names) {
  auto types = move_rule(l, names);
  if (types) types->result = types->common == DType::u8 ? DType::u8 : DType::boolean;
  return types;
}

// A dim without elements along which nothing can be chosen: PyTorch raises.
bool empty_along(const Lowering& l, const std::vector<int64_t>& dims) {
  const Shape& shape = l.meta("self").shape;
  for (int64_t d : dims) {
    if (shape[d] == 0) return true;
  }
  return false;
}

std::optional<Metas> extreme_result(const Lowering& l) {
  const auto dims = l.dims("dim", static_cast<int64_t>(l.meta("self").shape.size()));
  if (l.failed() || empty_along(l, dims)) return std::nullopt;
  return reduction(l);
}

std::optional<Metas> value_and_index(const Lowering& l) {
  auto metas = extreme_result(l);
  if (!metas) return std::nullopt;
  TensorMeta index = *(*metas)[0];
  index.dtype = DType::i64;
  metas->push_back(std::move(index));
  return metas;
}

// Everything reduced, whatever the arguments.
std::optional<Metas> scalar_result(const Lowering& l) {
  return one(contiguous_meta(l.promoted() ? l.result_dtype() : l.meta("self").dtype, {}));
}

Val keep_dims(const Val& reduced, const Val& from, const std::vector<int64_t>& dims, bool keep) {
  return reshape(reduced, reduced_shape(from.shape(), dims, keep));
}

Val arg_extreme(bool largest, const Val& x, int64_t dim, bool keep) {
  if (x.rank() == 0) return full_int(x.builder(), DType::i64, {}, 0);
  const Val index(x.builder(), x.builder().arg_reduce(largest, x.value(), dim));
  return keep ? unsqueeze(index, dim) : index;
}

void register_sums(Registry& registry) {
  const auto sum_body = [](Lowering& l) {
    const Val x = l.arg("self");
    return sum(x, reduce_dims(l, x), l.flag("keepdim"));
  };
  NEURON_OP("aten::sum", promotes(sum_rule, {"self"}), result(reduction), sum_body);
  NEURON_OP("aten::sum.dim_IntList", promotes(sum_rule, {"self"}), result(reduction), sum_body);
  NEURON_OP("aten::nansum", promotes(sum_rule, {"self"}), result(reduction), [](Lowering& l) {
    const Val x = l.arg("self");
    return sum(where(is_nan(x), like(x, 0), x), reduce_dims(l, x), l.flag("keepdim"));
  });

  const auto mean_body = [](Lowering& l) {
    const Val x = l.arg("self");
    const auto dims = reduce_dims(l, x);
    return sum(x, dims, l.flag("keepdim")) / static_cast<double>(reduced_count(x, dims));
  };
  NEURON_OP("aten::mean", promotes(mean_rule, {"self"}), result(reduction), mean_body);
  NEURON_OP("aten::mean.dim", promotes(mean_rule, {"self"}), result(reduction), mean_body);

  const auto product = [](Lowering& l) {
    const Val x = l.arg("self");
    return reduce(Reducer::multiply, x, reduce_dims(l, x), l.flag("keepdim"));
  };
  NEURON_OP("aten::prod", promotes(sum_rule, {"self"}), result(reduction), product);
  NEURON_OP("aten::prod.dim_int", promotes(sum_rule, {"self"}), result(reduction), product);

  const auto count_body = [](Lowering& l) {
    const Val x = l.raw("self");
    return sum(convert(to_bool(x), DType::i64), reduce_dims(l, x));
  };
  const auto count_result = ResultRule([](const Lowering& l) -> std::optional<Metas> {
    auto metas = reduction(l);
    (*metas)[0]->dtype = DType::i64;
    return metas;
  });
  NEURON_OP("aten::count_nonzero", no_promotion(), count_result, count_body);
  NEURON_OP("aten::count_nonzero.dim_IntList", no_promotion(), count_result, count_body);
  NEURON_OP("aten::trace", promotes(sum_rule, {"self"}), result(scalar_result), [](Lowering& l) {
    const Val x = l.arg("self");
    const int64_t n = std::min(x.size(0), x.size(1));
    const Val square = slice(slice(x, 0, 0, n), 1, 0, n);
    const Val diagonal = eq(iota(l.builder(), DType::i64, {n, n}, 0), iota(l.builder(), DType::i64, {n, n}, 1));
    return sum(where(diagonal, square, like(square, 0)), all_dims(square));
  });
}

void register_extremes(Registry& registry) {
  for (const bool largest : {true, false}) {
    const Reducer reducer = largest ? Reducer::maximum : Reducer::minimum;
    const std::string max = largest ? "max" : "min";
    NEURON_OP("aten::a" + max, promotes(ordered_move_rule, {"self"}), result(extreme_result), [reducer](Lowering& l) {
      const Val x = l.arg("self");
      return reduce(reducer, x, reduce_dims(l, x), l.flag("keepdim"));
    });
    NEURON_OP("aten::" + max, promotes(ordered_move_rule, {"self"}), result(extreme_result), [reducer](Lowering& l) {
      const Val x = l.arg("self");
      return reduce(reducer, x, all_dims(x));
    });
    NEURON_OP("aten::" + max + ".dim", promotes(ordered_move_rule, {"self"}), result(value_and_index),
              [reducer, largest](Lowering& l) {
                const Val x = l.arg("self");
                const auto dims = reduce_dims(l, x);
                const bool keep = l.flag("keepdim");
                return std::vector<Val>{reduce(reducer, x, dims, keep),
                                        arg_extreme(largest, x, dims.empty() ? 0 : dims[0], keep)};
              });
    NEURON_OP("aten::arg" + max, promotes(ordered_move_rule, {"self"}), result(ResultRule([](const Lowering& l) {
                auto metas = extreme_result(l);
                if (metas) (*metas)[0]->dtype = DType::i64;
                return metas;
              })),
              [largest](Lowering& l) {
                const Val x = l.arg("self");
                const bool keep = l.flag("keepdim");
                if (l.has("dim")) return arg_extreme(largest, x, l.dim("dim", x.rank()), keep && x.rank() > 0);
                return keep_dims(arg_extreme(largest, flatten(x), 0, false), x, all_dims(x), keep);
              });
  }
  NEURON_OP("aten::aminmax", promotes(ordered_move_rule, {"self"}), result(ResultRule([](const Lowering& l) {
              auto metas = extreme_result(l);
              if (metas) metas->push_back((*metas)[0]);
              return metas;
            })),
            [](Lowering& l) {
              const Val x = l.arg("self");
              const auto dims = reduce_dims(l, x);
              const bool keep = l.flag("keepdim");
              return std::vector<Val>{reduce(Reducer::minimum, x, dims, keep), reduce(Reducer::maximum, x, dims, keep)};
            });
}

void register_logical(Registry& registry) {
  for (const bool all : {true, false}) {
    const std::string name = all ? "aten::all" : "aten::any";
    const auto body = [all](Lowering& l) {
      const Val x = l.arg("self");
      // An explicit empty list of dims reduces nothing.
      const bool none = l.has("dim") && l.ints("dim").empty();
      const auto dims = none ? std::vector<int64_t>{} : reduce_dims(l, x);
      const Val y = reduce(all ? Reducer::and_ : Reducer::or_, to_bool(x), dims, l.flag("keepdim"));
      return convert(y, l.result_dtype());
    };
    NEURON_OP(name, promotes(logical_rule, {"self"}), result(reduction), body);
    NEURON_OP(name + ".dim", promotes(logical_rule, {"self"}), result(reduction), body);
    NEURON_OP(name + ".dims", promotes(logical_rule, {"self"}),
              result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
                if (l.has("dim") && l.ints("dim").empty())
                  return one(contiguous_meta(l.result_dtype(), l.meta("self").shape));
                return reduction(l);
              })),
              body);
  }
  for (const bool all : {true, false}) {
    NEURON_OP(all ? "aten::_is_all_true" : "aten::_is_any_true", promotes(logical_rule, {"self"}), result(scalar_result),
              [all](Lowering& l) {
                const Val x = l.arg("self");
                return reduce(all ? Reducer::and_ : Reducer::or_, x, all_dims(x));
              });
  }
}

}  // namespace

void register_reduction(Registry& registry) {
  register_sums(registry);
  register_extremes(registry);
  register_logical(registry);
}

}  // namespace neuron::ops
