// nc_matmul and the packing of its moving operand.
//
// A chain (a folded sequential loop of accumulating instructions) runs as one kernel call per kDepth of k. The stationary
// operand is read in place when it is f32 with rows or columns contiguous, else packed to f32 rows. The moving operand is
// read from packed tiles (TileLayout::panels), else packed per call. matrix-unit order (bf16, fp8) needs k padded to 32.
#include "emulator/plan/matmul.h"

#include <algorithm>

#include "emulator/interpreter/scalar_operations.h"
#include "emulator/kernels/kernel_table.h"
#include "emulator/plan/run.h"
#include "emulator/plan/strips.h"
#include "isa/numerics.h"

namespace neuron::emulator::plan {

bool adds_to_result(bool accumulate, uint8_t levels, const Context& c) {
  for (int l = 0; l < isa::kMaxLoops; ++l) accumulate = accumulate || ((levels >> l & 1) && c.counters[l] > 0);
  return accumulate;
}

bool is_matrix_unit_type(DType t) { return t == DType::bf16 || t == DType::f8e4m3fn || t == DType::f8e5m2; }

bool flatten(Ref* r) {
  uint64_t count = 1;
  int64_t stride = 0;
  if (!r->single_run(&count, &stride)) return false;
  r->rank = 1;
  r->dims[0] = {static_cast<uint32_t>(count), stride};
  return true;
}

namespace {

using isa::Opcode;

constexpr int kDepth = 512;         // k per kernel call: a panel of this depth stays in L2
constexpr size_t kRowPadding = 16;  // floats between packed rows: rows a power of two apart would share a few cache sets

int round_up(int n, int to) { return (n + to - 1) / to * to; }

// One row of n elements to f32.
void row_to_f32(float* out, const uint8_t* at, int64_t stride, DType type, uint32_t n) {
  const LoadKernel load = kernels().load[static_cast<int>(type)];
  const int64_t size = static_cast<int64_t>(size_of(type));
  if (stride == size) return load(out, at, n);
  if (size == 4) {
    for (uint32_t i = 0; i < n; ++i) std::memcpy(out + i, at + static_cast<int64_t>(i) * stride, 4);
    if (type != DType::f32) load(out, out, n);
    return;
  }
  alignas(64) uint8_t raw[256];
  for (uint32_t i = 0; i < n; i += 64) {
    const uint32_t count = std::min<uint32_t>(64, n - i);
    for (uint32_t k = 0; k < count; ++k)
      std::memcpy(raw + k * size, at + static_cast<int64_t>(i + k) * stride, static_cast<size_t>(size));
    load(out + i, raw, count);
  }
}

// rows x columns elements to f32 rows of `out_row` floats, whichever of the two dims is contiguous.
void matrix_to_f32(float* out, int64_t out_row, const uint8_t* at, int64_t row_stride, int64_t column_stride, DType type,
                   uint32_t rows, uint32_t columns, float* scratch) {
  const int64_t size = static_cast<int64_t>(size_of(type));
  if (column_stride == size || row_stride != size) {
    for (uint32_t r = 0; r < rows; ++r) row_to_f32(out + r * out_row, at + r * row_stride, column_stride, type, columns);
    return;
  }
  if (type == DType::f32) {
    kernels().transpose32(reinterpret_cast<uint32_t*>(out), out_row, reinterpret_cast<const uint32_t*>(at),
                          column_stride / 4, static_cast<int>(columns), static_cast<int>(rows));
    return;
  }
  // Contiguous along rows: convert lines of up to 128, then transpose.
  for (uint32_t r = 0; r < rows; r += 128) {
    const uint32_t n = std::min<uint32_t>(128, rows - r);
    for (uint32_t c0 = 0; c0 < columns; c0 += 64) {
      const uint32_t c1 = std::min(columns, c0 + 64);
      for (uint32_t c = c0; c < c1; ++c)
        row_to_f32(scratch + (c - c0) * 128, at + r * row_stride + c * column_stride, row_stride, type, n);
      kernels().transpose32(reinterpret_cast<uint32_t*>(out + r * out_row + c0), out_row,
                            reinterpret_cast<const uint32_t*>(scratch), 128, static_cast<int>(c1 - c0), static_cast<int>(n));
    }
  }
}
constexpr size_t kTransposeScratch = 64 * 128;
constexpr size_t kBesides = 4;
constexpr int kShares = 4;  // pieces of rows when idle workers help

class MatmulNode final : public Node {
 public:
  Ref dst, a, b;          // a: [k, m], b: [k, n]
  bool unit = false;      // matrix-unit order
  bool a_direct = false;  // f32, read in place
  bool b_panels = false;
  int64_t panel_floats = 0;  // of b's tile
  uint32_t m = 0, n = 0, k = 0, segments = 1;
  int64_t a_segment_bytes = 0, b_segment_bytes = 0;
  bool accumulate = false;
  uint8_t accumulate_levels = 0;

