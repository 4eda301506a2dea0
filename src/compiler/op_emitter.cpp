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

bool OpEmitter::absorbable(int32_t t, DType compute) const {
  const Term& x = term(t);
  if (x.kind != TermKind::op || tile_.has(t) || compute != DType::f32 || !tile_.context_.pass_enabled("select"))
    return false;
  if (x.dtype != DType::f32 && tile_.tile_dtype(t) != DType::f32) return false;
  if (tile_.uses_[static_cast<size_t>(t)] == 1) return true;
  // Doing it again inside each user is free if its own operand is there anyway.
  std::optional<ScalarOp> o = scalar_op(t, compute);
  return o && x.stores == 0 && x.dtype == DType::f32 &&
         (tile_.has(o->tensor) || term(o->tensor).kind == TermKind::load || term(o->tensor).kind == TermKind::external);
}

bool OpEmitter::vector_f32(AluOp op, DType compute) const {
  return compute == DType::f32 && isa::runs_on(Engine::vector, Opcode::tensor_tensor, compute, op);
}

std::optional<OpEmitter::ScalarOp> OpEmitter::scalar_op(int32_t t, DType compute) const {
  const Term& x = term(t);
  if (x.kind != TermKind::op || x.inputs.size() != 2) return std::nullopt;
  const DType operand = operand_dtype(x.inputs[0]);
  std::optional<AluOp> op = alu_op_of(node_of(x), operand);
  if (!op || isa::compute_type_for(operand) != compute || !isa::alu_defined_for(*op, compute)) return std::nullopt;
  if (scalar_like(x.inputs[1]) && !is_immediate(x.inputs[0])) return ScalarOp{x.inputs[0], x.inputs[1], *op, false};
  if (scalar_like(x.inputs[0]) && !is_immediate(x.inputs[1])) return ScalarOp{x.inputs[1], x.inputs[0], *op, true};
  return std::nullopt;
}

Result<ScalarOperand> OpEmitter::scalar(int32_t t) {
  if (is_immediate(t)) return tile_.immediate(t);
  NEURON_ASSIGN(OnChip v, tile_.materialize(t));
  return ProgramBuilder::scalar(tile_.access(v, 0, tile_.frame_.partitions));
}

Result<OnChip> OpEmitter::tensor(int32_t t) { return tile_.materialize(t); }

OnChip OpEmitter::result(int32_t t, DType dtype) {
  (void)t;
  return tile_.new_tile("value", dtype, slots_, tile_.frame_.partitions, tile_.other_buffers_);
}

OnChip OpEmitter::temporary(DType dtype) { return result(-1, dtype); }

Engine OpEmitter::engine(Opcode opcode, DType compute, std::initializer_list<const Access*> operands, AluOp op0, AluOp op1,
                         ActFn func) const {
  return b_.choose_engine(opcode, compute, {operands.begin(), operands.size()}, op0, op1, func);
}

Result<Access> OpEmitter::source(const OnChip& v, bool gpsimd) {
  if (!gpsimd) return at(v);
  NEURON_ASSIGN(OnChip s, tile_.in_sbuf(v, slots_));
  return at(s);
}

Result<OnChip> OpEmitter::emit(int32_t t) { return emit_as(t, tile_.tile_dtype(t)); }

Result<OnChip> OpEmitter::emit_as(int32_t t, DType result) {
  slots_ = tile_.slots_of(t);
  result_ = result;
  const Term& x = term(t);
  const ir::Node& node = node_of(x);
  const DType operand = operand_dtype(x.inputs[0]);
  const DType compute = isa::compute_type_for(operand);
  switch (node.op) {
    case Op::convert:
      return convert(t);
    case Op::bitcast_convert:
      return bitcast(t);
    case Op::select:
      return select(t);
    case Op::clamp:
      return clamp(t);
    case Op::complex:
      return make_complex(t);
    case Op::real:
    case Op::imag:
      return part_of_complex(t, node.op == Op::imag);
    case Op::round_nearest_afz:
      return round_away(t);
    case Op::cbrt:
      return cube_root(t);
    case Op::not_:
      if (operand == DType::boolean) return boolean_not(t);
      break;
    case Op::is_nan:
      if (compute == DType::f32) return not_a_number(t);
      break;
    case Op::reciprocal:
      return exact_reciprocal(t, compute);
    case Op::popcnt:
    case Op::shift_right_logical:
      if (is_signed_integer(operand)) return with_unsigned_bits(t);
      break;
    default:
      break;
  }
  if (x.inputs.size() == 2) {
    std::optional<AluOp> op = alu_op_of(node, operand);
    if (op && isa::alu_defined_for(*op, compute)) return binary(t, *op, x.inputs[0], x.inputs[1], compute);
  } else if (x.inputs.size() == 1) {
    std::optional<ActFn> func = act_fn_of(node.op, operand);
    if (func && isa::act_defined_for(*func, compute)) return unary(t, *func, x.inputs[0], compute);
  }
  return unsupported(std::string(ir::name_of(node.op)) + " of " + ir::to_string(ir::Type{operand, node.types[0].shape}));
}

