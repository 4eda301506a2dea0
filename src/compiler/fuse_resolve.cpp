// Finding, for a value and a view of it, the term of a region that computes it: reuse, load, or evaluate inline.
#include <algorithm>
#include <cstring>

#include "compiler/fuser.h"
#include "ir/element.h"

namespace neuron::compiler {

namespace {

constexpr size_t kMaxSpaceRank = 16;

Term immediate_of(const ir::Node& node) {
  const auto& a = std::get<ir::ConstantAttrs>(node.attrs);
  Term t;
  t.kind = TermKind::immediate;
  t.dtype = node.types[0].dtype;
  const uint8_t* p = a.data.data();
  switch (ir::number_class(t.dtype)) {
    case ir::NumberClass::floating:
      t.number = ir::load_floating(t.dtype, p);
      break;
    case ir::NumberClass::complex:
      t.number = ir::load_complex(t.dtype, p);
      break;
    case ir::NumberClass::unsigned_integer:
      t.integer = static_cast<int64_t>(ir::load_unsigned(t.dtype, p));
      t.number = static_cast<double>(ir::load_unsigned(t.dtype, p));
      break;
    default:
      t.integer = ir::load_signed(t.dtype, p);
      t.number = static_cast<double>(t.integer);
      break;
  }
  return t;
}

}  // namespace

View Fuser::class_view(int32_t region, int32_t node) const {
  const Expression& e = plan_.regions[static_cast<size_t>(region)].expression;
  return state_[static_cast<size_t>(node)].row ? e.row_view() : e.full_view();
}

std::optional<int32_t> Fuser::find_term(int32_t region, ir::Value value, const View& view) const {
  const Building& b = building_[static_cast<size_t>(region)];
  auto it = b.by_value.find(key(value));
  if (it == b.by_value.end()) return std::nullopt;
  for (int32_t t : it->second)
    if (b.term_view[static_cast<size_t>(t)] == view) return t;
  return std::nullopt;
}

int32_t Fuser::add_term(int32_t region, Term term, ir::Value value, const View& view) {
  Region& r = plan_.regions[static_cast<size_t>(region)];
  Building& b = building_[static_cast<size_t>(region)];
  const auto id = static_cast<int32_t>(r.expression.terms.size());
  int phase = 0;
  for (int32_t i : term.inputs) phase = std::max(phase, b.phase[static_cast<size_t>(i)]);
  if (term.kind == TermKind::reduce) ++phase;
  if (term.view.strides.empty()) term.view.strides.assign(r.expression.rank(), 0);
  r.expression.terms.push_back(std::move(term));
  b.phase.push_back(phase);
  b.term_value.push_back(value);
  b.term_view.push_back(view);
  if (value.present()) b.by_value[key(value)].push_back(id);
  return id;
}

void Fuser::split_space(int32_t region, const Split& split) {
  Region& r = plan_.regions[static_cast<size_t>(region)];
  Building& b = building_[static_cast<size_t>(region)];
  Expression& e = r.expression;
  const auto at = static_cast<std::ptrdiff_t>(split.dim);
  e.extents.insert(e.extents.begin() + at, e.extents[split.dim] / split.inner);
  e.extents[split.dim + 1] = split.inner;
  e.reduced.insert(e.reduced.begin() + at, e.reduced[split.dim]);
  for (Term& t : e.terms) apply_split(t.view, split);
  for (View& v : b.term_view)
    if (v.strides.size() + 1 == e.extents.size()) apply_split(v, split);
  for (Store& s : r.stores) apply_split(s.view, split);
}

Fuser::Outcome Fuser::index_of(int32_t region, const View& view, const std::vector<int64_t>& shape,
                               std::vector<View>* index) {
  const Expression& e = plan_.regions[static_cast<size_t>(region)].expression;
  Decomposition d = decompose(view, e.extents, shape);
  if (d.kind == Decomposition::Kind::ok) {
    *index = std::move(d.index);
    return Outcome::ok;
  }
  if (d.kind == Decomposition::Kind::split && e.rank() < kMaxSpaceRank) {
    split_space(region, d.split);
    return Outcome::split;
  }
  return Outcome::materialize;
}

bool Fuser::materialized_before(ir::Value value, int32_t region) const {
  auto it = copies_.find(key(value));
  return it != copies_.end() && it->second < region;
}

bool Fuser::is_leaf(ir::Value value) const {
  const ir::Op op = graph_.node(value).op;
  return op == ir::Op::parameter || op == ir::Op::constant || op == ir::Op::iota;
}

ir::Value Fuser::copy_name(ir::Value value) const { return is_leaf(value) ? ir::Value{value.node, 1} : value; }

Fuser::Resolved Fuser::load(int32_t region, ir::Value value, const View& logical, const View& memory) {
  if (std::optional<int32_t> t = find_term(region, value, logical)) return {Outcome::ok, *t, value};
  Term t;
  t.kind = TermKind::load;
  t.dtype =
      graph_.nodes[static_cast<size_t>(value.node)].types[is_leaf(value) ? 0 : static_cast<size_t>(value.result)].dtype;
  t.source = value;
  t.view = memory;
  return {Outcome::ok, add_term(region, std::move(t), value, logical), value};
}

Fuser::Resolved Fuser::resolve_leaf(int32_t region, ir::Value value, const View& view) {
  const ir::Node& node = graph_.node(value);
  const size_t rank = plan_.regions[static_cast<size_t>(region)].expression.rank();
  switch (node.op) {
    case ir::Op::parameter: {
      const auto& a = std::get<ir::ParameterAttrs>(node.attrs);
      const View nowhere{0, std::vector<int64_t>(rank, 0)};
      if (a.kind == ir::ParameterAttrs::Kind::scalar) return load(region, value, nowhere, nowhere);
      if (a.strides == dense_strides(node.types[0].shape)) return load(region, value, view, view);
      std::vector<View> index;
      const Outcome o = index_of(region, view, node.types[0].shape, &index);
      if (o != Outcome::ok) return {o, -1, value};
      return load(region, value, view, combine(index, a.strides, rank));
    }
    case ir::Op::constant: {
      if (!std::get<ir::ConstantAttrs>(node.attrs).splat) return load(region, value, view, view);
      return {Outcome::ok, add_term(region, immediate_of(node), {}, {}), value};
    }
    default: {  // iota
      std::vector<View> index;
      const Outcome o = index_of(region, view, node.types[0].shape, &index);
      if (o != Outcome::ok) return {o, -1, value};
      if (std::optional<int32_t> t = find_term(region, value, view)) return {Outcome::ok, *t, value};
      Term t;
      t.kind = TermKind::iota;
      t.dtype = node.types[0].dtype;
      t.view = index[static_cast<size_t>(std::get<ir::DimAttrs>(node.attrs).dim)];
      return {Outcome::ok, add_term(region, std::move(t), value, view), value};
    }
  }
}

Fuser::Resolved Fuser::resolve_map(int32_t region, ir::Value value, const View& view) {
  const ir::Node& node = graph_.node(value);
  const size_t rank = view.strides.size();
  Term t;
  t.kind = TermKind::op;
  t.dtype = node.types[0].dtype;
  t.node = value.node;
  for (ir::Value v : node.operands) {
    const bool scalar = node.op == ir::Op::rng_bit_generator;
    Resolved r = resolve(region, v, scalar ? View{0, std::vector<int64_t>(rank, 0)} : view);
    if (r.outcome != Outcome::ok) return r;
    t.inputs.push_back(r.term);
  }
  if (node.op == ir::Op::rng_bit_generator) {
    t.kind = TermKind::random;
    t.view = view;
  }
  return {Outcome::ok, add_term(region, std::move(t), value, view), value};
}

Fuser::Resolved Fuser::resolve(int32_t region, ir::Value value, View view) {
  for (;;) {
    const ir::Node& node = graph_.node(value);
    const NodeState& s = state_[static_cast<size_t>(value.node)];
    if (s.region == region) {
      if (!(view == class_view(region, value.node))) return {Outcome::conflict, -1, value};
      return {Outcome::ok, *find_term(region, value, view), value};
    }
    if (s.region >= 0) {
      if (s.region > region) return {Outcome::conflict, -1, value};
      need_store(value);
      return load(region, value, view, view);
    }
    if (materialized_before(value, region)) return load(region, copy_name(value), view, view);
    if (std::optional<int32_t> t = find_term(region, value, view)) return {Outcome::ok, *t, value};
    if (is_view_op(node.op)) {
      std::vector<View> index;
      if (!is_flat_view_op(node.op)) {
        const Outcome o = index_of(region, view, node.types[0].shape, &index);
        if (o != Outcome::ok) return {o, -1, value};
      }
      view = through_view_op(node, graph_.type(node.operands[0]).shape, view, index);
      value = node.operands[0];
      continue;
    }
    if (is_map_op(node.op)) return resolve_map(region, value, view);
    if (node.op == ir::Op::parameter || node.op == ir::Op::constant || node.op == ir::Op::iota)
      return resolve_leaf(region, value, view);
    return {Outcome::conflict, -1, value};
  }
}

}  // namespace neuron::compiler
