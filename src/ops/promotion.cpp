#include "ops/promotion.h"

#include <array>
#include <utility>

#include "base/mutation.h"
#include "ops/registry.h"

namespace neuron::ops {

bool is_integral(DType t) { return is_integer(t) || t == DType::boolean; }
DType opmath(DType t) { return t == DType::f16 || t == DType::bf16 ? DType::f32 : t; }
DType to_complex(DType t) {
  if (is_complex(t)) return t;
  return t == DType::f64 ? DType::c128 : DType::c64;
}

static bool is_f8(DType t) { return t == DType::f8e4m3fn || t == DType::f8e5m2; }
static bool is_barebones_unsigned(DType t) { return t == DType::u16 || t == DType::u32 || t == DType::u64; }

static int float_rank(DType t) { return t == DType::f64 ? 3 : t == DType::f32 ? 2 : 1; }

std::optional<DType> promote_types(DType a, DType b) {
  if (a == b) return a;
  if (is_f8(a) || is_f8(b)) return std::nullopt;
  if (is_barebones_unsigned(a) || is_barebones_unsigned(b)) {  // only floats take them in
    if (is_floating(a)) return a;
    return is_floating(b) ? std::optional<DType>(b) : std::nullopt;
  }
  if (is_complex(a) || is_complex(b)) {
    const DType other = is_complex(a) ? b : a, complex = is_complex(a) ? a : b;
    return other == DType::c128 || other == DType::f64 ? DType::c128 : complex;
  }
  if (is_floating(a) && is_floating(b)) {
    if (float_rank(a) == float_rank(b)) return DType::f32;  // f16 with bf16
    return float_rank(a) > float_rank(b) ? a : b;
  }
  if (is_floating(a)) return a;
  if (is_floating(b)) return b;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (a == DType::u8 || b == DType::u8) {
    const DType other = a == DType::u8 ? b : a;
    return other == DType::i8 ? DType::i16 : other;
  }
  return size_of(a) > size_of(b) ? a : b;
}

void ResultType::join(std::optional<DType>& slot, DType dtype) {
  if (!slot) {
    slot = dtype;
    return;
  }
  const auto joined = promote_types(*slot, dtype);
  valid_ = valid_ && joined.has_value();
  if (joined) slot = joined;
}

void ResultType::add(DType dtype, Category category) {
  switch (category) {
    case Category::tensor:
      join(dim_, dtype);
      break;
    case Category::zero_dim:
      join(zero_, dtype);
      break;
    case Category::wrapped_number:
      if (is_complex(dtype)) {
        dtype = to_complex(default_dtype_);
      } else if (is_floating(dtype)) {
        dtype = default_dtype_;
      }
      join(wrapped_, dtype);
  }
}

DType scalar_dtype(ScalarArg::Kind kind) {
  switch (kind) {
    case ScalarArg::Kind::boolean:
      return DType::boolean;
    case ScalarArg::Kind::integer:
      return DType::i64;
    case ScalarArg::Kind::floating:
      return DType::f64;
    default:
      return DType::c128;
  }
}

void ResultType::add(const ScalarArg& scalar) { add(scalar_dtype(scalar.kind), Category::wrapped_number); }

std::optional<DType> ResultType::combine(std::optional<DType> higher, std::optional<DType> lower, bool& valid) {
  if (!higher) return lower;
  if (!lower || is_complex(*higher)) return higher;
  if (is_floating(*higher)) {
    if (!is_complex(*lower)) return higher;
    valid = valid && *higher != DType::f16;  // complex32 is not among our types
    return to_complex(*higher);
  }
  if (is_complex(*lower) && is_barebones_unsigned(*higher)) return lower;
  if (*higher == DType::boolean || is_floating(*lower) || is_complex(*lower)) {
    const auto joined = promote_types(*higher, *lower);
    valid = valid && joined.has_value();
    return joined ? joined : higher;
  }
  return higher;
}

std::optional<DType> ResultType::get() const {
  bool valid = valid_;
  const auto type = combine(dim_, combine(zero_, wrapped_, valid), valid);
  return valid ? type : std::nullopt;
}

static std::optional<DType> common_dtype(const Lowering& l, const Names& names) {
  ResultType type(l.ambient().default_dtype);
  bool first = true;
  auto add = [&](const Argument& a) {
    if (mutated("promotion") && !std::exchange(first, false)) return;
    if (auto* tensor = std::get_if<TensorArg>(&a)) type.add(*tensor);
    if (auto* scalar = std::get_if<ScalarArg>(&a)) type.add(*scalar);
    if (auto* list = std::get_if<TensorList>(&a)) {
      for (auto& t : *list) {
        if (t) type.add(*t);
      }
    }
  };
  if (names.empty()) {
    for (const NamedArgument& a : l.call().arguments) {
      if (std::holds_alternative<TensorArg>(a.value)) add(a.value);
    }
  }
  for (std::string_view name : names) {
    if (const Argument* a = l.argument(name)) add(*a);
  }
  return type.get();
}

static std::optional<DTypes> arithmetic(std::optional<DType> common) {
  if (!common || is_f8(*common)) return std::nullopt;
  return DTypes{*common, opmath(*common), *common};
}

std::optional<DTypes> default_rule(const Lowering& l, const Names& names) { return arithmetic(common_dtype(l, names)); }

std::optional<DTypes> float_rule(const Lowering& l, const Names& names) {
  auto common = common_dtype(l, names);
  if (common && is_integral(*common)) common = l.ambient().default_dtype;
  return arithmetic(common);
}

std::optional<DTypes> floating_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && is_floating(types->common) ? types : std::nullopt;
}

