// Emission of loop regions: loops around tiles, values hoisted to the outermost loop they depend on, reductions by rows (in
// one pass, or in passes over chunks of long rows) or across partitions.
//
// Order of summation of an add reduction. Rows: the 16-lane order of tensor_reduce inside a chunk, chunks added in ascending
// order to a running value that starts at the identity (a single chunk is taken as it is). Columns: the same per partition,
// then over partitions in ascending order (f32: one nc_matmul with a stationary vector of ones).
#include <algorithm>

#include "compiler/loop_tiling.h"
#include "compiler/op_table.h"
#include "compiler/tile_emitter.h"
#include "isa/instruction_table.h"

namespace neuron::compiler {

namespace {

using isa::Access;
using isa::AluOp;
using isa::Dim;
using isa::Engine;
using isa::Opcode;

class LoopEmitter {
 public:
  LoopEmitter(EmitContext& context, const Region& region, const LoopTiling& tiling)
      : context_(context),
        builder_(context.builder),
        region_(region),
        e_(region.expression),
        tiling_(tiling),
        phase_(e_.phases()),
        varies_(e_.varies()) {}

  Status run() {
    for (size_t d = 0; d < e_.rank(); ++d) {
      pieces_.push_back(pieces(e_.extents[d], tiling_.dims[d]));
      (e_.reduced[d] ? inner_ : outer_).push_back(d);
    }
    chunked_ = false;
    for (size_t d : inner_)
      chunked_ = chunked_ || pieces_[d].size() > 1 || pieces_[d][0].loops > 1 || tiling_.dims[d].partition;
    number_slots();
    std::vector<const DimPiece*> choice(e_.rank(), nullptr);
    return choose_outer(0, choice);
  }

 private:
  void number_slots() {
    frame_.dims.resize(e_.rank());
    int slot = 0;
    for (size_t d = 0; d < e_.rank(); ++d)
      if (tiling_.dims[d].slot) frame_.dims[d].slot = slot++;
    frame_.slots.assign(static_cast<size_t>(slot), 1);
  }

  void apply(size_t d, const DimPiece& p) {
    DimTile& t = frame_.dims[d];
    t.start = p.start;
    t.partition_step = p.partition_step;
    if (t.slot != kNoSlot) frame_.slots[static_cast<size_t>(t.slot)] = p.chunk;
    if (tiling_.dims[d].partition) frame_.partitions = p.partitions;
  }

  // Every combination of pieces of the outer dimensions is a loop nest of its own (full tiles, then tails).
  Status choose_outer(size_t at, std::vector<const DimPiece*>& choice) {
    if (at < outer_.size()) {
      for (const DimPiece& p : pieces_[outer_[at]]) {
        choice[outer_[at]] = &p;
        NEURON_RETURN_IF_ERROR(choose_outer(at + 1, choice));
      }
      return {};
    }
    frame_.partitions = 1;
    for (size_t d : outer_) apply(d, *choice[d]);
    for (size_t d : inner_) {  // rows: the only piece, or chunk loops set it; columns: hoisted values serve the widest piece
      apply(d, pieces_[d][0]);
      choice[d] = &pieces_[d][0];
    }
    TileEmitter tile(context_, e_, frame_);
    tile.set_buffers(tiling_.dma_buffers, tiling_.other_buffers);
    return open_outer(0, choice, tile);
  }

  // Opens the loops of the outer dimensions one by one; before each, computes what does not depend on it.
  Status open_outer(size_t at, const std::vector<const DimPiece*>& choice, TileEmitter& tile) {
    while (at < outer_.size() && choice[outer_[at]]->loops == 1) ++at;
    if (at == outer_.size()) return body(tile);
    const size_t d = outer_[at];
    uint64_t inside = inner_mask();
    for (size_t k = at; k < outer_.size(); ++k)
      if (choice[outer_[k]]->loops > 1) inside |= 1ull << outer_[k];
    NEURON_RETURN_IF_ERROR(hoist(tile, chunked_ ? inside : inside & ~inner_mask(), 0));
    Status status;
    const DimPiece& p = *choice[d];
    builder_.loop(p.loops, isa::LoopKind::affine, [&](int level) {
      const std::vector<OnChip> outside = tile.save();
      frame_.dims[d].start = Index(p.start) + Index::of_loop(level, p.loop_step);
      tile.set_frame(frame_);
      status = open_outer(at + 1, choice, tile);
      tile.restore(outside);
      frame_.dims[d].start = p.start;
      tile.set_frame(frame_);
    });
    return status;
  }

