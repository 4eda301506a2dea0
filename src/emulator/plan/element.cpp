// Element-wise instructions: operands gathered strip by strip into the compute type, at most two kernels, one store.
#include <algorithm>
#include <cmath>

#include "emulator/interpreter/scalar_operations.h"
#include "emulator/kernels/kernel_table.h"
#include "emulator/plan/strips.h"

namespace neuron::emulator::plan {
namespace {

using isa::ActFn;
using isa::AluOp;
using isa::Instruction;
using isa::Opcode;
using isa::ScalarOperand;

constexpr int kTemporary = kMaxOperands;  // as a source of the second stage: the first one's result
constexpr int kOnes = kMaxOperands + 1, kZeros = kMaxOperands + 2, kImmediate0 = kMaxOperands + 3,
              kImmediate1 = kMaxOperands + 4;
constexpr int kSources = kMaxOperands + 5;

template <class T>
struct Stage {
  using Loop = void (*)(const Stage& stage, T* d, const T* const* s, const size_t* steps, size_t n, bool* zero);
  Loop loop = nullptr;
  ElementKernel kernel = nullptr;  // f32 only; preferred
  AluOp op = AluOp::bypass;
  ActFn func = ActFn::copy;
  int a = 0, b = 0, c = 0;  // source slots
};

// --- loops for what has no vector kernel and for the wide types ---

template <class T, class F>
void binary_loop(T* d, const T* a, const T* b, size_t sa, size_t sb, size_t n, F f) {
  if (sa == 1 && sb == 1) {
    for (size_t i = 0; i < n; ++i) d[i] = f(a[i], b[i]);
  } else if (sa == 1) {
    const T y = *b;
    for (size_t i = 0; i < n; ++i) d[i] = f(a[i], y);
  } else {
    for (size_t i = 0; i < n; ++i) d[i] = f(a[i * sa], b[i * sb]);
  }
}

template <class T>
void alu_loop(const Stage<T>& stage, T* d, const T* const* s, const size_t* steps, size_t n, bool* zero) {
  const T *a = s[0], *b = s[1];
  const size_t sa = steps[0], sb = steps[1];
  // clang-format off
#define NEURON_CASE(name)                                                                                          \
  case AluOp::name: binary_loop(d, a, b, sa, sb, n, [zero](T x, T y) { return apply<T>(AluOp::name, x, y, zero); }); return;
  switch (stage.op) {
    NEURON_CASE(bypass) NEURON_CASE(add) NEURON_CASE(subtract) NEURON_CASE(multiply)
    NEURON_CASE(equal) NEURON_CASE(not_equal) NEURON_CASE(logical_and) NEURON_CASE(logical_or)
    default: break;
  }
  if constexpr (!kIsComplex<T>) {
    switch (stage.op) {
      NEURON_CASE(maximum) NEURON_CASE(minimum) NEURON_CASE(less) NEURON_CASE(less_equal) NEURON_CASE(greater)
      NEURON_CASE(greater_equal) NEURON_CASE(divide)
      default: break;
    }
  }
  if constexpr (std::is_integral_v<T>) {
    switch (stage.op) {
      NEURON_CASE(bitwise_and) NEURON_CASE(bitwise_or) NEURON_CASE(bitwise_xor) NEURON_CASE(shift_left)
      NEURON_CASE(shift_right_arithmetic) NEURON_CASE(shift_right_logical) NEURON_CASE(remainder) NEURON_CASE(floor_divide)
      default: break;
    }
  }
#undef NEURON_CASE
  // clang-format on
  for (size_t i = 0; i < n; ++i) d[i] = apply<T>(stage.op, a[i * sa], b[i * sb], zero);
}

template <class T>
void function_loop(const Stage<T>& stage, T* d, const T* const* s, const size_t* steps, size_t n, bool*) {
  for (size_t i = 0; i < n; ++i) d[i] = apply_function(stage.func, s[0][i * steps[0]]);
}
template <class T>
void multiply_add_loop(const Stage<T>&, T* d, const T* const* s, const size_t* steps, size_t n, bool*) {
  for (size_t i = 0; i < n; ++i) d[i] = multiply_add(s[0][i * steps[0]], s[1][i * steps[1]], s[2][i * steps[2]]);
}
template <class T>
void multiply_subtract_loop(const Stage<T>&, T* d, const T* const* s, const size_t* steps, size_t n, bool*) {
  for (size_t i = 0; i < n; ++i)
    d[i] = multiply_add(s[0][i * steps[0]], s[1][i * steps[1]], static_cast<T>(-s[2][i * steps[2]]));
}
template <class T>
void select_loop(const Stage<T>&, T* d, const T* const* s, const size_t* steps, size_t n, bool*) {
  for (size_t i = 0; i < n; ++i) d[i] = s[0][i * steps[0]] != T(0) ? s[1][i * steps[1]] : s[2][i * steps[2]];
}

template <class T>
T immediate(const ScalarOperand& s) {
  if constexpr (kIsComplex<T>)
    return T(static_cast<typename T::value_type>(s.re), static_cast<typename T::value_type>(s.im));
  else if constexpr (kIsFloating<T>)
    return static_cast<T>(s.re);
  else
    return static_cast<T>(s.i);
}

// --- the node ---

template <class T>
class ElementNode final : public Node {
 public:
  Strips strips;
  Ref refs[kMaxOperands];  // dst first
  Ref sum;                 // activation's dst2
  Stage<T> stages[2];
  int stage_count = 0;
  alignas(64) T splats[4][16];  // ones, zeros, the two immediates
  std::string label;
  bool streams = false;  // a large output in other memory than its sources: non-temporal stores

