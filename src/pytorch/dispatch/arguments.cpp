#include "pytorch/dispatch/arguments.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>

#include "base/mutation.h"
#include "pytorch/dispatch/aliasing.h"
#include "pytorch/factory.h"
#include "pytorch/scalar.h"

namespace neuron::pytorch {

ops::Ambient ambient() {
  ops::Ambient a;
  a.default_dtype = *to_dtype(c10::get_default_dtype_as_scalartype());
  a.deterministic = at::globalContext().deterministicAlgorithms();
  return a;
}

uint64_t ambient_word() {
  return static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) |
         uint64_t{at::globalContext().deterministicAlgorithms()} << 8;
}

int value_class_of(const c10::IValue& number, const std::vector<double>& classes) {
  if (number.isNone()) return -1;
  if (number.isComplexDouble()) {
    const auto value = number.toComplexDouble();
    if (value.imag() != 0) return -1;
    for (size_t i = 0; i < classes.size(); ++i) {
      if (value.real() == classes[i]) return static_cast<int>(i);
    }
    return -1;
  }
  const double value = number.isDouble() ? number.toDouble()
                       : number.isBool() ? number.toBool()
                                         : static_cast<double>(number.toInt());
  for (size_t i = 0; i < classes.size(); ++i) {
    if (value == classes[i]) return static_cast<int>(i);
  }
  return -1;
}

Arguments::Arguments(const OperatorPlan& plan, const c10::IValue* args) : plan_(plan), args_(args) {
  named_.reserve(plan.arguments.size() + 1);
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const ArgumentPlan& argument = plan.arguments[i];
    const bool skipped = !argument.read || argument.kind == ArgumentKind::ignored || argument.kind == ArgumentKind::device ||
                         argument.kind == ArgumentKind::generator;
    if (skipped) continue;
    named_.push_back({argument.name, convert(argument, args[i])});
    origin_.push_back(static_cast<int32_t>(i));
  }
  if (plan.output_dtype_from >= 0) {
    named_.push_back({"dtype", dtype_or_raise(args[plan.output_dtype_from].toTensor().scalar_type(), plan.name.c_str())});
    origin_.push_back(-1);
  }
}

const at::Tensor& Arguments::tensor(TensorSource source) const {
  const c10::IValue& value = args_[source.argument];
  return source.element < 0 ? value.toTensor() : value.toListRef()[source.element].toTensor();
}

ops::TensorArg Arguments::describe(const at::Tensor& t) const {
  ops::TensorArg out;
  out.meta = {dtype_or_raise(t.scalar_type(), plan_.name.c_str()), t.sizes().vec(), t.strides().vec()};
  out.category = t.unsafeGetTensorImpl()->is_wrapped_number() ? ops::Category::wrapped_number
                 : t.dim() == 0                               ? ops::Category::zero_dim
                                                              : ops::Category::tensor;
  return out;
}

ops::ScalarArg Arguments::number(const ArgumentPlan& plan, const c10::IValue& value) const {
  ops::ScalarArg out;
  const c10::Scalar scalar = value.toScalar();
  out.kind = kind_of(scalar);
  if (plan.known || plan.decides_shape || plan.kind == ArgumentKind::float_list) {
    const auto z = scalar.toComplexDouble();
    out.known = std::complex<double>(z.real(), z.imag());
    if (out.kind <= ops::ScalarArg::Kind::integer) out.known_int = scalar.isBoolean() ? scalar.toBool() : scalar.toLong();
  }
  if (const int index = value_class_of(value, plan.value_classes); index >= 0) out.value_class = plan.value_classes[index];
  return out;
}

ops::Argument Arguments::convert(const ArgumentPlan& plan, const c10::IValue& value) const {
  if (value.isNone()) return ops::None{};
  switch (plan.kind) {
    case ArgumentKind::tensor:
      if (!value.toTensor().defined()) return ops::None{};
      return describe(value.toTensor());
    case ArgumentKind::tensor_list: {
      ops::TensorList list;
      for (const c10::IValue& element : value.toListRef()) {
        const bool absent = element.isNone() || !element.toTensor().defined();
        list.push_back(absent ? std::nullopt : std::make_optional(describe(element.toTensor())));
      }
      return list;
    }
    case ArgumentKind::number:
      return number(plan, value);
    case ArgumentKind::number_list:
    case ArgumentKind::float_list: {
      std::vector<ops::ScalarArg> list;
      for (const c10::IValue& element : value.toListRef()) list.push_back(number(plan, element));
      return list;
    }
    case ArgumentKind::structural:
      if (plan.is_dtype) return dtype_or_raise(static_cast<c10::ScalarType>(value.toInt()), plan_.name.c_str());
      if (value.isBool()) return value.toBool();
      if (plan.is_boolean) return value.toInt() != 0;
      return value.toInt();
    case ArgumentKind::int_list: {
      if (value.isInt()) return std::vector<int64_t>{value.toInt()};
      std::vector<int64_t> list;
      for (const c10::IValue& element : value.toListRef()) list.push_back(element.toInt());
      return list;
    }
    case ArgumentKind::bool_list: {
      std::vector<bool> list;
      for (const c10::IValue& element : value.toListRef()) list.push_back(element.toBool());
      return list;
    }
    case ArgumentKind::text:
      return std::string(value.toStringRef());
    default:
      return ops::None{};
  }
}

