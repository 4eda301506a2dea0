// ATen operator -> IR, without ATen: what src/ops' lowerings see, what src/pytorch (eager) and the FX importer (compile)
// call.
//
// One lowering serves both. The caller describes each argument by name (PyTorch's schema name) with neutral types, asks for
// the results' metadata (eager only: shapes, dtypes, strides before anything runs), and lets the lowering append IR nodes.
//
// Structural or runtime: int, bool, list, dtype, str, Layout arguments are structural (their values are known here and are
// part of the signature). Scalar and float arguments are runtime: a 0-dim IR value whose number is not known when compiling;
// their kind (bool/int/float/complex) is structural. A lowering may declare that it must know more: structural("p") makes
// the number known, value_classes("alpha", {1}) makes "is it one of these" known.
#pragma once

#include <complex>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "ir/builder.h"

namespace neuron::ops {

// How a tensor takes part in type promotion.
enum class Category : uint8_t { tensor, zero_dim, wrapped_number };

struct TensorMeta {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // elements; like at::Tensor::strides(), meaningless entries allowed for size-1 dims
};

// A tensor argument. `value` is its IR value when lowering (logical contents, conj/neg bits already resolved by the caller);
// absent when only results are asked for.
struct TensorArg {
  TensorMeta meta;
  Category category = Category::tensor;
  ir::Value value;
};

// A number argument (Scalar or float). `value`: 0-dim IR value of dtype bool->i64, i64, f64 or c128 according to kind.
// `known` is set where the number itself may be used: structural arguments, and constants of a compiled graph.
struct ScalarArg {
  enum class Kind : uint8_t { boolean, integer, floating, complex } kind = Kind::floating;
  ir::Value value;
  std::optional<std::complex<double>> known;
  std::optional<int64_t> known_int;   // exact for integers
  std::optional<double> value_class;  // the member of value_classes() it equals, if any
};

struct None {};
using TensorList = std::vector<std::optional<TensorArg>>;
using Argument = std::variant<None, TensorArg, ScalarArg, TensorList, std::vector<ScalarArg>, bool, int64_t, DType,
                              std::string, std::vector<int64_t>, std::vector<bool>>;

struct NamedArgument {
  std::string_view name;
  Argument value;
};

// State outside the arguments that changes results; part of the signature.
struct Ambient {
  DType default_dtype = DType::f32;
  bool deterministic = false;
};

struct Call {
  std::string_view op;  // "aten::add.Tensor"
  std::span<const NamedArgument> arguments;
  Ambient ambient;
  // u64 0-dim values of the generator, for operators that use random numbers (uses_rng).
  std::optional<ir::Value> seed, offset;
};

// Results of one operator, before it runs. An empty optional inside = "this result is undefined (None)".
using Metas = std::vector<std::optional<TensorMeta>>;

struct OpDef;
// The definition of an operator, or nullptr if ops has no lowering for it. Names are functional overloads; the caller maps
// in-place and out= forms to them.
const OpDef* find(std::string_view op);
std::vector<std::string> registered_operators();

// What the signature must additionally hold for this operator.
struct ScalarRequirement {
  std::string name;
  bool structural = false;            // the number itself
  std::vector<double> value_classes;  // whether it equals one of these
  // The number decides the result's shape but not its lowering (arange): infer() needs it `known`; lower() takes the shape
  // from `expected` and the number as a runtime value. The signature holds the shapes of infer()'s answer instead of the
  // number. A caller without that machinery may treat it as structural.
  bool decides_shape = false;
  // PyTorch converts the number to the dtype of the first result (fill), or to the one that is computed in (alpha), and
  // refuses one that does not fit; the caller asks before each launch, as numbers are not part of the signature.
  enum class Fits : uint8_t { anything, result, compute } fits = Fits::anything;
};
std::span<const ScalarRequirement> scalar_requirements(const OpDef& op);
// Names of tensor arguments whose stored value is needed (never evaluated on the host): none today.

// Result metadata by the declared rule: Metas; or nullopt when the operator has no rule or the rule finds the inputs
// outside what it knows (the caller then asks PyTorch's meta function, which also raises PyTorch's own error).
std::optional<Metas> infer(const OpDef& op, const Call& call);

// The results' IR values; one per result, absent for None results. `expected`, if given, are the metadata decided before
// (the lowering may read them; the mechanism checks dtype and shape against what the lowering returned in debug builds and
// converts nothing silently).
Result<std::vector<ir::Value>> lower(const OpDef& op, const Call& call, const Metas* expected, ir::Builder& builder);

// True when the operator consumes random numbers: it then needs Call::seed and Call::offset (the generator's Philox seed and
// offset before the call), and `rng_increment` says by how much the call advances the offset (depends on numel only).
bool uses_rng(const OpDef& op);
int64_t rng_increment(const OpDef& op, const Call& call);

}  // namespace neuron::ops
