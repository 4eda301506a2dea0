// max8, find_index8 and GpSimd's routines.
#include <algorithm>

#include "emulator/interpreter/machine.h"
#include "emulator/interpreter/philox.h"
#include "emulator/interpreter/scalar_operations.h"

namespace neuron::emulator {
namespace {

using isa::Opcode;

constexpr uint32_t kAbsent = 0xffffffffu;

template <class T>
bool is_nan(T v) {
  return v != v;
}
template <class T>
bool same(T a, T b) {
  return a == b || (is_nan(a) && is_nan(b));
}
// a comes before b when sorting in descending order: NaN first.
template <class T>
bool greater(T a, T b) {
  return is_nan(a) ? !is_nan(b) : a > b;
}

// The first `count` places are in order; equal elements keep theirs.
template <class T>
std::vector<size_t> descending_order(const std::vector<T>& x, bool ascending, size_t count) {
  std::vector<size_t> order(x.size());
  for (size_t n = 0; n < order.size(); ++n) order[n] = n;
  const auto before = [&](size_t a, size_t b) { return ascending ? greater(x[b], x[a]) : greater(x[a], x[b]); };
  if (count < x.size() / 4) {
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](size_t a, size_t b) { return before(a, b) || (!before(b, a) && a < b); });
  } else {
    std::stable_sort(order.begin(), order.end(), before);
  }
  return order;
}

template <class T>
Status max8(Execution& e) {
  std::vector<T> x;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    const std::vector<size_t> order = descending_order(x, false, e.dst.count);
    for (size_t n = 0; n < e.dst.count; ++n) e.dst.store<T>(p, n, x[order[n]]);
  }
  return {};
}

template <class T>
Status find_index8(Execution& e) {
  std::vector<T> x, wanted;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    e.src1.load_row(p, wanted);
    std::vector<uint32_t> found(wanted.size(), kAbsent);
    for (size_t v = 0; v < wanted.size(); ++v) {
      size_t start = 0;
      for (size_t earlier = 0; earlier < v; ++earlier) {
        if (same(wanted[earlier], wanted[v])) start = found[earlier] == kAbsent ? x.size() : size_t{found[earlier]} + 1;
      }
      for (size_t n = start; n < x.size(); ++n) {
        if (same(x[n], wanted[v])) {
          found[v] = static_cast<uint32_t>(n);
          break;
        }
      }
      e.dst.store<uint64_t>(p, v, found[v]);
    }
  }
  return {};
}

template <class T>
Status top_k(Execution& e) {
  std::vector<T> x;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    const std::vector<size_t> order = descending_order(x, !e.instruction.largest, e.dst.count);
    for (size_t n = 0; n < e.dst.count; ++n) {
      e.dst.store<T>(p, n, x[order[n]]);
      if (e.dst2.present()) e.dst2.store<int64_t>(p, n, static_cast<int64_t>(order[n]));
    }
  }
  return {};
}

Status random_bits(Execution& e) {
  const std::vector<int64_t> offsets = e.pattern_offsets(e.instruction.dst);
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    const uint64_t seed = e.scalar0.value<uint64_t>(p);
    const uint64_t start = e.scalar1.value<uint64_t>(p) + static_cast<uint64_t>(e.pattern_base(p));
    for (size_t n = 0; n < e.dst.count; ++n) {
      const auto words = philox_4x32_10(seed, start + static_cast<uint64_t>(offsets[n]));
      const bool wide = size_of(e.dst.dtype) == 8;
      e.dst.store<uint64_t>(p, n, wide ? words[0] | uint64_t{words[1]} << 32 : words[0]);
    }
  }
  return {};
}

template <class T>
Status scatter_reduce(Execution& e) {
  bool zero = false;
  const size_t row_elements = e.dst.count / e.index.count;
  for (size_t p = 0; p < e.index.partitions; ++p) {
    for (size_t j = 0; j < e.index.count; ++j) {
      bool skip = false;
      int64_t offset = 0;
      NEURON_RETURN_IF_ERROR(indirect_row(e, p, j, &skip, &offset));
      if (skip) continue;
      for (size_t i = j * row_elements; i < (j + 1) * row_elements; ++i) {
        uint8_t* at = nullptr;
        NEURON_RETURN_IF_ERROR(indirect_address(e, e.dst, e.instruction.dst, p, i, offset, &at));
        const T old = load_element<T>(e.dst.dtype, at);
        store_element<T>(e.dst.dtype, at, apply(e.instruction.op0, old, e.src0.load<T>(p, i), &zero));
      }
    }
  }
  return {};
}

}  // namespace

Status execute_routine(Execution& e) {
  if (e.instruction.opcode == Opcode::random_bits) return random_bits(e);
  return with_compute_type(e.instruction.compute, [&]<class T>() -> Status {
    if (e.instruction.opcode == Opcode::scatter_reduce) return scatter_reduce<T>(e);
    if constexpr (!kIsComplex<T>) {
      switch (e.instruction.opcode) {
        case Opcode::max8:
          return max8<T>(e);
        case Opcode::find_index8:
          return find_index8<T>(e);
        default:
          return top_k<T>(e);
      }
    }
    return unsupported(e.where() + " in a complex compute type");
  });
}

}  // namespace neuron::emulator
