// Relatives of the error function: the scaled erfcx, the logarithm and the inverse of the normal distribution. The
// coefficients were computed from the functions with 45 digits.
//
// Not supported: nothing that PyTorch has on CPU.
#include "ops/normal_distribution.h"

#include <numbers>

#include "ops/chebyshev_series.h"
#include "ops/registry.h"

namespace neuron::ops {
namespace {

using ir::Op;

// (1 + 2 x) exp(x^2) erfc(x) for x >= 0, t = (x - 3.75) / (x + 3.75).
constexpr double kErfcx[] = {
    1.1775789345674018,     -4.5900545806464773e-3,  -8.4249133366517916e-2,  5.9209939998191890e-2,
    -2.6658668435305752e-2, 9.0749976707052651e-3,   -2.4131635404176082e-3,  4.9077583652580863e-4,
    -6.9169733025012064e-5, 4.1390279860730102e-6,   7.7403830661984907e-7,   -2.1886401049234396e-7,
    1.0764999465670910e-8,  4.5219598112182869e-9,   -7.7544002088313511e-10, -6.3180883408866845e-11,
    2.8687950109306699e-11, 1.9455868545777347e-13,  -9.6546967484334389e-13, 3.2525481481487398e-14,
    3.3478119482868053e-14, -1.8645628804193136e-15, -1.2507950530688651e-15, 7.4182352566240108e-17,
    5.0681489047960875e-17, -2.2370566594361491e-18, -2.1873429443030775e-18};
// The quantile of p: quantile / y in y = p - 1 / 2, t = 2 y^2 / 0.135 - 1. In the lower tail it is -(r - (log(r) + f) / r)
// with r = sqrt(-2 log(p)); f for r in [2, 8] and in [8, 64], linear in 1 / r.
constexpr double kQuantileMiddle[] = {
    2.7424358190979978,     2.5953371493841321e-1,  2.6737053582426746e-2,  3.4375899176995188e-3,  4.9119803938692461e-4,
    7.4656206576146933e-5,  1.1815146486628031e-5,  1.9239795334036873e-6,  3.2000949918880070e-7,  5.4103594437178033e-8,
    9.2668831274490051e-9,  1.6041111852950354e-9,  2.8012075430927250e-10, 4.9279590533915575e-11, 8.7243182263959000e-12,
    1.5529784386373889e-12, 2.7775821155441665e-13, 4.9887084102838739e-14, 8.9933850863806204e-15, 1.6266691756320436e-15,
    2.9510032957463305e-16, 5.3679594962924252e-17, 9.7883578811164854e-18};
constexpr double kQuantileTail[] = {
    1.0323738340148971,     7.2554648374482640e-2,   -1.0442766591353358e-3, -1.1057060922319903e-4,
    5.2649144423010382e-5,  -1.6126373143885155e-5,  4.2407481768043199e-6,  -1.0351419174289970e-6,
    2.4648258665580152e-7,  -5.9182357415732588e-8,  1.4585713938895267e-8,  -3.7066472356991291e-9,
    9.6796656844592411e-10, -2.5822724711374293e-10, 7.0020800332117665e-11, -1.9237114577462761e-11,
    5.3451947625850660e-12, -1.5005386530215093e-12, 4.2525805368601178e-13, -1.2157759092208811e-13,
    3.5036106537661562e-14, -1.0169776280334681e-14, 2.9712387491616966e-15, -8.7322867531120150e-16,
    2.5802053530051285e-16, -7.6616331124805088e-17, 2.2853938553279491e-17, -6.8458289802218784e-18,
    2.0586630023197680e-18};
constexpr double kQuantileFarTail[] = {
    9.3895353640905763e-1,  1.9192291300456494e-2,   1.0174574218843109e-3,  -2.4555788025160480e-4,
    5.1646036389628285e-5,  -1.1949389704508224e-5,  3.1216046195177762e-6,  -9.0016730402914520e-7,
    2.7936975218892233e-7,  -9.1648197334537493e-8,  3.1390685760183144e-8,  -1.1127947291038884e-8,
    4.0569078394749490e-9,  -1.5137895873223438e-9,  5.7601761387321070e-10, -2.2287524643942096e-10,
    8.7488891023176455e-11, -3.4778222557681528e-11, 1.3978731148683609e-11, -5.6739846705031282e-12,
    2.3233279767296498e-12, -9.5884129698573830e-13, 3.9853375139219621e-13, -1.6671704188672674e-13,
    7.0152578502721008e-14, -2.9678350853981749e-14, 1.2617650131842092e-14, -5.3888010927038081e-15,
    2.3111709228305453e-15, -9.9509758802549285e-16, 4.3000583851529261e-16, -1.8644532951577687e-16,
    8.1096294589740480e-17, -3.5378210761233505e-17, 1.5476654603199096e-17, -6.7881709186699175e-18,
    2.9846762166622551e-18, -1.3153772470854937e-18};

// exp(x^2) for |x| < 28. The square of a short number is exact; the rest is small.
Val exp_of_square(const Val& x) {
  const Val coarse = unary(Op::round_nearest_even, x * 32.0) / 32.0;
  return exp(coarse * coarse) * exp((x - coarse) * (x + coarse));
}

}  // namespace

Val erfcx(const Val& x) {
  constexpr double kCenter = 3.75;
  const Val a = abs(x);
  const Val right = chebyshev_series(1.0 - 2 * kCenter / (a + kCenter), kErfcx) / (1.0 + 2.0 * a);
  const Val left = where(lt(x, -27), infinity_like(x), 2.0 * exp_of_square(x) - right);
  return where(lt(x, 0), left, right);
}

namespace {

Val log_ndtr(const Val& x) {
  const Val scaled = x * (1 / std::numbers::sqrt2);
  const Val left = log(erfcx(-scaled) * 0.5) - scaled * scaled;
  return where(lt(x, -1), left, unary(Op::log_plus_one, unary(Op::erfc, scaled) * -0.5));
}

Val ndtri(const Val& p) {
  constexpr double kTail = 0.13533528323661269;  // exp(-2)
  constexpr double kMiddle = 0.135;              // the largest y^2
  const Val upper = gt(p, 1 - kTail), q = where(upper, 1.0 - p, p), y = p - 0.5;
  const Val middle = y * chebyshev_series(y * y * (2 / kMiddle) - 1.0, kQuantileMiddle);
  const Val r = sqrt(log(q) * -2.0), w = 1.0 / r;
  const auto between = [&](double low, double high) { return (w * 2.0 - (low + high)) / (high - low); };
  const Val rest = where(lt(r, 8), chebyshev_series(between(1.0 / 8, 1.0 / 2), kQuantileTail),
                         chebyshev_series(between(1.0 / 64, 1.0 / 8), kQuantileFarTail));
  const Val distance = where(eq(q, 0), infinity_like(q), r - (log(r) + rest) * w);
  return where(upper, distance, where(ge(p, kTail), middle, -distance));
}

}  // namespace

void register_normal_distribution(Registry& registry) {
  const auto add = [&](const char* name, Val (*function)(const Val&)) {
    NEURON_OP(name, promotes(real_float_rule), result(pointwise),
              [function](Lowering& l) { return function(l.arg("self")); });
  };
  add("aten::special_erfcx", erfcx);
  add("aten::special_log_ndtr", log_ndtr);
  add("aten::special_ndtri", ndtri);
}

}  // namespace neuron::ops