  void run(Context& c, uint32_t first, uint32_t last) override {
    const int operands = strips.space.operands;
    uint8_t* at[kMaxOperands];
    for (int o = 0; o < operands; ++o) at[o] = address(refs[o], c);
    uint8_t* sum_at = sum.present() ? address(sum, c) : nullptr;
    bool zero = false;
    alignas(64) T lanes[16];
    uint32_t row_position = 0;
    Sources sources;
    prepare(c, &sources);
    for_each_strip(strips, at, first, last, [&](uint8_t* const* now, uint32_t count, const uint32_t* index, uint32_t i) {
      const size_t n = size_t{count} * strips.inner;
      T* result = compute(c, sources, now, count, n, &zero);
      if (!sum_at) return;
      if (strips.split == 0) {
        for (uint32_t row = 0; row < count; ++row)
          row_sum(result + size_t{row} * strips.inner, strips.inner,
                  sum_at + static_cast<int64_t>(first + i + row) * sum.partition_stride);
        return;
      }
      if (row_position == 0) std::fill(lanes, lanes + 16, T(0));
      accumulate(lanes, result, n, row_position);
      row_position += static_cast<uint32_t>(n);
      if (row_position == row_elements) {
        store_element<T>(sum.dtype, sum_at + static_cast<int64_t>(first + index[0]) * sum.partition_stride, tree(lanes));
        row_position = 0;
      }
    });
    if (streams) __builtin_ia32_sfence();
    if (zero) c.fail(invalid_argument(label + ": integer division by zero"));
  }
  uint32_t row_elements = 0;

 private:
  struct Sources {
    const T* at[kSources];
    size_t steps[kSources];
  };

  // Everything about the sources that does not change from strip to strip.
  void prepare(Context& c, Sources* s) const {
    for (int i = 0; i < 4; ++i) {
      s->at[kOnes + i] = splats[i];
      s->steps[kOnes + i] = 0;
    }
    for (int o = 1; o < strips.space.operands; ++o) {
      if (!strips.operands[o].direct) s->at[o] = c.buffer<T>(o);
      s->steps[o] = !strips.operands[o].direct && strips.operands[o].lie == Lie::uniform ? 0 : 1;
    }
    s->steps[kTemporary] = 1;
  }

