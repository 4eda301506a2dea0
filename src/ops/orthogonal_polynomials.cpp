// Chebyshev polynomials of four kinds, plain and shifted, and Hermite polynomials of both normalizations, of a degree that
// is known only when the program runs; Laguerre and Legendre polynomials of one degree that is known before.
//
// Not supported: Laguerre and Legendre polynomials of a tensor of degrees (the number of steps has no bound) and of degrees
// above 256.
#include <cmath>
#include <limits>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;

// The degree as CPU reads it: cut to a whole number, negative when there is none.
Val whole_degree(const Val& n) { return where(lt(abs(n), 0x1p63), unary(Op::trunc, n), like(n, -1)); }

Val is_even(const Val& n) {
  const Val half = n * 0.5;
  return eq(unary(Op::floor, half), half);
}

// --- Chebyshev ---

enum class Kind : uint8_t { first, second, third, fourth };

constexpr int kRecurrenceSteps = 16;  // degrees whose value is what the recurrence says

// For |x| < 1 a polynomial of the angle, beyond of the hyperbolic angle of |x|; there x -> -x exchanges the third and the
// fourth kind. CPU's recurrence holds no number from two degrees after the one that overflows.
Val high_degree(Kind kind, const Val& x, const Val& n) {
  const Val inside = lt(abs(x), 1);
  const Val angle = unary(Op::acos, where(inside, x, like(x, 0)));
  const Val hyperbolic = unary(Op::acosh, where(inside, like(x, 1), abs(x)));
  const auto quotient = [&](Op function, double shift) {
    const double part = shift == 1 ? 1 : 0.5;
    return unary(function, (n + shift) * angle) / unary(function, angle * part);
  };
  // cosh or sinh of m h, m = degree + shift, by that of part h (by 1 for part 0): exp(m h) (1 +- exp(-2 m h)) / 2 over the
  // same. The exponential in two halves, so that nothing overflows before the quotient does.
  const auto growth = [&](double shift, double part, bool odd, const Val& degree) {
    const auto tail = [&](const Val& m) {
      const Val minus = unary(Op::exponential_minus_one, m * hyperbolic * -2.0);
      return odd ? -minus : minus + 2.0;
    };
    const Val root = exp((degree + (shift - part)) * 0.5 * hyperbolic), top = tail(degree + shift);
    return root * (root * (part == 0 ? top * 0.5 : top / tail(like(degree, part))));
  };
  const auto outside = [&](const Val& degree) {
    const Val negative = lt(x, 0);
    Val size;
    if (kind == Kind::first) size = growth(0, 0, false, degree);
    if (kind == Kind::second) size = growth(1, 1, true, degree);
    if (kind == Kind::third || kind == Kind::fourth) {
      const Val even_part = growth(0.5, 0.5, false, degree), odd_part = growth(0.5, 0.5, true, degree);
      size = kind == Kind::third ? where(negative, odd_part, even_part) : where(negative, even_part, odd_part);
    }
    return where(negative & !is_even(degree), -size, size);
  };
  Val trigonometric;
  if (kind == Kind::first) trigonometric = unary(Op::cosine, n * angle);
  if (kind == Kind::second) trigonometric = quotient(Op::sine, 1);
  if (kind == Kind::third) trigonometric = quotient(Op::cosine, 0.5);
  if (kind == Kind::fourth) trigonometric = quotient(Op::sine, 0.5);
  const Val overflown = unary(Op::is_inf, outside(n - 2.0));
  const Val beyond = where(overflown, like(x, std::numeric_limits<double>::quiet_NaN()), outside(n));
  return where(inside, trigonometric, beyond);
}

// At x = 1 and x = -1.
Val at_ends(Kind kind, const Val& x, const Val& n) {
  const Val one = like(n, 1), twice = n * 2.0 + 1.0, right = gt(x, 0);
  Val size = one;
  if (kind == Kind::second) size = n + 1.0;
  if (kind == Kind::third) size = where(right, one, twice);
  if (kind == Kind::fourth) size = where(right, twice, one);
  return where(right | is_even(n), size, -size);
}

