// Appends nodes to a Graph and infers their types. Every function checks its operands; a mistake is remembered (first error
// wins) and the returned Value is still usable, so lowerings can be written as expressions and checked once at the end.
#pragma once

#include <initializer_list>
#include <span>

#include "ir/graph.h"

namespace neuron::ir {

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const Type& type(Value v) const;  // f32[] for an absent value
  Status status() const { return status_; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  void set_label(std::string label);  // for nodes from now on

  // Leaves.
  Value parameter(Type type, int32_t index, std::vector<int64_t> strides, std::string name = "");
  Value scalar_parameter(DType dtype, int32_t slot);  // dtype i64, u64, f64 or c128 (two slots); 0-dim
  Value constant(Type type, std::vector<uint8_t> row_major);
  Value splat(Type type, double value);
  Value splat_int(Type type, int64_t value);  // exact for 64-bit integers
  Value splat_complex(Type type, std::complex<double> value);
  Value iota(Type type, int64_t dim);

  // Element-wise. No implicit broadcasting or promotion here.
  Value unary(Op op, Value x);  // convert and bitcast_convert have their own functions
  Value binary(Op op, Value a, Value b);
  Value compare(Comparison direction, Value a, Value b);
  Value select(Value pred, Value on_true, Value on_false);
  Value clamp(Value low, Value x, Value high);
  Value convert(Value x, DType to);  // no node when the dtype is the same
  Value bitcast(Value x, DType to);  // equal element sizes

  // Shape.
  Value reshape(Value x, std::vector<int64_t> shape);  // no node when equal
  Value broadcast_in_dim(Value x, std::vector<int64_t> shape, std::vector<int64_t> dims);
  Value broadcast_to(Value x, const std::vector<int64_t>& shape);  // numpy rules; no node when equal
  Value transpose(Value x, std::vector<int64_t> permutation);
  Value slice(Value x, std::vector<int64_t> start, std::vector<int64_t> limit, std::vector<int64_t> stride = {});
  Value concatenate(std::span<const Value> parts, int64_t dim);
  Value pad(Value x, Value value, std::vector<int64_t> low, std::vector<int64_t> high, std::vector<int64_t> interior = {});
  Value reverse(Value x, std::vector<int64_t> dims);
  Value strided_view(Value x, std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset);
  Value dynamic_slice(Value x, std::span<const Value> starts, std::vector<int64_t> sizes);
  Value dynamic_update_slice(Value x, Value update, std::span<const Value> starts);

  // Reductions, matmul, indexing. Multi-result nodes return their first Value; others are {node, 1}, {node, 2}.
  Value reduce(Reducer reducer, Value x, std::vector<int64_t> dims);  // removes the dims
  Value arg_reduce(bool maximum, Value x, int64_t dim);               // removes the dim
  Value scan(Reducer reducer, Value x, int64_t dim, bool reverse = false);
  Value dot_general(Value a, Value b, DotAttrs attrs);
  Value gather(Value operand, Value indices, GatherAttrs attrs);
  Value scatter(Value operand, Value indices, Value updates, ScatterAttrs attrs);
  Value sort(Value x, int64_t dim, bool descending);
  Value top_k(Value x, int64_t k, bool largest);
  Value rng_bits(Value seed, Value offset, Type type);  // type u32 or u64
  Value attention(Value q, Value k, Value v, Value mask, Value keep, AttentionAttrs attrs);
  Value attention_backward(Value grad, Value q, Value k, Value v, Value out, Value lse, Value mask, Value keep,
                           AttentionAttrs attrs);

  void output(Value value, std::vector<int64_t> strides, int32_t alias = -1);

 private:
  // Checks the op's rules and appends the node. `requested`: the result type where it does not follow from operands and
  // attributes. After an error: a zero constant of the type that comes nearest.
  Value append(Op op, std::vector<Value> operands, Attrs attrs = {}, const Type* requested = nullptr);
  Value placeholder(std::span<const Value> operands, const Type* requested);
  bool usable(Value v) const;
  Graph& graph_;
  Status status_;
  int32_t label_ = 0;
};

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);

}  // namespace neuron::ir
