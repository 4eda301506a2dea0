#include "ir/builder.h"

#include <algorithm>

#include "ir/rules.h"

namespace neuron::ir {
namespace {

// The type of an absent Value, so that expressions over one keep going until status() is read.
const Type kNoType{};

}  // namespace

bool Builder::usable(Value v) const {
  return v.node >= 0 && static_cast<size_t>(v.node) < graph_.nodes.size() && v.result >= 0 &&
         static_cast<size_t>(v.result) < graph_.nodes[v.node].types.size();
}

const Type& Builder::type(Value v) const { return usable(v) ? graph_.type(v) : kNoType; }

void Builder::set_label(std::string label) {
  if (graph_.labels.back() != label) graph_.labels.push_back(std::move(label));
  label_ = static_cast<int32_t>(graph_.labels.size()) - 1;
}

Value Builder::placeholder(std::span<const Value> operands, const Type* requested) {
  Type t = requested ? *requested : operands.empty() ? Type{} : type(operands[0]);
  ConstantAttrs zero{std::vector<uint8_t>(size_of(t.dtype)), true};
  // As many results as any operator has: {node, 1} and {node, 2} stay usable after an error too.
  graph_.nodes.push_back({Op::constant, {}, {t, t, t}, std::move(zero), label_});
  return {static_cast<int32_t>(graph_.nodes.size()) - 1, 0};
}

Value Builder::append(Op op, std::vector<Value> operands, Attrs attrs, const Type* requested) {
  if (!status_.ok()) return placeholder(operands, requested);
  std::vector<const Type*> in;
  for (Value v : operands) {
    if (!usable(v)) {
      fail(invalid_argument(std::string(name_of(op)) + ": operand " + std::to_string(in.size()) + " is absent"));
      return placeholder({}, requested);
    }
    in.push_back(&graph_.type(v));
  }
  auto types = infer_types({op, in, attrs, requested});
  if (!types.ok()) {
    fail(types.status());
    return placeholder(operands, requested);
  }
  graph_.nodes.push_back({op, std::move(operands), std::move(types).value(), std::move(attrs), label_});
  return {static_cast<int32_t>(graph_.nodes.size()) - 1, 0};
}

// --- shape ---

Value Builder::reshape(Value x, std::vector<int64_t> shape) {
  if (usable(x) && type(x).shape == shape) return x;
  const Type to{type(x).dtype, std::move(shape)};
  return append(Op::reshape, {x}, {}, &to);
}

Value Builder::broadcast_in_dim(Value x, std::vector<int64_t> shape, std::vector<int64_t> dims) {
  const Type to{type(x).dtype, std::move(shape)};
  return append(Op::broadcast_in_dim, {x}, DimsAttrs{std::move(dims)}, &to);
}

Value Builder::broadcast_to(Value x, const std::vector<int64_t>& shape) {
  const std::vector<int64_t>& from = type(x).shape;
  if (usable(x) && from == shape) return x;
  if (from.size() > shape.size()) {
    fail(invalid_argument("broadcast_in_dim.4: cannot broadcast " + to_string(type(x)) + " to fewer dimensions " +
                          list(shape)));
  }
  std::vector<int64_t> dims(from.size());
  for (size_t i = 0; i < from.size(); ++i) dims[i] = static_cast<int64_t>(shape.size() - from.size() + i);
  return broadcast_in_dim(x, shape, std::move(dims));
}

Value Builder::transpose(Value x, std::vector<int64_t> permutation) {
  return append(Op::transpose, {x}, DimsAttrs{std::move(permutation)});
}

Value Builder::slice(Value x, std::vector<int64_t> start, std::vector<int64_t> limit, std::vector<int64_t> stride) {
  if (stride.empty()) stride.assign(start.size(), 1);
  return append(Op::slice, {x}, SliceAttrs{std::move(start), std::move(limit), std::move(stride)});
}

Value Builder::concatenate(std::span<const Value> parts, int64_t dim) {
  return append(Op::concatenate, {parts.begin(), parts.end()}, DimAttrs{dim});
}

Value Builder::pad(Value x, Value value, std::vector<int64_t> low, std::vector<int64_t> high,
                   std::vector<int64_t> interior) {
  if (interior.empty()) interior.assign(low.size(), 0);
  return append(Op::pad, {x, value}, PadAttrs{std::move(low), std::move(high), std::move(interior)});
}

Value Builder::reverse(Value x, std::vector<int64_t> dims) { return append(Op::reverse, {x}, DimsAttrs{std::move(dims)}); }

Value Builder::strided_view(Value x, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset) {
  const Type to{type(x).dtype, std::move(shape)};
  return append(Op::strided_view, {x}, StridedViewAttrs{offset, std::move(strides)}, &to);
}

Value Builder::dynamic_slice(Value x, std::span<const Value> starts, std::vector<int64_t> sizes) {
  const Type to{type(x).dtype, std::move(sizes)};
  std::vector<Value> operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return append(Op::dynamic_slice, std::move(operands), {}, &to);
}

Value Builder::dynamic_update_slice(Value x, Value update, std::span<const Value> starts) {
  std::vector<Value> operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return append(Op::dynamic_update_slice, std::move(operands));
}

// --- reductions, matmul, indexing ---

Value Builder::reduce(Reducer reducer, Value x, std::vector<int64_t> dims) {
  std::sort(dims.begin(), dims.end());
  return append(Op::reduce, {x}, ReduceAttrs{reducer, std::move(dims)});
}

Value Builder::arg_reduce(bool maximum, Value x, int64_t dim) {
  return append(Op::arg_reduce, {x}, ArgReduceAttrs{maximum, dim});
}

Value Builder::scan(Reducer reducer, Value x, int64_t dim, bool reverse) {
  return append(Op::scan, {x}, ScanAttrs{reducer, dim, reverse});
}

Value Builder::dot_general(Value a, Value b, DotAttrs attrs) { return append(Op::dot_general, {a, b}, std::move(attrs)); }

Value Builder::gather(Value operand, Value indices, GatherAttrs attrs) {
  return append(Op::gather, {operand, indices}, std::move(attrs));
}

Value Builder::scatter(Value operand, Value indices, Value updates, ScatterAttrs attrs) {
  return append(Op::scatter, {operand, indices, updates}, std::move(attrs));
}

Value Builder::sort(Value x, int64_t dim, bool descending) { return append(Op::sort, {x}, SortAttrs{dim, descending}); }
Value Builder::top_k(Value x, int64_t k, bool largest) { return append(Op::top_k, {x}, TopKAttrs{k, largest}); }

Value Builder::rng_bits(Value seed, Value offset, Type type) {
  return append(Op::rng_bit_generator, {seed, offset}, RngAttrs{type.dtype}, &type);
}

Value Builder::attention(Value q, Value k, Value v, Value mask, Value keep, AttentionAttrs attrs) {
  std::vector<Value> operands{q, k, v};
  attrs.has_mask = mask.present();
  attrs.has_keep = keep.present();
  if (mask.present()) operands.push_back(mask);
  if (keep.present()) operands.push_back(keep);
  return append(Op::attention, std::move(operands), attrs);
}

Value Builder::attention_backward(Value grad, Value q, Value k, Value v, Value out, Value lse, Value mask, Value keep,
                                  AttentionAttrs attrs) {
  std::vector<Value> operands{grad, q, k, v, out, lse};
  attrs.has_mask = mask.present();
  attrs.has_keep = keep.present();
  if (mask.present()) operands.push_back(mask);
  if (keep.present()) operands.push_back(keep);
  return append(Op::attention_backward, std::move(operands), attrs);
}

void Builder::output(Value value, std::vector<int64_t> strides, int32_t alias) {
  if (!usable(value)) return fail(invalid_argument("graph.4: output value is absent"));
  if (strides.size() != type(value).shape.size()) {
    return fail(invalid_argument("graph.5: strides " + list(strides) + " for " + to_string(type(value))));
  }
  graph_.outputs.push_back({value, std::move(strides), alias});
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t next = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

}  // namespace neuron::ir
