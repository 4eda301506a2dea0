// The one place where Status becomes a C++ exception (and so a Python one).
#pragma once

#include "base/status.h"

namespace neuron::pytorch {

// out_of_range -> IndexError, unsupported -> NotImplementedError, out_of_memory -> torch.OutOfMemoryError,
// everything else -> RuntimeError.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status.ok()) [[unlikely]]
    raise(status);
}

template <class T>
T check(Result<T> result) {
  if (!result.ok()) [[unlikely]]
    raise(result.status());
  return std::move(result).value();
}

}  // namespace neuron::pytorch
