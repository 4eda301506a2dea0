// gather, scatter, index_select, index_add, index_copy, index_fill, index_reduce, take, put, top-k and sort.
//
// Not supported: sparse gradients.
#include "ops/indexing.h"

namespace neuron::ops {
namespace {

using ir::Reducer;

// 0-dim tensors are indexed as if they had one element in one dim.
Val at_least_1d(const Val& x) { return x.rank() == 0 ? reshape(x, {1}) : x; }
int64_t dim_of(Lowering& l, const Val& x) { return l.dim("dim", x.rank()); }

bool index_dtype(const Lowering& l, const char* name) {
  const DType t = l.meta(name).dtype;
  return t == DType::i64 || t == DType::i32;
}

std::optional<Metas> gather_result(const Lowering& l) {
  const TensorMeta &x = l.meta("self"), &index = l.meta("index");
  if (!index_dtype(l, "index") || x.shape.size() != index.shape.size()) return std::nullopt;
  const int64_t dim = l.dim("dim", static_cast<int64_t>(x.shape.size()));
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (static_cast<int64_t>(d) != dim && index.shape[d] > x.shape[d]) return std::nullopt;
  }
  return one(contiguous_meta(x.dtype, index.shape));
}

std::optional<Metas> scatter_result(const Lowering& l) {
  const TensorMeta &x = l.meta("self"), &index = l.meta("index");
  const TensorArg* src = l.tensor("src");
  const bool empty = element_count(index.shape) == 0;
  if (src && src->meta.dtype != x.dtype) return std::nullopt;
  if (!index_dtype(l, "index") ||
      (!empty && std::max<size_t>(x.shape.size(), 1) != std::max<size_t>(index.shape.size(), 1))) {
    return std::nullopt;
  }
  const int64_t dim = l.dim("dim", static_cast<int64_t>(x.shape.size()));
  for (size_t d = 0; !empty && d < index.shape.size() && d < x.shape.size(); ++d) {
    if (static_cast<int64_t>(d) != dim && index.shape[d] > x.shape[d]) return std::nullopt;
    if (src && d < src->meta.shape.size() && index.shape[d] > src->meta.shape[d]) return std::nullopt;
  }
  return one(contiguous_meta(x.dtype, x.shape));
}

// Source for a scatter: the leading part of a tensor, or a number for every index.
Val scatter_source(Lowering& l, const Val& index, DType dtype) {
  if (l.tensor("src")) {
    Val src = at_least_1d(l.raw("src"));
    const Shape shape = index.shape();
    for (size_t d = 0; d < shape.size(); ++d) src = slice(src, static_cast<int64_t>(d), 0, shape[d]);
    return src;
  }
  const Val value = l.tensor("value") ? convert(l.raw("value"), dtype) : l.scalar("value", dtype);
  return broadcast_to(value, index.shape());
}

Val scatter(Lowering& l, Reducer combine) {
  const Val self = l.raw("self"), x = at_least_1d(self), index = at_least_1d(l.raw("index"));
  if (index.elements() == 0) return self;
  const Val src = scatter_source(l, index, x.dtype());
  return reshape(scatter_elements(x, index, src, dim_of(l, x), combine), self.shape());
}

std::optional<Reducer> reducer_named(const std::string& name) {
  if (name == "add" || name == "sum") return Reducer::add;
  if (name == "multiply" || name == "prod") return Reducer::multiply;
  if (name == "amax") return Reducer::maximum;
  if (name == "amin") return Reducer::minimum;
  return std::nullopt;
}

// Combines `src` (any one value for each place named) into x in the compute dtype; scatter_reduce and index_reduce differ in
// `combine` only. include_self=false first gives every touched place the reducer's identity.
using Combine = std::function<Val(const Val& x, const Val& src, Reducer)>;

Val reduce_into(Lowering& l, const Val& self, const Val& values, const Combine& combine) {
  const std::string name = l.text("reduce");
  const bool mean = name == "mean", include_self = l.flag("include_self", true);
  const auto reducer = mean ? Reducer::add : reducer_named(name);
  if (!reducer) return l.unsupported("reduce='" + name + "'");
  const DType math = opmath(self.dtype());
  const Val src = convert(values, math);
  Val x = convert(self, math);
  if (!include_self) {
    Val identity = like(src, *reducer == Reducer::multiply ? 1 : 0);
    if (*reducer == Reducer::maximum) identity = infinity_like(src, true);
    if (*reducer == Reducer::minimum) identity = infinity_like(src, false);
    x = combine(x, identity, Reducer::assign);
  }
  Val y = combine(x, src, *reducer);
  if (mean) {
    Val count = combine(like(x, include_self ? 1 : 0), like(src, 1), Reducer::add);
    count = maximum(count, like(count, 1));
    y = is_integer(y.dtype()) ? binary(ir::Op::floor_divide, y, count) : y / count;
  }
  return convert(y, self.dtype());
}

Val scatter_reduce(Lowering& l) {
  const Val self = l.raw("self"), x = at_least_1d(self), index = at_least_1d(l.raw("index"));
  if (index.elements() == 0) return self;
  const int64_t dim = dim_of(l, x);
  const Val y = reduce_into(l, x, scatter_source(l, index, self.dtype()), [&](const Val& to, const Val& src, Reducer r) {
    return scatter_elements(to, index, src, dim, r);
  });
  return reshape(y, self.shape());
}

void register_element_indexing(Registry& registry) {
  NEURON_OP("aten::gather", no_promotion(), result(gather_result), [](Lowering& l) {
    const Val x = at_least_1d(l.raw("self")), index = l.raw("index");
    if (index.elements() == 0) return full(l.builder(), x.dtype(), index.shape(), 0);
    return reshape(gather_elements(x, at_least_1d(index), dim_of(l, x)), index.shape());
  });
  for (const char* name : {"aten::scatter.src", "aten::scatter.value"}) {
    NEURON_OP(name, no_promotion(), result(scatter_result), [](Lowering& l) {
      return scatter(l, Reducer::assign);
    }).must_fit("value");
  }
  for (const char* name : {"aten::scatter.reduce", "aten::scatter.value_reduce"}) {
    NEURON_OP(name, no_promotion(), result(scatter_result), [](Lowering& l) {
      const auto combine = reducer_named(l.text("reduce"));
      return combine ? scatter(l, *combine) : l.unsupported("reduce='" + l.text("reduce") + "'");
    });
  }
  NEURON_OP("aten::scatter_add", no_promotion(), result(scatter_result),
            [](Lowering& l) { return scatter(l, Reducer::add); });
  NEURON_OP("aten::scatter_reduce.two", no_promotion(), result(scatter_result), scatter_reduce);
}

std::optional<Metas> index_select_result(const Lowering& l) {
  const TensorMeta &x = l.meta("self"), &index = l.meta("index");
  if (!index_dtype(l, "index") || index.shape.size() > 1) return std::nullopt;
  if (x.shape.empty() && element_count(index.shape) != 1) return std::nullopt;
  const int64_t dim = l.dim("dim", static_cast<int64_t>(x.shape.size()));
  Shape shape = x.shape;
  if (!shape.empty()) shape[dim] = element_count(index.shape);
  return one(contiguous_meta(x.dtype, shape));
}

// index_add and index_copy give contiguous tensors, index_fill keeps self's layout (it clones).
std::optional<Metas> index_update_result(const Lowering& l) {
  if (!index_dtype(l, "index") || l.meta("index").shape.size() > 1) return std::nullopt;
  const char* source = l.has("source") ? "source" : nullptr;
  const TensorMeta& x = l.meta("self");
  if (source && l.meta(source).dtype != x.dtype) return std::nullopt;
  l.dim("dim", static_cast<int64_t>(x.shape.size()));
  return source ? contiguous_like()(l) : like_input()(l);
}

Val index_update(Lowering& l, Reducer combine,
                 const std::function<Val(const Val& x, const Val& index, int64_t dim)>& source) {
  const Val self = l.raw("self"), x = at_least_1d(self), index = at_least_1d(l.raw("index"));
  const int64_t dim = dim_of(l, x);
  if (index.elements() == 0 || x.elements() == 0) return self;
  const Val wrapped = index;
  return reshape(scatter_slices(x, wrapped, source(x, index, dim), dim, combine), self.shape());
}

Shape with_size(Shape shape, int64_t dim, int64_t size) {
  shape[dim] = size;
  return shape;
}

void register_slice_indexing(Registry& registry) {
  NEURON_OP("aten::index_select", no_promotion(), result(index_select_result), [](Lowering& l) {
    const Val self = l.raw("self"), x = at_least_1d(self), index = at_least_1d(l.raw("index"));
    if (index.elements() == 0 || x.elements() == 0) {
      Shape shape = x.shape();
      shape[dim_of(l, x)] = index.elements();
      return full(l.builder(), x.dtype(), self.rank() == 0 ? Shape{} : shape, 0);
    }
    const Val y = take_slices(x, index, dim_of(l, x));
    return self.rank() == 0 ? reshape(y, {}) : y;
  });
  NEURON_OP("aten::index_add", no_promotion(), result(index_update_result), [](Lowering& l) {
    return index_update(l, Reducer::add, [&](const Val& x, const Val& index, int64_t dim) {
      Val source = at_least_1d(l.raw("source"));
      if (l.has("alpha") && !l.equals("alpha", 1)) {
        source = convert(convert(source, opmath(x.dtype())) * l.scalar("alpha", opmath(x.dtype())), x.dtype());
      }
      return reshape(source, with_size(x.shape(), dim, index.elements()));
    });
  }).value_classes("alpha", {1});
  NEURON_OP("aten::index_copy", no_promotion(), result(index_update_result), [](Lowering& l) {
    return index_update(l, Reducer::assign, [&](const Val& x, const Val& index, int64_t dim) {
      return reshape(l.raw("source"), with_size(x.shape(), dim, index.elements()));
    });
  });
  NEURON_OP("aten::index_reduce", no_promotion(), result(index_update_result), [](Lowering& l) {
    const Val self = l.raw("self"), x = at_least_1d(self), index = at_least_1d(l.raw("index"));
    const int64_t dim = dim_of(l, x);
    if (index.elements() == 0 || x.elements() == 0) return self;
    const Val source = reshape(l.raw("source"), with_size(x.shape(), dim, index.elements()));
    const Val y = reduce_into(
        l, x, source, [&](const Val& to, const Val& src, Reducer r) { return scatter_slices(to, index, src, dim, r); });
    return reshape(y, self.shape());
  });
  for (const char* name : {"aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor"}) {
    NEURON_OP(name, no_promotion(), result(index_update_result), [](Lowering& l) {
      const Val self = l.raw("self"), x = at_least_1d(self);
      const Val index = wrap_negative(at_least_1d(l.raw("index")), x.size(dim_of(l, x)));
      const int64_t dim = dim_of(l, x);
      if (index.elements() == 0 || x.elements() == 0) return self;
      const Val value = l.tensor("value") ? convert(l.raw("value"), x.dtype()) : l.scalar("value", x.dtype());
      const Val source = broadcast_to(value, with_size(x.shape(), dim, index.elements()));
      return reshape(scatter_slices(x, index, source, dim, Reducer::assign), self.shape());
    }).must_fit("value");
  }
  NEURON_OP("aten::take", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              if (l.meta("index").dtype != DType::i64) return std::nullopt;
              return one(contiguous_meta(l.meta("self").dtype, l.meta("index").shape));
            })),
            [](Lowering& l) {
              const Val x = flatten(l.raw("self")), index = l.raw("index");
              if (index.elements() == 0) return full(l.builder(), x.dtype(), index.shape(), 0);
              return take_slices(x, wrap_negative(index, x.elements()), 0);
            });
  NEURON_OP("aten::put", no_promotion(), result(like_input()), [](Lowering& l) {
    const Val self = l.raw("self"), x = flatten(self), index = flatten(l.raw("index"));
    if (index.elements() == 0) return self;
    const Reducer combine = l.flag("accumulate") ? Reducer::add : Reducer::assign;
    const Val wrapped = wrap_negative(index, x.elements());
    return reshape(scatter_slices(x, wrapped, flatten(l.raw("source")), 0, combine), self.shape());
  });
}

