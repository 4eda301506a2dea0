#include "ops/indexing.h"

namespace neuron::ops {

Val wrap_negative(const Val& index, int64_t size) { return where(lt(index, 0), index + static_cast<double>(size), index); }

static std::vector<int64_t> dims_but(int64_t rank, int64_t left_out) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != left_out) dims.push_back(d);
  }
  return dims;
}

Val take_slices(const Val& x, const Val& index, int64_t dim) {
  ir::GatherAttrs g;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) g.offset_dims.push_back(d < dim ? d : d - 1 + index.rank());
  }
  g.collapsed_slice_dims = {dim};
  g.start_index_map = {dim};
  g.slice_sizes = x.shape();
  g.slice_sizes[dim] = 1;
  g.index_vector_dim = index.rank();
  return {x.builder(), x.builder().gather(x.value(), index.value(), g)};
}

// The part of x that an index tensor of this shape can reach, `dim` apart.
static Val reachable(const Val& x, const Shape& index, int64_t dim) {
  Val part = x;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) part = slice(part, d, 0, index[d]);
  }
  return part;
}

Val gather_elements(const Val& x, const Val& index, int64_t dim) {
  const Val part = reachable(x, index.shape(), dim);
  ir::GatherAttrs g;
  g.operand_batching_dims = g.start_indices_batching_dims = dims_but(x.rank(), dim);
  g.collapsed_slice_dims = {dim};
  g.start_index_map = {dim};
  g.slice_sizes = Shape(x.rank(), 1);
  g.index_vector_dim = index.rank();
  return {x.builder(), x.builder().gather(part.value(), index.value(), g)};
}

Val scatter_elements(const Val& x, const Val& index, const Val& src, int64_t dim, ir::Reducer combine) {
  const Val part = reachable(x, index.shape(), dim);
  ir::ScatterAttrs s;
  s.input_batching_dims = s.scatter_indices_batching_dims = dims_but(x.rank(), dim);
  s.inserted_window_dims = {dim};
  s.scatter_dims_to_operand_dims = {dim};
  s.index_vector_dim = index.rank();
  s.combine = combine;
  const Val changed(x.builder(), x.builder().scatter(part.value(), index.value(), src.value(), s));
  if (part.shape() == x.shape()) return changed;
  const std::vector<ir::Value> origin(x.rank(), full_int(x.builder(), DType::i64, {}, 0).value());
  return {x.builder(), x.builder().dynamic_update_slice(x.value(), changed.value(), origin)};
}

Val scatter_slices(const Val& x, const Val& index, const Val& src, int64_t dim, ir::Reducer combine) {
  ir::ScatterAttrs s;
  s.update_window_dims = dims_but(x.rank(), dim);
  s.inserted_window_dims = {dim};
  s.scatter_dims_to_operand_dims = {dim};
  s.index_vector_dim = 1;
  s.combine = combine;
  return {x.builder(), x.builder().scatter(x.value(), index.value(), src.value(), s)};
}

}  // namespace neuron::ops
