// Stand-in runtime for tests: the real library with its device-to-host reads counted. Linked against the real one, so that
// every other symbol is found through it.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "abi/nrt.h"

namespace {

std::atomic<uint64_t> reads{0};
std::atomic<uint64_t> bytes_read{0};

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buffer, size_t offset, size_t size) {
  static const auto real = next<decltype(&nrt_tensor_read)>("nrt_tensor_read");
  reads.fetch_add(1);
  bytes_read.fetch_add(size);
  return real(tensor, buffer, offset, size);
}

uint64_t counting_runtime_reads() { return reads.load(); }
uint64_t counting_runtime_bytes_read() { return bytes_read.load(); }
}
