// Copies that keep the bytes, transposes, gathers and scatters.
#include <algorithm>

#include "emulator/interpreter/scalar_operations.h"
#include "emulator/kernels/kernel_table.h"
#include "emulator/plan/strips.h"

namespace neuron::emulator::plan {

NodePtr make_converting_copy(const Build& build, const Draft& draft, bool flat);

namespace {

using isa::Opcode;

void copy_bytes(uint8_t* d, const uint8_t* s, size_t n) {
  if (n >= 64 && n <= 16384) {  // rows: the vector loop beats a call into libc's dispatch on size
    const size_t floats = n / 4;
    kernels().load[static_cast<int>(DType::f32)](reinterpret_cast<float*>(d), s, floats);
    if (n % 4) std::memcpy(d + floats * 4, s + floats * 4, n % 4);
  } else {
    std::memcpy(d, s, n);
  }
}

template <class E>
void copy_strided(uint8_t* d, int64_t ds, const uint8_t* s, int64_t ss, size_t n) {
  for (size_t i = 0; i < n; ++i) std::memcpy(d + static_cast<int64_t>(i) * ds, s + static_cast<int64_t>(i) * ss, sizeof(E));
}
struct Sixteen {
  uint8_t bytes[16];
};

// Equal dtypes: a nest of loops around runs of elements.
class CopyNode final : public Node {
 public:
  Space space;
  Ref dst, src;
  size_t size = 4;

  void run(Context& c, uint32_t first, uint32_t last) override {
    uint32_t counts[kMaxRank];
    for (int d = 0; d < space.rank; ++d) counts[d] = space.counts[d];
    counts[0] = (last - first) * space.per_partition;
    uint8_t* d = address(dst, c) + static_cast<int64_t>(first) * space.partition_strides[0];
    const uint8_t* s = address(src, c) + static_cast<int64_t>(first) * space.partition_strides[1];
    walk(counts, 0, d, s);
  }

 private:
  void walk(const uint32_t* counts, int dim, uint8_t* d, const uint8_t* s) {
    const int64_t ds = space.strides[0][dim], ss = space.strides[1][dim];
    const uint32_t n = counts[dim];
    if (dim + 1 == space.rank) return copy_run(d, ds, s, ss, n);
    if (dim + 2 == space.rank && size == 4 && ss == 4 && space.strides[0][dim + 1] == 4 && n >= 4 && counts[dim + 1] >= 4) {
      // dst rows run along the last dim, src rows along this one: a transposition.
      kernels().transpose32(reinterpret_cast<uint32_t*>(d), ds / 4, reinterpret_cast<const uint32_t*>(s),
                            space.strides[1][dim + 1] / 4, static_cast<int>(counts[dim + 1]), static_cast<int>(n));
      return;
    }
    for (uint32_t i = 0; i < n; ++i, d += ds, s += ss) walk(counts, dim + 1, d, s);
  }
  void copy_run(uint8_t* d, int64_t ds, const uint8_t* s, int64_t ss, size_t n) const {
    const int64_t step = static_cast<int64_t>(size);
    if (ds == step && ss == step) return copy_bytes(d, s, n * size);
    switch (size) {
      case 1:
        return copy_strided<uint8_t>(d, ds, s, ss, n);
      case 2:
        return copy_strided<uint16_t>(d, ds, s, ss, n);
      case 4:
        return copy_strided<uint32_t>(d, ds, s, ss, n);
      case 8:
        return copy_strided<uint64_t>(d, ds, s, ss, n);
      default:
        return copy_strided<Sixteen>(d, ds, s, ss, n);
    }
  }
};

NodePtr make_plain_copy(const Draft& draft, bool flat) {
  auto node = std::make_unique<CopyNode>();
  const Ref* refs[] = {&draft.dst, &draft.src0};
  const bool ok = flat ? make_flat_space(refs, &node->space) : make_space(refs, draft.dst.partitions, true, &node->space);
  if (!ok) return nullptr;
  node->dst = draft.dst;
  node->src = draft.src0;
  node->size = size_of(draft.dst.dtype);
  node->partitions = flat ? 1 : draft.dst.partitions;
  node->row_independent = !flat;
  const double bytes = static_cast<double>(draft.dst.elements() * draft.dst.partitions * node->size);
  node->nanoseconds =
      10 + bytes * (node->space.strides[0][node->space.rank - 1] == static_cast<int64_t>(node->size) ? 0.05 : 0.5);
  return node;
}

// dst[f, p] = src[p, f].
NodePtr make_transpose(const Draft& draft) {
  // As a copy: the destination's partitions are walked with the source's free dim.
  if (draft.src0.rank > 1 || draft.dst.rank > 1) return nullptr;
  auto node = std::make_unique<CopyNode>();
  const int64_t size = static_cast<int64_t>(size_of(draft.dst.dtype));
  Space& s = node->space;
  s.rank = 3;
  s.operands = 2;
  s.counts[0] = 1;
  s.counts[1] = draft.src0.rank ? draft.src0.dims[0].count : 1;  // dst partitions
  s.counts[2] = draft.src0.partitions;                           // dst free elements
  s.strides[0][1] = draft.dst.partition_stride;
  s.strides[0][2] = draft.dst.rank ? draft.dst.dims[0].stride : size;
  s.strides[1][1] = draft.src0.rank ? draft.src0.dims[0].stride : 0;
  s.strides[1][2] = draft.src0.partition_stride;
  if (draft.dst.partitions != s.counts[1] || draft.dst.elements() != s.counts[2]) return nullptr;
  node->dst = draft.dst;
  node->src = draft.src0;
  node->size = static_cast<size_t>(size);
  node->nanoseconds = 10 + static_cast<double>(s.counts[1]) * s.counts[2] * 0.6;
  return node;
}

// --- rows chosen by an index tile ---

class IndirectNode final : public Node {
 public:
  Ref hbm, tile, index;
  bool is_gather = true;
  bool reduce = false;
  isa::OobMode oob = isa::OobMode::error;
  int64_t index_stride = 0, index_bound = 0;
  uint32_t per_row = 1;  // elements of a row
  int64_t hbm_step = 0;  // between rows j of the HBM pattern
  ElementKernel combine = nullptr;
  LoadKernel load_hbm = nullptr, load_tile = nullptr;
  StoreKernel store_hbm = nullptr;
  uint64_t hbm_bytes = 0;
  std::string where, label;