Result<OnChip> OpEmitter::with_scalar(int32_t t, const ScalarOp& outer, DType compute) {
  const DType to = result_;
  const uint32_t slots = slots_;
  ScalarOp first = outer, second;
  if (absorbable(outer.tensor, compute) && vector_f32(outer.op, compute)) {
    std::optional<ScalarOp> inner = scalar_op(outer.tensor, compute);
    if (inner && vector_f32(inner->op, compute) && tile_.slots_of(outer.tensor) == slots) first = *inner, second = outer;
  }
  NEURON_ASSIGN(OnChip x, tensor(first.tensor));
  NEURON_ASSIGN(ScalarOperand s0, scalar(first.scalar));
  // Rows divided by a value reduced from them (softmax, means): one division per row, then multiplications.
  if (first.op == AluOp::divide && !first.reversed && compute == DType::f32 && s0.kind == ScalarOperand::Kind::access &&
      tile_.phases_[static_cast<size_t>(first.scalar)] > 0 && slots != 0 && tile_.context_.pass_enabled("select")) {
    slots_ = 0;
    OnChip inverse = temporary(DType::f32);
    isa::Instruction in;
    in.opcode = Opcode::reciprocal;
    in.engine = Engine::vector;
    in.dst = at(inverse);
    in.src0 = s0.access;
    b_.add(std::move(in));
    s0 = ProgramBuilder::scalar(at(inverse));
    first.op = AluOp::multiply;
  }
  ScalarOperand s1;
  if (second.op != AluOp::bypass) {
    NEURON_ASSIGN(s1, scalar(second.scalar));
  }
  slots_ = slots;
  OnChip out = result(t, to);
  const Access dst = at(out);
  Access src = at(x);
  const Access* s0_access = s0.kind == ScalarOperand::Kind::access ? &s0.access : &dst;
  Engine e = engine(Opcode::tensor_scalar, compute, {&dst, &src, s0_access}, first.op, second.op);
  if (e == Engine::scalar) {  // ScalarE: multiply, add, or multiply then add, not reversed
    const bool mul_add = first.op == AluOp::multiply && second.op == AluOp::add;
    if (first.reversed || second.reversed || (second.op != AluOp::bypass && !mul_add)) e = Engine::vector;
  }
  NEURON_ASSIGN(src, source(x, e == Engine::gpsimd));
  b_.tensor_scalar(e, compute, dst, src, first.op, s0, first.reversed, second.op, s1, second.reversed);
  return out;
}

