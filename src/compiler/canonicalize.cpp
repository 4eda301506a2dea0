#include "compiler/canonicalize.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "compiler/affine.h"
#include "compiler/fuse.h"
#include "ir/element.h"

namespace neuron::compiler {

namespace {

using ir::Node;
using ir::Op;
using ir::Value;

int64_t count(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return n;
}

template <class T>
bool equal_attr(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, std::monostate>)
    return true;
  else if constexpr (std::is_same_v<T, ir::ConstantAttrs>)
    return a.splat == b.splat && a.data == b.data && a.data.size() <= 64;
  else if constexpr (std::is_same_v<T, ir::DimAttrs>)
    return a.dim == b.dim;
  else if constexpr (std::is_same_v<T, ir::DimsAttrs>)
    return a.dims == b.dims;
  else if constexpr (std::is_same_v<T, ir::CompareAttrs>)
    return a.direction == b.direction;
  else if constexpr (std::is_same_v<T, ir::SliceAttrs>)
    return a.start == b.start && a.limit == b.limit && a.stride == b.stride;
  else if constexpr (std::is_same_v<T, ir::StridedViewAttrs>)
    return a.offset == b.offset && a.strides == b.strides;
  else if constexpr (std::is_same_v<T, ir::ReduceAttrs>)
    return a.reducer == b.reducer && a.dims == b.dims;
  else
    return false;  // never merged
}

bool equal_attrs(const ir::Attrs& a, const ir::Attrs& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&](const auto& x) { return equal_attr(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
}

class Canonicalizer {
 public:
  explicit Canonicalizer(ir::Graph& graph) : graph_(graph) {}

  void run() {
    mark_live();
    out_.reserve(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      replacement_.emplace_back();
      if (!live_[i]) continue;
      Node node = graph_.nodes[i];
      for (Value& v : node.operands) v = map(v);
      const size_t results = node.types.size();
      if (std::optional<Value> v = simplify(node)) {
        replacement_.back().assign(results, *v);
      } else {
        const int32_t id = append(std::move(node));
        for (size_t r = 0; r < results; ++r) replacement_.back().push_back({id, static_cast<int32_t>(r)});
      }
    }
    for (ir::Output& o : graph_.outputs) o.value = map(o.value);
    graph_.nodes = std::move(out_);
    drop_dead();
  }

 private:
  Value map(Value v) const { return replacement_[static_cast<size_t>(v.node)][static_cast<size_t>(v.result)]; }
  const Node& at(Value v) const { return out_[static_cast<size_t>(v.node)]; }
  const ir::Type& type(Value v) const { return at(v).types[static_cast<size_t>(v.result)]; }

  void mark_live() {
    live_.assign(graph_.nodes.size(), 0);
    for (const ir::Output& o : graph_.outputs) live_[static_cast<size_t>(o.value.node)] = 1;
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (graph_.nodes[i].op == Op::parameter) live_[i] = 1;
      if (!live_[i]) continue;
      for (Value v : graph_.nodes[i].operands) live_[static_cast<size_t>(v.node)] = 1;
    }
  }

  void drop_dead() {
    mark_live();
    std::vector<int32_t> number(graph_.nodes.size(), -1);
    size_t kept = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!live_[i]) continue;
      number[i] = static_cast<int32_t>(kept);
      if (kept != i) graph_.nodes[kept] = std::move(graph_.nodes[i]);
      for (Value& v : graph_.nodes[kept].operands) v.node = number[static_cast<size_t>(v.node)];
      ++kept;
    }
    graph_.nodes.resize(kept);
    for (ir::Output& o : graph_.outputs) o.value.node = number[static_cast<size_t>(o.value.node)];
  }

  // Adds the node, or finds an equal one.
  int32_t append(Node node) {
    uint64_t h = static_cast<uint64_t>(node.op) * 0x9e3779b97f4a7c15ull;
    for (Value v : node.operands) h = (h ^ static_cast<uint64_t>(v.node * 8 + v.result)) * 0xff51afd7ed558ccdull;
    for (const ir::Type& t : node.types)
      for (int64_t e : t.shape) h = (h ^ static_cast<uint64_t>(e)) * 0xc4ceb9fe1a85ec53ull;
    if (const auto* c = std::get_if<ir::ConstantAttrs>(&node.attrs))
      for (size_t i = 0; i < std::min<size_t>(c->data.size(), 16); ++i) h = (h ^ c->data[i]) * 0x100000001b3ull;
    std::vector<int32_t>& same = by_hash_[h];
    for (int32_t id : same) {
      const Node& o = out_[static_cast<size_t>(id)];
      if (o.op == node.op && o.operands == node.operands && o.types == node.types && equal_attrs(o.attrs, node.attrs))
        return id;
    }
    out_.push_back(std::move(node));
    const auto id = static_cast<int32_t>(out_.size()) - 1;
    if (same.size() < 16) same.push_back(id);
    return id;
  }

  Value add(Op op, std::vector<Value> operands, ir::Type result, ir::Attrs attrs, int32_t label) {
    Node n;
    n.op = op;
    n.operands = std::move(operands);
    n.types.push_back(std::move(result));
    n.attrs = std::move(attrs);
    n.label = label;
    if (std::optional<Value> v = simplify(n)) return *v;
    return {append(std::move(n)), 0};
  }

  const ir::ConstantAttrs* splat(Value v) const {
    const auto* c = std::get_if<ir::ConstantAttrs>(&at(v).attrs);
    return c != nullptr && c->splat ? c : nullptr;
  }

  Value splat_of(const ir::Type& type, std::vector<uint8_t> element, int32_t label) {
    ir::ConstantAttrs a;
    a.data = std::move(element);
    a.splat = true;
    return add(Op::constant, {}, type, std::move(a), label);
  }

  template <class T>
  Value number(const ir::Type& type, T value, int32_t label) {
    std::vector<uint8_t> element(size_of(type.dtype));
    ir::store(type.dtype, element.data(), value);
    return splat_of(type, std::move(element), label);
  }

  std::optional<Value> simplify(const Node& n) {
    if (n.op == Op::constant) return constant(n);
    if (n.op == Op::parameter || n.types.size() != 1) return std::nullopt;
    if (n.operands.empty()) return std::nullopt;
    const Value x = n.operands[0];
    if (is_view_op(n.op)) return view(n, x);
    if (is_map_op(n.op)) return element_wise(n, x);
    switch (n.op) {
      case Op::reduce:
        return reduce(n, x);
      case Op::dot_general:
        if (n.types[0].elements() > 0 && type(x).elements() == 0) return number(n.types[0], 0.0, n.label);
        return std::nullopt;
      case Op::pad:
        if (n.types[0].elements() > 0 && type(x).elements() == 0)
          return add(Op::broadcast_in_dim, {n.operands[1]}, n.types[0], ir::DimsAttrs{}, n.label);
        return std::nullopt;
      case Op::scatter:
        if (type(n.operands[2]).elements() == 0) return x;
        return std::nullopt;
      case Op::concatenate: {
        const Value* only = nullptr;
        int parts = 0;
        for (const Value& v : n.operands)
          if (type(v).elements() > 0) only = &v, ++parts;
        if (parts == 1) return *only;
        return std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  // A dense constant of equal elements is a splat.
  std::optional<Value> constant(const Node& n) {
    const auto& c = std::get<ir::ConstantAttrs>(n.attrs);
    const size_t unit = size_of(n.types[0].dtype);
    if (c.splat || c.data.size() < unit) return std::nullopt;
    for (size_t i = unit; i < c.data.size(); ++i)
      if (c.data[i] != c.data[i - unit]) return std::nullopt;
    return splat_of(n.types[0], {c.data.begin(), c.data.begin() + static_cast<std::ptrdiff_t>(unit)}, n.label);
  }

  std::optional<Value> view(const Node& n, Value x) {
    const ir::Type& to = n.types[0];
    if (const auto* c = splat(x); c != nullptr && to.elements() > 0) return splat_of(to, c->data, n.label);
    const ir::Type& from = type(x);
    const Op inner = at(x).op;
    switch (n.op) {
      case Op::reshape:
        if (from.shape == to.shape) return x;
        if (inner == Op::reshape) return add(Op::reshape, {at(x).operands[0]}, to, {}, n.label);
        return std::nullopt;
      case Op::transpose: {
        const auto& dims = std::get<ir::DimsAttrs>(n.attrs).dims;
        if (std::is_sorted(dims.begin(), dims.end())) return x;
        if (inner != Op::transpose) return std::nullopt;
        ir::DimsAttrs both;
        for (int64_t d : dims) both.dims.push_back(std::get<ir::DimsAttrs>(at(x).attrs).dims[static_cast<size_t>(d)]);
        return add(Op::transpose, {at(x).operands[0]}, to, std::move(both), n.label);
      }
      case Op::broadcast_in_dim: {
        const auto& dims = std::get<ir::DimsAttrs>(n.attrs).dims;
        if (from.shape == to.shape && std::is_sorted(dims.begin(), dims.end())) return x;
        if (inner != Op::broadcast_in_dim) return std::nullopt;
        ir::DimsAttrs both;
        for (int64_t d : std::get<ir::DimsAttrs>(at(x).attrs).dims) both.dims.push_back(dims[static_cast<size_t>(d)]);
        return add(Op::broadcast_in_dim, {at(x).operands[0]}, to, std::move(both), n.label);
      }
      case Op::slice:
        if (from.shape == to.shape) return x;
        return std::nullopt;
      case Op::reverse:
        if (std::get<ir::DimsAttrs>(n.attrs).dims.empty()) return x;
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  std::optional<Value> element_wise(const Node& n, Value x) {
    const ir::Type& to = n.types[0];
    if (n.op == Op::convert || n.op == Op::bitcast_convert) {
      if (type(x).dtype == to.dtype) return x;
    }
    if (n.op == Op::add) {
      if (std::optional<Value> v = add_of_pads(n)) return v;
    }
    if (n.op == Op::compare && (type(x).dtype == DType::i64 || type(x).dtype == DType::i32)) {
      if (std::optional<Value> v = compare_positions(n)) return v;
    }
    if (n.op == Op::select) {
      if (const auto* c = splat(x)) return n.operands[c->data[0] != 0 ? 1 : 2];
      if (n.operands[1] == n.operands[2]) return n.operands[1];
    }
    if ((n.op == Op::multiply || n.op == Op::divide) && is_one(n.operands[1])) return x;
    if (n.op == Op::multiply && is_one(x)) return n.operands[1];
    if (n.op == Op::multiply) {
      if (std::optional<Value> v = columns_before_rows(n)) return v;
    }
    if (to.elements() == 0 || n.op == Op::rng_bit_generator) return std::nullopt;
    for (Value v : n.operands)
      if (splat(v) == nullptr) return std::nullopt;
    return fold(n);
  }

  // Does the value vary along the last dimension only through a broadcast of something that does (columns), or not at all
  // (rows)?
  std::optional<bool> broadcast_of_rows(Value v) const {
    const Node& n = at(v);
    if (n.op != Op::broadcast_in_dim || n.types[0].shape.empty()) return std::nullopt;
    const auto& dims = std::get<ir::DimsAttrs>(n.attrs).dims;
    const std::vector<int64_t>& from = type(n.operands[0]).shape;
    const auto last = static_cast<int64_t>(n.types[0].shape.size()) - 1;
    for (size_t j = 0; j < dims.size(); ++j)
      if (dims[j] == last && from[j] != 1) return false;
    return true;
  }

  // (x * rows) * columns becomes (x * columns) * rows: the scaling of rows, one number per partition, then fuses with what
  // follows (normalisations: the bias).
  std::optional<Value> columns_before_rows(const Node& n) {
    if (!is_floating(n.types[0].dtype) || broadcast_of_rows(n.operands[1]) != std::optional<bool>(false))
      return std::nullopt;
    const Node& inner = at(n.operands[0]);
    if (inner.op != Op::multiply || broadcast_of_rows(inner.operands[1]) != std::optional<bool>(true)) return std::nullopt;
    const Value x = inner.operands[0], rows = inner.operands[1];
    const Value scaled = add(Op::multiply, {x, n.operands[1]}, n.types[0], {}, n.label);
    Node outer = n;
    outer.operands = {scaled, rows};
    return Value{append(std::move(outer)), 0};
  }

  // Positions (iota plus constants, of at most 2^22) compare the same as f32, which the vector engine handles.
  std::optional<Value> compare_positions(const Node& n) {
    constexpr int64_t kLimit = int64_t{1} << 22;
    if (!is_position(n.operands[0], kLimit, 6) || !is_position(n.operands[1], kLimit, 6)) return std::nullopt;
    if (splat(n.operands[0]) != nullptr && splat(n.operands[1]) != nullptr) return std::nullopt;
    Node as_float = n;
    for (Value& v : as_float.operands) v = as_f32(v);
    return Value{append(std::move(as_float)), 0};
  }

  bool is_position(Value v, int64_t limit, int depth) const {
    const Node& n = at(v);
    if (depth == 0) return false;
    if (const auto* c = splat(v)) {
      const int64_t x = ir::load_signed(type(v).dtype, c->data.data());
      return x >= -limit && x <= limit;
    }
    if (n.op == Op::iota) return n.types[0].shape[static_cast<size_t>(std::get<ir::DimAttrs>(n.attrs).dim)] <= limit;
    if (is_view_op(n.op)) return is_position(n.operands[0], limit, depth - 1);
    if (n.op != Op::add && n.op != Op::subtract) return false;
    return is_position(n.operands[0], limit / 2, depth - 1) && is_position(n.operands[1], limit / 2, depth - 1);
  }

  Value as_f32(Value v) {
    Node n = at(v);
    n.types[0].dtype = DType::f32;
    if (const auto* c = splat(v)) {
      const int64_t x = ir::load_signed(type(v).dtype, c->data.data());
      return number(n.types[0], static_cast<double>(x), n.label);
    }
    for (Value& o : n.operands) o = as_f32(o);
    return {append(std::move(n)), 0};
  }

  // What a zero-padded tensor, or a concatenation of tensors and zeros, holds along one dimension.
  struct Segments {
    int64_t dim = -1;
    std::vector<std::pair<int64_t, Value>> parts;  // start, tensor
  };

  bool is_zero(Value v) const {
    const auto* c = splat(v);
    return c != nullptr && std::all_of(c->data.begin(), c->data.end(), [](uint8_t b) { return b == 0; });
  }

  std::optional<Segments> segments_of(Value v) const {
    const Node& n = at(v);
    Segments s;
    if (n.op == Op::concatenate) {
      s.dim = std::get<ir::DimAttrs>(n.attrs).dim;
      int64_t start = 0;
      for (Value part : n.operands) {
        if (!is_zero(part)) s.parts.emplace_back(start, part);
        start += type(part).shape[static_cast<size_t>(s.dim)];
      }
      return s;
    }
    if (n.op != Op::pad || !is_zero(n.operands[1])) return std::nullopt;
    const auto& a = std::get<ir::PadAttrs>(n.attrs);
    for (size_t d = 0; d < a.low.size(); ++d) {
      if (a.low[d] < 0 || a.high[d] < 0 || (!a.interior.empty() && a.interior[d] != 0)) return std::nullopt;
      if (a.low[d] == 0 && a.high[d] == 0) continue;
      if (s.dim >= 0) return std::nullopt;
      s.dim = static_cast<int64_t>(d);
      s.parts.emplace_back(a.low[d], n.operands[0]);
    }
    return s.dim >= 0 ? std::optional<Segments>(s) : std::nullopt;
  }

  // Gradients of slices: zero-padded parts that do not overlap, added. The sum is their concatenation.
  std::optional<Value> add_of_pads(const Node& n) {
    std::optional<Segments> a = segments_of(n.operands[0]), b = segments_of(n.operands[1]);
    if (!a || !b || a->dim != b->dim || a->parts.size() + b->parts.size() > 64) return std::nullopt;
    a->parts.insert(a->parts.end(), b->parts.begin(), b->parts.end());
    std::sort(a->parts.begin(), a->parts.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    const auto dim = static_cast<size_t>(a->dim);
    const ir::Type& to = n.types[0];
    std::vector<Value> parts;
    int64_t end = 0;
    const auto gap = [&](int64_t size) {
      ir::Type zeros = to;
      zeros.shape[dim] = size;
      if (size > 0) parts.push_back(splat_of(zeros, std::vector<uint8_t>(size_of(to.dtype), 0), n.label));
    };
    for (const auto& [start, part] : a->parts) {
      if (start < end) return std::nullopt;
      gap(start - end);
      parts.push_back(part);
      end = start + type(part).shape[dim];
    }
    gap(to.shape[dim] - end);
    return add(Op::concatenate, std::move(parts), to, ir::DimAttrs{a->dim}, n.label);
  }

  bool is_one(Value v) const {
    const auto* c = splat(v);
    if (c == nullptr) return false;
    const DType t = type(v).dtype;
    switch (ir::number_class(t)) {
      case ir::NumberClass::floating:
        return ir::load_floating(t, c->data.data()) == 1.0;
      case ir::NumberClass::complex:
        return false;
      case ir::NumberClass::unsigned_integer:
        return ir::load_unsigned(t, c->data.data()) == 1;
      default:
        return t != DType::boolean && ir::load_signed(t, c->data.data()) == 1;
    }
  }

  // All operands are splats: one element is computed by the evaluator.
  std::optional<Value> fold(const Node& n) {
    ir::Graph g;
    Node op = n;
    op.label = 0;
    op.operands.clear();
    for (Value v : n.operands) {
      Node c = at(v);
      c.types[0].shape.clear();
      c.label = 0;
      op.operands.push_back({static_cast<int32_t>(g.nodes.size()), 0});
      g.nodes.push_back(std::move(c));
    }
    op.types[0].shape.clear();
    g.nodes.push_back(std::move(op));
    g.outputs.push_back({{static_cast<int32_t>(g.nodes.size()) - 1, 0}, {}, -1});
    auto result = ir::evaluate(g, {}, {});
    if (!result.ok() || result->size() != 1) return std::nullopt;
    return splat_of(n.types[0], (*result)[0].data, n.label);
  }

  std::optional<Value> reduce(const Node& n, Value x) {
    const auto& a = std::get<ir::ReduceAttrs>(n.attrs);
    const ir::Type& from = type(x);
    const ir::Type& to = n.types[0];
    if (to.elements() > 0 && from.elements() == 0) return identity(a.reducer, to, n.label);
    if (to.elements() == 0) return std::nullopt;
    ir::ReduceAttrs kept;
    kept.reducer = a.reducer;
    std::vector<int64_t> shape;  // of the operand without reduced dimensions of size 1
    for (size_t d = 0; d < from.shape.size(); ++d) {
      const bool reduced = std::find(a.dims.begin(), a.dims.end(), static_cast<int64_t>(d)) != a.dims.end();
      if (reduced && from.shape[d] == 1) continue;
      if (reduced) kept.dims.push_back(static_cast<int64_t>(shape.size()));
      shape.push_back(from.shape[d]);
    }
    if (kept.dims.size() == a.dims.size() && !a.dims.empty()) return std::nullopt;
    const Value flat = add(Op::reshape, {x}, {from.dtype, std::move(shape)}, {}, n.label);
    return kept.dims.empty() ? flat : add(Op::reduce, {flat}, to, std::move(kept), n.label);
  }

  Value identity(ir::Reducer r, const ir::Type& t, int32_t label) {
    const bool real = is_floating(t.dtype);
    const double infinity = std::numeric_limits<double>::infinity();
    const int bits = static_cast<int>(8 * size_of(t.dtype));
    const bool is_signed = is_signed_integer(t.dtype);
    switch (r) {
      case ir::Reducer::multiply:
        return number(t, 1.0, label);
      case ir::Reducer::and_:
        if (t.dtype == DType::boolean) return number(t, int64_t{1}, label);
        return number(t, int64_t{-1}, label);
      case ir::Reducer::maximum:
        if (t.dtype == DType::f8e4m3fn) return number(t, -448.0, label);
        if (real) return number(t, -infinity, label);
        return number(t, is_signed ? std::numeric_limits<int64_t>::min() >> (64 - bits) : int64_t{0}, label);
      case ir::Reducer::minimum:
        if (t.dtype == DType::f8e4m3fn) return number(t, 448.0, label);
        if (real) return number(t, infinity, label);
        if (t.dtype == DType::boolean) return number(t, int64_t{1}, label);
        return number(t, is_signed ? std::numeric_limits<int64_t>::max() >> (64 - bits) : int64_t{-1}, label);
      default:
        return number(t, 0.0, label);
    }
  }

  ir::Graph& graph_;
  std::vector<Node> out_;
  std::vector<std::vector<Value>> replacement_;
  std::vector<uint8_t> live_;
  std::unordered_map<uint64_t, std::vector<int32_t>> by_hash_;
};

// Empty graphs need what canonicalize does for zero-size tensors even when the pass is off: those nodes have no other
// meaning.
bool has_empty_operands(const ir::Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
    return std::any_of(n.operands.begin(), n.operands.end(), [&](Value v) { return count(g.type(v).shape) == 0; }) ||
           n.op == Op::reduce;
  });
}

}  // namespace

void canonicalize(ir::Graph& graph, const Options& options) {
  const bool off = !pass_enabled(options, "canonicalize");
  if (off && !has_empty_operands(graph)) return;
  Canonicalizer(graph).run();
}

}  // namespace neuron::compiler
