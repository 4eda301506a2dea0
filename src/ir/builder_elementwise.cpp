// Builder: leaves and element-wise operators.
#include "ir/builder.h"
#include "ir/element.h"
#include "ir/rules.h"

namespace neuron::ir {

Value Builder::parameter(Type type, int32_t index, std::vector<int64_t> strides, std::string name) {
  ParameterAttrs attrs{ParameterAttrs::Kind::tensor, index, std::move(strides), std::move(name)};
  return append(Op::parameter, {}, std::move(attrs), &type);
}

Value Builder::scalar_parameter(DType dtype, int32_t slot) {
  const Type type{dtype, {}};
  return append(Op::parameter, {}, ParameterAttrs{ParameterAttrs::Kind::scalar, slot, {}, ""}, &type);
}

Value Builder::constant(Type type, std::vector<uint8_t> row_major) {
  return append(Op::constant, {}, ConstantAttrs{std::move(row_major), false}, &type);
}

Value Builder::splat(Type type, double value) {
  std::vector<uint8_t> data(size_of(type.dtype));
  store(type.dtype, data.data(), value);
  return append(Op::constant, {}, ConstantAttrs{std::move(data), true}, &type);
}

Value Builder::splat_int(Type type, int64_t value) {
  std::vector<uint8_t> data(size_of(type.dtype));
  store(type.dtype, data.data(), value);
  return append(Op::constant, {}, ConstantAttrs{std::move(data), true}, &type);
}

Value Builder::splat_complex(Type type, std::complex<double> value) {
  std::vector<uint8_t> data(size_of(type.dtype));
  store(type.dtype, data.data(), value);
  return append(Op::constant, {}, ConstantAttrs{std::move(data), true}, &type);
}

Value Builder::iota(Type type, int64_t dim) { return append(Op::iota, {}, DimAttrs{dim}, &type); }

Value Builder::unary(Op op, Value x) {
  const Form form = info(op).form;
  if (form != Form::unary && form != Form::unary_to_bool && form != Form::unary_to_real) {
    fail(internal_error(std::string(name_of(op)) + " is not a unary operator"));
  }
  return append(op, {x});
}

Value Builder::binary(Op op, Value a, Value b) {
  if (info(op).form != Form::binary && op != Op::complex) {
    fail(internal_error(std::string(name_of(op)) + " is not a binary operator"));
  }
  return append(op, {a, b});
}

Value Builder::compare(Comparison direction, Value a, Value b) {
  return append(Op::compare, {a, b}, CompareAttrs{direction});
}
Value Builder::select(Value pred, Value on_true, Value on_false) { return append(Op::select, {pred, on_true, on_false}); }
Value Builder::clamp(Value low, Value x, Value high) { return append(Op::clamp, {low, x, high}); }

Value Builder::convert(Value x, DType to) {
  if (usable(x) && type(x).dtype == to) return x;
  const Type result{to, type(x).shape};
  return append(Op::convert, {x}, {}, &result);
}

Value Builder::bitcast(Value x, DType to) {
  if (usable(x) && type(x).dtype == to) return x;
  const Type result{to, type(x).shape};
  return append(Op::bitcast_convert, {x}, {}, &result);
}

}  // namespace neuron::ir