  uint64_t inner_mask() const {
    uint64_t m = 0;
    for (size_t d : inner_) m |= 1ull << d;
    return m;
  }

  // Makes available every term of at most this phase that varies along none of the dimensions `inside` and that a term that
  // does vary along one of them reads.
  Status hoist(TileEmitter& tile, uint64_t inside, int phase) {
    if (inside == 0) return {};
    std::vector<uint8_t> wanted(e_.terms.size(), 0);
    for (size_t t = 0; t < e_.terms.size(); ++t)
      if ((varies_[t] & inside) != 0 || e_.terms[t].kind == TermKind::reduce)
        for (int32_t i : e_.terms[t].inputs)
          if ((varies_[static_cast<size_t>(i)] & inside) == 0) wanted[static_cast<size_t>(i)] = 1;
    for (size_t t = 0; t < e_.terms.size(); ++t) {
      const Term& x = e_.terms[t];
      if (!wanted[t] || phase_[t] > phase || x.kind == TermKind::immediate || x.kind == TermKind::reduce) continue;
      NEURON_ASSIGN(OnChip v, tile.materialize(static_cast<int32_t>(t)));
      (void)v;
    }
    return {};
  }

  // --- one tile of the outer dimensions ---
  Status body(TileEmitter& tile) {
    if (!e_.has_reduced()) return store_all(tile, region_.stores);
    if (!chunked_) return whole_rows(tile);
    return region_.rows ? chunked_rows(tile) : columns(tile);
  }

  Status whole_rows(TileEmitter& tile) {
    for (size_t t = 0; t < e_.terms.size(); ++t) {
      if (e_.terms[t].kind != TermKind::reduce) continue;
      NEURON_ASSIGN(OnChip v, partial(tile, static_cast<int32_t>(t)));
      tile.provide(static_cast<int32_t>(t), v);
    }
    return store_all(tile, region_.stores);
  }

  bool overwrites_input(const Store& s) const {
    return s.output >= 0 && context_.graph.outputs[static_cast<size_t>(s.output)].alias >= 0;
  }

  // Where a store overwrites an input, every value is computed before anything is written: another one may read that input.
  Status store_all(TileEmitter& tile, const std::vector<Store>& stores) {
    if (stores.size() > 1 &&
        std::any_of(stores.begin(), stores.end(), [&](const Store& s) { return overwrites_input(s); })) {
      for (const Store& s : stores) {
        NEURON_ASSIGN(OnChip v, tile.materialize(s.term));
        (void)v;
      }
    }
    for (const Store& s : stores) NEURON_RETURN_IF_ERROR(tile.store(s));
    return {};
  }

  bool is_full_store(const Store& s) const {
    return (varies_[static_cast<size_t>(s.term)] & inner_mask()) != 0 || slots_move_inside(s);
  }
  bool slots_move_inside(const Store& s) const {
    for (size_t d : inner_)
      if (s.view.strides[d] != 0) return true;
    return false;
  }

  Status chunked_rows(TileEmitter& tile) {
    int passes = 0;
    for (size_t t = 0; t < e_.terms.size(); ++t)
      if (e_.terms[t].kind == TermKind::reduce) passes = std::max(passes, phase_[t]);
    for (int pass = 0; pass <= passes; ++pass) {
      NEURON_RETURN_IF_ERROR(hoist(tile, inner_mask(), pass));
      std::vector<int32_t> reduces;
      for (size_t t = 0; t < e_.terms.size(); ++t)
        if (e_.terms[t].kind == TermKind::reduce && phase_[t] == pass + 1) reduces.push_back(static_cast<int32_t>(t));
      std::vector<Store> stores;
      for (const Store& s : region_.stores)
        if (is_full_store(s) && (overwrites_input(s) ? passes : phase_[static_cast<size_t>(s.term)]) == pass)
          stores.push_back(s);
      if (reduces.empty() && stores.empty()) continue;
      NEURON_RETURN_IF_ERROR(reduce_chunks(tile, reduces, stores));
    }
    return store_all(tile, row_stores());
  }

