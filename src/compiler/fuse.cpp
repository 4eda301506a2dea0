#include "compiler/fuse.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/fuser.h"
#include "ir/op_info.h"

namespace neuron::compiler {

namespace {

constexpr int32_t kMaxInlineWeight = 24;  // operations repeated by inlining a single-use node
constexpr int32_t kMaxInlineDepth = 32;
constexpr int32_t kCheapWeight = 6;  // operations that may be repeated in several regions
constexpr int32_t kMaxPrologueWeight = 6;
constexpr int64_t kMaxPrologueColumns = 1024;  // two blocks of the moving operand
constexpr size_t kMaxTerms = 300;              // of one region
constexpr size_t kMaxStores = 40;
constexpr size_t kMaxSiblingTerms = 48;  // of a region that takes in nodes it shares no value with
constexpr int64_t kRowsWorthPartitions = 16;

// A gather of at least the whole operand whose windows are not runs of memory: their parts would travel alone, and a dense
// copy of the operand costs less.
bool gathers_parts(const ir::Node& gather, const Operand& operand) {
  const auto& sizes = std::get<ir::GatherAttrs>(gather.attrs).slice_sizes;
  int64_t elements = 1, run = 1;
  for (int64_t e : operand.shape) elements *= e;
  if (gather.types[0].elements() < elements) return false;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (operand.view.strides[d] != run) return true;
    run *= sizes[d];
  }
  return false;
}

bool is_leaf_op(ir::Op op) { return op == ir::Op::parameter || op == ir::Op::constant || op == ir::Op::iota; }

std::vector<int64_t> without_ones(const std::vector<int64_t>& shape) {
  std::vector<int64_t> r;
  for (int64_t e : shape)
    if (e != 1) r.push_back(e);
  return r;
}

}  // namespace

bool is_map_op(ir::Op op) {
  switch (op) {
    case ir::Op::convert:
    case ir::Op::bitcast_convert:
    case ir::Op::complex:
    case ir::Op::compare:
    case ir::Op::select:
    case ir::Op::clamp:
    case ir::Op::rng_bit_generator:
      return true;
    default:
      return ir::info(op).form != ir::Form::other;
  }
}

ReduceScheme choose_reduce_scheme(const Expression& e) {
  const int64_t outer = e.outer_elements();
  if (outer == 1) return e.elements() <= 2048 ? ReduceScheme::rows : ReduceScheme::columns;
  if (e.reduced.back())
    return outer >= kRowsWorthPartitions || e.elements() <= 4096 ? ReduceScheme::rows : ReduceScheme::columns;
  // The fastest dimension stays: other outer dimensions must fill the partitions.
  const int64_t others = outer / e.extents.back();
  return others >= kRowsWorthPartitions ? ReduceScheme::rows : ReduceScheme::columns;
}

void Fuser::count_uses() {
  const size_t n = graph_.nodes.size();
  uses_.assign(n, 0);
  is_output_.assign(n, 0);
  for (const ir::Output& o : graph_.outputs) {
    is_output_[static_cast<size_t>(o.value.node)] = 1;
    ++uses_[static_cast<size_t>(o.value.node)];
  }
  for (size_t i = n; i-- > 0;) {
    const ir::Node& node = graph_.nodes[i];
    const int32_t times = is_view_op(node.op) ? uses_[i] : 1;
    for (ir::Value v : node.operands) uses_[static_cast<size_t>(v.node)] += times;
  }
}

bool Fuser::may_inline(int32_t id) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  NodeState& s = state_[static_cast<size_t>(id)];
  s.weight = 1;
  for (ir::Value v : node.operands) {
    const NodeState& o = state_[static_cast<size_t>(v.node)];
    if (o.region < 0) {
      s.weight += o.weight;
      s.loads += o.loads;
      s.depth = std::max(s.depth, o.depth + 1);
    } else {
      ++s.loads;
    }
  }
  if (is_output_[static_cast<size_t>(id)] || s.depth > kMaxInlineDepth) return false;
  if (!pass_enabled(options_, "fuse")) return false;
  const int32_t uses = uses_[static_cast<size_t>(id)];
  if (uses <= 1) return s.weight <= kMaxInlineWeight;
  if (node.op == ir::Op::rng_bit_generator) return false;
  if (s.loads == 0 && s.weight <= kCheapWeight) return true;
  return node.op == ir::Op::convert && s.dep < 0 && s.loads <= 1 && s.weight <= 2;
}

