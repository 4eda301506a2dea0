// The matmul loop nest in tile instructions. What is loaded before and what happens to each finished block of the result are
// the caller's (hooks): the nest itself only knows tiles.
//
//   [affine loops over batch and leftover row and column indices]
//   loop column block (affine)
//     moving operand of the block -> SBUF [128, k tiles, columns]           one dma_copy, or a loop of dma_transpose
//     loop row tile (affine)
//       loop k tile (sequential)
//         stationary operand -> SBUF [k, rows], several buffers             dma_transpose or dma_copy
//         nc_matmul -> PSUM [rows, columns], accumulate_levels = k loop     (GpSimd and SBUF for 64-bit and complex types)
//       [k tail: the same with accumulate]
//       finish(PSUM block)
// When the moving block does not fit SBUF, the contraction is cut into blocks and a group of row tiles accumulates side by
// side while the blocks pass.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "compiler/matmul_space.h"
#include "compiler/matmul_tiling.h"
#include "compiler/program_builder.h"

namespace neuron::compiler {

// A block of an operand or of the result: for each index of the space its first position, and the two indices that span it.
struct MatmulBlock {
  std::vector<Index> position;  // per dim of MatmulSpace::dims
  int partition_dim = -1;       // operands: k; result: the row index; -1 = size 1
  int free_dim = -1;
  int64_t partitions = 1;  // extent along partition_dim
  int64_t free = 1;        // extent along free_dim
};

struct MatmulOperand {
  uint32_t tensor = 0;  // HBM
  DType dtype = DType::f32;
  Index offset_bytes;
  int access = kLhs;              // column of MatmulDim::strides
  DType tile_dtype = DType::f32;  // what TensorE reads
  // Fills dst (tile_dtype, [partitions, free]) with the operand's block. Absent: the operand lies in `tensor` as it is.
  std::function<Status(ProgramBuilder&, const MatmulBlock&, const isa::Access& dst)> produce;
};

struct MatmulProblem {
  MatmulSpace space;  // collapsed
  MatmulOperand lhs, rhs;
  DType compute = DType::f32;      // f32: TensorE and PSUM; f64, i64, u64, c64, c128: GpSimd and SBUF
  DType accumulator = DType::f32;  // the compute type, or an integer type narrower than it
  // Takes over one finished block of the result.
  std::function<Status(ProgramBuilder&, const MatmulBlock&, const isa::Access& accumulator)> finish;
  int64_t sbuf_budget_bytes = 96 * 1024;  // per partition, for the moving operand
};

Status emit_matmul(ProgramBuilder& builder, const MatmulProblem& problem);

// The HBM access of a block of tensor `tensor`, whose strides stand in column `access`.
isa::Access block_access(const ProgramBuilder& builder, const MatmulSpace& space, const MatmulBlock& block, uint32_t tensor,
                         DType dtype, const Index& offset_bytes, int access);
// dst [partitions, free] <- the block, by dma_copy or, where the tensor's fast index is the partition index, dma_transpose.
void emit_block_load(ProgramBuilder& builder, const MatmulSpace& space, const MatmulBlock& block, uint32_t tensor,
                     DType dtype, const Index& offset_bytes, int access, const isa::Access& dst);

}  // namespace neuron::compiler
