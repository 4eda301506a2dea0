#include "ops/chebyshev_series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace neuron::ops {

Val chebyshev_series(const Val& t, std::span<const double> coefficients) {
  const double epsilon =
      t.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  double largest = 0;
  for (const double c : coefficients) largest = std::max(largest, std::abs(c));
  size_t count = coefficients.size();
  while (count > 2 && std::abs(coefficients[count - 1]) < largest * epsilon / 16) --count;
  // Clenshaw's recurrence, whose rounding does not grow with the number of terms.
  const Val twice = t * 2.0;
  Val above = like(t, 0), here = like(t, coefficients[count - 1]);
  for (size_t k = count - 1; k-- > 1;) {
    const Val next = twice * here - above + coefficients[k];
    above = here;
    here = next;
  }
  return t * here - above + coefficients[0];
}

}  // namespace neuron::ops
