// Every numbered rule of the verifier, violated once: the message must begin with the rule's number.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "claims.h"
#include "ir/builder.h"
#include "ir/op_info.h"

namespace neuron::ir {
namespace {

const Type kMatrix{DType::f32, {2, 3}};

Value matrix(Builder& b, DType t = DType::f32) { return b.splat({t, {2, 3}}, 1); }
Value scalar(Builder& b, DType t = DType::f32) { return b.splat({t, {}}, 1); }
Value index_vector(Builder& b, int64_t n = 4) { return b.splat_int({DType::i64, {n}}, 0); }

struct Violation {
  const char* rule;
  std::function<void(Builder&)> build;
};

GatherAttrs rows() {
  GatherAttrs g;
  g.offset_dims = {1};
  g.collapsed_slice_dims = g.start_index_map = {0};
  g.slice_sizes = {1, 3};
  g.index_vector_dim = 1;
  return g;
}
ScatterAttrs row_updates() {
  ScatterAttrs s;
  s.update_window_dims = {1};
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  return s;
}
void gather_with(Builder& b, const std::function<void(GatherAttrs&)>& change) {
  GatherAttrs g = rows();
  change(g);
  b.gather(matrix(b), index_vector(b), g);
}
void scatter_with(Builder& b, const std::function<void(ScatterAttrs&)>& change, std::vector<int64_t> update_shape = {4, 3},
                  DType t = DType::f32, DType update = DType::f32) {
  ScatterAttrs s = row_updates();
  change(s);
  b.scatter(matrix(b, t), index_vector(b), b.splat({update, std::move(update_shape)}, 1), s);
}
Value heads(Builder& b, int64_t rows = 4, int64_t depth = 8, DType t = DType::f32) {
  return b.splat({t, {1, 2, rows, depth}}, 1);
}

const std::vector<Violation> kViolations = {
    {"parameter.4", [](Builder& b) { b.parameter(kMatrix, 0, {1}); }},
    {"parameter.5", [](Builder& b) { b.parameter(kMatrix, -1, {3, 1}); }},
    {"parameter.6", [](Builder& b) { b.scalar_parameter(DType::f32, 0); }},
    {"constant.4", [](Builder& b) { b.constant(kMatrix, std::vector<uint8_t>(5)); }},
    {"iota.4", [](Builder& b) { b.iota(kMatrix, 2); }},
    {"iota.5", [](Builder& b) { b.iota({DType::boolean, {2}}, 0); }},
    {"bitcast_convert.5", [](Builder& b) { b.bitcast(matrix(b), DType::f64); }},
    {"bitcast_convert.6", [](Builder& b) { b.bitcast(matrix(b, DType::u8), DType::boolean); }},
    {"tanh.3", [](Builder& b) { b.unary(Op::tanh, matrix(b, DType::i32)); }},
    {"conj.3", [](Builder& b) { b.unary(Op::conj, matrix(b)); }},
    {"subtract.3", [](Builder& b) { b.binary(Op::subtract, matrix(b, DType::boolean), matrix(b, DType::boolean)); }},
    {"add.4", [](Builder& b) { b.binary(Op::add, matrix(b), scalar(b)); }},
    {"complex.3", [](Builder& b) { b.binary(Op::complex, matrix(b, DType::bf16), matrix(b, DType::bf16)); }},
    {"complex.4", [](Builder& b) { b.binary(Op::complex, matrix(b), matrix(b, DType::f64)); }},
    {"compare.3", [](Builder& b) { b.compare(Comparison::eq, matrix(b), matrix(b, DType::i32)); }},
    {"compare.4", [](Builder& b) { b.compare(Comparison::lt, matrix(b, DType::c64), matrix(b, DType::c64)); }},
    {"select.3", [](Builder& b) { b.select(matrix(b), matrix(b), matrix(b)); }},
    {"select.4", [](Builder& b) { b.select(scalar(b, DType::boolean), matrix(b), matrix(b)); }},
    {"select.5", [](Builder& b) { b.select(matrix(b, DType::boolean), matrix(b), matrix(b, DType::f16)); }},
    {"clamp.3", [](Builder& b) { b.clamp(matrix(b, DType::c64), matrix(b, DType::c64), matrix(b, DType::c64)); }},
    {"clamp.4", [](Builder& b) { b.clamp(scalar(b), matrix(b), scalar(b)); }},
    {"reshape.5", [](Builder& b) { b.reshape(matrix(b), {5}); }},
    {"broadcast_in_dim.4", [](Builder& b) { b.broadcast_in_dim(matrix(b), {2, 3}, {1, 0}); }},
    {"broadcast_in_dim.5", [](Builder& b) { b.broadcast_in_dim(matrix(b), {2, 4}, {0, 1}); }},
    {"transpose.3", [](Builder& b) { b.transpose(matrix(b), {0, 0}); }},
    {"slice.3", [](Builder& b) { b.slice(matrix(b), {0}, {1}); }},
    {"slice.4", [](Builder& b) { b.slice(matrix(b), {0, 0}, {2, 4}); }},
    {"slice.5", [](Builder& b) { b.slice(matrix(b), {0, 0}, {2, 3}, {1, 0}); }},
    {"concatenate.3", [](Builder& b) { b.concatenate(std::vector<Value>{matrix(b)}, 2); }},
    {"concatenate.4", [](Builder& b) { b.concatenate(std::vector<Value>{matrix(b), matrix(b, DType::f64)}, 0); }},
    {"concatenate.5", [](Builder& b) { b.concatenate(std::vector<Value>{matrix(b), b.splat({DType::f32, {2, 4}}, 0)}, 0); }},
    {"pad.3", [](Builder& b) { b.pad(matrix(b), scalar(b, DType::f64), {0, 0}, {0, 0}); }},
    {"pad.4", [](Builder& b) { b.pad(matrix(b), scalar(b), {0}, {0, 0}); }},
    {"pad.5", [](Builder& b) { b.pad(matrix(b), scalar(b), {0, 0}, {0, 0}, {0, -1}); }},
    {"pad.6", [](Builder& b) { b.pad(matrix(b), scalar(b), {-3, 0}, {0, 0}); }},
    {"reverse.3", [](Builder& b) { b.reverse(matrix(b), {2}); }},
    {"strided_view.4", [](Builder& b) { b.strided_view(matrix(b), {2}, {1, 1}, 0); }},
    {"strided_view.5", [](Builder& b) { b.strided_view(matrix(b), {3}, {-1}, 1); }},
    {"dynamic_slice.3", [](Builder& b) { b.dynamic_slice(matrix(b), std::vector<Value>{scalar(b, DType::i64)}, {1, 1}); }},
    {"dynamic_slice.4", [](Builder& b) { b.dynamic_slice(matrix(b), std::vector<Value>{scalar(b), scalar(b)}, {1, 1}); }},
    {"dynamic_update_slice.5",
     [](Builder& b) {
       const Value zero = scalar(b, DType::i64);
       b.dynamic_update_slice(matrix(b), b.splat({DType::f32, {3, 3}}, 0), std::vector<Value>{zero, zero});
     }},
    {"dynamic_update_slice.6",
     [](Builder& b) {
       const Value zero = scalar(b, DType::i64);
       b.dynamic_update_slice(matrix(b), matrix(b, DType::f16), std::vector<Value>{zero, zero});
     }},
    {"reduce.3", [](Builder& b) { b.reduce(Reducer::add, matrix(b), {0, 0}); }},
    {"reduce.4", [](Builder& b) { b.reduce(Reducer::and_, matrix(b), {0}); }},
    {"arg_reduce.3", [](Builder& b) { b.arg_reduce(true, matrix(b), 2); }},
    {"arg_reduce.4", [](Builder& b) { b.arg_reduce(true, matrix(b, DType::c64), 0); }},
    {"arg_reduce.5", [](Builder& b) { b.arg_reduce(true, b.splat({DType::f32, {2, 0}}, 0), 1); }},
    {"scan.3", [](Builder& b) { b.scan(Reducer::add, scalar(b), 0); }},
    {"scan.4", [](Builder& b) { b.scan(Reducer::xor_, matrix(b, DType::i32), 0); }},
    {"dot_general.3", [](Builder& b) { b.dot_general(matrix(b), matrix(b, DType::f16), {{}, {}, {1}, {1}, DType::f32}); }},
    {"dot_general.4", [](Builder& b) { b.dot_general(matrix(b), matrix(b), {{1}, {1}, {1}, {1}, DType::f32}); }},
    {"dot_general.5", [](Builder& b) { b.dot_general(matrix(b), matrix(b), {{}, {}, {1}, {0}, DType::f32}); }},
    {"dot_general.6", [](Builder& b) { b.dot_general(matrix(b), matrix(b), {{}, {}, {1}, {1}, DType::i32}); }},
    {"gather.3", [](Builder& b) { b.gather(matrix(b), b.splat({DType::f32, {4}}, 0), rows()); }},
    {"gather.4", [](Builder& b) { gather_with(b, [](GatherAttrs& g) { g.start_index_map = {0, 1}; }); }},
    {"gather.5", [](Builder& b) { gather_with(b, [](GatherAttrs& g) { g.offset_dims = {2}; }); }},
    {"gather.6", [](Builder& b) { gather_with(b, [](GatherAttrs& g) { g.collapsed_slice_dims = {}; }); }},
    {"gather.7", [](Builder& b) { gather_with(b, [](GatherAttrs& g) { g.start_indices_batching_dims = {0}; }); }},
    {"gather.8", [](Builder& b) { gather_with(b, [](GatherAttrs& g) { g.start_index_map = {2}; }); }},
    {"gather.9", [](Builder& b) { gather_with(b, [](GatherAttrs& g) { g.slice_sizes = {1, 4}; }); }},
    {"gather.10", [](Builder& b) { gather_with(b, [](GatherAttrs& g) { g.slice_sizes = {2, 3}; }); }},
    {"scatter.9", [](Builder& b) { scatter_with(b, [](ScatterAttrs&) {}, {4, 3}, DType::f32, DType::f16); }},
    {"scatter.10", [](Builder& b) { scatter_with(b, [](ScatterAttrs&) {}, {4}); }},
    {"scatter.11", [](Builder& b) { scatter_with(b, [](ScatterAttrs&) {}, {5, 3}); }},
    {"scatter.12", [](Builder& b) { scatter_with(b, [](ScatterAttrs& s) { s.combine = Reducer::or_; }); }},
    {"sort.3", [](Builder& b) { b.sort(matrix(b), 2, false); }},
    {"sort.4", [](Builder& b) { b.sort(matrix(b, DType::c64), 0, false); }},
    {"top_k.3", [](Builder& b) { b.top_k(scalar(b), 1, true); }},
    {"top_k.4", [](Builder& b) { b.top_k(matrix(b, DType::c64), 1, true); }},
    {"top_k.5", [](Builder& b) { b.top_k(matrix(b), 4, true); }},
    {"rng_bit_generator.3", [](Builder& b) { b.rng_bits(scalar(b), scalar(b), {DType::u32, {2}}); }},
    {"rng_bit_generator.4", [](Builder& b) { b.rng_bits(scalar(b, DType::u64), scalar(b, DType::u64), {DType::f32, {2}}); }},
    {"attention.3", [](Builder& b) { b.attention(matrix(b), matrix(b), matrix(b), {}, {}, {}); }},
    {"attention.4", [](Builder& b) { b.attention(heads(b), heads(b, 4, 6), heads(b), {}, {}, {}); }},
    {"attention.6", [](Builder& b) { b.attention(heads(b), heads(b), heads(b), b.splat({DType::f32, {3, 4}}, 0), {}, {}); }},
    {"attention.7",
     [](Builder& b) { b.attention(heads(b), heads(b), heads(b), {}, b.splat({DType::boolean, {4, 4}}, 0), {}); }},
    {"attention_backward.8",
     [](Builder& b) {
       const Value lse = b.splat({DType::f64, {1, 2, 4}}, 0);
       b.attention_backward(heads(b), heads(b), heads(b), heads(b), heads(b), lse, {}, {}, {});
     }},
};

TEST(Verifier, EveryRuleThatIsBrokenIsNamedAndTheBuilderStaysUsable) {
  std::set<std::string> seen;
  for (const Violation& v : kViolations) {
    Graph graph;
    Builder b(graph);
    v.build(b);
    ASSERT_FALSE(b.status().ok()) << v.rule;
    EXPECT_EQ(b.status().code(), Code::invalid_argument) << v.rule;
    EXPECT_EQ(b.status().message().rfind(std::string(v.rule) + ": ", 0), 0u) << v.rule << " gave: " << b.status().message();
    seen.insert(v.rule);
    // Whatever follows does not crash and does not replace the first error.
    const std::string first = b.status().message();
    b.output(b.binary(Op::add, matrix(b), scalar(b)), {});
    EXPECT_EQ(b.status().message(), first);
  }
  EXPECT_EQ(seen.size(), kViolations.size());
  testing::record_claim("ir_verifier_rules", "verifier rules violated and named", static_cast<int64_t>(seen.size()), 70);
}

// --- rules of nodes and of the graph itself, on graphs that no Builder would make ---

Graph valid() {
  Graph graph;
  Builder b(graph);
  const Value x = b.parameter(kMatrix, 0, {3, 1});
  b.output(b.unary(Op::tanh, x), {3, 1}, 0);
  return graph;
}

void expect_violation(const Graph& graph, const std::string& rule) {
  const Status s = verify(graph);
  ASSERT_FALSE(s.ok()) << rule;
  EXPECT_NE(s.message().find(rule + ":"), std::string::npos) << s.message();
}

TEST(Verifier, AcceptsAValidGraph) { EXPECT_TRUE(verify(valid()).ok()); }

TEST(Verifier, NamesTheRuleOfArityAndAttributes) {
  Graph graph = valid();
  graph.nodes[1].operands.push_back({0, 0});
  expect_violation(graph, "tanh.1");
  graph = valid();
  graph.nodes[1].attrs = DimAttrs{};
  expect_violation(graph, "tanh.2");
  graph = valid();
  graph.nodes[1].op = Op::attention;
  expect_violation(graph, "attention.1");
}

TEST(Verifier, NamesTheRuleOfTheGraph) {
  Graph graph = valid();
  graph.nodes[1].operands[0] = {1, 0};
  expect_violation(graph, "graph.1");
  graph = valid();
  graph.nodes[1].types[0].shape = {3, 2};
  expect_violation(graph, "graph.2");
  graph = valid();
  graph.nodes[0].types[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
  expect_violation(graph, "graph.3");
  graph = valid();
  graph.outputs[0].value = {7, 0};
  expect_violation(graph, "graph.4");
  graph = valid();
  graph.outputs[0].strides = {1};
  expect_violation(graph, "graph.5");
  graph = valid();
  graph.outputs[0].alias = 1;
  expect_violation(graph, "graph.6");
  graph = valid();
  Builder(graph).parameter({DType::i32, {2}}, 0, {1});
  expect_violation(graph, "graph.7");
  graph = valid();
  graph.nodes[1].label = 5;
  expect_violation(graph, "graph.8");
}

TEST(Verifier, SaysWhichOperatorTheNodeCameFrom) {
  Graph graph;
  Builder b(graph);
  b.set_label("aten::tanh");
  b.unary(Op::tanh, b.splat({DType::f32, {2}}, 0));
  graph.nodes[1].types[0].dtype = DType::f64;
  EXPECT_NE(verify(graph).message().find("node 1 (tanh from aten::tanh)"), std::string::npos) << verify(graph).message();
}

TEST(Builder, LeavesOutNodesThatChangeNothing) {
  Graph graph;
  Builder b(graph);
  const Value x = matrix(b);
  EXPECT_EQ(b.convert(x, DType::f32), x);
  EXPECT_EQ(b.bitcast(x, DType::f32), x);
  EXPECT_EQ(b.reshape(x, {2, 3}), x);
  EXPECT_EQ(b.broadcast_to(x, {2, 3}), x);
}

TEST(Builder, BroadcastsByNumpysRules) {
  Graph graph;
  Builder b(graph);
  const Value x = b.broadcast_to(b.splat({DType::f32, {3, 1}}, 1), {4, 3, 5});
  EXPECT_EQ(b.type(x).shape, (std::vector<int64_t>{4, 3, 5}));
  EXPECT_EQ(std::get<DimsAttrs>(graph.node(x).attrs).dims, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(b.status().ok());
  b.broadcast_to(x, {5});
  EXPECT_FALSE(b.status().ok());
}

TEST(Builder, RefusesAnAbsentOperand) {
  Graph graph;
  Builder b(graph);
  EXPECT_TRUE(b.unary(Op::tanh, Value{}).present());
  EXPECT_NE(b.status().message().find("operand 0 is absent"), std::string::npos);
}

TEST(Printer, WritesOneLinePerNode) {
  EXPECT_EQ(print(valid()),
            "graph \n  %0 = parameter f32[2,3] () {index 0 strides [3,1]}\n  %1 = tanh f32[2,3] (%0)\n"
            "  output %1 strides [3,1] alias 0\n");
}

}  // namespace
}  // namespace neuron::ir
