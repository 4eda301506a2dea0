// What one instruction costs, from its operands and the target's constants alone. No state: the simulator adds queues,
// semaphores, function tables, the tensor engine's clock and the sharing of DMA engines.
#pragma once

#include <cstdint>

#include "isa/program.h"
#include "isa/target.h"

namespace neuron::timing {

struct Cost {
  double occupancy_ns = 0;   // until the engine may start its next instruction; DMA: the queue's own time per trigger
  double completion_ns = 0;  // start to result visible; DMA: start latency plus the slowest engine's transfer
  uint8_t table = 0;         // ScalarE function table, 0 = any
  // DMA: engines first_engine .. first_engine + engines - 1 (modulo the target's count) each work this long.
  double transfer_ns = 0;
  uint32_t first_engine = 0, engines = 0;
  uint64_t hbm_read = 0, hbm_written = 0;
  uint64_t flops = 0;  // 2*K*M*N of nc_matmul
  bool routine = false;
};

Cost cost_of(const isa::Program& program, const isa::Instruction& instruction, const isa::Target& target);

}  // namespace neuron::timing
