// Data movement, element-wise instructions and reductions, as isa/program.h states them.
#include <algorithm>

#include "emulator/interpreter/machine.h"
#include "emulator/interpreter/scalar_operations.h"

namespace neuron::emulator {
namespace {

using isa::AluOp;
using isa::Opcode;

Status zero_division(const Execution& e) { return invalid_argument(e.where() + ": integer division by zero"); }

}  // namespace

Status indirect_row(Execution& e, size_t p, size_t j, bool* skip, int64_t* offset) {
  const int64_t index = e.index.load<int64_t>(p, j);
  *skip = false;
  if (index < 0 || index >= e.instruction.index_bound) {
    if (e.instruction.oob == isa::OobMode::skip) {
      *skip = true;
      return {};
    }
    e.launch.out_of_range = {e.label(), index, e.instruction.index_bound};
    return out_of_range(e.where() + ": index " + std::to_string(index) + " is out of range, valid are 0 <= index < " +
                        std::to_string(e.instruction.index_bound));
  }
  *offset = index * e.instruction.index_stride;
  return {};
}

Status indirect_address(const Execution& e, const Operand& hbm, const isa::Access& access, size_t p, size_t i,
                        int64_t offset, uint8_t** out) {
  const TensorView& view = e.launch.tensors[access.object];
  *out = hbm.at(p, i) + offset;
  const int64_t start = *out - view.data;
  if (start < 0 || start + static_cast<int64_t>(size_of(hbm.dtype)) > static_cast<int64_t>(view.bytes))
    return internal_error(e.where() + ": indirect access leaves the tensor");
  return {};
}

Status execute_dma_copy(Execution& e) {
  if (!e.index.present()) {
    const size_t total = e.dst.partitions * e.dst.count;
    for (size_t f = 0; f < total; ++f) {  // both sides in pattern order: equal per partition unless both are HBM
      convert_element(e.src0.dtype, e.src0.at(f / e.src0.count, f % e.src0.count), e.dst.dtype,
                      e.dst.at(f / e.dst.count, f % e.dst.count));
    }
    return {};
  }
  const bool gather = e.instruction.src0.space == isa::Space::hbm;
  const Operand& hbm = gather ? e.src0 : e.dst;
  const isa::Access& hbm_access = gather ? e.instruction.src0 : e.instruction.dst;
  const size_t row_elements = hbm.count / e.index.count;
  for (size_t p = 0; p < e.index.partitions; ++p) {
    for (size_t j = 0; j < e.index.count; ++j) {
      bool skip = false;
      int64_t offset = 0;
      NEURON_RETURN_IF_ERROR(indirect_row(e, p, j, &skip, &offset));
      if (skip) continue;
      for (size_t i = j * row_elements; i < (j + 1) * row_elements; ++i) {
        uint8_t* at = nullptr;
        NEURON_RETURN_IF_ERROR(indirect_address(e, hbm, hbm_access, p, i, offset, &at));
        if (gather)
          convert_element(hbm.dtype, at, e.dst.dtype, e.dst.at(p, i));
        else
          convert_element(e.src0.dtype, e.src0.at(p, i), hbm.dtype, at);
      }
    }
  }
  return {};
}

Status execute_transpose(Execution& e) {
  for (size_t p = 0; p < e.src0.partitions; ++p) {
    for (size_t i = 0; i < e.src0.count; ++i) convert_element(e.src0.dtype, e.src0.at(p, i), e.dst.dtype, e.dst.at(i, p));
  }
  return {};
}

namespace {

template <class T>
T combine(AluOp op, bool reverse, T x, T scalar, bool* zero) {
  return reverse ? apply(op, scalar, x, zero) : apply(op, x, scalar, zero);
}

// (x op0 s0) op1 s1 with the fused multiply-add rule. `subtract_fuses`: tensor_scalar only.
template <class T>
T two_operations(const isa::Instruction& i, T x, T s0, T s1, bool subtract_fuses, bool* zero) {
  if constexpr (kIsFloating<T>) {
    if (i.op0 == AluOp::multiply && !i.reverse0 && !i.reverse1) {
      if (i.op1 == AluOp::add) return std::fma(x, s0, s1);
      if (i.op1 == AluOp::subtract && subtract_fuses) return std::fma(x, s0, -s1);
    }
  }
  const T first = i.op0 == AluOp::bypass ? x : combine(i.op0, i.reverse0, x, s0, zero);
  return i.op1 == AluOp::bypass ? first : combine(i.op1, i.reverse1, first, s1, zero);
}

template <class T>
Status tensor_operations(Execution& e) {
  const isa::Instruction& i = e.instruction;
  std::vector<T> x, y, out;
  bool zero = false;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    if (e.src1.present()) e.src1.load_row(p, y);
    const T s0 = e.scalar0.value<T>(p), s1 = e.scalar1.value<T>(p);
    out.resize(x.size());
    for (size_t n = 0; n < x.size(); ++n) {
      switch (i.opcode) {
        case Opcode::tensor_tensor:
          out[n] = apply(i.op0, x[n], y[n], &zero);
          break;
        case Opcode::tensor_scalar:
          out[n] = two_operations(i, x[n], s0, s1, true, &zero);
          break;
        case Opcode::scalar_tensor_tensor:
          out[n] = two_operations(i, x[n], s0, y[n], false, &zero);
          break;
        default:
          out[n] = apply(AluOp::divide, T(1), x[n], &zero);
          break;  // reciprocal
      }
    }
    e.dst.store_row(p, out);
  }
  return zero ? zero_division(e) : Status();
}

template <class T>
Status activation(Execution& e) {
  std::vector<T> x;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    const bool affine = e.scalar0.present() || e.scalar1.present();
    const T scale = e.scalar0.present() ? e.scalar0.value<T>(p) : T(1);
    const T bias = e.scalar1.present() ? e.scalar1.value<T>(p) : T(0);
    for (T& v : x) v = apply_function(e.instruction.func, affine ? multiply_add(v, scale, bias) : v);
    e.dst.store_row(p, x);
    if (e.dst2.present()) e.dst2.store<T>(p, 0, reduce_in_lanes(AluOp::add, x.data(), x.size()));
  }
  return {};
}

