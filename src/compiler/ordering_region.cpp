#include "compiler/ordering_region.h"

#include <algorithm>

#include "compiler/op_table.h"
#include "compiler/tile_nest.h"
#include "isa/instruction_table.h"

namespace neuron::compiler {

namespace {

using isa::Access;
using isa::AluOp;
using isa::Engine;

constexpr int64_t kScanChunk = 2048;
constexpr int64_t kExactInF32 = int64_t{1} << 24;

// The other dimensions (rows) and the line itself, of an operand and up to two results.
struct Lines {
  std::vector<int64_t> rows;  // extents
  View from;                  // over rows; `from_step` along the line
  int64_t from_step = 0, length = 1;
  std::vector<View> to;  // one per store
  std::vector<int64_t> to_step;
};

Lines make_lines(const Region& region, size_t dim) {
  Lines l;
  const Operand& x = region.operands[0];
  l.length = x.shape[dim];
  l.from.offset = x.view.offset;
  l.from_step = x.view.strides[dim];
  for (const Store& s : region.stores) {
    l.to.push_back({s.view.offset, {}});
    l.to_step.push_back(s.view.strides[dim]);
  }
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (d == dim) continue;
    l.rows.push_back(x.shape[d]);
    l.from.strides.push_back(x.view.strides[d]);
    for (size_t s = 0; s < region.stores.size(); ++s) l.to[s].strides.push_back(region.stores[s].view.strides[d]);
  }
  std::vector<View*> views{&l.from};
  for (View& v : l.to) views.push_back(&v);
  std::vector<size_t> groups{l.rows.size()};
  collapse_groups(l.rows, groups, views);
  return l;
}

// Rows on partitions, the longest row dimension; the rest are loops.
std::vector<DimPlan> row_plans(const Lines& l, std::vector<size_t>& order) {
  std::vector<DimPlan> plans(l.rows.size());
  size_t best = 0;
  for (size_t d = 0; d < l.rows.size(); ++d) {
    order.push_back(d);
    if (l.rows[d] > l.rows[best]) best = d;
  }
  if (!plans.empty()) plans[best].partition = true;
  return plans;
}

// The line (or `count` elements of it from `start`) of the frame's rows.
Access line_access(const ProgramBuilder& b, const Frame& f, Buffer buffer, DType dtype, const View& view, int64_t step,
                   const Index& start, int64_t count) {
  const auto unit = static_cast<int64_t>(size_of(dtype));
  Access a = frame_memory(b, f, buffer, dtype, view, 0, f.partitions);
  const Index offset = start * (step * unit);
  a.offset += offset.base;
  for (size_t k = 0; k < a.loop_step.size(); ++k) a.loop_step[k] += offset.coefficient[k];
  if (count > 1) {
    a.rank = 1;
    a.dims[0] = {static_cast<uint32_t>(count), step * unit};
  }
  return a;
}

class ScanEmitter {
 public:
  ScanEmitter(EmitContext& context, const Region& region)
      : context_(context),
        b_(context.builder),
        region_(region),
        node_(context.graph.nodes[static_cast<size_t>(region.node)]),
        attrs_(std::get<ir::ScanAttrs>(node_.attrs)),
        lines_(make_lines(region, static_cast<size_t>(attrs_.dim))),
        dtype_(region.operands[0].stored) {
    if (attrs_.reverse) {
      lines_.from.offset += lines_.from_step * (lines_.length - 1);
      lines_.from_step = -lines_.from_step;
      for (size_t s = 0; s < lines_.to.size(); ++s) {
        lines_.to[s].offset += lines_.to_step[s] * (lines_.length - 1);
        lines_.to_step[s] = -lines_.to_step[s];
      }
    }
    running_ = is_floating(dtype_) && size_of(dtype_) < 4 ? DType::f32 : dtype_;
    compute_ = isa::compute_type_for(dtype_);
    engine_ = compute_ == DType::f32 ? Engine::vector : Engine::gpsimd;
    position_ = lines_.length < kExactInF32 ? DType::f32 : DType::i64;
    with_index_ = std::any_of(region.stores.begin(), region.stores.end(), [](const Store& s) { return s.result == 1; });
  }

  Status run() {
    std::vector<size_t> order;
    TileNest nest(b_, lines_.rows, row_plans(lines_, order));
    return nest.run(order, isa::LoopKind::affine, {}, [&](const Frame& f) { return rows(f); });
  }

 private:
  Access one(DType dtype, int64_t partitions) {
    return b_.dense(b_.tile("carry", isa::Space::sbuf, partitions, static_cast<int64_t>(size_of(dtype))), dtype, partitions,
                    1);
  }

