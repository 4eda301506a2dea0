// A call's stack arguments as the neutral arguments that src/ops understands, in two steps: descriptions first (for result
// metadata), then IR values: device tensors become parameters, host numbers become runtime scalars.
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "ops/lowering.h"
#include "pytorch/dispatch/cached_call.h"
#include "pytorch/dispatch/operator_plan.h"

namespace neuron::pytorch {

ops::Ambient ambient();
// The same as one word of a signature.
uint64_t ambient_word();

// Index of the member of `classes` that the number equals, or -1.
int value_class_of(const c10::IValue& number, const std::vector<double>& classes);

class Arguments {
 public:
  // `args`: the stack arguments of plan's schema, in order; kept by reference.
  Arguments(const OperatorPlan& plan, const c10::IValue* args);

  std::span<const ops::NamedArgument> named() const { return named_; }
  const at::Tensor& tensor(TensorSource source) const;

  // After the result rule has used them: numbers that decide shapes become runtime values.
  void forget_shape_numbers();

  // Appends parameters and scalars to `builder` and fills the values in.
  void bind(ir::Builder& builder, CachedCall& call);

  int32_t slots_used() const { return next_slot_; }
  // Parameter index of a tensor argument, or -1.
  int32_t parameter_of(TensorSource source) const;
  // Parameter that is exactly the memory of `t`, or -1.
  int32_t parameter_sharing(const at::Tensor& t) const;

 private:
  ops::Argument convert(const ArgumentPlan& plan, const c10::IValue& value) const;
  ops::TensorArg describe(const at::Tensor& t) const;
  ops::ScalarArg number(const ArgumentPlan& plan, const c10::IValue& value) const;
  // The operand is the memory of an operand that the call writes (in lists: at the same place).
  bool shares_written(TensorSource source) const;
  ir::Value bind_tensor(ir::Builder& builder, CachedCall& call, TensorSource source);
  void bind_number(ir::Builder& builder, CachedCall& call, ops::ScalarArg& arg, TensorSource source);

  struct Bound {
    TensorSource source;
    int32_t index;
  };
  const OperatorPlan& plan_;
  const c10::IValue* args_;
  std::vector<ops::NamedArgument> named_;
  std::vector<int32_t> origin_;  // stack argument of each named one
  std::vector<Bound> bound_;
  std::vector<ir::Value> parameter_values_;
  int32_t next_slot_ = 0;
};

}  // namespace neuron::pytorch