template <class T>
Status select(Execution& e) {
  std::vector<T> out(e.dst.count);
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    for (size_t n = 0; n < out.size(); ++n) {
      const bool first = e.src2.dtype == DType::c64 || e.src2.dtype == DType::c128 ? e.src2.load<c128>(p, n) != c128(0, 0)
                         : is_floating(e.src2.dtype)                               ? e.src2.load<double>(p, n) != 0
                                                                                   : e.src2.load<int64_t>(p, n) != 0;
      const Operand& source = first ? e.src0 : e.src1;
      out[n] = source.present() ? source.load<T>(p, n) : (first ? e.scalar0 : e.scalar1).value<T>(p);
    }
    e.dst.store_row(p, out);
  }
  return {};
}

template <class T>
Status fill(Execution& e) {
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    for (size_t n = 0; n < e.dst.count; ++n) e.dst.store<T>(p, n, e.scalar0.value<T>(p));
  }
  return {};
}

Status copy(Execution& e) {
  const size_t size = size_of(e.src0.dtype);
  std::vector<uint8_t> row(e.src0.count * size);
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    for (size_t n = 0; n < e.src0.count; ++n) std::memcpy(&row[n * size], e.src0.at(p, n), size);
    for (size_t n = 0; n < e.dst.count; ++n) convert_element(e.src0.dtype, &row[n * size], e.dst.dtype, e.dst.at(p, n));
  }
  return {};
}

Status iota(Execution& e) {
  const std::vector<int64_t> offsets = e.pattern_offsets(e.instruction.dst);
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    const uint64_t base = static_cast<uint64_t>(e.pattern_base(p));
    for (size_t n = 0; n < e.dst.count; ++n)
      e.dst.store<int64_t>(p, n, static_cast<int64_t>(base + static_cast<uint64_t>(offsets[n])));
  }
  return {};
}

template <class T>
Status tensor_reduce(Execution& e) {
  size_t inner = 1;
  const isa::Access& source = e.instruction.src0;
  for (int d = source.rank - e.instruction.reduce_dims; d < source.rank; ++d) inner *= source.dims[d].count;
  std::vector<T> x;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    for (size_t o = 0; o < e.dst.count; ++o)
      e.dst.store<T>(p, o, reduce_in_lanes(e.instruction.op0, x.data() + o * inner, inner));
  }
  return {};
}

