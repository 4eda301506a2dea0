// A graph with the same outputs in which every operator that StableHLO does not have (marked * in graph.h) is written with
// operators it has, and accumulation dtypes are explicit: what the StableHLO printer prints, and a second opinion on the
// semantics of those operators for tests.
//
// Kept as they are, because no finite expansion is exact: erf, erfc, erf_inv, lgamma, digamma, nextafter, gcd, inverse
// trigonometry of complex numbers, custom_program (printed as custom_call); sort (printed with a comparator over values and
// indices). Bounds checks of gather and scatter have no StableHLO form: the printed module clamps and drops.
#pragma once

#include "ir/builder.h"

namespace neuron::ir {

Result<Graph> expand_to_stablehlo(const Graph& graph);

// --- for expand_*.cpp ---

// Element-wise arithmetic on equal shapes, as expressions.
class Expression {
 public:
  Expression(Builder& builder, Value value) : b_(&builder), v_(value) {}
  Value value() const { return v_; }
  Builder& builder() const { return *b_; }
  const Type& type() const { return b_->type(v_); }
  Expression like(double number) const { return {*b_, b_->splat(type(), number)}; }
  Expression like_int(int64_t number) const { return {*b_, b_->splat_int(type(), number)}; }
  Expression convert(DType to) const { return {*b_, b_->convert(v_, to)}; }

 private:
  Builder* b_;
  Value v_;
};

using Ex = Expression;
inline Ex unary(Op op, Ex x) { return {x.builder(), x.builder().unary(op, x.value())}; }
inline Ex binary(Op op, Ex a, Ex b) { return {a.builder(), a.builder().binary(op, a.value(), b.value())}; }
inline Ex operator+(Ex a, Ex b) { return binary(Op::add, a, b); }
inline Ex operator-(Ex a, Ex b) { return binary(Op::subtract, a, b); }
inline Ex operator*(Ex a, Ex b) { return binary(Op::multiply, a, b); }
inline Ex operator/(Ex a, Ex b) { return binary(Op::divide, a, b); }
inline Ex operator-(Ex a) { return unary(Op::negate, a); }
inline Ex operator+(Ex a, double b) { return a + a.like(b); }
inline Ex operator-(Ex a, double b) { return a - a.like(b); }
inline Ex operator*(Ex a, double b) { return a * a.like(b); }
inline Ex compare(Comparison c, Ex a, Ex b) { return {a.builder(), a.builder().compare(c, a.value(), b.value())}; }
inline Ex select(Ex pred, Ex a, Ex b) { return {a.builder(), a.builder().select(pred.value(), a.value(), b.value())}; }

// The results of `node` over already expanded operands, or nothing when it is printed as it is.
std::vector<Value> expand_elementwise(Builder& b, const Node& node, const std::vector<Value>& in);
std::vector<Value> expand_moves(Builder& b, const Node& node, const std::vector<Value>& in);
std::vector<Value> expand_whole(Builder& b, const Node& node, const std::vector<Value>& in);

}  // namespace neuron::ir
