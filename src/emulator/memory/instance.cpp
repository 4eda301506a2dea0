#include "emulator/memory/instance.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/environment.h"
#include "isa/target.h"

namespace neuron::emulator {
namespace {

constexpr InstanceType kTypes[] = {
    {"trn2.3xlarge", "trn2", 1, 5, 8},
    {"trn2.48xlarge", "trn2", 16, 5, 7},
};

bool parse_core(std::string_view text, int* out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= 0;
}

std::string lock_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

bool valid_name(const std::string& name) {
  return name.size() <= 64 && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

const InstanceType& instance_type() {
  const std::string& name = environment::text("NEURON_EMULATOR_INSTANCE_TYPE");
  for (const InstanceType& t : kTypes) {
    if (name == t.name) return t;
  }
  return kTypes[0];
}

uint32_t total_cores() { return instance_type().chips * isa::find_target(instance_type().target)->logical_cores_per_chip; }

Result<std::vector<int>> visible_cores() {
  const int total = static_cast<int>(total_cores());
  std::string_view text = environment::text("NEURON_RT_VISIBLE_CORES");
  std::vector<int> cores;
  if (text.empty()) {
    for (int c = 0; c < total; ++c) cores.push_back(c);
    return cores;
  }
  const auto refuse = [&]() {
    return invalid_argument("NEURON_RT_VISIBLE_CORES is '" + environment::text("NEURON_RT_VISIBLE_CORES") +
                            "'; valid: N, N-M or a comma-separated list of them, each core once, 0 <= core < " +
                            std::to_string(total));
  };
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t dash = part.find('-');
    int first = 0, last = 0;
    if (!parse_core(part.substr(0, dash), &first)) return refuse();
    last = first;
    if (dash != std::string_view::npos && !parse_core(part.substr(dash + 1), &last)) return refuse();
    if (last < first || last >= total) return refuse();
    for (int c = first; c <= last; ++c) cores.push_back(c);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (std::set<int>(cores.begin(), cores.end()).size() != cores.size()) return refuse();
  return cores;
}

Status CoreLocks::acquire(const std::vector<int>& cores) {
  const std::string& name = environment::text("NEURON_EMULATOR_INSTANCE");
  if (name.empty()) return {};
  if (!valid_name(name))
    return invalid_argument("NEURON_EMULATOR_INSTANCE is '" + name + "'; valid: letters, digits, - _ . (at most 64)");
  for (int core : cores) {
    const std::string path = lock_folder() + "/neuron-emulator-" + std::to_string(getuid()) + "-" + name + "-core" +
                             std::to_string(core) + ".lock";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
      release();
      return unavailable("cannot open " + path + ": " + std::strerror(errno));
    }
    files_.push_back(file);
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      char owner[32] = {};
      if (pread(file, owner, sizeof owner - 1, 0) < 0) owner[0] = 0;
      release();
      return unavailable("core " + std::to_string(core) + " of instance '" + name + "' is owned by process " + owner);
    }
    const std::string pid = std::to_string(getpid());
    if (ftruncate(file, 0) != 0 || pwrite(file, pid.c_str(), pid.size(), 0) < 0) {
      // the owner's number is only for messages
    }
  }
  return {};
}

void CoreLocks::release() {
  for (int file : files_) close(file);
  files_.clear();
}

}  // namespace neuron::emulator
