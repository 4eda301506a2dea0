// Element types shared by every layer: one list, one size table, one name table.
//
// Names are PyTorch's short names and are also what StableHLO text, disassembly and error messages print
// (StableHLO spells bool `i1` and unsigned `ui8`; the printer in src/ir translates).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace neuron {

enum class DType : uint8_t {
  boolean,  // one byte per element, any non-zero byte reads as true, written as 0 or 1
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f8e4m3fn,
  f8e5m2,
  f16,
  bf16,
  f32,
  f64,
  c64,   // two f32: real, imaginary
  c128,  // two f64
};
inline constexpr int kDTypeCount = 17;

// Bytes of one element.
size_t size_of(DType t);
// "bool", "f32", "bf16", "c64", ...
std::string_view name_of(DType t);
std::optional<DType> dtype_from_name(std::string_view name);
// The enumerator for a raw byte of a container or a cache file, or nothing if the byte names no type.
std::optional<DType> dtype_from_raw(uint8_t raw);

bool is_floating(DType t);  // f8e4m3fn .. f64
bool is_complex(DType t);   // c64, c128
bool is_integer(DType t);   // u8 .. i64, without bool
bool is_signed_integer(DType t);
bool is_unsigned_integer(DType t);
// f32 for c64, f64 for c128, the type itself otherwise.
DType real_type(DType t);

}  // namespace neuron
