// nc_matmul: the two orders of isa/numerics.h, one output element at a time.
#include <xmmintrin.h>

#include "emulator/interpreter/machine.h"
#include "emulator/interpreter/scalar_operations.h"
#include "isa/numerics.h"

namespace neuron::emulator {
namespace {

// Denormal operands and results of f32 arithmetic are zero while this lives.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushDenormals() { _mm_setcsr(saved_); }

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  const unsigned saved_;
};

bool is_matrix_unit_type(DType t) { return t == DType::bf16 || t == DType::f8e4m3fn || t == DType::f8e5m2; }

// Columns of src as contiguous vectors over k: at [column * K + k].
template <class T>
std::vector<T> by_column(const Operand& source) {
  std::vector<T> out(source.partitions * source.count);
  for (size_t k = 0; k < source.partitions; ++k) {
    for (size_t c = 0; c < source.count; ++c) out[c * source.partitions + k] = source.load<T>(k, c);
  }
  return out;
}

template <class T>
T chain(const T* a, const T* b, size_t depth, T sum) {
  for (size_t k = 0; k < depth; ++k) sum = multiply_add(a[k], b[k], sum);
  return sum;
}

// Per block of 32 k's an even and an odd chain from zero, their sum added to c.
float matrix_unit(const float* a, const float* b, size_t depth, float c) {
  for (size_t block = 0; block < depth; block += isa::kMatrixUnitBlock) {
    float even = 0, odd = 0;
    for (size_t k = block; k < block + isa::kMatrixUnitBlock; k += 2) {
      even = std::fma(k < depth ? a[k] : 0.0f, k < depth ? b[k] : 0.0f, even);
      odd = std::fma(k + 1 < depth ? a[k + 1] : 0.0f, k + 1 < depth ? b[k + 1] : 0.0f, odd);
    }
    c = c + (even + odd);
  }
  return c;
}

template <class T>
void matmul(Execution& e, bool matrix_unit_order) {
  const std::vector<T> a = by_column<T>(e.src0), b = by_column<T>(e.src1);
  const size_t depth = e.src0.partitions;
  const bool accumulates = e.accumulates();
  for (size_t m = 0; m < e.dst.partitions; ++m) {
    for (size_t n = 0; n < e.dst.count; ++n) {
      const T start = accumulates ? e.dst.load<T>(m, n) : T{};
      if constexpr (std::is_same_v<T, float>) {
        if (matrix_unit_order) {
          e.dst.store<T>(m, n, matrix_unit(&a[m * depth], &b[n * depth], depth, start));
          continue;
        }
      }
      e.dst.store<T>(m, n, chain(&a[m * depth], &b[n * depth], depth, start));
    }
  }
}

}  // namespace

Status execute_matmul(Execution& e) {
  if (e.src0.partitions != e.src1.partitions || e.dst.partitions != e.src0.count || e.dst.count != e.src1.count)
    return internal_error(e.where() + ": operand shapes do not match");
  if (e.instruction.compute == DType::f32) {
    if (is_matrix_unit_type(e.src0.dtype) && is_matrix_unit_type(e.src1.dtype)) {
      FlushDenormals flush;
      matmul<float>(e, true);
    } else {
      matmul<float>(e, false);
    }
    return {};
  }
  return with_compute_type(e.instruction.compute, [&]<class T>() -> Status {
    if constexpr (!std::is_same_v<T, float>) matmul<T>(e, false);
    return {};
  });
}

}  // namespace neuron::emulator
