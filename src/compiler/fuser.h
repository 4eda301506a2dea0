// The state of pass "fuse" (fuse.cpp: placement of nodes; fuse_resolve.cpp: accesses and terms).
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/fuse.h"

namespace neuron::compiler {

class Fuser {
 public:
  Fuser(const ir::Graph& graph, const Options& options) : graph_(graph), options_(options) {}
  Result<FusionPlan> run();

 private:
  struct NodeState {
    int32_t region = -1;   // member of, or produced by
    bool row = false;      // member that has been reduced
    bool inlined = false;  // evaluated where it is read
    bool empty = false;    // zero elements: never evaluated
    int32_t dep = -1;      // last region it needs
    int32_t weight = 0;    // operations that inlining it repeats
    int32_t loads = 0;     // tensors that inlining it reads
    int32_t depth = 0;
  };
  // Facts about a region under construction, beside Region itself.
  struct Building {
    std::vector<ir::Value> term_value;  // what a term is, and at which logical view; node -1 = not looked up
    std::vector<View> term_view;
    std::vector<int> phase;
    std::unordered_map<int64_t, std::vector<int32_t>> by_value;
    bool rows = true;  // ReduceScheme::rows, once something is reduced
  };
  enum class Outcome : uint8_t {
    ok,
    split,        // the region's space was refined: start again with fresh views
    conflict,     // the value is not available in this region at this view
    materialize,  // `value` must live in memory first
  };
  struct Resolved {
    Outcome outcome = Outcome::ok;
    int32_t term = -1;
    ir::Value value;
  };

  // fuse.cpp
  void count_uses();
  Status visit(int32_t node);
  bool may_inline(int32_t node);
  Status place_map(int32_t node);
  Status place_reduce(int32_t node);
  Status place_dot(int32_t node);
  Status place_node(int32_t node);
  Status place_concatenate(int32_t node);
  Status place_pad(int32_t node);
  void finish_regions();
  Status write_outputs();
  Status write_output(int32_t output);
  // Stores all of `value`, or the box of `shape` elements from `start`, where `store` says (its view is over the box's own
  // dimensions): from the region that computes it if that is possible, else with a region of its own.
  Status store_part(ir::Value value, const std::vector<int64_t>& start, const std::vector<int64_t>& shape, Store store);
  int32_t new_region(const std::vector<int64_t>& shape, int32_t node);
  void drop_last_region();
  bool try_join_map(int32_t region, int32_t node, ir::Value* missing);
  bool try_join_reduce(int32_t region, int32_t node, ir::Value* missing);
  bool room_for_more(const Region& region) const;
  Status materialize(ir::Value value);
  Status copy_to(ir::Value value, const std::vector<int64_t>& start, const std::vector<int64_t>& shape, Store store);
  void need_store(ir::Value value);
  Result<Operand> operand(ir::Value value, bool allow_convert);
  bool wants_prologue(ir::Value value, int64_t columns) const;
  std::optional<Operand> prologue(ir::Value value);  // nothing if no single expression reaches it

  Status place_under_views(ir::Value value);
  ir::Value look_through_views(ir::Value value, View* destination) const;

  // fuse_resolve.cpp
  Resolved resolve(int32_t region, ir::Value value, View view);
  Resolved resolve_leaf(int32_t region, ir::Value value, const View& view);
  Resolved resolve_map(int32_t region, ir::Value value, const View& view);
  Resolved load(int32_t region, ir::Value value, const View& logical, const View& memory);
  std::optional<int32_t> find_term(int32_t region, ir::Value value, const View& view) const;
  int32_t add_term(int32_t region, Term term, ir::Value value, const View& view);
  // Index of every dimension of `shape`, or a split applied, or failure.
  Outcome index_of(int32_t region, const View& view, const std::vector<int64_t>& shape, std::vector<View>* index);
  void split_space(int32_t region, const Split& split);
  View class_view(int32_t region, int32_t node) const;

  static int64_t key(ir::Value v) { return static_cast<int64_t>(v.node) * 8 + v.result; }
  // A parameter or constant may have a dense copy beside its own buffer: the copy is named by result 1.
  bool is_leaf(ir::Value value) const;
  ir::Value copy_name(ir::Value value) const;
  bool materialized_before(ir::Value value, int32_t region) const;

  const ir::Graph& graph_;
  const Options& options_;
  int32_t last_store_region_ = -1;  // where store_part put its store
  std::vector<NodeState> state_;
  std::vector<int32_t> uses_;  // consumers, looking through views; outputs count
  std::vector<uint8_t> is_output_;
  FusionPlan plan_;
  std::vector<Building> building_;               // one per region
  std::unordered_map<int64_t, int32_t> copies_;  // value -> region that stored a copy of it
};

}  // namespace neuron::compiler
