#include "compiler/matmul_space.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace neuron::compiler {
namespace {

// Sorting key of an index inside its role: outer indices have the larger strides, first in the output, then in the operands.
// Magnitudes, because a reversed index (negative stride) nests like its mirror image.
std::array<int64_t, 3> nesting_key(const MatmulDim& dim) {
  const auto magnitude = [&](int access) { return std::abs(dim.strides[access]); };
  if (dim.role == DimRole::k) return {magnitude(kLhs), magnitude(kRhs), 0};
  return {magnitude(kOut), magnitude(kLhs), magnitude(kRhs)};
}

bool contiguous_over(const MatmulDim& outer, const MatmulDim& inner) {
  for (size_t access = 0; access < outer.strides.size(); ++access) {
    if (outer.strides[access] != inner.strides[access] * inner.size) return false;
  }
  return true;
}

// True if any access of `side` moves along `dim`.
bool side_depends(const MatmulSpace& space, const MatmulDim& dim, MatmulSpace::Side side) {
  for (size_t access = 0; access < dim.strides.size(); ++access) {
    if (space.sides[access] == side && dim.strides[access] != 0) return true;
  }
  return false;
}

}  // namespace

int64_t MatmulSpace::elements(DimRole role) const {
  int64_t n = 1;
  for (const MatmulDim& dim : dims) {
    if (dim.role == role) n *= dim.size;
  }
  return n;
}

void collapse(MatmulSpace& space) {
  std::erase_if(space.dims, [](const MatmulDim& dim) { return dim.size == 1; });
  for (MatmulDim& dim : space.dims) {
    if (dim.role != DimRole::batch) continue;
    // A batch index that the right side ignores (x[b,s,k] w[k,n], or an expanded operand) is one more row index, and
    // likewise for columns. An index that neither side uses repeats the result: a row index of stride 0.
    if (!side_depends(space, dim, MatmulSpace::Side::rhs)) {
      dim.role = DimRole::m;
    } else if (!side_depends(space, dim, MatmulSpace::Side::lhs)) {
      dim.role = DimRole::n;
    }
  }
  std::stable_sort(space.dims.begin(), space.dims.end(), [](const MatmulDim& a, const MatmulDim& b) {
    if (a.role != b.role) return a.role < b.role;
    return nesting_key(a) > nesting_key(b);
  });
  std::vector<MatmulDim> merged;
  for (MatmulDim& dim : space.dims) {
    if (!merged.empty() && merged.back().role == dim.role && contiguous_over(merged.back(), dim)) {
      merged.back().size *= dim.size;
      merged.back().strides = dim.strides;
    } else {
      merged.push_back(std::move(dim));
    }
  }
  space.dims = std::move(merged);
}

MatmulAxes choose_axes(const MatmulSpace& space) {
  MatmulAxes axes;
  const auto longest = [&](DimRole role) {
    int best = -1;
    for (int d = 0; d < static_cast<int>(space.dims.size()); ++d) {
      if (space.dims[d].role == role && (best < 0 || space.dims[d].size >= space.dims[best].size)) best = d;
    }
    return best;
  };
  axes.m = longest(DimRole::m);
  axes.n = longest(DimRole::n);
  axes.k = longest(DimRole::k);
  for (int d = 0; d < static_cast<int>(space.dims.size()); ++d) {
    if (d == axes.m || d == axes.n || d == axes.k) continue;
    (space.dims[d].role == DimRole::k ? axes.inner_k : axes.outer).push_back(d);
  }
  return axes;
}

std::string to_string(const MatmulSpace& space) {
  static constexpr const char* kNames[] = {"b", "m", "n", "k"};
  std::string text;
  for (const MatmulDim& dim : space.dims) {
    text += text.empty() ? "" : " ";
    text += std::string(kNames[static_cast<int>(dim.role)]) + std::to_string(dim.size) + "(";
    for (size_t a = 0; a < dim.strides.size(); ++a) text += (a ? "," : "") + std::to_string(dim.strides[a]);
    text += ")";
  }
  return text;
}

}  // namespace neuron::compiler
