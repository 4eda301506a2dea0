#include "timing/timing.h"

#include "timing/costs.h"
#include "timing/simulator.h"

namespace neuron::timing {

Estimate estimate(const isa::Program& program, uint64_t max_events) { return simulate(program, {.max_events = max_events}); }

double instruction_ns(const isa::Program& program, const isa::Instruction& instruction) {
  const isa::Target* target = isa::find_target(program.target);
  return target ? cost_of(program, instruction, *target).completion_ns : 0;
}

}  // namespace neuron::timing
