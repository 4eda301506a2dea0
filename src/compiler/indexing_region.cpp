#include "compiler/indexing_region.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "compiler/op_table.h"
#include "compiler/tile_nest.h"
#include "isa/instruction_table.h"

namespace neuron::compiler {

namespace {

using isa::Access;
using isa::AluOp;
using isa::Dim;
using isa::Engine;

constexpr int64_t kPartitions = 128;
constexpr int64_t kTileElements = 4096;  // per partition of one transfer
constexpr int64_t kWideRow = 64;         // windows at least this long travel one per partition

// One index component: where it is read (over the batch dimensions) and what one step of it means.
struct IndexPart {
  Buffer buffer;
  DType dtype = DType::i64;
  View view;           // memory elements, over batch + window dimensions
  int64_t stride = 0;  // elements of the addressed tensor
  int64_t bound = 0;   // valid: 0 <= index < bound
};

// Elements of a dense space [batch.., window..] on one side, addressed elements on the other.
struct IndexedTransfer {
  std::vector<int64_t> extents;
  size_t batch = 0;  // number of leading batch dimensions
  std::vector<IndexPart> parts;
  bool clamp = false;  // indices are clamped; otherwise checked
  isa::OobMode oob = isa::OobMode::error;
  Buffer addressed;
  View addressed_view;  // without the indices
  Buffer plain;         // the other side
  View plain_view;
  DType dtype = DType::f32;
  ir::Reducer combine = ir::Reducer::assign;
};

class IndexedEmitter {
 public:
  IndexedEmitter(EmitContext& context, IndexedTransfer transfer, bool scatter)
      : context_(context), b_(context.builder), t_(std::move(transfer)), scatter_(scatter) {}

  Status run() {
    std::vector<View*> views{&t_.addressed_view, &t_.plain_view};
    for (IndexPart& p : t_.parts) views.push_back(&p.view);
    std::vector<size_t> groups{t_.batch, t_.extents.size() - t_.batch};
    collapse_groups(t_.extents, groups, views);
    t_.batch = groups[0];
    combined_ = t_.parts.size() > 1 || t_.clamp;
    if (combined_) {  // element numbers count from the lowest address, also along flipped dimensions
      for (const IndexPart& p : t_.parts)
        if (p.stride < 0) t_.addressed_view.offset += p.stride * (p.bound - 1);
    }
    plan();
    TileNest nest(b_, t_.extents, plans_);
    std::vector<size_t> order;
    for (size_t d = t_.batch; d < t_.extents.size(); ++d) order.push_back(d);
    for (size_t d = 0; d < t_.batch; ++d) order.push_back(d);
    if (!scatter_) return nest.run(order, isa::LoopKind::affine, {}, [&](const Frame& f) { return move(f); });
    LoopFacts facts;
    facts.hbm_independent = false;
    return nest.run(order, isa::LoopKind::sequential, facts, [&](const Frame& f) { return move(f); });
  }

 private:
  // Free slots: at most one batch dimension (the fastest), then at most three window dimensions.
  void plan() {
    const size_t rank = t_.extents.size();
    plans_.assign(rank, {});
    int64_t window = 1;
    int slots = 0;
    size_t cut = rank;  // window dimension that is only partly in the tile
    for (size_t d = rank; d-- > t_.batch && slots < 3;) {
      const int64_t n = t_.extents[d], room = kTileElements / window;
      if (n <= room) {
        plans_[d] = {false, true, n};
        window *= n;
        ++slots;
        continue;
      }
      if (room > 1) {
        plans_[d] = {false, true, room};
        window *= room;
        cut = d;
      }
      break;
    }
    if (t_.batch > 0) {
      const size_t inner = t_.batch - 1;
      const int64_t n = t_.extents[inner];
      const int64_t most = window >= kWideRow ? 1 : std::max<int64_t>(1, std::min<int64_t>(512, kTileElements / window));
      DimPlan& p = plans_[inner];
      if (n <= most && t_.batch > 1) {
        p = {false, true, n};
        plans_[inner - 1].partition = true;
        return;
      }
      // Elements of the fastest batch dimension go over partitions, in order.
      const int64_t chunk = std::min(most, (n + kPartitions - 1) / kPartitions);
      p = {true, chunk > 1, chunk};
      if (n <= 8 && n <= most) p = {false, true, n};
      return;
    }
    // No batch: the window itself goes over partitions.
    size_t best = rank;
    int64_t blocks = 1;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t outside = plans_[d].slot ? t_.extents[d] / plans_[d].chunk : t_.extents[d];
      if (outside > blocks) best = d, blocks = outside;
    }
    if (best < rank) {
      plans_[best].partition = true;
    } else if (rank > 1 && t_.extents[0] > 1) {
      plans_[0] = {true, false, 1};
    }
    (void)cut;
  }

