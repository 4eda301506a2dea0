// PyTorch's autograd threads, one per device, and the end of the process.
#pragma once

namespace neuron::pytorch {

// Returns when every core's autograd thread has let go of the backward passes it ran. Call it without the GIL, before the
// interpreter shuts down: a thread that drops the last reference to a pass afterwards asks for the GIL of an interpreter
// that is going away, and CPython then ends the thread in a way that C++ answers with std::terminate.
// Does nothing where no core is in use. Never throws.
void drain_autograd_workers() noexcept;

}  // namespace neuron::pytorch
