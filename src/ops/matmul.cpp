// Matrix products. Half types are multiplied as they are, accumulated in f32 and rounded once at the end.
//
// Not supported: bool matrices, sparse layouts, products of different dtypes (PyTorch refuses them).
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;

std::optional<DTypes> product_rule(const Lowering& l, const Names& names) {
  const auto types = same_rule(l, names);
  return types && types->common == DType::boolean ? std::nullopt : types;
}

// The shape of a product with checks; rank decides which of matrix, vector it is.
bool is_matrix(const TensorMeta& m) { return m.shape.size() == 2; }
bool is_batch(const TensorMeta& m) { return m.shape.size() == 3; }

Val dot(const Val& a, const Val& b, ir::DotAttrs attrs, DType result) {
  attrs.result_dtype = result;
  return {a.builder(), a.builder().dot_general(a.value(), b.value(), attrs)};
}
Val matrix_vector(const Val& m, const Val& v, DType result) { return dot(m, v, {{}, {}, {1}, {0}, result}, result); }

// beta * self + alpha * product, where beta 0 ignores self even if it holds NaN.
Val blend(Lowering& l, const Val& product) {
  Val result = product;
  if (l.has("alpha") && !l.equals("alpha", 1)) result = result * l.scalar("alpha");
  if (l.equals("beta", 0)) return result;
  Val self = l.arg("self");
  if (l.has("beta") && !l.equals("beta", 1)) self = self * l.scalar("beta");
  return result + broadcast_to(self, result.shape());
}

// infer for beta*self + alpha*(a x b): `self` must expand to the product.
std::optional<Metas> product_result(const Lowering& l, const char* a, const char* b, bool with_self) {
  const TensorMeta &x = l.meta(a), &y = l.meta(b);
  const size_t rank = x.shape.size();
  if (rank < 2 || x.shape.back() != (y.shape.size() < 2 ? y.shape[0] : y.shape[y.shape.size() - 2])) return std::nullopt;
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  if (y.shape.size() >= 2) shape.push_back(y.shape.back());
  if (rank == 3 && x.shape[0] != y.shape[0]) return std::nullopt;
  if (with_self) {
    const auto joined = broadcast_shapes(l.meta("self").shape, shape);
    if (!joined || *joined != shape) return std::nullopt;
  }
  return one(contiguous_meta(l.result_dtype(), shape));
}

template <size_t kRank>
std::optional<Metas> add_product_result(const Lowering& l) {
  static constexpr const char* kNames[][2] = {{"mat", "vec"}, {"mat1", "mat2"}, {"batch1", "batch2"}};
  const auto& names = kNames[kRank - 1];
  const TensorMeta &x = l.meta(names[0]), &y = l.meta(names[1]);
  const bool fits = kRank == 1   ? is_matrix(x) && y.shape.size() == 1
                    : kRank == 2 ? is_matrix(x) && is_matrix(y)
                                 : is_batch(x) && is_batch(y);
  return fits ? product_result(l, names[0], names[1], true) : std::nullopt;
}