int32_t Fuser::new_region(const std::vector<int64_t>& shape, int32_t node) {
  Region r;
  r.node = node;
  r.expression.extents = without_ones(shape);
  r.expression.reduced.assign(r.expression.extents.size(), 0);
  plan_.regions.push_back(std::move(r));
  building_.emplace_back();
  return static_cast<int32_t>(plan_.regions.size()) - 1;
}

void Fuser::drop_last_region() {
  plan_.regions.pop_back();
  building_.pop_back();
}

bool Fuser::room_for_more(const Region& r) const {
  if (r.expression.terms.size() >= kMaxTerms || r.stores.size() >= kMaxStores) return false;
  return pass_enabled(options_, "fuse");
}

bool Fuser::try_join_map(int32_t region, int32_t id, ir::Value* missing) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  NodeState& s = state_[static_cast<size_t>(id)];
  const int64_t n = node.types[0].elements();
  for (int attempt = 0; attempt < 40; ++attempt) {
    const Expression& e = plan_.regions[static_cast<size_t>(region)].expression;
    if (e.has_reduced() && n == e.outer_elements()) {
      s.row = true;
    } else if (n == e.elements()) {
      s.row = false;
    } else {
      return false;
    }
    const View view = class_view(region, id);
    Resolved r = resolve_map(region, {id, 0}, view);
    if (r.outcome == Outcome::split) continue;
    if (r.outcome == Outcome::materialize) *missing = r.value;
    if (r.outcome != Outcome::ok) break;
    const Building& b = building_[static_cast<size_t>(region)];
    // Across partitions there is no way back from a reduced value to the points it came from.
    if (!s.row && !b.rows && b.phase[static_cast<size_t>(r.term)] > 0) break;
    s.region = region;
    s.dep = region;
    plan_.regions[static_cast<size_t>(region)].members.push_back(id);
    return true;
  }
  s.row = false;
  return false;
}

Status Fuser::place_map(int32_t id) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  NodeState& s = state_[static_cast<size_t>(id)];
  s.inlined = false;
  const int32_t dep = s.dep, last = static_cast<int32_t>(plan_.regions.size()) - 1;
  ir::Value missing;
  if (dep >= 0 && room_for_more(plan_.regions[static_cast<size_t>(dep)]) &&
      plan_.regions[static_cast<size_t>(dep)].kind != RegionKind::node && try_join_map(dep, id, &missing))
    return {};
  if (last > dep) {
    const Region& r = plan_.regions[static_cast<size_t>(last)];
    if (r.kind == RegionKind::loop && r.expression.terms.size() <= kMaxSiblingTerms && !r.expression.has_reduced() &&
        room_for_more(r) && try_join_map(last, id, &missing))
      return {};
  }
  for (int attempt = 0; attempt < 64; ++attempt) {
    missing = {};
    const int32_t fresh = new_region(node.types[0].shape, id);
    if (try_join_map(fresh, id, &missing)) return {};
    drop_last_region();
    if (!missing.present()) break;
    NEURON_RETURN_IF_ERROR(materialize(missing));
  }
  return internal_error("fuse: cannot reach the operands of " + std::string(ir::name_of(node.op)));
}

bool Fuser::try_join_reduce(int32_t region, int32_t id, ir::Value* missing) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  const ir::Value operand = node.operands[0];
  const ir::Type& type = graph_.type(operand);
  const auto& dims = std::get<ir::ReduceAttrs>(node.attrs).dims;
  for (int attempt = 0; attempt < 40; ++attempt) {
    Region& r = plan_.regions[static_cast<size_t>(region)];
    Building& b = building_[static_cast<size_t>(region)];
    if (type.elements() != r.expression.elements()) return false;
    std::vector<View> index;
    Outcome o = index_of(region, r.expression.full_view(), type.shape, &index);
    if (o == Outcome::split) continue;
    if (o != Outcome::ok) return false;
    std::vector<uint8_t> reduced(r.expression.rank(), 0);
    for (int64_t k : dims)
      for (size_t d = 0; d < reduced.size(); ++d)
        if (index[static_cast<size_t>(k)].strides[d] != 0) reduced[d] = 1;
    if (r.expression.has_reduced() && reduced != r.expression.reduced) return false;
    Resolved x = resolve(region, operand, r.expression.full_view());
    if (x.outcome == Outcome::split) continue;
    if (x.outcome == Outcome::materialize) *missing = x.value;
    if (x.outcome != Outcome::ok) return false;
    if (!b.rows && b.phase[static_cast<size_t>(x.term)] > 0) return false;
    if (!r.expression.has_reduced()) {
      r.expression.reduced = reduced;
      b.rows = choose_reduce_scheme(r.expression) == ReduceScheme::rows;
    }
    NodeState& s = state_[static_cast<size_t>(id)];
    s.row = true;
    s.region = s.dep = region;
    Term t;
    t.kind = TermKind::reduce;
    t.dtype = node.types[0].dtype;
    t.node = id;
    t.inputs = {x.term};
    const View view = r.expression.row_view();
    add_term(region, std::move(t), {id, 0}, view);
    r.members.push_back(id);
    return true;
  }
  return false;
}

