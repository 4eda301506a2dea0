// The list of operator families; one register_<family> per file. A function per file, called from a table, because static
// initialisers of a static library would be dropped by the linker.
#pragma once

#include <span>

#include "ops/registry.h"

namespace neuron::ops {

using Family = void (*)(Registry&);
std::span<const Family> families();

}  // namespace neuron::ops
