// Records what a test counted for the claims table that ./dev test prints (tools/run_tests.py).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace neuron::testing {

// `file` is unique among tests; `claim` is the table's row. Does nothing outside ./dev test.
inline void record_claim(const std::string& file, const std::string& claim, int64_t count, int64_t required) {
  const char* folder = std::getenv("NEURON_CLAIMS_DIR");
  if (!folder) return;
  std::ofstream out(std::string(folder) + "/" + file + ".json");
  out << "{\"claim\": \"" << claim << "\", \"count\": " << count << ", \"required\": " << required << "}\n";
}

// True when long sweeps run whole (./dev test --all).
inline bool run_everything() {
  const char* all = std::getenv("NEURON_TEST_ALL");
  return all && std::string(all) == "1";
}

}  // namespace neuron::testing