void register_products(Registry& registry) {
  NEURON_OP("aten::mm", promotes(product_rule, {"self", "mat2"}), result(ResultRule([](const Lowering& l) {
              return is_matrix(l.meta("self")) && is_matrix(l.meta("mat2")) ? product_result(l, "self", "mat2", false)
                                                                            : std::optional<Metas>();
            })),
            [](Lowering& l) { return matmul(l.raw("self"), l.raw("mat2"), l.compute()); });
  NEURON_OP("aten::bmm", promotes(product_rule, {"self", "mat2"}), result(ResultRule([](const Lowering& l) {
              return is_batch(l.meta("self")) && is_batch(l.meta("mat2")) ? product_result(l, "self", "mat2", false)
                                                                          : std::optional<Metas>();
            })),
            [](Lowering& l) { return matmul(l.raw("self"), l.raw("mat2"), l.compute()); });
  NEURON_OP("aten::mv", promotes(product_rule, {"self", "vec"}), result(ResultRule([](const Lowering& l) {
              return is_matrix(l.meta("self")) && l.meta("vec").shape.size() == 1 ? product_result(l, "self", "vec", false)
                                                                                  : std::optional<Metas>();
            })),
            [](Lowering& l) { return matrix_vector(l.raw("self"), l.raw("vec"), l.compute()); });
  for (const bool conjugate : {false, true}) {
    NEURON_OP(conjugate ? "aten::vdot" : "aten::dot", promotes(product_rule), result(ResultRule([](const Lowering& l) {
                const Shape &a = l.meta("self").shape,
                            &b = l.call().arguments.size() > 1 ? l.meta(l.call().arguments[1].name).shape : a;
                return a.size() == 1 && a == b ? std::optional<Metas>(one(contiguous_meta(l.result_dtype(), {})))
                                               : std::optional<Metas>();
              })),
              [conjugate](Lowering& l) {
                const Val a = l.raw("self"), b = l.raw(conjugate ? "other" : "tensor");
                return dot(conjugate ? conj(a) : a, b, {{}, {}, {0}, {0}, l.compute()}, l.compute());
              });
  }
}

void register_add_products(Registry& registry) {
  NEURON_OP("aten::addmm", promotes(product_rule, {"self", "mat1", "mat2"}), result(add_product_result<2>),
            [](Lowering& l) { return blend(l, matmul(l.raw("mat1"), l.raw("mat2"), l.compute())); })
      .value_classes("alpha", {1})
      .value_classes("beta", {0, 1});
  NEURON_OP("aten::_addmm_activation", promotes(product_rule, {"self", "mat1", "mat2"}), result(add_product_result<2>),
            [](Lowering& l) {
              const Val y = blend(l, matmul(l.raw("mat1"), l.raw("mat2"), l.compute()));
              return l.flag("use_gelu") ? unary(Op::gelu_tanh, y) : maximum(y, like(y, 0));
            })
      .value_classes("alpha", {1})
      .value_classes("beta", {0, 1});
  NEURON_OP("aten::baddbmm", promotes(product_rule, {"self", "batch1", "batch2"}), result(add_product_result<3>),
            [](Lowering& l) { return blend(l, matmul(l.raw("batch1"), l.raw("batch2"), l.compute())); })
      .value_classes("alpha", {1})
      .value_classes("beta", {0, 1});
  NEURON_OP("aten::addmv", promotes(product_rule, {"self", "mat", "vec"}), result(add_product_result<1>),
            [](Lowering& l) { return blend(l, matrix_vector(l.raw("mat"), l.raw("vec"), l.compute())); })
      .value_classes("alpha", {1})
      .value_classes("beta", {0, 1});
  NEURON_OP("aten::addbmm", promotes(product_rule, {"self", "batch1", "batch2"}),
            result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const TensorMeta &a = l.meta("batch1"), &b = l.meta("batch2");
              if (!is_batch(a) || !is_batch(b) || a.shape[0] != b.shape[0] || a.shape[2] != b.shape[1]) return std::nullopt;
              return one(contiguous_meta(l.result_dtype(), {a.shape[1], b.shape[2]}));
            })),
            [](Lowering& l) {
              const Val a = l.raw("batch1"), b = l.raw("batch2");
              return blend(l, dot(a, b, {{}, {}, {0, 2}, {0, 1}, l.compute()}, l.compute()));
            })
      .value_classes("alpha", {1})
      .value_classes("beta", {0, 1});
  NEURON_OP("aten::addr", promotes(default_rule, {"self", "vec1", "vec2"}),
            result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const Shape &a = l.meta("vec1").shape, &b = l.meta("vec2").shape;
              if (a.size() != 1 || b.size() != 1) return std::nullopt;
              const Shape shape{a[0], b[0]};
              const auto joined = broadcast_shapes(l.meta("self").shape, shape);
              if (!joined || *joined != shape || l.result_dtype() == DType::boolean) return std::nullopt;
              const Shape &x = l.meta("vec1").strides, &y = l.meta("vec2").strides;
              const std::vector<Operand> operands{
                  {l.meta("self").shape, l.meta("self").strides}, {{a[0], 1}, {x[0], 1}}, {{b[0]}, {y[0]}}};
              return one({l.result_dtype(), shape, iterator_strides(shape, operands)});
            })),
            [](Lowering& l) {
              const Val a = l.arg("vec1"), b = l.arg("vec2");
              return blend(l, reshape(a, {a.size(0), 1}) * b);
            })
      .value_classes("alpha", {1})
      .value_classes("beta", {0, 1});
}

