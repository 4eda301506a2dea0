// The incomplete gamma functions P (igamma) and Q = 1 - P (igammac). One of the two is computed where it is the smaller one
// or close to it: by the uniform asymptotic expansion where the order a is large and x of its size, by a continued fraction
// to the right of that, by the power series to the left. Each has a fixed number of steps that is enough for its region. The
// coefficients were computed with 45 digits.
//
// Not supported: nothing that PyTorch has on CPU.
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "ops/chebyshev_series.h"
#include "ops/normal_distribution.h"
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;

// (u - log(1 + u)) / u^2 for |u| <= 1 / 2, t = 2 u.
constexpr double kLogarithm[] = {
    5.3589838486224541e-1,  -1.8879020478639098e-1,  3.7586657396691737e-2,  -8.0035434367536533e-3,
    1.7782310739789134e-3,  -4.0683065306807778e-4,  9.5089598322935379e-5,  -2.2591126842368851e-5,
    5.4365331674749662e-6,  -1.3219421548032748e-6,  3.2420367458598028e-7,  -8.0082657552379106e-8,
    1.9902531676047246e-8,  -4.9723161982345077e-9,  1.2479375157612211e-9,  -3.1446194462760107e-10,
    7.9521364909291505e-11, -2.0173075419521745e-11, 5.1320519107069946e-12, -1.3089395777222641e-12,
    3.3462144533709192e-13, -8.5724210340579059e-14, 2.2003424346531266e-14, -5.6577700435582615e-15,
    1.4571621058531567e-15, -3.7585838022091068e-16, 9.7083747435334335e-17, -2.5109146500732974e-17,
    6.5019267350842361e-18, -1.6855524519273039e-18};
// sqrt(2 pi / a) (a / e)^a / gamma(a) for a >= 1, t = 2 / a - 1.
constexpr double kScaledGamma[] = {
    9.6029173812747410e-1,   -3.8968237624892012e-2,  7.8309802455958872e-4,   3.6507479093947186e-5,
    -6.3995523632509903e-6,  2.5086764441246125e-7,   6.6429088714547462e-8,   -1.6472719668006102e-8,
    1.5226540329235268e-9,   1.7829476780205688e-10,  -1.0223973513757191e-10, 2.1131548802841965e-11,
    -1.5797663019572640e-12, -5.8922900531821306e-13, 2.9426575023920874e-13,  -7.1448375068673310e-14,
    8.0402140306787247e-15,  1.7957180338194497e-15,  -1.3509439033250367e-15, 4.4531040041621258e-16,
    -8.8392150224802271e-17, 2.4492005805351186e-18,  6.8106936151411764e-18,  -3.5697024276895109e-18,
    1.1311653979184076e-18};
// The coefficients of a^-k in the uniform expansion, functions of the distance eta between x and a, |eta| <= 0.8,
// t = eta / 0.8. As many as a >= 20 needs.
constexpr double kUniform0[] = {-3.3801677307587555e-1, 6.7074306380098804e-2,   -4.6638284732645696e-3,
                                1.2972988332762323e-4,  1.9914050654728139e-5,   -3.6953240438765577e-6,
                                3.0003805722368528e-7,  -3.2322938215448263e-9,  -2.7762216953997412e-9,
                                4.3658372064518434e-10, -3.2499365098814887e-11, -2.0195792515303020e-13,
                                4.0654931250717859e-13, -5.8499606203114066e-14, 4.0131725279371877e-15,
                                8.6919457896895305e-17, -6.0973250395839967e-17};
constexpr double kUniform1[] = {
    -9.7523883677059871e-4, -3.1572316460131183e-3,  8.8636485854058323e-4,   -1.2626514689971019e-4,
    9.5898920654360614e-6,  1.6651693916949783e-7,   -1.6378377110302120e-7,  2.4822439885974868e-8,
    -1.7995074168417395e-9, -5.0258437682930999e-11, 3.3193382697873010e-11,  -4.7353889517236698e-12,
    3.1721477483697464e-13, 1.3021358955449240e-14,  -6.4305961106194075e-15, 8.6698189510414861e-16};
