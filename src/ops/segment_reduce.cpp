// segment_reduce and its backward, over lengths or offsets.
//
// Not supported: indices (PyTorch refuses them). Negative lengths and lengths that do not add up are reported by the caller
// (pytorch/dispatch/value_checks.cpp); here what lies outside every segment counts nowhere.
#include <limits>
#include <numeric>

#include "ops/indexing.h"
#include "ops/segments.h"

namespace neuron::ops {

using ir::Reducer;

static Val scatter_dropping(const Val& into, const Val& index, const Val& values, Reducer combine, ir::ScatterAttrs s) {
  s.combine = combine;
  s.check_bounds = false;
  return {into.builder(), into.builder().scatter(into.value(), index.value(), values.value(), s)};
}

Val run_of_places(const Val& ends, int64_t n) {
  const Val none = full_int(ends.builder(), DType::i64, {ends.size(0), n}, 0);
  if (none.elements() == 0 || ends.elements() == 0) return none;
  ir::ScatterAttrs s;
  s.input_batching_dims = s.scatter_indices_batching_dims = {0};
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {1};
  s.index_vector_dim = 2;
  return scan(Reducer::add, scatter_dropping(none, ends, like_int(ends, 1), Reducer::add, s), 1);
}

Val combine_rows(const Val& into, const Val& row, const Val& values, Reducer combine) {
  if (values.elements() == 0 || into.elements() == 0) return into;
  ir::ScatterAttrs s;
  s.update_window_dims = {1};
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  return scatter_dropping(into, row, values, combine, s);
}

namespace {

enum class Reduction : uint8_t { sum, mean, maximum, minimum, product };

std::optional<Reduction> reduction_named(const std::string& name) {
  if (name == "sum") return Reduction::sum;
  if (name == "mean") return Reduction::mean;
  if (name == "max") return Reduction::maximum;
  if (name == "min") return Reduction::minimum;
  if (name == "prod") return Reduction::product;
  return std::nullopt;
}

Reducer reducer_of(Reduction r) {
  switch (r) {
    case Reduction::maximum:
      return Reducer::maximum;
    case Reduction::minimum:
      return Reducer::minimum;
    case Reduction::product:
      return Reducer::multiply;
    default:
      return Reducer::add;
  }
}

// `data` is [.. , N, ..]: the dims of lengths before its last one, the axis, the rest.
struct Extent {
  Shape lead;
  int64_t batch = 1, places = 0, segments = 0, inner = 1;
  Shape rest;
};

std::optional<Extent> extent(const Lowering& l) {
  const char* name = l.tensor("lengths") ? "lengths" : "offsets";
  if (!l.tensor(name) || l.has("indices") || !reduction_named(l.text("reduce"))) return std::nullopt;
  const TensorMeta &data = l.meta("data"), &segments = l.meta(name);
  if (!is_floating(data.dtype) || (segments.dtype != DType::i64 && segments.dtype != DType::i32)) return std::nullopt;
  const auto rank = static_cast<int64_t>(data.shape.size()), last = static_cast<int64_t>(segments.shape.size()) - 1;
  if (last < 0 || last >= rank || l.dim("axis", rank) != last) return std::nullopt;
  if (!std::equal(segments.shape.begin(), segments.shape.end() - 1, data.shape.begin())) return std::nullopt;
  Extent e;
  e.lead.assign(data.shape.begin(), data.shape.begin() + last);
  e.rest.assign(data.shape.begin() + last + 1, data.shape.end());
  e.batch = element_count(e.lead);
  e.places = data.shape[last];
  e.inner = element_count(e.rest);
  e.segments = segments.shape[last] - (l.tensor("lengths") ? 0 : 1);
  return e.segments < 0 ? std::nullopt : std::optional<Extent>(e);
}

Shape reduced_of(const Extent& e) {
  Shape shape = e.lead;
  shape.push_back(e.segments);
  shape.insert(shape.end(), e.rest.begin(), e.rest.end());
  return shape;
}

struct Segments {
  Val row;     // i64 [batch * places]: the segment of each place, batch * segments outside of all
  Val length;  // [batch * segments, 1] in the dtype of the arithmetic
};

Segments segments_of(Lowering& l, const Extent& e, DType math) {
  Val begins, ends;
  if (l.tensor("lengths")) {
    const Val length = reshape(convert(l.raw("lengths"), DType::i64), {e.batch, e.segments});
    ends = length.elements() == 0 ? length : scan(Reducer::add, length, 1);
    begins = ends - length;
  } else {
    const Val offsets = reshape(convert(l.raw("offsets"), DType::i64), {e.batch, e.segments + 1});
    begins = slice(offsets, 1, 0, e.segments);
    ends = slice(offsets, 1, 1, e.segments + 1);
  }
  const Val run = run_of_places(ends, e.places), place = iota(l.builder(), DType::i64, run.shape(), 1);
  Val inside = lt(run, static_cast<double>(e.segments));
  if (e.segments > 0) inside = inside & ge(place, slice(begins, 1, 0, 1));
  const Val row = iota(l.builder(), DType::i64, run.shape(), 0) * like_int(run, e.segments) + run;
  return {flatten(where(inside, row, like_int(row, e.batch * e.segments))),
          reshape(convert(ends - begins, math), {e.batch * e.segments, 1})};
}

std::optional<Metas> segment_result(const Lowering& l) {
  const auto e = extent(l);
  return e ? std::optional<Metas>(one(contiguous_meta(l.meta("data").dtype, reduced_of(*e)))) : std::nullopt;
}

// What a segment without elements holds.
Val initial(Lowering& l, Reduction reduction, DType math) {
  if (l.has("initial")) return l.scalar("initial", math);
  const Val zero = full(l.builder(), math, {}, 0);
  if (reduction == Reduction::maximum || reduction == Reduction::minimum) {
    return infinity_like(zero, reduction == Reduction::maximum);
  }
  return reduction == Reduction::product ? like(zero, 1) : zero;
}

Val segment_reduce(Lowering& l) {
  const auto e = extent(l);
  if (!e) return l.unsupported("these segments");
  const DType t = l.meta("data").dtype, math = opmath(t);
  const Reduction reduction = *reduction_named(l.text("reduce"));
  const Segments s = segments_of(l, *e, math);
  const Val data = reshape(convert(l.raw("data"), math), {e->batch * e->places, e->inner});
  const Val start = broadcast_to(initial(l, reduction, math), {e->batch * e->segments, e->inner});
  Val result = combine_rows(start, s.row, data, reducer_of(reduction));
  if (reduction == Reduction::mean) {  // without elements: the initial value, or 0 / 0
    result = l.has("initial") ? where(gt(s.length, 0), result / s.length, result) : result / s.length;
  }
  return convert(reshape(result, reduced_of(*e)), t);
}

// Every value of a segment but one place's own, multiplied; for places that hold 0 or NaN, by which nothing can be divided.
Val product_of_others(const Val& data, const Val& start, const Segments& s, const std::function<Val(const Val&)>& of_row) {
  const Val zero = eq(data, 0), bad = is_nan(data), none = like(start, 0);
  const auto count = [&](const Val& which) {
    const Val ones = convert(which, data.dtype());
    return of_row(combine_rows(none, s.row, ones, Reducer::add)) - ones;  // of the other places
  };
  const Val plain = of_row(combine_rows(start, s.row, where(zero | bad, like(data, 1), data), Reducer::multiply));
  const Val nan = like(data, std::numeric_limits<double>::quiet_NaN());
  return where(gt(count(bad), 0), nan, where(gt(count(zero), 0), 0.0 * plain, plain));
}

Val segment_reduce_backward(Lowering& l) {
  const auto e = extent(l);
  if (!e) return l.unsupported("these segments");
  const DType t = l.meta("data").dtype, math = opmath(t);
  const int64_t rows = e->batch * e->segments, places = e->batch * e->places;
  const Val data = reshape(convert(l.raw("data"), math), {places, e->inner}), zeros = like(data, 0);
  if (rows == 0 || data.elements() == 0) return convert(reshape(zeros, l.meta("data").shape), t);
  const Segments s = segments_of(l, *e, math);
  const auto per_row = [&](const char* name) { return reshape(convert(l.raw(name), math), {rows, e->inner}); };
  const Val safe = minimum(s.row, like_int(s.row, rows - 1));
  const auto of_row = [&](const Val& v) { return take_slices(v, safe, 0); };
  const Val grad = of_row(per_row("grad"));
  Val result = grad;
  switch (const Reduction reduction = *reduction_named(l.text("reduce"))) {
    case Reduction::sum:
      break;
    case Reduction::mean:
      result = grad / of_row(s.length);
      break;
    case Reduction::maximum:
    case Reduction::minimum: {  // shared by the elements that are the extreme, or NaN
      const Val chosen = eq(data, of_row(per_row("output"))) | is_nan(data);
      const Val shares =
          of_row(combine_rows(full(l.builder(), math, {rows, e->inner}, 0), s.row, convert(chosen, math), Reducer::add));
      result = where(chosen, grad / shares, zeros);
      break;
    }
    case Reduction::product: {
      const Val start = broadcast_to(initial(l, reduction, math), {rows, e->inner});
      const Val others = product_of_others(data, start, s, of_row);
      result = where(eq(data, 0) | is_nan(data), grad * others, grad * of_row(per_row("output")) / data);
      break;
    }
  }
  const Val inside = unsqueeze(lt(s.row, static_cast<double>(rows)), 1);
  return convert(reshape(where(inside, result, zeros), l.meta("data").shape), t);
}

}  // namespace

void register_segment_reduce(Registry& registry) {
  NEURON_OP("aten::segment_reduce", no_promotion(), result(segment_result), segment_reduce);
  NEURON_OP("aten::_segment_reduce_backward", no_promotion(),
            result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              return extent(l) ? contiguous_like("data")(l) : std::nullopt;
            })),
            segment_reduce_backward);
}

}  // namespace neuron::ops
