// Operators that rearrange elements into a new tensor: cat, stack, pad, flip, roll, tril, triu, repeat, narrow_copy; copies
// and casts.
#include <algorithm>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

// cat skips the historical empty 1-D tensors.
bool legacy_empty(const Shape& s) { return s.size() == 1 && s[0] == 0; }

std::optional<Metas> cat_result(const Lowering& l) {
  const TensorList& list = l.list("tensors");
  std::optional<Shape> shape;
  std::optional<MemoryFormat> format;
  bool mixed = false;
  int64_t dim = 0;
  for (const auto& t : list) {
    if (!t) return std::nullopt;
    const MemoryFormat f = suggested_format(t->meta.shape, t->meta.strides);
    mixed = mixed || (format && *format != f);
    format = f;
    if (legacy_empty(t->meta.shape)) continue;
    if (!shape) {
      if (t->meta.shape.empty()) return std::nullopt;
      shape = t->meta.shape;
      dim = l.dim("dim", static_cast<int64_t>(shape->size()));
      continue;
    }
    if (t->meta.shape.size() != shape->size()) return std::nullopt;
    for (size_t d = 0; d < shape->size(); ++d) {
      if (static_cast<int64_t>(d) == dim) {
        (*shape)[d] += t->meta.shape[d];
      } else if ((*shape)[d] != t->meta.shape[d]) {
        return std::nullopt;
      }
    }
  }
  if (list.empty()) return std::nullopt;
  if (!shape) shape = Shape{0};
  const bool last = !mixed && *format != MemoryFormat::contiguous && (shape->size() == 4 || shape->size() == 5);
  return one({l.result_dtype(), *shape, last ? channels_last_strides(*shape) : contiguous_strides_of(*shape)});
}

Val cat(Lowering& l) {
  std::vector<Val> parts;
  for (const Val& v : l.tensors("tensors")) {
    if (!legacy_empty(v.shape())) parts.push_back(v);
  }
  if (parts.empty()) return full(l.builder(), l.compute(), {0}, 0);
  return concatenate(parts, l.dim("dim", parts[0].rank()));
}

std::optional<Metas> stack_result(const Lowering& l) {
  const TensorList& list = l.list("tensors");
  if (list.empty() || !list[0]) return std::nullopt;
  Shape shape = list[0]->meta.shape;
  for (const auto& t : list) {
    if (!t || t->meta.shape != shape) return std::nullopt;
  }
  const auto count = static_cast<int64_t>(list.size());
  const int64_t dim = l.dim("dim", static_cast<int64_t>(shape.size()) + 1);
  if (l.failed()) return std::nullopt;
  shape.insert(shape.begin() + dim, count);
  std::optional<MemoryFormat> format;
  for (const auto& t : list) {
    const MemoryFormat f = suggested_format(t->meta.shape, t->meta.strides);
    format = !format || *format == f ? f : MemoryFormat::contiguous;
  }
  // CPU concatenates along the dim and splits it again, so channels_last survives in the dims around it.
  if (*format == MemoryFormat::contiguous || dim == static_cast<int64_t>(shape.size()) - 1) {
    return one(contiguous_meta(l.result_dtype(), shape));
  }
  Shape joined = list[0]->meta.shape;
  joined[dim] *= count;
  Shape strides = channels_last_strides(joined);
  strides.insert(strides.begin() + dim, strides[dim] * list[0]->meta.shape[dim]);
  return one({l.result_dtype(), std::move(shape), std::move(strides)});
}

// pad: (low, high) pairs from the last dim backwards; negative entries crop.
std::optional<Metas> pad_result(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  const auto pads = l.ints("pad");
  if (pads.size() % 2 != 0 || pads.size() / 2 > m.shape.size()) return std::nullopt;
  Shape shape = m.shape;
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    int64_t& size = shape[shape.size() - 1 - i];
    size += pads[2 * i] + pads[2 * i + 1];
    if (size < 0) return std::nullopt;
  }
  // Nothing but cropping: CPU clones the cropped view.
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p <= 0; })) {
    return one({m.dtype, shape, preserved_strides(shape, m.strides)});
  }
  const MemoryFormat f = suggested_format(m.shape, m.strides);
  return one({m.dtype, shape, f == MemoryFormat::contiguous ? contiguous_strides_of(shape) : channels_last_strides(shape)});
}