  void run(Context& c, uint32_t first, uint32_t last) override {
    uint8_t* h = address(hbm, c);
    uint8_t* t = address(tile, c);
    const uint8_t* ix = address(index, c);
    const int64_t step = index.rank ? index.dims[0].stride : 0;
    const uint32_t rows = static_cast<uint32_t>(index.elements());
    const size_t hbm_row = per_row * size_of(hbm.dtype), tile_row = per_row * size_of(tile.dtype);
    for (uint32_t p = first; p < last; ++p) {
      for (uint32_t j = 0; j < rows; ++j) {
        const int64_t i = load_element<int64_t>(index.dtype, ix + p * index.partition_stride + j * step);
        if (i < 0 || i >= index_bound) {
          if (oob == isa::OobMode::skip) continue;
          return out_of_bound(c, i);
        }
        uint8_t* h_at = h + p * hbm.partition_stride + j * hbm_step + i * index_stride;
        uint8_t* t_at = t + p * tile.partition_stride + static_cast<int64_t>(j * tile_row);
        const uint8_t* start = c.bases[hbm.object];
        if (h_at < start || h_at + hbm_row > start + hbm_bytes)
          return c.fail(internal_error(where + ": indirect access leaves the tensor"));
        if (reduce)
          combine_row(c, h_at, t_at);
        else if (is_gather)
          copy_bytes(t_at, h_at, hbm_row);
        else
          copy_bytes(h_at, t_at, hbm_row);
      }
    }
  }

