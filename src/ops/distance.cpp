// cdist and pdist: p-norm distances between rows, and their gradients.
//
// Not supported: f16 and bf16 (nor by CPU).
#include <algorithm>
#include <cmath>

#include "ops/indexing.h"
#include "ops/registry.h"
#include "ops/tables.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

constexpr int64_t kRowsWorthProduct = 25;  // above, PyTorch takes Euclidean distances from a product of matrices

bool is_distance_dtype(DType t) { return t == DType::f32 || t == DType::f64; }

// sum(|difference|^p)^(1/p) over the last dim but one.
Val norm(const Val& difference, double p) {
  const std::vector<int64_t> dims{difference.rank() - 2};
  const Val d = abs(difference);
  if (p == 0) return sum(minimum(unary(ir::Op::ceil, d), like(d, 1)), dims);
  if (p == 1) return sum(d, dims);
  if (p == 2) return sqrt(sum(d * d, dims));
  if (std::isinf(p)) return reduce(Reducer::maximum, d, dims);
  const Val total = sum(pow(d, like(d, p)), dims);
  return pow(total, like(total, 1 / p));
}

// The derivative of norm(difference) by the difference; distance has size 1 in the last dim.
Val norm_slope(const Val& difference, const Val& distance, double p) {
  const Val d = abs(difference), sign = unary(ir::Op::sign, difference), none = like(difference, 0);
  if (p == 0) return none;
  if (p == 1) return sign;
  if (std::isinf(p)) return where(eq(d, distance), sign, none);
  Val slope = p == 2 ? difference / distance : sign * pow(d, like(d, p - 1)) / pow(distance, like(distance, p - 1));
  if (p < 1) slope = where(eq(d, 0.0), none, slope);
  return where(eq(distance, 0.0), none, slope);
}

Val euclidean_by_product(const Val& a, const Val& b) {
  const auto square = [](const Val& x) { return sum(x * x, {x.rank() - 1}, true); };
  const Val products = matmul(a, swap_dims(b, b.rank() - 2, b.rank() - 1), a.dtype());
  const Val squares = square(a) + swap_dims(square(b), b.rank() - 2, b.rank() - 1) - products * 2.0;
  return sqrt(maximum(squares, like(squares, 0)));
}

// Differences of all pairs of rows: [.., P, R, M], and [.., P, M, R], in which the second tensor is read along its rows'
// places.
Val differences(const Val& a, const Val& b) { return unsqueeze(a, a.rank() - 1) - unsqueeze(b, b.rank() - 2); }
Val differences_by_column(const Val& a, const Val& b) {
  return unsqueeze(a, a.rank()) - unsqueeze(swap_dims(b, b.rank() - 2, b.rank() - 1), b.rank() - 2);
}

struct Pairs {
  Shape batch;
  int64_t left, right, length;
};
std::optional<Pairs> pairs(const TensorMeta& a, const TensorMeta& b) {
  if (a.shape.size() < 2 || b.shape.size() < 2 || a.shape.back() != b.shape.back()) return std::nullopt;
  if (!is_distance_dtype(a.dtype) || a.dtype != b.dtype) return std::nullopt;
  const auto batch = broadcast_shapes({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2});
  if (!batch) return std::nullopt;
  return Pairs{*batch, a.shape[a.shape.size() - 2], b.shape[b.shape.size() - 2], a.shape.back()};
}
bool is_empty(const Pairs& n) { return element_count(n.batch) * n.left * n.right * n.length == 0; }
Shape joined(Shape batch, std::initializer_list<int64_t> tail) {
  batch.insert(batch.end(), tail);
  return batch;
}

std::optional<Metas> cdist_result(const Lowering& l) {
  const auto n = pairs(l.meta("x1"), l.meta("x2"));
  const int64_t mode = l.int_("compute_mode");
  if (!n || mode < 0 || mode > 2 || !(l.number("p").value_or(-1) >= 0)) return std::nullopt;
  return one(contiguous_meta(l.meta("x1").dtype, joined(n->batch, {n->left, n->right})));
}

Val cdist(Lowering& l) {
  const auto n = pairs(l.meta("x1"), l.meta("x2"));
  const auto p = l.number("p");
  if (!n || !p) return l.unsupported("an unknown p");
  const Shape shape = joined(n->batch, {n->left, n->right});
  if (element_count(shape) == 0 || n->length == 0) return full(l.builder(), l.meta("x1").dtype, shape, 0);
  const Val a = broadcast_to(l.raw("x1"), joined(n->batch, {n->left, n->length})),
            b = broadcast_to(l.raw("x2"), joined(n->batch, {n->right, n->length}));
  const int64_t mode = l.int_("compute_mode");
  const bool many = n->left > kRowsWorthProduct || n->right > kRowsWorthProduct;
  if (*p == 2 && (mode == 1 || (mode == 0 && many))) return euclidean_by_product(a, b);
  return norm(differences_by_column(a, b), *p);
}