Result<OnChip> OpEmitter::binary(int32_t t, AluOp op, int32_t a, int32_t b, DType compute) {
  const DType to = result_;
  const uint32_t slots = slots_;
  if (op == AluOp::multiply && a == b && compute == DType::f32 && tile_.row_sum_term_ == t)
    return unary(t, ActFn::square, a, compute);  // leaves the sum of squares as it goes
  if (scalar_like(b) && !is_immediate(a)) return with_scalar(t, {a, b, op, false}, compute);
  if (scalar_like(a) && !is_immediate(b)) return with_scalar(t, {b, a, op, true}, compute);
  // One side an operation with a scalar that nobody else needs: (x op0 s) op b, or a op (x op0 s).
  if (vector_f32(op, compute)) {
    for (int side = 0; side < 2; ++side) {
      const int32_t inner_term = side == 0 ? a : b, other_term = side == 0 ? b : a;
      if (!absorbable(inner_term, compute) || tile_.slots_of(inner_term) != slots) continue;
      std::optional<ScalarOp> inner = scalar_op(inner_term, compute);
      if (!inner || !vector_f32(inner->op, compute)) continue;
      NEURON_ASSIGN(OnChip other, tensor(other_term));
      NEURON_ASSIGN(OnChip x, tensor(inner->tensor));
      NEURON_ASSIGN(ScalarOperand s, scalar(inner->scalar));
      slots_ = slots;
      if (b_.program().tiles[x.tile].space == isa::Space::psum && b_.program().tiles[other.tile].space == isa::Space::psum) {
        NEURON_ASSIGN(x, tile_.in_sbuf(x, slots));
      }
      OnChip out = result(t, to);
      const Access dst = at(out), src = at(x), second = at(other);
      const Access* s_access = s.kind == ScalarOperand::Kind::access ? &s.access : &dst;
      const Engine e = engine(Opcode::scalar_tensor_tensor, compute, {&dst, &src, &second, s_access}, inner->op, op);
      if (e == Engine::gpsimd) break;
      b_.scalar_tensor_tensor(e, compute, dst, src, inner->op, s, inner->reversed, op, second, side == 1);
      return out;
    }
  }
  NEURON_ASSIGN(OnChip x, tensor(a));
  NEURON_ASSIGN(OnChip y, tensor(b));
  slots_ = slots;
  if (b_.program().tiles[x.tile].space == isa::Space::psum && b_.program().tiles[y.tile].space == isa::Space::psum) {
    NEURON_ASSIGN(y, tile_.in_sbuf(y, slots));
  }
  OnChip out = result(t, to);
  const Access dst = at(out);
  Access s0 = at(x), s1 = at(y);
  const Engine e = engine(Opcode::tensor_tensor, compute, {&dst, &s0, &s1}, op);
  NEURON_ASSIGN(s0, source(x, e == Engine::gpsimd));
  NEURON_ASSIGN(s1, source(y, e == Engine::gpsimd));
  b_.tensor_tensor(e, compute, op, dst, s0, s1);
  return out;
}

Result<OnChip> OpEmitter::unary(int32_t t, ActFn func, int32_t x, DType compute) {
  const DType to = result_;
  const uint32_t slots = slots_;
  int32_t source_term = x, scale_term = -1, bias_term = -1;
  bool negate_bias = false;
  if (compute == DType::f32 && absorbs_scale_and_bias(func)) {
    const auto take = [&](int32_t at) -> std::optional<ScalarOp> {
      if (!absorbable(at, compute) || tile_.slots_of(at) != slots) return std::nullopt;
      return scalar_op(at, compute);
    };
    std::optional<ScalarOp> o = take(source_term);
    if (o && (o->op == AluOp::add || (o->op == AluOp::subtract && !o->reversed))) {
      bias_term = o->scalar;
      negate_bias = o->op == AluOp::subtract;
      source_term = o->tensor;
      o = take(source_term);
    }
    if (o && o->op == AluOp::multiply) {
      scale_term = o->scalar;
      source_term = o->tensor;
    }
  }
  NEURON_ASSIGN(OnChip v, tensor(source_term));
  ScalarOperand scale, bias;
  if (scale_term >= 0) {
    NEURON_ASSIGN(scale, scalar(scale_term));
  }
  if (bias_term >= 0) {
    NEURON_ASSIGN(bias, scalar(bias_term));
    if (negate_bias && bias.kind == ScalarOperand::Kind::immediate) {
      bias.re = -bias.re;
    } else if (negate_bias) {
      slots_ = 0;
      OnChip negative = temporary(DType::f32);
      const Access dst = at(negative);
      b_.tensor_scalar(Engine::vector, compute, dst, bias.access, AluOp::multiply, ProgramBuilder::immediate(-1.0));
      bias = ProgramBuilder::scalar(dst);
    }
  }
  slots_ = slots;
  OnChip out = result(t, to);
  const Access dst = at(out);
  Access src = at(v);
  const Engine e = engine(Opcode::activation, compute, {&dst, &src}, AluOp::bypass, AluOp::bypass, func);
  NEURON_ASSIGN(src, source(v, e == Engine::gpsimd));
  b_.activation(e, compute, func, dst, src, scale, bias);
  if (tile_.row_sum_term_ == t && compute == DType::f32) {
    slots_ = 0;
    tile_.row_sum_ = temporary(DType::f32);
    b_.program().instructions.back().dst2 = at(tile_.row_sum_);
    slots_ = slots;
  }
  return out;
}

}  // namespace neuron::compiler
