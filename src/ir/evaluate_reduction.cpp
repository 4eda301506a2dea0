// reduce, arg_reduce, scan.
#include <cmath>
#include <limits>

#include "ir/evaluate.h"

namespace neuron::ir {
namespace {

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_same_v<T, double>) return std::isnan(value);
  return false;
}

// Whether `a` comes before `b` in the order of maximum (or minimum), where NaN comes before everything else.
template <class T>
bool wins(bool maximum, T a, T b) {
  if (is_nan(b)) return false;
  if (is_nan(a)) return true;
  if constexpr (std::is_same_v<T, Complex>)
    return false;  // has no order; the rules refuse it
  else
    return maximum ? a > b : a < b;
}

}  // namespace

template <class T>
T combine(Reducer reducer, T a, T b, DType dtype) {
  if constexpr (std::is_same_v<T, Complex>) {
    return reducer == Reducer::assign ? b : reducer == Reducer::multiply ? a * b : a + b;
  } else {
    const bool boolean = dtype == DType::boolean;
    switch (reducer) {
      case Reducer::add:
        return boolean ? T(a != 0 || b != 0) : T(a + b);
      case Reducer::multiply:
        return a * b;
      case Reducer::maximum:
        return wins(true, b, a) ? b : a;
      case Reducer::minimum:
        return wins(false, b, a) ? b : a;
      case Reducer::assign:
        return b;
      default:
        break;
    }
    if constexpr (!std::is_same_v<T, double>) {
      if (reducer == Reducer::and_) return a & b;
      if (reducer == Reducer::or_) return a | b;
      if (reducer == Reducer::xor_) return a ^ b;
    }
    return a;
  }
}
template int64_t combine(Reducer, int64_t, int64_t, DType);
template uint64_t combine(Reducer, uint64_t, uint64_t, DType);
template double combine(Reducer, double, double, DType);
template Complex combine(Reducer, Complex, Complex, DType);

template <class T>
T reducer_identity(Reducer reducer, DType dtype) {
  if constexpr (std::is_same_v<T, Complex>) {
    return reducer == Reducer::multiply ? 1.0 : 0.0;
  } else if constexpr (std::is_same_v<T, double>) {
    // e4m3fn has no infinity: its largest finite numbers.
    const double limit = dtype == DType::f8e4m3fn ? 448.0 : std::numeric_limits<double>::infinity();
    if (reducer == Reducer::maximum) return -limit;
    if (reducer == Reducer::minimum) return limit;
    return reducer == Reducer::multiply ? 1.0 : 0.0;
  } else {
    const bool is_signed = std::is_same_v<T, int64_t>;
    const int bits = static_cast<int>(size_of(dtype)) * 8;
    T low = 0, high = static_cast<T>(~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0)));
    if (is_signed) low = static_cast<T>(~static_cast<uint64_t>(high));
    if (dtype == DType::boolean) low = 0, high = 1;
    switch (reducer) {
      case Reducer::multiply:
        return 1;
      case Reducer::maximum:
        return low;
      case Reducer::minimum:
        return high;
      case Reducer::and_:
        return dtype == DType::boolean ? T{1} : static_cast<T>(~uint64_t{0});
      default:
        return 0;
    }
  }
}
template int64_t reducer_identity(Reducer, DType);
template uint64_t reducer_identity(Reducer, DType);
template double reducer_identity(Reducer, DType);
template Complex reducer_identity(Reducer, DType);

namespace {

template <class T>
void reduce(NodeCall c) {
  const auto& a = std::get<ReduceAttrs>(c.node.attrs);
  const DType dtype = c.type(0).dtype;
  const std::vector<T> x = numbers<T>(*c.in[0]);
  std::vector<bool> gone(c.type(0).shape.size());
  for (int64_t d : a.dims) gone[d] = true;
  std::vector<T> sums(c.out[0].type.elements(), reducer_identity<T>(a.reducer, dtype));
  size_t p = 0;
  for (MultiIndex i(c.type(0).shape); i.valid(); i.next(), ++p) {
    std::vector<int64_t> at;
    for (size_t d = 0; d < gone.size(); ++d) {
      if (!gone[d]) at.push_back(i[d]);
    }
    T& sum = sums[position(at, c.out[0].type.shape)];
    sum = combine(a.reducer, sum, x[p], dtype);
  }
  for (size_t i = 0; i < sums.size(); ++i) store_at(c.out[0], i, sums[i]);
}

// A tensor seen as [outer, length, inner] around one dimension.
struct Line {
  int64_t outer = 1, length = 1, inner = 1;
  Line(const std::vector<int64_t>& shape, int64_t dim) : length(shape[dim]) {
    for (int64_t d = 0; d < dim; ++d) outer *= shape[d];
    for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  }
  int64_t at(int64_t o, int64_t i, int64_t n) const { return (o * length + i) * inner + n; }
};

template <class T>
void arg_reduce(NodeCall c) {
  const auto& a = std::get<ArgReduceAttrs>(c.node.attrs);
  const std::vector<T> x = numbers<T>(*c.in[0]);
  const Line line(c.type(0).shape, a.dim);
  for (int64_t o = 0; o < line.outer; ++o) {
    for (int64_t n = 0; n < line.inner; ++n) {
      int64_t best = 0;
      for (int64_t i = 1; i < line.length; ++i) {
        if (wins(a.maximum, x[line.at(o, i, n)], x[line.at(o, best, n)])) best = i;
      }
      store_at(c.out[0], o * line.inner + n, best);
    }
  }
}

// The running value and, for maximum and minimum, the index it came from: as torch.cummax, a later equal element (and a
// later NaN) replaces an earlier one.
template <class T>
void scan(NodeCall c) {
  const auto& a = std::get<ScanAttrs>(c.node.attrs);
  const DType dtype = c.type(0).dtype;
  const std::vector<T> x = numbers<T>(*c.in[0]);
  const Line line(c.type(0).shape, a.dim);
  const bool ordered = a.reducer == Reducer::maximum || a.reducer == Reducer::minimum;
  for (int64_t o = 0; o < line.outer; ++o) {
    for (int64_t n = 0; n < line.inner; ++n) {
      T value{};
      int64_t index = 0;
      for (int64_t step = 0; step < line.length; ++step) {
        const int64_t i = a.reverse ? line.length - 1 - step : step;
        const T next = x[line.at(o, i, n)];
        if (step == 0) {
          value = next;
          index = i;
        } else if (!ordered) {
          value = combine(a.reducer, value, next, dtype);
        } else if (!wins(a.reducer == Reducer::maximum, value, next)) {
          value = next;
          index = i;
        }
        store_at(c.out[0], line.at(o, i, n), value);
        if (ordered) store_at(c.out[1], line.at(o, i, n), index);
      }
    }
  }
}

}  // namespace

Status evaluate_reduction(NodeCall c) {
  with_number(c.type(0).dtype, [&]<class T>(T) {
    if (c.node.op == Op::reduce) {
      reduce<T>(c);
      return;
    }
    if (c.node.op == Op::scan) {
      scan<T>(c);
      return;
    }
    if constexpr (!std::is_same_v<T, Complex>) arg_reduce<T>(c);
  });
  return {};
}

}  // namespace neuron::ir