  void fetch_for_next(const std::vector<Ref>& refs) override {
    for (Ref r : refs) {
      if (next_.size() < kBesides && r.dtype == DType::f32 && r.partitions == m && flatten(&r) && r.dims[0].count == n &&
          r.dims[0].stride == 4)
        next_.push_back(r);
    }
  }

  void run(Context& c, uint32_t, uint32_t) override {
    const bool adds = adds_to_result(accumulate, accumulate_levels, c);
    const int width = kernels().panel_width;
    const uint32_t depth = unit ? static_cast<uint32_t>(round_up(static_cast<int>(k), isa::kMatrixUnitBlock)) : k;
    const uint32_t panels = (n + width - 1) / width;
    const uint32_t per_call = std::clamp<uint32_t>(kDepth / depth, 1, segments);
    const int pieces = row_pieces(c);
    const int scratches = std::max(pieces, kShares);
    const size_t own_panel = size_t{depth} * width;  // floats, when packed here
    const size_t a_row = size_t{depth} * per_call + kRowPadding;
    const size_t a_floats = a_direct ? 0 : a_row * m;
    const size_t b_floats = b_panels ? 0 : own_panel * panels * segments;
    float* scratch = matmul_scratch(c, (a_floats + b_floats + kTransposeScratch * static_cast<size_t>(scratches)) * 4 + 64);
    float* a_packed = scratch + kTransposeScratch * static_cast<size_t>(scratches);
    float* b_packed = a_packed + a_floats;

    MatmulBlock t;
    const uint8_t* a_at = address(a, c);
    if (a_direct) {
      t.a = reinterpret_cast<const float*>(a_at);
      t.a_row = a.dims[0].stride / 4;
      t.a_column = a.partition_stride / 4;
      t.a_segment = a_segment_bytes / 4;
    } else {
      t.a = a_packed;
      t.a_row = static_cast<ptrdiff_t>(a_row);
      t.a_column = 1;
      t.a_segment = depth;
    }
    const uint8_t* b_at = address(b, c);
    if (b_panels) {
      t.b = reinterpret_cast<const float*>(b_at);
      t.b_panel = panel_floats;
      t.b_segment = b_segment_bytes / 4;
    } else {
      pack_b(b_packed, b_at, depth, panels, scratch);
      t.b = b_packed;
      t.b_panel = static_cast<ptrdiff_t>(own_panel);
      t.b_segment = static_cast<ptrdiff_t>(own_panel) * panels;
    }
    t.c = reinterpret_cast<float*>(address(dst, c));
    t.c_row = dst.partition_stride / 4;
    t.n = static_cast<int>(n);
    t.k = static_cast<int>(depth);
    Beside beside[kBesides];
    for (const Ref& r : next_) beside[t.besides++] = {reinterpret_cast<const char*>(address(r, c)), r.partition_stride};
    t.beside = beside;
    if (pieces == 1) return shared_rows(c.launch->pool, t, a_at, per_call, adds, scratch);
    c.launch->pool.parallel_for(pieces, [&](int64_t i, int) {
      for (uint32_t s = 0; s < segments; s += per_call)
        rows(t, a_at, static_cast<uint32_t>(m * i / pieces), static_cast<uint32_t>(m * (i + 1) / pieces), s, per_call, adds,
             scratch + i * kTransposeScratch);
    });
  }

