// One row per Op: its printed name, arity, attribute kind and, for element-wise operators, which dtypes it takes and what
// dtype it gives. Rules, printers, the evaluator and generated tests read this table.
#pragma once

#include <string_view>

#include "ir/graph.h"

namespace neuron::ir {

enum Domain : uint8_t {
  kBool = 1,
  kInt = 2,
  kFloat = 4,
  kComplex = 8,
  kNumber = kInt | kFloat | kComplex,
  kAny = kBool | kNumber,
};

// What shape and dtype rule the operator follows.
enum class Form : uint8_t {
  unary,          // result type = operand type
  unary_to_bool,  // same shape, bool
  unary_to_real,  // same shape, real_type(dtype)
  binary,         // equal operand types, result the same
  other,          // its own rule
};

inline constexpr int kVariadic = 127;

struct OpInfo {
  std::string_view name;
  uint8_t min_operands = 0, max_operands = 0;
  uint8_t attrs = 0;   // index into the Attrs variant
  uint8_t domain = 0;  // Domain bits of the operand (element-wise operators)
  Form form = Form::other;
};
const OpInfo& info(Op op);

Domain domain_of(DType dtype);
inline bool in_domain(DType dtype, uint8_t domain) { return (domain_of(dtype) & domain) != 0; }

inline std::string_view name_of(Reducer r) {
  constexpr std::string_view names[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor", "assign"};
  return names[static_cast<size_t>(r)];
}
inline std::string_view name_of(Comparison c) {
  constexpr std::string_view names[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  return names[static_cast<size_t>(c)];
}

}  // namespace neuron::ir
