// Views as IR operations, for graphs imported from torch.compile (eager mode has real views), and their *_copy forms.
//
// Not supported: as_strided on an input that is not dense.
#include <algorithm>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

Shape infer_size(const Shape& wanted, int64_t elements) {
  Shape shape = wanted;
  int64_t known = 1;
  for (int64_t s : shape) known *= s == -1 ? 1 : s;
  for (int64_t& s : shape) s = s == -1 ? (known == 0 ? 0 : elements / known) : s;
  return shape;
}

int64_t wrap(int64_t dim, int64_t rank) { return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim; }

Val view(Lowering& l) {
  const Val x = l.raw("self");
  const char* name = l.has("shape") ? "shape" : "size";
  return reshape(x, infer_size(l.ints(name), x.elements()));
}

Val expand(Lowering& l) {
  const Val x = l.raw("self");
  Shape shape = l.ints("size");
  const Shape from = x.shape();
  const size_t lead = shape.size() - std::min(shape.size(), from.size());
  for (size_t d = lead; d < shape.size(); ++d) {
    if (shape[d] == -1) shape[d] = from[d - lead];
  }
  return broadcast_to(x, shape);
}

Val permute(Lowering& l) {
  const Val x = l.raw("self");
  std::vector<int64_t> dims = l.ints("dims");
  for (int64_t& d : dims) d = wrap(d, x.rank());
  return transpose(x, dims);
}

Val transpose_dims(Lowering& l) {
  const Val x = l.raw("self");
  return x.rank() == 0 ? x : swap_dims(x, l.dim("dim0", x.rank()), l.dim("dim1", x.rank()));
}

Val squeeze_dims(Lowering& l, bool all) {
  const Val x = l.raw("self");
  const Shape shape = x.shape();
  const bool none = !all && l.ints("dim").empty();
  const auto dims = all ? all_dims(x) : none ? std::vector<int64_t>{} : l.dims("dim", x.rank());
  Shape kept;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool named = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!named || shape[d] != 1) kept.push_back(shape[d]);
  }
  return reshape(x, kept);
}

struct Range {
  int64_t start, end, step, count;
};

Range slice_range(const Lowering& l, int64_t size) {
  Range r{l.int_("start", 0), l.has("end") ? l.int_("end") : size, l.int_("step", 1), 0};
  if (r.start < 0) r.start += size;
  if (r.end < 0) r.end += size;
  r.start = std::clamp<int64_t>(r.start, 0, size);
  r.end = std::clamp<int64_t>(r.end, r.start, size);
  r.count = (r.end - r.start + r.step - 1) / r.step;
  return r;
}

Val slice_tensor(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t dim = l.dim("dim", x.rank());
  const Range r = slice_range(l, x.size(dim));
  return slice(x, dim, r.start, r.end, r.step);
}

Val select_int(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t dim = l.dim("dim", x.rank()), size = x.size(dim);
  const int64_t index = l.int_("index");
  return select(x, dim, index < 0 ? index + size : index);
}

Val strided(const Val& x, const Shape& shape, const Shape& strides, int64_t offset) {
  return {x.builder(), x.builder().strided_view(x.value(), shape, strides, offset)};
}

struct Diagonal {
  Shape shape, strides;
  int64_t offset = 0;
};

// The diagonal of dims dim1, dim2 of a row-major tensor; it becomes the last dim.
Diagonal diagonal_of(const Lowering& l, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t a = l.dim("dim1", rank, 0), b = l.dim("dim2", rank, 1), k = l.int_("offset", 0);
  const Shape strides = contiguous_strides_of(shape);
  Diagonal d;
  for (int64_t i = 0; i < rank; ++i) {
    if (i == a || i == b) continue;
    d.shape.push_back(shape[i]);
    d.strides.push_back(strides[i]);
  }
  const int64_t length = k >= 0 ? std::min(shape[a], shape[b] - k) : std::min(shape[a] + k, shape[b]);
  d.shape.push_back(std::max<int64_t>(length, 0));
  d.strides.push_back(strides[a] + strides[b]);
  if (length > 0) d.offset = k >= 0 ? k * strides[b] : -k * strides[a];
  return d;
}