 private:
  // Into how many pieces of rows this goes: to the pool when nothing else is parallel.
  int row_pieces(const Context& c) const {
    return m > 12 ? std::min<int>(threads_for(c, nanoseconds), static_cast<int>(m) / 6) : 1;
  }

  // All rows, from inside a parallel region: alone, or with workers that have run out of work.
  void shared_rows(ThreadPool& pool, const MatmulBlock& t, const uint8_t* a_at, uint32_t per_call, bool adds,
                   float* scratch) const {
    for (uint32_t s = 0; s < segments; s += per_call) {
      if (pool.idle() == 0 || m < 12 * kShares) {
        rows(t, a_at, 0, m, s, per_call, adds, scratch);
        continue;
      }
      const uint32_t piece = static_cast<uint32_t>(round_up(static_cast<int>(m + kShares - 1) / kShares, 6));
      pool.share((m + piece - 1) / piece, [&](int64_t i) {
        const uint32_t first = static_cast<uint32_t>(i) * piece;
        rows(t, a_at, first, std::min(m, first + piece), s, per_call, adds, scratch + i * kTransposeScratch);
      });
    }
  }

  // Rows [first, last), segments [s, s + per_call): kDepth along k. Packing goes piece by piece too, so that what is packed
  // is still in L2.
  void rows(const MatmulBlock& t, const uint8_t* a_at, uint32_t first, uint32_t last, uint32_t s, uint32_t per_call,
            bool adds, float* scratch) const {
    const MatmulKernel kernel = unit ? kernels().matmul_matrix_unit : kernels().matmul_chain;
    const uint32_t count = std::min(per_call, segments - s);
    MatmulBlock part = t;
    part.a += first * t.a_row;
    part.c += first * t.c_row;
    part.m = static_cast<int>(last - first);
    if (a_direct)
      part.a += s * t.a_segment;
    else
      pack_a(const_cast<float*>(part.a), a_at, first, last, s, count, static_cast<uint32_t>(t.k), t.a_row, scratch);
    part.b += s * t.b_segment;
    part.segments = static_cast<int>(count);
    part.accumulate = adds || s > 0;
    Beside beside[kBesides];
    if (s + count < segments) part.besides = 0;
    for (int o = 0; o < part.besides; ++o) beside[o] = {t.beside[o].at + first * t.beside[o].row, t.beside[o].row};
    part.beside = beside;
    // After the last piece the next block of rows most likely begins again.
    part.b_next = s + per_call < segments ? part.b + per_call * t.b_segment : t.b;
    kernel(part);
  }

  std::vector<Ref> next_;  // fetch_for_next

