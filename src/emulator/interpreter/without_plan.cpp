// Stands in when the library is built without src/emulator/plan: the interpreter is then the only executor.
#include "emulator/executor.h"

namespace neuron::emulator {

Result<std::unique_ptr<Executor>> make_plan(std::shared_ptr<const isa::Program> program) {
  return make_interpreter(std::move(program));
}

}  // namespace neuron::emulator