Val diagonal(Lowering& l) {
  const Val x = l.raw("self");
  const Diagonal d = diagonal_of(l, x.shape());
  return strided(x, d.shape, d.strides, d.offset);
}

Val unfold(Lowering& l) {
  const Val x = l.raw("self");
  Shape shape = x.shape(), strides = contiguous_strides_of(shape);
  const int64_t dim = l.dim("dimension", x.rank()), size = l.int_("size"), step = l.int_("step", 1);
  if (x.rank() == 0) return reshape(x, {size});
  shape.push_back(size);
  strides.push_back(strides[dim]);
  shape[dim] = (shape[dim] - size) / step + 1;
  strides[dim] *= step;
  return strided(x, shape, strides, 0);
}

// The elements of x in the order of its storage; only dense tensors have one.
std::optional<Val> in_storage_order(const Val& x, const TensorMeta& meta, std::vector<int64_t>* order_out = nullptr) {
  if (!is_dense(meta.shape, meta.strides)) return std::nullopt;
  std::vector<int64_t> order = all_dims(x);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (meta.shape[a] < 2 || meta.shape[b] < 2) return false;
    return meta.strides[a] > meta.strides[b];
  });
  if (order_out) *order_out = order;
  return is_contiguous(meta.shape, meta.strides) ? x : transpose(x, order);
}

Val as_strided(Lowering& l) {
  const Val x = l.raw("self");
  const auto storage = in_storage_order(x, l.meta("self"));
  if (!storage) return l.unsupported("as_strided of a tensor that is not dense");
  const Shape size = l.ints("size"), stride = l.ints("stride");
  int64_t last = l.int_("storage_offset", 0);
  for (size_t d = 0; d < size.size(); ++d) last += (size[d] - 1) * stride[d];
  if (element_count(size) > 0 && last >= x.elements()) return l.unsupported("as_strided beyond the tensor's own elements");
  return strided(*storage, l.ints("size"), l.ints("stride"), l.int_("storage_offset", 0));
}

std::vector<Val> split_sizes(const Val& x, int64_t dim, const std::vector<int64_t>& sizes) {
  std::vector<Val> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(slice(x, dim, start, start + size));
    start += size;
  }
  return parts;
}

std::vector<Val> split(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t dim = l.dim("dim", x.rank()), total = x.size(dim), size = l.int_("split_size");
  std::vector<int64_t> sizes;
  for (int64_t start = 0; start < total; start += size) sizes.push_back(std::min(size, total - start));
  if (sizes.empty()) sizes.push_back(0);
  return split_sizes(x, dim, sizes);
}

std::vector<Val> unbind(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t dim = l.dim("dim", x.rank());
  std::vector<Val> parts;
  for (int64_t i = 0; i < x.size(dim); ++i) parts.push_back(select(x, dim, i));
  return parts;
}

Val view_as_real(Lowering& l) {
  const Val x = l.raw("self");
  return concatenate({unsqueeze(real(x), x.rank()), unsqueeze(imag(x), x.rank())}, x.rank());
}

Val view_as_complex(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t last = x.rank() - 1;
  return make_complex(select(x, last, 0), select(x, last, 1));
}

}  // namespace