  // Rows [first, last) of `count` segments from `segment` on, a row's segments side by side.
  void pack_a(float* out, const uint8_t* at, uint32_t first, uint32_t last, uint32_t segment, uint32_t count, uint32_t depth,
              ptrdiff_t row, float* scratch) const {
    at += first * a.dims[0].stride + segment * a_segment_bytes;
    for (uint32_t s = 0; s < count; ++s, out += depth, at += a_segment_bytes) {
      matrix_to_f32(out, row, at, a.dims[0].stride, a.partition_stride, a.dtype, last - first, k, scratch);
      for (uint32_t r = 0; depth > k && r < last - first; ++r) std::fill(out + r * row + k, out + r * row + depth, 0.0f);
    }
  }
  void pack_b(float* out, const uint8_t* at, uint32_t depth, uint32_t panels, float* scratch) const {
    const int width = kernels().panel_width;
    const ptrdiff_t panel = static_cast<ptrdiff_t>(depth) * width;
    for (uint32_t s = 0; s < segments; ++s, out += panel * panels) {
      pack_rows(out, panel, at + s * b_segment_bytes, b.partition_stride, b.dims[0].stride, b.dtype, k, n, scratch);
      for (uint32_t p = 0; p < panels && depth > k; ++p)
        std::fill(out + p * panel + static_cast<ptrdiff_t>(k) * width, out + (p + 1) * panel, 0.0f);
    }
  }
};

// Double and 64-bit integer and complex matmuls: row times matrix, k ascending.
template <class T>
class WideMatmulNode final : public Node {
 public:
  Ref dst, a, b;
  Load load_a = nullptr, load_b = nullptr, load_c = nullptr;
  Store store = nullptr;
  uint32_t m = 0, n = 0, k = 0;
  bool accumulate = false;
  uint8_t accumulate_levels = 0;

  void run(Context& c, uint32_t, uint32_t) override {
    const bool adds = adds_to_result(accumulate, accumulate_levels, c);
    T* rows = reinterpret_cast<T*>(matmul_scratch(c, (size_t{k} * n + n) * sizeof(T) + 64));
    T* sum = rows + size_t{k} * n;
    const uint8_t* b_at = address(b, c);
    for (uint32_t i = 0; i < k; ++i)
      read(rows + size_t{i} * n, b_at + i * b.partition_stride, b.dims[0].stride, size_of(b.dtype), n, load_b);
    const uint8_t* a_at = address(a, c);
    uint8_t* d_at = address(dst, c);
    const int64_t step = dst.dims[0].stride;
    for (uint32_t r = 0; r < m; ++r) {
      uint8_t* d = d_at + r * dst.partition_stride;
      if (adds)
        read(sum, d, step, size_of(dst.dtype), n, load_c);
      else
        std::fill(sum, sum + n, T{});
      for (uint32_t i = 0; i < k; ++i) {
        T w;
        load_a(&w, a_at + i * a.partition_stride + r * a.dims[0].stride, 1);
        add_row(sum, w, rows + size_t{i} * n);
      }
      for (uint32_t j = 0; j < n; ++j) store(d + j * step, sum + j, 1);
    }
  }

 private:
  void add_row(T* sum, T w, const T* x) const {
    if constexpr (std::is_same_v<T, double>) {
      kernels().fma_row_f64(sum, w, x, n);
    } else {
      for (uint32_t j = 0; j < n; ++j) sum[j] = multiply_add(w, x[j], sum[j]);
    }
  }
  static void read(T* out, const uint8_t* at, int64_t stride, size_t size, uint32_t n, Load load) {
    if (stride == static_cast<int64_t>(size)) return load(out, at, n);
    for (uint32_t j = 0; j < n; ++j) load(out + j, at + static_cast<int64_t>(j) * stride, 1);
  }
};

template <class T>
NodePtr make_wide(const Draft& draft, const Ref& dst, const Ref& a, const Ref& b) {
  auto node = std::make_unique<WideMatmulNode<T>>();
  node->dst = dst;
  node->a = a;
  node->b = b;
  node->load_a = loader<T>(a.dtype);
  node->load_b = loader<T>(b.dtype);
  node->load_c = loader<T>(dst.dtype);
  node->store = storer<T>(dst.dtype);
  node->m = dst.partitions;
  node->n = dst.dims[0].count;
  node->k = a.partitions;
  node->accumulate = draft.instruction->accumulate;
  node->accumulate_levels = draft.instruction->accumulate_levels;
  node->nanoseconds = 50 + 1.0 * node->m * node->n * node->k;
  return node;
}

// A DMA into a tile that is held as panels.
class PackNode final : public Node {
 public:
  Ref dst, src;
  bool unit = false;       // for the matrix unit
  bool zero_tail = false;  // rows up to a multiple of 32
  uint32_t k = 0, n = 0;
  int outer_rank = 0;  // segments: dims in front of the columns
  uint32_t outer_counts[kMaxRank] = {};
  int64_t outer_source[kMaxRank] = {}, outer_target[kMaxRank] = {};
  int64_t k_stride = 0, n_stride = 0;  // of src
  int64_t panel_floats = 0;

