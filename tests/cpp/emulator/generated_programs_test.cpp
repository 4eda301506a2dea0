// Generated programs: every executor, schedule and thread count gives the interpreter's bits.
//
// --all (or NEURON_TEST_ALL=1)        20 programs per cell instead of a slice
// --only CELL --seed N                one case, with the disassembly: what a failure prints
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <map>

#include "claims.h"
#include "emulator/execution.h"
#include "isa/disassembler.h"
#include "isa/validator.h"

namespace neuron::emulator::testing {
namespace {

constexpr int kProgramsPerCell = 20;

std::string only_cell;
uint64_t only_seed = 0;
bool everything = false;

int programs_per_cell() {
  if (!only_cell.empty()) return 1;
  return everything || neuron::testing::run_everything() ? kProgramsPerCell : 2;
}

std::string rerun(const Cell& cell, uint64_t seed) {
  return "rerun: emulator_generated_test --only " + name_of(cell) + " --seed " + std::to_string(seed);
}

// Calls check(cell, seed, generated) for every selected case.
template <class Check>
int64_t for_each_case(Check check) {
  int64_t count = 0;
  for (const Cell& cell : all_cells()) {
    if (!only_cell.empty() && name_of(cell) != only_cell) continue;
    for (int n = 0; n < programs_per_cell(); ++n) {
      const uint64_t seed = only_cell.empty() ? static_cast<uint64_t>(n) + 1 : only_seed;
      const Generated g = generate(cell, seed);
      check(cell, seed, g);
      ++count;
      if (::testing::Test::HasFailure() &&
          ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count() > 20)
        return count;
    }
  }
  return count;
}

TEST(GeneratedPrograms, AreValidAndCoverEveryInstructionTypeAndDepth) {
  std::map<std::string, int> per_opcode;
  for_each_case([&](const Cell& cell, uint64_t seed, const Generated& g) {
    const Status status = isa::validate(g.program);
    EXPECT_TRUE(status.ok()) << status.message() << "\n" << rerun(cell, seed);
    if (!only_cell.empty()) std::cout << isa::disassemble(g.program);
    ++per_opcode[name_of(cell).substr(0, name_of(cell).find('/'))];
  });
  std::cout << "coverage (programs per instruction, all types and depths 0-3):";
  for (const auto& [name, count] : per_opcode) std::cout << " " << name << "=" << count;
  std::cout << "\ncells: " << all_cells().size() << ", programs per cell: " << programs_per_cell() << "\n";
  if (only_cell.empty()) {
    EXPECT_EQ(per_opcode.size(), static_cast<size_t>(isa::Opcode::count_));
  }
}

TEST(GeneratedPrograms, RunInTheInterpreterInAnyLegalOrderOfTheQueues) {
  ThreadPool pool(1);
  const int64_t count = for_each_case([&](const Cell& cell, uint64_t seed, const Generated& g) {
    auto program = std::make_shared<const isa::Program>(g.program);
    const Buffers initial = initial_buffers(g, seed);
    auto in_order = make_interpreter(program);
    ASSERT_TRUE(in_order.ok()) << in_order.status().message() << "\n" << rerun(cell, seed);
    const Outcome expected = run(**in_order, *program, initial, pool);
    ASSERT_TRUE(expected.status.ok()) << expected.status.message() << "\n" << rerun(cell, seed);
    for (uint64_t shuffle = 1; shuffle <= 2; ++shuffle) {
      auto shuffled = make_interpreter(program, {seed * 7 + shuffle});
      ASSERT_TRUE(shuffled.ok());
      EXPECT_EQ(difference(*program, expected, run(**shuffled, *program, initial, pool)), "") << rerun(cell, seed);
    }
  });
  neuron::testing::record_claim("emulator_shuffled", "generated programs run in shuffled legal orders with the same bits",
                                count, static_cast<int64_t>(all_cells().size()) * programs_per_cell());
}

TEST(GeneratedPrograms, GiveTheInterpretersBitsInThePlanOnAnyNumberOfThreads) {
  ThreadPool one(1), three(3);
  const int64_t count = for_each_case([&](const Cell& cell, uint64_t seed, const Generated& g) {
    auto program = std::make_shared<const isa::Program>(g.program);
    const Buffers initial = initial_buffers(g, seed);
    auto interpreter = make_interpreter(program);
    auto plan = make_plan(program);
    ASSERT_TRUE(interpreter.ok() && plan.ok()) << plan.status().message() << "\n" << rerun(cell, seed);
    const Outcome expected = run(**interpreter, *program, initial, one);
    for (ThreadPool* pool : {&one, &three}) {
      for (int launch = 0; launch < 2; ++launch) {  // the second launch meets what the first left in the plan
        EXPECT_EQ(difference(*program, expected, run(**plan, *program, initial, *pool)), "")
            << "threads " << pool->threads() << ", launch " << launch << ", host ISA " << host_isa_name() << "\n"
            << rerun(cell, seed);
      }
    }
  });
  neuron::testing::record_claim(
      std::string("emulator_plan_") + host_isa_name(),
      std::string("generated programs have the interpreter's bits in the plan, host ISA ") + host_isa_name(), count,
      static_cast<int64_t>(all_cells().size()) * programs_per_cell());
}

}  // namespace
}  // namespace neuron::emulator::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  using namespace neuron::emulator::testing;
  for (int a = 1; a < argc; ++a) {
    if (std::strcmp(argv[a], "--all") == 0)
      everything = true;
    else if (std::strcmp(argv[a], "--only") == 0 && a + 1 < argc)
      only_cell = argv[++a];
    else if (std::strcmp(argv[a], "--seed") == 0 && a + 1 < argc)
      only_seed = std::strtoull(argv[++a], nullptr, 10);
    else {
      std::cerr << "unknown argument " << argv[a] << "\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
