// Runs a graph three ways: ir::evaluate (the oracle), the interpreter on the compiled program (program order or shuffled)
// and the fast plan. Inputs and outputs are laid out in memory with the strides that the graph states.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "compiler/compiler.h"
#include "emulator/executor.h"
#include "ir/builder.h"
#include "ir/element.h"
#include "ir/graph.h"
#include "isa/validator.h"

namespace neuron::compiler::testing {

enum class Executed { interpreter, shuffled, plan };

// Number of elements that a layout spans.
int64_t extent(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

// A literal of random values: floats normal (complex too), integers in [-8, 8], bool with probability 0.8.
ir::Literal random_literal(const ir::Type& type, std::mt19937_64& rng);

// Strides for `shape` whose dimensions lie in memory in the order of a random permutation, sometimes with a gap.
std::vector<int64_t> random_strides(const std::vector<int64_t>& shape, std::mt19937_64& rng);

// The program's outputs, row-major.
Result<std::vector<ir::Literal>> run(const ir::Graph& graph, const std::vector<ir::Literal>& inputs, Executed how,
                                     uint64_t seed = 0, int threads = 1, const Options& options = {});

// The same for a program that computes the graph's outputs, however it was made.
Result<std::vector<ir::Literal>> execute(const ir::Graph& graph, isa::Program program,
                                         const std::vector<ir::Literal>& inputs, Executed how, uint64_t seed = 0,
                                         int threads = 1);

// "" if equal within the tolerance, else a description of the worst element. `scale` multiplies the dtype's own tolerance.
std::string difference(const ir::Literal& expected, const ir::Literal& actual, double scale = 1.0);
bool same_bits(const std::vector<ir::Literal>& a, const std::vector<ir::Literal>& b);

}  // namespace neuron::compiler::testing
