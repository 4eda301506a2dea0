// Deliberate defects of mechanisms that all operators share, so that a test can see the conformance suite find them
// (tests/conformance/test_mutations.py). They exist only in the module _C_mutated; anywhere else mutated() is false.
#pragma once

#ifdef NEURON_MUTATIONS
#include <cstdlib>
#include <string_view>
#endif

namespace neuron {

#ifdef NEURON_MUTATIONS
// Whether the environment variable NEURON_MUTATION names this defect.
inline bool mutated(std::string_view defect) {
  static const char* const chosen = std::getenv("NEURON_MUTATION");
  return chosen && chosen == defect;
}
#else
constexpr bool mutated(const char*) { return false; }
#endif

}  // namespace neuron