Val constant_pad(Lowering& l) {
  const Val x = l.raw("self");
  const auto pads = l.ints("pad");
  Shape low(x.rank(), 0), high(x.rank(), 0);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    low[x.rank() - 1 - i] = pads[2 * i];
    high[x.rank() - 1 - i] = pads[2 * i + 1];
  }
  const Val value = l.has("value") ? l.scalar("value", x.dtype()) : full(l.builder(), x.dtype(), {}, 0);
  return {l.builder(), l.builder().pad(x.value(), value.value(), low, high, Shape(x.rank(), 0))};
}

Val roll_dim(const Val& x, int64_t dim, int64_t shift) {
  const int64_t n = x.size(dim);
  if (n == 0) return x;
  const int64_t start = ((-shift) % n + n) % n;
  if (start == 0) return x;
  return concatenate({slice(x, dim, start, n), slice(x, dim, 0, start)}, dim);
}

// One shift for each dim, or one for the flattened tensor.
std::optional<Metas> roll_result(const Lowering& l) {
  const auto rank = static_cast<int64_t>(l.meta("self").shape.size());
  const auto shifts = l.ints("shifts"), dims = l.ints("dims");
  // CPU returns a tensor without elements before it looks at the one dim.
  if (shifts.size() == 1 && dims.size() == 1 && element_count(l.meta("self").shape) == 0) return like_input()(l);
  if (dims.empty() ? shifts.size() != 1 : shifts.size() != dims.size()) return std::nullopt;
  if (std::any_of(dims.begin(), dims.end(), [&](int64_t d) { return d < -rank || d >= rank; })) return std::nullopt;
  return contiguous_like()(l);
}

Val roll(Lowering& l) {
  Val x = l.raw("self");
  const auto shifts = l.ints("shifts"), dims = l.ints("dims");
  if (dims.empty() && shifts.size() == 1) return reshape(roll_dim(flatten(x), 0, shifts[0]), x.shape());
  if (shifts.size() != dims.size()) {
    l.fail(invalid_argument("there must be one shift for each dim"));
    return x;
  }
  for (size_t i = 0; i < dims.size(); ++i) x = roll_dim(x, dims[i] < 0 ? dims[i] + x.rank() : dims[i], shifts[i]);
  return x;
}

std::optional<Metas> narrow_copy_result(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  const auto rank = static_cast<int64_t>(m.shape.size());
  const int64_t dim = l.dim("dim", rank), start = l.int_("start"), length = l.int_("length");
  if (rank == 0 || l.failed() || length < 0) return std::nullopt;
  const int64_t n = m.shape[dim], first = start < 0 ? start + n : start;
  if (first < 0 || first > n - length) return std::nullopt;
  Shape shape = m.shape;
  shape[dim] = length;
  return one(contiguous_meta(m.dtype, std::move(shape)));
}

Val narrow_copy(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t dim = l.dim("dim", x.rank()), start = l.int_("start");
  const int64_t first = start < 0 ? start + x.size(dim) : start;
  return slice(x, dim, first, first + l.int_("length"));
}

// Keeps the part below (tril) or above (triu) the diagonal.
Val triangle(Lowering& l, bool lower) {
  const Val x = l.raw("self");
  const Shape plane{x.size(-2), x.size(-1)};
  const Val row = iota(l.builder(), DType::i64, plane, 0), column = iota(l.builder(), DType::i64, plane, 1);
  const Val edge = row + static_cast<double>(l.int_("diagonal"));
  return where(lower ? le(column, edge) : ge(column, edge), x, full(l.builder(), x.dtype(), {}, 0));
}

Val repeat(Lowering& l) {
  const Val x = l.raw("self");
  const auto repeats = l.ints("repeats");
  Shape padded(repeats.size() - x.rank(), 1), spread, result;
  const Shape shape = x.shape();
  padded.insert(padded.end(), shape.begin(), shape.end());
  std::vector<int64_t> dims;
  for (size_t d = 0; d < repeats.size(); ++d) {
    spread.push_back(repeats[d]);
    dims.push_back(static_cast<int64_t>(spread.size()));
    spread.push_back(padded[d]);
    result.push_back(repeats[d] * padded[d]);
  }
  const Val wide(l.builder(), l.builder().broadcast_in_dim(reshape(x, padded).value(), spread, dims));
  return reshape(wide, result);
}

std::optional<Metas> copy_result(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  const auto format = memory_format_from_int(l.int_("memory_format", 1));
  if (!format) return std::nullopt;
  if (*format == MemoryFormat::channels_last && m.shape.size() != 4) return std::nullopt;
  if (*format == MemoryFormat::channels_last_3d && m.shape.size() != 5) return std::nullopt;
  return one({l.dtype("dtype").value_or(m.dtype), m.shape, strides_for(*format, m.shape, m.strides)});
}

