// How lowerings are written: a definition names the operator, its promotion rule, its result rule and its body.
//
//   void register_pointwise(Registry& registry) {
//     NEURON_OP("aten::addcmul", promotes(default_rule), result(pointwise),      // self + value * t1 * t2
//               [](Lowering& l) { return l.arg("self") + l.scalar("value") * (l.arg("tensor1") * l.arg("tensor2")); });
//   }
//
// Bodies return a Val, a std::vector<Val> (one per result; Val() for a None result) or nothing after l.unsupported(..). They
// are given operands in the compute dtype of the declared promotion and return values in it (the mechanism rounds once to
// the result's dtype), or in the result's dtype. Functional overloads are registered under PyTorch's name. Operators without
// a functional twin return: the new values of the mutated arguments in schema order (lists flattened), then the results.
//
// A family is one file with one register_<family>(Registry&), listed in families.h and families.cpp. README.md tells more.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/lowering.h"
#include "ops/promotion.h"
#include "ops/val.h"

namespace neuron::ops {

// dtype of a scalar argument's runtime value and of the tensor PyTorch would wrap it in (bool apart).
DType scalar_dtype(ScalarArg::Kind kind);

// One operator call as its definition sees it, for both questions: infer (no builder) and lower.
class Lowering {
 public:
  Lowering(const OpDef& op, const Call& call, const Metas* expected, ir::Builder* builder);

  const OpDef& op() const { return op_; }
  const Call& call() const { return call_; }
  const Ambient& ambient() const { return call_.ambient; }

  // --- arguments as described; absent and None read the same ---
  const Argument* argument(std::string_view name) const;  // nullptr: absent or None
  bool has(std::string_view name) const { return argument(name) != nullptr; }
  const TensorArg* tensor(std::string_view name) const;
  const TensorMeta& meta(std::string_view name) const;  // of a tensor (0-dim f32 if absent)
  const ScalarArg* scalar_argument(std::string_view name) const;
  const TensorList& list(std::string_view name) const;
  int64_t int_(std::string_view name, int64_t otherwise = 0) const;  // also a known Scalar
  bool flag(std::string_view name, bool otherwise = false) const;
  std::vector<int64_t> ints(std::string_view name) const;  // a single int reads as a list of one
  std::optional<DType> dtype(std::string_view name) const;
  std::string text(std::string_view name) const;
  // The number itself, where known (structural scalars, constants of a compiled graph).
  std::optional<double> number(std::string_view name) const;
  // True when the scalar is known to equal `value` (value_classes or known).
  bool equals(std::string_view name, double value) const;

  // A dim of a tensor of that rank, wrapped; out of range: nothing in infer, failure in lower.
  int64_t dim(std::string_view name, int64_t rank, int64_t otherwise = 0) const;
  // Wrapped list of dims; absent or empty = all dims.
  std::vector<int64_t> dims(std::string_view name, int64_t rank) const;

  // --- declared dtypes ---
  bool promoted() const { return dtypes_.has_value(); }
  DType common() const { return dtypes_ ? dtypes_->common : DType::f32; }
  DType compute() const { return dtypes_ ? dtypes_->compute : DType::f32; }
  DType result_dtype() const { return dtypes_ ? dtypes_->result : DType::f32; }

  // --- values; lowering only ---
  ir::Builder& builder() const { return *builder_; }
  Val arg(std::string_view name);       // tensor or Scalar operand, in the compute dtype if it takes part in the promotion
  Val optional(std::string_view name);  // the same, Val() when None
  Val raw(std::string_view name);       // a tensor as it is
  Val scalar(std::string_view name);    // a number in the compute dtype (of the first tensor's opmath without promotion)
  Val scalar(std::string_view name, DType dtype);
  std::vector<Val> tensors(std::string_view name);  // a list; Val() for None entries; promoted as arg()
  Val seed();
  Val rng_offset();
  const TensorMeta* expected(size_t index) const;  // decided before lowering, if it was

  void fail(Status status) const;
  // "aten::x: <what> is not supported (self f32[2,3], ...)"
  Val unsupported(const std::string& what) const;
  std::string describe_arguments() const;
  bool failed() const { return failed_; }
  Status status() const { return status_; }

 private:
  Val operand(const TensorArg& tensor, bool takes_part);
  bool takes_part(std::string_view name) const;
  Val placeholder() const;

  const OpDef& op_;
  const Call& call_;
  const Metas* expected_;
  ir::Builder* builder_;
  std::optional<DTypes> dtypes_;
  mutable bool failed_ = false;
  mutable Status status_;
};

using ResultRule = std::function<std::optional<Metas>(const Lowering&)>;

class Body {
 public:
  template <class F>
  Body(F function) : run_([function](Lowering& l) { return collect(function, l); }) {}
  std::vector<Val> operator()(Lowering& l) const { return run_(l); }

 private:
  static std::vector<Val> as_list(Val v) { return {v}; }
  static std::vector<Val> as_list(std::vector<Val> v) { return v; }
  template <class F>
  static std::vector<Val> collect(const F& function, Lowering& l) {
    return as_list(function(l));
  }
  std::function<std::vector<Val>(Lowering&)> run_;
};

struct OpDef {
  std::string name;
  Promotion promotion;
  ResultRule result;  // empty: no rule, the caller asks PyTorch
  Body body;
  std::vector<ScalarRequirement> scalars;
  std::function<int64_t(const Lowering&)> rng_increment;  // empty: draws nothing

  // Refinements, chained after NEURON_OP(...).
  OpDef& structural(std::string name_of_scalar);
  OpDef& value_classes(std::string name_of_scalar, std::vector<double> values);
  OpDef& decides_shape(std::string name_of_scalar);
  OpDef& must_fit(std::string name_of_scalar, ScalarRequirement::Fits in = ScalarRequirement::Fits::result);
  OpDef& uses_rng(std::function<int64_t(const Lowering&)> increment);
};

class Registry {
 public:
  OpDef& add(std::string name, Promotion promotion, ResultRule result, Body body);
  // `name` is defined as `original` is.
  void alias(std::string name, const std::string& original);
  const OpDef* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops_;
};

#define NEURON_OP registry.add

// --- result rules ---
inline ResultRule result(std::optional<Metas> (*rule)(const Lowering&)) { return rule; }
inline ResultRule result(ResultRule rule) { return rule; }
inline ResultRule no_rule() { return {}; }

// TensorIterator: broadcast shape of the promoted operands, their layout, the result dtype.
std::optional<Metas> pointwise(const Lowering& l);
// Layout of TensorIterator over the named operands, without the cast that promotion would bring.
ResultRule pointwise_of(Names names, std::optional<DType> dtype = std::nullopt);
// Like the named argument, dense in its order of strides (empty_like); dtype = the promotion's result, else the argument's.
ResultRule like_input(std::string_view name = "self", std::optional<DType> dtype = std::nullopt);
// The shape of the named argument, contiguous.
ResultRule contiguous_like(std::string_view name = "self", std::optional<DType> dtype = std::nullopt);
// Reduction over argument `dim` (absent or empty: all) with `keepdim`; contiguous.
std::optional<Metas> reduction(const Lowering& l);
// Contiguous results of the given shape.
TensorMeta contiguous_meta(DType dtype, Shape shape);
Metas one(TensorMeta meta);
// Shape of the reduction of `shape` over `dims`.
Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& dims, bool keep);

}  // namespace neuron::ops
