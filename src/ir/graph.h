// The tensor graph between PyTorch operators and tile programs: SSA over static shapes, StableHLO's operations, names and
// semantics where StableHLO has them, plus a few of ours (marked *) that the StableHLO printer expands or writes as
// custom_call. Values are logical tensors; memory layout exists only at the border: Parameter::strides, Output::strides.
//
// Order of nodes is a topological order. Every Op has one numbered shape rule and verifier rule (ir/verifier.cpp), one
// evaluation (ir/evaluate.cpp: naive and obviously right; the oracle for everything below) and one print form.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace neuron::ir {

struct Type {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  bool operator==(const Type&) const = default;
  int64_t elements() const;
};
std::string to_string(const Type& type);  // "f32[2,3]"

// Result `result` of node `node`.
struct Value {
  int32_t node = -1;
  int32_t result = 0;
  bool operator==(const Value&) const = default;
  bool present() const { return node >= 0; }
};

// clang-format off
enum class Op : uint8_t {
  // leaves
  parameter,  // ParameterAttrs
  constant,   // ConstantAttrs: dense or splat
  iota,       // DimAttrs
  // element-wise, equal shapes (and dtypes, unless said): 1 operand
  convert, bitcast_convert, negate, abs, sign /* NaN and signed zeros stay */, exponential, exponential_minus_one, log, log_plus_one, logistic, sqrt, rsqrt,
  cbrt, tanh, sine, cosine, tan, floor, ceil, round_nearest_even, round_nearest_afz, is_finite /* -> bool */, not_,
  popcnt, real, imag,
  // *: unary functions that NeuronCore has or emission expands
  erf, erfc, erf_inv, lgamma, digamma, exp2, log2, log10, trunc, asin, acos, atan, sinh, cosh, asinh, acosh, atanh,
  gelu, gelu_dx /* its derivative */, gelu_tanh, gelu_tanh_dx, silu, softplus_unit /* log(1+exp(x)) */, is_nan, is_inf, reciprocal, angle, conj,
  // 2 operands
  add, subtract, multiply, divide /* integers truncate; by 0: ir/evaluate_binary.cpp */, remainder /* sign of dividend */, power, maximum, minimum, atan2,
  and_, or_, xor_, shift_left, shift_right_arithmetic, shift_right_logical, complex,
  floor_divide /* * */, python_remainder /* *, sign of divisor */, copysign /* * */, nextafter /* * */, hypot /* * */,
  gcd /* * */,
  compare,  // CompareAttrs -> bool
  // 3 operands
  select,  // pred (bool), on_true, on_false: equal shapes
  clamp,   // min, operand, max: equal shapes
  // shape
  reshape, broadcast_in_dim /* DimsAttrs */, transpose /* DimsAttrs */, slice /* SliceAttrs */,
  concatenate /* DimAttrs */, pad /* PadAttrs; operands: tensor, 0-dim value */, reverse /* DimsAttrs */,
  strided_view,  // *: StridedViewAttrs, reads the operand's row-major elements at offset + sum i_d*stride_d
  dynamic_slice, dynamic_update_slice,  // operand(, update), start indices as 0-dim integers
  // reductions
  reduce,      // ReduceAttrs; bool, integer and float; initial value is the reducer's identity
  arg_reduce,  // *: ArgReduceAttrs -> i64 index of the first maximum/minimum (NaN wins)
  scan,        // *: ScanAttrs, cumulative along one dim, same shape; max/min give results value, i64 index (of the last
               //    equal element, a later NaN included, as torch.cummax)
  // matmul
  dot_general,  // DotAttrs; result dtype = attrs.result_dtype
  // gather / scatter, StableHLO semantics restricted to: one indexed dim tuple, sorted start_index_map
  gather,   // GatherAttrs; operands: operand, start_indices
  scatter,  // ScatterAttrs; operands: operand, indices, updates; `combine` in place of the region
  sort,     // *: SortAttrs -> values, i64 indices (stable)
  top_k,    // *: TopKAttrs -> values, i64 indices, along the last dim
  rng_bit_generator,  // *: RngAttrs; operands: seed u64[], offset u64[] -> u32 or u64 bits; element i (row-major) uses
                      // Philox4x32-10 counter offset + i (isa/program.h random_bits)
  // whole operators that the compiler has regions for (each with a documented expansion in evaluate and in the printer)
  attention,           // *: AttentionAttrs; q, k, v [B,H,S,D] (, mask broadcastable to [B,H,Sq,Sk], bool or float)
                       //    (, keep-mask bool for dropout) -> out [B,H,Sq,Dv], logsumexp f32 (f64 for f64) [B,H,Sq]
  attention_backward,  // *: AttentionAttrs; grad_out, q, k, v, out, logsumexp(, mask)(, keep) -> dq, dk, dv
  custom_program,      // *: CustomProgramAttrs: an opaque tile program (NKI kernel); later
  count_
};
// clang-format on
std::string_view name_of(Op op);  // "add", "dot_general", ... as StableHLO spells it

enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge };
enum class Reducer : uint8_t {
  add,
  multiply,
  maximum,
  minimum,
  and_,
  or_,
  xor_,
  assign /* scatter only: last index wins */
};

struct ParameterAttrs {
  enum class Kind : uint8_t { tensor, scalar } kind = Kind::tensor;
  int32_t index = 0;             // tensor: position among tensor parameters; scalar: slot in the launch's scalar table
  std::vector<int64_t> strides;  // tensor: elements, one per dim; the buffer starts at the tensor's first element
  std::string name;
};
// Row-major bytes of the whole tensor, or of one element when splat.
struct ConstantAttrs {
  std::vector<uint8_t> data;
  bool splat = false;
};
struct DimAttrs {
  int64_t dim = 0;
};
struct DimsAttrs {
  std::vector<int64_t> dims;
};
struct CompareAttrs {
  Comparison direction = Comparison::eq;
};
struct SliceAttrs {
  std::vector<int64_t> start, limit, stride;
};
struct PadAttrs {
  std::vector<int64_t> low, high, interior;
};  // low/high may be negative
struct StridedViewAttrs {
  int64_t offset = 0;
  std::vector<int64_t> strides;
};
struct ReduceAttrs {
  Reducer reducer = Reducer::add;
  std::vector<int64_t> dims;
};
struct ArgReduceAttrs {
  bool maximum = true;
  int64_t dim = 0;
};
struct ScanAttrs {
  Reducer reducer = Reducer::add;
  int64_t dim = 0;
  bool reverse = false;
};
struct DotAttrs {
  std::vector<int64_t> lhs_batch, rhs_batch, lhs_contract, rhs_contract;
  DType result_dtype = DType::f32;
};
// out[batch.., offset..] = operand[start + offset]; start = start_indices[batch.., index_vector_dim][start_index_map].
// StableHLO clamps; `check_bounds` makes an index outside [0, dim - slice] an error instead (OutOfRange naming the op).
struct GatherAttrs {
  std::vector<int64_t> offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims,
      start_index_map, slice_sizes;
  int64_t index_vector_dim = 0;
  bool check_bounds = true;
};
struct ScatterAttrs {
  std::vector<int64_t> update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
      scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  Reducer combine = Reducer::add;
  bool check_bounds = true;  // false: updates outside are dropped (StableHLO)
};
struct SortAttrs {
  int64_t dim = 0;
  bool descending = false;
};
struct TopKAttrs {
  int64_t k = 0;
  bool largest = true;
};
struct RngAttrs {
  DType bits = DType::u32;
};
struct AttentionAttrs {
  double scale = 1.0;
  bool causal = false;  // lower-right? no: as F.scaled_dot_product_attention, top-left aligned
  bool has_mask = false, has_keep = false;
  double keep_scale = 1.0;  // 1/(1-p), applied to kept probabilities
};
struct CustomProgramAttrs {
  std::vector<uint8_t> container;
  std::vector<Type> results;
};

using Attrs = std::variant<std::monostate, ParameterAttrs, ConstantAttrs, DimAttrs, DimsAttrs, CompareAttrs, SliceAttrs,
                           PadAttrs, StridedViewAttrs, ReduceAttrs, ArgReduceAttrs, ScanAttrs, DotAttrs, GatherAttrs,
                           ScatterAttrs, SortAttrs, TopKAttrs, RngAttrs, AttentionAttrs, CustomProgramAttrs>;

struct Node {
  Op op = Op::constant;
  std::vector<Value> operands;
  std::vector<Type> types;  // one per result
  Attrs attrs;
  int32_t label = 0;  // index into Graph::labels: the PyTorch operator this came from
};

struct Output {
  Value value;
  std::vector<int64_t> strides;  // elements; layout of the destination buffer, which starts at the first element
  int32_t alias = -1;            // index of the tensor parameter whose buffer this output overwrites (in-place), or -1
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Output> outputs;
  std::vector<std::string> labels{""};

  const Node& node(Value v) const { return nodes[v.node]; }
  const Type& type(Value v) const { return nodes[v.node].types[v.result]; }
  int32_t tensor_parameter_count() const;
  int32_t scalar_parameter_count() const;
};

// Checks every numbered rule; the message names rule, node and types. Graphs from lowerings are verified in debug builds and
// tests; graphs from text always.
Status verify(const Graph& graph);
// StableHLO module in generic form. Ops marked * are expanded into StableHLO or written as custom_call.
std::string print_stablehlo(const Graph& graph);
// One line per node, for dumps and test expectations.
std::string print(const Graph& graph);

// Evaluation on the host, elements row-major.
struct Literal {
  Type type;
  std::vector<uint8_t> data;
};
// `tensors` by tensor-parameter index (logical row-major contents), `scalars` by slot (8-byte slots). OutOfRange for
// checked gathers and scatters.
Result<std::vector<Literal>> evaluate(const Graph& graph, const std::vector<Literal>& tensors,
                                      const std::vector<uint64_t>& scalars);

}  // namespace neuron::ir