Status Fuser::place_reduce(int32_t id) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  NodeState& s = state_[static_cast<size_t>(id)];
  ir::Value missing;
  const int32_t last = static_cast<int32_t>(plan_.regions.size()) - 1;
  if (s.dep >= 0) {
    const Region& r = plan_.regions[static_cast<size_t>(s.dep)];
    if (r.kind == RegionKind::loop && room_for_more(r) && try_join_reduce(s.dep, id, &missing)) return {};
  }
  if (last > s.dep) {
    const Region& r = plan_.regions[static_cast<size_t>(last)];
    if (r.kind == RegionKind::loop && r.expression.has_reduced() && r.expression.terms.size() <= kMaxSiblingTerms &&
        room_for_more(r) && try_join_reduce(last, id, &missing))
      return {};
  }
  for (int attempt = 0; attempt < 64; ++attempt) {
    missing = {};
    const int32_t fresh = new_region(graph_.type(node.operands[0]).shape, id);
    if (try_join_reduce(fresh, id, &missing)) return {};
    drop_last_region();
    if (!missing.present()) break;
    NEURON_RETURN_IF_ERROR(materialize(missing));
  }
  return internal_error("fuse: cannot reach the operand of a reduce");
}

void Fuser::need_store(ir::Value value) {
  const int32_t region = state_[static_cast<size_t>(value.node)].region;
  Region& r = plan_.regions[static_cast<size_t>(region)];
  for (const Store& s : r.stores)
    if (s.value == value && s.output < 0) return;
  Store s;
  s.value = value;
  s.result = value.result;
  if (r.kind == RegionKind::node) {
    s.view = identity_view(graph_.type(value).shape);
  } else {
    s.view = class_view(region, value.node);
    s.term = *find_term(region, value, s.view);
  }
  r.stores.push_back(std::move(s));
}

Status Fuser::materialize(ir::Value value) {
  NodeState& s = state_[static_cast<size_t>(value.node)];
  const ir::Node& node = graph_.node(value);
  if (s.region >= 0) {
    need_store(value);
    return {};
  }
  if (is_map_op(node.op)) return place_map(value.node);
  const std::vector<int64_t>& shape = node.types[0].shape;
  Store store;
  store.value = copy_name(value);
  store.view = identity_view(shape);
  View permuted = store.view;
  const ir::Value member = look_through_views(value, &permuted);
  if (!(member == value)) {  // its own region stores it in this order
    NEURON_RETURN_IF_ERROR(store_part(value, std::vector<int64_t>(shape.size(), 0), shape, std::move(store)));
    copies_[key(value)] = last_store_region_;
    return {};
  }
  NEURON_RETURN_IF_ERROR(copy_to(value, std::vector<int64_t>(shape.size(), 0), shape, std::move(store)));
  copies_[key(value)] = static_cast<int32_t>(plan_.regions.size()) - 1;
  return {};
}

Result<Operand> Fuser::operand(ir::Value value, bool allow_convert) {
  Operand out;
  out.shape = graph_.type(value).shape;
  out.dtype = graph_.type(value).dtype;
  View view = identity_view(out.shape);
  bool converted = false;
  for (;;) {
    const ir::Node& node = graph_.node(value);
    const NodeState& s = state_[static_cast<size_t>(value.node)];
    out.base = value;
    out.stored = graph_.type(value).dtype;
    if (s.region >= 0) {
      need_store(value);
      out.view = view;
      return out;
    }
    if (copies_.count(key(value))) {
      out.base = copy_name(value);
      out.view = view;
      return out;
    }
    if (node.op == ir::Op::parameter || (node.op == ir::Op::constant && !std::get<ir::ConstantAttrs>(node.attrs).splat)) {
      const auto* a = std::get_if<ir::ParameterAttrs>(&node.attrs);
      if (a == nullptr || a->kind == ir::ParameterAttrs::Kind::scalar || a->strides == dense_strides(node.types[0].shape)) {
        out.view = view;
        return out;
      }
      Decomposition d = decompose(view, out.shape, node.types[0].shape);
      if (d.kind == Decomposition::Kind::ok) {
        out.view = combine(d.index, a->strides, out.shape.size());
        return out;
      }
    } else if (is_view_op(node.op)) {
      Decomposition d;
      if (!is_flat_view_op(node.op)) d = decompose(view, out.shape, node.types[0].shape);
      if (is_flat_view_op(node.op) || d.kind == Decomposition::Kind::ok) {
        view = through_view_op(node, graph_.type(node.operands[0]).shape, view, d.index);
        value = node.operands[0];
        continue;
      }
    } else if (node.op == ir::Op::convert && allow_convert && !converted && !is_complex(out.dtype) &&
               size_of(out.dtype) <= 4 && size_of(graph_.type(node.operands[0]).dtype) <= 4) {
      converted = true;
      value = node.operands[0];
      continue;
    }
    NEURON_RETURN_IF_ERROR(materialize(value));
  }
}

