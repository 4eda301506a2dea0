// embedding and its dense backward.
//
// Not supported: sparse gradients, embedding_renorm_, embedding_bag.
#include "ops/indexing.h"

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

Val embedding(Lowering& l) {
  if (l.flag("sparse")) return l.unsupported("a sparse gradient");
  return take_slices(l.raw("weight"), l.raw("indices"), 0);
}

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

}  // namespace

void register_embedding(Registry& registry) {
  NEURON_OP("aten::embedding", no_promotion(), result(embedding_result), embedding);
  NEURON_OP("aten::embedding_dense_backward", no_promotion(), result(embedding_backward_result), embedding_backward);
}

}  // namespace neuron::ops
