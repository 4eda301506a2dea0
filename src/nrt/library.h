// A loaded libnrt: AWS's libnrt.so.1 on a Trainium host, libnrt_emulated.so elsewhere, anything with the same symbols in
// tests. A table of required and optional symbols; a library that lacks a required one is refused by name.
#pragma once

#include <memory>
#include <string>

#include "abi/nrt.h"
#include "abi/nrtx.h"
#include "base/status.h"

namespace neuron::nrt {

// clang-format off
#define NEURON_NRT_REQUIRED(X)                                                                                          \
  X(nrt_init) X(nrt_close) X(nrt_get_version) X(nrt_tensor_allocate) X(nrt_tensor_allocate_slice) X(nrt_tensor_free)     \
  X(nrt_tensor_get_size) X(nrt_tensor_read) X(nrt_tensor_write) X(nrt_tensor_copy) X(nrt_allocate_tensor_set)            \
  X(nrt_destroy_tensor_set) X(nrt_add_tensor_to_tensor_set) X(nrt_load) X(nrt_unload) X(nrt_execute)                     \
  X(nrt_get_model_tensor_info) X(nrt_free_model_tensor_info)

// Required as well, but older libraries export them with "nc" in place of "vnc".
#define NEURON_NRT_RENAMED(X)                                     \
  X(nrt_get_total_vnc_count, "nrt_get_total_nc_count")            \
  X(nrt_get_visible_vnc_count, "nrt_get_visible_nc_count")

#define NEURON_NRT_OPTIONAL(X)                                                                                          \
  X(nrt_tensor_memset) X(nrt_get_instance_info) X(nrt_get_vnc_memory_stats) X(nrtx_last_error)                           \
  X(nrtx_last_out_of_range) X(nrtx_get_model_time) X(nrtx_get_model_timeline) X(nrtx_disassemble) X(nrtx_free)           \
  X(nrtx_get_core_clock) X(nrtx_set_executor) X(nrtx_set_threads) X(nrtx_host_isa) X(nrtx_set_interrupt_check)
// clang-format on

// Function pointers under the functions' own names; optional ones may be null.
struct Library {
#define NEURON_NRT_MEMBER(name) decltype(&::name) name = nullptr;
#define NEURON_NRT_MEMBER_RENAMED(name, old_name) decltype(&::name) name = nullptr;
  NEURON_NRT_REQUIRED(NEURON_NRT_MEMBER)
  NEURON_NRT_RENAMED(NEURON_NRT_MEMBER_RENAMED)
  NEURON_NRT_OPTIONAL(NEURON_NRT_MEMBER)
#undef NEURON_NRT_MEMBER
#undef NEURON_NRT_MEMBER_RENAMED

  std::string path;    // as given to dlopen
  std::string reason;  // why this one, in words
  bool emulated = false;
};

// Opens one library file. Never unloads it: libnrt owns threads.
Result<std::unique_ptr<Library>> open_library(const std::string& path);

// The library that TORCH_NEURONX_RUNTIME and TORCH_NEURONX_LIBNRT select. `auto`: hardware when a Neuron device exists (and
// then fails loudly if its library does not work), otherwise the emulator that lies beside this code.
Result<std::unique_ptr<Library>> open_selected();

// "NRT_RESOURCE (4)"; unknown codes are kept as numbers.
std::string status_name(NRT_STATUS status);

// ok, or a Status that carries call, code and the library's own words.
Status check(const Library& library, NRT_STATUS status, const char* call);

}  // namespace neuron::nrt