template <class T>
Status partition_reduce(Execution& e) {
  bool ignored = false;
  std::vector<T> running, x;
  e.src0.load_row(0, running);
  for (size_t p = 1; p < e.src0.partitions; ++p) {
    e.src0.load_row(p, x);
    for (size_t n = 0; n < x.size(); ++n) running[n] = apply(e.instruction.op0, running[n], x[n], &ignored);
  }
  e.dst.store_row(0, running);
  return {};
}

template <class T>
Status scan(Execution& e) {
  const isa::Instruction& i = e.instruction;
  const size_t length = i.src0.rank ? i.src0.dims[i.src0.rank - 1].count : 1;
  bool zero = false;
  std::vector<T> x, y;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    if (e.src1.present()) e.src1.load_row(p, y);
    T running{};
    for (size_t n = 0; n < x.size(); ++n) {
      if (n % length == 0) running = e.scalar0.value<T>(p);
      running = apply(i.op0, x[n], running, &zero);
      if (e.src1.present() && i.op1 != AluOp::bypass) running = apply(i.op1, running, y[n], &zero);
      x[n] = running;
    }
    e.dst.store_row(p, x);
  }
  return zero ? zero_division(e) : Status();
}

// count, mean, count*variance of `x`, summed in lane order.
void statistics(const std::vector<float>& x, float out[3]) {
  const float count = static_cast<float>(x.size());
  out[0] = count;
  out[1] = out[2] = 0;
  if (x.empty()) return;
  out[1] = reduce_in_lanes(AluOp::add, x.data(), x.size()) / count;
  std::vector<float> squares(x.size());
  for (size_t n = 0; n < x.size(); ++n) {
    const float d = x[n] - out[1];
    squares[n] = d * d;
  }
  out[2] = reduce_in_lanes(AluOp::add, squares.data(), squares.size());
}

Status bn_stats(Execution& e) {
  std::vector<float> x;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    std::vector<float> parts[2];
    for (size_t n = 0; n < x.size(); ++n) parts[n % 2].push_back(x[n]);
    float out[6];
    statistics(parts[0], out);
    statistics(parts[1], out + 3);
    for (size_t n = 0; n < 6; ++n) e.dst.store<float>(p, n, out[n]);
  }
  return {};
}

Status bn_aggr(Execution& e) {
  std::vector<float> x;
  for (size_t p = 0; p < e.dst.partitions; ++p) {
    e.src0.load_row(p, x);
    float count = 0, mean = 0, squares = 0;
    for (size_t t = 0; t + 2 < x.size(); t += 3) {
      const float nb = x[t], mb = x[t + 1], squares_b = x[t + 2];
      if (nb == 0) continue;
      const float total = count + nb, delta = mb - mean;
      mean = mean + delta * (nb / total);
      squares = (squares + squares_b) + (delta * delta) * ((count * nb) / total);
      count = total;
    }
    e.dst.store<float>(p, 0, mean);
    e.dst.store<float>(p, 1, count == 0 ? 0.0f : squares / count);
  }
  return {};
}

}  // namespace

Status execute_elementwise(Execution& e) {
  switch (e.instruction.opcode) {
    case Opcode::tensor_copy:
      return copy(e);
    case Opcode::iota:
      return iota(e);
    default:
      break;
  }
  return with_compute_type(e.instruction.compute, [&]<class T>() -> Status {
    switch (e.instruction.opcode) {
      case Opcode::memset:
        return fill<T>(e);
      case Opcode::activation:
        return activation<T>(e);
      case Opcode::select:
        return select<T>(e);
      default:
        return tensor_operations<T>(e);
    }
  });
}

Status execute_reduction(Execution& e) {
  switch (e.instruction.opcode) {
    case Opcode::bn_stats:
      return bn_stats(e);
    case Opcode::bn_aggr:
      return bn_aggr(e);
    default:
      break;
  }
  return with_compute_type(e.instruction.compute, [&]<class T>() -> Status {
    switch (e.instruction.opcode) {
      case Opcode::tensor_reduce:
        return tensor_reduce<T>(e);
      case Opcode::tensor_partition_reduce:
        return partition_reduce<T>(e);
      default:
        return scan<T>(e);
    }
  });
}

}  // namespace neuron::emulator