std::optional<Metas> cdist_backward_result(const Lowering& l) {
  const auto n = pairs(l.meta("x1"), l.meta("x2"));
  if (!n || !(l.number("p").value_or(-1) >= 0)) return std::nullopt;
  const Shape shape = joined(n->batch, {n->left, n->right});
  if (l.meta("grad").shape != shape || l.meta("cdist").shape != shape) return std::nullopt;
  const TensorMeta& x = l.meta("x1");
  if (is_empty(*n)) return one({x.dtype, x.shape, preserved_strides(x.shape, x.strides)});  // CPU: zeros_like(x1)
  return one(contiguous_meta(x.dtype, joined(n->batch, {n->left, n->length})));
}

// sum over the rows of b of grad * d norm(a - b) / d a.
Val gradient(const Val& grad, const Val& a, const Val& b, const Val& distance, double p) {
  const int64_t rank = grad.rank();
  return sum(unsqueeze(grad, rank) * norm_slope(differences(a, b), unsqueeze(distance, rank), p), {rank - 1});
}

Val cdist_backward(Lowering& l) {
  const auto n = pairs(l.meta("x1"), l.meta("x2"));
  const auto p = l.number("p");
  if (!n || !p) return l.unsupported("an unknown p");
  if (is_empty(*n)) return like(l.raw("x1"), 0);
  const Val a = broadcast_to(l.raw("x1"), joined(n->batch, {n->left, n->length})),
            b = broadcast_to(l.raw("x2"), joined(n->batch, {n->right, n->length}));
  return gradient(l.raw("grad"), a, b, l.raw("cdist"), *p);
}

int64_t pair_count(int64_t rows) { return rows * (rows - 1) / 2; }

std::optional<Metas> pdist_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  if (x.shape.size() != 2 || !is_distance_dtype(x.dtype) || !(l.number("p").value_or(-1) >= 0)) return std::nullopt;
  return one(contiguous_meta(x.dtype, {pair_count(x.shape[0])}));
}

// The pairs (i, j), i < j, of all distances.
Val pdist(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t rows = x.size(0);
  const auto p = l.number("p");
  if (!p) return l.unsupported("an unknown p");
  if (rows < 2 || x.size(1) == 0) return full(l.builder(), x.dtype(), {pair_count(rows)}, 0);
  std::vector<int64_t> upper;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i + 1; j < rows; ++j) upper.push_back(i * rows + j);
  }
  return take_slices(flatten(norm(differences_by_column(x, x), *p)), index_table(l.builder(), upper), 0);
}

std::optional<Metas> pdist_backward_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  const Shape pairs_of_rows{x.shape.empty() ? 0 : pair_count(x.shape[0])};
  if (!pdist_result(l) || l.meta("grad").shape != pairs_of_rows || l.meta("pdist").shape != pairs_of_rows)
    return std::nullopt;
  return one(contiguous_meta(x.dtype, x.shape));
}

// The pairs as a symmetric matrix; nothing on the diagonal, where the distance is 0.
Val pdist_backward(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t rows = x.size(0);
  const auto p = l.number("p");
  if (!p) return l.unsupported("an unknown p");
  if (rows < 2 || x.elements() == 0) return like(x, 0);
  std::vector<int64_t> pair;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < rows; ++j) {
      const int64_t a = std::min(i, j), b = std::max(i, j);
      pair.push_back(i == j ? pair_count(rows) : a * rows - a * (a + 1) / 2 + b - a - 1);
    }
  }
  const auto matrix = [&](const char* name) {
    const Val with_zero = pad(l.raw(name), 0, {0}, {1});
    return reshape(take_slices(with_zero, index_table(l.builder(), pair), 0), {rows, rows});
  };
  return gradient(matrix("grad"), x, x, matrix("pdist"), *p);
}

}  // namespace

void register_distance(Registry& registry) {
  NEURON_OP("aten::_cdist_forward", no_promotion(), result(cdist_result), cdist).structural("p");
  NEURON_OP("aten::_cdist_backward", no_promotion(), result(cdist_backward_result), cdist_backward).structural("p");
  NEURON_OP("aten::_pdist_forward", no_promotion(), result(pdist_result), pdist).structural("p");
  NEURON_OP("aten::_pdist_backward", no_promotion(), result(pdist_backward_result), pdist_backward).structural("p");
}

}  // namespace neuron::ops