  T* compute(Context& c, Sources& sources, uint8_t* const* now, uint32_t count, size_t n, bool* zero) {
    for (int o = 1; o < strips.space.operands; ++o) {
      const StripOperand& info = strips.operands[o];
      if (info.direct) {
        sources.at[o] = reinterpret_cast<const T*>(now[o]);
        continue;
      }
      T* buffer = c.buffer<T>(o);
      if (info.lie == Lie::uniform) {
        T value;
        if (info.same)
          std::memcpy(&value, now[o], sizeof(T));
        else
          info.load(&value, now[o], 1);
        for (int l = 0; l < 16; ++l) buffer[l] = value;
      } else if (info.lie == Lie::dense) {
        info.load(buffer, now[o], n);
      } else {
        gather(strips, o, strips.split, count, now[o], reinterpret_cast<uint8_t*>(buffer), sizeof(T));
      }
    }
    const bool stream = streams && reinterpret_cast<uintptr_t>(now[0]) % 64 == 0;
    T* result = strips.operands[0].direct && !stream ? reinterpret_cast<T*>(now[0]) : c.buffer<T>(0);
    T* out = stage_count == 2 ? c.buffer<T>(kScratchBuffers - 1) : result;
    for (int s = 0; s < stage_count; ++s) {
      const Stage<T>& stage = stages[s];
      if constexpr (std::is_same_v<T, float>) {
        if (stage.kernel) {
          stage.kernel(out, sources.at[stage.a], sources.at[stage.b], sources.at[stage.c], sources.steps[stage.a],
                       sources.steps[stage.b], sources.steps[stage.c], n);
          sources.at[kTemporary] = out;
          out = result;
          continue;
        }
      }
      const T* s3[3] = {sources.at[stage.a], sources.at[stage.b], sources.at[stage.c]};
      const size_t steps3[3] = {sources.steps[stage.a], sources.steps[stage.b], sources.steps[stage.c]};
      stage.loop(stage, out, s3, steps3, n, zero);
      sources.at[kTemporary] = out;
      out = result;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (stream) kernels().stream(reinterpret_cast<float*>(now[0]), result, n);
    }
    if (!strips.operands[0].direct) {
      if (strips.operands[0].lie == Lie::dense)
        strips.operands[0].store(now[0], result, n);
      else
        scatter(strips, 0, strips.split, count, now[0], reinterpret_cast<const uint8_t*>(result), sizeof(T));
    }
    return result;
  }

  static void accumulate(T* lanes, const T* x, size_t n, size_t position) {
    if constexpr (std::is_same_v<T, float>) {
      if (position % 16 == 0) return kernels().lanes_add(lanes, x, n);
    }
    for (size_t i = 0; i < n; ++i) lanes[(position + i) % 16] += x[i];
  }
  static T tree(T* lanes) {
    for (int d = 8; d > 0; d /= 2)
      for (int l = 0; l < d; ++l) lanes[l] = lanes[l] + lanes[l + d];
    return lanes[0];
  }
  void row_sum(const T* x, size_t n, uint8_t* at) {
    alignas(64) T lanes[16];
    std::fill(lanes, lanes + 16, T(0));
    accumulate(lanes, x, n, 0);
    store_element<T>(sum.dtype, at, tree(lanes));
  }
};

// --- building ---

template <class T>
struct Builder {
  const Build& build;
  const Draft& draft;
  std::unique_ptr<ElementNode<T>> node = std::make_unique<ElementNode<T>>();
  const Ref* refs[kMaxOperands];
  int count = 0;
  const Instruction& in = *draft.instruction;

  int source(const Ref& r) {
    refs[count] = &r;
    return count++;
  }
  int scalar(const ScalarOperand& s, const Ref& r, int slot) {
    if (s.kind == ScalarOperand::Kind::access) return source(r);
    std::fill_n(node->splats[slot - kOnes], 16, immediate<T>(s));
    return slot;
  }

  Stage<T> alu(AluOp op, int a, int b, bool reverse) const {
    Stage<T> s;
    s.op = op;
    s.a = reverse ? b : a;
    s.b = reverse ? a : b;
    s.c = s.b;
    s.loop = alu_loop<T>;
    if constexpr (std::is_same_v<T, float>) s.kernel = kernels().alu[static_cast<int>(op)];
    return s;
  }
  void push(Stage<T> s) { node->stages[node->stage_count++] = s; }
  void push3(ElementKernel kernel, typename Stage<T>::Loop loop, int a, int b, int c) {
    Stage<T> s;
    s.a = a;
    s.b = b;
    s.c = c;
    s.loop = loop;
    if constexpr (std::is_same_v<T, float>) s.kernel = kernel;
    push(s);
  }

  // (x op0 y) op1 z with the fma rule.
  void two(int x, int y, int z, bool subtract_fuses) {
    const bool plain = !in.reverse0 && !in.reverse1;
    if constexpr (kIsFloating<T>) {
      if (plain && in.op0 == AluOp::multiply && in.op1 == AluOp::add)
        return push3(kernels().multiply_add, multiply_add_loop<T>, x, y, z);
      if (plain && in.op0 == AluOp::multiply && in.op1 == AluOp::subtract && subtract_fuses)
        return push3(kernels().multiply_subtract, multiply_subtract_loop<T>, x, y, z);
    }
    if (in.op0 == AluOp::bypass)
      return push(alu(in.op1, x, in.op1 == AluOp::bypass ? x : z, in.op1 != AluOp::bypass && in.reverse1));
    if (in.op1 == AluOp::bypass) return push(alu(in.op0, x, y, in.reverse0));
    const int p0 = pair_index(in.op0), p1 = pair_index(in.op1);
    if (std::is_same_v<T, float> && !in.reverse1 && p0 >= 0 && p1 >= 0) {
      const int a = in.reverse0 ? y : x, b = in.reverse0 ? x : y;
      return push3(kernels().pair[p0][p1], nullptr, a, b, z);
    }
    push(alu(in.op0, x, y, in.reverse0));
    push(alu(in.op1, kTemporary, z, in.reverse1));
  }

