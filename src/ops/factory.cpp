// Tensors from numbers: full, zeros, ones, eye, arange, linspace, tril_indices, triu_indices and their *_like and new_*
// forms.
//
// Not supported: layouts other than strided. `empty` is full of zeros here: only imported graphs ask.
#include <algorithm>
#include <cmath>

#include "ops/spacing.h"

namespace neuron::ops {

// CPU adds with one rounding (fma): for f32 that is the sum in f64, rounded.
Val spaced_at(const Val& start, const Val& end, int64_t n, const Val& place) {
  if (n <= 1) return broadcast_to(start, place.shape());
  const DType t = start.dtype(), wide = t == DType::f32 ? DType::f64 : t;
  const Val step = convert((end - start) / static_cast<double>(n - 1), wide);
  const Val from_start = convert(start, wide) + step * convert(place, wide);
  const Val from_end = convert(end, wide) - step * convert(static_cast<double>(n - 1) - place, wide);
  return convert(where(lt(place, static_cast<double>(n / 2)), from_start, from_end), t);
}

Val evenly_spaced(const Val& start, const Val& end, int64_t n) {
  return spaced_at(start, end, n, iota(start.builder(), DType::i64, {n}, 0));
}

namespace {

using Kind = ScalarArg::Kind;

DType number_dtype(const Lowering& l, const char* name) {
  const ScalarArg* s = l.scalar_argument(name);
  switch (s ? s->kind : Kind::floating) {
    case Kind::boolean:
      return DType::boolean;
    case Kind::integer:
      return DType::i64;
    case Kind::complex:
      return to_complex(l.ambient().default_dtype);
    default:
      return l.ambient().default_dtype;
  }
}

Shape size_argument(const Lowering& l) { return l.ints("size"); }

// Metas of a new tensor of `shape` in the requested memory format.
std::optional<Metas> fresh(const Lowering& l, DType dtype, Shape shape) {
  const auto format = memory_format_from_int(l.int_("memory_format", 0));
  if (!format || *format == MemoryFormat::preserve) return one(contiguous_meta(dtype, std::move(shape)));
  if (*format == MemoryFormat::contiguous) return one(contiguous_meta(dtype, std::move(shape)));
  if (shape.size() != (*format == MemoryFormat::channels_last ? 4u : 5u)) return std::nullopt;
  Shape strides = channels_last_strides(shape);
  return one({dtype, std::move(shape), std::move(strides)});
}

std::optional<Metas> like_self(const Lowering& l) {
  const TensorMeta& m = l.meta("self");
  const auto format = memory_format_from_int(l.int_("memory_format", 1));
  if (!format) return std::nullopt;
  if (*format == MemoryFormat::channels_last && m.shape.size() != 4) return std::nullopt;
  if (*format == MemoryFormat::channels_last_3d && m.shape.size() != 5) return std::nullopt;
  return one({l.dtype("dtype").value_or(m.dtype), m.shape, strides_for(*format, m.shape, m.strides)});
}

Val spread(Lowering& l, const char* number, DType dtype, const Shape& shape) {
  return broadcast_to(l.scalar(number, dtype), shape);
}

void register_full(Registry& registry) {
  const auto sized = ResultRule(
      [](const Lowering& l) { return fresh(l, l.dtype("dtype").value_or(l.ambient().default_dtype), size_argument(l)); });
  const auto new_sized = ResultRule(
      [](const Lowering& l) { return fresh(l, l.dtype("dtype").value_or(l.meta("self").dtype), size_argument(l)); });
  struct Constant {
    const char* name;
    double value;
  };
  for (const Constant c : {Constant{"zeros", 0}, Constant{"ones", 1}, Constant{"empty", 0}}) {
    const std::string name = c.name;
    const bool empty = name == "empty";
    NEURON_OP("aten::" + name + (empty ? ".memory_format" : ""), no_promotion(), sized, [c](Lowering& l) {
      return full(l.builder(), l.dtype("dtype").value_or(l.ambient().default_dtype), size_argument(l), c.value);
    });
    NEURON_OP("aten::" + name + "_like", no_promotion(), result(like_self), [c](Lowering& l) {
      const TensorMeta& m = l.meta("self");
      return full(l.builder(), l.dtype("dtype").value_or(m.dtype), m.shape, c.value);
    });
    NEURON_OP("aten::new_" + name, no_promotion(), new_sized, [c](Lowering& l) {
      return full(l.builder(), l.dtype("dtype").value_or(l.meta("self").dtype), size_argument(l), c.value);
    });
  }
  for (const char* name : {"aten::empty_strided", "aten::new_empty_strided", "aten::empty_permuted"}) {
    NEURON_OP(name, no_promotion(), no_rule(), [](Lowering& l) {
      const DType otherwise = l.has("self") ? l.meta("self").dtype : l.ambient().default_dtype;
      return full(l.builder(), l.dtype("dtype").value_or(otherwise), size_argument(l), 0);
    });
  }
  NEURON_OP("aten::full", no_promotion(), result(ResultRule([](const Lowering& l) {
              return fresh(l, l.dtype("dtype").value_or(number_dtype(l, "fill_value")), size_argument(l));
            })),
            [](Lowering& l) {
              return spread(l, "fill_value", l.dtype("dtype").value_or(number_dtype(l, "fill_value")), size_argument(l));
            })
      .must_fit("fill_value");
  NEURON_OP("aten::full_like", no_promotion(), result(like_self), [](Lowering& l) {
    const TensorMeta& m = l.meta("self");
    return spread(l, "fill_value", l.dtype("dtype").value_or(m.dtype), m.shape);
  }).must_fit("fill_value");
  NEURON_OP("aten::new_full", no_promotion(), new_sized, [](Lowering& l) {
    return spread(l, "fill_value", l.dtype("dtype").value_or(l.meta("self").dtype), size_argument(l));
  }).must_fit("fill_value");
  NEURON_OP("aten::scalar_tensor", no_promotion(), result(ResultRule([](const Lowering& l) {
              return std::optional<Metas>(one(contiguous_meta(l.dtype("dtype").value_or(l.ambient().default_dtype), {})));
            })),
            [](Lowering& l) { return l.scalar("s", l.dtype("dtype").value_or(l.ambient().default_dtype)); })
      .must_fit("s");
  NEURON_OP("aten::fill.Scalar", no_promotion(), result(like_input()), [](Lowering& l) {
    return spread(l, "value", l.meta("self").dtype, l.meta("self").shape);
  }).must_fit("value");
  NEURON_OP("aten::fill.Tensor", no_promotion(), result(ResultRule([](const Lowering& l) -> std::optional<Metas> {
              return l.meta("value").shape.empty() ? like_input()(l) : std::nullopt;
            })),
            [](Lowering& l) { return broadcast_to(convert(l.raw("value"), l.meta("self").dtype), l.meta("self").shape); });
  NEURON_OP("aten::zero", no_promotion(), result(like_input()),
            [](Lowering& l) { return full(l.builder(), l.meta("self").dtype, l.meta("self").shape, 0); });
}

// --- eye, arange, linspace ---

std::optional<Metas> eye_result(const Lowering& l) {
  const int64_t n = l.int_("n"), m = l.int_("m", n);
  if (n < 0 || m < 0) return std::nullopt;
  return one(contiguous_meta(l.dtype("dtype").value_or(l.ambient().default_dtype), {n, m}));
}

DType arange_dtype(const Lowering& l) {
  if (const auto dtype = l.dtype("dtype")) return *dtype;
  for (const char* name : {"start", "end", "step"}) {
    const ScalarArg* s = l.scalar_argument(name);
    if (s && s->kind != Kind::integer && s->kind != Kind::boolean) return l.ambient().default_dtype;
  }
  return DType::i64;
}

// Number of elements. CPU counts in integers for i64 results (numbers are truncated first), in doubles for all others.
std::optional<int64_t> arange_length(const Lowering& l) {
  for (const char* name : {"start", "end", "step"}) {
    const ScalarArg* s = l.scalar_argument(name);
    if (s && !s->known && !s->known_int) return std::nullopt;
  }
  if (arange_dtype(l) == DType::i64) {
    const int64_t start = l.int_("start", 0), end = l.int_("end"), step = l.int_("step", 1);
    if (step == 0 || (step > 0 && end < start) || (step < 0 && end > start)) return std::nullopt;
    return (end - start + step - (step > 0 ? 1 : -1)) / step;
  }
  const auto start = l.has("start") ? l.number("start") : 0.0, end = l.number("end");
  const auto step = l.has("step") ? l.number("step") : 1.0;
  if (!start || !end || !step || *step == 0 || !std::isfinite(*start) || !std::isfinite(*end)) return std::nullopt;
  if ((*step > 0 && *end < *start) || (*step < 0 && *end > *start)) return std::nullopt;
  return static_cast<int64_t>(std::ceil((*end - *start) / *step));
}

std::optional<Metas> arange_result(const Lowering& l) {
  const auto length = arange_length(l);
  if (!length) return std::nullopt;
  return one(contiguous_meta(arange_dtype(l), {*length}));
}

Val arange(Lowering& l) {
  const DType dtype = arange_dtype(l);
  const TensorMeta* expected = l.expected(0);
  const auto length = expected ? std::optional<int64_t>(expected->shape[0]) : arange_length(l);
  if (!length) return l.unsupported("a range whose length is not known");
  // CPU accumulates integers in i64, floats in f64 and half types in f32.
  const DType math = is_integral(dtype)                                   ? DType::i64
                     : opmath(dtype) == DType::f32 && dtype != DType::f32 ? DType::f32
                                                                          : DType::f64;
  Val x = iota(l.builder(), math, {*length}, 0);
  if (l.has("step")) x = x * l.scalar("step", math);
  if (l.has("start")) x = x + l.scalar("start", math);
  return convert(x, dtype);
}

DType linspace_dtype(const Lowering& l) {
  if (const auto dtype = l.dtype("dtype")) return *dtype;
  const ScalarArg *a = l.scalar_argument("start"), *b = l.scalar_argument("end");
  const bool complex = (a && a->kind == Kind::complex) || (b && b->kind == Kind::complex);
  return complex ? to_complex(l.ambient().default_dtype) : l.ambient().default_dtype;
}

std::optional<Metas> linspace_result(const Lowering& l) {
  if (l.int_("steps") < 0) return std::nullopt;
  return one(contiguous_meta(linspace_dtype(l), {l.int_("steps")}));
}

// CPU takes the ends in the result's dtype.
Val linspace(Lowering& l, DType dtype, DType math) {
  const DType ends = is_integral(dtype) ? dtype : math;
  return evenly_spaced(convert(l.scalar("start", ends), math), convert(l.scalar("end", ends), math), l.int_("steps"));
}

// --- tril_indices, triu_indices: rows and columns of a triangle's elements in row-major order ---

// Rows whose lengths change by one from row to row, and rows of whole length after (tril) or before (triu) them.
struct Triangle {
  int64_t first_row = 0;     // the first row of the changing part
  int64_t first_length = 0;  // its length
  int64_t changing = 0;      // elements in the changing part
  int64_t whole = 0;         // elements in whole rows
};

// Elements of rows that begin with `length` and change by `step`, `rows` of them.
int64_t trapezoid(int64_t rows, int64_t length, int64_t step) { return rows * length + step * (rows * (rows - 1) / 2); }

Triangle lower_triangle(int64_t rows, int64_t columns, int64_t offset) {
  Triangle t;
  t.first_row = std::min(rows, std::max<int64_t>(0, -offset));
  t.first_length = std::max<int64_t>(0, std::min(columns, t.first_row + offset + 1));
  const int64_t left = rows - t.first_row;
  const int64_t growing = t.first_length == 0 ? 0 : std::min(left, columns - t.first_length + 1);
  t.changing = trapezoid(growing, t.first_length, 1);
  t.whole = t.first_length == 0 ? 0 : (left - growing) * columns;
  return t;
}

Triangle upper_triangle(int64_t rows, int64_t columns, int64_t offset) {
  Triangle t;
  t.first_row = std::min(rows, std::max<int64_t>(0, -offset));
  t.first_length = std::max<int64_t>(0, columns - std::max<int64_t>(0, offset));
  t.changing = trapezoid(std::min(rows - t.first_row, t.first_length), t.first_length, -1);
  t.whole = t.first_row * columns;
  return t;
}

Triangle triangle_of(const Lowering& l, bool lower) {
  return (lower ? lower_triangle : upper_triangle)(l.int_("row"), l.int_("col"), l.int_("offset"));
}

DType triangle_dtype(const Lowering& l) { return l.dtype("dtype").value_or(DType::i64); }

// Row and column of element k of the changing part. Row r begins with element r * length +- r * (r - 1) / 2; the root of
// that is taken in f64 and corrected in integers.
std::vector<Val> changing_part(Lowering& l, const Triangle& t, bool lower, int64_t offset) {
  const double step = lower ? 1 : -1, length = static_cast<double>(t.first_length), b = 2 * length - step;
  const Val k = iota(l.builder(), DType::i64, {t.changing}, 0);
  const auto begin = [&](const Val& row) {
    const Val pairs = row * (row - 1.0) / 2.0;
    return lower ? row * length + pairs : row * length - pairs;
  };
  const Val root = sqrt(maximum(b * b + convert(k, DType::f64) * (8 * step), full(l.builder(), DType::f64, {}, 0)));
  Val row = convert(lower ? (root - b) / 2.0 : (b - root) / 2.0, DType::i64);
  row = row - convert(gt(begin(row), k), DType::i64);
  row = row + convert(le(begin(row + 1.0), k), DType::i64);
  const Val place = k - begin(row);
  row = row + static_cast<double>(t.first_row);
  return {row, lower ? place : place + maximum(row + static_cast<double>(offset), like(row, 0))};
}

std::optional<Metas> triangle_indices_result(const Lowering& l, bool lower) {
  const DType dtype = triangle_dtype(l);
  if (l.int_("row") < 0 || l.int_("col") < 0 || (dtype != DType::i64 && dtype != DType::i32)) return std::nullopt;
  const Triangle t = triangle_of(l, lower);
  return one(contiguous_meta(dtype, {2, t.changing + t.whole}));
}

Val triangle_indices(Lowering& l, bool lower) {
  const Triangle t = triangle_of(l, lower);
  const int64_t columns = l.int_("col");
  if (triangle_dtype(l) != DType::i64 && triangle_dtype(l) != DType::i32) return l.unsupported("indices of this dtype");
  std::vector<Val> parts;
  if (t.changing > 0) {
    const auto part = changing_part(l, t, lower, l.int_("offset"));
    parts.push_back(concatenate({unsqueeze(part[0], 0), unsqueeze(part[1], 0)}, 0));
  }
  if (t.whole > 0) {
    const int64_t rows = t.whole / columns, first = lower ? l.int_("row") - rows : 0;
    const Val row = iota(l.builder(), DType::i64, {1, rows, columns}, 1) + static_cast<double>(first);
    const Val both = concatenate({row, iota(l.builder(), DType::i64, {1, rows, columns}, 2)}, 0);
    parts.insert(lower ? parts.end() : parts.begin(), reshape(both, {2, t.whole}));
  }
  if (parts.empty()) return full(l.builder(), triangle_dtype(l), {2, 0}, 0);
  return convert(concatenate(parts, 1), triangle_dtype(l));
}

}  // namespace

void register_factory(Registry& registry) {
  register_full(registry);
  for (const char* name : {"aten::eye", "aten::eye.m"}) {
    NEURON_OP(name, no_promotion(), result(eye_result), [](Lowering& l) {
      const int64_t n = l.int_("n"), m = l.int_("m", n);
      const Val hit = eq(iota(l.builder(), DType::i64, {n, m}, 0), iota(l.builder(), DType::i64, {n, m}, 1));
      return convert(hit, l.dtype("dtype").value_or(l.ambient().default_dtype));
    });
  }
  for (const char* name : {"aten::arange", "aten::arange.start", "aten::arange.start_step"}) {
    NEURON_OP(name, no_promotion(), result(arange_result), arange)
        .decides_shape("start")
        .decides_shape("end")
        .decides_shape("step");
  }
  for (const bool lower : {true, false}) {
    NEURON_OP(lower ? "aten::tril_indices" : "aten::triu_indices", no_promotion(),
              result(ResultRule([lower](const Lowering& l) { return triangle_indices_result(l, lower); })),
              [lower](Lowering& l) { return triangle_indices(l, lower); });
  }
  NEURON_OP("aten::linspace", no_promotion(), result(linspace_result), [](Lowering& l) {
    const DType dtype = linspace_dtype(l);
    return convert(linspace(l, dtype, is_integral(dtype) ? DType::f64 : opmath(dtype)), dtype);
  });
  NEURON_OP("aten::logspace", no_promotion(), result(linspace_result), [](Lowering& l) {
    const DType dtype = linspace_dtype(l), math = is_integral(dtype) ? DType::f64 : opmath(dtype);
    const Val base = l.has("base") ? l.scalar("base", math) : full(l.builder(), math, {}, 10);
    return convert(pow(base, linspace(l, dtype, math)), dtype);
  });
}

}  // namespace neuron::ops
