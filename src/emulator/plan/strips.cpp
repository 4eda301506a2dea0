#include "emulator/plan/strips.h"

#include "emulator/interpreter/elements.h"
#include "emulator/kernels/kernel_table.h"

namespace neuron::emulator::plan {
namespace {

template <class T, DType from>
void load_loop(void* out, const void* in, size_t n) {
  T* o = static_cast<T*>(out);
  const uint8_t* p = static_cast<const uint8_t*>(in);
  const size_t size = size_of(from);
  for (size_t i = 0; i < n; ++i) o[i] = load_element<T>(from, p + i * size);
}
template <class T, DType to>
void store_loop(void* out, const void* in, size_t n) {
  const T* p = static_cast<const T*>(in);
  uint8_t* o = static_cast<uint8_t*>(out);
  const size_t size = size_of(to);
  for (size_t i = 0; i < n; ++i) store_element<T>(to, o + i * size, p[i]);
}

// clang-format off
#define NEURON_DTYPES(X)                                                                                              \
  X(boolean) X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64) X(f8e4m3fn) X(f8e5m2) X(f16) X(bf16) X(f32) X(f64) \
  X(c64) X(c128)

template <class T>
Load load_of(DType t) {
  switch (t) {
#define NEURON_CASE(x) \
  case DType::x: return load_loop<T, DType::x>;
    NEURON_DTYPES(NEURON_CASE)
#undef NEURON_CASE
  }
  return nullptr;
}
template <class T>
Store store_of(DType t) {
  switch (t) {
#define NEURON_CASE(x) \
  case DType::x: return store_loop<T, DType::x>;
    NEURON_DTYPES(NEURON_CASE)
#undef NEURON_CASE
  }
  return nullptr;
}
#undef NEURON_DTYPES
// clang-format on

// move(width) with the width of an element as a constant, so that its copies become single moves.
template <class Move>
void by_width(size_t size, Move move) {
  switch (size) {
    case 1:
      return move(std::integral_constant<size_t, 1>{});
    case 2:
      return move(std::integral_constant<size_t, 2>{});
    case 4:
      return move(std::integral_constant<size_t, 4>{});
    case 8:
      return move(std::integral_constant<size_t, 8>{});
    default:
      return move(std::integral_constant<size_t, 16>{});
  }
}
// n elements of `size` bytes, `stride` bytes apart, to contiguous.
void collect(uint8_t* out, const uint8_t* in, int64_t stride, size_t size, size_t n) {
  by_width(size, [=](auto width) {
    for (size_t i = 0; i < n; ++i) std::memcpy(out + width * i, in + static_cast<int64_t>(i) * stride, width);
  });
}
void spread(uint8_t* out, int64_t stride, const uint8_t* in, size_t size, size_t n) {
  by_width(size, [=](auto width) {
    for (size_t i = 0; i < n; ++i) std::memcpy(out + static_cast<int64_t>(i) * stride, in + width * i, width);
  });
}

void fill(uint8_t* out, size_t size, size_t n) {  // copies of the first
  for (size_t i = 1; i < n; ++i) std::memcpy(out + i * size, out, size);
}

}  // namespace

template <>
Load loader<float>(DType t) {
  const LoadKernel k = kernels().load[static_cast<int>(t)];
  return k ? reinterpret_cast<Load>(k) : load_of<float>(t);
}
template <>
Store storer<float>(DType t) {
  const StoreKernel k = kernels().store[static_cast<int>(t)];
  return k ? reinterpret_cast<Store>(k) : store_of<float>(t);
}
#define NEURON_CONVERSIONS(T) \
  template <>                 \
  Load loader<T>(DType t) {   \
    return load_of<T>(t);     \
  }                           \
  template <>                 \
  Store storer<T>(DType t) {  \
    return store_of<T>(t);    \
  }
NEURON_CONVERSIONS(double)
NEURON_CONVERSIONS(int64_t)
NEURON_CONVERSIONS(uint64_t)
NEURON_CONVERSIONS(c64)
NEURON_CONVERSIONS(c128)
#undef NEURON_CONVERSIONS

