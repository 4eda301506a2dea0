#include "isa/instruction_table.h"

#include <gtest/gtest.h>

#include <set>

#include "isa/target.h"

namespace neuron::isa {
namespace {

TEST(InstructionTable, NamesAreUniqueAndReadBack) {
  std::set<std::string_view> names;
  for (const InstructionInfo& i : instruction_table()) {
    EXPECT_TRUE(names.insert(i.name).second) << i.name;
    EXPECT_FALSE(i.semantics.empty() || i.operands.empty() || i.cost.empty()) << i.name;
    EXPECT_NE(i.engines, 0u) << i.name;
  }
  for (size_t k = 0; k < static_cast<size_t>(AluOp::count_); ++k)
    EXPECT_EQ(alu_op_from_name(name_of(static_cast<AluOp>(k))), static_cast<AluOp>(k));
  for (size_t k = 0; k < static_cast<size_t>(ActFn::count_); ++k)
    EXPECT_EQ(act_fn_from_name(name_of(static_cast<ActFn>(k))), static_cast<ActFn>(k));
}

TEST(InstructionTable, SpotChecksOfNamesAgainstTheEnumerations) {
  EXPECT_EQ(name_of(AluOp::nextafter), "nextafter");
  EXPECT_EQ(name_of(AluOp::greater_equal), "greater_equal");
  EXPECT_EQ(name_of(AluOp::gcd), "gcd");
  EXPECT_EQ(name_of(ActFn::reciprocal), "reciprocal");
  EXPECT_EQ(name_of(ActFn::gelu_apprx_tanh_dx), "gelu_apprx_tanh_dx");
  EXPECT_EQ(name_of(ActFn::is_finite), "is_finite");
  EXPECT_EQ(name_of(ActFn::angle), "angle");
  EXPECT_EQ(name_of(Engine::vector), "vector");
}

TEST(InstructionTable, ConstraintNumbersAreUniqueAndConsecutivePerGroup) {
  std::set<std::string_view> ids;
  const auto check = [&](std::span<const Constraint> constraints, std::string_view group) {
    int n = 0;
    for (const Constraint& c : constraints) {
      EXPECT_TRUE(ids.insert(c.id).second) << c.id;
      if (group.empty()) continue;
      EXPECT_EQ(std::string(c.id), std::string(group) + "." + std::to_string(++n));
    }
  };
  check(general_constraints(), "");
  for (const InstructionInfo& i : instruction_table()) check(i.constraints, i.name);
  for (std::string_view id : ids) EXPECT_NE(find_constraint(id), nullptr);
}

TEST(InstructionTable, ComputeTypesAndEngines) {
  EXPECT_EQ(compute_type_for(DType::bf16), DType::f32);
  EXPECT_EQ(compute_type_for(DType::boolean), DType::f32);
  EXPECT_EQ(compute_type_for(DType::u8), DType::i64);
  EXPECT_EQ(compute_type_for(DType::u64), DType::u64);
  EXPECT_TRUE(runs_on(Engine::vector, Opcode::tensor_tensor, DType::f32, AluOp::divide));
  EXPECT_FALSE(runs_on(Engine::vector, Opcode::tensor_tensor, DType::f32, AluOp::power));
  EXPECT_TRUE(runs_on(Engine::gpsimd, Opcode::tensor_tensor, DType::f32, AluOp::power));
  EXPECT_FALSE(runs_on(Engine::vector, Opcode::tensor_tensor, DType::i64, AluOp::add));
  EXPECT_FALSE(runs_on(Engine::gpsimd, Opcode::tensor_tensor, DType::c64, AluOp::maximum));
  EXPECT_TRUE(runs_on(Engine::scalar, Opcode::activation, DType::f32, AluOp::bypass, AluOp::bypass, ActFn::gelu));
  EXPECT_FALSE(runs_on(Engine::scalar, Opcode::activation, DType::f32, AluOp::bypass, AluOp::bypass, ActFn::lgamma));
  EXPECT_TRUE(runs_on(Engine::tensor, Opcode::nc_matmul, DType::f32));
  EXPECT_FALSE(runs_on(Engine::tensor, Opcode::nc_matmul, DType::f64));
}

TEST(Target, Trn2IsKnownAndOthersAreNot) {
  const Target* t = find_target("trn2");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->partitions, 128u);
  EXPECT_EQ(t->sbuf_bytes_per_partition, 212'984u);
  EXPECT_EQ(t->psum_bytes_per_partition(), 16'384u);
  EXPECT_EQ(t->hbm_bytes, 24ull << 30);
  EXPECT_EQ(find_target("trn9"), nullptr);
  EXPECT_EQ(find_target(""), nullptr);
}

}  // namespace
}  // namespace neuron::isa