  Status move(const Frame& f) {
    NEURON_ASSIGN(Access index, index_tile(f));
    uint32_t all = 0, window = 0;
    for (size_t d = 0; d < t_.extents.size(); ++d) {
      if (f.dims[d].slot == kNoSlot) continue;
      all |= 1u << f.dims[d].slot;
      if (d >= t_.batch) window |= 1u << f.dims[d].slot;
    }
    int64_t elements = 1;
    for (int64_t s : f.slots) elements *= s;
    const auto unit = static_cast<int64_t>(size_of(t_.dtype));
    const uint32_t tile = b_.tile("rows", isa::Space::sbuf, f.partitions, elements * unit, 2);
    const Access rows = b_.dense(tile, t_.dtype, f.partitions, elements);
    // The addressed side: its first free dimension is the index's, written out even when it is 1.
    Access addressed = frame_memory(b_, f, t_.addressed, t_.dtype, t_.addressed_view, window, f.partitions);
    Dim first{1, 0};
    for (size_t d = 0; d < t_.batch; ++d)
      if (f.dims[d].slot != kNoSlot)
        first = {static_cast<uint32_t>(f.slots[static_cast<size_t>(f.dims[d].slot)]), t_.addressed_view.strides[d] * unit};
    if (addressed.rank >= isa::kMaxFreeDims) return internal_error("indexed transfer with too many dimensions");
    for (int k = addressed.rank; k > 0; --k)
      addressed.dims[static_cast<size_t>(k)] = addressed.dims[static_cast<size_t>(k) - 1];
    addressed.dims[0] = first;
    ++addressed.rank;
    const Access plain = frame_memory(b_, f, t_.plain, t_.dtype, t_.plain_view, all, f.partitions);
    if (!scatter_) {
      b_.dma_indirect(rows, addressed, index, index_stride_ * unit, index_bound_, t_.oob);
      b_.dma_store(plain, rows);
    } else {
      b_.dma_load(rows, plain);
      if (t_.combine == ir::Reducer::assign) {
        b_.dma_indirect(addressed, rows, index, index_stride_ * unit, index_bound_, t_.oob);
      } else {
        b_.scatter_reduce(isa::compute_type_for(t_.dtype), alu_op_of(t_.combine, t_.dtype), addressed, rows, index,
                          index_stride_ * unit, index_bound_, t_.oob);
      }
    }
    return {};
  }