// How the elements of dims `from` and inwards of one operand lie.
Lie Strips::lie_of(int operand, int from) const {
  const auto size = static_cast<int64_t>(size_of(operands[operand].dtype));
  bool uniform = true, dense = true;
  int64_t expected = size;
  for (int d = space.rank - 1; d >= from; --d) {
    if (space.counts[d] == 1 && d > from) continue;
    uniform = uniform && space.strides[operand][d] == 0;
    dense = dense && space.strides[operand][d] == expected;
    expected *= space.counts[d];
  }
  return uniform ? Lie::uniform : dense ? Lie::dense : Lie::nested;
}

void Strips::prepare(DType compute, bool by_rows) {
  split = space.rank - 1;
  inner = 1;
  while (split > 0 && uint64_t{inner} * space.counts[split] <= kStrip) inner *= space.counts[split--];
  piece = std::max<uint32_t>(1, kStrip / inner);
  if (split == space.rank - 1 && piece > 1) piece = kStrip;
  // A value per row against long rows, or rows with gaps between them: a row at a time, so that the value stays uniform and
  // the rows are used in place.
  const auto nested = [&](int from) {
    for (int o = 0; o < space.operands; ++o) {
      if (lie_of(o, from) == Lie::nested) return true;
    }
    return false;
  };
  int from = split;
  if (by_rows && inner >= 64 && split + 1 < space.rank && nested(split) && !nested(split + 1)) {
    piece = 1;
    from = split + 1;
  }
  for (int o = 0; o < space.operands; ++o) {
    StripOperand& operand = operands[o];
    operand.size = static_cast<uint8_t>(size_of(operand.dtype));
    operand.lie = lie_of(o, from);
    operand.same = operand.dtype == compute;
    operand.direct = operand.lie == Lie::dense && operand.dtype == compute;
  }
}

void gather(const Strips& s, int operand, int dim, uint32_t count, const uint8_t* at, uint8_t* out, size_t out_size) {
  const Space& space = s.space;
  const StripOperand& info = s.operands[operand];
  const int64_t stride = space.strides[operand][dim];
  if (dim + 1 < space.rank) {
    const uint64_t rest = space.elements(dim + 1);
    for (uint32_t i = 0; i < count; ++i)
      gather(s, operand, dim + 1, space.counts[dim + 1], at + static_cast<int64_t>(i) * stride, out + i * rest * out_size,
             out_size);
    return;
  }
  if (stride == info.size) {
    info.load(out, at, count);
  } else if (stride == 0) {
    info.load(out, at, 1);
    fill(out, out_size, count);
  } else {
    alignas(64) uint8_t raw[128 * 16];
    for (uint32_t i = 0; i < count; i += 128) {
      const uint32_t n = count - i < 128 ? count - i : 128;
      collect(raw, at + static_cast<int64_t>(i) * stride, stride, info.size, n);
      info.load(out + i * out_size, raw, n);
    }
  }
}

void scatter(const Strips& s, int operand, int dim, uint32_t count, uint8_t* at, const uint8_t* in, size_t in_size) {
  const Space& space = s.space;
  const StripOperand& info = s.operands[operand];
  const int64_t stride = space.strides[operand][dim];
  if (dim + 1 < space.rank) {
    const uint64_t rest = space.elements(dim + 1);
    for (uint32_t i = 0; i < count; ++i)
      scatter(s, operand, dim + 1, space.counts[dim + 1], at + static_cast<int64_t>(i) * stride, in + i * rest * in_size,
              in_size);
    return;
  }
  if (stride == info.size) {
    info.store(at, in, count);
  } else {
    alignas(64) uint8_t raw[128 * 16];
    for (uint32_t i = 0; i < count; i += 128) {
      const uint32_t n = count - i < 128 ? count - i : 128;
      info.store(raw, in + i * in_size, n);
      spread(at + static_cast<int64_t>(i) * stride, stride, raw, info.size, n);
    }
  }
}

}  // namespace neuron::emulator::plan