// Whether the product should compute this operand as it reads it: short element-wise work on buffers that no earlier region
// could do in passing (dequantised or scaled weights, a masked gradient). Not where the operand would be computed more than
// twice, which is the left one's fate with many columns.
bool Fuser::wants_prologue(ir::Value value, int64_t columns) const {
  while (is_view_op(graph_.node(value).op)) {
    if (copies_.count(key(value))) return false;
    value = graph_.node(value).operands[0];
  }
  const ir::Node& node = graph_.node(value);
  const NodeState& s = state_[static_cast<size_t>(value.node)];
  if (!is_map_op(node.op) || node.op == ir::Op::convert || s.region >= 0 || copies_.count(key(value))) return false;
  if (s.dep >= 0 && plan_.regions[static_cast<size_t>(s.dep)].kind != RegionKind::node) return false;
  const DType dtype = node.types[0].dtype;
  return is_floating(dtype) && size_of(dtype) <= 4 && s.weight <= kMaxPrologueWeight && s.loads >= 1 &&
         columns <= kMaxPrologueColumns && pass_enabled(options_, "fuse") && pass_enabled(options_, "prologue");
}

std::optional<Operand> Fuser::prologue(ir::Value value) {
  Operand out;
  out.shape = graph_.type(value).shape;
  out.stored = out.dtype = graph_.type(value).dtype;
  const int32_t region = new_region(out.shape, value.node);
  const std::vector<int64_t> extents = plan_.regions[static_cast<size_t>(region)].expression.extents;
  const Resolved r = resolve(region, value, plan_.regions[static_cast<size_t>(region)].expression.full_view());
  Expression e = std::move(plan_.regions[static_cast<size_t>(region)].expression);
  drop_last_region();
  if (r.outcome != Outcome::ok || e.extents != extents) return std::nullopt;
  const Term* widest = nullptr;
  for (const Term& t : e.terms) {
    if (t.kind != TermKind::load && t.kind != TermKind::op && t.kind != TermKind::immediate) return std::nullopt;
    const auto moves = [](int64_t stride) { return stride != 0; };
    if (t.kind == TermKind::load && std::all_of(t.view.strides.begin(), t.view.strides.end(), moves)) widest = &t;
  }
  if (widest == nullptr) return std::nullopt;
  size_t next = 0;
  for (int64_t size : out.shape) out.view.strides.push_back(size == 1 ? 0 : widest->view.strides[next++]);
  out.root = r.term;
  out.prologue = std::move(e);
  return out;
}

Status Fuser::place_dot(int32_t id) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  const auto& attrs = std::get<ir::DotAttrs>(node.attrs);
  const ir::Type& right = graph_.type(node.operands[1]);
  int64_t columns = right.elements();  // of the right operand, without batch and contraction
  for (const auto* dims : {&attrs.rhs_batch, &attrs.rhs_contract})
    for (int64_t d : *dims) columns /= std::max<int64_t>(1, right.shape[static_cast<size_t>(d)]);
  std::vector<Operand> operands;
  for (size_t i = 0; i < 2; ++i) {
    const ir::Value v = node.operands[i];
    std::optional<Operand> computed;
    if (wants_prologue(v, i == 0 ? columns : 0)) computed = prologue(v);
    if (!computed) {
      NEURON_ASSIGN(computed, operand(v, true));
    }
    operands.push_back(std::move(*computed));
  }
  const int32_t region = new_region(node.types[0].shape, id);
  Region& r = plan_.regions.back();
  r.kind = RegionKind::matmul;
  r.operands = std::move(operands);
  r.members.push_back(id);
  NodeState& s = state_[static_cast<size_t>(id)];
  s.region = s.dep = region;
  Term t;
  t.kind = TermKind::external;
  t.dtype = node.types[0].dtype;
  t.node = id;
  t.view = r.expression.full_view();
  add_term(region, std::move(t), {id, 0}, r.expression.full_view());
  return {};
}

