// Element types and numbers between PyTorch and the layers below.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <optional>

#include "base/dtype.h"
#include "base/status.h"
#include "ops/lowering.h"

namespace neuron::pytorch {

// Nothing for types that the device does not have (quantised, bits, ...).
std::optional<DType> to_dtype(c10::ScalarType type);
// As above, but raises and names the operation.
DType dtype_or_raise(c10::ScalarType type, const char* what);
c10::ScalarType to_scalar_type(DType dtype);

ops::ScalarArg::Kind kind_of(const c10::Scalar& scalar);
// The type that carries a number of this kind in the launch's table of 8-byte slots: i64, f64 or c128 (two slots).
DType slot_type(ops::ScalarArg::Kind kind);
DType slot_type(DType element);
inline int slots_of(DType slot_dtype) { return slot_dtype == DType::c128 ? 2 : 1; }

// Raises PyTorch's error when the number cannot be converted to the type.
void check_fits(const c10::Scalar& scalar, c10::ScalarType type);

// Writes `scalar` as slots of `slot_dtype`; returns how many were written.
int write_slots(const c10::Scalar& scalar, DType slot_dtype, uint64_t* slots);
// The same for one element in host memory.
int write_slots(const void* element, c10::ScalarType type, DType slot_dtype, uint64_t* slots);

}  // namespace neuron::pytorch
