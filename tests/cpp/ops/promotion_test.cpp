#include "ops/promotion.h"

#include <gtest/gtest.h>

namespace neuron::ops {
namespace {

DType type_of(std::initializer_list<std::pair<DType, Category>> operands, DType default_dtype = DType::f32) {
  ResultType type(default_dtype);
  for (const auto& [dtype, category] : operands) type.add(dtype, category);
  return *type.get();
}

TEST(Promotion, PythonNumbersDoNotWidenTensorsOfTheirKind) {
  EXPECT_EQ(type_of({{DType::bf16, Category::tensor}, {DType::f64, Category::wrapped_number}}), DType::bf16);
  EXPECT_EQ(type_of({{DType::i8, Category::tensor}, {DType::i64, Category::wrapped_number}}), DType::i8);
}

TEST(Promotion, AFloatNumberTurnsIntegersIntoTheDefaultDtype) {
  EXPECT_EQ(type_of({{DType::i64, Category::tensor}, {DType::f64, Category::wrapped_number}}), DType::f32);
  EXPECT_EQ(type_of({{DType::i64, Category::tensor}, {DType::f64, Category::wrapped_number}}, DType::f64), DType::f64);
}

TEST(Promotion, ZeroDimTensorsRankBetweenTensorsAndNumbers) {
  EXPECT_EQ(type_of({{DType::f16, Category::tensor}, {DType::f64, Category::zero_dim}}), DType::f16);
  EXPECT_EQ(type_of({{DType::i32, Category::tensor}, {DType::f64, Category::zero_dim}}), DType::f64);
  EXPECT_EQ(type_of({{DType::i32, Category::zero_dim}, {DType::f64, Category::wrapped_number}}), DType::f32);
}

TEST(Promotion, ComplexNumbersFollowTheFloatTheyMeet) {
  EXPECT_EQ(type_of({{DType::f64, Category::tensor}, {DType::c128, Category::wrapped_number}}), DType::c128);
  EXPECT_EQ(type_of({{DType::f32, Category::tensor}, {DType::c128, Category::wrapped_number}}), DType::c64);
}

TEST(Promotion, MixedHalvesBecomeSingle) { EXPECT_EQ(promote_types(DType::f16, DType::bf16), DType::f32); }

TEST(Promotion, MixedSignsWidenOnce) {
  EXPECT_EQ(promote_types(DType::u8, DType::i8), DType::i16);
  EXPECT_EQ(promote_types(DType::u8, DType::i64), DType::i64);
}

TEST(Promotion, FloatEightsPromoteWithNothing) {
  EXPECT_FALSE(promote_types(DType::f8e4m3fn, DType::f32).has_value());
  EXPECT_EQ(promote_types(DType::f8e5m2, DType::f8e5m2), DType::f8e5m2);
}

}  // namespace
}  // namespace neuron::ops
