#include "emulator/interpreter/elements.h"

namespace neuron::emulator {

void convert_element(DType from, const uint8_t* source, DType to, uint8_t* target) {
  if (from == to) {
    std::memcpy(target, source, size_of(from));
    return;
  }
  // A type that holds the source exactly.
  switch (from) {
    case DType::f64:
      return store_element(to, target, load_element<double>(from, source));
    case DType::c64:
      return store_element(to, target, load_element<c64>(from, source));
    case DType::c128:
      return store_element(to, target, load_element<c128>(from, source));
    case DType::u64:
      return store_element(to, target, load_element<uint64_t>(from, source));
    default:
      if (is_floating(from)) return store_element(to, target, load_element<float>(from, source));
      return store_element(to, target, load_element<int64_t>(from, source));
  }
}

}  // namespace neuron::emulator
