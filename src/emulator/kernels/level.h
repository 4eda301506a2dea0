// Included by kernel sources that are compiled once per ISA level with -DNEURON_LEVEL=scalar|avx2|avx512: brings the level's
// vector type. Everything in those sources lives in the level's namespace or has internal linkage, because the linker must
// never merge a function built for AVX-512 with one that a baseline file calls.
#pragma once

#ifndef NEURON_LEVEL
#error "NEURON_LEVEL must name the ISA level"
#endif

#if defined(__AVX512F__)
#include "emulator/kernels/vec_avx512.h"
#elif defined(__AVX2__)
#include "emulator/kernels/vec_avx2.h"
#else
#include "emulator/kernels/vec_scalar.h"
#endif

#include "emulator/kernels/functions.h"
#include "emulator/kernels/kernel_table.h"

namespace neuron::emulator::NEURON_LEVEL {

// Each kernel source fills its part of the level's table.
void fill_vector_kernels(Kernels& table);
void fill_memory_kernels(Kernels& table);
void fill_matmul_kernels(Kernels& table);

}  // namespace neuron::emulator::NEURON_LEVEL
