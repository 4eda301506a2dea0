// Reductions along the free dims, over partitions, scans and batch statistics.
#include <algorithm>

#include "emulator/interpreter/scalar_operations.h"
#include "emulator/kernels/kernel_table.h"
#include "emulator/plan/strips.h"

namespace neuron::emulator::plan {
namespace {

using isa::AluOp;
using isa::Instruction;
using isa::Opcode;

template <class T>
struct Lanes {
  alignas(64) T v[16];
};

LaneKernel lane_kernel(AluOp op) {
  switch (op) {
    case AluOp::add:
      return kernels().lanes_add;
    case AluOp::multiply:
      return kernels().lanes_multiply;
    case AluOp::maximum:
      return kernels().lanes_maximum;
    case AluOp::minimum:
      return kernels().lanes_minimum;
    default:
      return nullptr;
  }
}

// running lanes = op(lane, x[i]) where x[0] is element `position` of the row.
template <class T>
void accumulate(AluOp op, T* lanes, const T* x, size_t n, size_t position) {
  if constexpr (std::is_same_v<T, float>) {
    if (position % 16 == 0) {
      if (const LaneKernel k = lane_kernel(op)) return k(lanes, x, n);
    }
  }
  bool ignored = false;
  size_t l = position % 16;
  const auto loop = [&](auto f) {
    for (size_t i = 0; i < n; ++i, l = (l + 1) % 16) lanes[l] = f(lanes[l], x[i]);
  };
  if (op == AluOp::add) return loop([&](T a, T b) { return apply<T>(AluOp::add, a, b, &ignored); });
  if constexpr (!kIsComplex<T>) {
    if (op == AluOp::maximum) return loop([&](T a, T b) { return apply<T>(AluOp::maximum, a, b, &ignored); });
    if (op == AluOp::minimum) return loop([&](T a, T b) { return apply<T>(AluOp::minimum, a, b, &ignored); });
  }
  loop([&](T a, T b) { return apply<T>(op, a, b, &ignored); });
}

template <class T>
T tree(AluOp op, T* lanes) {
  bool ignored = false;
  for (int d = 8; d > 0; d /= 2)
    for (int l = 0; l < d; ++l) lanes[l] = apply<T>(op, lanes[l], lanes[l + d], &ignored);
  return lanes[0];
}
template <>
float tree<float>(AluOp op, float* s) {
  const auto run = [s](auto f) {
    // Distances written out, so that the compiler sees vectors.
    for (int l = 0; l < 8; ++l) s[l] = f(s[l], s[l + 8]);
    for (int l = 0; l < 4; ++l) s[l] = f(s[l], s[l + 4]);
    s[0] = f(s[0], s[2]);
    s[1] = f(s[1], s[3]);
    return f(s[0], s[1]);
  };
  switch (op) {
    case AluOp::add:
      return run([](float a, float b) { return a + b; });
    case AluOp::maximum:
      return run([](float a, float b) { return a > b || a != a ? a : b; });
    case AluOp::minimum:
      return run([](float a, float b) { return a < b || a != a ? a : b; });
    default: {
      bool ignored = false;
      return run([&](float a, float b) { return apply<float>(op, a, b, &ignored); });
    }
  }
}

// The reduced dims of one output element: strips of a Space of one operand.
template <class T>
class ReduceNode final : public Node {
 public:
  Ref dst, src;
  AluOp op = AluOp::add;
  int outer_rank = 0;
  uint32_t outer_counts[kMaxRank] = {};
  int64_t outer_strides[kMaxRank] = {};
  Strips row;  // partitions = 1
  bool direct = false;
  uint32_t elements = 1;
  T identity{};

  void run(Context& c, uint32_t first, uint32_t last) override {
    uint8_t* s = address(src, c);
    uint8_t* d = address(dst, c);
    if constexpr (std::is_same_v<T, float>) {
      const auto four = op == AluOp::add       ? kernels().four_rows_add
                        : op == AluOp::maximum ? kernels().four_rows_maximum
                                               : nullptr;
      if (direct && outer_rank == 0 && four && src.partition_stride % 4 == 0) {
        for (; first + 4 <= last; first += 4) {
          alignas(64) float lanes[64];
          std::fill(lanes, lanes + 64, identity);
          four(lanes, reinterpret_cast<const float*>(s + first * src.partition_stride), src.partition_stride / 4, elements);
          for (uint32_t r = 0; r < 4; ++r)
            store_element<T>(dst.dtype, d + (first + r) * dst.partition_stride, tree(op, lanes + 16 * r));
        }
      }
    }
    for (uint32_t p = first; p < last; ++p) outer(c, 0, s + p * src.partition_stride, d + p * dst.partition_stride, 0);
  }