Val chebyshev(Kind kind, const Val& x, const Val& n) {
  Val before = like(x, 1), here = kind == Kind::first ? x : x * 2.0;
  if (kind == Kind::third) here = here - 1.0;
  if (kind == Kind::fourth) here = here + 1.0;
  Val y = where(lt(n, 0), like(x, 0), high_degree(kind, x, n));
  y = where(eq(n, 0), before, where(eq(n, 1), here, y));
  for (int k = 2; k <= kRecurrenceSteps; ++k) {
    const Val next = x * 2.0 * here - before;
    before = here;
    here = next;
    y = where(eq(n, k), here, y);
  }
  return where(eq(abs(x), 1) & ge(n, 0), at_ends(kind, x, n), y);
}

// --- Hermite: physicists' H(k + 1) = 2 x H(k) - 2 k H(k - 1), probabilists' without both twos ---

// All degrees above have no number: a value before them has overflown, whatever x.
int last_hermite_degree(bool physicists, DType dtype) {
  const double limit =
      dtype == DType::f64 ? std::numeric_limits<double>::max() : static_cast<double>(std::numeric_limits<float>::max());
  // At x = 0, where the values are smallest, by two degrees: 1, 2, 12, .. or 1, 1, 3, 15, ..
  int degree = 0;
  for (double size = 1; size < limit; degree += 2) size *= (degree + 1) * (physicists ? 2.0 : 1.0);
  return degree + 4;
}

Val hermite(bool physicists, const Val& x, const Val& n) {
  const double factor = physicists ? 2 : 1;
  const Val slope = physicists ? x * 2.0 : x;
  Val before = like(x, 1), here = slope;
  Val y = where(lt(n, 0), like(x, 0), like(x, std::numeric_limits<double>::quiet_NaN()));
  y = where(eq(n, 0), before, where(eq(n, 1), here, y));
  for (int k = 1; k < last_hermite_degree(physicists, x.dtype()); ++k) {
    const Val next = slope * here - before * (factor * k);
    before = here;
    here = next;
    y = where(eq(n, k + 1), here, y);
  }
  return y;
}

// --- Laguerre: (k + 1) L(k + 1) = (2 k + 1 - x) L(k) - k L(k - 1); Legendre: the same with (2 k + 1) x ---

constexpr double kLargestKnownDegree = 256;

Val known_degree(Lowering& l, bool laguerre) {
  const Val x = l.arg("x");
  const double n = std::trunc(l.number("n").value_or(kLargestKnownDegree + 1));
  if (!(n <= kLargestKnownDegree)) return l.unsupported("this degree");
  if (n < 0) return like(x, 0);
  Val before = like(x, 1), here = laguerre ? 1.0 - x : x;
  if (n == 0) return before;
  for (int k = 1; k < n; ++k) {
    const Val slope = laguerre ? 2.0 * k + 1 - x : (2.0 * k + 1) * x;
    const Val next = (slope * here - before * k) / (k + 1);
    before = here;
    here = next;
  }
  return here;
}

}  // namespace

void register_orthogonal_polynomials(Registry& registry) {
  const auto add = [&](const std::string& name, auto polynomial) {
    NEURON_OP("aten::special_" + name, promotes(real_float_rule, {"x", "n"}), result(pointwise), [polynomial](Lowering& l) {
      const Val x = l.arg("x"), n = l.arg("n");
      const auto shape = broadcast_shapes(x.shape(), n.shape());
      if (!shape) return l.unsupported("operands that do not broadcast");
      return polynomial(broadcast_to(x, *shape), whole_degree(broadcast_to(n, *shape)));
    });
  };
  static constexpr std::pair<const char*, Kind> kKinds[] = {
      {"t", Kind::first}, {"u", Kind::second}, {"v", Kind::third}, {"w", Kind::fourth}};
  for (const auto& [letter, kind] : kKinds) {
    const std::string name = std::string("chebyshev_polynomial_") + letter;
    add(name, [kind = kind](const Val& x, const Val& n) { return chebyshev(kind, x, n); });
    add("shifted_" + name, [kind = kind](const Val& x, const Val& n) { return chebyshev(kind, x * 2.0 - 1.0, n); });
  }
  add("hermite_polynomial_h", [](const Val& x, const Val& n) { return hermite(true, x, n); });
  add("hermite_polynomial_he", [](const Val& x, const Val& n) { return hermite(false, x, n); });
  for (const bool laguerre : {true, false}) {
    NEURON_OP(laguerre ? "aten::special_laguerre_polynomial_l.n_scalar" : "aten::special_legendre_polynomial_p.n_scalar",
              promotes(real_float_rule, {"x", "n"}), result(pointwise),
              [laguerre](Lowering& l) { return known_degree(l, laguerre); })
        .structural("n");
  }
}

}  // namespace neuron::ops
