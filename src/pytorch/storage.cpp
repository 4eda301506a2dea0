#include "pytorch/storage.h"

#include <algorithm>

#include "pytorch/allocator.h"
#include "pytorch/error.h"
#include "runtime/runtime.h"

namespace neuron::pytorch {

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  c10::DataPtr grown = allocate_on(storage.device().index(), bytes);
  const size_t kept = std::min(storage.nbytes(), bytes);
  if (kept > 0) check(runtime::copy_on_device(grown.get(), storage.data(), kept));
  storage.set_data_ptr_noswap(std::move(grown));
  storage.set_nbytes(bytes);
}

}  // namespace neuron::pytorch
