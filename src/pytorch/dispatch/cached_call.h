// A cache entry: everything a repeated call needs besides its tensors and numbers.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

#include "pytorch/dispatch/compiled_graph.h"

namespace neuron::pytorch {

// A tensor of the call: stack argument, and the element when that argument is a list.
struct TensorSource {
  int32_t argument = 0;
  int32_t element = -1;
};

// Where a launch's scalar slot (or pair of slots) comes from.
struct SlotSource {
  enum class Kind : uint8_t { number, host_tensor, seed, offset } kind = Kind::number;
  DType type = DType::f64;
  TensorSource source;
};

// A number that must fit a dtype, which is checked at every call.
struct FitCheck {
  TensorSource source;
  c10::ScalarType type = c10::ScalarType::Float;
};

struct ResultTarget {
  enum class Kind : uint8_t { fresh, written, undefined, number } kind = Kind::fresh;
  bool contiguous = true;
  bool resize = false;  // written: the argument gets `sizes` (and `strides`) first
  c10::ScalarType type = c10::ScalarType::Float;
  int32_t graph_output = -1;  // -1: no elements
  TensorSource destination;   // written
  int64_t number = 0;
  size_t bytes = 0;  // fresh: of the storage
  c10::SmallVector<int64_t, 5> sizes, strides;
};

struct CachedCall {
  CompiledGraph graph;                   // graph.executable is null when nothing has to run
  std::vector<TensorSource> parameters;  // by tensor parameter of the graph
  std::vector<SlotSource> slots;
  std::vector<FitCheck> fit_checks;
  std::vector<ResultTarget> results;  // flat: lists are laid out one after the other
  uint64_t rng_increment = 0;
  bool fallback = false;  // no lowering for these arguments: run on the CPU
  std::string reason;     // why
};

}  // namespace neuron::pytorch