  Status rows(const Frame& f) {
    carry_ = {};
    if (lines_.length > kScanChunk) {
      carry_ = one(running_, f.partitions);
      b_.memset(engine_, compute_, carry_, identity_of(attrs_.reducer, dtype_));
      if (with_index_) {
        position_carry_ = one(position_, f.partitions);
        b_.memset(position_engine(), position_, position_carry_, ProgramBuilder::immediate(0.0));
      }
    }
    b_.for_tiles(lines_.length, kScanChunk, isa::LoopKind::sequential, [&](const TileIndex& t) { chunk(f, t); });
    return {};
  }

  Engine position_engine() const { return position_ == DType::f32 ? Engine::vector : Engine::gpsimd; }

  Access fresh(DType dtype, int64_t partitions, int64_t count) {
    return b_.dense(b_.tile("scan", isa::Space::sbuf, partitions, count * static_cast<int64_t>(size_of(dtype)), 2), dtype,
                    partitions, count);
  }

  static Access last_of(Access a, int64_t count) {
    if (a.rank > 0) a.offset += (count - 1) * a.dims[0].stride;
    a.rank = 0;
    return a;
  }

  // The instruction's line needs a free dimension even for one element.
  static Access as_line(Access a, int64_t count, DType dtype) {
    if (a.rank == 0) {
      a.rank = 1;
      a.dims[0] = {static_cast<uint32_t>(count), static_cast<int64_t>(size_of(dtype))};
    }
    return a;
  }

  void chunk(const Frame& f, const TileIndex& t) {
    const Access x = fresh(dtype_, f.partitions, t.count);
    b_.dma_load(x, line_access(b_, f, context_.buffer(region_.operands[0].base), dtype_, lines_.from, lines_.from_step,
                               t.start, t.count));
    const Access y = fresh(running_, f.partitions, t.count);
    const AluOp op = alu_op_of(attrs_.reducer, dtype_);
    const isa::ScalarOperand start = carry_.present() ? ProgramBuilder::scalar(carry_) : identity_of(attrs_.reducer, dtype_);
    b_.tensor_tensor_scan(engine_, compute_, as_line(y, t.count, running_), as_line(x, t.count, dtype_), op, start);
    if (carry_.present()) copy(engine_, compute_, carry_, last_of(y, t.count));
    Access index;
    if (with_index_) index = positions(f, t, x, y);
    for (size_t s = 0; s < region_.stores.size(); ++s) {
      const Store& store = region_.stores[s];
      const bool value = store.result == 0;
      const Access& from = value ? y : index;
      b_.dma_store(line_access(b_, f, context_.destination(store), value ? dtype_ : DType::i64, lines_.to[s],
                               lines_.to_step[s], t.start, t.count),
                   from);
    }
  }

  void copy(Engine engine, DType compute, const Access& dst, const Access& src) {
    b_.tensor_copy(engine, compute, dst, src);
  }

  // Where the running value was met last: the greatest step (from 1) at which the element equals it, NaN equal to NaN.
  Access positions(const Frame& f, const TileIndex& t, const Access& x, const Access& y) {
    const Engine e = position_engine();
    Access hit = fresh(DType::f32, f.partitions, t.count);
    if (compute_ != DType::f32) hit = fresh(position_, f.partitions, t.count);
    b_.tensor_tensor(engine_, compute_, AluOp::equal, hit, x, y);
    if (is_floating(dtype_)) {
      const Access nan = fresh(hit.dtype, f.partitions, t.count);
      b_.tensor_tensor(engine_, compute_, AluOp::not_equal, nan, x, x);
      b_.tensor_tensor(e, position_, AluOp::maximum, hit, hit, nan);
    }
    const Access steps = as_line(fresh(position_, f.partitions, t.count), t.count, position_);
    isa::IndexPattern pattern;
    pattern.base = t.start.base + 1;
    pattern.loop_step = t.start.coefficient;
    pattern.step[0] = 1;
    b_.iota(steps, pattern);
    b_.tensor_tensor(e, position_, AluOp::multiply, hit, hit, steps);
    const Access run = fresh(position_, f.partitions, t.count);
    const isa::ScalarOperand start =
        carry_.present() ? ProgramBuilder::scalar(position_carry_) : ProgramBuilder::immediate(0.0);
    b_.tensor_tensor_scan(e, position_, as_line(run, t.count, position_), as_line(hit, t.count, hit.dtype), AluOp::maximum,
                          start);
    if (carry_.present()) copy(e, position_, position_carry_, last_of(run, t.count));
    const Access out = fresh(position_, f.partitions, t.count);
    if (attrs_.reverse) {
      b_.tensor_scalar(e, position_, out, run, AluOp::subtract,
                       ProgramBuilder::immediate(static_cast<double>(lines_.length)), true);
    } else {
      b_.tensor_scalar(e, position_, out, run, AluOp::subtract, ProgramBuilder::immediate(1.0));
    }
    return out;
  }