std::optional<DTypes> float_or_complex_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && is_integral(types->common) ? std::nullopt : types;
}

std::optional<DTypes> ordered_rule(const Lowering& l, const Names& names) {
  const auto types = default_rule(l, names);
  return types && is_complex(types->common) ? std::nullopt : types;
}

std::optional<DTypes> real_float_rule(const Lowering& l, const Names& names) {
  const auto types = float_rule(l, names);
  return types && is_complex(types->common) ? std::nullopt : types;
}

std::optional<DTypes> compare_rule(const Lowering& l, const Names& names) {
  auto types = arithmetic(common_dtype(l, names));
  if (types) types->result = DType::boolean;
  return types;
}

std::optional<DTypes> real_rule(const Lowering& l, const Names& names) {
  auto types = arithmetic(common_dtype(l, names));
  if (types) types->result = real_type(types->common);
  return types;
}

std::optional<DTypes> same_rule(const Lowering& l, const Names& names) {
  std::optional<DType> dtype;
  bool equal = true;
  auto see = [&](const TensorArg& t) {
    equal = equal && (!dtype || *dtype == t.meta.dtype);
    dtype = t.meta.dtype;
  };
  auto look = [&](const Argument& a) {
    if (auto* tensor = std::get_if<TensorArg>(&a)) see(*tensor);
    if (auto* list = std::get_if<TensorList>(&a)) {
      for (auto& t : *list) {
        if (t) see(*t);
      }
    }
  };
  if (names.empty()) {
    for (const NamedArgument& a : l.call().arguments) look(a.value);
  }
  for (std::string_view name : names) {
    if (const Argument* a = l.argument(name)) look(*a);
  }
  if (!equal) return std::nullopt;
  return arithmetic(dtype);
}

std::optional<DTypes> move_rule(const Lowering& l, const Names& names) {
  const auto common = common_dtype(l, names);
  if (!common) return std::nullopt;
  return DTypes{*common, *common, *common};
}

std::optional<DTypes> ordered_move_rule(const Lowering& l, const Names& names) {
  const auto types = move_rule(l, names);
  return types && is_complex(types->common) ? std::nullopt : types;
}

std::optional<DTypes> sum_rule(const Lowering& l, const Names& names) {
  auto common = l.dtype("dtype");
  if (!common) {
    common = common_dtype(l, names);
    if (common && is_integral(*common)) common = DType::i64;
  }
  return arithmetic(common);
}

std::optional<DTypes> mean_rule(const Lowering& l, const Names& names) {
  auto common = l.dtype("dtype");
  if (!common) common = common_dtype(l, names);
  if (!common || is_integral(*common)) return std::nullopt;
  return arithmetic(common);
}

}  // namespace neuron::ops
