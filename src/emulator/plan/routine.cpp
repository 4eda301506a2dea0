// iota and random_bits; and the general node, which runs any instruction through the interpreter's own code.
#include <algorithm>
#include <memory>

#include "emulator/interpreter/machine.h"
#include "emulator/kernels/kernel_table.h"
#include "emulator/plan/strips.h"

namespace neuron::emulator::plan {
namespace {

using isa::Opcode;
using isa::ScalarOperand;

// --- a value per element from an affine pattern ---

class PatternNode : public Node {
 public:
  Ref dst;
  isa::IndexPattern pattern;

 protected:
  uint64_t base(const Context& c, uint32_t p) const {
    uint64_t v = static_cast<uint64_t>(pattern.base) + p * static_cast<uint64_t>(pattern.partition_step);
    for (int l = 0; l < isa::kMaxLoops; ++l)
      v += static_cast<uint64_t>(pattern.loop_step[l]) * static_cast<uint64_t>(c.counters[l]);
    return v;
  }
  // f(address, value, count, value step, address step) for each innermost run.
  template <class F>
  void walk(uint8_t* at, uint64_t value, int dim, F&& f) const {
    if (dim == dst.rank) return f(at, value, 1u, uint64_t{0}, int64_t{0});
    const isa::Dim& d = dst.dims[dim];
    const uint64_t step = static_cast<uint64_t>(pattern.step[dim]);
    if (dim + 1 == dst.rank) return f(at, value, d.count, step, d.stride);
    for (uint32_t i = 0; i < d.count; ++i) walk(at + static_cast<int64_t>(i) * d.stride, value + i * step, dim + 1, f);
  }
};

class IotaNode final : public PatternNode {
 public:
  Store store = nullptr;

  void run(Context& c, uint32_t first, uint32_t last) override {
    uint8_t* at = address(dst, c);
    const int64_t size = static_cast<int64_t>(size_of(dst.dtype));
    for (uint32_t p = first; p < last; ++p) {
      walk(at + p * dst.partition_stride, base(c, p), 0,
           [&](uint8_t* d, uint64_t v, uint32_t n, uint64_t step, int64_t stride) {
             int64_t* values = c.buffer<int64_t>(0);
             for (uint32_t i = 0; i < n; i += kStrip) {
               const uint32_t count = std::min<uint32_t>(kStrip, n - i);
               for (uint32_t k = 0; k < count; ++k) values[k] = static_cast<int64_t>(v + (i + k) * step);
               if (stride == size)
                 store(d + i * stride, values, count);
               else
                 for (uint32_t k = 0; k < count; ++k) store(d + static_cast<int64_t>(i + k) * stride, values + k, 1);
             }
           });
    }
  }
};

class RandomNode final : public PatternNode {
 public:
  Ref seed_ref, start_ref;
  uint64_t seed = 0, start = 0;

  void run(Context& c, uint32_t first, uint32_t last) override {
    uint8_t* at = address(dst, c);
    const Kernels& k = kernels();
    const bool wide = size_of(dst.dtype) == 8;
    for (uint32_t p = first; p < last; ++p) {
      const uint64_t key = value(c, seed_ref, seed, p), counter = value(c, start_ref, start, p) + base(c, p);
      walk(at + p * dst.partition_stride, counter, 0,
           [&](uint8_t* d, uint64_t v, uint32_t n, uint64_t step, int64_t stride) {
             if (step == 1 && stride == (wide ? 8 : 4)) {
               if (wide)
                 k.random_u64(reinterpret_cast<uint64_t*>(d), key, v, n);
               else
                 k.random_u32(reinterpret_cast<uint32_t*>(d), key, v, n);
               return;
             }
             for (uint32_t i = 0; i < n; ++i) {
               uint8_t* to = d + static_cast<int64_t>(i) * stride;
               if (wide)
                 k.random_u64(reinterpret_cast<uint64_t*>(to), key, v + i * step, 1);
               else
                 k.random_u32(reinterpret_cast<uint32_t*>(to), key, v + i * step, 1);
             }
           });
    }
  }

