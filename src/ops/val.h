// Values as lowerings write them: ir::Value with numpy broadcasting and operators. Operands of one operation must have equal
// dtypes (numbers in C++ take the dtype of the other side); nothing is promoted here, the declared rule has done that.
// Mistakes are remembered in the builder (Builder::fail) and come out of lower() as an error.
#pragma once

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ops/layout.h"

namespace neuron::ops {

class Val {
 public:
  Val() = default;
  Val(ir::Builder& builder, ir::Value value) : builder_(&builder), value_(value) {}

  bool present() const { return builder_ != nullptr && value_.present(); }
  ir::Builder& builder() const { return *builder_; }
  ir::Value value() const { return value_; }
  DType dtype() const { return builder_->type(value_).dtype; }
  Shape shape() const { return builder_->type(value_).shape; }
  int64_t rank() const { return static_cast<int64_t>(builder_->type(value_).shape.size()); }
  int64_t size(int64_t dim) const;  // negative dims count from the end
  int64_t elements() const { return builder_->type(value_).elements(); }
  Val result(int32_t index) const { return {*builder_, {value_.node, index}}; }  // another result of the same node

 private:
  ir::Builder* builder_ = nullptr;
  ir::Value value_;
};

// --- constants; `like` has the shape and dtype of x ---
Val full(ir::Builder& b, DType dtype, const Shape& shape, double value);
Val full_int(ir::Builder& b, DType dtype, const Shape& shape, int64_t value);
Val like(const Val& x, double value);
Val like_int(const Val& x, int64_t value);
Val infinity_like(const Val& x, bool negative = false);  // the largest (smallest) value for integers and bool
Val iota(ir::Builder& b, DType dtype, const Shape& shape, int64_t dim);

// --- element-wise, broadcasting ---
Val convert(const Val& x, DType to);
Val unary(ir::Op op, const Val& x);
Val binary(ir::Op op, const Val& a, const Val& b);
Val compare(ir::Comparison direction, const Val& a, const Val& b);
Val where(const Val& condition, const Val& a, const Val& b);  // condition bool

Val operator+(const Val& a, const Val& b);
Val operator-(const Val& a, const Val& b);
Val operator*(const Val& a, const Val& b);
Val operator/(const Val& a, const Val& b);
Val operator-(const Val& a);
Val operator&(const Val& a, const Val& b);
Val operator|(const Val& a, const Val& b);
Val operator^(const Val& a, const Val& b);
Val operator!(const Val& a);  // of bool
inline Val operator+(const Val& a, double b) { return a + like(a, b); }
inline Val operator-(const Val& a, double b) { return a - like(a, b); }
inline Val operator*(const Val& a, double b) { return a * like(a, b); }
inline Val operator/(const Val& a, double b) { return a / like(a, b); }
inline Val operator+(double a, const Val& b) { return like(b, a) + b; }
inline Val operator-(double a, const Val& b) { return like(b, a) - b; }
inline Val operator*(double a, const Val& b) { return like(b, a) * b; }
inline Val operator/(double a, const Val& b) { return like(b, a) / b; }

// The operators of C++ compare the handles' contents in many libraries; here comparisons are named.
Val eq(const Val& a, const Val& b);
Val ne(const Val& a, const Val& b);
Val lt(const Val& a, const Val& b);
Val le(const Val& a, const Val& b);
Val gt(const Val& a, const Val& b);
Val ge(const Val& a, const Val& b);
inline Val eq(const Val& a, double b) { return eq(a, like(a, b)); }
inline Val ne(const Val& a, double b) { return ne(a, like(a, b)); }
inline Val lt(const Val& a, double b) { return lt(a, like(a, b)); }
inline Val le(const Val& a, double b) { return le(a, like(a, b)); }
inline Val gt(const Val& a, double b) { return gt(a, like(a, b)); }
inline Val ge(const Val& a, double b) { return ge(a, like(a, b)); }
Val to_bool(const Val& x);  // x != 0, NaN is true

Val exp(const Val& x);
Val log(const Val& x);
Val sqrt(const Val& x);
Val tanh(const Val& x);
Val sigmoid(const Val& x);
Val abs(const Val& x);     // of complex: the real modulus
Val is_nan(const Val& x);  // false for integers
Val maximum(const Val& a, const Val& b);
Val minimum(const Val& a, const Val& b);
Val pow(const Val& a, const Val& b);
// x restricted to [low, high] by numbers.
Val clamp(const Val& x, double low, double high);

Val real(const Val& x);  // the value itself when not complex
Val imag(const Val& x);
Val conj(const Val& x);
Val make_complex(const Val& real, const Val& imag);

// --- shape ---
Val reshape(const Val& x, const Shape& shape);
Val broadcast_to(const Val& x, const Shape& shape);
Val transpose(const Val& x, const std::vector<int64_t>& permutation);
Val swap_dims(const Val& x, int64_t a, int64_t b);
Val move_dim(const Val& x, int64_t from, int64_t to);
Val unsqueeze(const Val& x, int64_t dim);  // dim in [0, rank]
Val squeeze(const Val& x, int64_t dim);
Val slice(const Val& x, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
Val select(const Val& x, int64_t dim, int64_t index);  // removes the dim
Val concatenate(const std::vector<Val>& parts, int64_t dim);
Val pad(const Val& x, double value, const Shape& low, const Shape& high, const Shape& interior = {});
Val reverse(const Val& x, const std::vector<int64_t>& dims);
Val flatten(const Val& x);  // one dim

// --- reductions over `dims`; keep: the dims stay with size 1 ---
Val reduce(ir::Reducer reducer, const Val& x, const std::vector<int64_t>& dims, bool keep = false);
Val sum(const Val& x, const std::vector<int64_t>& dims, bool keep = false);  // complex too
std::vector<int64_t> all_dims(const Val& x);
int64_t reduced_count(const Val& x, const std::vector<int64_t>& dims);
// Sums x down to `shape`, from which it was broadcast.
Val sum_to(const Val& x, const Shape& shape);
Val scan(ir::Reducer reducer, const Val& x, int64_t dim, bool reverse = false);

// --- matmul: a [.., M, K] x b [.., K, N] over equal leading dims; accumulates and returns in `result` ---
Val matmul(const Val& a, const Val& b, DType result);

std::string describe(const Val& x);  // "f32[2,3]"

}  // namespace neuron::ops
