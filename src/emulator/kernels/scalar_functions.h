// The f32 functions of the fixed-function engines, one value at a time. They are the one-lane instance of functions.h, so
// the interpreter and the vector kernels of every host level give the same bits. At most 3 units in the last place from the
// exact value over the full range. Rare functions go through double precision and one rounding; both executors call them
// here.
#pragma once

#include "isa/program.h"

namespace neuron::emulator {

// activation's function for compute type f32. bitwise_not and population_count have no meaning on floats and give x.
float f32_function(isa::ActFn function, float x);
float f32_power(float base, float exponent);
float f32_atan2(float y, float x);

// The same for compute type f64 (libm and own code, src/emulator/interpreter/wide_functions.cpp): used by both executors.
double f64_function(isa::ActFn function, double x);

}  // namespace neuron::emulator
