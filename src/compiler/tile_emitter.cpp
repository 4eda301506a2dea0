#include "compiler/tile_emitter.h"

#include <algorithm>

#include "compiler/op_emitter.h"

namespace neuron::compiler {

using isa::Access;
using isa::Dim;

uint32_t frame_slots(const Frame& frame, const View& view) {
  uint32_t mask = 0;
  for (size_t d = 0; d < frame.dims.size(); ++d)
    if (view.strides[d] != 0 && frame.dims[d].slot != kNoSlot) mask |= 1u << frame.dims[d].slot;
  return mask;
}

Access frame_memory(const ProgramBuilder& builder, const Frame& frame, Buffer buffer, DType dtype, const View& view,
                    uint32_t slots, int64_t partitions) {
  const auto unit = static_cast<int64_t>(size_of(dtype));
  Index offset = buffer.byte_offset + view.offset * unit;
  int64_t partition_stride = 0;
  std::array<int64_t, isa::kMaxFreeDims> stride{};
  for (size_t d = 0; d < frame.dims.size(); ++d) {
    const int64_t s = view.strides[d] * unit;
    if (s == 0) continue;
    offset = offset + frame.dims[d].start * s;
    partition_stride += frame.dims[d].partition_step * s;
    if (frame.dims[d].slot != kNoSlot) stride[static_cast<size_t>(frame.dims[d].slot)] += s;
  }
  std::array<Dim, isa::kMaxFreeDims> dims;
  size_t n = 0;
  for (size_t s = 0; s < frame.slots.size(); ++s)
    if (slots >> s & 1) dims[n++] = {static_cast<uint32_t>(frame.slots[s]), stride[s]};
  return builder.hbm(buffer.tensor, dtype, offset, partitions, partition_stride, {dims.data(), n});
}

TileEmitter::TileEmitter(EmitContext& context, const Expression& expression, const Frame& frame)
    : context_(context),
      builder_(context.builder),
      expression_(expression),
      frame_(frame),
      varies_(expression.varies()),
      phases_(expression.phases()),
      values_(expression.terms.size()),
      uses_(expression.terms.size(), 0) {
  for (const Term& t : expression.terms) {
    for (int32_t i : t.inputs) ++uses_[static_cast<size_t>(i)];
  }
  for (size_t t = 0; t < expression.terms.size(); ++t) uses_[t] += expression.terms[t].stores;
}

uint32_t TileEmitter::slots_of(int32_t term) const {
  uint32_t mask = 0;
  for (size_t d = 0; d < frame_.dims.size(); ++d)
    if ((varies_[static_cast<size_t>(term)] >> d & 1) != 0 && frame_.dims[d].slot != kNoSlot)
      mask |= 1u << frame_.dims[d].slot;
  return mask;
}

DType TileEmitter::tile_dtype(int32_t term) const {
  const Term& t = expression_.terms[static_cast<size_t>(term)];
  const bool small = is_floating(t.dtype) && size_of(t.dtype) < 4;
  if (!small || context_.options.emulate_precision_casts) return t.dtype;
  // One rounding at the end: a value that is only stored is rounded by the instruction that computes it.
  return t.stores > 0 && uses_[static_cast<size_t>(term)] == t.stores ? t.dtype : DType::f32;
}

Access TileEmitter::access(const OnChip& value, uint32_t slots, int64_t partitions) const {
  std::array<Dim, isa::kMaxFreeDims> dims;
  size_t n = 0;
  for (size_t s = 0; s < frame_.slots.size(); ++s)
    if (slots >> s & 1) dims[n++] = {static_cast<uint32_t>(frame_.slots[s]), value.stride[s]};
  return builder_.on_chip(value.tile, value.dtype, partitions, {dims.data(), n}, value.offset);
}

OnChip TileEmitter::new_tile(std::string_view name, DType dtype, uint32_t slots, int64_t partitions,
                             uint32_t buffers) const {
  OnChip v;
  v.dtype = dtype;
  v.partitions = partitions;
  v.valid = true;
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (size_t s = frame_.slots.size(); s-- > 0;) {
    if ((slots >> s & 1) == 0) continue;
    v.stride[s] = bytes;
    bytes *= frame_.slots[s];
  }
  v.tile = builder_.tile(name, isa::Space::sbuf, partitions, bytes, buffers);
  return v;
}

isa::IndexPattern TileEmitter::pattern(const View& view, uint32_t slots) const {
  isa::IndexPattern p;
  Index base = view.offset;
  std::array<int64_t, isa::kMaxFreeDims> step{};
  for (size_t d = 0; d < frame_.dims.size(); ++d) {
    const int64_t s = view.strides[d];
    base = base + frame_.dims[d].start * s;
    p.partition_step += frame_.dims[d].partition_step * s;
    if (frame_.dims[d].slot != kNoSlot) step[static_cast<size_t>(frame_.dims[d].slot)] += s;
  }
  p.base = base.base;
  p.loop_step = base.coefficient;
  // One step per slot, also for slots of count 1: the caller writes the destination's dims the same way.
  size_t n = 0;
  for (size_t s = 0; s < frame_.slots.size(); ++s)
    if (slots >> s & 1) p.step[n++] = step[s];
  return p;
}

// A load that is contiguous along the partitions and strided along its one slot: blocks turned by the DMA.
bool TileEmitter::load_transposed(int32_t term, const OnChip& v) {
  const Term& t = expression_.terms[static_cast<size_t>(term)];
  const uint32_t slots = slots_of(term);
  if (!turns(t.view) || !context_.pass_enabled("dma_transpose")) return false;
  int slot = 0;
  while ((slots >> slot & 1) == 0) ++slot;
  const auto unit = static_cast<int64_t>(size_of(t.dtype));
  const int64_t count = frame_.slots[static_cast<size_t>(slot)];
  Access all = memory(context_.buffer(t.source), t.dtype, t.view, slots, frame_.partitions);
  const int64_t step = all.rank > 0 ? all.dims[0].stride : 0;
  const int64_t most = builder_.target().limits.dma_transpose_rows;
  for (int64_t at = 0; at < count; at += most) {
    const int64_t rows = std::min(most, count - at);
    Access src = all;
    src.partitions = static_cast<uint32_t>(rows);
    src.partition_stride = step;
    src.offset += at * step;
    src.rank = 1;
    src.dims[0] = {static_cast<uint32_t>(frame_.partitions), unit};
    builder_.dma_transpose(builder_.dense(v.tile, t.dtype, frame_.partitions, rows, v.offset + Index(at * unit)), src);
  }
  return true;
}

bool TileEmitter::turns(const View& view) const {
  const uint32_t slots = slots_of(view);
  if (slots == 0 || (slots & (slots - 1)) != 0 || frame_.partitions < 16) return false;
  int64_t along_partitions = 0, along_slot = 0, count = 1;
  for (size_t d = 0; d < frame_.dims.size(); ++d) {
    along_partitions += view.strides[d] * frame_.dims[d].partition_step;
    if (frame_.dims[d].slot == kNoSlot || view.strides[d] == 0) continue;
    along_slot += view.strides[d];
    count = frame_.slots[static_cast<size_t>(frame_.dims[d].slot)];
  }
  return along_partitions == 1 && along_slot > 1 && count >= 16;
}

Result<OnChip> TileEmitter::emit_load(int32_t term) {
  const Term& t = expression_.terms[static_cast<size_t>(term)];
  const uint32_t slots = slots_of(term);
  OnChip v = new_tile("load", t.dtype, slots, frame_.partitions, dma_buffers_);
  if (load_transposed(term, v)) return v;
  builder_.dma_load(access(v, slots, v.partitions), memory(context_.buffer(t.source), t.dtype, t.view, slots, v.partitions));
  return v;
}

Result<OnChip> TileEmitter::emit_leaf(int32_t term) {
  const Term& t = expression_.terms[static_cast<size_t>(term)];
  const uint32_t slots = slots_of(term);
  OnChip v = new_tile("leaf", t.dtype, slots, frame_.partitions, other_buffers_);
  if (t.kind == TermKind::immediate) {
    const Access dst = access(v, slots, v.partitions);
    const DType compute = isa::compute_type_for(t.dtype);
    const Access* operands[] = {&dst};
    builder_.memset(builder_.choose_engine(isa::Opcode::memset, compute, operands), compute, dst, immediate(term));
    return v;
  }
  // Patterns step through the same dims as the destination: written without merging.
  Access dst = access(v, 0, v.partitions);
  isa::IndexPattern p = pattern(t.view, slots);
  size_t n = 0;
  for (size_t s = 0; s < frame_.slots.size(); ++s)
    if (slots >> s & 1) dst.dims[n++] = {static_cast<uint32_t>(frame_.slots[s]), v.stride[s]};
  dst.rank = static_cast<uint8_t>(n);
  if (t.kind == TermKind::iota) {
    builder_.iota(dst, p);
    return v;
  }
  isa::ScalarOperand seed, offset;
  for (int k = 0; k < 2; ++k) {
    NEURON_ASSIGN(OnChip x, materialize(t.inputs[static_cast<size_t>(k)]));
    (k == 0 ? seed : offset) = ProgramBuilder::scalar(access(x, 0, v.partitions));
  }
  builder_.random_bits(dst, seed, offset, p);
  return v;
}

isa::ScalarOperand TileEmitter::immediate(int32_t term) const {
  const Term& t = expression_.terms[static_cast<size_t>(term)];
  isa::ScalarOperand s;
  s.kind = isa::ScalarOperand::Kind::immediate;
  s.re = t.number.real();
  s.im = t.number.imag();
  s.i = t.integer;
  if (is_floating(t.dtype) && s.re >= -9.2e18 && s.re <= 9.2e18) s.i = static_cast<int64_t>(s.re);
  return s;
}

Result<OnChip> TileEmitter::materialize(int32_t term) {
  OnChip& known = values_[static_cast<size_t>(term)];
  if (known.valid) return known;
  const Term& t = expression_.terms[static_cast<size_t>(term)];
  if (t.node >= 0) builder_.set_label(context_.label_of(t.node));
  Result<OnChip> v = internal_error("a term was asked for before its region computed it");
  switch (t.kind) {
    case TermKind::load:
      v = emit_load(term);
      break;
    case TermKind::immediate:
    case TermKind::iota:
    case TermKind::random:
      v = emit_leaf(term);
      break;
    case TermKind::op:
      v = OpEmitter(*this).emit(term);
      break;
    default:
      break;
  }
  if (v.ok()) values_[static_cast<size_t>(term)] = *v;
  return v;
}

Result<OnChip> TileEmitter::in_sbuf(const OnChip& value, uint32_t slots) {
  if (builder_.program().tiles[value.tile].space != isa::Space::psum) return value;
  OnChip copy = new_tile("evict", value.dtype, slots, value.partitions, other_buffers_);
  const Access dst = access(copy, slots, value.partitions), src = access(value, slots, value.partitions);
  const Access* operands[] = {&dst, &src};
  builder_.tensor_copy(builder_.choose_engine(isa::Opcode::tensor_copy, DType::f32, operands), DType::f32, dst, src);
  return copy;
}

Status TileEmitter::store(const Store& store) {
  const Term& t = expression_.terms[static_cast<size_t>(store.term)];
  const uint32_t slots = slots_of(store.view);
  const Buffer to = context_.destination(store);
  // Memory to memory needs no tile.
  if (t.kind == TermKind::load && !has(store.term) && uses_[static_cast<size_t>(store.term)] == 1 &&
      !(turns(t.view) && context_.pass_enabled("dma_transpose"))) {
    builder_.dma_store(memory(to, t.dtype, store.view, slots, frame_.partitions),
                       memory(context_.buffer(t.source), t.dtype, t.view, slots, frame_.partitions));
    return {};
  }
  NEURON_ASSIGN(OnChip v, materialize(store.term));
  const uint32_t have = slots_of(store.term);
  const bool psum = builder_.program().tiles[v.tile].space == isa::Space::psum;
  if ((have & slots) != slots || psum) {  // spread over the slots, or out of PSUM, which DMA does not reach
    OnChip copy = new_tile("store", t.dtype, slots, v.partitions, other_buffers_);
    const Access dst = access(copy, slots, v.partitions), src = access(v, slots, v.partitions);
    const Access* operands[] = {&dst, &src};
    const DType compute = isa::compute_type_for(v.dtype);
    builder_.tensor_copy(builder_.choose_engine(isa::Opcode::tensor_copy, compute, operands), compute, dst, src);
    v = copy;
  }
  builder_.dma_store(memory(to, t.dtype, store.view, slots, v.partitions), access(v, slots, v.partitions));
  return {};
}

}  // namespace neuron::compiler