  // [P, J] indices in units of index_stride_: one component as it is, or several combined into an element number.
  Result<Access> index_tile(const Frame& f) {
    int64_t j = 1;
    uint32_t slot = 0;
    for (size_t d = 0; d < t_.batch; ++d)
      if (f.dims[d].slot != kNoSlot) slot = 1u << f.dims[d].slot, j = f.slots[static_cast<size_t>(f.dims[d].slot)];
    const auto fresh = [&](DType dtype) {
      const uint32_t tile = b_.tile("index", isa::Space::sbuf, f.partitions, j * static_cast<int64_t>(size_of(dtype)), 2);
      return b_.dense(tile, dtype, f.partitions, j);
    };
    // The access of the index has exactly j elements; a tile that does not vary along the slot is read with stride 0.
    const auto load = [&](const IndexPart& p, DType dtype) {
      const bool varies = (frame_slots(f, p.view) & slot) != 0;
      Access a = fresh(dtype);
      Access target = a;
      if (!varies && j > 1) target.rank = 0;
      b_.dma_load(target, frame_memory(b_, f, p.buffer, p.dtype, p.view, slot & frame_slots(f, p.view), f.partitions));
      if (!varies && j > 1) a.dims[0].stride = 0;
      return a;
    };
    if (t_.parts.empty()) {
      Access a = fresh(DType::i64);
      b_.memset(Engine::gpsimd, DType::i64, a, ProgramBuilder::immediate_int(0));
      index_stride_ = 0;
      index_bound_ = 1;
      return a;
    }
    if (!combined_) {
      const IndexPart& p = t_.parts[0];
      index_stride_ = p.stride;
      index_bound_ = p.bound;
      const bool direct = p.dtype == DType::i32 || p.dtype == DType::i64 || p.dtype == DType::u32;
      return load(p, direct ? p.dtype : DType::i64);
    }
    index_stride_ = 1;
    index_bound_ = 1;
    Access total;
    Access valid;
    for (const IndexPart& p : t_.parts) {
      const Access x = load(p, DType::i64);
      index_bound_ += std::abs(p.stride) * (p.bound - 1);
      const int64_t shift = p.stride < 0 ? -p.stride * (p.bound - 1) : 0;
      const AluOp then = shift != 0 ? AluOp::add : AluOp::bypass;
      const isa::ScalarOperand by = shift != 0 ? ProgramBuilder::immediate_int(shift) : isa::ScalarOperand{};
      Access scaled = fresh(DType::i64);
      if (t_.clamp) {
        b_.tensor_scalar(Engine::gpsimd, DType::i64, scaled, x, AluOp::maximum, ProgramBuilder::immediate_int(0), false,
                         AluOp::minimum, ProgramBuilder::immediate_int(p.bound - 1));
        b_.tensor_scalar(Engine::gpsimd, DType::i64, scaled, scaled, AluOp::multiply,
                         ProgramBuilder::immediate_int(p.stride), false, then, by);
      } else {
        // Inside means clamping changes nothing.
        b_.tensor_scalar(Engine::gpsimd, DType::i64, scaled, x, AluOp::maximum, ProgramBuilder::immediate_int(0), false,
                         AluOp::minimum, ProgramBuilder::immediate_int(p.bound - 1));
        Access inside = fresh(DType::i64);
        b_.tensor_tensor(Engine::gpsimd, DType::i64, AluOp::equal, inside, scaled, x);
        b_.tensor_scalar(Engine::gpsimd, DType::i64, scaled, scaled, AluOp::multiply,
                         ProgramBuilder::immediate_int(p.stride), false, then, by);
        if (valid.present()) b_.tensor_tensor(Engine::gpsimd, DType::i64, AluOp::multiply, inside, inside, valid);
        valid = inside;
      }
      if (total.present()) b_.tensor_tensor(Engine::gpsimd, DType::i64, AluOp::add, scaled, scaled, total);
      total = scaled;
    }
    if (valid.present()) {  // outside in any component: -1, which no bound admits
      isa::Instruction select;
      select.opcode = isa::Opcode::select;
      select.engine = Engine::gpsimd;
      select.compute = DType::i64;
      Access checked = fresh(DType::i64);
      select.dst = checked;
      select.src0 = total;
      select.src2 = valid;
      select.scalar1 = ProgramBuilder::immediate_int(-1);
      b_.add(std::move(select));
      return checked;
    }
    return total;
  }