// linear stays whole so that bias and activation fuse with the product: input [.., K], weight [N, K] or [K], bias [N].
std::optional<Metas> linear_result(const Lowering& l) {
  const TensorMeta &x = l.meta("input"), &w = l.meta("weight");
  if (x.shape.empty() || w.shape.empty() || w.shape.size() > 2 || x.shape.back() != w.shape.back()) return std::nullopt;
  Shape shape(x.shape.begin(), x.shape.end() - 1);
  if (w.shape.size() == 2) shape.push_back(w.shape[0]);
  if (l.has("bias")) {
    const auto joined = broadcast_shapes(l.meta("bias").shape, shape);
    if (!joined || *joined != shape) return std::nullopt;
  }
  return one(contiguous_meta(l.result_dtype(), shape));
}

Val linear(Lowering& l) {
  const Val x = l.raw("input"), w = l.raw("weight");
  const int64_t last = x.rank() - 1, weight_last = w.rank() - 1;
  const Val y = dot(x, w, {{}, {}, {last}, {weight_last}, l.compute()}, l.compute());
  const Val bias = l.optional("bias");
  return bias.present() ? y + bias : y;
}

// Gradients of linear: (input, weight, bias), each as the mask asks.
std::vector<Val> linear_backward(Lowering& l) {
  const Val x = l.raw("self"), grad = l.raw("grad_output"), w = l.raw("weight");
  const auto* mask = std::get_if<std::vector<bool>>(l.argument("output_mask"));
  const auto wanted = [&](size_t i) { return !mask || (i < mask->size() && (*mask)[i]); };
  std::vector<int64_t> leading;
  for (int64_t d = 0; d + 1 < x.rank(); ++d) leading.push_back(d);
  std::vector<Val> out(3);
  if (wanted(0)) out[0] = dot(grad, w, {{}, {}, {grad.rank() - 1}, {0}, l.compute()}, l.compute());
  if (wanted(1)) out[1] = dot(grad, x, {{}, {}, leading, leading, l.compute()}, l.compute());
  if (wanted(2)) out[2] = sum(l.arg("grad_output"), leading);
  return out;
}

std::optional<Metas> linear_backward_result(const Lowering& l) {
  const auto* mask = std::get_if<std::vector<bool>>(l.argument("output_mask"));
  const TensorMeta &x = l.meta("self"), &w = l.meta("weight");
  if (w.shape.size() != 2 || x.shape.empty()) return std::nullopt;
  Metas metas{contiguous_meta(l.result_dtype(), x.shape), contiguous_meta(l.result_dtype(), w.shape),
              contiguous_meta(l.result_dtype(), {w.shape[0]})};
  for (size_t i = 0; mask && i < metas.size(); ++i) {
    if (!(*mask)[i]) metas[i].reset();
  }
  return metas;
}

}  // namespace

void register_matmul(Registry& registry) {
  register_products(registry);
  register_add_products(registry);
  NEURON_OP("aten::linear", promotes(product_rule, {"input", "weight", "bias"}), result(linear_result), linear);
  NEURON_OP("aten::linear_backward", promotes(product_rule, {"self", "grad_output", "weight"}),
            result(linear_backward_result), linear_backward);
}

}  // namespace neuron::ops
