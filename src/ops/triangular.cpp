// Systems with a triangular matrix: linalg_solve_triangular, triangular_solve, cholesky_solve, cholesky_inverse.
//
// Not supported: dtypes CPU refuses. A triangular matrix is inverted block by block, all blocks of a size at once, the size
// doubling each time: log2(n) steps of batched products instead of n steps that wait for each other, as suits a matrix
// engine. The result is a product with the inverse: its error grows with the condition number, as substitution's does.
#include <algorithm>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

// Products of small blocks keep a matrix engine idle: up to this size they are sums over an element-wise product.
constexpr int64_t kElementWise = 16;

Val block_product(const Val& a, const Val& b) {  // [.., s, s]
  if (a.size(-1) > kElementWise) return matmul(a, b, a.dtype());
  const int64_t rank = a.rank();
  return sum(unsqueeze(a, rank) * unsqueeze(b, rank - 2), {rank - 1});
}

Val transposed(const Val& x) { return swap_dims(x, x.rank() - 2, x.rank() - 1); }

// [.., n, n] as [batch, n, n].
Val as_batch(const Val& x) { return reshape(x, {x.elements() / (x.size(-1) * x.size(-2)), x.size(-2), x.size(-1)}); }

// The inverse of the lower triangle of each [n, n] of [batch, n, n]; what lies above is not read.
Val inverse_of_lower(const Val& matrices, bool unit) {
  ir::Builder& b = matrices.builder();
  const int64_t batch = matrices.size(0), n = matrices.size(1);
  int64_t m = 1;
  while (m < n) m *= 2;
  const Val padded = pad(matrices, 0, {0, 0, 0}, {0, m - n, m - n});
  const Val row = iota(b, DType::i32, padded.shape(), 1), column = iota(b, DType::i32, padded.shape(), 2);
  const Val diagonal = Val(b, b.strided_view(padded.value(), {batch, m}, {m * m, m + 1}, 0));
  const Val index = iota(b, DType::i32, {batch, m}, 1);
  const Val ones = like(diagonal, 1);
  // Padding has ones on the diagonal.
  const Val pivots = unit ? ones : where(lt(index, static_cast<double>(n)), diagonal, ones);
  const Val lower = where(gt(row, column), padded, like(padded, 0));
  Val inverse = reshape(ones / pivots, {batch, m, 1, 1});
  for (int64_t s = 1; s < m; s *= 2) {
    // [A 0; C B]^-1 = [A^-1 0; -B^-1 C A^-1 B^-1] for all pairs of neighbouring blocks.
    const int64_t pairs = m / (2 * s);
    const Val both = reshape(inverse, {batch, pairs, 2, s, s});
    const Val a = select(both, 2, 0), d = select(both, 2, 1);
    const Val c(b, b.strided_view(lower.value(), {batch, pairs, s, s}, {m * m, 2 * s * (m + 1), m, 1}, s * m));
    const Val corner = -block_product(block_product(d, c), a);
    inverse = concatenate({concatenate({a, like(a, 0)}, 3), concatenate({corner, d}, 3)}, 2);
  }
  return slice(slice(reshape(inverse, {batch, m, m}), 1, 0, n), 2, 0, n);
}

// The inverse of the upper or lower triangle of each matrix of [.., n, n].
Val inverse_of_triangle(const Val& x, bool upper, bool unit) {
  if (x.elements() == 0) return x;
  const Val batch = as_batch(upper ? transposed(x) : x);
  const Val inverse = reshape(inverse_of_lower(batch, unit), x.shape());
  return upper ? transposed(inverse) : inverse;
}

// a x b with equal leading dims.
Val product(const Val& a, const Val& b) { return matmul(a, b, a.dtype()); }

TensorMeta column_major(DType dtype, const Shape& shape) {
  Shape turned = shape;
  const size_t rank = shape.size();
  std::swap(turned[rank - 1], turned[rank - 2]);
  Shape strides = contiguous_strides_of(turned);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return {dtype, shape, strides};
}

bool is_square(const TensorMeta& m) {
  return m.shape.size() >= 2 && m.shape[m.shape.size() - 1] == m.shape[m.shape.size() - 2] && !is_integral(m.dtype);
}

struct System {
  Shape matrices, sides;  // with common leading dims
};

