// The executable format: magic, version, target, tables, code, constants, checksum. Little-endian, no times, no host facts.
// Serialising is deterministic. Parsing arbitrary bytes never crashes, never allocates more than a fixed multiple of the
// input's size (an instruction takes 18 bytes at least and 1.6 KiB in memory), and validates (validator.h) before it
// returns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "isa/program.h"

namespace neuron::isa {

// The format version that serialize() writes and parse() reads.
inline constexpr uint32_t kContainerVersion = 1;
// The version in the header of a container, or nothing when the bytes do not begin as one.
std::optional<uint32_t> container_version(std::span<const uint8_t> bytes);

std::vector<uint8_t> serialize(const Program& program);
Result<Program> parse(std::span<const uint8_t> bytes);

// The checksum that bytes 20..27 of a container hold, of everything behind byte 28. For tools and tests that edit
// containers.
uint64_t container_checksum(std::span<const uint8_t> payload);

}  // namespace neuron::isa
