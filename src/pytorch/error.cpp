#include "pytorch/error.h"

#include <c10/util/Exception.h>

namespace neuron::pytorch {

void raise(const Status& status) {
  switch (status.code()) {
    case Code::out_of_range:
      TORCH_CHECK_INDEX(false, status.message());
    case Code::unsupported:
      TORCH_CHECK_NOT_IMPLEMENTED(false, status.message());
    case Code::out_of_memory:
      TORCH_CHECK_WITH(OutOfMemoryError, false, status.message());
    default:
      TORCH_CHECK(false, status.message());
  }
  __builtin_unreachable();
}

}  // namespace neuron::pytorch