  void run(Context& c, uint32_t, uint32_t) override {
    const uint32_t lines = (k + kLines - 1) / kLines;
    const uint32_t pieces = std::min(lines, static_cast<uint32_t>(threads_for(c, nanoseconds)));
    float* scratch = matmul_scratch(c, kTransposeScratch * pieces * 4 + 64);
    const uint8_t* from = address(src, c);
    uint8_t* to = address(dst, c);
    if (pieces == 1) return outer(0, from, to, 0, k, scratch);
    c.launch->pool.parallel_for(pieces, [&](int64_t i, int) {
      const uint32_t first = static_cast<uint32_t>(lines * i / pieces) * kLines,
                     last = static_cast<uint32_t>(lines * (i + 1) / pieces) * kLines;
      outer(0, from, to, first, std::min(k, last), scratch + i * kTransposeScratch);
    });
  }

 private:
  static constexpr uint32_t kLines = isa::kMatrixUnitBlock;  // k's that are packed together

  // Lines [first, last) of k; whoever packs the last line also fills up with zeros.
  [[gnu::noinline]] void outer(int dim, const uint8_t* s, uint8_t* d, uint32_t first, uint32_t last, float* scratch) const {
    if (dim < outer_rank) {
      for (uint32_t i = 0; i < outer_counts[dim]; ++i, s += outer_source[dim], d += outer_target[dim])
        outer(dim + 1, s, d, first, last, scratch);
      return;
    }
    s += first * k_stride;
    const uint32_t count = last - first,
                   padded = last == k ? static_cast<uint32_t>(round_up(static_cast<int>(count), kLines)) : count;
    if (unit) {
      auto* out = reinterpret_cast<uint16_t*>(d) + size_t{first} * kUnitWidth;
      return pack_unit_rows(out, panel_floats, s, k_stride, n_stride, src.dtype, count, n, padded);
    }
    const uint32_t width = static_cast<uint32_t>(kernels().panel_width);
    float* out = reinterpret_cast<float*>(d) + size_t{first} * width;
    pack_rows(out, panel_floats, s, k_stride, n_stride, src.dtype, count, n, scratch);
    for (uint32_t p = 0; zero_tail && padded > count && p < (n + width - 1) / width; ++p)
      std::fill(out + p * panel_floats + count * width, out + p * panel_floats + padded * width, 0.0f);
  }
};

}  // namespace

float* matmul_scratch(Context& c, size_t bytes) {
  if (c.matmul_scratch.size() < bytes + 64) c.matmul_scratch.resize(bytes + 64);
  return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(c.matmul_scratch.data()) + 63) / 64 * 64);
}

void pack_rows(float* out, ptrdiff_t panel_stride, const uint8_t* at, int64_t k_stride, int64_t n_stride, DType type,
               uint32_t k, uint32_t n, float* scratch) {
  const int width = kernels().panel_width;
  const int64_t size = static_cast<int64_t>(size_of(type));
  if (n_stride == size && (type == DType::f32 || type == DType::bf16)) {
    for (uint32_t r = 0; r < k; ++r, at += k_stride, out += width) {
      if (type == DType::f32)
        kernels().pack_f32(out, reinterpret_cast<const float*>(at), static_cast<int>(n), panel_stride);
      else
        kernels().pack_bf16(out, reinterpret_cast<const uint16_t*>(at), static_cast<int>(n), panel_stride);
    }
    return;
  }
  for (uint32_t j = 0; j < n; j += static_cast<uint32_t>(width), out += panel_stride) {
    const uint32_t columns = std::min<uint32_t>(static_cast<uint32_t>(width), n - j);
    matrix_to_f32(out, width, at + j * n_stride, k_stride, n_stride, type, k, columns, scratch);
    for (uint32_t r = 0; columns < static_cast<uint32_t>(width) && r < k; ++r)
      std::fill(out + r * width + columns, out + (r + 1) * width, 0.0f);
  }
}

