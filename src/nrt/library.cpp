#include "nrt/library.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <filesystem>

#include "abi/status_names.h"
#include "base/environment.h"

namespace neuron::nrt {
namespace {

template <class F>
bool resolve(void* handle, const char* name, F* out) {
  *out = reinterpret_cast<F>(dlsym(handle, name));
  return *out != nullptr;
}

bool exists(const std::string& path) {
  struct stat s;
  return stat(path.c_str(), &s) == 0;
}

// Folder of the shared object (or program) that contains this function.
std::string own_folder() {
  Dl_info where;
  if (dladdr(reinterpret_cast<void*>(&own_folder), &where) == 0 || !where.dli_fname) return ".";
  std::error_code error;
  std::filesystem::path path = std::filesystem::weakly_canonical(where.dli_fname, error);
  return path.parent_path().string();
}

Result<std::unique_ptr<Library>> open_emulated(std::string reason) {
  const std::string folder = own_folder();
  for (const char* relative : {"/lib/libnrt_emulated.so", "/libnrt_emulated.so", "/../src/emulator/libnrt_emulated.so"}) {
    if (!exists(folder + relative)) continue;
    auto library = open_library(folder + relative);
    if (library.ok()) {
      library.value()->emulated = true;
      library.value()->reason = std::move(reason);
    }
    return library;
  }
  return unavailable("the software NeuronCore (libnrt_emulated.so) is not beside " + folder +
                     "; reinstall torch_neuronx or set TORCH_NEURONX_LIBNRT to its path");
}

Result<std::unique_ptr<Library>> open_hardware(std::string reason) {
  std::string problems;
  for (const char* path : {"libnrt.so.1", "/opt/aws/neuron/lib/libnrt.so.1"}) {
    auto library = open_library(path);
    if (library.ok()) {
      library.value()->reason = std::move(reason);
      return library;
    }
    problems += (problems.empty() ? "" : "; ") + library.status().message();
  }
  return unavailable("the Neuron runtime could not be loaded (" + reason + "): " + problems +
                     ". Install aws-neuronx-runtime-lib, or set TORCH_NEURONX_RUNTIME=emulated");
}

}  // namespace

Result<std::unique_ptr<Library>> open_library(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    return unavailable("cannot load " + path + ": " + (why ? why : "unknown error"));
  }
  auto library = std::make_unique<Library>();
  library->path = path;
  std::string missing;
  auto require = [&](bool found, const char* name) {
    if (!found) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
#define NEURON_NRT_RESOLVE(name) require(resolve(handle, #name, &library->name), #name);
#define NEURON_NRT_RESOLVE_RENAMED(name, old_name) \
  require(resolve(handle, #name, &library->name) || resolve(handle, old_name, &library->name), #name);
#define NEURON_NRT_RESOLVE_OPTIONAL(name) resolve(handle, #name, &library->name);
  NEURON_NRT_REQUIRED(NEURON_NRT_RESOLVE)
  NEURON_NRT_RENAMED(NEURON_NRT_RESOLVE_RENAMED)
  NEURON_NRT_OPTIONAL(NEURON_NRT_RESOLVE_OPTIONAL)
  if (!missing.empty()) {
    dlclose(handle);
    return unavailable(path + " is not a usable libnrt: it lacks " + missing);
  }
  library->emulated = library->nrtx_get_model_time != nullptr;
  return library;
}

Result<std::unique_ptr<Library>> open_selected() {
  NEURON_RETURN_IF_ERROR(environment::check());
  const std::string& chosen = environment::text("TORCH_NEURONX_LIBNRT");
  if (!chosen.empty()) {
    auto library = open_library(chosen);
    if (library.ok()) library.value()->reason = "TORCH_NEURONX_LIBNRT names it";
    return library;
  }
  const std::string& mode = environment::text("TORCH_NEURONX_RUNTIME");
  if (mode == "hardware") return open_hardware("TORCH_NEURONX_RUNTIME=hardware");
  if (mode == "emulated") return open_emulated("TORCH_NEURONX_RUNTIME=emulated");
  if (exists("/dev/neuron0")) return open_hardware("a Neuron device is present");
  return open_emulated("no Neuron device on this machine");
}

std::string status_name(NRT_STATUS status) {
  const char* name = nrt_status_name(status);
  const std::string number = std::to_string(static_cast<int>(status));
  return name ? std::string(name) + " (" + number + ")" : "NRT status " + number;
}

Status check(const Library& library, NRT_STATUS status, const char* call) {
  if (status == NRT_SUCCESS) return {};
  std::string message = std::string(call) + " failed with " + status_name(status);
  if (library.nrtx_last_error) {
    const char* words = library.nrtx_last_error();
    if (words && *words) message += ": " + std::string(words);
  }
  switch (status) {
    case NRT_RESOURCE:
      return out_of_memory(std::move(message));
    case NRT_EXEC_OOB:
      return out_of_range(std::move(message));
    case NRT_INVALID:
    case NRT_EXEC_BAD_INPUT:
    case NRT_UNSUPPORTED_NEFF_VERSION:
      return invalid_argument(std::move(message));
    case NRT_UNINITIALIZED:
    case NRT_CLOSED:
      return unavailable(std::move(message));
    default:
      return internal_error(std::move(message));
  }
}

}  // namespace neuron::nrt