  EmitContext& context_;
  ProgramBuilder& b_;
  IndexedTransfer t_;
  bool scatter_;
  bool combined_ = false;  // several index components, or clamped ones: an element number is computed
  std::vector<DimPlan> plans_;
  int64_t index_stride_ = 0, index_bound_ = 0;  // of the index tile just made
};

bool contains(const std::vector<int64_t>& dims, size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
}

// The part of gather's and scatter's attributes that says how indices address the operand.
struct Addressing {
  const std::vector<int64_t>&window_dims, &removed, &batching, &index_batching, &map;
  int64_t index_vector_dim;
};

// Fills extents, batch dimensions, index parts and the addressed view. `outer` is the tensor whose dimensions are batch and
// window dimensions (gather's result, scatter's updates); `outer_strides` are its memory strides for plain_view.
void address(const Addressing& a, const Operand& target, const View& target_view, const Operand& indices,
             Buffer index_buffer, const std::vector<int64_t>& outer_shape, const View& outer,
             const std::vector<int64_t>& window_sizes, IndexedTransfer& t) {
  std::vector<size_t> batch, window;
  for (size_t d = 0; d < outer_shape.size(); ++d) (contains(a.window_dims, d) ? window : batch).push_back(d);
  const size_t rank = outer_shape.size();
  t.batch = batch.size();
  t.plain_view.offset = outer.offset;
  t.addressed_view.offset = target_view.offset;
  t.addressed_view.strides.assign(rank, 0);
  for (size_t k = 0; k < rank; ++k) {
    const size_t d = k < batch.size() ? batch[k] : window[k - batch.size()];
    t.extents.push_back(outer_shape[d]);
    t.plain_view.strides.push_back(outer.strides[d]);
  }
  // Window dimensions in order are the operand's dimensions that are neither removed nor batching.
  size_t w = batch.size();
  for (size_t d = 0; d < target.shape.size(); ++d)
    if (!contains(a.removed, d) && !contains(a.batching, d)) t.addressed_view.strides[w++] = target_view.strides[d];
  // Batch dimension k is the k-th dimension of the indices without index_vector_dim.
  std::vector<size_t> index_dim;
  for (size_t d = 0; d < indices.shape.size(); ++d)
    if (static_cast<int64_t>(d) != a.index_vector_dim) index_dim.push_back(d);
  for (size_t k = 0; k < a.batching.size(); ++k)
    for (size_t b = 0; b < index_dim.size(); ++b)
      if (static_cast<int64_t>(index_dim[b]) == a.index_batching[k])
        t.addressed_view.strides[b] += target_view.strides[static_cast<size_t>(a.batching[k])];
  for (size_t k = 0; k < a.map.size(); ++k) {
    IndexPart p;
    p.buffer = index_buffer;
    p.dtype = indices.stored;
    p.view.offset = indices.view.offset;
    if (a.index_vector_dim < static_cast<int64_t>(indices.shape.size()))
      p.view.offset += static_cast<int64_t>(k) * indices.view.strides[static_cast<size_t>(a.index_vector_dim)];
    p.view.strides.assign(rank, 0);
    for (size_t b = 0; b < index_dim.size(); ++b) p.view.strides[b] = indices.view.strides[index_dim[b]];
    const auto d = static_cast<size_t>(a.map[k]);
    p.stride = target_view.strides[d];
    p.bound = target.shape[d] - window_sizes[d] + 1;
    t.parts.push_back(std::move(p));
  }
}

}  // namespace

Status copy_operand(EmitContext& context, const Region& region, const Store& store) {
  const Operand& from = region.operands[0];
  Region copy;
  copy.node = region.node;
  Term load;
  load.kind = TermKind::load;
  load.dtype = from.stored;
  load.source = from.base;
  load.view.offset = from.view.offset;
  load.stores = 1;
  Store to = store;
  to.term = 0;
  to.view.strides.clear();
  for (size_t d = 0; d < from.shape.size(); ++d) {
    if (from.shape[d] == 1) continue;
    copy.expression.extents.push_back(from.shape[d]);
    load.view.strides.push_back(from.view.strides[d]);
    to.view.strides.push_back(store.view.strides[d]);
  }
  copy.expression.reduced.assign(copy.expression.extents.size(), 0);
  copy.expression.terms.push_back(std::move(load));
  copy.stores.push_back(std::move(to));
  return emit_loop_region(context, copy);
}

Status emit_gather(EmitContext& context, const Region& region) {
  const ir::Node& node = context.graph.nodes[static_cast<size_t>(region.node)];
  const auto& g = std::get<ir::GatherAttrs>(node.attrs);
  const Operand& from = region.operands[0];
  const Operand& indices = region.operands[1];
  for (const Store& store : region.stores) {
    IndexedTransfer t;
    t.dtype = from.stored;
    t.clamp = !g.check_bounds;
    t.addressed = context.buffer(from.base);
    t.plain = context.destination(store);
    address({g.offset_dims, g.collapsed_slice_dims, g.operand_batching_dims, g.start_indices_batching_dims,
             g.start_index_map, g.index_vector_dim},
            from, from.view, indices, context.buffer(indices.base), node.types[0].shape, store.view, g.slice_sizes, t);
    NEURON_RETURN_IF_ERROR(IndexedEmitter(context, std::move(t), false).run());
  }
  return {};
}