  // Neighbouring results come from neighbouring elements: whole vectors of them are reduced side by side.
  bool beside_each_other() const {
    return std::is_same_v<T, float> && src.dtype == DType::f32 && outer_rank > 0 && outer_strides[outer_rank - 1] == 4 &&
           outer_counts[outer_rank - 1] >= 16 && lane_kernel(op) && kernels().alu[static_cast<int>(op)];
  }
  bool side_by_side = false;

 private:
  static constexpr uint32_t kBeside = 256;

  void beside(Context& c, const uint8_t* s, uint8_t* d, uint64_t d_index) {
    const ElementKernel combine = kernels().alu[static_cast<int>(op)];
    float* lanes = c.buffer<float>(0);  // [16][kBeside]
    const auto into = [&](float* to, const float* x, uint32_t n) { combine(to, to, x, x, 1, 1, 1, n); };
    for (uint32_t at = 0; at < outer_counts[outer_rank - 1]; at += kBeside) {
      const uint32_t n = std::min(kBeside, outer_counts[outer_rank - 1] - at);
      std::fill(lanes, lanes + 16 * kBeside, static_cast<float>(identity));
      for (uint32_t r = 0; r < elements; ++r)
        into(lanes + r % 16 * kBeside, reinterpret_cast<const float*>(s + reduced_offset(r)) + at, n);
      for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t l = 0; l < half; ++l) into(lanes + l * kBeside, lanes + (l + half) * kBeside, n);
      for (uint32_t i = 0; i < n; ++i) store_element<float>(dst.dtype, d + destination_offset(d_index + at + i), lanes[i]);
    }
  }
  int64_t reduced_offset(uint32_t index) const {
    int64_t offset = 0;
    for (int k = src.rank - 1; k >= outer_rank; --k) {
      offset += static_cast<int64_t>(index % src.dims[k].count) * src.dims[k].stride;
      index /= src.dims[k].count;
    }
    return offset;
  }
  [[gnu::noinline]] void outer(Context& c, int dim, uint8_t* s, uint8_t* d, uint64_t d_index) {
    if (dim == outer_rank) return one(c, s, d + destination_offset(d_index));
    if constexpr (std::is_same_v<T, float>) {
      if (side_by_side && dim == outer_rank - 1) return beside(c, s, d, d_index * outer_counts[dim]);
    }
    for (uint32_t i = 0; i < outer_counts[dim]; ++i)
      outer(c, dim + 1, s + static_cast<int64_t>(i) * outer_strides[dim], d, d_index * outer_counts[dim] + i);
  }
  int64_t destination_offset(uint64_t index) const {
    int64_t offset = 0;
    for (int d = dst.rank - 1; d >= 0; --d) {
      offset += static_cast<int64_t>(index % dst.dims[d].count) * dst.dims[d].stride;
      index /= dst.dims[d].count;
    }
    return offset;
  }
  void one(Context& c, uint8_t* s, uint8_t* d) {
    Lanes<T> lanes;
    std::fill(lanes.v, lanes.v + 16, identity);
    if (direct) {
      accumulate(op, lanes.v, reinterpret_cast<const T*>(s), elements, 0);
    } else {
      size_t position = 0;
      uint8_t* at[1] = {s};
      T* buffer = c.buffer<T>(0);
      for_each_strip(row, at, 0, 1, [&](uint8_t* const* now, uint32_t count, const uint32_t*, uint32_t) {
        const size_t n = size_t{count} * row.inner;
        if (row.operands[0].lie == Lie::dense)
          row.operands[0].load(buffer, now[0], n);
        else
          gather(row, 0, row.split, count, now[0], reinterpret_cast<uint8_t*>(buffer), sizeof(T));
        accumulate(op, lanes.v, buffer, n, position);
        position += n;
      });
    }
    store_element<T>(dst.dtype, d, tree(op, lanes.v));
  }
};

template <class T>
NodePtr make_reduce(const Draft& draft, DType compute) {
  const Instruction& in = *draft.instruction;
  auto node = std::make_unique<ReduceNode<T>>();
  node->dst = draft.dst;
  node->src = draft.src0;
  node->op = in.op0;
  node->identity = reduction_identity<T>(in.op0);
  node->outer_rank = draft.src0.rank - in.reduce_dims;
  if (node->outer_rank < 0) return nullptr;
  uint64_t outer = 1;
  for (int d = 0; d < node->outer_rank; ++d) {
    node->outer_counts[d] = draft.src0.dims[d].count;
    node->outer_strides[d] = draft.src0.dims[d].stride;
    outer *= draft.src0.dims[d].count;
  }
  if (outer != draft.dst.elements()) return nullptr;
  Ref inner = draft.src0;
  inner.rank = in.reduce_dims;
  for (int d = 0; d < in.reduce_dims; ++d) inner.dims[d] = draft.src0.dims[node->outer_rank + d];
  inner.partitions = 1;
  const Ref* refs[] = {&inner};
  if (!make_space(refs, 1, true, &node->row.space)) return nullptr;
  node->row.operands[0].dtype = draft.src0.dtype;
  node->row.operands[0].load = loader<T>(draft.src0.dtype);
  node->row.prepare(compute);
  node->elements = static_cast<uint32_t>(inner.elements());
  node->direct = node->row.operands[0].direct && node->row.split == 0;
  node->side_by_side = node->beside_each_other();
  node->partitions = draft.dst.partitions;
  node->row_independent = true;
  const double ns = std::is_same_v<T, float> ? 0.15 : 2, each = node->side_by_side ? 2 : 15;
  node->nanoseconds = static_cast<double>(outer) * draft.dst.partitions * (each + node->elements * ns);
  return node;
}

// dst[0, f] = running op over partitions.
template <class T>
class PartitionReduceNode final : public Node {
 public:
  Strips strips;  // operands: dst, src; one partition of each
  Ref dst, src;
  AluOp op = AluOp::add;