  void activation(int x) {
    const bool affine = in.scalar0.kind != ScalarOperand::Kind::none || in.scalar1.kind != ScalarOperand::Kind::none;
    const int f = static_cast<int>(in.func);
    int scale = kOnes, bias = kZeros;
    if (in.scalar0.kind != ScalarOperand::Kind::none) scale = scalar(in.scalar0, draft.scalar0, kImmediate0);
    if (in.scalar1.kind != ScalarOperand::Kind::none) bias = scalar(in.scalar1, draft.scalar1, kImmediate1);
    if constexpr (std::is_same_v<T, float>) {
      if (affine && kernels().function_affine[f]) return push3(kernels().function_affine[f], nullptr, x, scale, bias);
      if (!affine && kernels().function[f]) return push3(kernels().function[f], nullptr, x, x, x);
    }
    int source = x;
    if (affine) {
      push3(kernels().multiply_add, multiply_add_loop<T>, x, scale, bias);
      source = kTemporary;
    }
    Stage<T> s;
    s.func = in.func;
    s.loop = function_loop<T>;
    s.a = s.b = s.c = source;
    push(s);
  }

  bool select() {
    const DType mask = draft.src2.dtype;
    if (is_complex(mask)) return false;
    // A mask is read as T's real type: a double must not shrink on the way, small ones would count as false.
    if (mask == DType::f64 && !std::is_same_v<T, double> && !std::is_same_v<T, c128>) return false;
    if (std::is_integral_v<T> && is_floating(mask)) return false;
    const int m = source(draft.src2);
    const int x = draft.src0.present() ? source(draft.src0) : scalar(in.scalar0, draft.scalar0, kImmediate0);
    const int y = draft.src1.present() ? source(draft.src1) : scalar(in.scalar1, draft.scalar1, kImmediate1);
    push3(kernels().select, select_loop<T>, m, x, y);
    return true;
  }

  bool stages() {
    switch (in.opcode) {
      case Opcode::dma_copy:
      case Opcode::tensor_copy: {
        push(alu(AluOp::bypass, source(draft.src0), 1, false));
        return true;
      }
      case Opcode::memset: {
        const int x = scalar(in.scalar0, draft.scalar0, kImmediate0);
        push(alu(AluOp::bypass, x, x, false));
        return true;
      }
      case Opcode::tensor_tensor: {
        const int x = source(draft.src0), y = source(draft.src1);
        push(alu(in.op0, x, y, false));
        return true;
      }
      case Opcode::tensor_scalar: {
        const int x = source(draft.src0);
        const int y = in.scalar0.kind == ScalarOperand::Kind::none ? x : scalar(in.scalar0, draft.scalar0, kImmediate0);
        const int z = in.scalar1.kind == ScalarOperand::Kind::none ? x : scalar(in.scalar1, draft.scalar1, kImmediate1);
        two(x, y, z, true);
        return true;
      }
      case Opcode::scalar_tensor_tensor: {
        const int x = source(draft.src0), z = source(draft.src1);
        const int y = in.scalar0.kind == ScalarOperand::Kind::none ? x : scalar(in.scalar0, draft.scalar0, kImmediate0);
        two(x, y, z, false);
        return true;
      }
      case Opcode::activation:
        activation(source(draft.src0));
        return true;
      case Opcode::reciprocal:
        push(alu(AluOp::divide, kOnes, source(draft.src0), false));
        return true;
      case Opcode::select:
        return select();
      default:
        return false;
    }
  }

