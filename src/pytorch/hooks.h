#pragma once

namespace neuron::pytorch {

// Once per process, at import.
void register_hooks();

}  // namespace neuron::pytorch
