// What is known about one registered overload before any call: how each schema argument enters the signature, the functional
// operator whose lowering computes it, and where results go.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/lowering.h"
#include "pytorch/dispatch/data_dependent.h"

namespace neuron::pytorch {

enum class ArgumentKind : uint8_t {
  tensor,       // Tensor, Tensor?
  tensor_list,  // Tensor[], Tensor?[]
  number,       // Scalar, float: runtime
  number_list,  // Scalar[]: runtime
  structural,   // int, bool, dtype, memory format, and optional forms
  float_list,   // float[]: structural
  int_list,     // int[], and int?[]
  bool_list,
  text,
  device,
  generator,
  ignored,  // layout, pin_memory: no influence on the result
};

struct ArgumentPlan {
  std::string name;  // in the functional operator
  ArgumentKind kind = ArgumentKind::ignored;
  bool is_dtype = false;       // structural: a ScalarType
  bool is_boolean = false;     // structural: bool
  bool known = false;          // number: the lowering must know it, so its value is part of the signature
  bool decides_shape = false;  // number: a runtime value, but the result's shape (which is in the signature) depends on it
  std::vector<double> value_classes;
  ops::ScalarRequirement::Fits fits = ops::ScalarRequirement::Fits::anything;
  bool written = false;  // in-place self, out=
  bool read = true;      // false for out= arguments, which the functional operator does not have
};

// Where a functional result goes.
struct ResultPlan {
  bool list = false;     // Tensor[]
  int written = -1;      // index of the stack argument that receives it, or -1: a new tensor
  int length_from = -1;  // a new list: as many tensors as this list argument has; -1: all that other results leave
  bool number = false;   // an int result (attention's max_q): computed from sizes, see schema_overrides
};

struct OperatorPlan {
  uint32_t id = 0;         // first word of the signature
  std::string name;        // "aten::add_.Tensor"
  std::string functional;  // "aten::add.Tensor"
  const ops::OpDef* definition = nullptr;
  std::vector<ArgumentPlan> arguments;
  std::vector<ResultPlan> results;  // of the functional operator, in order
  int output_dtype_from = -1;       // factories' out=: the dtype argument that the functional form has comes from there
  bool mutates = false;
  bool resizes = false;  // out=
  bool lists = false;    // has tensor lists
  bool uses_rng = false;
  bool shape_from_numbers = false;  // some argument decides_shape
  int device_argument = -1, generator_argument = -1;
  int returns = 0;                     // values the schema returns
  std::vector<int> returned_argument;  // for each return: the written stack argument it aliases, or -1 for a new value
  Preparation preparation = nullptr;
  std::atomic<uint64_t>* executed = nullptr;
};

}  // namespace neuron::pytorch
