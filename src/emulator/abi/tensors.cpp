// Tensors, slices, copies, tensor sets.
#include <cstdlib>
#include <cstring>

#include "emulator/abi/library_state.h"

namespace neuron::emulator {

void drop_reference(Storage* storage) {
  if (storage->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  storage->core->hbm.release(storage->data, storage->bytes);
  delete storage;
}

TensorSet::Entry* TensorSet::find(const char* name) {
  if (hint < entries.size() && entries[hint].name == name) return &entries[hint++];
  if (entries.size() < kIndexFrom) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].name == name) {
        hint = static_cast<uint32_t>(i) + 1;
        return &entries[i];
      }
    }
    return nullptr;
  }
  auto it = index.find(name);
  if (it == index.end()) return nullptr;
  hint = it->second + 1;
  return &entries[it->second];
}

namespace {

NRT_STATUS bad_tensor(const char* call, const void* tensor) {
  return fail(NRT_INVALID_HANDLE, call, std::string("the tensor ") + library().tensors.what_is_wrong(tensor));
}

NRT_STATUS bad_set(const char* call, const void* set) {
  return fail(NRT_INVALID_HANDLE, call, std::string("the tensor set ") + library().sets.what_is_wrong(set));
}

NRT_STATUS outside(const char* call, const nrt_tensor* t, uint64_t offset, uint64_t size) {
  return fail(NRT_INVALID, call,
              "bytes [" + std::to_string(offset) + ", +" + std::to_string(size) + ") of a tensor of " +
                  std::to_string(t->bytes) + " bytes");
}

bool inside(const nrt_tensor* t, uint64_t offset, uint64_t size) { return offset <= t->bytes && size <= t->bytes - offset; }

nrt_tensor* publish_tensor(Storage* storage, uint8_t* data, uint64_t bytes) {
  Library& lib = library();
  nrt_tensor* t = lib.tensors.allocate();
  if (!t) return nullptr;
  t->storage = storage;
  t->core = storage->core;
  t->data = data;
  t->bytes = bytes;
  lib.tensors.publish(t);
  return t;
}

enum class Direction { read, write };

NRT_STATUS batch(const char* call, const nrt_tensor_batch_t* batches, uint64_t count, Direction direction) {
  NEURON_NRT_ENTER(call);
  if (!batches && count) return fail(NRT_INVALID, call, "no batches");
  Library& lib = library();
  // Everything is checked before anything is copied.
  for (uint64_t b = 0; b < count; ++b) {
    const nrt_tensor* t = lib.tensors.find(batches[b].tensor);
    if (!t) return bad_tensor(call, batches[b].tensor);
    if (!batches[b].ops && batches[b].num_ops) return fail(NRT_INVALID, call, "a batch without operations");
    for (uint32_t o = 0; o < batches[b].num_ops; ++o) {
      const nrt_tensor_batch_op_t& op = batches[b].ops[o];
      if (!op.buffer && op.size) return fail(NRT_INVALID, call, "no host buffer");
      if (!inside(t, op.offset, op.size)) return outside(call, t, op.offset, op.size);
    }
  }
  for (uint64_t b = 0; b < count; ++b) {
    nrt_tensor* t = lib.tensors.find(batches[b].tensor);
    for (uint32_t o = 0; o < batches[b].num_ops; ++o) {
      const nrt_tensor_batch_op_t& op = batches[b].ops[o];
      if (direction == Direction::read)
        std::memcpy(op.buffer, t->data + op.offset, op.size);
      else
        std::memcpy(t->data + op.offset, op.buffer, op.size);
      t->core->host_copy_bytes.fetch_add(op.size, std::memory_order_relaxed);
    }
  }
  return NRT_SUCCESS;
}

}  // namespace
}  // namespace neuron::emulator

using namespace neuron::emulator;

NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t placement, int vnc, size_t size, const char*, nrt_tensor_t** tensor) {
  constexpr const char* kCall = "nrt_tensor_allocate";
  NEURON_NRT_ENTER(kCall);
  if (!tensor) return fail(NRT_INVALID, kCall, "no place for the result");
  *tensor = nullptr;
  if (placement != NRT_TENSOR_PLACEMENT_DEVICE)
    return fail(NRT_INVALID, kCall, "only NRT_TENSOR_PLACEMENT_DEVICE is supported");
  if (size == 0) return fail(NRT_INVALID, kCall, "a tensor of 0 bytes");
  Core* core = nullptr;
  if (const NRT_STATUS s = find_core(kCall, vnc, &core)) return s;
  auto block = core->hbm.allocate(size);
  if (!block.ok()) return fail(kCall, block.status());
  auto* storage = new Storage;
  storage->core = core;
  storage->data = *block;
  storage->bytes = size;
  *tensor = publish_tensor(storage, storage->data, size);
  if (*tensor) return NRT_SUCCESS;
  drop_reference(storage);
  return fail(NRT_RESOURCE, kCall, "too many tensors");
}

NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t* source, size_t offset, size_t size, const char*,
                                     nrt_tensor_t** slice) {
  constexpr const char* kCall = "nrt_tensor_allocate_slice";
  NEURON_NRT_ENTER(kCall);
  if (!slice) return fail(NRT_INVALID, kCall, "no place for the result");
  *slice = nullptr;
  nrt_tensor* t = library().tensors.find(source);
  if (!t) return bad_tensor(kCall, source);
  if (size == 0) return fail(NRT_INVALID, kCall, "a slice of 0 bytes");
  if (!inside(t, offset, size)) return outside(kCall, t, offset, size);
  t->storage->references.fetch_add(1, std::memory_order_relaxed);
  *slice = publish_tensor(t->storage, t->data + offset, size);
  if (*slice) return NRT_SUCCESS;
  drop_reference(t->storage);
  return fail(NRT_RESOURCE, kCall, "too many tensors");
}

void nrt_tensor_free(nrt_tensor_t** tensor) {
  constexpr const char* kCall = "nrt_tensor_free";
  if (!is_open()) {  // deleters that run late: nothing is left to free
    if (tensor) *tensor = nullptr;
    return;
  }
  Library& lib = library();
  if (!tensor) {
    fail(NRT_INVALID, kCall, "no tensor");
    return;
  }
  nrt_tensor* t = lib.tensors.find(*tensor);
  if (!t || !lib.tensors.retire(t)) {
    bad_tensor(kCall, *tensor);
    return;
  }
  drop_reference(t->storage);
  lib.tensors.release(t);
  *tensor = nullptr;
}

size_t nrt_tensor_get_size(const nrt_tensor_t* tensor) {
  if (!is_open()) {
    refuse_phase("nrt_tensor_get_size");
    return 0;
  }
  const nrt_tensor* t = library().tensors.find(tensor);
  if (!t) {
    bad_tensor("nrt_tensor_get_size", tensor);
    return 0;
  }
  return t->bytes;
}

NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buffer, size_t offset, size_t size) {
  constexpr const char* kCall = "nrt_tensor_read";
  NEURON_NRT_ENTER(kCall);
  const nrt_tensor* t = library().tensors.find(tensor);
  if (!t) return bad_tensor(kCall, tensor);
  if (!inside(t, offset, size)) return outside(kCall, t, offset, size);
  if (size == 0) return NRT_SUCCESS;
  if (!buffer) return fail(NRT_INVALID, kCall, "no host buffer");
  std::memcpy(buffer, t->data + offset, size);
  t->core->host_copy_bytes.fetch_add(size, std::memory_order_relaxed);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor, const void* buffer, size_t offset, size_t size) {
  constexpr const char* kCall = "nrt_tensor_write";
  NEURON_NRT_ENTER(kCall);
  nrt_tensor* t = library().tensors.find(tensor);
  if (!t) return bad_tensor(kCall, tensor);
  if (!inside(t, offset, size)) return outside(kCall, t, offset, size);
  if (size == 0) return NRT_SUCCESS;
  if (!buffer) return fail(NRT_INVALID, kCall, "no host buffer");
  std::memcpy(t->data + offset, buffer, size);
  t->core->host_copy_bytes.fetch_add(size, std::memory_order_relaxed);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_copy(const nrt_tensor_t* source, size_t source_offset, nrt_tensor_t* target, size_t target_offset,
                           size_t size) {
  constexpr const char* kCall = "nrt_tensor_copy";
  NEURON_NRT_ENTER(kCall);
  const nrt_tensor* from = library().tensors.find(source);
  if (!from) return bad_tensor(kCall, source);
  nrt_tensor* to = library().tensors.find(target);
  if (!to) return bad_tensor(kCall, target);
  if (from->core != to->core) {
    return fail(NRT_INVALID, kCall,
                "from core " + std::to_string(from->core->index) + " to core " + std::to_string(to->core->index) +
                    ": tensors of different cores are copied through the host");
  }
  if (!inside(from, source_offset, size)) return outside(kCall, from, source_offset, size);
  if (!inside(to, target_offset, size)) return outside(kCall, to, target_offset, size);
  std::memmove(to->data + target_offset, from->data + source_offset, size);
  to->core->device_copy_bytes.fetch_add(2 * size, std::memory_order_relaxed);
  to->core->device_copies.fetch_add(1, std::memory_order_relaxed);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor, uint64_t offset, int value, size_t size) {
  constexpr const char* kCall = "nrt_tensor_memset";
  NEURON_NRT_ENTER(kCall);
  nrt_tensor* t = library().tensors.find(tensor);
  if (!t) return bad_tensor(kCall, tensor);
  if (!inside(t, offset, size)) return outside(kCall, t, offset, size);
  std::memset(t->data + offset, value, size);
  t->core->device_copy_bytes.fetch_add(size, std::memory_order_relaxed);
  t->core->device_copies.fetch_add(1, std::memory_order_relaxed);
  return NRT_SUCCESS;
}

// Device memory is not mapped into the host's address space unless the user asks for it, as on a Trainium host.
void* nrt_tensor_get_va(const nrt_tensor_t* tensor) {
  if (!is_open()) return nullptr;
  const nrt_tensor* t = library().tensors.find(tensor);
  if (!t) {
    bad_tensor("nrt_tensor_get_va", tensor);
    return nullptr;
  }
  static const bool mapped = [] {
    const char* v = std::getenv("NEURON_RT_MAP_HBM");
    return v && std::strcmp(v, "1") == 0;
  }();
  return mapped ? t->data : nullptr;
}

NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t* batches, uint64_t count, bool) {
  return batch("nrt_tensor_read_batch", batches, count, Direction::read);
}

NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t* batches, uint64_t count, bool) {
  return batch("nrt_tensor_write_batch", batches, count, Direction::write);
}

// --- tensor sets ---

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** set) {
  constexpr const char* kCall = "nrt_allocate_tensor_set";
  NEURON_NRT_ENTER(kCall);
  if (!set) return fail(NRT_INVALID, kCall, "no place for the result");
  *set = nullptr;
  Library& lib = library();
  SetHandle* handle = lib.sets.allocate();
  if (!handle) return fail(NRT_RESOURCE, kCall, "too many tensor sets");
  handle->set = new TensorSet;
  handle->set->layout = lib.next_layout.fetch_add(1, std::memory_order_relaxed);
  lib.sets.publish(handle);
  *set = handle;
  return NRT_SUCCESS;
}

void nrt_destroy_tensor_set(nrt_tensor_set_t** set) {
  constexpr const char* kCall = "nrt_destroy_tensor_set";
  if (!is_open()) {
    if (set) *set = nullptr;
    return;
  }
  Library& lib = library();
  if (!set) {
    fail(NRT_INVALID, kCall, "no tensor set");
    return;
  }
  SetHandle* handle = lib.sets.find(*set);
  if (!handle || !lib.sets.retire(handle)) {
    bad_set(kCall, *set);
    return;
  }
  delete handle->set;
  lib.sets.release(handle);
  *set = nullptr;
}

NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* set, const char* name, nrt_tensor_t* tensor) {
  constexpr const char* kCall = "nrt_add_tensor_to_tensor_set";
  NEURON_NRT_ENTER(kCall);
  Library& lib = library();
  SetHandle* handle = lib.sets.find(set);
  if (!handle) return bad_set(kCall, set);
  nrt_tensor* t = lib.tensors.find(tensor);
  if (!t) return bad_tensor(kCall, tensor);
  if (!name || !*name) return fail(NRT_INVALID, kCall, "a tensor without a name");
  TensorSet& s = *handle->set;
  TensorSet::Entry* entry = s.find(name);
  if (!entry) {
    s.entries.push_back({name, nullptr, 0});
    entry = &s.entries.back();
    s.layout = lib.next_layout.fetch_add(1, std::memory_order_relaxed);
    if (s.entries.size() == TensorSet::kIndexFrom) {
      for (size_t i = 0; i < s.entries.size(); ++i) s.index.emplace(s.entries[i].name, static_cast<uint32_t>(i));
    } else if (s.entries.size() > TensorSet::kIndexFrom) {
      s.index.emplace(name, static_cast<uint32_t>(s.entries.size() - 1));
    }
  }
  entry->tensor = t;
  entry->serial = t->serial.load(std::memory_order_relaxed);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t* set, const char* name, nrt_tensor_t** tensor) {
  constexpr const char* kCall = "nrt_get_tensor_from_tensor_set";
  NEURON_NRT_ENTER(kCall);
  SetHandle* handle = library().sets.find(set);
  if (!handle) return bad_set(kCall, set);
  if (!name || !tensor) return fail(NRT_INVALID, kCall, "no name or no place for the result");
  *tensor = nullptr;
  TensorSet::Entry* entry = handle->set->find(name);
  if (!entry) return fail(NRT_FAILURE, kCall, std::string("no tensor named '") + name + "' in the set");
  if (entry->tensor->serial.load() != entry->serial)
    return fail(NRT_INVALID_HANDLE, kCall, std::string("tensor '") + name + "' was freed");
  *tensor = entry->tensor;
  return NRT_SUCCESS;
}
