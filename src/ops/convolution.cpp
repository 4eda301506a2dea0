// Convolution and its gradients, for any number of spatial dims, with groups, dilation and the transposed form.
//
// Not supported: complex and bool tensors (PyTorch's CPU refuses them too, nn.functional splits complex ones), integers in
// the forms that CPU refuses. Half types are multiplied as they are, accumulated in f32 and rounded once at the end.
//
// A kernel [coarse, fine / groups, taps..] relates two sides: `fine` [N, fine, size..], where windows slide, and `coarse`
// [N, coarse, positions..], one place a window. Convolution reads the fine side and makes the coarse one; the gradient of
// its input goes back. The transposed form is that gradient, so three products serve everything: to coarse, to fine, to
// kernel.
#include <algorithm>

#include "ops/registry.h"
#include "ops/sliding_windows.h"

namespace neuron::ops {
namespace {

std::optional<DTypes> product_rule(const Lowering& l, const Names& names) {
  const auto types = same_rule(l, names);
  return types && (types->common == DType::boolean || is_complex(types->common)) ? std::nullopt : types;
}

struct Convolution {
  int64_t batch = 0, groups = 0, coarse = 0, fine = 0;  // channels: of all groups
  bool transposed = false;
  SlidingDims dims;
  Shape sizes, positions;  // spatial sizes of the fine and of the coarse side

