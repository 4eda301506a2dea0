#include "emulator/execution.h"

#include <cmath>
#include <cstring>

#include "emulator/interpreter/elements.h"

namespace neuron::emulator::testing {
namespace {

// NaN payloads are unspecified: compares one real value of `size` bytes.
bool same_real(DType t, const uint8_t* a, const uint8_t* b) {
  if (std::memcmp(a, b, size_of(t)) == 0) return true;
  return is_floating(t) && std::isnan(load_element<double>(t, a)) && std::isnan(load_element<double>(t, b));
}

bool same_element(DType t, const uint8_t* a, const uint8_t* b) {
  if (!is_complex(t)) return same_real(t, a, b);
  const DType part = real_type(t);
  return same_real(part, a, b) && same_real(part, a + size_of(part), b + size_of(part));
}

}  // namespace

Outcome run(Executor& executor, const isa::Program& program, const Buffers& initial, ThreadPool& pool) {
  Outcome outcome;
  outcome.buffers = initial;
  std::vector<TensorView> views(program.tensors.size());
  for (size_t t = 0; t < views.size(); ++t) {
    const isa::Tensor& tensor = program.tensors[t];
    const size_t source = tensor.alias_of >= 0 ? static_cast<size_t>(tensor.alias_of) : t;
    views[t] = {outcome.buffers[source].data(), tensor.bytes};
  }
  Launch launch{views, pool, nullptr, nullptr, {}};
  outcome.status = executor.run(launch);
  outcome.out_of_range = launch.out_of_range;
  return outcome;
}

Buffers initial_buffers(const Generated& generated, uint64_t seed) {
  Buffers buffers;
  for (size_t t = 0; t < generated.program.tensors.size(); ++t) {
    const isa::Tensor& tensor = generated.program.tensors[t];
    if (tensor.role == isa::TensorRole::constant) {
      const auto first = generated.program.constants.begin() + static_cast<ptrdiff_t>(tensor.constant_offset);
      buffers.emplace_back(first, first + static_cast<ptrdiff_t>(tensor.bytes));
    } else {
      buffers.push_back(fill_tensor(generated, t, seed));
    }
  }
  return buffers;
}

std::string difference(const isa::Program& program, const Outcome& expected, const Outcome& actual) {
  if (expected.status.code() != actual.status.code())
    return "status '" + actual.status.message() + "', expected '" + expected.status.message() + "'";
  if (!expected.status.ok()) return "";
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const isa::Tensor& tensor = program.tensors[t];
    if (tensor.role != isa::TensorRole::output) continue;
    const std::vector<uint8_t>&a = expected.buffers[t], &b = actual.buffers[t];
    const size_t size = size_of(tensor.dtype);
    for (size_t n = 0; (n + 1) * size <= a.size(); ++n) {
      if (same_element(tensor.dtype, &a[n * size], &b[n * size])) continue;
      const c128 x = load_element<c128>(tensor.dtype, &a[n * size]), y = load_element<c128>(tensor.dtype, &b[n * size]);
      char text[160];
      std::snprintf(text, sizeof text, "%s element %zu of %zu: %.17g%+.17gi, expected %.17g%+.17gi", tensor.name.c_str(), n,
                    a.size() / size, y.real(), y.imag(), x.real(), x.imag());
      return text;
    }
  }
  return "";
}

}  // namespace neuron::emulator::testing
