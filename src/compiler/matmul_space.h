// The iteration space of a matrix multiplication before any instruction is chosen: which index belongs to the batch, to the
// rows (m), to the columns (n) or to the contraction (k), and how far every access moves per step of it.
//
// Everything that makes dot_general general happens here, on small integer tables: indices of size 1 vanish, an index that
// one side does not see moves to the other side's rows or columns, neighbours that are contiguous for every access merge.
// What is left is one tile index per role and a few outer loops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::compiler {

enum class DimRole : uint8_t { batch, m, n, k };

// One index. strides[a] = elements that access a moves per step; 0 where the access does not depend on it.
struct MatmulDim {
  DimRole role = DimRole::batch;
  int64_t size = 1;
  std::vector<int64_t> strides;
};

// Positions in MatmulDim::strides of the accesses that decide roles; further accesses (prologue and epilogue operands,
// second outputs) follow in the region's order.
inline constexpr int kLhs = 0;
inline constexpr int kRhs = 1;
inline constexpr int kOut = 2;

struct MatmulSpace {
  std::vector<MatmulDim> dims;
  // Access groups: an access belongs to the left operand (depends on batch, m, k), to the right one (batch, n, k) or to the
  // output (batch, m, n).
  enum class Side : uint8_t { lhs, rhs, out };
  std::vector<Side> sides;  // one per access

  int64_t elements(DimRole role) const;
};

// Drops size-1 indices, turns batch indices that one side does not use into the other side's m or n, orders and merges.
// An index of size 0 stays (the caller handles empty results).
void collapse(MatmulSpace& space);

// Which index of each role is cut into tiles, and which become loops.
struct MatmulAxes {
  int m = -1, n = -1, k = -1;  // tile indices (positions in dims), -1 = the role has no index (size 1)
  std::vector<int> outer;      // batch and other m, n: affine loops, outermost first
  std::vector<int> inner_k;    // other contraction indices: sequential loops around k
};

// The tile index of each role is its longest one; the others become loops.
MatmulAxes choose_axes(const MatmulSpace& space);

std::string to_string(const MatmulSpace& space);

}  // namespace neuron::compiler