  std::vector<Store> row_stores() const {
    std::vector<Store> rows;
    for (const Store& s : region_.stores)
      if (!is_full_store(s)) rows.push_back(s);
    return rows;
  }

  Status columns(TileEmitter& tile) {
    int64_t widest = 1;
    for (size_t d : inner_)
      if (tiling_.dims[d].partition) widest = pieces_[d][0].partitions;
    frame_.partitions = widest;
    tile.set_frame(frame_);
    NEURON_RETURN_IF_ERROR(hoist(tile, inner_mask(), 0));
    std::vector<int32_t> reduces;
    for (size_t t = 0; t < e_.terms.size(); ++t)
      if (e_.terms[t].kind == TermKind::reduce) reduces.push_back(static_cast<int32_t>(t));
    std::vector<Store> stores;
    for (const Store& s : region_.stores)
      if (is_full_store(s)) stores.push_back(s);
    NEURON_RETURN_IF_ERROR(reduce_chunks(tile, reduces, stores));
    for (int32_t t : reduces) {
      NEURON_ASSIGN(OnChip v, across_partitions(tile, t, tile.value(t)));
      tile.provide(t, v);
    }
    frame_.partitions = 1;
    tile.set_frame(frame_);
    return store_all(tile, row_stores());
  }

  // Loops over the pieces of the reduced dimensions; afterwards every reduce term in `reduces` has its running value.
  Status reduce_chunks(TileEmitter& tile, const std::vector<int32_t>& reduces, const std::vector<Store>& stores) {
    std::vector<OnChip> running;
    for (int32_t t : reduces) {
      const DType dtype = running_dtype(t);
      OnChip acc = tile.new_tile("running", dtype, tile.slots_of(t), frame_.partitions, 1);
      const Access dst = tile.access(acc, tile.slots_of(t), acc.partitions);
      const DType compute = isa::compute_type_for(dtype);
      const Access* operands[] = {&dst};
      builder_.memset(builder_.choose_engine(Opcode::memset, compute, operands), compute, dst,
                      identity_of(reducer(t), e_.terms[static_cast<size_t>(t)].dtype));
      running.push_back(acc);
    }
    std::vector<const DimPiece*> choice(e_.rank(), nullptr);
    NEURON_RETURN_IF_ERROR(choose_inner(0, choice, tile, reduces, running, stores));
    for (size_t k = 0; k < reduces.size(); ++k) tile.provide(reduces[k], running[k]);
    return {};
  }

  Status choose_inner(size_t at, std::vector<const DimPiece*>& choice, TileEmitter& tile,
                      const std::vector<int32_t>& reduces, const std::vector<OnChip>& running,
                      const std::vector<Store>& stores) {
    if (at < inner_.size()) {
      for (const DimPiece& p : pieces_[inner_[at]]) {
        choice[inner_[at]] = &p;
        NEURON_RETURN_IF_ERROR(choose_inner(at + 1, choice, tile, reduces, running, stores));
      }
      return {};
    }
    const Frame saved = frame_;
    const std::vector<OnChip> outside = tile.save();
    for (size_t d : inner_) apply(d, *choice[d]);
    tile.set_frame(frame_);
    Status status = open_inner(0, choice, tile, reduces, running, stores);
    frame_ = saved;
    tile.restore(outside);
    return status;
  }