NodePtr make_matmul_node(const Build& build, const Draft& draft) {
  const isa::Instruction& in = *draft.instruction;
  if (in.opcode != Opcode::nc_matmul) return nullptr;
  Ref dst = draft.dst, a = draft.src0, b = draft.src1;
  const bool panels = build.is_tile(b) && build.layouts[b.object - build.program->tensors.size()].panels;
  if (!flatten(&dst) || !flatten(&a) || (!panels && !flatten(&b))) return nullptr;
  switch (in.compute) {
    case DType::f32:
      break;
    case DType::f64:
      return make_wide<double>(draft, dst, a, b);
    case DType::i64:
      return make_wide<int64_t>(draft, dst, a, b);
    case DType::u64:
      return make_wide<uint64_t>(draft, dst, a, b);
    case DType::c64:
      return make_wide<c64>(draft, dst, a, b);
    case DType::c128:
      return make_wide<c128>(draft, dst, a, b);
    default:
      return nullptr;
  }
  if (dst.dtype != DType::f32 || (dst.dims[0].count > 1 && dst.dims[0].stride != 4) || dst.partition_stride % 4 != 0)
    return nullptr;
  if (!kernels().load[static_cast<int>(a.dtype)] || !kernels().load[static_cast<int>(b.dtype)]) return nullptr;
  if (NodePtr unit = make_unit_matmul_node(build, draft)) return unit;
  auto node = std::make_unique<MatmulNode>();
  node->dst = dst;
  node->a = a;
  node->b = b;
  node->unit = is_matrix_unit_type(a.dtype) && is_matrix_unit_type(draft.src1.dtype);
  node->m = dst.partitions;
  node->n = dst.dims[0].count;
  node->k = a.partitions;
  node->segments = draft.chain_segments;
  if (draft.chain_level >= 0) {
    node->a_segment_bytes = a.step_at(draft.chain_level);
    node->b_segment_bytes = b.step_at(draft.chain_level);
  }
  // With one row either way counts as contiguous; a k-major operand is one whose rows m are neighbours.
  const bool row_major = a.partition_stride == 4, k_major = a.dims[0].stride == 4 && a.partition_stride % 4 == 0;
  // k-major lines lie a whole row apart and would be fetched again by every block of rows: worth it for narrow results only.
  node->a_direct =
      a.dtype == DType::f32 && !node->unit && (row_major || (k_major && node->n <= 64)) && a.dims[0].stride % 4 == 0;
  node->b_panels = panels;
  if (panels) node->panel_floats = build.layouts[b.object - build.program->tensors.size()].panel_floats;
  node->accumulate = in.accumulate;
  node->accumulate_levels = in.accumulate_levels;
  node->nanoseconds = 50 + 0.012 * node->m * node->n * node->k * node->segments;
  return node;
}

// --- panels ---

