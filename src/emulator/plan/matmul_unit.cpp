// bf16 and fp8 matmuls on hosts with a matrix unit. fp8 values are exact in bf16, so one kernel serves all.
#include <algorithm>

#include "emulator/interpreter/elements.h"
#include "emulator/kernels/kernel_table.h"
#include "emulator/plan/matmul.h"
#include "emulator/plan/run.h"
#include "isa/numerics.h"

namespace neuron::emulator::plan {
namespace {

constexpr uint32_t kUnitRows = 16;

uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

uint16_t to_bf16(DType type, const uint8_t* at) {
  if (type == DType::bf16) return elements::read<uint16_t>(at);
  return f32_to_bf16(load_element<float>(type, at));
}

// n elements of a row to contiguous bf16.
void row_to_bf16(uint16_t* out, const uint8_t* at, int64_t stride, DType type, uint32_t n) {
  if (type == DType::bf16 && stride == 2) {
    std::memcpy(out, at, n * size_t{2});
    return;
  }
  for (uint32_t i = 0; i < n; ++i) out[i] = to_bf16(type, at + static_cast<int64_t>(i) * stride);
}

class UnitMatmulNode final : public Node {
 public:
  Ref dst, a, b;
  bool a_direct = false, b_panels = false;
  int64_t panel_elements = 0;  // of b's tile
  uint32_t m = 0, n = 0, k = 0, segments = 1;
  int64_t a_segment_bytes = 0, b_segment_bytes = 0;
  bool accumulate = false;
  uint8_t accumulate_levels = 0;

  void run(Context& c, uint32_t, uint32_t) override {
    const bool adds = adds_to_result(accumulate, accumulate_levels, c);
    const uint32_t depth = round_up(k, isa::kMatrixUnitBlock), panels = (n + kUnitWidth - 1) / kUnitWidth;
    const size_t own_panel = size_t{depth} * kUnitWidth;
    const size_t a_elements = a_direct ? 0 : size_t{round_up(m, kUnitRows)} * depth * segments;
    const size_t b_elements = b_panels ? 0 : own_panel * panels * segments;
    uint16_t* a_packed = reinterpret_cast<uint16_t*>(matmul_scratch(c, (a_elements + b_elements) * 2 + 64));
    uint16_t* b_packed = a_packed + (a_elements + 31) / 32 * 32;

    UnitBlock t;
    const uint8_t* a_at = address(a, c);
    if (a_direct) {
      t.a = reinterpret_cast<const uint16_t*>(a_at);
      t.a_row = a.dims[0].stride / 2;
      t.a_segment = a_segment_bytes / 2;
    } else {
      pack_a(a_packed, a_at, depth);
      t.a = a_packed;
      t.a_row = static_cast<ptrdiff_t>(depth) * segments;
      t.a_segment = depth;
    }
    const uint8_t* b_at = address(b, c);
    if (b_panels) {
      t.b = reinterpret_cast<const uint16_t*>(b_at);
      t.b_panel = panel_elements;
      t.b_segment = b_segment_bytes / 2;
    } else {
      for (uint32_t s = 0; s < segments; ++s) {
        pack_unit_rows(b_packed + s * own_panel * panels, static_cast<ptrdiff_t>(own_panel), b_at + s * b_segment_bytes,
                       b.partition_stride, b.dims[0].stride, b.dtype, k, n, depth);
      }
      t.b = b_packed;
      t.b_panel = static_cast<ptrdiff_t>(own_panel);
      t.b_segment = static_cast<ptrdiff_t>(own_panel * panels);
    }
    t.c = reinterpret_cast<float*>(address(dst, c));
    t.c_row = dst.partition_stride / 4;
    t.n = static_cast<int>(n);
    t.k = static_cast<int>(depth);
    t.segments = static_cast<int>(segments);
    t.accumulate = adds;
    execute(c, t);
  }

 private:
  void execute(Context& c, const UnitBlock& t) const {
    const auto rows = [&](uint32_t first, uint32_t last) {
      UnitBlock part = t;
      part.a += first * t.a_row;
      part.c += first * t.c_row;
      part.m = static_cast<int>(last - first);
      kernels().unit_matmul(part);
    };
    const uint32_t blocks = (m + 2 * kUnitRows - 1) / (2 * kUnitRows);
    ThreadPool& pool = c.launch->pool;
    const uint32_t helpers = static_cast<uint32_t>(c.may_fork ? threads_for(c, nanoseconds) - 1 : pool.idle());
    const uint32_t pieces = std::min(helpers + 1, blocks);
    if (pieces < 2) return rows(0, m);
    const auto piece = [&](int64_t i) {
      const uint32_t first = static_cast<uint32_t>(blocks * i / pieces) * 2 * kUnitRows,
                     end = static_cast<uint32_t>(blocks * (i + 1) / pieces) * 2 * kUnitRows;
      rows(first, std::min(m, end));
    };
    if (c.may_fork)
      pool.parallel_for(pieces, [&](int64_t i, int) { piece(i); });
    else
      pool.share(pieces, piece);
  }

