// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw 2011): counter and key to four random words.
#pragma once

#include <array>
#include <cstdint>

namespace neuron::emulator {

// Counter words {low, high, 0, 0}, key words {low, high}.
inline std::array<uint32_t, 4> philox_4x32_10(uint64_t key, uint64_t counter) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b), static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1,
         static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

}  // namespace neuron::emulator
