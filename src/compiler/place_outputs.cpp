// Pass "place_outputs": outputs that overwrite an input are written in place when nothing can still need the old contents,
// else computed into scratch and copied at the end.
#include <algorithm>
#include <unordered_map>

#include "compiler/fuse.h"

namespace neuron::compiler {

namespace {

struct Reads {
  int32_t last = -1;  // region
};

std::vector<uint8_t> live_terms(const Region& r) {
  std::vector<uint8_t> live(r.expression.terms.size(), 0);
  for (const Store& s : r.stores)
    if (s.term >= 0) live[static_cast<size_t>(s.term)] = 1;
  for (size_t t = live.size(); t-- > 0;)
    if (live[t])
      for (int32_t i : r.expression.terms[t].inputs) live[static_cast<size_t>(i)] = 1;
  return live;
}

bool updates_in_place(ir::Op op) { return op == ir::Op::scatter || op == ir::Op::dynamic_update_slice; }

class OutputPlacer {
 public:
  OutputPlacer(const ir::Graph& graph, FusionPlan& plan) : graph_(graph), plan_(plan) {}

  Status run() {
    collect_reads();
    // Nodes with code of their own first: they write each result once, into the output's buffer if nothing forbids it.
    for (size_t r = 0; r < plan_.regions.size(); ++r) {
      if (plan_.regions[r].kind != RegionKind::node) continue;
      share_output_buffers(r, true);
      store_results_once(r);
    }
    insert_copies();
    const size_t regions = plan_.regions.size();
    for (size_t r = 0; r < regions; ++r) {
      for (size_t s = 0; s < plan_.regions[r].stores.size(); ++s) {
        const int32_t o = plan_.regions[r].stores[s].output;
        if (o < 0 || graph_.outputs[static_cast<size_t>(o)].alias < 0) continue;
        if (!may_overwrite(r, plan_.regions[r].stores[s], graph_.outputs[static_cast<size_t>(o)].alias)) defer(r, s);
      }
    }
    for (size_t r = 0; r < regions; ++r) share_output_buffers(r, false);
    return {};
  }

 private:
  void collect_reads() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (const auto* a = std::get_if<ir::ParameterAttrs>(&graph_.nodes[i].attrs))
        if (a->kind == ir::ParameterAttrs::Kind::tensor) parameter_of_[static_cast<int32_t>(i)] = a->index;
    live_.reserve(plan_.regions.size());
    for (size_t r = 0; r < plan_.regions.size(); ++r) {
      const Region& region = plan_.regions[r];
      live_.push_back(live_terms(region));
      for (size_t t = 0; t < region.expression.terms.size(); ++t)
        if (live_[r][t] && region.expression.terms[t].kind == TermKind::load) note(region.expression.terms[t].source, r);
      visit_operand_sources(region, [&](ir::Value v) { note(v, r); });
    }
  }

  void note(ir::Value source, size_t region) {
    if (source.result != 0 || is_staging(source)) return;
    auto it = parameter_of_.find(source.node);
    if (it == parameter_of_.end()) return;
    Reads& reads = reads_[it->second];
    reads.last = std::max(reads.last, static_cast<int32_t>(region));
  }

  bool is_parameter(ir::Value source, int32_t index) const {
    if (source.result != 0) return false;
    auto it = parameter_of_.find(source.node);
    return it != parameter_of_.end() && it->second == index;
  }

  bool may_overwrite(size_t r, const Store& store, int32_t parameter) {
    auto it = reads_.find(parameter);
    if (it == reads_.end()) return true;
    if (it->second.last > static_cast<int32_t>(r)) return false;
    Region& region = plan_.regions[r];
    if (region.kind == RegionKind::node) return may_update_in_place(region, store, parameter);
    bool operand = false;
    visit_operand_sources(region, [&](ir::Value v) { operand = operand || is_parameter(v, parameter); });
    if (operand) return false;
    if (region.kind == RegionKind::matmul && region.stores.size() > 1)
      return false;  // stores are not ordered after all loads
    for (size_t t = 0; t < region.expression.terms.size(); ++t) {
      const Term& term = region.expression.terms[t];
      if (live_[r][t] && term.kind == TermKind::load && is_parameter(term.source, parameter) && !(term.view == store.view))
        return false;
    }
    return true;
  }

  bool may_update_in_place(Region& region, const Store& store, int32_t parameter) {
    bool reads = false;
    for (size_t k = 0; k < region.operands.size(); ++k) {
      if (!is_parameter(region.operands[k].base, parameter)) continue;
      if (k > 0) return false;
      reads = true;
    }
    if (!reads) return true;
    const ir::Node& node = graph_.nodes[static_cast<size_t>(region.node)];
    if (!updates_in_place(node.op) || !(region.operands[0].view == store.view)) return false;
    for (const Store& s : region.stores)
      if (s.output >= 0 && s.output != store.output) return false;
    region.in_place = true;
    return true;
  }

