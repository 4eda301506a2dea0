// Typed random tile programs: valid by construction (isa::validate must pass), one per (instruction, type, loop depth,
// seed).
//
// The instruction under test gets random shapes, layouts, element types, scalar kinds, engines and surroundings: sources are
// loaded from HBM at random loop levels, results stored with or without conversion, at random chained, accumulated, rotated
// through several buffers. Semaphores and waits follow from the data dependences, so that engines may run in any order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/program.h"

namespace neuron::emulator::testing {

// What the bytes of a tensor are drawn from.
enum class Fill : uint8_t {
  any,       // typical values, now and then zero, NaN, infinity, denormal, extremes
  moderate,  // finite and of moderate size
  nonzero,   // divisors
  shift,     // shift amounts and small exponents, out-of-range ones included
  index,     // 0 <= v < bound
  unique,    // the same, no value twice
};

struct Generated {
  isa::Program program;
  std::vector<Fill> fills;           // per tensor
  std::vector<int64_t> fill_bounds;  // per tensor, for Fill::index
};

// One cell of the coverage table. `type` is the compute type, or the element type of instructions that only move.
struct Cell {
  isa::Opcode opcode;
  DType type;
  int depth;
};

// Every instruction with every type that it has, at loop depth 0 to 3.
std::vector<Cell> all_cells();
std::string name_of(const Cell& cell);  // "tensor_scalar/i64/2"

Generated generate(const Cell& cell, uint64_t seed);

// Deterministic contents of tensor `index`.
std::vector<uint8_t> fill_tensor(const Generated& generated, size_t index, uint64_t seed);

// splitmix64
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return n ? next() % n : 0; }
  bool chance(uint64_t one_in) { return below(one_in) == 0; }
  template <class T>
  T pick(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace neuron::emulator::testing
