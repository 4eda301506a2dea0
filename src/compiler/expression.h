// The element-wise part of a region: a DAG of terms over one iteration space. Every term is evaluated at every point of the
// space (of its outer dimensions only, once it has been reduced); what a term does not depend on is known from its views, so
// emission computes it once per tile, per row or per loop, whichever is enough.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "compiler/affine.h"
#include "ir/graph.h"

namespace neuron::compiler {

enum class TermKind : uint8_t {
  load,       // element `view` (memory elements) of the buffer of `source`
  immediate,  // a constant number
  iota,       // the number `view` itself, as `dtype`
  random,     // Philox bits at counter `view` + offset; inputs = seed, offset
  op,         // element-wise node `node` of `inputs`
  reduce,     // reduction of inputs[0] over all reduced dimensions of the space
  external,   // produced by the region's own code (matmul result, gathered rows), handed to the emitter per tile
};

struct Term {
  TermKind kind = TermKind::op;
  DType dtype = DType::f32;
  int32_t node = -1;
  std::vector<int32_t> inputs;
  View view;
  ir::Value source;
  std::complex<double> number;  // immediate, floats
  int32_t stores = 0;           // how many stores of the region write it
  int64_t integer = 0;          // immediate, integers and bool (also u64 bit patterns)
};

struct Expression {
  std::vector<int64_t> extents;  // no dimension of size 1
  std::vector<uint8_t> reduced;  // 1 = a reduction runs over this dimension
  std::vector<Term> terms;       // inputs precede

  size_t rank() const { return extents.size(); }
  bool has_reduced() const;
  int64_t elements() const;
  int64_t outer_elements() const;  // without reduced dimensions
  View full_view() const;          // all points in order
  View row_view() const;           // all outer points in order

  // Drops terms that no root needs; returns the new number of every old term (-1 = dropped).
  std::vector<int32_t> prune(const std::vector<int32_t>& roots);

  // Bit d set: the term's value depends on space dimension d. One entry per term.
  std::vector<uint64_t> varies() const;
  // Number of reductions on the longest path to the term. One entry per term.
  std::vector<int> phases() const;
};

}  // namespace neuron::compiler
