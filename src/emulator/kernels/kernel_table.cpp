#include "emulator/kernels/kernel_table.h"

#include <cstring>
#include <optional>

#include "base/environment.h"
#include "emulator/executor.h"

namespace neuron::emulator {

#define NEURON_DECLARE_LEVEL(level)         \
  namespace level {                         \
  void fill_vector_kernels(Kernels& table); \
  void fill_memory_kernels(Kernels& table); \
  void fill_matmul_kernels(Kernels& table); \
  }
NEURON_DECLARE_LEVEL(scalar)
NEURON_DECLARE_LEVEL(avx2)
NEURON_DECLARE_LEVEL(avx512)
namespace avx512 {
bool fill_unit_kernels(Kernels& table);
}

namespace {

#define NEURON_LEVEL_TABLE(level)     \
  const Kernels& level##_table() {    \
    static const Kernels table = [] { \
      Kernels t{};                    \
      t.name = #level;                \
      level::fill_vector_kernels(t);  \
      level::fill_memory_kernels(t);  \
      level::fill_matmul_kernels(t);  \
      return t;                       \
    }();                              \
    return table;                     \
  }
NEURON_LEVEL_TABLE(scalar)
NEURON_LEVEL_TABLE(avx2)
NEURON_LEVEL_TABLE(avx512)

// AVX-512 and the matrix unit; null when this host has none.
const Kernels* amx_table() {
  static const std::optional<Kernels> table = []() -> std::optional<Kernels> {
    Kernels t = avx512_table();
    t.name = "amx";
    if (!avx512::fill_unit_kernels(t)) return std::nullopt;
    return t;
  }();
  return table ? &*table : nullptr;
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

const Kernels* kernels_of(const char* name) {
  if (std::strcmp(name, "amx") == 0) return has_avx512() ? amx_table() : nullptr;
  if (std::strcmp(name, "avx512") == 0) return has_avx512() ? &avx512_table() : nullptr;
  if (std::strcmp(name, "avx2") == 0) return has_avx2() ? &avx2_table() : nullptr;
  if (std::strcmp(name, "scalar") == 0) return &scalar_table();
  return nullptr;
}

const Kernels& kernels() {
  static const Kernels* chosen = [] {
    // A level this host lacks falls back to the best it has, as "auto" does.
    if (const Kernels* wanted = kernels_of(environment::text("NEURON_EMULATOR_ISA").c_str())) return wanted;
    for (const char* name : {"amx", "avx512", "avx2"}) {
      if (const Kernels* best = kernels_of(name)) return best;
    }
    return &scalar_table();
  }();
  return *chosen;
}

const char* host_isa_name() { return kernels().name; }

}  // namespace neuron::emulator
