// Pass "schedule": semaphores. Engine queues run in order and independently of each other, so an instruction has to wait for
// the instructions of other queues that it depends on (through SBUF, PSUM or HBM bytes, physical addresses after placement).
//
// Every queue that somebody waits for has one semaphore, signalled by each of its instructions; "A has completed" is then
// "the queue has signalled as often as instructions up to A have run". That number is affine in the loop iterations, because
// trip counts are constant: a wait for A from an instruction B that shares the loops l < c with A is
//     position of A + sum_{l<c} iv_l * (instructions of A's queue per iteration of loop l)   [loop-carried: (iv_l - lag)]
//     + for A's other loops, their last iteration.
// For iterations below the lag the value is at most what ran before the loop, so nothing ever waits for something later.
//
// Dependences are found by walking the program with every loop body taken twice; the second time finds what one iteration
// owes to the previous one.
#pragma once

#include "compiler/plan_memory.h"
#include "compiler/program_builder.h"

namespace neuron::compiler {

void add_semaphores(ProgramBuilder& builder, const ArenaPlan& arena);

}  // namespace neuron::compiler
