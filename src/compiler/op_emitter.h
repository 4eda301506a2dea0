// Instruction selection for element-wise terms on a tile: the largest pattern that fits comes first (activation with scale
// and bias, two-operation tensor_scalar, scalar_tensor_tensor), then one instruction per operation. A pattern may absorb an
// input term only if nobody else uses it and it would not be rounded in between.
#pragma once

#include "compiler/tile_emitter.h"

namespace neuron::compiler {

class OpEmitter {
 public:
  explicit OpEmitter(TileEmitter& tile) : tile_(tile), b_(tile.builder_) {}

  Result<OnChip> emit(int32_t term);
  // The same into a tile of this dtype (a conversion that follows is absorbed).
  Result<OnChip> emit_as(int32_t term, DType result);

 private:
  // (x op scalar), or (scalar op x) when reversed.
  struct ScalarOp {
    int32_t tensor = -1;
    int32_t scalar = -1;
    isa::AluOp op = isa::AluOp::bypass;
    bool reversed = false;
  };

  const Term& term(int32_t t) const { return tile_.expression_.terms[static_cast<size_t>(t)]; }
  const ir::Node& node_of(const Term& t) const { return tile_.context_.graph.nodes[static_cast<size_t>(t.node)]; }
  bool is_immediate(int32_t t) const { return term(t).kind == TermKind::immediate; }
  bool scalar_like(int32_t t) const { return is_immediate(t) || tile_.slots_of(t) == 0; }
  bool absorbable(int32_t t, DType compute) const;
  bool vector_f32(isa::AluOp op, DType compute) const;
  std::optional<ScalarOp> scalar_op(int32_t t, DType compute) const;
  DType operand_dtype(int32_t t) const { return term(t).dtype; }

  Result<isa::ScalarOperand> scalar(int32_t t);
  Result<OnChip> tensor(int32_t t);       // SBUF or PSUM
  OnChip result(int32_t t, DType dtype);  // a new tile for the term
  isa::Access at(const OnChip& v) const { return tile_.access(v, slots_, tile_.frame_.partitions); }
  isa::Engine engine(isa::Opcode opcode, DType compute, std::initializer_list<const isa::Access*> operands,
                     isa::AluOp op0 = isa::AluOp::bypass, isa::AluOp op1 = isa::AluOp::bypass,
                     isa::ActFn func = isa::ActFn::copy) const;
  // Moves a PSUM source to SBUF when the engine is GpSimd.
  Result<isa::Access> source(const OnChip& v, bool gpsimd);

  Result<OnChip> binary(int32_t t, isa::AluOp op, int32_t a, int32_t b, DType compute);
  Result<OnChip> with_scalar(int32_t t, const ScalarOp& outer, DType compute);
  Result<OnChip> unary(int32_t t, isa::ActFn func, int32_t x, DType compute);
  Result<OnChip> boolean_not(int32_t t);
  Result<OnChip> not_a_number(int32_t t);
  Result<OnChip> exact_reciprocal(int32_t t, DType compute);
  Result<OnChip> convert(int32_t t);
  Result<OnChip> bitcast(int32_t t);
  Result<OnChip> select(int32_t t);
  Result<OnChip> clamp(int32_t t);
  Result<OnChip> make_complex(int32_t t);
  Result<OnChip> part_of_complex(int32_t t, bool imaginary);
  Result<OnChip> round_away(int32_t t);
  Result<OnChip> cube_root(int32_t t);
  Result<OnChip> with_unsigned_bits(int32_t t);
  // Value of t with exactly its own dtype in memory.
  Result<OnChip> own_dtype(int32_t t);
  OnChip temporary(DType dtype);

  TileEmitter& tile_;
  ProgramBuilder& b_;
  uint32_t slots_ = 0;  // of the term being emitted
  DType result_ = DType::f32;
};

}  // namespace neuron::compiler
