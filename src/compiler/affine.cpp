#include "compiler/affine.h"

#include <algorithm>
#include <cstdlib>

namespace neuron::compiler {

std::vector<int64_t> dense_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

View identity_view(std::span<const int64_t> extents) { return {0, dense_strides(extents)}; }

namespace {

// Index range of one dimension over the whole space.
bool within(const View& index, std::span<const int64_t> extents, int64_t size) {
  int64_t low = index.offset, high = index.offset;
  for (size_t d = 0; d < extents.size(); ++d) {
    const int64_t reach = index.strides[d] * (extents[d] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high < size;
}

// A space dimension that moves only along dimension k of the value and runs over its end: how many of its steps fit.
std::optional<Split> find_split(const std::vector<View>& index, std::span<const int64_t> extents,
                                const std::vector<int64_t>& shape, size_t k) {
  for (size_t d = 0; d < extents.size(); ++d) {
    const int64_t q = index[k].strides[d];
    if (q == 0) continue;
    bool alone = true;
    for (size_t j = 0; j < shape.size(); ++j) alone = alone && (j == k || index[j].strides[d] == 0);
    if (!alone) continue;
    const int64_t room = q > 0 ? shape[k] - 1 - index[k].offset : index[k].offset;
    const int64_t fit = room / std::llabs(q) + 1;
    if (fit > 1 && fit < extents[d] && extents[d] % fit == 0) return Split{d, fit};
  }
  return std::nullopt;
}

}  // namespace

Decomposition decompose(const View& view, std::span<const int64_t> extents, const std::vector<int64_t>& shape) {
  Decomposition result;
  const std::vector<int64_t> rows = dense_strides(shape);
  result.index.assign(shape.size(), View{0, std::vector<int64_t>(extents.size(), 0)});
  int64_t rest = view.offset;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 1) continue;
    result.index[k].offset = rest / rows[k];
    rest %= rows[k];
  }
  if (rest != 0) return result;
  for (size_t d = 0; d < extents.size(); ++d) {
    int64_t s = extents[d] == 1 ? 0 : view.strides[d];
    for (size_t k = 0; k < shape.size() && s != 0; ++k) {
      if (shape[k] == 1) continue;
      result.index[k].strides[d] = s / rows[k];
      s %= rows[k];
    }
    if (s != 0) return result;
  }
  for (size_t k = shape.size(); k-- > 0;) {
    if (within(result.index[k], extents, std::max<int64_t>(shape[k], 1))) continue;
    if (std::optional<Split> split = find_split(result.index, extents, shape, k)) {
      result.kind = Decomposition::Kind::split;
      result.split = *split;
    }
    return result;
  }
  result.kind = Decomposition::Kind::ok;
  return result;
}

bool is_flat_view_op(ir::Op op) { return op == ir::Op::reshape; }

bool is_view_op(ir::Op op) {
  switch (op) {
    case ir::Op::reshape:
    case ir::Op::broadcast_in_dim:
    case ir::Op::transpose:
    case ir::Op::slice:
    case ir::Op::reverse:
    case ir::Op::strided_view:
      return true;
    default:
      return false;
  }
}

View combine(const std::vector<View>& index, std::span<const int64_t> strides, size_t space_rank) {
  View v{0, std::vector<int64_t>(space_rank, 0)};
  for (size_t k = 0; k < index.size(); ++k) {
    v.offset += index[k].offset * strides[k];
    for (size_t d = 0; d < space_rank; ++d) v.strides[d] += index[k].strides[d] * strides[k];
  }
  return v;
}

View through_view_op(const ir::Node& node, const std::vector<int64_t>& operand_shape, const View& result,
                     const std::vector<View>& index) {
  if (is_flat_view_op(node.op)) return result;
  const size_t rank = result.strides.size();
  if (node.op == ir::Op::strided_view) {
    const auto& a = std::get<ir::StridedViewAttrs>(node.attrs);
    View v = combine(index, a.strides, rank);
    v.offset += a.offset;
    return v;
  }
  std::vector<View> operand(operand_shape.size(), View{0, std::vector<int64_t>(rank, 0)});
  switch (node.op) {
    case ir::Op::transpose: {
      const auto& dims = std::get<ir::DimsAttrs>(node.attrs).dims;
      for (size_t j = 0; j < dims.size(); ++j) operand[static_cast<size_t>(dims[j])] = index[j];
      break;
    }
    case ir::Op::broadcast_in_dim: {
      const auto& dims = std::get<ir::DimsAttrs>(node.attrs).dims;
      for (size_t j = 0; j < dims.size(); ++j)
        if (operand_shape[j] != 1) operand[j] = index[static_cast<size_t>(dims[j])];
      break;
    }
    case ir::Op::slice: {
      const auto& a = std::get<ir::SliceAttrs>(node.attrs);
      for (size_t j = 0; j < operand.size(); ++j) {
        operand[j] = index[j];
        const int64_t step = a.stride.empty() ? 1 : a.stride[j];
        operand[j].offset = a.start[j] + index[j].offset * step;
        for (int64_t& s : operand[j].strides) s *= step;
      }
      break;
    }
    case ir::Op::reverse: {
      operand = index;
      for (int64_t d : std::get<ir::DimsAttrs>(node.attrs).dims) {
        View& v = operand[static_cast<size_t>(d)];
        v.offset = operand_shape[static_cast<size_t>(d)] - 1 - v.offset;
        for (int64_t& s : v.strides) s = -s;
      }
      break;
    }
    default:
      break;
  }
  return combine(operand, dense_strides(operand_shape), rank);
}

void apply_split(View& view, const Split& split) {
  const int64_t s = view.strides[split.dim];
  view.strides.insert(view.strides.begin() + static_cast<std::ptrdiff_t>(split.dim), s * split.inner);
  view.strides[split.dim + 1] = s;
}

}  // namespace neuron::compiler