  void pack_a(uint16_t* out, const uint8_t* at, uint32_t depth) const {
    const size_t row = size_t{depth} * segments;
    for (uint32_t r = 0; r < round_up(m, kUnitRows); ++r) {
      for (uint32_t s = 0; s < segments; ++s) {
        uint16_t* to = out + r * row + s * depth;
        if (r < m) row_to_bf16(to, at + s * a_segment_bytes + r * a.dims[0].stride, a.partition_stride, a.dtype, k);
        std::fill(to + (r < m ? k : 0), to + depth, uint16_t{0});
      }
    }
  }
};

}  // namespace

void pack_unit_rows(uint16_t* out, ptrdiff_t panel_stride, const uint8_t* at, int64_t k_stride, int64_t n_stride, DType type,
                    uint32_t k, uint32_t n, uint32_t depth) {
  constexpr uint32_t width = kUnitWidth;
  const uint32_t panels = (n + width - 1) / width;
  if (type == DType::bf16 && n_stride == 2) {
    for (uint32_t r = 0; r < k; r += 2) {
      const auto* first = reinterpret_cast<const uint16_t*>(at + r * k_stride);
      const auto* second = r + 1 < k ? reinterpret_cast<const uint16_t*>(at + (r + 1) * k_stride) : nullptr;
      kernels().unit_pack_pair(out + static_cast<ptrdiff_t>(r) * width, first, second, static_cast<int>(n), panel_stride);
    }
  } else if (type == DType::bf16 && k_stride == 2 && k % 2 == 0 && n_stride % 4 == 0 &&
             reinterpret_cast<uintptr_t>(at) % 4 == 0) {
    // Neighbouring k's are pairs already: a transposition of 32-bit words.
    for (uint32_t p = 0; p < panels; ++p) {
      const uint32_t columns = std::min(width, n - p * width);
      auto* to = reinterpret_cast<uint32_t*>(out + p * panel_stride);
      if (columns < width) std::fill(to, to + k / 2 * width, 0u);
      kernels().transpose32(to, width, reinterpret_cast<const uint32_t*>(at + static_cast<int64_t>(p * width) * n_stride),
                            n_stride / 4, static_cast<int>(columns), static_cast<int>(k / 2));
    }
  } else {
    for (uint32_t p = 0; p < panels; ++p) {
      uint16_t* to = out + p * panel_stride;
      for (uint32_t r = 0; r < round_up(k, 2); ++r) {
        for (uint32_t j = 0; j < width; ++j) {
          const bool inside = r < k && p * width + j < n;
          to[r / 2 * 2 * width + 2 * j + r % 2] =
              inside ? to_bf16(type, at + r * k_stride + static_cast<int64_t>(p * width + j) * n_stride) : uint16_t{0};
        }
      }
    }
  }
  const uint32_t done = round_up(k, 2);
  for (uint32_t p = 0; p < panels; ++p)
    std::fill(out + p * panel_stride + done * width, out + p * panel_stride + depth * width, uint16_t{0});
}

NodePtr make_unit_matmul_node(const Build& build, const Draft& draft) {
  if (!kernels().unit_matmul || !is_matrix_unit_type(draft.src0.dtype) || !is_matrix_unit_type(draft.src1.dtype))
    return nullptr;
  const isa::Instruction& in = *draft.instruction;
  Ref dst = draft.dst, a = draft.src0, b = draft.src1;
  const TileLayout* layout = build.is_tile(b) ? &build.layouts[b.object - build.program->tensors.size()] : nullptr;
  const bool panels = layout && layout->panels;
  if (panels && !layout->unit) return nullptr;
  if (!flatten(&dst) || !flatten(&a) || (!panels && !flatten(&b))) return nullptr;
  auto node = std::make_unique<UnitMatmulNode>();
  node->dst = dst;
  node->a = a;
  node->b = b;
  node->m = dst.partitions;
  node->n = dst.dims[0].count;
  node->k = a.partitions;
  node->segments = draft.chain_segments;
  if (draft.chain_level >= 0) {
    node->a_segment_bytes = a.step_at(draft.chain_level);
    node->b_segment_bytes = b.step_at(draft.chain_level);
  }
  node->a_direct = a.dtype == DType::bf16 && (a.partition_stride == 2) && node->k % isa::kMatrixUnitBlock == 0 &&
                   node->m % kUnitRows == 0;
  node->b_panels = panels;
  if (panels) node->panel_elements = layout->panel_floats;
  node->accumulate = in.accumulate;
  node->accumulate_levels = in.accumulate_levels;
  node->nanoseconds = 150 + 0.001 * node->m * node->n * node->k * node->segments;
  return node;
}

}  // namespace neuron::emulator::plan