  EmitContext& context_;
  ProgramBuilder& b_;
  const Region& region_;
  const ir::Node& node_;
  const ir::ScanAttrs& attrs_;
  Lines lines_;
  DType dtype_, running_ = DType::f32, compute_ = DType::f32, position_ = DType::f32;
  Engine engine_ = Engine::vector;
  bool with_index_ = false;
  Access carry_, position_carry_;
};

}  // namespace

Status emit_scan(EmitContext& context, const Region& region) { return ScanEmitter(context, region).run(); }

namespace {

// Rows longer than a partition: operand and results of the routine lie in HBM; a result nobody needs goes to scratch.
Status order_in_memory(EmitContext& context, const Region& region, const Lines& l, const Frame& f, int64_t k, bool largest) {
  ProgramBuilder& b = context.builder;
  const Operand& x = region.operands[0];
  Access results[2];
  for (size_t s = 0; s < region.stores.size(); ++s) {
    const int32_t r = region.stores[s].result;
    results[r] = line_access(b, f, context.destination(region.stores[s]), r == 0 ? x.stored : DType::i64, l.to[s],
                             l.to_step[s], 0, k);
  }
  for (int r = 0; r < 2; ++r) {
    if (results[r].present()) continue;
    int64_t rows = 1;
    for (int64_t e : l.rows) rows *= e;
    const DType dtype = r == 0 ? x.stored : DType::i64;
    const View dense{0, [&] {
                       std::vector<int64_t> strides = dense_strides(l.rows);
                       for (int64_t& v : strides) v *= k;
                       return strides;
                     }()};
    results[r] = line_access(b, f, {b.scratch("order", dtype, {rows, k}), 0}, dtype, dense, 1, 0, k);
  }
  b.top_k(isa::compute_type_for(x.stored), results[0], results[1],
          line_access(b, f, context.buffer(x.base), x.stored, l.from, l.from_step, 0, l.length), largest);
  return {};
}

}  // namespace

Status emit_order(EmitContext& context, const Region& region) {
  const ir::Node& node = context.graph.nodes[static_cast<size_t>(region.node)];
  ProgramBuilder& b = context.builder;
  const Operand& x = region.operands[0];
  const bool sort = node.op == ir::Op::sort;
  const size_t dim = sort ? static_cast<size_t>(std::get<ir::SortAttrs>(node.attrs).dim) : x.shape.size() - 1;
  const bool largest = sort ? std::get<ir::SortAttrs>(node.attrs).descending : std::get<ir::TopKAttrs>(node.attrs).largest;
  const DType dtype = x.stored;
  if (x.shape.empty()) {  // one element
    return unsupported(std::string(ir::name_of(node.op)) + " of a 0-dimensional tensor");
  }
  const Lines l = make_lines(region, dim);
  const int64_t k = node.types[0].shape[dim];
  const auto unit = static_cast<int64_t>(size_of(dtype));
  const int64_t bytes = l.length * unit + k * (unit + 8);
  std::vector<size_t> order;
  TileNest nest(b, l.rows, row_plans(l, order));
  if (bytes > context.sbuf_budget() || l.length > 65535) {  // the routine reads and writes memory itself
    return nest.run(order, isa::LoopKind::affine, {},
                    [&](const Frame& f) -> Status { return order_in_memory(context, region, l, f, k, largest); });
  }
  const uint32_t buffers = 2 * bytes <= context.sbuf_budget() ? 2 : 1;
  return nest.run(order, isa::LoopKind::affine, {}, [&](const Frame& f) -> Status {
    const Access row =
        b.dense(b.tile("row", isa::Space::sbuf, f.partitions, l.length * unit, buffers), dtype, f.partitions, l.length);
    const Access values =
        b.dense(b.tile("values", isa::Space::sbuf, f.partitions, k * unit, buffers), dtype, f.partitions, k);
    const Access indices =
        b.dense(b.tile("indices", isa::Space::sbuf, f.partitions, k * 8, buffers), DType::i64, f.partitions, k);
    b.dma_load(row, line_access(b, f, context.buffer(x.base), dtype, l.from, l.from_step, 0, l.length));
    b.top_k(isa::compute_type_for(dtype), values, indices, row, largest);
    for (size_t s = 0; s < region.stores.size(); ++s) {
      const Store& store = region.stores[s];
      const bool value = store.result == 0;
      b.dma_store(line_access(b, f, context.destination(store), value ? dtype : DType::i64, l.to[s], l.to_step[s], 0, k),
                  value ? values : indices);
    }
    return {};
  });
}

}  // namespace neuron::compiler
