#include "ops/registry.h"

#include <gtest/gtest.h>

namespace neuron::ops {
namespace {

struct CallSite {
  ir::Graph graph;
  ir::Builder builder{graph};
  TensorArg tensor(DType dtype, Shape shape, Category category = Category::tensor) {
    TensorArg t{contiguous_meta(dtype, shape), category, {}};
    t.value = builder.parameter({dtype, shape}, graph.tensor_parameter_count(), t.meta.strides);
    return t;
  }
};

TEST(Registry, EveryNameIsAFunctionalOverload) {
  const auto names = registered_operators();
  EXPECT_GE(names.size(), 200u);
  for (const auto& name : names) {
    EXPECT_NE(name.find("::"), std::string::npos) << name;
    ASSERT_NE(find(name), nullptr) << name;
  }
  EXPECT_EQ(find("aten::no_such_operator"), nullptr);
}

TEST(Registry, HalfOperandsAreComputedInSingleAndRoundedOnce) {
  CallSite s;
  const std::vector<NamedArgument> arguments{{"self", s.tensor(DType::bf16, {2, 3})}, {"other", s.tensor(DType::bf16, {3})}};
  const Call call{"aten::mul.Tensor", arguments, {}, {}, {}};
  const OpDef& op = *find(call.op);
  const auto metas = infer(op, call);
  ASSERT_TRUE(metas);
  EXPECT_EQ((*metas)[0]->dtype, DType::bf16);
  const auto values = lower(op, call, &*metas, s.builder);
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(s.graph.node((*values)[0]).op, ir::Op::convert);
  EXPECT_EQ(s.graph.type(s.graph.node((*values)[0]).operands[0]).dtype, DType::f32);
}

TEST(Registry, InputsThatPyTorchRefusesHaveNoMetadata) {
  CallSite s;
  const std::vector<NamedArgument> shapes{{"self", s.tensor(DType::f32, {2, 3})}, {"other", s.tensor(DType::f32, {4})}};
  EXPECT_FALSE(infer(*find("aten::mul.Tensor"), {"aten::mul.Tensor", shapes, {}, {}, {}}));
  const std::vector<NamedArgument> bools{{"self", s.tensor(DType::boolean, {2})}, {"other", s.tensor(DType::boolean, {2})}};
  EXPECT_FALSE(infer(*find("aten::sub.Tensor"), {"aten::sub.Tensor", bools, {}, {}, {}}));
}

TEST(Registry, ALoweringThatContradictsItsMetadataIsAnError) {
  CallSite s;
  const std::vector<NamedArgument> arguments{{"self", s.tensor(DType::f32, {2, 3})}};
  const Metas wrong{contiguous_meta(DType::f32, {3, 2})};
  const auto values = lower(*find("aten::exp"), {"aten::exp", arguments, {}, {}, {}}, &wrong, s.builder);
  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.status().code(), Code::internal);
  EXPECT_NE(values.status().message().find("aten::exp"), std::string::npos);
}

TEST(Registry, UnsupportedArgumentsNameOperatorDtypeAndShape) {
  CallSite s;
  const std::vector<NamedArgument> arguments{{"self", s.tensor(DType::c64, {2, 3})}};
  const auto values = lower(*find("aten::erf"), {"aten::erf", arguments, {}, {}, {}}, nullptr, s.builder);
  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.status().code(), Code::unsupported);
  EXPECT_NE(values.status().message().find("aten::erf"), std::string::npos);
  EXPECT_NE(values.status().message().find("c64[2,3]"), std::string::npos);
}

}  // namespace
}  // namespace neuron::ops