std::optional<System> system_of(const TensorMeta& a, const TensorMeta& b, bool left) {
  if (!is_square(a) || b.shape.size() < 2 || a.dtype != b.dtype) return std::nullopt;
  const size_t ra = a.shape.size(), rb = b.shape.size();
  if (b.shape[left ? rb - 2 : rb - 1] != a.shape[ra - 1]) return std::nullopt;
  const auto batch = broadcast_shapes(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2));
  if (!batch) return std::nullopt;
  System s{*batch, *batch};
  s.matrices.insert(s.matrices.end(), a.shape.end() - 2, a.shape.end());
  s.sides.insert(s.sides.end(), b.shape.end() - 2, b.shape.end());
  return s;
}

// X with op(A) X = B (or X op(A) = B) for A [.., n, n] whose triangle is given.
Val solve(const Val& a, const Val& b, const System& s, bool upper, bool left, bool unit, bool transpose) {
  if (element_count(s.sides) == 0) return full(b.builder(), b.dtype(), s.sides, 0);
  Val inverse = inverse_of_triangle(a, upper, unit);
  if (transpose) inverse = transposed(inverse);
  inverse = broadcast_to(inverse, s.matrices);
  const Val sides = broadcast_to(b, s.sides);
  return left ? product(inverse, sides) : product(sides, inverse);
}

std::optional<Metas> solve_triangular_result(const Lowering& l) {
  const auto s = system_of(l.meta("self"), l.meta("B"), l.flag("left", true));
  if (!s) return std::nullopt;
  return one(column_major(l.meta("B").dtype, s->sides));
}

Val solve_triangular(Lowering& l) {
  const bool left = l.flag("left", true);
  const System s = *system_of(l.meta("self"), l.meta("B"), left);
  return solve(l.raw("self"), l.raw("B"), s, l.flag("upper"), left, l.flag("unitriangular"), false);
}

std::optional<Metas> triangular_solve_result(const Lowering& l) {
  const auto s = system_of(l.meta("A"), l.meta("self"), true);
  if (!s) return std::nullopt;
  const DType dtype = l.meta("self").dtype;
  return Metas{column_major(dtype, s->sides), column_major(dtype, s->matrices)};
}

std::vector<Val> triangular_solve(Lowering& l) {
  const System s = *system_of(l.meta("A"), l.meta("self"), true);
  const Val a = l.raw("A");
  return {solve(a, l.raw("self"), s, l.flag("upper", true), true, l.flag("unitriangular"), l.flag("transpose")),
          broadcast_to(a, s.matrices)};
}

// (L L^H)^-1 = L^-H L^-1, or (U^H U)^-1 = U^-1 U^-H.
Val inverse_of_factored(const Val& factor, bool upper) {
  const Val inverse = inverse_of_triangle(factor, upper, false);
  const Val adjoint = conj(transposed(inverse));
  return upper ? product(inverse, adjoint) : product(adjoint, inverse);
}

}  // namespace

void register_triangular(Registry& registry) {
  NEURON_OP("aten::linalg_solve_triangular", no_promotion(), result(solve_triangular_result), solve_triangular);
  NEURON_OP("aten::triangular_solve", no_promotion(), result(triangular_solve_result), triangular_solve);
  NEURON_OP("aten::_cholesky_solve_helper", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const auto s = system_of(l.meta("A"), l.meta("self"), true);
              if (!s || s->sides != l.meta("self").shape) return std::nullopt;
              return one(column_major(l.meta("self").dtype, s->sides));
            })),
            [](Lowering& l) {
              const System s = *system_of(l.meta("A"), l.meta("self"), true);
              if (element_count(s.sides) == 0) return l.raw("self");
              // Two solutions, not one product with the inverse of A: the condition of A is the square of the factor's.
              const bool upper = l.flag("upper");
              const Val inverse = broadcast_to(inverse_of_triangle(l.raw("A"), upper, false), s.matrices);
              const Val adjoint = conj(transposed(inverse)), sides = broadcast_to(l.raw("self"), s.sides);
              return upper ? product(inverse, product(adjoint, sides)) : product(adjoint, product(inverse, sides));
            });
  NEURON_OP("aten::cholesky_inverse", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const TensorMeta& m = l.meta("self");
              if (!is_square(m)) return std::nullopt;
              return one(column_major(m.dtype, m.shape));
            })),
            [](Lowering& l) {
              const Val x = l.raw("self");
              return x.elements() == 0 ? x : inverse_of_factored(x, l.flag("upper"));
            });
}

}  // namespace neuron::ops