 private:
  void combine_row(Context& c, uint8_t* h, const uint8_t* t) {
    float *x = c.buffer<float>(0), *y = c.buffer<float>(1);
    const size_t hs = size_of(hbm.dtype), ts = size_of(tile.dtype);
    for (uint32_t i = 0; i < per_row; i += kStrip) {
      const uint32_t n = std::min<uint32_t>(kStrip, per_row - i);
      if (hbm.dtype == DType::f32 && tile.dtype == DType::f32) {
        float* at = reinterpret_cast<float*>(h) + i;
        combine(at, at, reinterpret_cast<const float*>(t) + i, at, 1, 1, 1, n);
        continue;
      }
      load_hbm(x, h + i * hs, n);
      load_tile(y, t + i * ts, n);
      combine(x, x, y, x, 1, 1, 1, n);
      store_hbm(h + i * hs, x, n);
    }
  }
  void out_of_bound(Context& c, int64_t i) {
    if (c.failed) return;
    c.out_of_range = {label, i, index_bound};
    c.fail(out_of_range(where + ": index " + std::to_string(i) + " is out of range, valid are 0 <= index < " +
                        std::to_string(index_bound)));
  }
};

bool dense(const Ref& r, int from) {
  int64_t expected = static_cast<int64_t>(size_of(r.dtype));
  for (int d = r.rank - 1; d >= from; --d) {
    if (r.dims[d].count != 1 && r.dims[d].stride != expected) return false;
    expected *= r.dims[d].count;
  }
  return true;
}

NodePtr make_indirect(const Build& build, const Draft& draft) {
  const isa::Instruction& in = *draft.instruction;
  auto node = std::make_unique<IndirectNode>();
  node->reduce = in.opcode == Opcode::scatter_reduce;
  node->is_gather = !node->reduce && in.src0.space == isa::Space::hbm;
  node->hbm = node->is_gather ? draft.src0 : draft.dst;
  node->tile = node->is_gather ? draft.dst : draft.src0;
  node->index = draft.indices;
  if (!node->reduce && node->hbm.dtype != node->tile.dtype) return nullptr;
  if (node->hbm.rank < 1 || draft.indices.rank > 1 || node->hbm.dims[0].count != draft.indices.elements()) return nullptr;
  if (!dense(node->hbm, 1) || !dense(node->tile, 0)) return nullptr;
  node->per_row = static_cast<uint32_t>(node->hbm.elements() / draft.indices.elements());
  node->hbm_step = node->hbm.dims[0].stride;
  if (node->tile.elements() != node->hbm.elements()) return nullptr;
  if (node->reduce) {
    if (in.compute != DType::f32) return nullptr;
    node->combine = kernels().alu[static_cast<int>(in.op0)];
    node->load_hbm = kernels().load[static_cast<int>(node->hbm.dtype)];
    node->load_tile = kernels().load[static_cast<int>(node->tile.dtype)];
    node->store_hbm = kernels().store[static_cast<int>(node->hbm.dtype)];
    if (!node->combine || !node->load_hbm || !node->load_tile || !node->store_hbm) return nullptr;
  }
  node->oob = in.oob;
  node->index_stride = in.index_stride;
  node->index_bound = in.index_bound;
  node->hbm_bytes = build.program->tensors[node->hbm.object].bytes;
  node->label = build.program->labels.size() > in.label ? build.program->labels[in.label] : "";
  node->where = node->label.empty() ? "indirect access" : "indirect access (" + node->label + ")";
  node->partitions = draft.indices.partitions;
  // Gathers write their own rows. Scatters may hit one row twice and must keep the order.
  node->row_independent = node->is_gather;
  node->nanoseconds = static_cast<double>(draft.indices.elements()) * draft.indices.partitions * (10 + node->per_row * 0.1);
  return node;
}

}  // namespace

NodePtr make_copy_node(const Build& build, const Draft& draft) {
  const isa::Instruction& in = *draft.instruction;
  switch (in.opcode) {
    case Opcode::scatter_reduce:
      return make_indirect(build, draft);
    case Opcode::dma_copy:
      if (draft.indices.present()) return make_indirect(build, draft);
      break;
    case Opcode::tensor_copy:
      break;
    case Opcode::dma_transpose:
    case Opcode::nc_transpose:
      return draft.src0.dtype == draft.dst.dtype ? make_transpose(draft) : nullptr;
    default:
      return nullptr;
  }
  const bool flat = draft.src0.partitions != draft.dst.partitions || draft.src0.elements() != draft.dst.elements();
  if (draft.src0.dtype == draft.dst.dtype) return make_plain_copy(draft, flat);
  return make_converting_copy(build, draft, flat);
}

}  // namespace neuron::emulator::plan
