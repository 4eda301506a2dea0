// Regions: the parts of a graph that become one loop nest each, in execution order, and where values live between them.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "compiler/compiler.h"
#include "compiler/expression.h"
#include "compiler/program_builder.h"
#include "ir/graph.h"

namespace neuron::compiler {

enum class RegionKind : uint8_t {
  loop,    // maps and reductions: the expression is everything
  matmul,  // dot_general, then the expression on its result (term kind external)
  node,    // one node with its own code (gather, sort, attention, ...); no expression
};

// A region's read of a materialised value from code of its own. `view` counts memory elements of the buffer of `base` per
// index of the operand's own dimensions (rank of `shape`); the operand may be a chain of views of `base`, and at most one
// conversion: its elements are read as `stored` and used as `dtype`.
//
// An operand with a prologue is in no buffer (`base` is absent): it is term `root` of an expression over its dimensions
// without those of size 1, computed tile by tile where it is read. `view` then says how the widest load moves.
struct Operand {
  ir::Value base;
  View view;
  std::vector<int64_t> shape;
  DType stored = DType::f32;
  DType dtype = DType::f32;
  Expression prologue;
  int32_t root = -1;
  bool has_prologue() const { return root >= 0; }
};

// Writes a term of the expression, or (kind node) result `result` of the node, to memory. `value` names the scratch buffer
// (it may be a view of the result, stored in the view's order). `view` counts memory elements of the destination over the
// expression's space; for kind node over the result's own dimensions.
struct Store {
  int32_t term = -1;
  int32_t result = 0;
  ir::Value value;
  int32_t output = -1;  // graph output, or -1: the scratch buffer of `value`
  View view;
};

struct Region {
  RegionKind kind = RegionKind::loop;
  int32_t node = -1;  // matmul, node: the node; loop: the first member
  Expression expression;
  std::vector<Operand> operands;  // matmul, node: one per operand of the node
  std::vector<Store> stores;
  std::vector<int32_t> members;
  // Reductions: true = a reduced row stays on the partition of its outer index (fuse.h, ReduceScheme::rows).
  bool rows = true;
  // kind node, in-place: result 0 is written over the buffer of operand 0 (which is the same memory).
  bool in_place = false;
};

// Calls visit(value) for every buffer that the region's operands are read from.
template <class Visit>
void visit_operand_sources(const Region& region, const Visit& visit) {
  for (const Operand& o : region.operands) {
    if (o.base.present()) visit(o.base);
    for (const Term& t : o.prologue.terms)
      if (t.kind == TermKind::load) visit(t.source);
  }
}

// One line: "loop space [128,768|r] exponential add reduce -> output0".
std::string to_string(const ir::Graph& graph, const Region& region);

// Where a materialised value lives.
struct Buffer {
  uint32_t tensor = 0;  // index into Program::tensors
  int64_t byte_offset = 0;
};

// Name of a scratch buffer with the layout of a graph output, for outputs that cannot be written in place yet.
inline ir::Value staging_of(int32_t output, int32_t result) { return {-2 - output, result}; }
inline bool is_staging(ir::Value v) { return v.node <= -2; }
inline int32_t staged_output(ir::Value v) { return -2 - v.node; }

struct FusionPlan {
  std::vector<Region> regions;
  // Values that live in the buffer of a graph output instead of scratch.
  std::vector<std::pair<ir::Value, int32_t>> value_in_output;
};

bool pass_enabled(const Options& options, std::string_view name);

// What emission code works with.
class EmitContext {
 public:
  EmitContext(const ir::Graph& graph, const Options& options, ProgramBuilder& builder)
      : graph(graph), options(options), builder(builder) {}

  const ir::Graph& graph;
  const Options& options;
  ProgramBuilder& builder;

  Buffer buffer(ir::Value value) const;  // parameters (scalars too), constants, materialised values
  Buffer destination(const Store& store) const;
  void set_buffer(ir::Value value, Buffer buffer) { buffers_[key(value)] = buffer; }
  void set_output(int32_t output, Buffer buffer);
  bool has_buffer(ir::Value value) const { return buffers_.count(key(value)) != 0; }
  const std::string& label_of(int32_t node) const;
  bool pass_enabled(std::string_view name) const { return compiler::pass_enabled(options, name); }

  // SBUF bytes per partition that one region may use.
  int64_t sbuf_budget() const { return static_cast<int64_t>(builder.target().sbuf_bytes_per_partition) / sbuf_divisor; }
  int64_t sbuf_divisor = 1;  // grows when a region's first tiling did not fit

 private:
  static int64_t key(ir::Value v) { return static_cast<int64_t>(v.node) * 8 + v.result; }
  std::unordered_map<int64_t, Buffer> buffers_;
  std::vector<Buffer> outputs_;
};

// Emission of one region (each in a file of its own). Attention and matmul: attention.h, matmul.h.
Status emit_loop_region(EmitContext& context, const Region& region);
Status emit_node_region(EmitContext& context, const Region& region);

}  // namespace neuron::compiler
