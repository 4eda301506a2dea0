#include "ops/val.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/mutation.h"

namespace neuron::ops {

using ir::Op;

int64_t Val::size(int64_t dim) const {
  const Shape s = shape();
  const int64_t d = dim < 0 ? dim + static_cast<int64_t>(s.size()) : dim;
  return d >= 0 && d < static_cast<int64_t>(s.size()) ? s[d] : 1;
}

std::string describe(const Val& x) { return x.present() ? ir::to_string(x.builder().type(x.value())) : "nothing"; }

Val full(ir::Builder& b, DType dtype, const Shape& shape, double value) { return {b, b.splat({dtype, shape}, value)}; }
Val full_int(ir::Builder& b, DType dtype, const Shape& shape, int64_t value) {
  return {b, b.splat_int({dtype, shape}, value)};
}
Val like(const Val& x, double value) { return full(x.builder(), x.dtype(), x.shape(), value); }
Val like_int(const Val& x, int64_t value) { return full_int(x.builder(), x.dtype(), x.shape(), value); }
Val iota(ir::Builder& b, DType dtype, const Shape& shape, int64_t dim) { return {b, b.iota({dtype, shape}, dim)}; }

Val infinity_like(const Val& x, bool negative) {
  const DType t = x.dtype();
  if (t == DType::boolean) return like(x, negative ? 0 : 1);
  if (is_unsigned_integer(t)) {
    const int bits = static_cast<int>(size_of(t)) * 8;
    return like_int(x, negative ? 0 : bits == 64 ? -1 : (int64_t{1} << bits) - 1);
  }
  if (is_integer(t)) {
    const int bits = static_cast<int>(size_of(t)) * 8;
    const int64_t low = bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1));
    return like_int(x, negative ? low : -(low + 1));
  }
  const double inf = std::numeric_limits<double>::infinity();
  return like(x, negative ? -inf : inf);
}

Val convert(const Val& x, DType to) {
  if (mutated("cast") && to == DType::boolean && is_floating(x.dtype())) return convert(convert(x, DType::i32), to);
  return x.dtype() == to ? x : Val(x.builder(), x.builder().convert(x.value(), to));
}

Val unary(Op op, const Val& x) { return {x.builder(), x.builder().unary(op, x.value())}; }

// Both operands with their common broadcast shape.
static bool align(Val& a, Val& b) {
  if (a.shape() == b.shape()) return true;
  const auto shape = broadcast_shapes(a.shape(), b.shape());
  if (!shape) {
    a.builder().fail(invalid_argument("shapes do not broadcast: " + describe(a) + " and " + describe(b)));
    return false;
  }
  a = broadcast_to(a, *shape);
  b = broadcast_to(b, *shape);
  return true;
}

Val binary(Op op, const Val& a, const Val& b) {
  Val x = a, y = b;
  if (!align(x, y)) return x;
  return {x.builder(), x.builder().binary(op, x.value(), y.value())};
}

Val compare(ir::Comparison direction, const Val& a, const Val& b) {
  Val x = a, y = b;
  if (!align(x, y)) return x;
  return {x.builder(), x.builder().compare(direction, x.value(), y.value())};
}

Val where(const Val& condition, const Val& a, const Val& b) {
  Val c = condition, x = a, y = b;
  if (!align(x, y) || !align(c, x) || !align(x, y)) return x;
  return {x.builder(), x.builder().select(c.value(), x.value(), y.value())};
}

Val operator+(const Val& a, const Val& b) { return binary(Op::add, a, b); }
Val operator-(const Val& a, const Val& b) { return binary(Op::subtract, a, b); }
Val operator*(const Val& a, const Val& b) { return binary(Op::multiply, a, b); }
Val operator/(const Val& a, const Val& b) { return binary(Op::divide, a, b); }
Val operator-(const Val& a) { return unary(Op::negate, a); }
Val operator&(const Val& a, const Val& b) { return binary(Op::and_, a, b); }
Val operator|(const Val& a, const Val& b) { return binary(Op::or_, a, b); }
Val operator^(const Val& a, const Val& b) { return binary(Op::xor_, a, b); }
Val operator!(const Val& a) { return unary(Op::not_, a); }

Val eq(const Val& a, const Val& b) { return compare(ir::Comparison::eq, a, b); }
Val ne(const Val& a, const Val& b) { return compare(ir::Comparison::ne, a, b); }
Val lt(const Val& a, const Val& b) { return compare(ir::Comparison::lt, a, b); }
Val le(const Val& a, const Val& b) { return compare(ir::Comparison::le, a, b); }
Val gt(const Val& a, const Val& b) { return compare(ir::Comparison::gt, a, b); }
Val ge(const Val& a, const Val& b) { return compare(ir::Comparison::ge, a, b); }
Val to_bool(const Val& x) { return convert(x, DType::boolean); }

Val exp(const Val& x) { return unary(Op::exponential, x); }
Val log(const Val& x) { return unary(Op::log, x); }
Val sqrt(const Val& x) { return unary(Op::sqrt, x); }
Val tanh(const Val& x) { return unary(Op::tanh, x); }
Val sigmoid(const Val& x) { return unary(Op::logistic, x); }
Val abs(const Val& x) {
  if (is_unsigned_integer(x.dtype()) || x.dtype() == DType::boolean) return x;
  return unary(Op::abs, x);
}
Val is_nan(const Val& x) {
  if (is_complex(x.dtype())) return is_nan(real(x)) | is_nan(imag(x));
  if (!is_floating(x.dtype()) || mutated("nan")) return full(x.builder(), DType::boolean, x.shape(), 0);
  return unary(Op::is_nan, x);
}
Val maximum(const Val& a, const Val& b) { return binary(Op::maximum, a, b); }
Val minimum(const Val& a, const Val& b) { return binary(Op::minimum, a, b); }
Val pow(const Val& a, const Val& b) { return binary(Op::power, a, b); }
Val clamp(const Val& x, double low, double high) {
  return {x.builder(), x.builder().clamp(like(x, low).value(), x.value(), like(x, high).value())};
}

