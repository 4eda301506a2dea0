// Random graphs: the generator keeps its promises, and the StableHLO expansion of every operator evaluates to the operator.
#include "ir/expand.h"

#include <gtest/gtest.h>

#include "claims.h"
#include "ir/graph_generator.h"
#include "ir/op_info.h"

namespace neuron::ir::testing {
namespace {

int seeds() { return neuron::testing::run_everything() ? 5000 : 500; }

TEST(GraphGenerator, GivesVerifiedGraphsThatEvaluateAndRepeatsThemBySeed) {
  Coverage coverage;
  GraphGenerator generator(1);
  for (int i = 0; i < seeds(); ++i) {
    const GeneratedGraph g = generator.next();
    const Status s = verify(g.graph);
    ASSERT_TRUE(s.ok()) << "seed " << g.seed << ": " << s.message() << "\n" << print(g.graph);
    const auto r = evaluate(g.graph, g.tensors, g.scalars);
    ASSERT_TRUE(r.ok()) << "seed " << g.seed << ": " << r.status().message();
    ASSERT_EQ(g.tolerance.size(), g.graph.outputs.size());
    if (i % 50 == 0) {
      EXPECT_EQ(print(GraphGenerator(g.seed).next().graph), print(g.graph)) << "seed " << g.seed;
    }
    coverage.add(g.graph);
  }
  std::cout << coverage.table();
  EXPECT_GE(coverage.operators(), 60u);
  neuron::testing::record_claim("ir_generator", "operator x dtype pairs in generated graphs",
                                static_cast<int64_t>(coverage.pairs()), 250);
}

TEST(Expansion, LeavesOnlyStableHloOperatorsAndTheSameValues) {
  GeneratorOptions options;
  options.dtypes = {DType::f32, DType::f64, DType::bf16, DType::i64, DType::i8, DType::u8, DType::boolean};
  GraphGenerator generator(100000, options);
  int compared = 0;
  for (int i = 0; i < seeds(); ++i) {
    const GeneratedGraph g = generator.next();
    const auto expanded = expand_to_stablehlo(g.graph);
    ASSERT_TRUE(expanded.ok()) << "seed " << g.seed << ": " << expanded.status().message();
    for (const Node& n : expanded->nodes) {
      const bool ours = n.op == Op::attention || n.op == Op::attention_backward || n.op == Op::scan ||
                        n.op == Op::arg_reduce || n.op == Op::strided_view || n.op == Op::top_k ||
                        n.op == Op::rng_bit_generator || n.op == Op::silu || n.op == Op::gelu || n.op == Op::floor_divide ||
                        n.op == Op::is_nan;
      ASSERT_FALSE(ours) << name_of(n.op);
    }
    const auto want = evaluate(g.graph, g.tensors, g.scalars), got = evaluate(*expanded, g.tensors, g.scalars);
    ASSERT_TRUE(want.ok() && got.ok()) << "seed " << g.seed << ": " << got.status().message();
    for (size_t k = 0; k < want->size(); ++k) {
      EXPECT_EQ(difference((*want)[k], (*got)[k], 2 * g.tolerance[k]), "") << "seed " << g.seed << " output " << k << "\n"
                                                                           << print(g.graph);
      ++compared;
    }
  }
  neuron::testing::record_claim("ir_expansion", "outputs equal between operators and their expansions", compared, 1000);
}

TEST(StableHloPrinter, WritesEveryOperatorInGenericForm) {
  Graph graph;
  graph.name = "f";
  Builder b(graph);
  const Value x = b.parameter({DType::f32, {2}}, 0, {1}), y = b.parameter({DType::boolean, {2}}, 1, {1});
  b.output(b.select(y, x, b.splat({DType::f32, {2}}, 1)), {1}, 0);
  EXPECT_EQ(
      print_stablehlo(graph),
      "module @f {\n"
      "  func.func public @main(%arg0: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<2xi1>) -> "
      "(tensor<2xf32>) {\n"
      "    %v2 = \"stablehlo.constant\"() <{value = dense<0x3F800000> : tensor<2xf32>}> : () -> tensor<2xf32>\n"
      "    %v3 = \"stablehlo.select\"(%arg1, %arg0, %v2) : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>\n"
      "    \"func.return\"(%v3) : (tensor<2xf32>) -> ()\n"
      "  }\n"
      "}\n");
}

}  // namespace
}  // namespace neuron::ir::testing