std::optional<Metas> ordered_result(const Lowering& l, bool top) {
  const TensorMeta& x = l.meta("self");
  if (is_complex(x.dtype)) return std::nullopt;
  Shape shape = x.shape;
  const int64_t dim = l.dim("dim", static_cast<int64_t>(shape.size()), -1);
  if (top && !shape.empty()) {
    if (l.int_("k") < 0 || l.int_("k") > shape[dim]) return std::nullopt;
    shape[dim] = l.int_("k");
  }
  if (top && shape.empty() && l.int_("k") > 1) return std::nullopt;
  if (top && x.dtype == DType::boolean) return std::nullopt;
  // sort keeps the layout of its input, topk does not.
  Shape strides = top ? contiguous_strides_of(shape) : preserved_strides(shape, x.strides);
  return Metas{TensorMeta{x.dtype, shape, strides}, TensorMeta{DType::i64, shape, strides}};
}

void register_ordering(Registry& registry) {
  NEURON_OP("aten::topk", no_promotion(), result(ResultRule([](const Lowering& l) { return ordered_result(l, true); })),
            [](Lowering& l) {
              const Val self = l.raw("self"), x = at_least_1d(self);
              const int64_t dim = l.dim("dim", x.rank(), -1), last = x.rank() - 1;
              const Val moved = swap_dims(x, dim, last);
              const Val values(l.builder(), l.builder().top_k(moved.value(), l.int_("k"), l.flag("largest", true)));
              std::vector<Val> out{swap_dims(values, dim, last), swap_dims(values.result(1), dim, last)};
              if (self.rank() == 0 && l.int_("k") == 1) {
                for (Val& v : out) v = reshape(v, {});
              }
              return out;
            });
  for (const char* name : {"aten::sort", "aten::sort.stable"}) {
    NEURON_OP(name, no_promotion(), result(ResultRule([](const Lowering& l) { return ordered_result(l, false); })),
              [](Lowering& l) {
                const Val self = l.raw("self"), x = at_least_1d(self);
                const int64_t dim = l.dim("dim", x.rank(), -1);
                const Val values(l.builder(), l.builder().sort(x.value(), dim, l.flag("descending")));
                return std::vector<Val>{reshape(values, self.shape()), reshape(values.result(1), self.shape())};
              });
  }
}

}  // namespace

void register_indexing(Registry& registry) {
  register_element_indexing(registry);
  register_slice_indexing(registry);
  register_ordering(registry);
}

}  // namespace neuron::ops