Val real(const Val& x) { return is_complex(x.dtype()) ? unary(Op::real, x) : x; }
Val imag(const Val& x) { return is_complex(x.dtype()) ? unary(Op::imag, x) : like(x, 0); }
Val conj(const Val& x) { return is_complex(x.dtype()) ? unary(Op::conj, x) : x; }
Val make_complex(const Val& real, const Val& imag) { return binary(Op::complex, real, imag); }

Val reshape(const Val& x, const Shape& shape) {
  return x.shape() == shape ? x : Val(x.builder(), x.builder().reshape(x.value(), shape));
}
Val broadcast_to(const Val& x, const Shape& shape) {
  return x.shape() == shape ? x : Val(x.builder(), x.builder().broadcast_to(x.value(), shape));
}
Val transpose(const Val& x, const std::vector<int64_t>& permutation) {
  bool identity = true;
  for (size_t i = 0; i < permutation.size(); ++i) identity = identity && permutation[i] == static_cast<int64_t>(i);
  return identity ? x : Val(x.builder(), x.builder().transpose(x.value(), permutation));
}
Val swap_dims(const Val& x, int64_t a, int64_t b) {
  std::vector<int64_t> permutation(x.rank());
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  if (a != b) std::swap(permutation[a], permutation[b]);
  return transpose(x, permutation);
}
Val move_dim(const Val& x, int64_t from, int64_t to) {
  std::vector<int64_t> permutation(x.rank());
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  permutation.erase(permutation.begin() + from);
  permutation.insert(permutation.begin() + to, from);
  return transpose(x, permutation);
}
Val unsqueeze(const Val& x, int64_t dim) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + dim, 1);
  return reshape(x, shape);
}
Val squeeze(const Val& x, int64_t dim) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + dim);
  return reshape(x, shape);
}
Val slice(const Val& x, int64_t dim, int64_t start, int64_t end, int64_t step) {
  const Shape shape = x.shape();
  if (start == 0 && end == shape[dim] && step == 1) return x;
  Shape starts(shape.size(), 0), limits = shape, steps(shape.size(), 1);
  starts[dim] = start;
  limits[dim] = end;
  steps[dim] = step;
  return {x.builder(), x.builder().slice(x.value(), starts, limits, steps)};
}
Val select(const Val& x, int64_t dim, int64_t index) { return squeeze(slice(x, dim, index, index + 1), dim); }
Val concatenate(const std::vector<Val>& parts, int64_t dim) {
  if (parts.size() == 1) return parts[0];
  std::vector<ir::Value> values;
  for (const Val& p : parts) values.push_back(p.value());
  return {parts[0].builder(), parts[0].builder().concatenate(values, dim)};
}
Val pad(const Val& x, double value, const Shape& low, const Shape& high, const Shape& interior) {
  const Val fill = full(x.builder(), x.dtype(), {}, value);
  const Shape inner = interior.empty() ? Shape(low.size(), 0) : interior;
  return {x.builder(), x.builder().pad(x.value(), fill.value(), low, high, inner)};
}
Val reverse(const Val& x, const std::vector<int64_t>& dims) {
  return dims.empty() ? x : Val(x.builder(), x.builder().reverse(x.value(), dims));
}
Val flatten(const Val& x) { return reshape(x, {x.elements()}); }

std::vector<int64_t> all_dims(const Val& x) {
  std::vector<int64_t> dims(x.rank());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return dims;
}
int64_t reduced_count(const Val& x, const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= x.size(d);
  return n;
}

Val reduce(ir::Reducer reducer, const Val& x, const std::vector<int64_t>& dims, bool keep) {
  Val y = x;
  if (!dims.empty()) y = Val(x.builder(), x.builder().reduce(reducer, x.value(), dims));
  if (!keep) return y;
  Shape shape = x.shape();
  for (int64_t d : dims) shape[d] = 1;
  return reshape(y, shape);
}
Val sum(const Val& x, const std::vector<int64_t>& dims, bool keep) { return reduce(ir::Reducer::add, x, dims, keep); }

Val sum_to(const Val& x, const Shape& shape) {
  const Shape from = x.shape();
  if (from == shape) return x;
  const size_t lead = from.size() - shape.size();
  std::vector<int64_t> dims;
  for (size_t d = 0; d < from.size(); ++d) {
    if (d < lead || (shape[d - lead] == 1 && from[d] != 1)) dims.push_back(static_cast<int64_t>(d));
  }
  return reshape(sum(x, dims), shape);
}

Val scan(ir::Reducer reducer, const Val& x, int64_t dim, bool reverse) {
  return {x.builder(), x.builder().scan(reducer, x.value(), dim, reverse)};
}

Val matmul(const Val& a, const Val& b, DType result) {
  const int64_t rank = a.rank();
  ir::DotAttrs attrs;
  for (int64_t d = 0; d + 2 < rank; ++d) {
    attrs.lhs_batch.push_back(d);
    attrs.rhs_batch.push_back(d);
  }
  attrs.lhs_contract = {rank - 1};
  attrs.rhs_contract = {rank - 2};
  attrs.result_dtype = result;
  return {a.builder(), a.builder().dot_general(a.value(), b.value(), attrs)};
}

}  // namespace neuron::ops