  Status open_inner(size_t at, const std::vector<const DimPiece*>& choice, TileEmitter& tile,
                    const std::vector<int32_t>& reduces, const std::vector<OnChip>& running,
                    const std::vector<Store>& stores) {
    while (at < inner_.size() && choice[inner_[at]]->loops == 1) ++at;
    if (at < inner_.size()) {
      const size_t d = inner_[at];
      const DimPiece& p = *choice[d];
      Status status;
      builder_.loop(p.loops, isa::LoopKind::sequential, [&](int level) {
        const std::vector<OnChip> outside = tile.save();
        frame_.dims[d].start = Index(p.start) + Index::of_loop(level, p.loop_step);
        tile.set_frame(frame_);
        status = open_inner(at + 1, choice, tile, reduces, running, stores);
        tile.restore(outside);
      });
      return status;
    }
    for (size_t k = 0; k < reduces.size(); ++k) {
      NEURON_ASSIGN(OnChip v, partial(tile, reduces[k]));
      accumulate(tile, reduces[k], running[k], v);
    }
    return store_all(tile, stores);
  }

  // --- pieces of a reduction ---
  ir::Reducer reducer(int32_t t) const {
    const ir::Node& node = context_.graph.nodes[static_cast<size_t>(e_.terms[static_cast<size_t>(t)].node)];
    return std::get<ir::ReduceAttrs>(node.attrs).reducer;
  }

  // Small floats accumulate in f32.
  DType running_dtype(int32_t t) const {
    const DType d = e_.terms[static_cast<size_t>(t)].dtype;
    return is_floating(d) && size_of(d) < 4 ? DType::f32 : d;
  }

  // The tile's own part of reduce term t: its input reduced over the free slots of reduced dimensions.
  Result<OnChip> partial(TileEmitter& tile, int32_t t) {
    const Term& x = e_.terms[static_cast<size_t>(t)];
    builder_.set_label(context_.label_of(x.node));
    uint32_t reduced_slots = 0;
    for (size_t d : inner_)
      if (frame_.dims[d].slot != kNoSlot) reduced_slots |= 1u << frame_.dims[d].slot;
    const uint32_t kept = tile.slots_of(t);
    // An activation can leave the sum of its row as it goes.
    const bool row_sum = kept == 0 && reducer(t) == ir::Reducer::add && tile.slots_of(x.inputs[0]) == reduced_slots &&
                         running_dtype(t) == DType::f32 && context_.pass_enabled("select");
    if (row_sum) tile.want_row_sum(x.inputs[0]);
    NEURON_ASSIGN(OnChip in, tile.materialize(x.inputs[0]));
    if (row_sum) {
      const OnChip sum = tile.taken_row_sum();
      if (sum.valid) return sum;
    }
    NEURON_ASSIGN(in, tile.in_sbuf(in, tile.slots_of(x.inputs[0])));
    std::array<Dim, isa::kMaxFreeDims> dims;
    int n = 0, outer = 0;
    const auto take = [&](uint32_t mask, int from) {
      for (size_t s = 0; s < frame_.slots.size(); ++s) {
        if ((mask >> s & 1) == 0 || frame_.slots[s] == 1) continue;
        const Dim dim{static_cast<uint32_t>(frame_.slots[s]), in.stride[s]};
        if (n > from && dims[static_cast<size_t>(n - 1)].stride == dim.stride * static_cast<int64_t>(dim.count)) {
          dims[static_cast<size_t>(n - 1)].count *= dim.count;
          dims[static_cast<size_t>(n - 1)].stride = dim.stride;
        } else {
          dims[static_cast<size_t>(n++)] = dim;
        }
      }
    };
    take(kept, 0);
    outer = n;
    take(reduced_slots, outer);
    const DType dtype = running_dtype(t), compute = isa::compute_type_for(dtype);
    if (n == outer) {  // nothing left to reduce inside the tile
      if (in.dtype == dtype) return in;
      OnChip copy = tile.new_tile("partial", dtype, kept, frame_.partitions, tiling_.other_buffers);
      const Access dst = tile.access(copy, kept, frame_.partitions), src = tile.access(in, kept, frame_.partitions);
      const Access* operands[] = {&dst, &src};
      builder_.tensor_copy(builder_.choose_engine(Opcode::tensor_copy, compute, operands), compute, dst, src);
      return copy;
    }
    OnChip out = tile.new_tile("partial", dtype, kept, frame_.partitions, tiling_.other_buffers);
    Access src = tile.access(in, 0, frame_.partitions);
    src.rank = static_cast<uint8_t>(n);
    for (int k = 0; k < n; ++k) src.dims[static_cast<size_t>(k)] = dims[static_cast<size_t>(k)];
    const Access dst = tile.access(out, kept, frame_.partitions);
    const AluOp op = alu_op_of(reducer(t), x.dtype);
    const Access* operands[] = {&dst, &src};
    builder_.tensor_reduce(builder_.choose_engine(Opcode::tensor_reduce, compute, operands, op), compute, op, dst, src,
                           n - outer);
    return out;
  }