  void run(Context& c, uint32_t, uint32_t) override {
    uint8_t* at[2] = {address(dst, c), address(src, c)};
    for_each_strip(strips, at, 0, 1, [&](uint8_t* const* now, uint32_t count, const uint32_t*, uint32_t) {
      const size_t n = size_t{count} * strips.inner;
      T *running = c.buffer<T>(0), *x = c.buffer<T>(1);
      for (uint32_t p = 0; p < src.partitions; ++p) {
        uint8_t* from = now[1] + p * src.partition_stride;
        T* to = p == 0 ? running : x;
        if (strips.operands[1].lie == Lie::dense)
          strips.operands[1].load(to, from, n);
        else
          gather(strips, 1, strips.split, count, from, reinterpret_cast<uint8_t*>(to), sizeof(T));
        if (p > 0) combine(running, x, n);
      }
      if (strips.operands[0].lie == Lie::dense)
        strips.operands[0].store(now[0], running, n);
      else
        scatter(strips, 0, strips.split, count, now[0], reinterpret_cast<const uint8_t*>(running), sizeof(T));
    });
  }

 private:
  void combine(T* running, const T* x, size_t n) const {
    if constexpr (std::is_same_v<T, float>) {
      if (const ElementKernel k = kernels().alu[static_cast<int>(op)]) return k(running, running, x, x, 1, 1, 1, n);
    }
    bool ignored = false;
    for (size_t i = 0; i < n; ++i) running[i] = apply<T>(op, running[i], x[i], &ignored);
  }
};

template <class T>
NodePtr make_partition_reduce(const Draft& draft, DType compute) {
  auto node = std::make_unique<PartitionReduceNode<T>>();
  Ref row = draft.src0;
  row.partitions = 1;
  const Ref* refs[] = {&draft.dst, &row};
  if (!make_space(refs, 1, true, &node->strips.space)) return nullptr;
  for (int o = 0; o < 2; ++o) {
    node->strips.operands[o].dtype = refs[o]->dtype;
    node->strips.operands[o].load = loader<T>(refs[o]->dtype);
    node->strips.operands[o].store = storer<T>(refs[o]->dtype);
  }
  node->strips.prepare(compute);
  // A free element that is broadcast would be loaded once only.
  if (node->strips.operands[1].lie == Lie::uniform) node->strips.operands[1].lie = Lie::nested;
  if (node->strips.operands[0].lie == Lie::uniform) node->strips.operands[0].lie = Lie::nested;
  node->dst = draft.dst;
  node->src = draft.src0;
  node->op = draft.instruction->op0;
  const double elements = static_cast<double>(draft.src0.elements()) * draft.src0.partitions;
  node->nanoseconds = 20 + elements * (std::is_same_v<T, float> ? 0.15 : 2);
  return node;
}

// count, mean, count * variance of the even and of the odd elements.
class StatisticsNode final : public Node {
 public:
  Strips strips;  // operand 0: the source row, whole in one strip
  Ref dst, src;

