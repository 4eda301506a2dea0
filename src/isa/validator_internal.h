// Shared between validator.cpp (tables, loops, tiles, semaphores) and validator_instructions.cpp (one instruction in its
// loops).
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/status.h"
#include "isa/instruction_table.h"

namespace neuron::isa::validation {

__extension__ typedef __int128 Wide;  // sums of up to 13 products of 64 by 32 bits: cannot overflow

struct Loop {
  uint32_t trips = 1;
  LoopKind kind = LoopKind::sequential;
};

// Where an instruction stands: its program, target, and the loops around it.
struct Place {
  const Program& program;
  const Target& target;
  std::array<Loop, kMaxLoops> loops{};
  uint32_t depth = 0;
  uint32_t instruction = 0;  // index of the instruction under the eyes
};

// "id: instruction 7 (tensor_copy): detail; rule: text".
Status violation(const Place& place, std::string_view id, const std::string& detail);

// `tile_row` true: an access of a tile, false: of an HBM tensor. Lowest and highest byte touched in any iteration, relative
// to the start of the tensor or of the tile buffer's row; `with_loops` false leaves the loops out.
struct Extent {
  Wide low = 0, high = 0;
};
Extent extent(const Place& place, const Access& access, bool with_loops = true);

std::string to_text(Wide value);
uint64_t saturating_elements(const Access& access);  // per partition, at most 2^63
Status check_instruction(const Place& place);

}  // namespace neuron::isa::validation