namespace {

// The access's columns are its last dim (contiguous, `columns` of them) and everything else moves by whole segments.
bool walks_segments(const Ref& r, uint32_t columns) {
  const int64_t size = static_cast<int64_t>(size_of(r.dtype)), segment = size * columns;
  if (r.row_offset % segment != 0 || r.partition_start != 0) return false;
  for (int s = 0; s < r.step_count; ++s) {
    if (r.steps[s].bytes % segment != 0) return false;
  }
  int last = r.rank - 1;
  while (last >= 0 && r.dims[last].count == 1) --last;
  if (last < 0) return columns == 1;
  if (r.dims[last].stride != size || r.dims[last].count % columns != 0) return false;
  for (int d = 0; d < last; ++d) {
    if (r.dims[d].count > 1 && r.dims[d].stride % segment != 0) return false;
  }
  return true;
}

void redirect(Ref* r, const TileLayout& layout, uint32_t columns) {
  const int64_t segment = static_cast<int64_t>(size_of(r->dtype)) * columns;
  r->offset = r->row_offset / segment * layout.segment_bytes;
  for (int s = 0; s < r->step_count; ++s) r->steps[s].bytes = r->steps[s].bytes / segment * layout.segment_bytes;
  r->buffer_bytes = layout.buffer_bytes;
}

bool pack_tile(Build& build, uint32_t object) {
  const isa::Tile& tile = build.program->tiles[object - build.program->tensors.size()];
  TileLayout& layout = build.layouts[object - build.program->tensors.size()];
  std::vector<Draft*> writers, readers;
  uint32_t columns = 0;
  bool unit = false, all_unit = true;
  for (Draft& d : build.drafts) {
    if (d.removed || (!d.reads(object) && !d.writes(object))) continue;
    const Opcode op = d.instruction->opcode;
    if (d.writes(object)) {
      if ((op != Opcode::dma_copy && op != Opcode::dma_transpose) || d.reads(object) || d.indices.present()) return false;
      if (d.dst.dtype != d.src0.dtype || d.dst.partitions > tile.partitions) return false;
      writers.push_back(&d);
      continue;
    }
    if (op != Opcode::nc_matmul || d.instruction->compute != DType::f32 || d.src0.object == object ||
        d.src1.object != object)
      return false;
    const uint32_t n = static_cast<uint32_t>(d.src1.elements());
    if (columns == 0) columns = n;
    if (n != columns) return false;
    const bool on_unit = is_matrix_unit_type(d.src0.dtype) && is_matrix_unit_type(d.src1.dtype);
    unit = unit || on_unit;
    all_unit = all_unit && on_unit;
    readers.push_back(&d);
  }
  if (readers.empty() || writers.empty()) return false;
  const DType type = readers.front()->src1.dtype;
  if (!kernels().load[static_cast<int>(type)]) return false;
  const int64_t segment = static_cast<int64_t>(size_of(type)) * columns;
  const int64_t segments = (static_cast<int64_t>(tile.bytes_per_partition) + segment - 1) / segment;
  for (Draft* d : readers) {
    if (d->src1.dtype != type || !walks_segments(d->src1, columns)) return false;
  }
  for (Draft* d : writers) {
    if (d->dst.dtype != type || !walks_segments(d->dst, columns)) return false;
    const Ref &t = d->dst, &s = d->src0;
    if (d->instruction->opcode == Opcode::dma_transpose) {
      if (t.elements() != columns || s.rank > 1 || s.elements() != t.partitions) return false;
    } else if (s.partitions != t.partitions || s.elements() != t.elements()) {
      return false;
    }
  }
  // Source and destination must have the same dims once the columns are split off.
  std::vector<Space> spaces(writers.size());
  for (size_t i = 0; i < writers.size(); ++i) {
    if (writers[i]->instruction->opcode == Opcode::dma_transpose) continue;
    const Ref* refs[] = {&writers[i]->dst, &writers[i]->src0};
    Space& space = spaces[i];
    if (!make_space(refs, writers[i]->dst.partitions, false, &space)) return false;
    if (space.rank > isa::kMaxFreeDims + 1) return false;
    const int last = space.rank - 1;
    if (last == 0 ? columns != 1 : space.counts[last] % columns != 0) return false;
    if (space.counts[last] != columns && space.rank > isa::kMaxFreeDims) return false;
  }
  const int width = kernels().panel_width;
  layout.panels = true;
  layout.columns = columns;
  layout.dtype = type;
  layout.panel_floats = static_cast<int64_t>(round_up(static_cast<int>(tile.partitions), 32)) * width;
  layout.segment_bytes = layout.panel_floats * 4 * ((columns + width - 1) / width);
  if (all_unit && kernels().unit_matmul) {
    layout.unit = true;
    layout.panel_floats = int64_t{round_up(static_cast<int>(tile.partitions), isa::kMatrixUnitBlock)} * kUnitWidth;
    layout.segment_bytes = layout.panel_floats * 2 * ((columns + kUnitWidth - 1) / kUnitWidth);
  }
  layout.buffer_bytes = layout.segment_bytes * segments;
  layout.total_bytes = layout.buffer_bytes * layout.buffers;
  layout.row_bytes = 0;
  for (Draft* d : readers) {
    redirect(&d->src1, layout, columns);
    if (d->src1.rank == 0) d->src1.dims[d->src1.rank++] = {1, 0};
  }
  for (size_t i = 0; i < writers.size(); ++i) {
    Draft& d = *writers[i];
    redirect(&d.dst, layout, columns);
    d.pack_zero_tail = unit;
    if (d.instruction->opcode != Opcode::dma_transpose) d.pack_space = std::make_shared<Space>(spaces[i]);
  }
  return true;
}

}  // namespace