  void accumulate(TileEmitter& tile, int32_t t, const OnChip& running, const OnChip& value) {
    const uint32_t kept = tile.slots_of(t);
    const DType compute = isa::compute_type_for(running.dtype);
    const AluOp op = alu_op_of(reducer(t), e_.terms[static_cast<size_t>(t)].dtype);
    const Access dst = tile.access(running, kept, frame_.partitions), src = tile.access(value, kept, frame_.partitions);
    const Access* operands[] = {&dst, &src};
    builder_.tensor_tensor(builder_.choose_engine(Opcode::tensor_tensor, compute, operands, op), compute, op, dst, dst, src);
  }

  // [P, F] -> [1, F].
  Result<OnChip> across_partitions(TileEmitter& tile, int32_t t, const OnChip& running) {
    if (running.partitions == 1) return running;
    const uint32_t kept = tile.slots_of(t);
    const Access all = tile.access(running, kept, running.partitions);
    const auto f = static_cast<int64_t>(all.elements_per_partition());
    const AluOp op = alu_op_of(reducer(t), e_.terms[static_cast<size_t>(t)].dtype);
    const auto bank_elements = static_cast<int64_t>(builder_.target().psum_bank_bytes / 4);
    if (op == AluOp::add && running.dtype == DType::f32 && f <= bank_elements * 4 &&
        context_.pass_enabled("reduce_on_tensor")) {
      const uint32_t ones = builder_.tile("ones", isa::Space::sbuf, running.partitions, 4);
      const Access ones_access = builder_.dense(ones, DType::f32, running.partitions, 1);
      builder_.memset(Engine::vector, DType::f32, ones_access, ProgramBuilder::immediate(1.0));
      OnChip out = running;
      out.partitions = 1;
      out.tile = builder_.tile("column sums", isa::Space::psum, 1, f * 4);
      for (int64_t at = 0; at < f; at += bank_elements) {
        const int64_t n = std::min(bank_elements, f - at);
        builder_.nc_matmul(builder_.dense(out.tile, DType::f32, 1, n, at * 4), ones_access,
                           builder_.dense(running.tile, DType::f32, running.partitions, n, running.offset + Index(at * 4)),
                           DType::f32, false);
      }
      return out;
    }
    OnChip out = tile.new_tile("across", running.dtype, kept, 1, 1);
    builder_.tensor_partition_reduce(isa::compute_type_for(running.dtype), op, tile.access(out, kept, 1), all);
    return out;
  }

  EmitContext& context_;
  ProgramBuilder& builder_;
  const Region& region_;
  const Expression& e_;
  const LoopTiling& tiling_;
  std::vector<int> phase_;
  std::vector<uint64_t> varies_;
  std::vector<std::vector<DimPiece>> pieces_;
  std::vector<size_t> outer_, inner_;  // dimensions: kept, reduced
  bool chunked_ = false;
  Frame frame_;
};

}  // namespace

Status emit_loop_region(EmitContext& context, const Region& original) {
  Region region = original;
  collapse(region);
  LoopTiling tiling = choose_loop_tiling(region, context.sbuf_budget());
  if (!context.pass_enabled("schedule_double_buffer")) tiling.dma_buffers = tiling.other_buffers = 1;
  return LoopEmitter(context, region, tiling).run();
}

}  // namespace neuron::compiler