void register_views(Registry& registry) {
  struct View {
    const char* name;
    const char* overload;  // of the view; the copy has the same
    Body body;
  };
  const View views[] = {
      {"view", "", view},
      {"_unsafe_view", "", view},
      {"reshape", "", view},
      {"expand", "", expand},
      {"permute", "", permute},
      {"transpose", ".int", transpose_dims},
      {"t", "", [](Lowering& l) { return l.raw("self").rank() < 2 ? l.raw("self") : swap_dims(l.raw("self"), 0, 1); }},
      {"squeeze", "", [](Lowering& l) { return squeeze_dims(l, true); }},
      {"squeeze", ".dim", [](Lowering& l) { return squeeze_dims(l, false); }},
      {"squeeze", ".dims", [](Lowering& l) { return squeeze_dims(l, false); }},
      {"unsqueeze", "", [](Lowering& l) { return unsqueeze(l.raw("self"), l.dim("dim", l.raw("self").rank() + 1)); }},
      {"slice", ".Tensor", slice_tensor},
      {"select", ".int", select_int},
      {"diagonal", "", diagonal},
      {"unfold", "", unfold},
      {"as_strided", "", as_strided},
      {"split", ".Tensor", split},
      {"split_with_sizes", "",
       [](Lowering& l) { return split_sizes(l.raw("self"), l.dim("dim", l.raw("self").rank()), l.ints("split_sizes")); }},
      {"unbind", ".int", unbind},
      {"view_as_real", "", view_as_real},
      {"view_as_complex", "", view_as_complex},
      {"real", "", [](Lowering& l) { return real(l.raw("self")); }},
      {"imag", "", [](Lowering& l) { return imag(l.raw("self")); }},
      {"_conj", "", [](Lowering& l) { return conj(l.raw("self")); }},
      {"_neg_view", "", [](Lowering& l) { return -l.raw("self"); }},
  };
  for (const View& v : views) {
    NEURON_OP(std::string("aten::") + v.name + v.overload, no_promotion(), no_rule(), v.body);
    NEURON_OP(std::string("aten::") + v.name + "_copy" + v.overload, no_promotion(), no_rule(), v.body);
  }
  for (const char* name : {"aten::alias", "aten::detach", "aten::lift", "aten::lift_fresh", "aten::view_of",
                           "aten::resolve_conj", "aten::resolve_neg"}) {
    NEURON_OP(name, no_promotion(), no_rule(), [](Lowering& l) { return l.raw("self"); });
  }
  NEURON_OP("aten::view.dtype", no_promotion(), no_rule(), [](Lowering& l) {
    const Val x = l.raw("self");
    const DType to = l.dtype("dtype").value_or(x.dtype());
    if (to == x.dtype()) return x;
    if (size_of(to) != size_of(x.dtype()) || to == DType::boolean || x.dtype() == DType::boolean) {
      return l.unsupported("view as " + std::string(name_of(to)));
    }
    return Val(l.builder(), l.builder().bitcast(x.value(), to));
  });
}

// --- gradients and scatters of views ---

namespace {

// Pads `part` so that it lies where [start:end:step] of a dim of that size is; the rest is zero.
Val place_slice(const Val& part, int64_t dim, const Range& r, int64_t size) {
  Shape low(part.rank(), 0), high(part.rank(), 0), interior(part.rank(), 0);
  const int64_t extent = r.count == 0 ? 0 : (r.count - 1) * r.step + 1;
  low[dim] = r.count == 0 ? 0 : r.start;
  high[dim] = size - low[dim] - extent;
  interior[dim] = r.step - 1;
  return pad(part, 0, low, high, interior);
}

Val scatter_slice(const Val& x, const Val& source, int64_t dim, const Range& r) {
  const int64_t size = x.size(dim);
  if (r.count == 0) return x;
  if (r.step == 1) {
    std::vector<Val> parts;
    if (r.start > 0) parts.push_back(slice(x, dim, 0, r.start));
    parts.push_back(source);
    if (r.start + r.count < size) parts.push_back(slice(x, dim, r.start + r.count, size));
    return concatenate(parts, dim);
  }
  const Val replaced = place_slice(full(x.builder(), DType::boolean, source.shape(), 1), dim, r, size);
  return where(replaced, place_slice(source, dim, r, size), x);
}

// flat[offset + sum i_d * stride_d] op= part[i]; flat is 1-D.
Val scatter_strided(const Val& flat, const Val& part, const Shape& strides, int64_t offset, ir::Reducer combine) {
  const Shape shape = part.shape();
  if (element_count(shape) == 0) return flat;
  ir::Builder& b = flat.builder();
  Val index = full_int(b, DType::i64, shape, offset);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1) index = index + iota(b, DType::i64, shape, static_cast<int64_t>(d)) * static_cast<double>(strides[d]);
  }
  ir::ScatterAttrs s;
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  s.combine = combine;
  return {b, b.scatter(flat.value(), flatten(index).value(), flatten(part).value(), s)};
}

std::optional<Metas> grad_shape(const Lowering& l) {
  const char* name = l.has("input_sizes") ? "input_sizes" : "input_size";
  const char* grad = l.has("grad_output") ? "grad_output" : "grad_in";
  return one(contiguous_meta(l.meta(grad).dtype, l.has(name) ? l.ints(name) : Shape{}));
}

