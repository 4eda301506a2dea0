// The numbered rules of every Op: one function says whether operands and attributes are legal and which types result.
// Builder infers with it, verify() compares with it, so the two cannot disagree.
//
// A violation reads "dot_general.5: contracted sizes differ ... (operands f32[2,3], f32[4,5])". Rule 1 of every op is its
// arity, rule 2 its attribute kind; the op's own rules start at 3 and are written out in rules_*.cpp.
#pragma once

#include <span>

#include "ir/graph.h"
#include "ir/op_info.h"

namespace neuron::ir {

using Types = std::vector<Type>;

struct RuleInput {
  Op op;
  std::span<const Type* const> in;
  const Attrs& attrs;
  // The result type asked for, for operators whose type does not follow from operands and attributes (parameter, constant,
  // iota, convert, bitcast_convert, reshape, broadcast_in_dim, strided_view, dynamic_slice, rng_bit_generator).
  const Type* requested;
};

Result<Types> infer_types(const RuleInput& r);

// --- for rules_*.cpp ---
Status violated(Op op, int rule, const std::string& message);
Result<Types> infer_elementwise(const RuleInput& r);   // leaves included
Result<Types> infer_shape_op(const RuleInput& r);      // reshape .. dynamic_update_slice, reductions, sort, top_k
Result<Types> infer_matmul_index(const RuleInput& r);  // dot_general, gather, scatter, rng, attention, custom_program

std::string list(const std::vector<int64_t>& values);  // "[1,2]"
bool distinct_in_range(const std::vector<int64_t>& dims, int64_t rank);
bool sorted_distinct_in_range(const std::vector<int64_t>& dims, int64_t rank);

}  // namespace neuron::ir

#define NEURON_RULE(condition, number, message)                             \
  do {                                                                      \
    if (!(condition)) return ::neuron::ir::violated(r.op, number, message); \
  } while (0)
