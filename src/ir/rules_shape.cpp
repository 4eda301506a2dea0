// Rules of operators that move elements, reduce along dimensions or order them.
#include "ir/rules.h"

namespace neuron::ir {
namespace {

int64_t rank_of(const Type& t) { return static_cast<int64_t>(t.shape.size()); }
std::string text(int64_t v) { return std::to_string(v); }

// reshape.3 result type given; .4 equal dtype; .5 equal number of elements.
Result<Types> infer_reshape(const RuleInput& r) {
  NEURON_RULE(r.requested, 3, "needs a result type");
  NEURON_RULE(r.in[0]->dtype == r.requested->dtype, 4, "changes the dtype");
  NEURON_RULE(r.in[0]->elements() == r.requested->elements(), 5, "cannot give " + to_string(*r.requested));
  return Types{*r.requested};
}

// broadcast_in_dim.3 result type given, equal dtype; .4 one dim per operand dim, ascending, in range; .5 each operand size
// is 1 or the result's.
Result<Types> infer_broadcast(const RuleInput& r) {
  const Type& x = *r.in[0];
  const auto& dims = std::get<DimsAttrs>(r.attrs).dims;
  NEURON_RULE(r.requested && r.requested->dtype == x.dtype, 3, "needs a result type of the same dtype");
  const Type& out = *r.requested;
  NEURON_RULE(rank_of(x) == static_cast<int64_t>(dims.size()) && sorted_distinct_in_range(dims, rank_of(out)), 4,
              "dims " + list(dims) + " to " + to_string(out));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t have = x.shape[i], want = out.shape[dims[i]];
    NEURON_RULE(have == want || have == 1, 5, "size " + text(have) + " of dim " + text(i) + " to " + to_string(out));
  }
  return Types{out};
}

// transpose.3 a permutation of all dims.
Result<Types> infer_transpose(const RuleInput& r) {
  const Type& x = *r.in[0];
  const auto& perm = std::get<DimsAttrs>(r.attrs).dims;
  NEURON_RULE(rank_of(x) == static_cast<int64_t>(perm.size()) && distinct_in_range(perm, rank_of(x)), 3,
              "permutation " + list(perm));
  Type out{x.dtype, {}};
  for (int64_t p : perm) out.shape.push_back(x.shape[p]);
  return Types{out};
}

// slice.3 start, limit, stride: one per dim; .4 0 <= start <= limit <= size; .5 stride > 0.
Result<Types> infer_slice(const RuleInput& r) {
  const Type& x = *r.in[0];
  const auto& a = std::get<SliceAttrs>(r.attrs);
  const size_t rank = x.shape.size();
  NEURON_RULE(a.start.size() == rank && a.limit.size() == rank && a.stride.size() == rank, 3, "one bound per dim");
  Type out{x.dtype, {}};
  for (size_t d = 0; d < rank; ++d) {
    NEURON_RULE(a.start[d] >= 0 && a.start[d] <= a.limit[d] && a.limit[d] <= x.shape[d], 4,
                "[" + text(a.start[d]) + ":" + text(a.limit[d]) + "] of dim " + text(d));
    NEURON_RULE(a.stride[d] > 0, 5, "stride " + text(a.stride[d]));
    out.shape.push_back((a.limit[d] - a.start[d] + a.stride[d] - 1) / a.stride[d]);
  }
  return Types{out};
}

// concatenate.3 dim in range; .4 equal dtype and rank; .5 equal sizes outside dim.
Result<Types> infer_concatenate(const RuleInput& r) {
  const int64_t dim = std::get<DimAttrs>(r.attrs).dim;
  Type out = *r.in[0];
  NEURON_RULE(dim >= 0 && dim < rank_of(out), 3, "dim " + text(dim));
  for (size_t i = 1; i < r.in.size(); ++i) {
    const Type& t = *r.in[i];
    NEURON_RULE(t.dtype == out.dtype && t.shape.size() == out.shape.size(), 4, "operand " + text(i) + " differs in kind");
    for (int64_t d = 0; d < rank_of(out); ++d) {
      NEURON_RULE(d == dim || t.shape[d] == out.shape[d], 5, "operand " + text(i) + " differs in dim " + text(d));
    }
    out.shape[dim] += t.shape[dim];
  }
  return Types{out};
}

// pad.3 value 0-dim of the same dtype; .4 low, high, interior: one per dim; .5 interior >= 0; .6 resulting sizes >= 0.
Result<Types> infer_pad(const RuleInput& r) {
  const Type& x = *r.in[0];
  const auto& a = std::get<PadAttrs>(r.attrs);
  NEURON_RULE(r.in[1]->shape.empty() && r.in[1]->dtype == x.dtype, 3, "value must be 0-dim of the same dtype");
  const size_t rank = x.shape.size();
  NEURON_RULE(a.low.size() == rank && a.high.size() == rank && a.interior.size() == rank, 4, "one amount per dim");
  Type out{x.dtype, {}};
  for (size_t d = 0; d < rank; ++d) {
    NEURON_RULE(a.interior[d] >= 0, 5, "interior " + text(a.interior[d]));
    const int64_t inner = x.shape[d] == 0 ? 0 : x.shape[d] + (x.shape[d] - 1) * a.interior[d];
    NEURON_RULE(inner + a.low[d] + a.high[d] >= 0, 6, "negative size in dim " + text(d));
    out.shape.push_back(inner + a.low[d] + a.high[d]);
  }
  return Types{out};
}

// reverse.3 distinct dims in range.
Result<Types> infer_reverse(const RuleInput& r) {
  const auto& dims = std::get<DimsAttrs>(r.attrs).dims;
  NEURON_RULE(distinct_in_range(dims, rank_of(*r.in[0])), 3, "dims " + list(dims));
  return Types{*r.in[0]};
}

// strided_view.3 result type given, equal dtype; .4 one stride per result dim; .5 every element read lies in the operand.
Result<Types> infer_strided_view(const RuleInput& r) {
  const auto& a = std::get<StridedViewAttrs>(r.attrs);
  NEURON_RULE(r.requested && r.requested->dtype == r.in[0]->dtype, 3, "needs a result type of the same dtype");
  const Type& out = *r.requested;
  NEURON_RULE(a.strides.size() == out.shape.size(), 4, "strides " + list(a.strides) + " for " + to_string(out));
  if (out.elements() > 0) {
    int64_t low = a.offset, high = a.offset;
    for (size_t d = 0; d < out.shape.size(); ++d) {
      const int64_t span = a.strides[d] * (out.shape[d] - 1);
      (span < 0 ? low : high) += span;
    }
    NEURON_RULE(low >= 0 && high < r.in[0]->elements(), 5,
                "reads elements " + text(low) + ".." + text(high) + " for " + to_string(out));
  }
  return Types{out};
}

// dynamic_slice, dynamic_update_slice: .3 one start per dim; .4 starts 0-dim integers of one dtype; .5 0 <= size <= dim;
// .6 result (update) dtype equal, result type given.
Result<Types> infer_dynamic(const RuleInput& r) {
  const Type& x = *r.in[0];
  const bool update = r.op == Op::dynamic_update_slice;
  const size_t first = update ? 2 : 1;
  NEURON_RULE(r.in.size() - first == x.shape.size(), 3, "one start per dim");
  for (size_t i = first; i < r.in.size(); ++i) {
    NEURON_RULE(r.in[i]->shape.empty() && is_integer(r.in[i]->dtype) && r.in[i]->dtype == r.in[first]->dtype, 4,
                "start " + text(i - first) + " is not a 0-dim integer of the first one's dtype");
  }
  const Type* sizes = update ? r.in[1] : r.requested;
  NEURON_RULE(sizes && sizes->dtype == x.dtype && sizes->shape.size() == x.shape.size(), 6, "slice type");
  for (size_t d = 0; d < x.shape.size(); ++d) {
    NEURON_RULE(sizes->shape[d] >= 0 && sizes->shape[d] <= x.shape[d], 5, "slice " + to_string(*sizes));
  }
  return Types{update ? x : *sizes};
}

// Which reducers a dtype has: complex add and multiply, float no bit operations, assign never.
bool reducer_takes(Reducer reducer, DType dtype) {
  switch (reducer) {
    case Reducer::add:
    case Reducer::multiply:
      return true;
    case Reducer::maximum:
    case Reducer::minimum:
      return !is_complex(dtype);
    case Reducer::and_:
    case Reducer::or_:
    case Reducer::xor_:
      return in_domain(dtype, kBool | kInt);
    case Reducer::assign:
      return false;
  }
  return false;
}

// reduce.3 distinct dims in range; .4 the reducer takes the dtype.
Result<Types> infer_reduce(const RuleInput& r) {
  const Type& x = *r.in[0];
  const auto& a = std::get<ReduceAttrs>(r.attrs);
  NEURON_RULE(distinct_in_range(a.dims, rank_of(x)), 3, "dims " + list(a.dims));
  NEURON_RULE(reducer_takes(a.reducer, x.dtype), 4,
              std::string(name_of(a.reducer)) + " of " + std::string(neuron::name_of(x.dtype)));
  std::vector<bool> gone(x.shape.size());
  for (int64_t d : a.dims) gone[d] = true;
  Type out{x.dtype, {}};
  for (size_t d = 0; d < x.shape.size(); ++d) {
    if (!gone[d]) out.shape.push_back(x.shape[d]);
  }
  return Types{out};
}

// arg_reduce.3 dim in range; .4 no complex; .5 the dim is not empty unless the result is.
Result<Types> infer_arg_reduce(const RuleInput& r) {
  const Type& x = *r.in[0];
  const int64_t dim = std::get<ArgReduceAttrs>(r.attrs).dim;
  NEURON_RULE(dim >= 0 && dim < rank_of(x), 3, "dim " + text(dim));
  NEURON_RULE(!is_complex(x.dtype), 4, "complex numbers have no order");
  Type out{DType::i64, x.shape};
  out.shape.erase(out.shape.begin() + dim);
  NEURON_RULE(x.shape[dim] > 0 || out.elements() == 0, 5, "no elements along dim " + text(dim));
  return Types{out};
}

// scan.3 dim in range; .4 reducer add, multiply, maximum or minimum and takes the dtype.
Result<Types> infer_scan(const RuleInput& r) {
  const Type& x = *r.in[0];
  const auto& a = std::get<ScanAttrs>(r.attrs);
  NEURON_RULE(a.dim >= 0 && a.dim < rank_of(x), 3, "dim " + text(a.dim));
  const bool ordered = a.reducer == Reducer::maximum || a.reducer == Reducer::minimum;
  NEURON_RULE((ordered || a.reducer == Reducer::add || a.reducer == Reducer::multiply) && reducer_takes(a.reducer, x.dtype),
              4, std::string(name_of(a.reducer)) + " of " + std::string(neuron::name_of(x.dtype)));
  if (ordered) return Types{x, Type{DType::i64, x.shape}};
  return Types{x};
}

// sort.3 dim in range; .4 no complex. top_k.3 at least one dim; .4 no complex; .5 0 <= k <= last size.
Result<Types> infer_order(const RuleInput& r) {
  const Type& x = *r.in[0];
  Type out = x;
  if (r.op == Op::sort) {
    const int64_t dim = std::get<SortAttrs>(r.attrs).dim;
    NEURON_RULE(dim >= 0 && dim < rank_of(x), 3, "dim " + text(dim));
  } else {
    const int64_t k = std::get<TopKAttrs>(r.attrs).k;
    NEURON_RULE(rank_of(x) > 0, 3, "needs a dimension");
    NEURON_RULE(k >= 0 && k <= x.shape.back(), 5, "k = " + text(k));
    out.shape.back() = k;
  }
  NEURON_RULE(!is_complex(x.dtype), 4, "complex numbers have no order");
  return Types{out, Type{DType::i64, out.shape}};
}

}  // namespace

Result<Types> infer_shape_op(const RuleInput& r) {
  switch (r.op) {
    case Op::reshape:
      return infer_reshape(r);
    case Op::broadcast_in_dim:
      return infer_broadcast(r);
    case Op::transpose:
      return infer_transpose(r);
    case Op::slice:
      return infer_slice(r);
    case Op::concatenate:
      return infer_concatenate(r);
    case Op::pad:
      return infer_pad(r);
    case Op::reverse:
      return infer_reverse(r);
    case Op::strided_view:
      return infer_strided_view(r);
    case Op::dynamic_slice:
    case Op::dynamic_update_slice:
      return infer_dynamic(r);
    case Op::reduce:
      return infer_reduce(r);
    case Op::arg_reduce:
      return infer_arg_reduce(r);
    case Op::scan:
      return infer_scan(r);
    default:
      return infer_order(r);
  }
}

}  // namespace neuron::ir
