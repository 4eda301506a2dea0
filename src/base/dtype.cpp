#include "base/dtype.h"

#include <array>

namespace neuron {
namespace {

struct Row {
  std::string_view name;
  uint8_t bytes;
  enum Kind : uint8_t { boolean, unsigned_integer, signed_integer, floating, complex } kind;
};

constexpr std::array<Row, kDTypeCount> kRows = {{
    {"bool", 1, Row::boolean},
    {"u8", 1, Row::unsigned_integer},
    {"i8", 1, Row::signed_integer},
    {"u16", 2, Row::unsigned_integer},
    {"i16", 2, Row::signed_integer},
    {"u32", 4, Row::unsigned_integer},
    {"i32", 4, Row::signed_integer},
    {"u64", 8, Row::unsigned_integer},
    {"i64", 8, Row::signed_integer},
    {"f8e4m3fn", 1, Row::floating},
    {"f8e5m2", 1, Row::floating},
    {"f16", 2, Row::floating},
    {"bf16", 2, Row::floating},
    {"f32", 4, Row::floating},
    {"f64", 8, Row::floating},
    {"c64", 8, Row::complex},
    {"c128", 16, Row::complex},
}};

const Row& row(DType t) { return kRows[static_cast<size_t>(t)]; }

}  // namespace

size_t size_of(DType t) { return row(t).bytes; }
std::string_view name_of(DType t) { return row(t).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_raw(uint8_t raw) {
  if (raw >= kDTypeCount) return std::nullopt;
  return static_cast<DType>(raw);
}

bool is_floating(DType t) { return row(t).kind == Row::floating; }
bool is_complex(DType t) { return row(t).kind == Row::complex; }
bool is_signed_integer(DType t) { return row(t).kind == Row::signed_integer; }
bool is_unsigned_integer(DType t) { return row(t).kind == Row::unsigned_integer; }
bool is_integer(DType t) { return is_signed_integer(t) || is_unsigned_integer(t); }

DType real_type(DType t) {
  if (t == DType::c64) return DType::f32;
  if (t == DType::c128) return DType::f64;
  return t;
}

}  // namespace neuron
