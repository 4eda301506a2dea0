// Attention forward and backward regions against ir::evaluate: tails, causal, masks of every kind and broadcast, fully
// masked rows, dropout, strided operands, keys beyond one block, every dtype (f64 through the expansion).
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "claims.h"
#include "compiler/attention_expansion.h"
#include "compiler/matmul_runner.h"

namespace neuron::compiler {
namespace {

using namespace testing;
using ir::Builder;
using ir::Type;
using ir::Value;

int64_t programs_checked = 0;

enum class Mask { none, boolean, additive };

struct Case {
  std::vector<int64_t> q, k;  // [B, H, S, D]
  int64_t value_dim = 0;      // 0 = D
  DType dtype = DType::f32;
  bool causal = false;
  Mask mask = Mask::none;
  std::vector<int64_t> mask_shape;  // empty = [B, H, Sq, Sk]
  bool keep = false;
  bool strided = false;
  double scale = 0;  // 0 = 1/sqrt(D)
  bool empty_rows = false;
};

struct Built {
  ir::Graph graph;
  std::vector<ir::Literal> inputs;
};

class GraphOf {
 public:
  GraphOf(const Case& c, std::mt19937_64& rng) : c_(c), rng_(rng), b_(built_.graph) {}

  // For compiling only: inputs stay empty.
  GraphOf& without_values() {
    values_ = false;
    return *this;
  }

  Built forward() {
    const auto [q, k, v, mask, keep] = inputs();
    const Value out = b_.attention(q, k, v, mask, keep, attrs());
    output(out);
    output({out.node, 1});
    return std::move(built_);
  }

  // The gradient of an attention computed in the same graph (from the same inputs).
  Built backward() {
    const auto [q, k, v, mask, keep] = inputs();
    const Value out = b_.attention(q, k, v, mask, keep, attrs());
    const Value grad = input(b_.type(out), c_.strided);
    const Value dq = b_.attention_backward(grad, q, k, v, out, {out.node, 1}, mask, keep, attrs());
    for (int32_t r = 0; r < 3; ++r) output({dq.node, r});
    return std::move(built_);
  }

 private:
  struct Inputs {
    Value q, k, v, mask, keep;
  };

  ir::AttentionAttrs attrs() const {
    ir::AttentionAttrs a;
    a.scale = c_.scale != 0 ? c_.scale : 1 / std::sqrt(static_cast<double>(c_.q[3]));
    a.causal = c_.causal;
    a.has_mask = c_.mask != Mask::none;
    a.has_keep = c_.keep;
    a.keep_scale = c_.keep ? 1.25 : 1.0;
    return a;
  }

  Value input(const Type& type, bool strided) {
    built_.inputs.push_back(values_ ? random_literal(type, rng_) : ir::Literal{});
    return b_.parameter(type, static_cast<int32_t>(built_.inputs.size()) - 1,
                        strided ? random_strides(type.shape, rng_) : ir::contiguous_strides(type.shape));
  }

  void output(Value v) {
    const auto& shape = b_.type(v).shape;
    b_.output(v, c_.strided ? random_strides(shape, rng_) : ir::contiguous_strides(shape));
  }

  Inputs inputs() {
    Inputs in;
    in.q = input({c_.dtype, c_.q}, c_.strided);
    in.k = input({c_.dtype, c_.k}, c_.strided);
    std::vector<int64_t> v_shape = c_.k;
    if (c_.value_dim) v_shape[3] = c_.value_dim;
    in.v = input({c_.dtype, v_shape}, c_.strided);
    std::vector<int64_t> full = {c_.q[0], c_.q[1], c_.q[2], c_.k[2]};
    if (c_.mask != Mask::none) {
      const std::vector<int64_t> shape = c_.mask_shape.empty() ? full : c_.mask_shape;
      in.mask = input({c_.mask == Mask::boolean ? DType::boolean : c_.dtype, shape}, c_.strided);
      if (c_.empty_rows) empty_first_row(built_.inputs.back());
    }
    if (c_.keep) in.keep = input({DType::boolean, full}, false);
    return in;
  }

  void empty_first_row(ir::Literal& mask) {
    const size_t element = size_of(mask.type.dtype);
    for (int64_t i = 0; i < mask.type.shape.back(); ++i) {
      uint8_t* p = mask.data.data() + static_cast<size_t>(i) * element;
      if (mask.type.dtype == DType::boolean) {
        *p = 0;
      } else {
        ir::store(mask.type.dtype, p, -std::numeric_limits<double>::infinity());
      }
    }
  }