Status emit_scatter(EmitContext& context, const Region& region) {
  const ir::Node& node = context.graph.nodes[static_cast<size_t>(region.node)];
  const auto& s = std::get<ir::ScatterAttrs>(node.attrs);
  const Operand& target = region.operands[0];
  const Operand& indices = region.operands[1];
  const Operand& updates = region.operands[2];
  std::vector<int64_t> sizes(target.shape.size(), 1);
  size_t w = 0;
  for (size_t d = 0; d < target.shape.size(); ++d)
    if (!contains(s.inserted_window_dims, d) && !contains(s.input_batching_dims, d))
      sizes[d] = updates.shape[static_cast<size_t>(s.update_window_dims[w++])];
  if (!s.check_bounds) {
    for (int64_t d : s.scatter_dims_to_operand_dims)
      if (sizes[static_cast<size_t>(d)] != 1)
        return unsupported("scatter that drops parts of windows: " + ir::to_string(node.types[0]));
  }
  for (const Store& store : region.stores) {
    if (!region.in_place) NEURON_RETURN_IF_ERROR(copy_operand(context, region, store));
    IndexedTransfer t;
    t.dtype = target.stored;
    t.oob = s.check_bounds ? isa::OobMode::error : isa::OobMode::skip;
    t.combine = s.combine;
    t.addressed = context.destination(store);
    t.plain = context.buffer(updates.base);
    address({s.update_window_dims, s.inserted_window_dims, s.input_batching_dims, s.scatter_indices_batching_dims,
             s.scatter_dims_to_operand_dims, s.index_vector_dim},
            target, store.view, indices, context.buffer(indices.base), updates.shape, updates.view, sizes, t);
    NEURON_RETURN_IF_ERROR(IndexedEmitter(context, std::move(t), true).run());
  }
  return {};
}

namespace {

// dynamic_slice and dynamic_update_slice: no batch, one clamped start per dimension that can move.
IndexedTransfer dynamic_transfer(EmitContext& context, const Region& region, size_t first_start,
                                 const std::vector<int64_t>& whole, const std::vector<int64_t>& sizes, const View& addressed,
                                 const View& plain) {
  IndexedTransfer t;
  t.clamp = true;
  t.extents = sizes;
  t.addressed_view = addressed;
  t.plain_view = plain;
  for (size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] == sizes[d]) continue;
    const Operand& start = region.operands[first_start + d];
    IndexPart p;
    p.buffer = context.buffer(start.base);
    p.dtype = start.stored;
    p.view.offset = start.view.offset;
    p.view.strides.assign(sizes.size(), 0);
    p.stride = addressed.strides[d];
    p.bound = whole[d] - sizes[d] + 1;
    t.parts.push_back(std::move(p));
  }
  return t;
}

}  // namespace

Status emit_dynamic_slice(EmitContext& context, const Region& region) {
  const ir::Node& node = context.graph.nodes[static_cast<size_t>(region.node)];
  const Operand& from = region.operands[0];
  for (const Store& store : region.stores) {
    IndexedTransfer t = dynamic_transfer(context, region, 1, from.shape, node.types[0].shape, from.view, store.view);
    t.dtype = from.stored;
    t.addressed = context.buffer(from.base);
    t.plain = context.destination(store);
    NEURON_RETURN_IF_ERROR(IndexedEmitter(context, std::move(t), false).run());
  }
  return {};
}

Status emit_dynamic_update_slice(EmitContext& context, const Region& region) {
  const Operand& target = region.operands[0];
  const Operand& update = region.operands[1];
  for (const Store& store : region.stores) {
    if (!region.in_place) NEURON_RETURN_IF_ERROR(copy_operand(context, region, store));
    if (!update.base.present()) continue;  // an empty update
    IndexedTransfer t = dynamic_transfer(context, region, 2, target.shape, update.shape, store.view, update.view);
    t.dtype = target.stored;
    t.addressed = context.destination(store);
    t.plain = context.buffer(update.base);
    NEURON_RETURN_IF_ERROR(IndexedEmitter(context, std::move(t), true).run());
  }
  return {};
}

}  // namespace neuron::compiler
