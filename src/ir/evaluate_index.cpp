// gather and scatter: StableHLO's index arithmetic, written out.
#include <algorithm>

#include "ir/evaluate.h"

namespace neuron::ir {
namespace {

bool contains(const std::vector<int64_t>& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

// Where batch index `batch` (the index tensor's dims without index_vector_dim) starts in the operand, unclamped.
struct Starts {
  const Literal& indices;
  int64_t index_vector_dim;
  const std::vector<int64_t>&map, &batching, &index_batching;

  std::vector<int64_t> at(const std::vector<int64_t>& batch, size_t operand_rank) const {
    const std::vector<int64_t>& shape = indices.type.shape;
    const bool has_vector = index_vector_dim < static_cast<int64_t>(shape.size());
    std::vector<int64_t> index = batch;
    if (has_vector) index.insert(index.begin() + index_vector_dim, 0);
    std::vector<int64_t> start(operand_rank);
    for (size_t k = 0; k < map.size(); ++k) {
      if (has_vector) index[index_vector_dim] = static_cast<int64_t>(k);
      start[map[k]] = load_index(position(index, shape));
    }
    for (size_t k = 0; k < batching.size(); ++k) start[batching[k]] = index[index_batching[k]];
    return start;
  }

  int64_t load_index(int64_t p) const {
    const DType t = indices.type.dtype;
    const uint8_t* at = indices.data.data() + p * size_of(t);
    if (!is_unsigned_integer(t)) return load_signed(t, at);
    return static_cast<int64_t>(std::min<uint64_t>(load_unsigned(t, at), INT64_MAX));
  }
};

Status outside(Op op, int64_t index, int64_t dim, int64_t size) {
  return out_of_range(std::string(name_of(op)) + ": index " + std::to_string(index) + " is out of bounds for dimension " +
                      std::to_string(dim) + " with size " + std::to_string(size));
}

// Splits a result index into the part along `window` dims and the rest.
void split(const std::vector<int64_t>& index, const std::vector<int64_t>& window, std::vector<int64_t>& in_window,
           std::vector<int64_t>& batch) {
  in_window.clear();
  batch.clear();
  for (size_t d = 0; d < index.size(); ++d)
    (contains(window, static_cast<int64_t>(d)) ? in_window : batch).push_back(index[d]);
}

Status gather(NodeCall c) {
  const auto& g = std::get<GatherAttrs>(c.node.attrs);
  const std::vector<int64_t>& from = c.type(0).shape;
  const Starts starts{*c.in[1], g.index_vector_dim, g.start_index_map, g.operand_batching_dims,
                      g.start_indices_batching_dims};
  std::vector<int64_t> window, batch;
  int64_t p = 0;
  for (MultiIndex i(c.out[0].type.shape); i.valid(); i.next(), ++p) {
    split(*i, g.offset_dims, window, batch);
    std::vector<int64_t> at = starts.at(batch, from.size());
    size_t w = 0;
    for (int64_t d = 0; d < static_cast<int64_t>(from.size()); ++d) {
      const int64_t last = from[d] - g.slice_sizes[d];
      if (g.check_bounds && (at[d] < 0 || at[d] > last)) return outside(Op::gather, at[d], d, from[d]);
      at[d] = std::clamp<int64_t>(at[d], 0, last);
      if (!contains(g.collapsed_slice_dims, d) && !contains(g.operand_batching_dims, d)) at[d] += window[w++];
    }
    copy_element(c.out[0], p, *c.in[0], position(at, from));
  }
  return {};
}

template <class T>
Status scatter(NodeCall c) {
  const auto& s = std::get<ScatterAttrs>(c.node.attrs);
  const DType dtype = c.type(0).dtype;
  const std::vector<int64_t>& to = c.type(0).shape;
  const Starts starts{*c.in[1], s.index_vector_dim, s.scatter_dims_to_operand_dims, s.input_batching_dims,
                      s.scatter_indices_batching_dims};
  std::vector<T> x = numbers<T>(*c.in[0]);
  const std::vector<T> updates = numbers<T>(*c.in[2]);
  std::vector<int64_t> window, batch;
  size_t p = 0;
  for (MultiIndex i(c.type(2).shape); i.valid(); i.next(), ++p) {
    split(*i, s.update_window_dims, window, batch);
    std::vector<int64_t> at = starts.at(batch, to.size());
    size_t w = 0;
    bool inside = true;
    for (int64_t d = 0; d < static_cast<int64_t>(to.size()); ++d) {
      const int64_t start = at[d];
      if (!contains(s.inserted_window_dims, d) && !contains(s.input_batching_dims, d)) at[d] += window[w++];
      const bool in_dim = start >= 0 && at[d] >= 0 && at[d] < to[d];
      if (!in_dim && s.check_bounds) return outside(Op::scatter, start, d, to[d]);
      inside = inside && at[d] >= 0 && at[d] < to[d];
    }
    if (!inside) continue;
    T& slot = x[position(at, to)];
    slot = combine(s.combine, slot, updates[p], dtype);
  }
  c.out[0].data = c.in[0]->data;
  for (size_t i = 0; i < x.size(); ++i) store_at(c.out[0], i, x[i]);
  return {};
}

}  // namespace

Status evaluate_index(NodeCall c) {
  if (c.node.op == Op::gather) return gather(c);
  return with_number(c.type(0).dtype, [&]<class T>(T) -> Status { return scatter<T>(c); });
}

}  // namespace neuron::ir