  const Case& c_;
  std::mt19937_64& rng_;
  bool values_ = true;
  Built built_;
  Builder b_;
};

void check(const Built& built, std::mt19937_64& rng, double scale) {
  ASSERT_TRUE(ir::verify(built.graph).ok()) << ir::verify(built.graph).message();
  auto expected = ir::evaluate(built.graph, built.inputs, {});
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  auto actual = run(built.graph, built.inputs, Executed::interpreter);
  ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n" << ir::print(built.graph);
  for (size_t i = 0; i < expected->size(); ++i) {
    ASSERT_EQ(difference((*expected)[i], (*actual)[i], scale), "") << "output " << i << "\n" << ir::print(built.graph);
  }
  auto shuffled = run(built.graph, built.inputs, Executed::shuffled, rng());
  ASSERT_TRUE(shuffled.ok()) << shuffled.status().message();
  ASSERT_TRUE(same_bits(*actual, *shuffled)) << "shuffled\n" << ir::print(built.graph);
  auto plan = run(built.graph, built.inputs, Executed::plan, 0, 1 + static_cast<int>(rng() % 3));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_TRUE(same_bits(*actual, *plan)) << "plan\n" << ir::print(built.graph);
  ++programs_checked;
}

void check_both(const Case& c, uint64_t seed, double scale = 1.0) {
  std::mt19937_64 rng(seed);
  check(GraphOf(c, rng).forward(), rng, scale);
  check(GraphOf(c, rng).backward(), rng, scale * 2);
}

TEST(Attention, EveryTailOfQueriesKeysAndHeadDimension) {
  check_both({.q = {1, 1, 1, 1}, .k = {1, 1, 1, 1}}, 1);
  check_both({.q = {2, 2, 33, 16}, .k = {2, 2, 33, 16}}, 2);
  check_both({.q = {1, 2, 130, 8}, .k = {1, 2, 257, 8}}, 3);
  check_both({.q = {1, 1, 256, 64}, .k = {1, 1, 256, 64}}, 4);
  check_both({.q = {1, 2, 1, 24}, .k = {1, 2, 150, 24}}, 5);
  check_both({.q = {1, 1, 40, 130}, .k = {1, 1, 50, 130}, .value_dim = 140}, 6);
  check_both({.q = {1, 1, 40, 20}, .k = {1, 1, 50, 20}, .value_dim = 7}, 7);
}

TEST(Attention, CausalSkipsWhatNoQueryMaySee) {
  for (const int64_t queries : {1, 5, 128, 130, 300}) {
    for (const int64_t keys : {1, 7, 128, 200, 300}) {
      check_both({.q = {1, 2, queries, 8}, .k = {1, 2, keys, 8}, .causal = true}, 100 + queries + keys);
    }
  }
}

TEST(Attention, MasksOfEveryKindAndBroadcast) {
  uint64_t seed = 200;
  for (const Mask mask : {Mask::boolean, Mask::additive}) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{}, {1, 1, 140, 150}, {2, 1, 1, 150}, {140, 150}, {1, 3, 140, 1}}) {
      check_both({.q = {2, 3, 140, 8}, .k = {2, 3, 150, 8}, .mask = mask, .mask_shape = shape}, ++seed);
    }
    check_both({.q = {2, 3, 140, 8}, .k = {2, 3, 150, 8}, .causal = true, .mask = mask}, ++seed);
  }
}

TEST(Attention, RowsWithoutAnyKeyAreZeroAndSoAreTheirGradients) {
  for (const Mask mask : {Mask::boolean, Mask::additive}) {
    check_both({.q = {1, 2, 20, 8}, .k = {1, 2, 30, 8}, .mask = mask, .empty_rows = true}, 300);
    check_both({.q = {1, 1, 20, 8}, .k = {1, 1, 1100, 8}, .mask = mask, .empty_rows = true}, 301);
  }
}

TEST(Attention, DropoutUsesTheKeepMaskAndItsScale) {
  check_both({.q = {2, 2, 140, 16}, .k = {2, 2, 150, 16}, .keep = true}, 400);
  check_both({.q = {1, 2, 140, 16}, .k = {1, 2, 140, 16}, .causal = true, .mask = Mask::boolean, .keep = true}, 401);
}

