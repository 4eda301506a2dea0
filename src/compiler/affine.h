// How an operand is reached from a region's iteration space: an affine map from space indices to element numbers, carried
// through view operations so that views never become copies.
//
// A View counts elements of a value in logical row-major order: element = offset + sum_d strides[d] * i_d, whatever layout
// the value has in memory. Reshape therefore changes nothing. Operations that permute, cut or flip dimensions need the index
// of each dimension back; decompose() finds it, splitting a space dimension where one of its runs crosses several dimensions
// of the value. Where no split exists (a run of 6 over rows of 4) the value has to be materialised, and flat access works
// again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace neuron::compiler {

struct View {
  int64_t offset = 0;
  std::vector<int64_t> strides;  // elements, one per space dimension
  bool operator==(const View&) const = default;
};

struct Split {
  size_t dim;  // space dimension to replace by (extent/inner, inner)
  int64_t inner;
};

// Strides of a dense row-major tensor with these extents (extents of 0 count as 1).
std::vector<int64_t> dense_strides(std::span<const int64_t> shape);

// The view of all elements of the space in order.
View identity_view(std::span<const int64_t> extents);

// Index of every dimension of `shape` as a function of the space: result[k] is a View in units of that dimension's index.
struct Decomposition {
  enum class Kind : uint8_t { ok, split, impossible } kind = Kind::impossible;
  std::vector<View> index;  // ok
  Split split{};            // split: apply and try again
};
Decomposition decompose(const View& view, std::span<const int64_t> extents, const std::vector<int64_t>& shape);

// True for operations that only change which element is read (operands[0] is the tensor).
bool is_view_op(ir::Op op);
// True for view operations that need no decomposition of the result's index.
bool is_flat_view_op(ir::Op op);

// The view of the operand of view operation `node`, given a view of its result decomposed into indices (unused for flat
// ones).
View through_view_op(const ir::Node& node, const std::vector<int64_t>& operand_shape, const View& result,
                     const std::vector<View>& index);

// sum_k index[k] * strides[k] + offset: e.g. the memory element in a layout.
View combine(const std::vector<View>& index, std::span<const int64_t> strides, size_t space_rank);

// Replaces stride of split.dim by two.
void apply_split(View& view, const Split& split);

}  // namespace neuron::compiler