int32_t Arguments::parameter_of(TensorSource source) const {
  for (const Bound& bound : bound_) {
    if (bound.source.argument == source.argument && bound.source.element == source.element) return bound.index;
  }
  return -1;
}

int32_t Arguments::parameter_sharing(const at::Tensor& t) const {
  for (const Bound& bound : bound_) {
    if (same_memory(t, tensor(bound.source))) return bound.index;
  }
  return -1;
}

bool Arguments::shares_written(TensorSource source) const {
  const at::Tensor& t = tensor(source);
  for (size_t w = 0; w < plan_.arguments.size(); ++w) {
    if (!plan_.arguments[w].written || args_[w].isNone()) continue;
    TensorSource written{static_cast<int32_t>(w), -1};
    if (plan_.arguments[w].kind == ArgumentKind::tensor_list) {
      if (source.element < 0 || static_cast<size_t>(source.element) >= args_[w].toListRef().size()) continue;
      written.element = source.element;
    }
    const at::Tensor& other = tensor(written);
    if (other.defined() && other.is_privateuseone() && same_memory(t, other)) return true;
  }
  return false;
}

ir::Value Arguments::bind_tensor(ir::Builder& builder, CachedCall& call, TensorSource source) {
  const at::Tensor& t = tensor(source);
  const DType dtype = dtype_or_raise(t.scalar_type(), plan_.name.c_str());
  ir::Value value;
  if (!t.is_privateuseone()) {
    const DType slot = slot_type(dtype);
    call.slots.push_back({SlotSource::Kind::host_tensor, slot, source});
    value = builder.convert(builder.scalar_parameter(slot, next_slot_), dtype);
    next_slot_ += slots_of(slot);
  } else {
    // Operands that are exactly the memory of a written one must be one parameter, so that the compiler sees the dependence.
    // Only they: which of the others are equal is not part of the signature.
    int32_t index = plan_.mutates && shares_written(source) ? parameter_sharing(t) : -1;
    if (index >= 0) {
      value = parameter_values_[index];
      bound_.push_back({source, index});
    } else {
      index = static_cast<int32_t>(call.parameters.size());
      std::vector<int64_t> strides = mutated("stride") ? ir::contiguous_strides(t.sizes().vec()) : t.strides().vec();
      value = builder.parameter({dtype, t.sizes().vec()}, index, std::move(strides), plan_.arguments[source.argument].name);
      call.parameters.push_back(source);
      bound_.push_back({source, index});
      parameter_values_.push_back(value);
    }
  }
  if (t.is_conj()) value = builder.unary(ir::Op::conj, value);
  if (t.is_neg()) value = builder.unary(ir::Op::negate, value);
  return value;
}

void Arguments::bind_number(ir::Builder& builder, CachedCall& call, ops::ScalarArg& arg, TensorSource source) {
  const DType slot = slot_type(arg.kind);
  if (arg.known) {
    if (arg.known_int) {
      arg.value = builder.splat_int({slot, {}}, *arg.known_int);
    } else if (slot == DType::c128) {
      arg.value = builder.splat_complex({slot, {}}, *arg.known);
    } else {
      arg.value = builder.splat({slot, {}}, arg.known->real());
    }
    return;
  }
  call.slots.push_back({SlotSource::Kind::number, slot, source});
  arg.value = builder.scalar_parameter(slot, next_slot_);
  next_slot_ += slots_of(slot);
}

void Arguments::forget_shape_numbers() {
  for (size_t i = 0; i < named_.size(); ++i) {
    auto* scalar = std::get_if<ops::ScalarArg>(&named_[i].value);
    if (!scalar || origin_[i] < 0 || !plan_.arguments[origin_[i]].decides_shape) continue;
    scalar->known.reset();
    scalar->known_int.reset();
  }
}

void Arguments::bind(ir::Builder& builder, CachedCall& call) {
  for (size_t i = 0; i < named_.size(); ++i) {
    const int32_t argument = origin_[i];
    if (argument < 0) continue;
    ops::Argument& value = named_[i].value;
    if (auto* one = std::get_if<ops::TensorArg>(&value)) {
      one->value = bind_tensor(builder, call, {argument, -1});
    } else if (auto* list = std::get_if<ops::TensorList>(&value)) {
      for (size_t e = 0; e < list->size(); ++e) {
        if ((*list)[e]) (*list)[e]->value = bind_tensor(builder, call, {argument, static_cast<int32_t>(e)});
      }
    } else if (auto* scalar = std::get_if<ops::ScalarArg>(&value)) {
      bind_number(builder, call, *scalar, {argument, -1});
    } else if (auto* numbers = std::get_if<std::vector<ops::ScalarArg>>(&value)) {
      for (size_t e = 0; e < numbers->size(); ++e) {
        bind_number(builder, call, (*numbers)[e], {argument, static_cast<int32_t>(e)});
      }
    }
  }
}

}  // namespace neuron::pytorch