TEST(Attention, AnyStridesAndAnyScale) {
  check_both({.q = {2, 3, 70, 16}, .k = {2, 3, 90, 16}, .mask = Mask::additive, .strided = true}, 500);
  check_both({.q = {2, 3, 70, 16}, .k = {2, 3, 90, 16}, .causal = true, .strided = true}, 501);
  check_both({.q = {1, 3, 70, 16}, .k = {1, 3, 90, 16}, .mask = Mask::boolean, .scale = -0.5}, 502);
  check_both({.q = {1, 3, 70, 16}, .k = {1, 3, 90, 16}, .causal = true, .scale = 3.0}, 503, 4.0);
}

TEST(Attention, EveryDtype) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    SCOPED_TRACE(name_of(dtype));
    check_both({.q = {1, 2, 150, 32}, .k = {1, 2, 140, 32}, .dtype = dtype, .causal = true}, 600);
    check_both({.q = {1, 2, 20, 16}, .k = {1, 2, 30, 16}, .dtype = dtype, .mask = Mask::additive, .keep = true}, 601);
  }
}

TEST(Attention, KeysBeyondOneBlockUseRunningStatistics) {
  check_both({.q = {1, 1, 40, 16}, .k = {1, 1, 1024, 16}}, 700);
  check_both({.q = {1, 1, 40, 16}, .k = {1, 1, 1025, 16}}, 701);
  check_both({.q = {1, 1, 20, 16}, .k = {1, 1, 2300, 16}, .mask = Mask::additive}, 702);
  check_both({.q = {1, 1, 1200, 8}, .k = {1, 1, 1200, 8}, .causal = true}, 703);
  check_both({.q = {1, 1, 9, 300}, .k = {1, 1, 9000, 300}}, 704);
}

TEST(Attention, LongSequencesOfSeveralHeadsFitOnChip) {
  for (const bool causal : {false, true}) {
    for (const auto& [queries, keys, dim] : std::vector<std::array<int64_t, 3>>{{1024, 1024, 64},
                                                                                {1000, 1000, 128},
                                                                                {2048, 2048, 64},
                                                                                {4096, 4096, 128},
                                                                                {300, 8192, 128},
                                                                                {1100, 1100, 512}}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        for (const Mask mask : {Mask::none, Mask::additive}) {
          std::mt19937_64 rng(900);
          const Case c{.q = {2, 2, queries, dim},
                       .k = {2, 2, keys, dim},
                       .dtype = dtype,
                       .causal = causal,
                       .mask = mask,
                       .mask_shape = {1, 1, queries, keys},
                       .keep = mask != Mask::none};
          for (const bool backward : {false, true}) {
            const ir::Graph graph = backward ? GraphOf(c, rng).without_values().backward().graph
                                             : GraphOf(c, rng).without_values().forward().graph;
            auto program = compile(graph);
            ASSERT_TRUE(program.ok()) << program.status().message() << "\n" << ir::print(graph);
            const Status valid = isa::validate(*program);
            ASSERT_TRUE(valid.ok()) << valid.message();
          }
        }
      }
    }
  }
}

TEST(AttentionExpansion, GivesTheSameValuesAsTheOperator) {
  std::mt19937_64 rng(800);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Mask mask : {Mask::none, Mask::boolean, Mask::additive}) {
      const Case c{.q = {2, 2, 9, 4},
                   .k = {2, 2, 11, 4},
                   .value_dim = 5,
                   .dtype = dtype,
                   .causal = mask == Mask::none,
                   .mask = mask,
                   .keep = mask == Mask::boolean,
                   .empty_rows = mask != Mask::none};
      for (const bool backward : {false, true}) {
        const Built built = backward ? GraphOf(c, rng).backward() : GraphOf(c, rng).forward();
        const auto expanded = expand_attention(built.graph, [](const ir::Graph&, const ir::Node&) { return true; });
        ASSERT_TRUE(expanded.ok()) << expanded.status().message();
        ASSERT_TRUE(ir::verify(*expanded).ok()) << ir::verify(*expanded).message();
        auto expected = ir::evaluate(built.graph, built.inputs, {});
        auto actual = ir::evaluate(*expanded, built.inputs, {});
        ASSERT_TRUE(expected.ok() && actual.ok());
        for (size_t i = 0; i < expected->size(); ++i) EXPECT_EQ(difference((*expected)[i], (*actual)[i], 2.0), "");
      }
    }
  }
}

TEST(Attention, CountsItsPrograms) {
  neuron::testing::record_claim("compiler_attention", "attention programs equal to ir::evaluate, shuffled and on the plan",
                                programs_checked, 90);
}

}  // namespace
}  // namespace neuron::compiler
