// Leaves, conversions and operators that only move elements.
#include <algorithm>

#include "ir/evaluate.h"

namespace neuron::ir {

void copy_element(Literal& to, int64_t to_position, const Literal& from, int64_t from_position) {
  const size_t size = size_of(to.type.dtype);
  std::memcpy(to.data.data() + to_position * size, from.data.data() + from_position * size, size);
}

namespace {

void constant(NodeCall c) {
  const auto& a = std::get<ConstantAttrs>(c.node.attrs);
  if (!a.splat) {
    c.out[0].data = a.data;
    return;
  }
  for (size_t i = 0; i < c.out[0].data.size(); i += a.data.size())
    std::copy(a.data.begin(), a.data.end(), c.out[0].data.begin() + i);
}

void iota(NodeCall c) {
  const int64_t dim = std::get<DimAttrs>(c.node.attrs).dim;
  size_t p = 0;
  for (MultiIndex i(c.out[0].type.shape); i.valid(); i.next()) store_at(c.out[0], p++, i[dim]);
}

void convert(NodeCall c) {
  with_number(c.type(0).dtype, [&]<class T>(T) {
    const std::vector<T> x = numbers<T>(*c.in[0]);
    for (size_t i = 0; i < x.size(); ++i) store_at(c.out[0], i, x[i]);
  });
}

// Operators whose result element at index `i` is the operand's element at source(i).
template <class F>
void move_elements(NodeCall c, F source) {
  int64_t p = 0;
  for (MultiIndex i(c.out[0].type.shape); i.valid(); i.next()) copy_element(c.out[0], p++, *c.in[0], source(*i));
}

void broadcast(NodeCall c) {
  const auto& dims = std::get<DimsAttrs>(c.node.attrs).dims;
  const std::vector<int64_t>& from = c.type(0).shape;
  move_elements(c, [&](const std::vector<int64_t>& i) {
    std::vector<int64_t> at(from.size());
    for (size_t d = 0; d < from.size(); ++d) at[d] = from[d] == 1 ? 0 : i[dims[d]];
    return position(at, from);
  });
}

void transpose(NodeCall c) {
  const auto& perm = std::get<DimsAttrs>(c.node.attrs).dims;
  const std::vector<int64_t>& from = c.type(0).shape;
  move_elements(c, [&](const std::vector<int64_t>& i) {
    std::vector<int64_t> at(from.size());
    for (size_t d = 0; d < from.size(); ++d) at[perm[d]] = i[d];
    return position(at, from);
  });
}

void slice(NodeCall c) {
  const auto& a = std::get<SliceAttrs>(c.node.attrs);
  const std::vector<int64_t>& from = c.type(0).shape;
  move_elements(c, [&](const std::vector<int64_t>& i) {
    std::vector<int64_t> at(from.size());
    for (size_t d = 0; d < from.size(); ++d) at[d] = a.start[d] + i[d] * a.stride[d];
    return position(at, from);
  });
}

void reverse(NodeCall c) {
  const auto& dims = std::get<DimsAttrs>(c.node.attrs).dims;
  const std::vector<int64_t>& shape = c.type(0).shape;
  move_elements(c, [&](std::vector<int64_t> i) {
    for (int64_t d : dims) i[d] = shape[d] - 1 - i[d];
    return position(i, shape);
  });
}

void strided_view(NodeCall c) {
  const auto& a = std::get<StridedViewAttrs>(c.node.attrs);
  move_elements(c, [&](const std::vector<int64_t>& i) {
    int64_t p = a.offset;
    for (size_t d = 0; d < i.size(); ++d) p += i[d] * a.strides[d];
    return p;
  });
}

void concatenate(NodeCall c) {
  const int64_t dim = std::get<DimAttrs>(c.node.attrs).dim;
  int64_t before = 0;
  for (const Literal* part : c.in) {
    int64_t p = 0;
    for (MultiIndex i(part->type.shape); i.valid(); i.next()) {
      std::vector<int64_t> at = *i;
      at[dim] += before;
      copy_element(c.out[0], position(at, c.out[0].type.shape), *part, p++);
    }
    before += part->type.shape[dim];
  }
}

void pad(NodeCall c) {
  const auto& a = std::get<PadAttrs>(c.node.attrs);
  const std::vector<int64_t>& shape = c.out[0].type.shape;
  for (int64_t p = 0; p < c.out[0].type.elements(); ++p) copy_element(c.out[0], p, *c.in[1], 0);
  int64_t p = -1;
  for (MultiIndex i(c.type(0).shape); i.valid(); i.next()) {
    ++p;
    std::vector<int64_t> at(shape.size());
    bool inside = true;
    for (size_t d = 0; d < shape.size(); ++d) {
      at[d] = a.low[d] + i[d] * (a.interior[d] + 1);
      inside = inside && at[d] >= 0 && at[d] < shape[d];
    }
    if (inside) copy_element(c.out[0], position(at, shape), *c.in[0], p);
  }
}

// Start indices of dynamic_slice and dynamic_update_slice, clamped so that the slice lies in the operand (as StableHLO).
std::vector<int64_t> clamped_starts(NodeCall c, size_t first, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> starts;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const Literal& s = *c.in[first + d];
    const int64_t last = c.type(0).shape[d] - sizes[d];
    if (is_unsigned_integer(s.type.dtype)) {
      starts.push_back(static_cast<int64_t>(std::min(numbers<uint64_t>(s)[0], static_cast<uint64_t>(last))));
    } else {
      starts.push_back(std::clamp<int64_t>(numbers<int64_t>(s)[0], 0, last));
    }
  }
  return starts;
}

void dynamic_slice(NodeCall c) {
  const std::vector<int64_t> starts = clamped_starts(c, 1, c.out[0].type.shape);
  move_elements(c, [&](std::vector<int64_t> i) {
    for (size_t d = 0; d < i.size(); ++d) i[d] += starts[d];
    return position(i, c.type(0).shape);
  });
}

void dynamic_update_slice(NodeCall c) {
  const std::vector<int64_t> starts = clamped_starts(c, 2, c.type(1).shape);
  c.out[0].data = c.in[0]->data;
  int64_t p = 0;
  for (MultiIndex i(c.type(1).shape); i.valid(); i.next()) {
    std::vector<int64_t> at = *i;
    for (size_t d = 0; d < at.size(); ++d) at[d] += starts[d];
    copy_element(c.out[0], position(at, c.type(0).shape), *c.in[1], p++);
  }
}

}  // namespace

Status evaluate_shape(NodeCall c) {
  switch (c.node.op) {
    case Op::constant:
      constant(c);
      break;
    case Op::iota:
      iota(c);
      break;
    case Op::convert:
      convert(c);
      break;
    case Op::bitcast_convert:
    case Op::reshape:
      c.out[0].data = c.in[0]->data;
      break;
    case Op::broadcast_in_dim:
      broadcast(c);
      break;
    case Op::transpose:
      transpose(c);
      break;
    case Op::slice:
      slice(c);
      break;
    case Op::reverse:
      reverse(c);
      break;
    case Op::strided_view:
      strided_view(c);
      break;
    case Op::concatenate:
      concatenate(c);
      break;
    case Op::pad:
      pad(c);
      break;
    case Op::dynamic_slice:
      dynamic_slice(c);
      break;
    case Op::dynamic_update_slice:
      dynamic_update_slice(c);
      break;
    default:
      return unsupported("evaluate: " + std::string(name_of(c.node.op)));
  }
  return {};
}

}  // namespace neuron::ir
