// embedding, its dense backward and the renormalisation of rows.
//
// Not supported: sparse gradients (the forward does not depend on them).
#include "ops/indexing.h"
#include "ops/norms.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

std::optional<Metas> embedding_result(const Lowering& l) {
  const TensorMeta &weight = l.meta("weight"), &indices = l.meta("indices");
  if (weight.shape.size() != 2 || (indices.dtype != DType::i64 && indices.dtype != DType::i32)) return std::nullopt;
  Shape shape = indices.shape;
  shape.push_back(weight.shape[1]);
  return one(contiguous_meta(weight.dtype, std::move(shape)));
}

Val embedding(Lowering& l) { return take_slices(l.raw("weight"), l.raw("indices"), 0); }

std::optional<Metas> embedding_backward_result(const Lowering& l) {
  const TensorMeta& grad = l.meta("grad_output");
  if (grad.shape.empty()) return std::nullopt;
  return one(contiguous_meta(grad.dtype, {l.int_("num_weights"), grad.shape.back()}));
}

// Rows of the gradient added up by index; rows of padding_idx do not count; by frequency: divided by how often the index is
// used. Half precision is added up in f32.
Val embedding_backward(Lowering& l) {
  const Val grad = l.raw("grad_output"), index = flatten(convert(l.raw("indices"), DType::i64));
  const int64_t rows = l.int_("num_weights"), padding = l.int_("padding_idx", -1), count = index.elements();
  const DType t = opmath(grad.dtype());
  Val updates = reshape(convert(grad, t), {count, grad.size(-1)});
  if (l.flag("scale_grad_by_freq")) {
    const Val zeros = full(l.builder(), t, {rows}, 0), ones = full(l.builder(), t, {count}, 1);
    updates = updates / unsqueeze(take_slices(scatter_slices(zeros, index, ones, 0, Reducer::add), index, 0), 1);
  }
  if (padding >= 0) updates = where(unsqueeze(eq(index, like_int(index, padding)), 1), like(updates, 0), updates);
  const Val zeros = full(l.builder(), t, {rows, grad.size(-1)}, 0);
  return convert(scatter_slices(zeros, index, updates, 0, Reducer::add), grad.dtype());
}

std::optional<Metas> embedding_renorm_result(const Lowering& l) {
  const TensorMeta &self = l.meta("self"), &indices = l.meta("indices");
  if (self.shape.size() != 2 || (indices.dtype != DType::i64 && indices.dtype != DType::i32)) return std::nullopt;
  return like_input()(l);
}

// The rows that indices name are scaled to the norm max_norm where theirs is larger. Norm and factor are rounded to the
// table's dtype, the factor is computed in f64. A row named twice is written twice, equally.
Val embedding_renorm(Lowering& l) {
  const Val table = l.raw("self"), index = flatten(convert(l.raw("indices"), DType::i64));
  if (!is_floating(table.dtype()) || !embedding_renorm_result(l)) return l.unsupported("this table or index");
  const DType t = opmath(table.dtype());
  const Val rows = convert(take_slices(table, index, 0), t);
  const Val rounded = convert(vector_norm(rows, l.number("norm_type").value_or(2), {1}, true), table.dtype());
  const Val norm = convert(rounded, DType::f64), limit = l.scalar("max_norm", DType::f64);
  const Val scaled = rows * convert(convert(limit / (norm + 1e-7), table.dtype()), t);
  const Val changed = convert(where(gt(norm, limit), scaled, rows), table.dtype());
  return scatter_slices(table, index, changed, 0, Reducer::assign);
}

}  // namespace

void register_embedding(Registry& registry) {
  NEURON_OP("aten::embedding", no_promotion(), result(embedding_result), embedding);
  NEURON_OP("aten::embedding_dense_backward", no_promotion(), result(embedding_backward_result), embedding_backward);
  NEURON_OP("aten::embedding_renorm", no_promotion(), result(embedding_renorm_result), embedding_renorm)
      .structural("norm_type");
}

}  // namespace neuron::ops
