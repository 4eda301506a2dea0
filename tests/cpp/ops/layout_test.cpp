#include "ops/layout.h"

#include <gtest/gtest.h>

namespace neuron::ops {
namespace {

TEST(Layout, PointwiseResultsOfDensePermutedInputsKeepTheirPermutation) {
  const Operand x{{2, 3, 4}, {1, 2, 6}};
  EXPECT_EQ(iterator_strides({2, 3, 4}, std::vector<Operand>{x, x}), (Shape{1, 2, 6}));
}

TEST(Layout, PointwiseResultsOfSlicedInputsAreDenseInTheirOrderOfStrides) {
  const Operand x{{4, 3}, {2, 16}};  // every second element of a transposed tensor
  EXPECT_EQ(iterator_strides({4, 3}, std::vector<Operand>{x}), (Shape{1, 4}));
}

TEST(Layout, BroadcastOperandsDoNotDecideTheOrder) {
  const Operand row{{1, 3}, {3, 1}}, column{{4, 1}, {1, 4}};
  EXPECT_EQ(iterator_strides({4, 3}, std::vector<Operand>{row, column}), (Shape{3, 1}));
}

TEST(Layout, ChannelsLastIsKept) {
  const Operand x{{2, 3, 4, 5}, channels_last_strides({2, 3, 4, 5})};
  EXPECT_EQ(iterator_strides({2, 3, 4, 5}, std::vector<Operand>{x, x}), (Shape{60, 1, 15, 3}));
  EXPECT_EQ(suggested_format({2, 3, 4, 5}, x.strides), MemoryFormat::channels_last);
}

TEST(Layout, PreservedStridesOfExpandedDimsKeepTheirPlace) {
  // The example of PyTorch's own comment on infer_dense_strides.
  EXPECT_EQ(preserved_strides({6, 5, 4, 3, 2}, {6, 0, 120, 0, 1}), (Shape{6, 36, 180, 2, 1}));
}

TEST(Layout, ShapesThatDoNotBroadcastAreRefused) {
  EXPECT_FALSE(broadcast_shapes({2, 3}, {4}).has_value());
  EXPECT_EQ(*broadcast_shapes({2, 1}, {3}), (Shape{2, 3}));
  EXPECT_EQ(*broadcast_shapes({1}, {0}), (Shape{0}));
}

}  // namespace
}  // namespace neuron::ops
