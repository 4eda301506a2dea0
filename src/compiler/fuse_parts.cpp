// Values written piece by piece (concatenate, pad) and the stores of graph outputs.
#include <algorithm>

#include "compiler/fuser.h"

namespace neuron::compiler {

Status Fuser::copy_to(ir::Value value, const std::vector<int64_t>& start, const std::vector<int64_t>& shape, Store store) {
  const std::vector<int64_t> dense = dense_strides(graph_.type(value).shape);
  for (int attempt = 0; attempt < 64; ++attempt) {
    const int32_t region = new_region(shape, value.node);
    for (;;) {
      std::vector<View> index;
      Outcome o = index_of(region, plan_.regions[static_cast<size_t>(region)].expression.full_view(), shape, &index);
      if (o == Outcome::split) continue;
      const size_t rank = plan_.regions[static_cast<size_t>(region)].expression.rank();
      View from = combine(index, dense, rank);
      for (size_t k = 0; k < start.size(); ++k) from.offset += start[k] * dense[k];
      Resolved x = resolve(region, value, from);
      if (x.outcome == Outcome::split) continue;
      if (x.outcome == Outcome::ok) {
        Region& done = plan_.regions[static_cast<size_t>(region)];
        View to = combine(index, store.view.strides, done.expression.rank());
        to.offset += store.view.offset;
        store.view = std::move(to);
        store.term = x.term;
        done.stores.push_back(std::move(store));
        last_store_region_ = region;
        return {};
      }
      drop_last_region();
      if (x.outcome != Outcome::materialize) return internal_error("fuse: cannot copy a value");
      NEURON_RETURN_IF_ERROR(materialize(x.value));
      break;
    }
  }
  return internal_error("fuse: cannot copy a value");
}

Status Fuser::store_part(ir::Value value, const std::vector<int64_t>& start, const std::vector<int64_t>& shape,
                         Store store) {
  if (shape == graph_.type(value).shape) {
    NEURON_RETURN_IF_ERROR(place_under_views(value));
    const ir::Value member = look_through_views(value, &store.view);
    if (!(member == value)) {
      const std::vector<int64_t>& whole = graph_.type(member).shape;
      if (store.output >= 0) store.value = member;
      return store_part(member, std::vector<int64_t>(whole.size(), 0), whole, std::move(store));
    }
  }
  const NodeState& s = state_[static_cast<size_t>(value.node)];
  const std::vector<int64_t>& whole = graph_.type(value).shape;
  const bool whole_node =
      s.region >= 0 && plan_.regions[static_cast<size_t>(s.region)].kind == RegionKind::node && shape == whole;
  if (whole_node) {
    store.result = value.result;
    last_store_region_ = s.region;
    plan_.regions[static_cast<size_t>(s.region)].stores.push_back(std::move(store));
    return {};
  }
  if (s.region < 0 || plan_.regions[static_cast<size_t>(s.region)].kind == RegionKind::node || shape != whole ||
      plan_.regions[static_cast<size_t>(s.region)].stores.size() >= 64)
    return copy_to(value, start, shape, std::move(store));
  for (;;) {
    std::vector<View> index;
    const View view = class_view(s.region, value.node);
    const Outcome o = index_of(s.region, view, whole, &index);
    if (o == Outcome::split) continue;
    if (o != Outcome::ok) return copy_to(value, start, shape, std::move(store));
    Region& r = plan_.regions[static_cast<size_t>(s.region)];
    View to = combine(index, store.view.strides, r.expression.rank());
    to.offset += store.view.offset;
    store.view = std::move(to);
    store.term = *find_term(s.region, value, view);
    r.stores.push_back(std::move(store));
    last_store_region_ = s.region;
    return {};
  }
}

Status Fuser::place_concatenate(int32_t id) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  const auto dim = static_cast<size_t>(std::get<ir::DimAttrs>(node.attrs).dim);
  const std::vector<int64_t> strides = dense_strides(node.types[0].shape);
  int64_t at = 0;
  int32_t last = -1;
  for (ir::Value v : node.operands) {
    const std::vector<int64_t>& shape = graph_.type(v).shape;
    if (graph_.type(v).elements() > 0) {
      Store store;
      store.value = {id, 0};
      store.view = {at * strides[dim], strides};
      NEURON_RETURN_IF_ERROR(store_part(v, std::vector<int64_t>(shape.size(), 0), shape, std::move(store)));
      last = std::max(last, last_store_region_);
    }
    at += shape[dim];
  }
  copies_[key({id, 0})] = last;
  state_[static_cast<size_t>(id)].dep = last;
  return {};
}

