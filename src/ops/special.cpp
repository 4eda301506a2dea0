// Special functions that are composed of others: zeta, polygamma, mvlgamma and entr.
//
// Not supported: polygamma of orders above 20.
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;

constexpr int64_t kLargestOrder = 20;

std::optional<DTypes> no_bool_rule(const Lowering& l, const Names& names) {
  return l.meta("self").dtype == DType::boolean ? std::nullopt : real_float_rule(l, names);
}

Val whole_power(const Val& x, int64_t exponent) {
  Val square = x, result;
  for (int64_t e = exponent; e > 0; e /= 2) {
    if (e % 2 == 1) result = result.present() ? result * square : square;
    if (e > 1) square = square * square;
  }
  return result;
}

// As CPU does it: reflection below 1/2, six steps up, an asymptotic series.
Val trigamma(const Val& x) {
  const Val reflected = lt(x, 0.5);
  const Val sine = unary(Op::sine, x * std::numbers::pi);
  Val y = where(reflected, 1.0 - x, x);
  Val total = where(reflected, like(x, -std::numbers::pi * std::numbers::pi) / (sine * sine), like(x, 0));
  for (int i = 0; i < 6; ++i) {
    total = total + 1.0 / (y * y);
    y = y + 1.0;
  }
  const Val z = 1.0 / (y * y);
  total = total + (1.0 + 1.0 / (2.0 * y) + z * (1.0 / 6 - z * (1.0 / 30 - z * (1.0 / 42)))) / y;
  return where(reflected, -total, total);
}

// sum over k >= 0 of (q + k)^-s for q > 0 and s > 1: ten terms, the rest by Euler and Maclaurin. `power` of a value is its
// power -s; s is a number or a value.
template <class Order, class Power>
Val zeta(const Order& s, const Val& q, const Power& power) {
  // (2j)! / B(2j)
  static constexpr double kDivisors[] = {12.0,
                                         -720.0,
                                         30240.0,
                                         -1209600.0,
                                         47900160.0,
                                         -1.8924375803183791606e9,
                                         7.47242496e10,
                                         -2.950130727918164224e12,
                                         1.1646782814350067249e14,
                                         -4.5979787224074726105e15,
                                         1.8152105401943546773e17,
                                         -7.1661652561756670113e18};
  constexpr double kSteps = 9;
  const double epsilon =
      q.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  Val sum, last;
  for (int k = 0; k <= static_cast<int>(kSteps); ++k) {
    last = power(k == 0 ? q : q + static_cast<double>(k));
    sum = sum.present() ? sum + last : last;
  }
  const Val w = q + kSteps, inverse = 1.0 / w;
  Val total = sum + last * w / (s - 1.0) - last * 0.5;
  Val term = last * inverse * (s / kDivisors[0]);
  double largest = 1;  // bound of the next term against the sum, where s is a number: at the smallest w
  if constexpr (std::is_same_v<Order, double>) largest = s * (s - 1) / kDivisors[0] / (kSteps * kSteps);
  for (int j = 0;; ++j) {
    total = total + term;
    if (j == 11 || std::abs(largest) < epsilon / 8) break;
    const Order ratio = (s + (2.0 * j + 1)) * (s + (2.0 * j + 2)) * (kDivisors[j] / kDivisors[j + 1]);
    term = term * (inverse * inverse * ratio);
    if constexpr (std::is_same_v<Order, double>) largest *= ratio / (kSteps * kSteps);
  }
  if constexpr (std::is_same_v<Order, double>) return total;
  // Of a high order the first terms are everything, and the series of the rest does not converge.
  return where(lt(last, sum * epsilon), sum, total);
}

Val zeta(int64_t s, const Val& q) {
  return zeta(static_cast<double>(s), q, [s](const Val& x) { return whole_power(1.0 / x, s); });
}

// Below zero (s is whole): the terms up to zero are those of -q backwards.
Val zeta(const Val& s, const Val& q) {
  const auto sum = [&](const Val& from) { return zeta(s, from, [&](const Val& x) { return pow(x, -s); }); };
  const Val negative = lt(q, 0), fraction = abs(q) - unary(Op::floor, abs(q)), none = like(q, 1);
  const Val direct = sum(where(negative, 1.0 - fraction, q));
  const Val backwards = sum(where(negative, fraction, none)) - sum(where(negative, 1.0 - q, none));
  const Val half = s * 0.5, even = eq(unary(Op::floor, half), half);
  const Val no_number = like(s, std::numeric_limits<double>::quiet_NaN());
  Val y = where(negative, where(even, direct + backwards, direct - backwards), direct);
  y = where(le(q, 0) & ne(s, unary(Op::floor, s)), no_number, y);
  y = where(le(q, 0) & eq(q, unary(Op::floor, q)), infinity_like(y), y);
  return where(lt(s, 1), no_number, where(eq(s, 1), infinity_like(y), y));
}