// *_scatter clone self with its strides; what overlaps is left to PyTorch.
std::optional<Metas> scatter_like(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  if (!is_dense(m.shape, m.strides) || l.meta("src").dtype != m.dtype) return std::nullopt;
  return one(m);
}

void register_gradients(Registry& registry) {
  NEURON_OP("aten::slice_backward", no_promotion(), result(grad_shape), [](Lowering& l) {
    const Shape shape = l.ints("input_sizes");
    const int64_t dim = l.dim("dim", static_cast<int64_t>(shape.size()));
    return place_slice(l.raw("grad_output"), dim, slice_range(l, shape[dim]), shape[dim]);
  });
  NEURON_OP("aten::select_backward", no_promotion(), result(grad_shape), [](Lowering& l) {
    const Shape shape = l.ints("input_sizes");
    const int64_t dim = l.dim("dim", static_cast<int64_t>(shape.size()));
    const int64_t index = l.int_("index") < 0 ? l.int_("index") + shape[dim] : l.int_("index");
    return place_slice(unsqueeze(l.raw("grad_output"), dim), dim, {index, index + 1, 1, 1}, shape[dim]);
  });
  NEURON_OP("aten::diagonal_backward", no_promotion(), result(grad_shape), [](Lowering& l) {
    const Shape shape = l.ints("input_sizes");
    const Val grad = l.raw("grad_output");
    const Diagonal d = diagonal_of(l, shape);
    const Val zeros = full(l.builder(), grad.dtype(), {element_count(shape)}, 0);
    return reshape(scatter_strided(zeros, grad, d.strides, d.offset, ir::Reducer::assign), shape);
  });
  NEURON_OP("aten::unfold_backward", no_promotion(), result(grad_shape), [](Lowering& l) {
    const Shape shape = l.ints("input_sizes");
    const Val grad = l.raw("grad_in");
    if (shape.empty()) return reshape(grad, {});
    Shape strides = contiguous_strides_of(shape);
    const int64_t dim = l.dim("dim", static_cast<int64_t>(shape.size()));
    strides.push_back(strides[dim]);
    strides[dim] *= l.int_("step", 1);
    const Val zeros = full(l.builder(), opmath(grad.dtype()), {element_count(shape)}, 0);
    const Val total = scatter_strided(zeros, convert(grad, zeros.dtype()), strides, 0, ir::Reducer::add);
    return reshape(convert(total, grad.dtype()), shape);
  });
}

}  // namespace

void register_view_backward(Registry& registry) {
  register_gradients(registry);
  NEURON_OP("aten::slice_scatter", no_promotion(), result(scatter_like), [](Lowering& l) {
    const Val x = l.raw("self");
    const int64_t dim = l.dim("dim", x.rank());
    return scatter_slice(x, l.raw("src"), dim, slice_range(l, x.size(dim)));
  });
  NEURON_OP("aten::select_scatter", no_promotion(), result(scatter_like), [](Lowering& l) {
    const Val x = l.raw("self");
    const int64_t dim = l.dim("dim", x.rank());
    const int64_t index = l.int_("index") < 0 ? l.int_("index") + x.size(dim) : l.int_("index");
    return scatter_slice(x, unsqueeze(l.raw("src"), dim), dim, {index, index + 1, 1, 1});
  });
  NEURON_OP("aten::diagonal_scatter", no_promotion(), result(scatter_like), [](Lowering& l) {
    const Val x = l.raw("self");
    const Diagonal d = diagonal_of(l, x.shape());
    return reshape(scatter_strided(flatten(x), l.raw("src"), d.strides, d.offset, ir::Reducer::assign), x.shape());
  });
  NEURON_OP("aten::as_strided_scatter", no_promotion(), result(scatter_like), [](Lowering& l) {
    const Val x = l.raw("self");
    std::vector<int64_t> order;
    const auto storage = in_storage_order(x, l.meta("self"), &order);
    if (!storage) return l.unsupported("as_strided_scatter into a tensor that is not dense");
    const Val flat =
        scatter_strided(flatten(*storage), l.raw("src"), l.ints("stride"), l.int_("storage_offset", 0), ir::Reducer::assign);
    if (is_contiguous(l.meta("self").shape, l.meta("self").strides)) return reshape(flat, x.shape());
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
    return transpose(reshape(flat, storage->shape()), back);
  });
}

}  // namespace neuron::ops