  void run(Context& c, uint32_t first, uint32_t last) override {
    const uint32_t n = static_cast<uint32_t>(src.elements());
    for (uint32_t p = first; p < last; ++p) {
      const uint8_t* s = address(src, c) + p * src.partition_stride;
      float* x = c.buffer<float>(0);
      gather(strips, 0, 0, strips.space.counts[0], s, reinterpret_cast<uint8_t*>(x), sizeof(float));
      float *even = c.buffer<float>(1), *odd = c.buffer<float>(2);
      for (uint32_t i = 0; i < n / 2; ++i) {
        even[i] = x[2 * i];
        odd[i] = x[2 * i + 1];
      }
      if (n % 2) even[n / 2] = x[n - 1];
      float out[6];
      statistics(even, (n + 1) / 2, out);
      statistics(odd, n / 2, out + 3);
      uint8_t* d = address(dst, c) + p * dst.partition_stride;
      for (int i = 0; i < 6; ++i) store_element<float>(dst.dtype, d + i * (dst.rank ? dst.dims[0].stride : 0), out[i]);
    }
  }

 private:
  static void statistics(const float* x, uint32_t n, float* out) {
    out[0] = static_cast<float>(n);
    out[1] = out[2] = 0;
    if (n == 0) return;
    alignas(64) float lanes[32] = {};
    kernels().lanes_add(lanes, x, n);
    out[1] = tree<float>(AluOp::add, lanes) / out[0];
    std::fill(lanes, lanes + 16, 0.0f);
    lanes[16] = out[1];
    kernels().lanes_square_deviation(lanes, x, n);
    out[2] = tree<float>(AluOp::add, lanes);
  }
};

NodePtr make_statistics(const Draft& draft) {
  if (draft.dst.rank > 1 || draft.dst.elements() != 6 || draft.src0.elements() > kStrip) return nullptr;
  auto node = std::make_unique<StatisticsNode>();
  Ref row = draft.src0;
  row.partitions = 1;
  const Ref* refs[] = {&row};
  if (!make_space(refs, 1, true, &node->strips.space)) return nullptr;
  node->strips.operands[0].dtype = row.dtype;
  node->strips.operands[0].load = loader<float>(row.dtype);
  node->strips.prepare(DType::f32);
  node->dst = draft.dst;
  node->src = draft.src0;
  node->partitions = draft.dst.partitions;
  node->row_independent = true;
  node->nanoseconds = draft.dst.partitions * (50 + static_cast<double>(row.elements()) * 0.8);
  return node;
}

// Sequential along the last free dim.
template <class T>
class ScanNode final : public Node {
 public:
  Strips strips;  // dst, src0[, src1][, start] with split at the last dim
  Ref refs[4];
  int operands = 2;
  int src1 = 0, start = 0;  // operand numbers, 0 = absent
  T start_value{};
  AluOp op0 = AluOp::add, op1 = AluOp::bypass;
  std::string label;