  int64_t taps() const {
    int64_t count = 1;
    for (const Sliding& s : dims) count *= s.taps;
    return count;
  }
  Shape output() const { return side(!transposed); }
  Shape side(bool of_coarse) const {
    Shape shape{batch, of_coarse ? coarse : fine};
    const Shape& spatial = of_coarse ? positions : sizes;
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    return shape;
  }
};

std::optional<Shape> per_dim(const Lowering& l, const char* name, size_t count, int64_t least) {
  Shape values = l.ints(name);
  if (values.size() == 1) values.resize(count, values[0]);
  if (values.size() != count) return std::nullopt;
  for (const int64_t v : values) {
    if (v < least) return std::nullopt;
  }
  return values;
}

// What CPU computes; nothing for arguments that it refuses.
std::optional<Convolution> convolution_of(const Lowering& l) {
  const TensorMeta &x = l.meta("input"), &w = l.meta("weight");
  if (x.shape.size() < 3 || x.shape.size() != w.shape.size()) return std::nullopt;
  const size_t n = x.shape.size() - 2;
  const auto stride = per_dim(l, "stride", n, 1), padding = per_dim(l, "padding", n, 0),
             dilation = per_dim(l, "dilation", n, 1), extra = per_dim(l, "output_padding", n, 0);
  Convolution c;
  c.batch = x.shape[0];
  c.groups = l.int_("groups");
  c.transposed = l.flag("transposed");
  if (!stride || !padding || !dilation || !extra || c.groups < 1) return std::nullopt;
  if (!is_floating(x.dtype) && x.dtype != DType::i64 && c.transposed) return std::nullopt;
  c.coarse = w.shape[0];
  c.fine = w.shape[1] * c.groups;
  if (x.shape[1] != (c.transposed ? c.coarse : c.fine) || c.coarse % c.groups != 0) return std::nullopt;
  for (size_t i = 0; i < n; ++i) {
    Sliding s{w.shape[i + 2], (*stride)[i], (*padding)[i], (*dilation)[i]};
    const int64_t given = x.shape[i + 2];
    if (s.taps < 1 || given < 1) return std::nullopt;
    if (c.transposed && (*extra)[i] >= std::max(s.stride, s.dilation)) return std::nullopt;
    s.positions = c.transposed ? given : positions_in(given, s);
    const int64_t size = c.transposed ? (given - 1) * s.stride - 2 * s.padding + s.span() + (*extra)[i] : given;
    if (s.positions < 1 || size < 1) return std::nullopt;
    c.dims.push_back(s);
    c.sizes.push_back(size);
    c.positions.push_back(s.positions);
  }
  return c;
}

// channels_last if input or weight is; [N, C, L] is laid out as [N, C, 1, L], its input made contiguous before.
MemoryFormat format_of(const Lowering& l) {
  TensorMeta x = l.meta("input"), w = l.meta("weight");
  const size_t rank = x.shape.size();
  if (rank == 3) {
    w.strides.insert(w.strides.begin() + 2, w.shape[2] * w.strides[2]);
    w.shape.insert(w.shape.begin() + 2, 1);
    return suggested_format(w.shape, w.strides);
  }
  if (rank == 5 && (x.dtype == DType::f64 || !is_floating(x.dtype))) return MemoryFormat::contiguous;
  const MemoryFormat format = suggested_format(x.shape, x.strides);
  return format == MemoryFormat::contiguous ? suggested_format(w.shape, w.strides) : format;
}

TensorMeta formatted(MemoryFormat format, DType dtype, const Shape& shape) {
  if (format == MemoryFormat::contiguous) return contiguous_meta(dtype, shape);
  if (shape.size() > 3) return {dtype, shape, channels_last_strides(shape)};
  Shape strides = channels_last_strides({shape[0], shape[1], 1, shape[2]});
  strides.erase(strides.begin() + 2);
  return {dtype, shape, strides};
}

std::optional<Metas> convolution_result(const Lowering& l) {
  const auto c = convolution_of(l);
  if (!c || (l.has("bias") && l.meta("bias").shape != Shape{c->output()[1]})) return std::nullopt;
  return one(formatted(format_of(l), l.result_dtype(), c->output()));
}

Val dot(const Val& a, const Val& b, ir::DotAttrs attrs) {
  return {a.builder(), a.builder().dot_general(a.value(), b.value(), attrs)};
}

std::vector<int64_t> range(int64_t from, size_t count) {
  std::vector<int64_t> dims(count);
  for (size_t i = 0; i < count; ++i) dims[i] = from + static_cast<int64_t>(i);
  return dims;
}

// [N, C, ..] -> [N, groups, C / groups, ..]
Val grouped(const Val& x, int64_t groups) {
  Shape shape = x.shape();
  shape[1] /= groups;
  shape.insert(shape.begin() + 1, groups);
  return reshape(x, shape);
}
// [coarse, fine / groups, taps..] -> [groups, coarse / groups, fine / groups, taps]
Val grouped_kernel(const Convolution& c, const Val& w) {
  return reshape(w, {c.groups, c.coarse / c.groups, c.fine / c.groups, c.taps()});
}
// [N, groups, fine / groups, taps, positions]
Val patches(const Convolution& c, const Val& fine) {
  return reshape(windows(grouped(fine, c.groups), c.dims),
                 {c.batch, c.groups, c.fine / c.groups, c.taps(), element_count(c.positions)});
}
// [N, groups, coarse / groups, positions]
Val flat_coarse(const Convolution& c, const Val& coarse) {
  return reshape(coarse, {c.batch, c.groups, c.coarse / c.groups, element_count(c.positions)});
}

Val to_coarse(const Convolution& c, const Val& fine, const Val& kernel, DType result) {
  const Val product = dot(grouped_kernel(c, kernel), patches(c, fine), {{0}, {1}, {2, 3}, {2, 3}, result});
  return reshape(move_dim(product, 2, 0), c.side(true));
}

Val to_fine(const Convolution& c, const Val& coarse, const Val& kernel, DType result) {
  const Val product = dot(grouped_kernel(c, kernel), flat_coarse(c, coarse), {{0}, {1}, {1}, {2}, result});
  Shape pieces{c.batch, c.fine};
  for (const Sliding& s : c.dims) pieces.push_back(s.taps);
  pieces.insert(pieces.end(), c.positions.begin(), c.positions.end());
  return overlap_add(reshape(move_dim(product, 3, 0), pieces), c.dims, c.sizes);
}

Val to_kernel(const Convolution& c, const Val& coarse, const Val& fine, const Shape& kernel, DType result) {
  return reshape(dot(flat_coarse(c, coarse), patches(c, fine), {{1}, {1}, {0, 3}, {0, 4}, result}), kernel);
}

Val convolution(Lowering& l) {
  const auto c = convolution_of(l);
  if (!c) return l.unsupported("this form");
  const Val x = l.raw("input"), w = l.raw("weight");
  if (element_count(c->output()) == 0) return full(l.builder(), l.compute(), c->output(), 0);
  const Val y = c->transposed ? to_fine(*c, x, w, l.compute()) : to_coarse(*c, x, w, l.compute());
  const Val bias = l.optional("bias");
  if (!bias.present()) return y;
  Shape per_channel(y.rank(), 1);
  per_channel[1] = bias.elements();
  return y + reshape(bias, per_channel);
}

std::vector<bool> wanted(const Lowering& l) {
  const auto* mask = l.argument("output_mask") ? std::get_if<std::vector<bool>>(l.argument("output_mask")) : nullptr;
  return mask && mask->size() == 3 ? *mask : std::vector<bool>(3, true);
}

std::optional<Metas> convolution_backward_result(const Lowering& l) {
  const auto c = convolution_of(l);
  if (!c || !is_floating(l.result_dtype()) || l.meta("grad_output").shape != c->output()) return std::nullopt;
  const auto mask = wanted(l);
  const MemoryFormat format = format_of(l);
  const DType t = l.result_dtype();
  Metas metas(3);
  if (mask[0]) metas[0] = formatted(format, t, l.meta("input").shape);
  if (mask[1]) metas[1] = formatted(format, t, l.meta("weight").shape);
  if (mask[2]) metas[2] = contiguous_meta(t, {c->output()[1]});
  return metas;
}

std::vector<Val> convolution_backward(Lowering& l) {
  const auto c = convolution_of(l);
  std::vector<Val> results(3);
  if (!c || !is_floating(l.result_dtype())) {
    l.unsupported("this form");
    return results;
  }
  const Val grad = l.raw("grad_output"), x = l.raw("input"), w = l.raw("weight");
  const DType t = l.compute();
  const auto mask = wanted(l);
  const bool empty = grad.elements() == 0 || x.elements() == 0;
  const auto zeros = [&](const Val& like) { return full(l.builder(), t, like.shape(), 0); };
  if (mask[0]) results[0] = empty ? zeros(x) : c->transposed ? to_coarse(*c, grad, w, t) : to_fine(*c, grad, w, t);
  if (mask[1]) {
    results[1] = empty           ? zeros(w)
                 : c->transposed ? to_kernel(*c, x, grad, w.shape(), t)
                                 : to_kernel(*c, grad, x, w.shape(), t);
  }
  if (mask[2]) {
    std::vector<int64_t> others = range(1, c->dims.size() + 1);
    others[0] = 0;
    results[2] = sum(l.arg("grad_output"), others);
  }
  return results;
}

}  // namespace

void register_convolution(Registry& registry) {
  NEURON_OP("aten::convolution", promotes(product_rule, {"input", "weight", "bias"}), result(convolution_result),
            convolution);
  NEURON_OP("aten::convolution_backward", promotes(product_rule, {"grad_output", "input", "weight"}),
            result(convolution_backward_result), convolution_backward);
}

}  // namespace neuron::ops