// The n-th derivative of cot(pi x): pi^n times a polynomial of cot(pi x). P' -> -(1 + c^2) P'.
Val cotangent_derivative(int64_t n, const Val& x) {
  std::vector<double> p{0, 1};
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> next(p.size() + 1, 0);
    for (size_t d = 1; d < p.size(); ++d) {
      next[d - 1] -= static_cast<double>(d) * p[d];
      next[d + 1] -= static_cast<double>(d) * p[d];
    }
    p = std::move(next);
  }
  // Both sines of exact fractions of a turn, so that zeros and poles are as exact as the sine.
  const Val past = x - unary(Op::round_nearest_even, x), size = abs(past);
  const Val steep = unary(Op::sine, (0.5 - size) * std::numbers::pi) / unary(Op::sine, size * std::numbers::pi);
  const Val c = where(lt(past, 0), -steep, steep);
  const double scale = std::pow(std::numbers::pi, static_cast<double>(n));
  Val y = like(x, p.back() * scale);
  for (size_t d = p.size() - 1; d-- > 0;) {
    y = y * c;
    if (p[d] != 0) y = y + p[d] * scale;
  }
  return y;
}

// (-1)^(n+1) n! zeta(n + 1, x); below zero by reflection: psi(x) = (-1)^n psi(1 - x) - pi cot^(n)(pi x).
Val polygamma(int64_t n, const Val& x) {
  const double sign = n % 2 == 1 ? 1 : -1;
  const Val negative = lt(x, 0);
  const Val direct = zeta(n + 1, where(negative, 1.0 - x, x)) * (sign * std::tgamma(static_cast<double>(n) + 1));
  const Val below = direct * -sign - cotangent_derivative(n, x) * std::numbers::pi;
  const Val pole = le(x, 0) & eq(x, unary(Op::floor, x));
  return where(pole, infinity_like(x, sign < 0), where(negative, below, direct));
}

}  // namespace

void register_special(Registry& registry) {
  NEURON_OP("aten::polygamma", promotes(real_float_rule, {"self"}),
            result(ResultRule([](const Lowering& l) { return l.int_("n") < 0 ? std::nullopt : pointwise(l); })),
            [](Lowering& l) {
              const Val x = l.arg("self");
              const int64_t n = l.int_("n");
              if (n == 0) return unary(Op::digamma, x);
              if (n == 1) return trigamma(x);
              if (n < 0 || n > kLargestOrder) return l.unsupported("this order");
              return polygamma(n, x);
            });
  NEURON_OP("aten::special_zeta", promotes(real_float_rule, {"self", "other"}), result(pointwise), [](Lowering& l) {
    const Val s = l.arg("self"), q = l.arg("other");
    const auto shape = broadcast_shapes(s.shape(), q.shape());
    if (!shape) return l.unsupported("operands that do not broadcast");
    return zeta(broadcast_to(s, *shape), broadcast_to(q, *shape));
  });
  NEURON_OP("aten::special_entr", promotes(real_float_rule), result(pointwise), [](Lowering& l) {
    const Val x = l.arg("self");
    return where(gt(x, 0), -x * log(x), where(eq(x, 0), like(x, 0), where(is_nan(x), x, infinity_like(x, true))));
  });
  // log of the multivariate gamma function: log(pi) p (p - 1) / 4 + sum over j < p of lgamma(x - j / 2).
  NEURON_OP("aten::mvlgamma", promotes(no_bool_rule, {"self"}),
            result(ResultRule([](const Lowering& l) { return l.int_("p") < 1 ? std::nullopt : contiguous_like()(l); })),
            [](Lowering& l) {
              const Val x = l.arg("self");
              const auto p = static_cast<double>(l.int_("p"));
              Val total;
              for (double j = p - 1; j >= 0; --j) {
                const Val term = unary(Op::lgamma, j == 0 ? x : x - j / 2);
                total = total.present() ? total + term : term;
              }
              if (!total.present()) return l.unsupported("an order below 1");
              return total + p * (p - 1) * std::log(std::numbers::pi) / 4;
            });
}

}  // namespace neuron::ops