  void run(Context& c, uint32_t first, uint32_t last) override {
    uint8_t* at[4];
    for (int o = 0; o < operands; ++o) at[o] = address(refs[o], c);
    bool zero = false;
    T running{};
    for_each_strip(strips, at, first, last, [&](uint8_t* const* now, uint32_t count, const uint32_t*, uint32_t i) {
      T* buffers[4];
      for (int o = 1; o < operands; ++o) {
        buffers[o] = c.buffer<T>(o);
        if (o == start)
          strips.operands[o].load(buffers[o], now[o], 1);
        else
          gather(strips, o, strips.split, count, now[o], reinterpret_cast<uint8_t*>(buffers[o]), sizeof(T));
      }
      if (i == 0) running = start ? buffers[start][0] : start_value;
      T* d = c.buffer<T>(0);
      const T *x = buffers[1], *y = src1 ? buffers[src1] : nullptr;
      if (op0 == AluOp::add && !y) {
        for (uint32_t k = 0; k < count; ++k) d[k] = running = apply<T>(AluOp::add, x[k], running, &zero);
      } else {
        for (uint32_t k = 0; k < count; ++k) {
          running = apply<T>(op0, x[k], running, &zero);
          if (y) running = apply<T>(op1, running, y[k], &zero);
          d[k] = running;
        }
      }
      scatter(strips, 0, strips.split, count, now[0], reinterpret_cast<const uint8_t*>(d), sizeof(T));
    });
    if (zero) c.fail(invalid_argument(label + ": integer division by zero"));
  }
};

template <class T>
NodePtr make_scan(const Build& build, const Draft& draft, DType compute) {
  const Instruction& in = *draft.instruction;
  auto node = std::make_unique<ScanNode<T>>();
  const Ref* refs[4] = {&draft.dst, &draft.src0};
  int n = 2;
  if (draft.src1.present() && in.op1 != AluOp::bypass) {
    node->src1 = n;
    refs[n++] = &draft.src1;
  }
  if (draft.scalar0.present()) {
    node->start = n;
    refs[n++] = &draft.scalar0;
  } else if constexpr (kIsComplex<T>) {
    node->start_value =
        T(static_cast<typename T::value_type>(in.scalar0.re), static_cast<typename T::value_type>(in.scalar0.im));
  } else if constexpr (kIsFloating<T>) {
    node->start_value = static_cast<T>(in.scalar0.re);
  } else {
    node->start_value = static_cast<T>(in.scalar0.i);
  }
  Space& space = node->strips.space;
  if (!make_space({refs, static_cast<size_t>(n)}, draft.dst.partitions, false, &space)) return nullptr;
  // The innermost loop must be exactly one run of the scan: nothing may have been joined into it or cut from it.
  const uint32_t length = draft.src0.rank ? draft.src0.dims[draft.src0.rank - 1].count : 1;
  if (length == 1 || space.rank < 2) return nullptr;
  if (space.counts[space.rank - 1] != length) {
    // Rows of several scans that lie end to end were joined: cut them again.
    if (space.counts[space.rank - 1] % length != 0 || space.rank == kMaxRank) return nullptr;
    const int d = space.rank++;
    space.counts[d] = length;
    space.counts[d - 1] /= length;
    for (int o = 0; o < n; ++o) {
      space.strides[o][d] = space.strides[o][d - 1];
      space.strides[o][d - 1] *= length;
    }
  }
  for (int o = 0; o < n; ++o) {
    node->refs[o] = *refs[o];
    node->strips.operands[o].dtype = refs[o]->dtype;
    node->strips.operands[o].load = loader<T>(refs[o]->dtype);
    node->strips.operands[o].store = storer<T>(refs[o]->dtype);
  }
  node->strips.prepare(compute);
  node->strips.split = space.rank - 1;
  node->strips.inner = 1;
  node->strips.piece = kStrip;
  node->operands = n;
  node->op0 = in.op0;
  node->op1 = in.op1;
  node->label = build.program->labels.size() > in.label ? build.program->labels[in.label] : "";
  node->partitions = draft.dst.partitions;
  node->row_independent = true;
  node->nanoseconds = static_cast<double>(draft.dst.elements()) * draft.dst.partitions * 2;
  return node;
}

template <class T>
NodePtr make_any(const Build& build, const Draft& draft, DType compute) {
  switch (draft.instruction->opcode) {
    case Opcode::tensor_reduce:
      return make_reduce<T>(draft, compute);
    case Opcode::tensor_partition_reduce:
      return make_partition_reduce<T>(draft, compute);
    case Opcode::tensor_tensor_scan:
      return make_scan<T>(build, draft, compute);
    default:
      return nullptr;
  }
}

}  // namespace

NodePtr make_reduce_node(const Build& build, const Draft& draft) {
  switch (draft.instruction->opcode) {
    case Opcode::bn_stats:
      return make_statistics(draft);
    case Opcode::tensor_reduce:
    case Opcode::tensor_partition_reduce:
    case Opcode::tensor_tensor_scan:
      break;
    default:
      return nullptr;
  }
  switch (draft.instruction->compute) {
    case DType::f32:
      return make_any<float>(build, draft, DType::f32);
    case DType::f64:
      return make_any<double>(build, draft, DType::f64);
    case DType::i64:
      return make_any<int64_t>(build, draft, DType::i64);
    case DType::u64:
      return make_any<uint64_t>(build, draft, DType::u64);
    case DType::c64:
      return make_any<c64>(build, draft, DType::c64);
    case DType::c128:
      return make_any<c128>(build, draft, DType::c128);
    default:
      return nullptr;
  }
}

}  // namespace neuron::emulator::plan
