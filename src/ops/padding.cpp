// reflection_pad and replication_pad over 1, 2 and 3 dimensions, and their gradients. Negative amounts crop.
//
// Not supported: bool (nor by CPU). Gradients in f16 and bf16 are added up in f32 and rounded once.
#include <algorithm>

#include "ops/pooling.h"

namespace neuron::ops {
namespace {

enum class Edge : uint8_t { reflect, replicate };

// Padded position p reads position p - low of the input. Up to three stretches, in order, empty ones left out: before the
// input's first element, inside, after its last one.
struct Stretch {
  int64_t first, length;  // positions in the input's numbering, which may lie outside
  int64_t side;           // -1 before, 0 inside, 1 after
};
std::vector<Stretch> stretches(int64_t size, int64_t low, int64_t high) {
  const int64_t begin = -low, end = size + high;
  std::vector<Stretch> out;
  const auto add = [&](int64_t from, int64_t to, int64_t side) {
    if (from < to) out.push_back({from, to - from, side});
  };
  add(begin, std::min<int64_t>(0, end), -1);
  add(std::max<int64_t>(begin, 0), std::min(size, end), 0);
  add(std::max(begin, size), end, 1);
  return out;
}

// The elements that a stretch outside mirrors: [first, first + length) of the input, to be read backwards.
int64_t mirrored(const Stretch& s, int64_t size) { return (s.side < 0 ? 0 : 2 * (size - 1)) - (s.first + s.length - 1); }

struct Amounts {
  int64_t low, high;
};
// By dimension, the last `spatial` ones of a tensor.
std::vector<Amounts> amounts(const Lowering& l, size_t spatial) {
  const auto list = l.ints("padding");
  if (list.size() != 2 * spatial) return {};
  std::vector<Amounts> out;
  for (size_t d = spatial; d-- > 0;) out.push_back({list[2 * d], list[2 * d + 1]});
  return out;
}

std::optional<Shape> padded_shape(const Lowering& l, size_t spatial, Edge edge) {
  const Shape& x = l.meta("self").shape;
  const auto pads = amounts(l, spatial);
  if (pads.empty() || !is_pooled(x, spatial)) return std::nullopt;
  Shape size = spatial_of(x, spatial);
  for (size_t d = 0; d < spatial; ++d) {
    if (edge == Edge::reflect && (pads[d].low >= size[d] || pads[d].high >= size[d])) return std::nullopt;
    size[d] += pads[d].low + pads[d].high;
    if (size[d] < 1) return std::nullopt;
  }
  return with_spatial(x, size);
}

TensorMeta in_format_of(const TensorMeta& x, const Shape& shape) {
  return {x.dtype, shape, strides_for(suggested_format(x.shape, x.strides), shape, x.strides)};
}

std::optional<Metas> pad_result(const Lowering& l, size_t spatial, Edge edge) {
  const TensorMeta& x = l.meta("self");
  const auto shape = padded_shape(l, spatial, edge);
  if (!shape || x.dtype == DType::boolean) return std::nullopt;
  return one(in_format_of(x, *shape));
}

Val pad_edges(Lowering& l, size_t spatial, Edge edge) {
  Val x = l.raw("self");
  const auto pads = amounts(l, spatial);
  for (size_t d = spatial; d-- > 0;) {
    const int64_t dim = x.rank() - static_cast<int64_t>(spatial - d), size = x.size(dim);
    std::vector<Val> parts;
    for (const Stretch& s : stretches(size, pads[d].low, pads[d].high)) {
      if (s.side == 0) {
        parts.push_back(slice(x, dim, s.first, s.first + s.length));
      } else if (edge == Edge::reflect) {
        const int64_t from = mirrored(s, size);
        parts.push_back(reverse(slice(x, dim, from, from + s.length), {dim}));
      } else {
        const int64_t from = s.side < 0 ? 0 : size - 1;
        Shape shape = x.shape();
        shape[dim] = s.length;
        parts.push_back(broadcast_to(slice(x, dim, from, from + 1), shape));
      }
    }
    x = concatenate(parts, dim);
  }
  return x;
}

std::optional<Metas> pad_backward_result(const Lowering& l, size_t spatial, Edge edge) {
  const TensorMeta &x = l.meta("self"), &grad = l.meta("grad_output");
  const auto shape = padded_shape(l, spatial, edge);
  if (!shape || grad.shape != *shape || grad.dtype != x.dtype || is_integral(x.dtype)) return std::nullopt;
  return one(in_format_of(x, x.shape));
}

// Each stretch goes back to where it was read from; what was read several times adds up.
Val pad_edges_backward(Lowering& l, size_t spatial, Edge edge) {
  const Val input = l.raw("grad_output");
  const auto pads = amounts(l, spatial);
  Val grad = convert(input, opmath(input.dtype()));
  for (size_t d = spatial; d-- > 0;) {
    const int64_t dim = grad.rank() - static_cast<int64_t>(spatial - d);
    const int64_t size = l.meta("self").shape[dim];
    int64_t position = 0;
    Val total;
    for (const Stretch& s : stretches(size, pads[d].low, pads[d].high)) {
      Val part = slice(grad, dim, position, position + s.length);
      position += s.length;
      int64_t at = s.first;
      if (s.side != 0 && edge == Edge::reflect) {
        part = reverse(part, {dim});
        at = mirrored(s, size);
      } else if (s.side != 0) {
        part = sum(part, {dim}, true);
        at = s.side < 0 ? 0 : size - 1;
      }
      Shape low(grad.rank(), 0), high(grad.rank(), 0);
      low[dim] = at;
      high[dim] = size - at - part.size(dim);
      part = pad(part, 0, low, high);
      total = total.present() ? total + part : part;
    }
    grad = total;
  }
  return convert(grad, input.dtype());
}

}  // namespace

void register_padding(Registry& registry) {
  for (const Edge edge : {Edge::reflect, Edge::replicate}) {
    for (const size_t spatial : {size_t{1}, size_t{2}, size_t{3}}) {
      const std::string name = std::string(edge == Edge::reflect ? "aten::reflection_pad" : "aten::replication_pad") +
                               std::to_string(spatial) + "d";
      NEURON_OP(name, no_promotion(), ResultRule([=](const Lowering& l) { return pad_result(l, spatial, edge); }),
                [=](Lowering& l) { return pad_edges(l, spatial, edge); });
      NEURON_OP(name + "_backward", no_promotion(),
                ResultRule([=](const Lowering& l) { return pad_backward_result(l, spatial, edge); }),
                [=](Lowering& l) { return pad_edges_backward(l, spatial, edge); });
    }
  }
}

}  // namespace neuron::ops
