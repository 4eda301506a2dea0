#include "base/environment.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

extern "C" char** environ;

namespace neuron::environment {
namespace {

constexpr Variable kTable[] = {
    {"TORCH_NEURONX_RUNTIME", Kind::choice, "auto", "auto|hardware|emulated",
     "which libnrt to load; auto takes hardware when a Neuron device exists, the software NeuronCore otherwise"},
    {"TORCH_NEURONX_LIBNRT", Kind::text, "", "path of a shared library",
     "libnrt to load instead of the one that TORCH_NEURONX_RUNTIME would find"},
    {"TORCH_NEURONX_FALLBACK", Kind::choice, "warn", "allow|warn|error",
     "operators without a lowering run on the CPU: silently counted, with one warning per operator, or not at all"},
    {"TORCH_NEURONX_DUMP_DIR", Kind::text, "", "directory",
     "write FX graph, StableHLO, regions, disassembly and timeline of every executable there"},
    {"TORCH_NEURONX_LOG", Kind::choice, "warn", "error|warn|info|debug", "what is written to stderr"},
    {"TORCH_NEURONX_CACHE_ENTRIES", Kind::integer, "4096", "16..1000000", "executables kept per process"},
    {"TORCH_NEURONX_DISABLE_PASSES", Kind::text, "", "comma-separated pass names", "compiler passes to leave out"},
    {"NEURON_LAUNCH_BLOCKING", Kind::boolean, "0", "0|1", "synchronise after every launch so that errors name their line"},
    {"NEURON_RT_VISIBLE_CORES", Kind::text, "", "N or N-M or comma list", "logical cores this process uses"},
    {"NEURON_EMULATOR_INSTANCE", Kind::text, "", "a name",
     "software instance shared by the ranks of one job; empty = private"},
    {"NEURON_EMULATOR_INSTANCE_TYPE", Kind::choice, "trn2.3xlarge", "trn2.3xlarge|trn2.48xlarge", "what is emulated"},
    {"NEURON_EMULATOR_HBM_BYTES", Kind::bytes, "0", "bytes, suffix K, M or G; 0 = the chip's", "HBM per logical core"},
    {"NEURON_EMULATOR_ISA", Kind::choice, "auto", "auto|scalar|avx2|avx512|amx", "host instruction set of the kernels"},
    {"NEURON_EMULATOR_THREADS", Kind::integer, "0", "0..1024", "host threads per launch; 0 = all cores of the host"},
    {"NEURON_EMULATOR_EXECUTOR", Kind::text, "plan", "plan, interpreter or shuffled:SEED", "how programs are executed"},
};

const Variable* find(std::string_view name) {
  for (const Variable& v : kTable) {
    if (v.name == name) return &v;
  }
  return nullptr;
}

bool parse_integer(std::string_view text, bool suffixes, int64_t* out) {
  int64_t scale = 1;
  if (suffixes && !text.empty()) {
    switch (text.back()) {
      case 'K':
        scale = int64_t{1} << 10;
        break;
      case 'M':
        scale = int64_t{1} << 20;
        break;
      case 'G':
        scale = int64_t{1} << 30;
        break;
      default:
        break;
    }
    if (scale != 1) text.remove_suffix(1);
  }
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return false;
  if (value != 0 && scale > INT64_MAX / (value < 0 ? -value : value)) return false;
  *out = value * scale;
  return true;
}

bool valid(const Variable& v, std::string_view value) {
  int64_t number = 0;
  switch (v.kind) {
    case Kind::text:
      return true;
    case Kind::boolean:
      return value == "0" || value == "1";
    case Kind::bytes:
      return parse_integer(value, true, &number) && number >= 0;
    case Kind::integer: {
      if (!parse_integer(value, false, &number)) return false;
      const size_t dots = v.valid.find("..");
      int64_t low = 0, high = 0;
      parse_integer(v.valid.substr(0, dots), false, &low);
      parse_integer(v.valid.substr(dots + 2), false, &high);
      return number >= low && number <= high;
    }
    case Kind::choice: {
      std::string_view rest = v.valid;
      while (!rest.empty()) {
        const size_t bar = rest.find('|');
        if (rest.substr(0, bar) == value) return true;
        if (bar == std::string_view::npos) break;
        rest.remove_prefix(bar + 1);
      }
      return false;
    }
  }
  return false;
}

struct Values {
  std::map<std::string_view, std::string> values;
  Status status;

  Values() {
    for (const Variable& v : kTable) {
      const char* raw = std::getenv(std::string(v.name).c_str());
      std::string value = raw && *raw ? raw : std::string(v.default_value);
      if (!valid(v, value)) {
        fail("environment variable " + std::string(v.name) + " is '" + value + "'; valid: " + std::string(v.valid));
        value = v.default_value;
      }
      values.emplace(v.name, std::move(value));
    }
    for (char** e = environ; e && *e; ++e) {
      std::string_view entry = *e;
      std::string_view name = entry.substr(0, entry.find('='));
      if ((name.starts_with("TORCH_NEURONX_") || name.starts_with("NEURON_EMULATOR_")) && !find(name)) {
        std::string names;
        for (const Variable& v : kTable) names += (names.empty() ? "" : ", ") + std::string(v.name);
        fail("unknown environment variable " + std::string(name) + "; known: " + names);
      }
    }
  }

  void fail(std::string message) {
    if (status.ok()) status = invalid_argument(std::move(message));
  }
};

const Values& values() {
  static const Values* v = new Values;  // never destroyed: read from atexit handlers and worker threads
  return *v;
}

}  // namespace

std::span<const Variable> table() { return kTable; }
Status check() { return values().status; }
const std::string& text(std::string_view name) { return values().values.at(name); }
bool boolean(std::string_view name) { return text(name) == "1"; }

int64_t integer(std::string_view name) {
  int64_t value = 0;
  parse_integer(text(name), find(name)->kind == Kind::bytes, &value);
  return value;
}

}  // namespace neuron::environment