  NodePtr make(DType compute, bool flat) {
    std::fill_n(node->splats[0], 16, T(1));
    std::fill_n(node->splats[1], 16, T(0));
    source(draft.dst);
    if (!stages()) return nullptr;
    Strips& strips = node->strips;
    const uint32_t partitions = draft.dst.partitions;
    const bool ok = flat ? make_flat_space({refs, static_cast<size_t>(count)}, &strips.space)
                         : make_space({refs, static_cast<size_t>(count)}, partitions, !draft.dst2.present(), &strips.space);
    if (!ok) return nullptr;
    for (int o = 0; o < count; ++o) {
      node->refs[o] = *refs[o];
      strips.operands[o].dtype = refs[o]->dtype;
      strips.operands[o].load = loader<T>(refs[o]->dtype);
      strips.operands[o].store = storer<T>(refs[o]->dtype);
    }
    strips.prepare(compute, true);
    // A destination that repeats an element keeps the last value: too rare for strips.
    for (int d = 0; d < strips.space.rank; ++d)
      if (strips.space.strides[0][d] == 0 && strips.space.counts[d] > 1) return nullptr;
    node->streams =
        std::is_same_v<T, float> && strips.operands[0].direct && !build.is_tile(draft.dst) && streams_well(build, draft);
    node->sum = draft.dst2;
    node->row_elements = static_cast<uint32_t>(draft.dst.elements());
    node->partitions = flat ? 1 : partitions;
    node->row_independent = !flat;
    node->label = build.program->labels.size() > in.label ? build.program->labels[in.label] : "";
    node->nanoseconds = 20 + static_cast<double>(node->row_elements) * draft.dst.partitions * per_element();
    return std::move(node);
  }

  // Whether a whole loop nest writes so much that nothing of it would still be in a cache when it is read. (The tensor's
  // size does not say: one scratch tensor holds all temporaries.)
  static bool streams_well(const Build& build, const Draft& draft) {
    constexpr uint64_t kLarge = 16 << 20;
    uint64_t bytes = draft.dst.elements() * draft.dst.partitions * size_of(draft.dst.dtype);
    for (size_t level = 0; level < draft.loops.size(); ++level) {
      if (draft.dst.step_at(static_cast<int>(level)) != 0) bytes *= build.loops[draft.loops[level]].trip;
    }
    if (bytes < kLarge) return false;
    for (const Ref* r : draft.sources()) {  // in place the lines are in the cache already
      if (r->present() && build.same_memory(r->object, draft.dst.object)) return false;
    }
    return true;
  }

  double per_element() const {
    double ns = std::is_same_v<T, float> ? 0.1 : 1.0;
    for (int s = 0; s < node->stage_count; ++s) {
      const bool function = in.opcode == Opcode::activation && node->stages[s].func != ActFn::copy;
      ns += node->stages[s].kernel ? (in.opcode == Opcode::activation ? 0.4 : 0.05) : function ? 15.0 : 2.0;
    }
    return ns;
  }
};

template <class T>
NodePtr make(const Build& build, const Draft& draft, DType compute, bool flat = false) {
  Builder<T> b{build, draft};
  return b.make(compute, flat);
}

}  // namespace

NodePtr make_element_node(const Build& build, const Draft& draft) {
  switch (draft.instruction->opcode) {
    case Opcode::memset:
    case Opcode::tensor_tensor:
    case Opcode::tensor_scalar:
    case Opcode::scalar_tensor_tensor:
    case Opcode::activation:
    case Opcode::reciprocal:
    case Opcode::select:
      break;
    default:
      return nullptr;
  }
  switch (draft.instruction->compute) {
    case DType::f32:
      return make<float>(build, draft, DType::f32);
    case DType::f64:
      return make<double>(build, draft, DType::f64);
    case DType::i64:
      return make<int64_t>(build, draft, DType::i64);
    case DType::u64:
      return make<uint64_t>(build, draft, DType::u64);
    case DType::c64:
      return make<c64>(build, draft, DType::c64);
    case DType::c128:
      return make<c128>(build, draft, DType::c128);
    default:
      return nullptr;
  }
}

// Copies that convert: through the first type that holds the source exactly and rounds once on the way out.
NodePtr make_converting_copy(const Build& build, const Draft& draft, bool flat) {
  const DType from = draft.src0.dtype, to = draft.dst.dtype;
  const bool wide_integer = from == DType::i32 || from == DType::u32 || from == DType::i64;
  if (is_complex(from) || is_complex(to)) return nullptr;
  if (from == DType::u64)
    return to == DType::u64 || is_integer(to) ? make<uint64_t>(build, draft, DType::u64, flat) : nullptr;
  if (from == DType::f64) return make<double>(build, draft, DType::f64, flat);
  if (wide_integer) {
    if (to == DType::f32) return make<float>(build, draft, DType::f32, flat);
    return make<int64_t>(build, draft, DType::i64, flat);
  }
  return make<float>(build, draft, DType::f32, flat);
}

}  // namespace neuron::emulator::plan
