// Contents of a generated program's tensors.
#include <algorithm>
#include <cmath>

#include "emulator/interpreter/elements.h"
#include "emulator/program_generator.h"

namespace neuron::emulator::testing {
namespace {

double random_real(Random& r, Fill fill) {
  const double unit = static_cast<double>(r.next() >> 11) / 9007199254740992.0;  // [0, 1)
  if (fill == Fill::nonzero) return (r.chance(2) ? 1 : -1) * (0.25 + 4 * unit);
  if (fill == Fill::moderate) return 8 * unit - 4;
  switch (r.below(24)) {
    case 0:
      return 0.0;
    case 1:
      return -0.0;
    case 2:
      return std::nan("");
    case 3:
      return r.chance(2) ? INFINITY : -INFINITY;
    case 4:
      return (r.chance(2) ? 1e-41 : -1e-41) * unit;
    case 5:
      return (unit - 0.5) * 1e38;
    case 6:
      return (unit - 0.5) * 1e6;
    case 7:
      return std::floor(10 * unit);
    default:
      return 8 * unit - 4;
  }
}

int64_t random_integer(Random& r, Fill fill, int64_t bound, uint64_t position) {
  switch (fill) {
    case Fill::shift:
      return static_cast<int64_t>(r.below(70)) - 3;
    case Fill::index:
      return static_cast<int64_t>(r.below(static_cast<uint64_t>(std::max<int64_t>(1, bound))));
    case Fill::unique:
      return static_cast<int64_t>((position * 7919 + 11) % static_cast<uint64_t>(std::max<int64_t>(1, bound)));
    case Fill::nonzero:
      return 1 + static_cast<int64_t>(r.below(100));
    case Fill::moderate:
      return static_cast<int64_t>(r.below(41)) - 20;
    default:
      return r.chance(4) ? static_cast<int64_t>(r.next()) : static_cast<int64_t>(r.below(41)) - 20;
  }
}

}  // namespace

std::vector<uint8_t> fill_tensor(const Generated& generated, size_t index, uint64_t seed) {
  const isa::Tensor& tensor = generated.program.tensors[index];
  Random r(seed * 31 + index);
  std::vector<uint8_t> bytes(tensor.bytes);
  const size_t size = size_of(tensor.dtype);
  const Fill fill = generated.fills[index];
  for (size_t n = 0; (n + 1) * size <= bytes.size(); ++n) {
    uint8_t* at = &bytes[n * size];
    if (is_complex(tensor.dtype))
      store_element(tensor.dtype, at, c128(random_real(r, fill), random_real(r, fill)));
    else if (is_floating(tensor.dtype))
      store_element(tensor.dtype, at, random_real(r, fill));
    else if (tensor.dtype == DType::boolean)
      *at = static_cast<uint8_t>(fill == Fill::nonzero ? 1 : r.chance(8) ? r.below(256) : r.below(2));
    else
      store_element(tensor.dtype, at, random_integer(r, fill, generated.fill_bounds[index], n));
  }
  return bytes;
}

}  // namespace neuron::emulator::testing