constexpr double kUniform2[] = {4.3630411062245007e-3,   -2.1334889509481629e-3, 2.2346350118530359e-4,
                                5.6512793533710840e-6,   -6.0706713832686713e-6, 1.0728252820187598e-6,
                                -8.8909786286160369e-8,  -2.8372026946285741e-9, 2.0643842181530011e-9,
                                -3.2396081348370766e-10, 2.3672901104437232e-11, 1.0569662294184177e-12,
                                -5.6113016992230661e-13, 8.1058126977319489e-14, -5.3480560048141515e-15};
constexpr double kUniform3[] = {
    4.8864700910870188e-4,   2.8568559236272053e-4,  -1.6416885739930955e-4, 3.3855422111053603e-5, -3.2792418123477187e-6,
    -1.3396335395628415e-7,  1.0398163984799779e-7,  -1.8224878563907880e-8, 1.4716445286872175e-9, 7.3807283176060803e-11,
    -4.2158393098274491e-11, 6.5834902498107733e-12, -4.6674161296822629e-13};
constexpr double kUniform4[] = {-9.4654160326008034e-4, 6.1860059706490257e-4,   -8.0837279591528835e-5,
                                -4.2119749697928796e-6, 3.8921080585713511e-6,   -7.9603803036308237e-7,
                                7.3478382751862012e-8,  4.1499709946800719e-9,   -2.6330797669380561e-9,
                                4.5233287914910186e-10, -3.4985863644297867e-11, -2.4303588600697359e-12};
constexpr double kUniform5[] = {-2.3883796285009238e-4,  -1.3138202341199177e-4, 1.0082776057815194e-4,
                                -2.4952472812391739e-5,  2.7376404156733708e-6,  1.8429152227805545e-7,
                                -1.3180057415095076e-7,  2.5431487457741853e-8,  -2.1833640781302354e-9,
                                -1.6733002532267018e-10, 8.8681281601023093e-11};
constexpr double kUniform6[] = {
    6.0413573222425779e-4, -4.6207028610701061e-4, 6.8006722730143392e-5,  5.7587516591984322e-6, -4.9355940914818407e-6,
    1.1113549936711565e-6, -1.0906666714556688e-7, -9.4044605260094836e-9, 5.5386759341436548e-9, -1.0148840995322192e-9};
constexpr double kUniform7[] = {2.2283734617850953e-4, 1.4728485646902851e-4,  -1.2587495928810899e-4,
                                3.4749626505130556e-5, -4.0731727810774079e-6, -4.1307843488927375e-7,
                                2.7683336284623962e-7, -5.7040643977429021e-8};
constexpr double kUniform8[] = {-7.6405503257578056e-4, 6.4559435763470944e-4, -1.0133672282850856e-4,
                                -1.2884216362855555e-5, 1.0362854560072111e-5, -2.4920053429107538e-6};
constexpr double kUniform9[] = {-3.4488480337797179e-4, -2.9652564064591629e-4, 2.6211953256525170e-4,
                                -7.7796886177439809e-5, 9.3934136545558590e-6};
constexpr double kUniform10[] = {1.5976682215773285e-3, -1.4456843865003180e-3, 2.3367394245106694e-4};
constexpr std::span<const double> kUniform[] = {kUniform0, kUniform1, kUniform2, kUniform3, kUniform4, kUniform5,
                                                kUniform6, kUniform7, kUniform8, kUniform9, kUniform10};
constexpr double kUniformFrom = 20, kLargestDistance = 0.8;

struct Parts {
  Val lower, upper;  // P and Q
};