Status Fuser::place_pad(int32_t id) {
  const ir::Node& node = graph_.nodes[static_cast<size_t>(id)];
  const auto& a = std::get<ir::PadAttrs>(node.attrs);
  const ir::Value value = node.operands[0];
  const std::vector<int64_t>& shape = graph_.type(value).shape;
  const std::vector<int64_t>& result = node.types[0].shape;
  const std::vector<int64_t> strides = dense_strides(result);
  std::vector<int64_t> start(shape.size(), 0), count(shape.size(), 0);
  View to{0, strides};
  bool any = true, all = true;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t step = (a.interior.empty() ? 0 : a.interior[d]) + 1;
    // Elements start .. start + count - 1 of this dimension land inside the result.
    start[d] = a.low[d] >= 0 ? 0 : (-a.low[d] + step - 1) / step;
    const int64_t end = std::min(shape[d], result[d] - a.low[d] <= 0 ? 0 : (result[d] - a.low[d] - 1) / step + 1);
    count[d] = std::max<int64_t>(0, end - start[d]);
    any = any && count[d] > 0;
    all = all && count[d] == result[d];
    to.offset += (a.low[d] + start[d] * step) * strides[d];
    to.strides[d] = strides[d] * step;
  }
  if (!all) {  // the padding value everywhere, then the operand over it
    const int32_t region = new_region(result, id);
    Resolved x;
    for (;;) {
      const size_t rank = plan_.regions[static_cast<size_t>(region)].expression.rank();
      x = resolve(region, node.operands[1], View{0, std::vector<int64_t>(rank, 0)});
      if (x.outcome != Outcome::split) break;
    }
    if (x.outcome != Outcome::ok) return internal_error("fuse: cannot reach a padding value");
    Region& r = plan_.regions[static_cast<size_t>(region)];
    Store fill;
    fill.value = {id, 0};
    fill.term = x.term;
    fill.view = r.expression.full_view();
    r.stores.push_back(std::move(fill));
  }
  if (any) {
    Store store;
    store.value = {id, 0};
    store.view = to;
    NEURON_RETURN_IF_ERROR(copy_to(value, start, count, std::move(store)));
  }
  const auto last = static_cast<int32_t>(plan_.regions.size()) - 1;
  copies_[key({id, 0})] = last;
  state_[static_cast<size_t>(id)].dep = last;
  return {};
}

Status Fuser::write_outputs() {
  for (size_t o = 0; o < graph_.outputs.size(); ++o)
    if (graph_.type(graph_.outputs[o].value).elements() > 0) NEURON_RETURN_IF_ERROR(write_output(static_cast<int32_t>(o)));
  return {};
}

Status Fuser::write_output(int32_t output) {
  const ir::Output& out = graph_.outputs[static_cast<size_t>(output)];
  const ir::Value v = out.value;
  const ir::Op op = graph_.node(v).op;
  const std::vector<int64_t>& shape = graph_.type(v).shape;
  Store store;
  store.value = v;
  store.output = output;
  store.view = {0, out.strides};
  // Assembled from parts: the parts go to the output itself.
  if ((op == ir::Op::concatenate || op == ir::Op::pad) && out.alias < 0 && out.strides == dense_strides(shape) &&
      std::none_of(
          plan_.value_in_output.begin(), plan_.value_in_output.end(), [&](const auto& p) { return p.first == v; })) {
    plan_.value_in_output.emplace_back(v, output);
    return {};
  }
  return store_part(v, std::vector<int64_t>(shape.size(), 0), shape, std::move(store));
}

// An inlined operation under views that only reorder becomes a member of a region, which then stores it where it is wanted.
Status Fuser::place_under_views(ir::Value v) {
  for (;;) {
    const NodeState& s = state_[static_cast<size_t>(v.node)];
    if (s.region >= 0 || copies_.count(key(v)) != 0) return {};
    const ir::Node& node = graph_.node(v);
    if (is_map_op(node.op)) return place_map(v.node);
    if (node.op != ir::Op::reshape && node.op != ir::Op::transpose && node.op != ir::Op::reverse) return {};
    v = node.operands[0];
  }
}

// A chain of views that reorder all elements of a region's member: the member is stored where the last view wants it.
ir::Value Fuser::look_through_views(ir::Value v, View* destination) const {
  const ir::Value original = v;
  View view = *destination;
  for (;;) {
    if (state_[static_cast<size_t>(v.node)].region >= 0) {
      *destination = std::move(view);
      return v;
    }
    const ir::Node& node = graph_.node(v);
    if (copies_.count(key(v)) != 0) return original;
    const std::vector<int64_t>& shape = node.types[0].shape;
    if (node.op == ir::Op::reshape) {
      if (view.strides != dense_strides(shape)) return original;
      view.strides = dense_strides(graph_.type(node.operands[0]).shape);
    } else if (node.op == ir::Op::transpose) {
      const auto& dims = std::get<ir::DimsAttrs>(node.attrs).dims;
      View inner{view.offset, std::vector<int64_t>(dims.size())};
      for (size_t j = 0; j < dims.size(); ++j) inner.strides[static_cast<size_t>(dims[j])] = view.strides[j];
      view = std::move(inner);
    } else if (node.op == ir::Op::reverse) {
      for (int64_t d : std::get<ir::DimsAttrs>(node.attrs).dims) {
        view.offset += view.strides[static_cast<size_t>(d)] * (shape[static_cast<size_t>(d)] - 1);
        view.strides[static_cast<size_t>(d)] = -view.strides[static_cast<size_t>(d)];
      }
    } else {
      return original;
    }
    v = node.operands[0];
  }
}

}  // namespace neuron::compiler