void register_copies(Registry& registry) {
  NEURON_OP("aten::clone", no_promotion(), result(copy_result), [](Lowering& l) { return l.raw("self"); });
  NEURON_OP("aten::_to_copy", no_promotion(), result(copy_result), [](Lowering& l) {
    const Val x = l.raw("self");
    return convert(x, l.dtype("dtype").value_or(x.dtype()));
  });
  for (const char* name : {"aten::contiguous", "aten::lift_fresh_copy", "aten::alias_copy", "aten::detach_copy"}) {
    NEURON_OP(name, no_promotion(), result(contiguous_like()), [](Lowering& l) { return l.raw("self"); });
  }
  // Functional form of copy_: src in the dtype and shape of self.
  NEURON_OP("aten::copy", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const auto joined = broadcast_shapes(l.meta("self").shape, l.meta("src").shape);
              return joined && *joined == l.meta("self").shape ? like_input()(l) : std::nullopt;
            })),
            [](Lowering& l) {
              const TensorMeta& self = l.meta("self");
              return broadcast_to(convert(l.raw("src"), self.dtype), self.shape);
            });
  NEURON_OP("aten::_reshape_copy", no_promotion(), no_rule(), [](Lowering& l) {
    const Val x = l.raw("self");
    Shape shape = l.ints("size");
    int64_t known = 1;
    for (int64_t s : shape) known *= s == -1 ? 1 : s;
    for (int64_t& s : shape) s = s == -1 ? x.elements() / std::max<int64_t>(known, 1) : s;
    return reshape(x, shape);
  });
}

// Channel i of group g becomes channel g of group i.
std::optional<Metas> channel_shuffle_result(const Lowering& l) {
  const TensorMeta& x = l.meta("self");
  const int64_t groups = l.int_("groups");
  if (x.shape.size() < 3 || groups < 1 || x.shape[1] % groups != 0) return std::nullopt;
  return one({x.dtype, x.shape, strides_for(suggested_format(x.shape, x.strides), x.shape, x.strides)});
}
Val channel_shuffle(Lowering& l) {
  const Val x = l.raw("self");
  const int64_t groups = l.int_("groups");
  Shape split = x.shape();
  split[1] /= groups;
  split.insert(split.begin() + 1, groups);
  return reshape(swap_dims(reshape(x, split), 1, 2), x.shape());
}

}  // namespace

void register_shape(Registry& registry) {
  register_copies(registry);
  NEURON_OP("aten::channel_shuffle", no_promotion(), result(channel_shuffle_result), channel_shuffle);
  NEURON_OP("aten::cat", promotes(move_rule, {"tensors"}), result(cat_result), cat);
  NEURON_OP("aten::stack", promotes(move_rule, {"tensors"}), result(stack_result), [](Lowering& l) {
    std::vector<Val> parts = l.tensors("tensors");
    const int64_t dim = l.dim("dim", parts[0].rank() + 1);
    for (Val& p : parts) p = unsqueeze(p, dim);
    return concatenate(parts, dim);
  });
  NEURON_OP("aten::constant_pad_nd", no_promotion(), result(pad_result), constant_pad).must_fit("value");
  NEURON_OP("aten::flip", no_promotion(), result(like_input()), [](Lowering& l) {
    const Val x = l.raw("self");
    return l.ints("dims").empty() ? x : reverse(x, l.dims("dims", x.rank()));
  });
  NEURON_OP("aten::roll", no_promotion(), result(roll_result), roll);
  NEURON_OP("aten::narrow_copy", no_promotion(), result(narrow_copy_result), narrow_copy);
  const auto plane_result =
      ResultRule([](const Lowering& l) { return l.meta("self").shape.size() < 2 ? std::nullopt : contiguous_like()(l); });
  NEURON_OP("aten::tril", no_promotion(), plane_result, [](Lowering& l) { return triangle(l, true); });
  NEURON_OP("aten::triu", no_promotion(), plane_result, [](Lowering& l) { return triangle(l, false); });
  NEURON_OP("aten::repeat", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              const TensorMeta& m = l.meta("self");
              const auto repeats = l.ints("repeats");
              if (repeats.size() < m.shape.size()) return std::nullopt;
              Shape shape = repeats;
              const size_t lead = repeats.size() - m.shape.size();
              for (size_t d = 0; d < m.shape.size(); ++d) shape[lead + d] *= m.shape[d];
              return one(contiguous_meta(m.dtype, shape));
            })),
            repeat);
}

}  // namespace neuron::ops
