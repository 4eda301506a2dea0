// Type promotion as PyTorch does it: which dtype operands are converted to, in which dtype the arithmetic is done, and which
// dtype the result has. Operators declare a rule; the mechanism applies it (registry.h).
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "ops/lowering.h"

namespace neuron::ops {

class Lowering;

struct DTypes {
  DType common = DType::f32;   // what every operand is converted to
  DType compute = DType::f32;  // what arithmetic is done in: common, but f32 for f16 and bf16 (rounded once at the end)
  DType result = DType::f32;
};

// c10::promoteTypes; nothing for the pairs PyTorch refuses (float8 with others, u16..u64 with integers).
std::optional<DType> promote_types(DType a, DType b);
DType to_complex(DType t);  // complex type that holds t
DType opmath(DType t);      // f32 for f16 and bf16
bool is_integral(DType t);  // integers and bool

// at::result_type over operands in order.
class ResultType {
 public:
  explicit ResultType(DType default_dtype) : default_dtype_(default_dtype) {}
  void add(DType dtype, Category category);
  void add(const TensorArg& tensor) { add(tensor.meta.dtype, tensor.category); }
  void add(const ScalarArg& scalar);
  std::optional<DType> get() const;  // nothing if a pair has no promotion or there were no operands

 private:
  static std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower, bool& valid);
  void join(std::optional<DType>& slot, DType dtype);
  DType default_dtype_;
  std::optional<DType> dim_, zero_, wrapped_;
  bool valid_ = true;
};

using Names = std::vector<std::string_view>;
// A rule sees the operator's arguments and the names that take part; nothing = not valid, PyTorch reports it.
using Rule = std::optional<DTypes> (*)(const Lowering&, const Names&);

std::optional<DTypes> default_rule(const Lowering&, const Names&);  // result_type
std::optional<DTypes> float_rule(const Lowering&, const Names&);    // result_type, integers become the default float
// default_rule for floats, for floats and complex numbers, for all but complex numbers; float_rule without complex numbers.
std::optional<DTypes> floating_rule(const Lowering&, const Names&);
std::optional<DTypes> float_or_complex_rule(const Lowering&, const Names&);
std::optional<DTypes> ordered_rule(const Lowering&, const Names&);
std::optional<DTypes> real_float_rule(const Lowering&, const Names&);
std::optional<DTypes> compare_rule(const Lowering&, const Names&);       // computed in result_type, gives bool
std::optional<DTypes> real_rule(const Lowering&, const Names&);          // complex operands give their real type
std::optional<DTypes> same_rule(const Lowering&, const Names&);          // all dtypes must be equal
std::optional<DTypes> move_rule(const Lowering&, const Names&);          // result_type, nothing computed (no f32 detour)
std::optional<DTypes> ordered_move_rule(const Lowering&, const Names&);  // the same, not for complex numbers
std::optional<DTypes> sum_rule(const Lowering&, const Names&);           // argument `dtype`, else integers become i64
std::optional<DTypes> mean_rule(const Lowering&, const Names&);          // argument `dtype`, else a float type is required

struct Promotion {
  Rule rule = nullptr;  // nullptr: arguments are taken as they are
  Names inputs;         // empty: every tensor argument of the call, in order
  // 0-dim and Python-number operands go straight to the compute dtype (add, sub, mul, div of half types on CPU); otherwise
  // they are rounded to the common dtype first.
  bool exact_scalars = false;
};

inline Promotion promotes(Rule rule, Names inputs = {}) { return {rule, std::move(inputs), false}; }
inline Promotion promotes_exact_scalars(Rule rule, Names inputs = {}) { return {rule, std::move(inputs), true}; }
inline Promotion no_promotion() { return {}; }

}  // namespace neuron::ops