 private:
  static uint64_t value(const Context& c, const Ref& r, uint64_t fixed, uint32_t p) {
    if (!r.present()) return fixed;
    return load_element<uint64_t>(r.dtype, address(r, c) + (r.partitions == 1 ? 0 : p * r.partition_stride));
  }
};

NodePtr make_pattern(const Draft& draft) {
  const isa::Instruction& in = *draft.instruction;
  const double elements = static_cast<double>(draft.dst.elements()) * draft.dst.partitions;
  if (in.opcode == Opcode::iota) {
    auto node = std::make_unique<IotaNode>();
    node->dst = draft.dst;
    node->pattern = in.pattern;
    node->store = storer<int64_t>(draft.dst.dtype);
    node->partitions = draft.dst.partitions;
    node->row_independent = true;
    node->nanoseconds = elements * 1.0;
    return node;
  }
  if (draft.dst.dtype != DType::u32 && draft.dst.dtype != DType::u64) return nullptr;
  auto node = std::make_unique<RandomNode>();
  node->dst = draft.dst;
  node->pattern = in.pattern;
  node->seed_ref = draft.scalar0;
  node->start_ref = draft.scalar1;
  node->seed = static_cast<uint64_t>(in.scalar0.i);
  node->start = static_cast<uint64_t>(in.scalar1.i);
  node->partitions = draft.dst.partitions;
  node->row_independent = true;
  node->nanoseconds = elements * 2.0;
  return node;
}

// --- anything, through the interpreter ---

class GeneralNode final : public Node {
 public:
  GeneralNode(const Build& build, const Draft& draft) : program_(*build.program), draft_(draft) {
    const Opcode op = draft.instruction->opcode;
    partitions = draft.dst.partitions;
    row_independent = op == Opcode::tensor_tensor || op == Opcode::tensor_scalar || op == Opcode::scalar_tensor_tensor ||
                      op == Opcode::activation || op == Opcode::reciprocal || op == Opcode::select ||
                      op == Opcode::tensor_reduce || op == Opcode::tensor_tensor_scan || op == Opcode::bn_aggr ||
                      op == Opcode::bn_stats || op == Opcode::max8 || op == Opcode::find_index8 || op == Opcode::top_k ||
                      op == Opcode::tensor_copy;
    nanoseconds = 100 + 30.0 * static_cast<double>(std::max(draft.dst.elements() * draft.dst.partitions,
                                                            draft.src0.elements() * draft.src0.partitions));
    if (op == Opcode::nc_matmul) nanoseconds *= draft.src0.partitions;
    for (const auto& [ref, offsets] : offsets_of()) fill_offsets(*ref, offsets);
  }

  void run(Context& c, uint32_t first, uint32_t last) override {
    Counters counters;
    std::copy(c.counters, c.counters + isa::kMaxLoops, counters.begin());
    Launch launch{c.launch->tensors, c.launch->pool};
    Execution e{program_, *draft_.instruction, counters, launch, {}, {}, {}, {}, {}, {}, {}, {}};
    const bool part = row_independent;
    resolve(c, draft_.dst, dst_, &e.dst, part, first, last);
    resolve(c, draft_.dst2, dst2_, &e.dst2, part, first, last);
    resolve(c, draft_.src0, src0_, &e.src0, part, first, last);
    resolve(c, draft_.src1, src1_, &e.src1, part, first, last);
    resolve(c, draft_.src2, src2_, &e.src2, part, first, last);
    resolve(c, draft_.indices, indices_, &e.index, part, first, last);
    e.scalar0.operand = &draft_.instruction->scalar0;
    e.scalar1.operand = &draft_.instruction->scalar1;
    resolve(c, draft_.scalar0, scalar0_, &e.scalar0.access, part && draft_.scalar0.partitions > 1, first, last);
    resolve(c, draft_.scalar1, scalar1_, &e.scalar1.access, part && draft_.scalar1.partitions > 1, first, last);
    const Status status = execute(e);
    if (!status.ok()) {
      if (!c.failed) c.out_of_range = launch.out_of_range;
      c.fail(status);
    }
  }

 private:
  std::vector<std::pair<const Ref*, std::vector<int64_t>*>> offsets_of() {
    return {{&draft_.dst, &dst_},         {&draft_.dst2, &dst2_},      {&draft_.src0, &src0_},
            {&draft_.src1, &src1_},       {&draft_.src2, &src2_},      {&draft_.scalar0, &scalar0_},
            {&draft_.scalar1, &scalar1_}, {&draft_.indices, &indices_}};
  }
  static void fill_offsets(const Ref& r, std::vector<int64_t>* out) {
    out->assign(1, 0);
    for (int d = 0; d < r.rank; ++d) {
      std::vector<int64_t> next;
      next.reserve(out->size() * r.dims[d].count);
      for (int64_t outer : *out)
        for (uint32_t i = 0; i < r.dims[d].count; ++i) next.push_back(outer + static_cast<int64_t>(i) * r.dims[d].stride);
      *out = std::move(next);
    }
  }
  static void resolve(const Context& c, const Ref& r, const std::vector<int64_t>& offsets, Operand* out, bool part,
                      uint32_t first, uint32_t last) {
    if (!r.present()) return;
    out->dtype = r.dtype;
    out->partitions = part ? last - first : r.partitions;
    out->count = offsets.size();
    out->base = address(r, c) + (part ? first * r.partition_stride : 0);
    out->partition_pitch = r.partition_stride;
    out->offsets = offsets;
  }

  const isa::Program& program_;
  Draft draft_;
  std::vector<int64_t> dst_, dst2_, src0_, src1_, src2_, scalar0_, scalar1_, indices_;
};

}  // namespace

NodePtr make_routine_node(const Build&, const Draft& draft) {
  switch (draft.instruction->opcode) {
    case Opcode::iota:
    case Opcode::random_bits:
      return make_pattern(draft);
    default:
      return nullptr;
  }
}

NodePtr make_general_node(const Build& build, const Draft& draft) { return std::make_unique<GeneralNode>(build, draft); }

}  // namespace neuron::emulator::plan