  // Store s of region r goes to a staging buffer laid out like the output; a copy region at the end moves it.
  void defer(size_t r, size_t s) {
    Store& store = plan_.regions[r].stores[s];
    const int32_t output = store.output;
    const ir::Output& out = graph_.outputs[static_cast<size_t>(output)];
    const std::vector<int64_t>& shape = graph_.type(out.value).shape;
    store.output = -1;
    store.value = staging_of(output, store.result);
    Region copy;
    copy.node = out.value.node;
    Term load;
    load.kind = TermKind::load;
    load.dtype = graph_.type(out.value).dtype;
    load.source = store.value;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      copy.expression.extents.push_back(shape[d]);
      load.view.strides.push_back(out.strides[d]);
    }
    copy.expression.reduced.assign(copy.expression.extents.size(), 0);
    Store to;
    to.term = 0;
    to.value = out.value;
    to.output = output;
    to.view = load.view;
    copy.expression.terms.push_back(std::move(load));
    copy.stores.push_back(std::move(to));
    plan_.regions.push_back(std::move(copy));
    live_.emplace_back(1, 1);
  }

  // Whether a scratch buffer of `value` would hold the same elements at the same places as a store's output.
  bool same_contents(const Store& scratch, const Store& to_output) const {
    if (scratch.output >= 0 || is_staging(scratch.value)) return false;
    if (scratch.term != to_output.term || scratch.result != to_output.result || !(scratch.view == to_output.view))
      return false;
    if (scratch.value == to_output.value) return true;
    // A view of the same elements in the output's order; a part of a concatenation has a larger buffer.
    const auto type = [&](ir::Value v) {  // a copied leaf has a name of its own: result 1
      const std::vector<ir::Type>& types = graph_.nodes[static_cast<size_t>(v.node)].types;
      return types[std::min(static_cast<size_t>(v.result), types.size() - 1)];
    };
    return type(scratch.value).elements() == type(to_output.value).elements();
  }

  // A value that is also written to an output in the same order lives there; its scratch store goes away. `check_alias`: not
  // if the output may have to be written at the end.
  void share_output_buffers(size_t r, bool check_alias) {
    std::vector<Store>& stores = plan_.regions[r].stores;
    for (size_t i = 0; i < stores.size(); ++i) {
      if (stores[i].output < 0) continue;
      auto scratch = std::find_if(stores.begin(), stores.end(), [&](const Store& s) { return same_contents(s, stores[i]); });
      if (scratch == stores.end()) continue;
      const int32_t alias = graph_.outputs[static_cast<size_t>(stores[i].output)].alias;
      if (check_alias && alias >= 0 && !may_overwrite(r, stores[i], alias)) continue;
      plan_.value_in_output.emplace_back(scratch->value, stores[i].output);
      stores.erase(scratch);
      i = static_cast<size_t>(-1);
    }
  }

  // A node's own code writes each result to one place; further places are copies of a dense scratch buffer.
  void store_results_once(size_t r) {
    std::vector<Store> kept;
    const std::vector<Store> all = plan_.regions[r].stores;
    for (const Store& s : all) {
      const auto same = [&](const Store& o) { return o.result == s.result; };
      if (std::count_if(all.begin(), all.end(), same) == 1) {
        kept.push_back(s);
        continue;
      }
      const ir::Value value{plan_.regions[r].node, s.result};
      const std::vector<int64_t>& shape = graph_.type(value).shape;
      const View dense = identity_view(shape);
      if (std::none_of(kept.begin(), kept.end(), same)) {
        Store base = s;
        base.value = value;
        base.output = -1;
        base.view = dense;
        kept.push_back(std::move(base));
      }
      if (s.output < 0 && s.value == value) continue;
      Region copy;
      copy.node = value.node;
      Term load;
      load.kind = TermKind::load;
      load.dtype = graph_.type(value).dtype;
      load.source = value;
      Store to = s;
      to.term = 0;
      to.view = {s.view.offset, {}};
      for (size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1) continue;
        copy.expression.extents.push_back(shape[d]);
        load.view.strides.push_back(dense.strides[d]);
        to.view.strides.push_back(s.view.strides[d]);
      }
      copy.expression.reduced.assign(copy.expression.extents.size(), 0);
      copy.expression.terms.push_back(std::move(load));
      copy.stores.push_back(std::move(to));
      copies_.emplace_back(r, std::move(copy));
    }
    plan_.regions[r].stores = std::move(kept);
  }

  // Copies follow the region whose result they copy: later regions may read them. Positions change, so reads are collected
  // again.
  void insert_copies() {
    if (copies_.empty()) return;
    std::vector<Region> regions;
    size_t next = 0;
    for (size_t r = 0; r < plan_.regions.size(); ++r) {
      regions.push_back(std::move(plan_.regions[r]));
      for (; next < copies_.size() && copies_[next].first == r; ++next) regions.push_back(std::move(copies_[next].second));
    }
    plan_.regions = std::move(regions);
    copies_.clear();
    reads_.clear();
    live_.clear();
    collect_reads();
  }

  const ir::Graph& graph_;
  FusionPlan& plan_;
  std::vector<std::pair<size_t, Region>> copies_;
  std::unordered_map<int32_t, int32_t> parameter_of_;  // node -> tensor parameter index
  std::unordered_map<int32_t, Reads> reads_;           // tensor parameter index -> readers
  std::vector<std::vector<uint8_t>> live_;
};

}  // namespace

Status place_outputs(const ir::Graph& graph, FusionPlan& plan) { return OutputPlacer(graph, plan).run(); }

}  // namespace neuron::compiler
