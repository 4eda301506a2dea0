// Inside of the evaluator: one function per theme, each naive and obviously right. A node's operands arrive as Literals
// (row-major bytes); the function fills the results, already sized. ir::evaluate() in evaluate.cpp walks the graph.
//
// Arithmetic is done on int64_t, uint64_t, double or complex<double> (element.h) and rounded once when stored; sums and dot
// products of f32 and narrower are therefore more exact than any tiled execution: compare floats with a tolerance.
#pragma once

#include <span>

#include "ir/element.h"
#include "ir/rules.h"

namespace neuron::ir {

struct NodeCall {
  const Node& node;
  std::span<const Literal* const> in;
  std::span<Literal> out;
  const Type& type(size_t i) const { return in[i]->type; }
};

Status evaluate_unary(NodeCall c);
Status evaluate_binary(NodeCall c);     // binary, complex, compare
Status evaluate_select(NodeCall c);     // select, clamp
Status evaluate_shape(NodeCall c);      // iota, constant, convert, reshape .. dynamic_update_slice
Status evaluate_reduction(NodeCall c);  // reduce, arg_reduce, scan
Status evaluate_order(NodeCall c);      // sort, top_k
Status evaluate_index(NodeCall c);      // gather, scatter
Status evaluate_matmul(NodeCall c);     // dot_general
Status evaluate_attention(NodeCall c);  // attention, attention_backward
Status evaluate_random(NodeCall c);     // rng_bit_generator

// All elements as numbers, and back (converting to the literal's dtype).
template <class T>
std::vector<T> numbers(const Literal& x) {
  const size_t size = size_of(x.type.dtype);
  std::vector<T> values(x.data.size() / size);
  for (size_t i = 0; i < values.size(); ++i) values[i] = load<T>(x.type.dtype, x.data.data() + i * size);
  return values;
}
template <class T>
void store_at(Literal& x, size_t i, T value) {
  store(x.type.dtype, x.data.data() + i * size_of(x.type.dtype), value);
}

// Counts through the multi-indices of a shape, last dim fastest:  for (MultiIndex i(shape); i.valid(); i.next()).
class MultiIndex {
 public:
  explicit MultiIndex(const std::vector<int64_t>& shape) : shape_(shape), at_(shape.size()) {
    for (int64_t d : shape) valid_ = valid_ && d > 0;
  }
  bool valid() const { return valid_; }
  void next() {
    for (size_t d = shape_.size(); d-- > 0;) {
      if (++at_[d] < shape_[d]) return;
      at_[d] = 0;
    }
    valid_ = false;
  }
  const std::vector<int64_t>& operator*() const { return at_; }
  int64_t operator[](size_t d) const { return at_[d]; }

 private:
  std::vector<int64_t> shape_, at_;
  bool valid_ = true;
};

// Row-major position of a multi-index.
inline int64_t position(const std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  int64_t p = 0;
  for (size_t d = 0; d < shape.size(); ++d) p = p * shape[d] + index[d];
  return p;
}

void copy_element(Literal& to, int64_t to_position, const Literal& from, int64_t from_position);
// Applies one reducer step to two numbers; NaN in either operand of maximum or minimum gives NaN.
template <class T>
T combine(Reducer reducer, T a, T b, DType dtype);
template <class T>
T reducer_identity(Reducer reducer, DType dtype);

}  // namespace neuron::ir
