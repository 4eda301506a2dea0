// The one table of environment variables: every variable the project reads, its default, its valid values, what it does.
// Read once, at the first look; an unknown value, or an unknown name that begins with TORCH_NEURONX_ or NEURON_EMULATOR_,
// is an error that lists what is valid. torch_neuronx.config.show() prints the table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace neuron::environment {

enum class Kind : uint8_t { choice, boolean, integer, bytes, text };

struct Variable {
  std::string_view name;
  Kind kind;
  std::string_view default_value;
  std::string_view valid;  // choice: values separated by '|'; integer: "min..max"; otherwise a description
  std::string_view help;
};

std::span<const Variable> table();

// All variables of the process checked against the table; the first problem found.
Status check();

// The value in force (environment or default). The name must be in the table. Invalid values give the default here: call
// check() first, where an error can be reported.
const std::string& text(std::string_view name);
bool boolean(std::string_view name);
int64_t integer(std::string_view name);  // also for bytes: accepts the suffixes K, M, G (powers of 1024)

}  // namespace neuron::environment