// u - log(1 + u)
Val excess(const Val& u) {
  const Val small = u * u * chebyshev_series(u * 2.0, kLogarithm);
  return where(le(abs(u), 0.5), small, u - unary(Op::log_plus_one, u));
}

Parts incomplete_gamma(const Val& a, const Val& x) {
  const bool is_double = a.dtype() == DType::f64;
  const Val u = (x - a) / a, exponent = excess(u), decay = exp(-a * exponent);
  const Val root = sqrt(a * (2 * std::numbers::pi));
  // x^a exp(-x) / gamma(a + 1)
  const Val front = where(lt(a, 1), exp(a * log(x) - x - unary(Op::lgamma, a + 1.0)),
                          decay * chebyshev_series(2.0 / a - 1.0, kScaledGamma) / root);

  // The sum over k of x^k / ((a + 1) .. (a + k)).
  Val term = like(a, 1), sum = term;
  for (int k = 1; k < (is_double ? 54 : 33); ++k) {
    term = term * (x / (a + static_cast<double>(k)));
    sum = sum + term;
  }
  const Val series = front * sum;

  // 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ..))
  const Val gap = x - a;
  const int steps = is_double ? 58 : 16;
  Val denominator = gap + (2.0 * steps + 1);
  for (double k = steps; k > 0; --k) denominator = gap + (2 * k - 1) - (k * k - a * k) / denominator;
  const Val fraction = front * a / denominator;

  const Val distance = sqrt(exponent * 2.0), eta = where(lt(u, 0), -distance, distance), inverse = 1.0 / a;
  const double weight = is_double ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  Val expansion;
  for (size_t k = std::size(kUniform); k-- > 0;) {
    if (std::pow(kUniformFrom, -static_cast<double>(k)) * 1e-3 < weight / 16) continue;
    const Val coefficient = chebyshev_series(eta / kLargestDistance, kUniform[k]);
    expansion = expansion.present() ? expansion * inverse + coefficient : coefficient;
  }
  const Val correction = expansion / root, above = ge(u, 0);
  const Val tail = decay * (erfcx(distance * sqrt(a * 0.5)) * 0.5 + where(above, correction, -correction));

  const Val uniform = ge(a, kUniformFrom) & ge(u, -0.5) & le(u, 1);
  const Val right = ge(x, 2) & ge(x, a + 1.0);
  const Val upper_is_known = where(uniform, above, right);
  const Val known = where(uniform, tail, where(right, fraction, series));
  return {where(upper_is_known, 1.0 - known, known), where(upper_is_known, known, 1.0 - known)};
}

// What has no series, in CPU's order: later lines go before earlier ones.
Val with_limits(bool lower, const Val& a, const Val& x) {
  const Parts parts = incomplete_gamma(a, x);
  const Val none = like(a, lower ? 0 : 1), all = like(a, lower ? 1 : 0);
  const Val no_number = like(a, std::numeric_limits<double>::quiet_NaN()), x_infinite = unary(Op::is_inf, x);
  Val y = where(x_infinite, all, lower ? parts.lower : parts.upper);
  y = where(unary(Op::is_inf, a), where(x_infinite, no_number, none), y);
  y = where(eq(x, 0), none, y);
  y = where(eq(a, 0), where(gt(x, 0), all, no_number), y);
  return where(lt(a, 0) | lt(x, 0), no_number, y);
}

}  // namespace

void register_gamma(Registry& registry) {
  for (const bool lower : {true, false}) {
    NEURON_OP(lower ? "aten::igamma" : "aten::igammac", promotes(floating_rule, {"self", "other"}), result(pointwise),
              [lower](Lowering& l) {
                const Val a = l.arg("self"), x = l.arg("other");
                const auto shape = broadcast_shapes(a.shape(), x.shape());
                if (!shape) return l.unsupported("operands that do not broadcast");
                return with_limits(lower, broadcast_to(a, *shape), broadcast_to(x, *shape));
              });
  }
}

}  // namespace neuron::ops
