// PyTorch's prims, as they appear in compiled graphs after decompositions. Most are the aten operator under another name.
//
// Not supported: prims for views of other dtypes, resize, item, special functions, fft, svd.
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;
using ir::Reducer;

void register_aliases(Registry& registry) {
  static constexpr const char* kUnary[] = {
      "abs",   "acos",       "acosh",    "asin",    "asinh",         "atan",    "atanh", "bitwise_not",
      "ceil",  "cos",        "cosh",     "digamma", "erf",           "erfc",    "exp",   "exp2",
      "expm1", "floor",      "isfinite", "lgamma",  "log",           "log10",   "log1p", "log2",
      "neg",   "reciprocal", "round",    "rsqrt",   "sign",          "signbit", "sin",   "sinh",
      "sqrt",  "tan",        "tanh",     "trunc",   "conj_physical", "atan2",   "fmax",  "fmin",
      "gcd",   "hypot",      "maximum",  "minimum", "nextafter",     "clone",   "cat",   "scalar_tensor"};
  for (const char* name : kUnary) registry.alias(std::string("prims::") + name, std::string("aten::") + name);
  static constexpr const char* kBinary[] = {"add", "sub", "mul",  "eq",        "ne",          "lt",         "le",
                                            "gt",  "ge",  "fmod", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor"};
  for (const char* name : kBinary) registry.alias(std::string("prims::") + name, std::string("aten::") + name + ".Tensor");
  registry.alias("prims::erf_inv", "aten::erfinv");
  registry.alias("prims::fill", "aten::fill.Scalar");
  registry.alias("prims::shift_left", "aten::bitwise_left_shift.Tensor");
  registry.alias("prims::shift_right_arithmetic", "aten::bitwise_right_shift.Tensor");
  registry.alias("prims::real", "aten::real");
  registry.alias("prims::imag", "aten::imag");
}

void register_reductions(Registry& registry) {
  struct Reduction {
    const char* name;
    Reducer reducer;
  };
  for (const Reduction r : {Reduction{"amax", Reducer::maximum}, Reduction{"amin", Reducer::minimum},
                            Reduction{"sum", Reducer::add}, Reduction{"prod", Reducer::multiply}}) {
    NEURON_OP(std::string("prims::") + r.name, promotes(default_rule, {"inp"}), no_rule(), [r](Lowering& l) {
      const Val x = l.arg("inp");
      const bool none = l.has("dims") && l.ints("dims").empty();
      const Val y = reduce(r.reducer, x, none ? std::vector<int64_t>{} : l.dims("dims", x.rank()));
      return convert(y, l.dtype("output_dtype").value_or(l.result_dtype()));
    });
  }
  NEURON_OP("prims::var", promotes(default_rule, {"inp"}), no_rule(), [](Lowering& l) {
    const Val x = l.arg("inp");
    if (is_complex(x.dtype())) return l.unsupported("complex");
    const auto dims = l.dims("dims", x.rank());
    const auto count = static_cast<double>(reduced_count(x, dims));
    const Val distance = x - sum(x, dims, true) / count;
    const Val y = sum(distance * distance, dims) / std::max(count - l.number("correction").value_or(1), 0.0);
    return convert(y, l.dtype("output_dtype").value_or(l.result_dtype()));
  }).structural("correction");
}

void register_movement(Registry& registry) {
  NEURON_OP("prims::convert_element_type", no_promotion(),
            result(ResultRule([](const Lowering& l) { return like_input("a", l.dtype("dtype"))(l); })),
            [](Lowering& l) { return convert(l.raw("a"), l.dtype("dtype").value_or(DType::f32)); });
  for (const char* name : {"prims::device_put", "prims::view_of", "prims::copy_strided"}) {
    NEURON_OP(name, no_promotion(), no_rule(), [](Lowering& l) { return l.raw("a"); });
  }
  NEURON_OP("prims::broadcast_in_dim", no_promotion(), no_rule(), [](Lowering& l) {
    const Val x = l.raw("a");
    return Val(l.builder(), l.builder().broadcast_in_dim(x.value(), l.ints("shape"), l.ints("broadcast_dimensions")));
  });
  NEURON_OP("prims::reshape", no_promotion(), no_rule(), [](Lowering& l) { return reshape(l.raw("a"), l.ints("shape")); });
  NEURON_OP("prims::rev", no_promotion(), no_rule(), [](Lowering& l) { return reverse(l.raw("a"), l.ints("dims")); });
  NEURON_OP("prims::transpose", no_promotion(), no_rule(),
            [](Lowering& l) { return transpose(l.raw("a"), l.ints("permutation")); });
  NEURON_OP("prims::conj", no_promotion(), no_rule(), [](Lowering& l) { return conj(l.raw("a")); });
  NEURON_OP("prims::squeeze", no_promotion(), no_rule(), [](Lowering& l) {
    const Val x = l.raw("a");
    const auto dims = l.ints("dimensions");
    return dims.empty() ? x : reshape(x, reduced_shape(x.shape(), l.dims("dimensions", x.rank()), false));
  });
  for (const char* name : {"prims::collapse", "prims::collapse_view"}) {
    NEURON_OP(name, no_promotion(), no_rule(), [](Lowering& l) {  // start and end are both inclusive
      const Val x = l.raw("a");
      Shape shape = x.shape();
      const int64_t start = l.int_("start"), end = l.int_("end");
      if (shape.empty()) return reshape(x, {1});
      for (int64_t d = start + 1; d <= end; ++d) shape[start] *= shape[d];
      shape.erase(shape.begin() + start + 1, shape.begin() + end + 1);
      return reshape(x, shape);
    });
  }
  NEURON_OP("prims::split_dim", no_promotion(), no_rule(), [](Lowering& l) {
    const Val x = l.raw("a");
    Shape shape = x.shape();
    const int64_t dim = l.int_("dim"), outer = l.int_("outer_length");
    shape[dim] /= std::max<int64_t>(outer, 1);
    shape.insert(shape.begin() + dim, outer);
    return reshape(x, shape);
  });
  NEURON_OP("prims::iota", no_promotion(), no_rule(), [](Lowering& l) {
    const DType dtype = l.dtype("dtype").value_or(DType::i64);
    const Val i = iota(l.builder(), DType::i64, {l.int_("length")}, 0);
    return convert(i * l.scalar("step", DType::i64) + l.scalar("start", DType::i64), dtype);
  });
}

}  // namespace

void register_prims(Registry& registry) {
  register_aliases(registry);
  register_reductions(registry);
  register_movement(registry);
  NEURON_OP("prims::div", promotes_exact_scalars(default_rule, {"self", "other"}), result(pointwise),
            [](Lowering& l) { return l.arg("self") / l.arg("other"); });
  NEURON_OP("prims::pow", promotes(default_rule, {"self", "other"}), result(pointwise),
            [](Lowering& l) { return pow(l.arg("self"), l.arg("other")); });
  NEURON_OP("prims::fma", promotes(default_rule, {"a", "b", "c"}), result(pointwise),
            [](Lowering& l) { return l.arg("a") * l.arg("b") + l.arg("c"); });
  NEURON_OP("prims::where", promotes(move_rule, {"a", "b"}), no_rule(),
            [](Lowering& l) { return where(to_bool(l.raw("pred")), l.arg("a"), l.arg("b")); });
  NEURON_OP("prims::cbrt", promotes(float_rule, {"self"}), result(pointwise),
            [](Lowering& l) { return unary(Op::cbrt, l.arg("self")); });
}

}  // namespace neuron::ops