Status Fuser::place_node(int32_t id) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  std::vector<Operand> operands;
  for (ir::Value v : node.operands) {
    if (graph_.type(v).elements() == 0) {
      operands.emplace_back();
      operands.back().shape = graph_.type(v).shape;
      continue;
    }
    NEURON_ASSIGN(Operand o, operand(v, false));
    if (node.op == ir::Op::gather && operands.empty() && gathers_parts(node, o) && is_view_op(graph_.node(v).op)) {
      NEURON_RETURN_IF_ERROR(materialize(v));
      NEURON_ASSIGN(o, operand(v, false));
    }
    operands.push_back(std::move(o));
  }
  const int32_t region = new_region({}, id);
  Region& r = plan_.regions.back();
  r.kind = RegionKind::node;
  r.operands = std::move(operands);
  r.members.push_back(id);
  NodeState& s = state_[static_cast<size_t>(id)];
  s.region = s.dep = region;
  return {};
}

Status Fuser::visit(int32_t id) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  NodeState& s = state_[static_cast<size_t>(id)];
  bool empty = true;
  for (const ir::Type& t : node.types) empty = empty && t.elements() == 0;
  s.empty = empty;
  if (empty || uses_[static_cast<size_t>(id)] == 0) return {};
  for (ir::Value v : node.operands) s.dep = std::max(s.dep, state_[static_cast<size_t>(v.node)].dep);
  if (is_leaf_op(node.op)) {
    s.loads =
        node.op == ir::Op::parameter && std::get<ir::ParameterAttrs>(node.attrs).kind == ir::ParameterAttrs::Kind::tensor;
    if (node.op == ir::Op::constant) s.loads = !std::get<ir::ConstantAttrs>(node.attrs).splat;
    return {};
  }
  if (is_view_op(node.op)) {
    const NodeState& o = state_[static_cast<size_t>(node.operands[0].node)];
    s.inlined = true;
    if (o.region < 0)
      s.weight = o.weight, s.loads = o.loads, s.depth = o.depth;
    else
      s.loads = 1;
    return {};
  }
  if (is_map_op(node.op)) {
    if (may_inline(id)) {
      s.inlined = true;
      return {};
    }
    s.depth = s.weight = s.loads = 0;
    return place_map(id);
  }
  switch (node.op) {
    case ir::Op::reduce:
      return place_reduce(id);
    case ir::Op::dot_general:
      return place_dot(id);
    case ir::Op::concatenate:
      return place_concatenate(id);
    case ir::Op::pad:
      return place_pad(id);
    default:
      return place_node(id);
  }
}

Result<FusionPlan> Fuser::run() {
  state_.resize(graph_.nodes.size());
  count_uses();
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    NEURON_RETURN_IF_ERROR(visit(static_cast<int32_t>(i)).within(graph_.labels[static_cast<size_t>(graph_.nodes[i].label)]));
  NEURON_RETURN_IF_ERROR(write_outputs());
  for (size_t r = 0; r < building_.size(); ++r) plan_.regions[r].rows = building_[r].rows;
  NEURON_RETURN_IF_ERROR(place_outputs(graph_, plan_));
  finish_regions();
  return std::move(plan_);
}

// Drops stores that nothing reads, terms that no store needs and regions that write nothing; counts the stores of every
// term.
void Fuser::finish_regions() {
  std::unordered_set<int64_t> read;
  for (const auto& [value, output] : plan_.value_in_output) read.insert(key(value));
  for (size_t i = plan_.regions.size(); i-- > 0;) {
    Region& r = plan_.regions[i];
    std::erase_if(r.stores, [&](const Store& s) { return s.output < 0 && read.count(key(s.value)) == 0; });
    if (r.stores.empty()) continue;
    visit_operand_sources(r, [&](ir::Value v) { read.insert(key(v)); });
    if (r.kind == RegionKind::node) continue;
    std::vector<int32_t> roots;
    for (const Store& s : r.stores) roots.push_back(s.term);
    if (r.kind == RegionKind::matmul) roots.push_back(0);  // the product itself
    const std::vector<int32_t> number = r.expression.prune(roots);
    for (Store& s : r.stores) {
      s.term = number[static_cast<size_t>(s.term)];
      ++r.expression.terms[static_cast<size_t>(s.term)].stores;
    }
    for (const Term& t : r.expression.terms)
      if (t.kind == TermKind::load) read.insert(key(t.source));
  }
  std::erase_if(plan_.regions, [](const Region& r) { return r.stores.empty(); });
}

Result<FusionPlan> fuse(const ir::Graph& graph, const Options& options) { return Fuser(graph, options).run(); }

}  // namespace neuron::compiler