void choose_panels(Build& build) {
  const size_t tensors = build.program->tensors.size();
  std::vector<bool> seen(build.program->tiles.size());
  for (size_t i = 0; i < build.drafts.size(); ++i) {
    const Draft& d = build.drafts[i];
    if (d.removed || d.instruction->opcode != Opcode::nc_matmul || !build.is_tile(d.src1)) continue;
    const uint32_t object = d.src1.object;
    if (!seen[object - tensors]) pack_tile(build, object);
    seen[object - tensors] = true;
  }
}

NodePtr make_pack_node(const Build& build, const Draft& draft) {
  if (!build.is_tile(draft.dst)) return nullptr;
  const TileLayout& layout = build.layouts[draft.dst.object - build.program->tensors.size()];
  if (!layout.panels) return nullptr;
  auto node = std::make_unique<PackNode>();
  node->dst = draft.dst;
  node->src = draft.src0;
  node->zero_tail = draft.pack_zero_tail;
  node->unit = layout.unit;
  node->k = draft.dst.partitions;
  node->n = layout.columns;
  node->panel_floats = layout.panel_floats;
  if (draft.instruction->opcode == Opcode::dma_transpose) {
    node->k_stride = draft.src0.rank ? draft.src0.dims[0].stride : 0;
    node->n_stride = draft.src0.partition_stride;
  } else {
    const Space& s = *draft.pack_space;
    const int64_t segment = static_cast<int64_t>(size_of(layout.dtype)) * layout.columns;
    const int last = s.rank - 1;
    node->k_stride = s.partition_strides[1];
    node->n_stride = last > 0 ? s.strides[1][last] : 0;
    for (int d = 1; d < last; ++d) {
      node->outer_counts[node->outer_rank] = s.counts[d];
      node->outer_source[node->outer_rank] = s.strides[1][d];
      node->outer_target[node->outer_rank++] = s.strides[0][d] / segment * layout.segment_bytes;
    }
    if (last > 0 && s.counts[last] != layout.columns) {  // several whole segments in one run
      node->outer_counts[node->outer_rank] = s.counts[last] / layout.columns;
      node->outer_source[node->outer_rank] = s.strides[1][last] * layout.columns;
      node->outer_target[node->outer_rank++] = layout.segment_bytes;
    }
  }
  node->partitions = node->k;
  double elements = static_cast<double>(node->k) * node->n;
  for (int d = 0; d < node->outer_rank; ++d) elements *= node->outer_counts[d];
  node->nanoseconds = 20 + 0.3 * elements;
  return node;
}

}  // namespace neuron::emulator::plan
