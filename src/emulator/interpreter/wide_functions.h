// Functions of `activation` for the compute types that only GpSimd has, and the complex arithmetic both executors share.
// f64_function is declared in kernels/scalar_functions.h.
#pragma once

#include "emulator/interpreter/elements.h"
#include "isa/program.h"

namespace neuron::emulator {

int64_t integer_function(isa::ActFn function, int64_t x);
uint64_t integer_function(isa::ActFn function, uint64_t x);
// c64 evaluates in f64 and rounds each part once.
c64 complex_function(isa::ActFn function, c64 x);
c128 complex_function(isa::ActFn function, c128 x);

c64 complex_divide(c64 a, c64 b);
c128 complex_divide(c128 a, c128 b);
c64 complex_power(c64 a, c64 b);
c128 complex_power(c128 a, c128 b);

}  // namespace neuron::emulator
