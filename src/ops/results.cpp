// The declared result rules: shape, dtype and strides of what an operator returns, before it runs.
#include <algorithm>

#include "ops/layout.h"
#include "ops/registry.h"

namespace neuron::ops {

TensorMeta contiguous_meta(DType dtype, Shape shape) {
  Shape strides = contiguous_strides_of(shape);
  return {dtype, std::move(shape), std::move(strides)};
}

Metas one(TensorMeta meta) { return {std::move(meta)}; }

Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& dims, bool keep) {
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (!reduced) out.push_back(shape[d]);
    if (reduced && keep) out.push_back(1);
  }
  return out;
}

static std::optional<Metas> iterate(const std::vector<Operand>& operands, DType dtype) {
  Shape shape;
  for (const Operand& o : operands) {
    auto joined = broadcast_shapes(shape, o.shape);
    if (!joined) return std::nullopt;
    shape = std::move(*joined);
  }
  Shape strides = iterator_strides(shape, operands);
  return one({dtype, std::move(shape), std::move(strides)});
}

// Operands of the promotion in schema order. CPU casts an operand to the common dtype before it looks at strides, and a cast
// gives a dense tensor.
static void collect(const Lowering& l, std::string_view name, bool cast, std::vector<Operand>& operands) {
  if (const TensorArg* t = l.tensor(name)) {
    Shape strides = t->meta.strides;
    if (cast && t->meta.dtype != l.common()) strides = preserved_strides(t->meta.shape, strides);
    operands.push_back({t->meta.shape, std::move(strides)});
  } else if (l.scalar_argument(name)) {
    operands.push_back({});
  }
}

std::optional<Metas> pointwise(const Lowering& l) {
  std::vector<Operand> operands;
  const Names& inputs = l.op().promotion.inputs;
  if (inputs.empty()) {
    for (const NamedArgument& a : l.call().arguments) {
      if (std::holds_alternative<TensorArg>(a.value)) collect(l, a.name, true, operands);
    }
  } else {
    for (std::string_view name : inputs) collect(l, name, true, operands);
  }
  if (operands.empty()) return std::nullopt;
  return iterate(operands, l.result_dtype());
}

ResultRule pointwise_of(Names names, std::optional<DType> dtype) {
  return [names = std::move(names), dtype](const Lowering& l) -> std::optional<Metas> {
    std::vector<Operand> operands;
    for (std::string_view name : names) collect(l, name, false, operands);
    if (operands.empty()) return std::nullopt;
    const DType t = dtype ? *dtype : l.promoted() ? l.result_dtype() : l.meta(names[0]).dtype;
    return iterate(operands, t);
  };
}

ResultRule like_input(std::string_view name, std::optional<DType> dtype) {
  return [name, dtype](const Lowering& l) -> std::optional<Metas> {
    const TensorMeta& m = l.meta(name);
    const DType t = dtype ? *dtype : l.promoted() ? l.result_dtype() : m.dtype;
    return one({t, m.shape, preserved_strides(m.shape, m.strides)});
  };
}

ResultRule contiguous_like(std::string_view name, std::optional<DType> dtype) {
  return [name, dtype](const Lowering& l) -> std::optional<Metas> {
    const TensorMeta& m = l.meta(name);
    return one(contiguous_meta(dtype ? *dtype : l.promoted() ? l.result_dtype() : m.dtype, m.shape));
  };
}

std::optional<Metas> reduction(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  const auto dims = l.dims("dim", static_cast<int64_t>(m.shape.size()));
  return one(contiguous_meta(l.promoted() ? l.result_dtype() : m.dtype, reduced_shape(m.shape, dims, l.flag("keepdim"))));
}

}  // namespace neuron::ops
