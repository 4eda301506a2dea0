// Operations that are more, or less, than one arithmetic instruction.
#include "compiler/op_emitter.h"
#include "compiler/op_table.h"

namespace neuron::compiler {

using ir::Op;
using isa::Access;
using isa::ActFn;
using isa::AluOp;
using isa::Engine;
using isa::Opcode;
using isa::ScalarOperand;

Result<OnChip> OpEmitter::boolean_not(int32_t t) {
  const DType to = result_;
  NEURON_ASSIGN(OnChip x, tensor(term(t).inputs[0]));
  OnChip out = result(t, to);
  b_.tensor_scalar(Engine::vector, DType::f32, at(out), at(x), AluOp::equal, ProgramBuilder::immediate(0.0));
  return out;
}

Result<OnChip> OpEmitter::not_a_number(int32_t t) {
  const DType to = result_;
  const uint32_t slots = slots_;
  NEURON_ASSIGN(OnChip x, tensor(term(t).inputs[0]));
  slots_ = slots;
  NEURON_ASSIGN(x, tile_.in_sbuf(x, slots));
  OnChip out = result(t, to);
  b_.tensor_tensor(Engine::vector, DType::f32, AluOp::not_equal, at(out), at(x), at(x));
  return out;
}

Result<OnChip> OpEmitter::exact_reciprocal(int32_t t, DType compute) {
  const DType to = result_;
  const uint32_t slots = slots_;
  NEURON_ASSIGN(OnChip x, tensor(term(t).inputs[0]));
  slots_ = slots;
  OnChip out = result(t, to);
  isa::Instruction in;
  in.opcode = Opcode::reciprocal;
  in.compute = compute;
  in.dst = at(out);
  in.src0 = at(x);
  in.engine = engine(Opcode::reciprocal, compute, {&in.dst, &in.src0});
  NEURON_ASSIGN(in.src0, source(x, in.engine == Engine::gpsimd));
  b_.add(std::move(in));
  return out;
}

Result<OnChip> OpEmitter::own_dtype(int32_t t) {
  const uint32_t slots = slots_;
  NEURON_ASSIGN(OnChip x, tensor(t));
  slots_ = slots;
  if (x.dtype == term(t).dtype) return tile_.in_sbuf(x, tile_.slots_of(t));
  slots_ = tile_.slots_of(t);
  OnChip copy = temporary(term(t).dtype);
  const Access dst = at(copy), src = at(x);
  const DType compute = isa::compute_type_for(x.dtype);
  b_.tensor_copy(engine(Opcode::tensor_copy, compute, {&dst, &src}), compute, dst, src);
  slots_ = slots;
  return copy;
}

Result<OnChip> OpEmitter::convert(int32_t t) {
  const int32_t x = term(t).inputs[0];
  const DType from = term(x).dtype, to = term(t).dtype;
  const bool small_to = is_floating(to) && size_of(to) < 4;
  // Scalars of a launch: converted while they are loaded.
  if (term(x).kind == TermKind::load && !tile_.has(x) && tile_.slots_of(x) == 0 &&
      tile_.uses_[static_cast<size_t>(x)] == 1) {
    OnChip v = tile_.new_tile("scalar", to, 0, tile_.frame_.partitions, tile_.dma_buffers_);
    b_.dma_load(tile_.access(v, 0, v.partitions),
                tile_.memory(tile_.context_.buffer(term(x).source), from, term(x).view, 0, v.partitions));
    return v;
  }
  // An operation whose result nobody else wants rounds straight to the new type.
  const bool from_small = is_floating(from) && size_of(from) < 4;
  // Unsigned shifts and masks give numbers that fit their own type, so nothing wraps before the conversion.
  const bool fits = is_unsigned_integer(from) && is_floating(to) && term(x).kind == TermKind::op &&
                    (node_of(term(x)).op == Op::shift_right_logical || node_of(term(x)).op == Op::and_);
  const bool rounds_alike = to != DType::boolean && (is_floating(to) || is_complex(to) ? !is_complex(from) : false);
  if (term(x).kind == TermKind::op && !tile_.has(x) && tile_.uses_[static_cast<size_t>(x)] == 1 && rounds_alike &&
      node_of(term(x)).op != Op::convert && node_of(term(x)).op != Op::bitcast_convert &&
      (from == DType::f32 || from == DType::boolean || fits ||
       (from_small && !tile_.context_.options.emulate_precision_casts)) &&
      !is_complex(to) && size_of(to) <= 4)
    return emit_as(x, to);
  const uint32_t slots = slots_;
  NEURON_ASSIGN(OnChip v, tensor(x));
  slots_ = slots;
  if (v.dtype == to) return v;
  if (exact_widening(from, to) && (exact_widening(v.dtype, to) || (v.dtype == DType::f32 && from_small && to == DType::f32)))
    return v;
  if (from_small && !small_to && !is_floating(to) && v.dtype != from) {  // integers see the rounded value
    NEURON_ASSIGN(v, own_dtype(x));
  }
  OnChip out = tile_.new_tile("convert", to, slots, tile_.frame_.partitions, tile_.other_buffers_);
  const Access dst = at(out);
  Access src = at(v);
  const DType compute = isa::compute_type_for(v.dtype);
  const bool exact_in_f32 = compute == DType::f32 || (size_of(v.dtype) <= 2 && is_integer(v.dtype));
  const Engine e = engine(Opcode::tensor_copy, exact_in_f32 ? DType::f32 : compute, {&dst, &src});
  NEURON_ASSIGN(src, source(v, e == Engine::gpsimd));
  b_.tensor_copy(e, e == Engine::gpsimd ? compute : DType::f32, dst, src);
  return out;
}

Result<OnChip> OpEmitter::bitcast(int32_t t) {
  NEURON_ASSIGN(OnChip v, own_dtype(term(t).inputs[0]));
  v.dtype = term(t).dtype;
  return v;
}

Result<OnChip> OpEmitter::select(int32_t t) {
  const DType to = result_;
  const uint32_t slots = slots_;
  const int32_t pred = term(t).inputs[0], yes = term(t).inputs[1], no = term(t).inputs[2];
  const DType compute = isa::compute_type_for(term(t).dtype);
  isa::Instruction in;
  in.opcode = Opcode::select;
  in.compute = compute;
  NEURON_ASSIGN(OnChip p, tensor(pred));
  OnChip a, b;
  if (scalar_like(yes)) {
    NEURON_ASSIGN(in.scalar0, scalar(yes));
  } else {
    NEURON_ASSIGN(a, tensor(yes));
  }
  if (scalar_like(no)) {
    NEURON_ASSIGN(in.scalar1, scalar(no));
  } else {
    NEURON_ASSIGN(b, tensor(no));
  }
  slots_ = slots;
  for (OnChip* v : {&p, &a, &b}) {
    if (!v->valid) continue;
    NEURON_ASSIGN(*v, tile_.in_sbuf(*v, slots));
  }
  OnChip out = result(t, to);
  in.dst = at(out);
  in.src2 = at(p);
  if (a.valid) in.src0 = at(a);
  if (b.valid) in.src1 = at(b);
  const Access* s0 = in.scalar0.kind == ScalarOperand::Kind::access ? &in.scalar0.access : &in.dst;
  const Access* s1 = in.scalar1.kind == ScalarOperand::Kind::access ? &in.scalar1.access : &in.dst;
  in.engine = engine(Opcode::select, compute, {&in.dst, &in.src2, &in.src0, &in.src1, s0, s1});
  b_.add(std::move(in));
  return out;
}

Result<OnChip> OpEmitter::clamp(int32_t t) {
  const DType to = result_;
  const uint32_t slots = slots_;
  const int32_t low = term(t).inputs[0], x = term(t).inputs[1], high = term(t).inputs[2];
  const DType compute = isa::compute_type_for(term(t).dtype);
  NEURON_ASSIGN(OnChip v, tensor(x));
  slots_ = slots;
  NEURON_ASSIGN(v, tile_.in_sbuf(v, slots));
  if (scalar_like(low) && scalar_like(high)) {
    NEURON_ASSIGN(ScalarOperand s0, scalar(low));
    NEURON_ASSIGN(ScalarOperand s1, scalar(high));
    slots_ = slots;
    OnChip out = result(t, to);
    const Access dst = at(out), src = at(v);
    b_.tensor_scalar(engine(Opcode::tensor_scalar, compute, {&dst, &src}, AluOp::maximum, AluOp::minimum), compute, dst, src,
                     AluOp::maximum, s0, false, AluOp::minimum, s1);
    return out;
  }
  NEURON_ASSIGN(OnChip lo, tensor(low));
  NEURON_ASSIGN(OnChip hi, tensor(high));
  slots_ = slots;
  OnChip middle = temporary(term(t).dtype == DType::f16 || term(t).dtype == DType::bf16 ? DType::f32 : to);
  OnChip out = result(t, to);
  const Access m = at(middle), dst = at(out), src = at(v), l = at(lo), h = at(hi);
  b_.tensor_tensor(engine(Opcode::tensor_tensor, compute, {&m, &src, &l}, AluOp::maximum), compute, AluOp::maximum, m, src,
                   l);
  b_.tensor_tensor(engine(Opcode::tensor_tensor, compute, {&dst, &m, &h}, AluOp::minimum), compute, AluOp::minimum, dst, m,
                   h);
  return out;
}

Result<OnChip> OpEmitter::make_complex(int32_t t) {
  const uint32_t slots = slots_;
  const DType whole = term(t).dtype, part = real_type(whole);
  OnChip out = tile_.new_tile("complex", whole, slots, tile_.frame_.partitions, tile_.other_buffers_);
  for (int k = 0; k < 2; ++k) {
    NEURON_ASSIGN(OnChip v, tensor(term(t).inputs[static_cast<size_t>(k)]));
    slots_ = slots;
    OnChip half = out;
    half.dtype = part;
    half.offset = half.offset + Index(k * static_cast<int64_t>(size_of(part)));
    const Access dst = at(half);
    Access src = at(v);
    const DType compute = isa::compute_type_for(part);
    const Engine e = engine(Opcode::tensor_copy, compute, {&dst, &src});
    NEURON_ASSIGN(src, source(v, e == Engine::gpsimd));
    b_.tensor_copy(e, compute, dst, src);
  }
  return out;
}

Result<OnChip> OpEmitter::part_of_complex(int32_t t, bool imaginary) {
  NEURON_ASSIGN(OnChip v, own_dtype(term(t).inputs[0]));
  if (!is_complex(v.dtype)) {
    if (!imaginary) return v;
    OnChip zero = tile_.new_tile("zero", term(t).dtype, 0, tile_.frame_.partitions, tile_.other_buffers_);
    const DType compute = isa::compute_type_for(term(t).dtype);
    const Access dst = tile_.access(zero, 0, zero.partitions);
    b_.memset(engine(Opcode::memset, compute, {&dst}), compute, dst, ProgramBuilder::immediate(0.0));
    return zero;
  }
  v.dtype = real_type(v.dtype);
  if (imaginary) v.offset = v.offset + Index(static_cast<int64_t>(size_of(v.dtype)));
  return v;
}

// trunc(x), one step away from zero where the fraction is at least a half.
Result<OnChip> OpEmitter::round_away(int32_t t) {
  const DType to = result_;
  const uint32_t slots = slots_;
  const DType compute = isa::compute_type_for(term(t).dtype), wide = compute;
  NEURON_ASSIGN(OnChip x, tensor(term(t).inputs[0]));
  slots_ = slots;
  NEURON_ASSIGN(x, tile_.in_sbuf(x, slots));
  OnChip whole = temporary(wide), fraction = temporary(wide), step = temporary(wide), out = result(t, to);
  b_.activation(Engine::gpsimd, compute, ActFn::trunc, at(whole), at(x));
  b_.tensor_tensor(Engine::gpsimd, compute, AluOp::subtract, at(fraction), at(x), at(whole));
  b_.activation(Engine::gpsimd, compute, ActFn::abs, at(fraction), at(fraction));
  b_.tensor_scalar(Engine::gpsimd, compute, at(step), at(fraction), AluOp::greater_equal, ProgramBuilder::immediate(0.5));
  b_.tensor_tensor(Engine::gpsimd, compute, AluOp::copysign, at(step), at(step), at(x));
  b_.tensor_tensor(Engine::gpsimd, compute, AluOp::add, at(out), at(whole), at(step));
  return out;
}

Result<OnChip> OpEmitter::cube_root(int32_t t) {
  const DType to = result_;
  const uint32_t slots = slots_;
  const DType compute = isa::compute_type_for(term(t).dtype), wide = compute;
  NEURON_ASSIGN(OnChip x, tensor(term(t).inputs[0]));
  slots_ = slots;
  NEURON_ASSIGN(x, tile_.in_sbuf(x, slots));
  OnChip root = temporary(wide), out = result(t, to);
  b_.activation(Engine::gpsimd, compute, ActFn::abs, at(root), at(x));
  b_.tensor_scalar(Engine::gpsimd, compute, at(root), at(root), AluOp::power, ProgramBuilder::immediate(1.0 / 3.0));
  b_.tensor_tensor(Engine::gpsimd, compute, AluOp::copysign, at(out), at(root), at(x));
  return out;
}

// Logical shifts and bit counts see the operand's own width: its bytes are read as unsigned.
Result<OnChip> OpEmitter::with_unsigned_bits(int32_t t) {
  const DType to = result_;
  const uint32_t slots = slots_;
  const ir::Node& node = node_of(term(t));
  NEURON_ASSIGN(OnChip x, own_dtype(term(t).inputs[0]));
  switch (x.dtype) {
    case DType::i8:
      x.dtype = DType::u8;
      break;
    case DType::i16:
      x.dtype = DType::u16;
      break;
    case DType::i32:
      x.dtype = DType::u32;
      break;
    default:
      x.dtype = DType::u64;
      break;
  }
  const DType compute = isa::compute_type_for(x.dtype);
  OnChip y;
  if (node.op == Op::shift_right_logical) {
    NEURON_ASSIGN(y, tensor(term(t).inputs[1]));
  }
  slots_ = slots;
  OnChip out = result(t, to);
  if (node.op == Op::popcnt) {
    b_.activation(Engine::gpsimd, compute, ActFn::population_count, at(out), at(x));
  } else {
    b_.tensor_tensor(Engine::gpsimd, compute, AluOp::shift_right_logical, at(out), at(x), at(y));
  }
  return out;
}

}  // namespace neuron::compiler
