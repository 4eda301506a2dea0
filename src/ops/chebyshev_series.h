// Functions given by the coefficients of their Chebyshev polynomials: sum of c[k] T_k(t), t in [-1, 1].
#pragma once

#include <span>

#include "ops/val.h"

namespace neuron::ops {

// As many terms as t's dtype can hold. Outside of [-1, 1] the result means nothing.
Val chebyshev_series(const Val& t, std::span<const double> coefficients);

}  // namespace neuron::ops
