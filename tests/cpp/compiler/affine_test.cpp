// Views through view operations: the element an access reaches is the element that the operation's definition names.
#include "compiler/affine.h"

#include <gtest/gtest.h>

namespace neuron::compiler {
namespace {

TEST(Affine, FlatRunOverSeveralDimensionsAsksForASplit) {
  const std::vector<int64_t> extents{24};
  Decomposition d = decompose({0, {1}}, extents, {2, 3, 4});
  ASSERT_EQ(d.kind, Decomposition::Kind::split);
  EXPECT_EQ(d.split.dim, 0u);
  EXPECT_EQ(d.split.inner, 4);
}

TEST(Affine, AlignedSpaceDecomposes) {
  const std::vector<int64_t> extents{2, 3, 4};
  Decomposition d = decompose({0, {12, 4, 1}}, extents, {2, 3, 4});
  ASSERT_EQ(d.kind, Decomposition::Kind::ok);
  for (size_t k = 0; k < 3; ++k)
    for (size_t j = 0; j < 3; ++j) EXPECT_EQ(d.index[k].strides[j], k == j ? 1 : 0);
}

TEST(Affine, NegativeStridesDecompose) {
  const std::vector<int64_t> extents{3, 4};
  Decomposition d = decompose({11, {-4, -1}}, extents, {3, 4});
  ASSERT_EQ(d.kind, Decomposition::Kind::ok);
  EXPECT_EQ(d.index[0].offset, 2);
  EXPECT_EQ(d.index[0].strides[0], -1);
  EXPECT_EQ(d.index[1].offset, 3);
  EXPECT_EQ(d.index[1].strides[1], -1);
}

TEST(Affine, RunsThatDoNotDivideAreImpossible) {
  const std::vector<int64_t> extents{2, 6};
  EXPECT_EQ(decompose({0, {6, 1}}, extents, {3, 4}).kind, Decomposition::Kind::impossible);
}

TEST(Affine, SliceOfReverseOfTranspose) {
  ir::Node slice;
  slice.op = ir::Op::slice;
  slice.attrs = ir::SliceAttrs{{1, 0}, {3, 4}, {1, 2}};
  slice.types = {{DType::f32, {2, 2}}};
  const std::vector<int64_t> extents{2, 2};
  Decomposition d = decompose(identity_view(extents), extents, {2, 2});
  ASSERT_EQ(d.kind, Decomposition::Kind::ok);
  View v = through_view_op(slice, {3, 4}, identity_view(extents), d.index);  // element (1+i)*4 + 2j
  EXPECT_EQ(v.offset, 4);
  EXPECT_EQ(v.strides, (std::vector<int64_t>{4, 2}));
  ir::Node reverse;
  reverse.op = ir::Op::reverse;
  reverse.attrs = ir::DimsAttrs{{0}};
  reverse.types = {{DType::f32, {3, 4}}};
  d = decompose(v, extents, {3, 4});
  ASSERT_EQ(d.kind, Decomposition::Kind::ok);
  v = through_view_op(reverse, {3, 4}, v, d.index);  // element (2-(1+i))*4 + 2j
  EXPECT_EQ(v.offset, 4);
  EXPECT_EQ(v.strides, (std::vector<int64_t>{-4, 2}));
  ir::Node transpose;
  transpose.op = ir::Op::transpose;
  transpose.attrs = ir::DimsAttrs{{1, 0}};
  transpose.types = {{DType::f32, {3, 4}}};
  d = decompose(v, extents, {3, 4});
  ASSERT_EQ(d.kind, Decomposition::Kind::ok);
  v = through_view_op(transpose, {4, 3}, v, d.index);  // element 2j*3 + (1-i)
  EXPECT_EQ(v.offset, 1);
  EXPECT_EQ(v.strides, (std::vector<int64_t>{-1, 6}));
}

TEST(Affine, SplitsKeepTheElements) {
  View v{5, {7, 3}};
  apply_split(v, {1, 4});
  EXPECT_EQ(v.strides, (std::vector<int64_t>{7, 12, 3}));
}

}  // namespace
}  // namespace neuron::compiler
