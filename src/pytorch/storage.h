// Growing and shrinking device storages (resize_, set_, untyped_storage().resize_, out= of another size).
#pragma once

#include <c10/core/Storage.h>

namespace neuron::pytorch {

// Keeps the first min(old, new) bytes.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace neuron::pytorch
