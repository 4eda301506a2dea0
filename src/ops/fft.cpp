// Discrete Fourier transforms as matrix work. A length is taken apart into factors of at most kRadix; each factor is one
// product with a small matrix, in an order that needs no digit reversal (Stockham): the finished digit of the frequency
// becomes the leading dimension. Between factors a multiplication with roots of unity. Complex numbers travel as a leading
// dimension of two planes (real, imaginary), so that one real product with K = 2 * kRadix = 128 rows does a whole factor,
// as wide as the PE array. Transforms of real numbers of even length are complex ones of half the length.
//
// Not supported: half precision (PyTorch on CPU has none either).
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <numbers>

#include "ops/registry.h"

namespace neuron::ops {
namespace {

constexpr int64_t kRadix = 64;
constexpr int64_t kLargestMatrix = 128;  // rows of one plane of a matrix for a length without small factors, or of reals

enum Normalization : int64_t { kNone, kByRoot, kByCount };  // at::native::fft_norm_mode

using Complex = std::complex<double>;

// exp(2 pi i m / n), from an angle of at most an eighth of a turn.
Complex root_of_unity(int64_t m, int64_t n) {
  m = (m % n + n) % n;
  const int64_t quadrant = 4 * m / n, rest = 4 * m - quadrant * n;  // rest / n of a quarter turn
  const auto angle = [&](int64_t part) {
    return std::numbers::pi / 2 * (static_cast<double>(part) / static_cast<double>(n));
  };
  const bool low = 2 * rest <= n;
  const double c = low ? std::cos(angle(rest)) : std::sin(angle(n - rest));
  const double s = low ? std::sin(angle(rest)) : std::cos(angle(n - rest));
  switch (quadrant) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

Val table(ir::Builder& b, DType dtype, const Shape& shape, const std::vector<double>& values) {
  std::vector<uint8_t> data(values.size() * size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<float>(values[i]);
    if (dtype == DType::f64) {
      std::memcpy(&data[i * sizeof(double)], &values[i], sizeof(double));
    } else {
      std::memcpy(&data[i * sizeof(float)], &narrow, sizeof(float));
    }
  }
  return {b, b.constant({dtype, shape}, std::move(data))};
}

// x [2, ..] times complex constants that vary along dims `axes` of x (ascending); values in row-major order.
Val turned(const Val& x, const std::vector<int64_t>& axes, const std::vector<Complex>& values) {
  Shape shape(x.rank(), 1);
  for (const int64_t d : axes) shape[d] = x.size(d);
  std::vector<double> along, across;  // what multiplies the number, and the number with its planes exchanged
  for (const Complex& v : values) along.push_back(v.real());
  for (const Complex& v : values) across.push_back(-v.imag());
  for (const Complex& v : values) across.push_back(v.imag());
  const Val re = table(x.builder(), x.dtype(), shape, along);
  shape[0] = 2;
  const Val im = table(x.builder(), x.dtype(), shape, across);
  return x * re + reverse(x, {0}) * im;
}

Val conjugated(const Val& planes) {
  Shape shape(planes.rank(), 1);
  shape[0] = 2;
  return planes * table(planes.builder(), planes.dtype(), shape, {1, -1});
}

// Contracts the planes of x [planes, ..] and its dim `axis` with a matrix [planes out, n out, planes, n]: the result's dims
// are planes out, n out and x's others.
Val product(const Val& x, int64_t axis, int64_t planes_out, int64_t n_out,
            const std::function<double(int64_t, int64_t, int64_t, int64_t)>& entry) {
  const int64_t planes = x.size(0), n = x.size(axis);
  std::vector<double> entries;
  entries.reserve(static_cast<size_t>(planes_out * n_out * planes * n));
  for (int64_t p = 0; p < planes_out; ++p) {
    for (int64_t k = 0; k < n_out; ++k) {
      for (int64_t q = 0; q < planes; ++q) {
        for (int64_t j = 0; j < n; ++j) entries.push_back(entry(p, k, q, j));
      }
    }
  }
  const Val matrix = table(x.builder(), x.dtype(), {planes_out, n_out, planes, n}, entries);
  const ir::DotAttrs attrs{{}, {}, {2, 3}, {0, axis}, x.dtype()};
  return {x.builder(), x.builder().dot_general(matrix.value(), x.value(), attrs)};
}

// The matrix of a transform of length n, of which the first n_out frequencies are wanted.
Val transform_matrix(const Val& x, int64_t axis, int64_t sign, int64_t n_out) {
  const int64_t n = x.size(axis);
  std::vector<Complex> roots;
  for (int64_t m = 0; m < n; ++m) roots.push_back(root_of_unity(sign * m, n));
  return product(x, axis, 2, n_out, [&](int64_t p, int64_t k, int64_t q, int64_t j) {
    const Complex root = roots[j * k % n];
    return p == q ? root.real() : p == 0 ? -root.imag() : root.imag();
  });
}

// Of the divisors of n up to kRadix the one nearest to the equal share of its factors; 1 if there is none.
int64_t choose_factor(int64_t n) {
  const double size = std::log(static_cast<double>(n));
  const double share = size / std::ceil(size / std::log(static_cast<double>(kRadix)) - 1e-9);
  int64_t best = 1;
  for (int64_t d = 2; d <= std::min(n, kRadix); ++d) {
    const auto distance = [&](int64_t factor) { return std::abs(std::log(static_cast<double>(factor)) - share); };
    if (n % d == 0 && (best == 1 || distance(d) < distance(best))) best = d;
  }
  return best;
}

// sum over j of x[j] exp(sign 2 pi i j k / n) along `axis`. x has one plane (real numbers) or two; the result two.
Val transform(const Val& x, int64_t axis, int64_t sign);

// The transform of a power of two on the host.
std::vector<Complex> transformed(const std::vector<Complex>& x, int64_t sign) {
  const size_t n = x.size(), half = n / 2;
  if (n == 1) return x;
  std::vector<Complex> even, odd, result(n);
  for (size_t i = 0; i < half; ++i) {
    even.push_back(x[2 * i]);
    odd.push_back(x[2 * i + 1]);
  }
  even = transformed(even, sign);
  odd = transformed(odd, sign);
  for (size_t k = 0; k < half; ++k) {
    const Complex turn = odd[k] * root_of_unity(sign * static_cast<int64_t>(k), static_cast<int64_t>(n));
    result[k] = even[k] + turn;
    result[k + half] = even[k] - turn;
  }
  return result;
}

// A length without small factors, by Bluestein: with jk = (j^2 + k^2 - (k - j)^2) / 2 the transform is a convolution with a
// chirp, and that is a product of transforms of a power of two.
Val chirp_transform(const Val& x, int64_t axis, int64_t sign) {
  const int64_t n = x.size(axis);
  int64_t padded = 1;
  while (padded < 2 * n - 1) padded *= 2;
  std::vector<Complex> chirp, response(padded);
  for (int64_t j = 0; j < n; ++j) {
    chirp.push_back(root_of_unity(sign * (j * j % (2 * n)), 2 * n));
    response[j] = std::conj(chirp[j]) / static_cast<double>(padded);
    if (j > 0) response[padded - j] = response[j];
  }
  Shape none(x.rank(), 0), above(x.rank(), 0);
  above[axis] = padded - n;
  const Val y = transform(pad(turned(x, {axis}, chirp), 0, none, above), axis, -1);
  const Val convolved = transform(turned(y, {axis}, transformed(response, -1)), axis, 1);
  return turned(slice(convolved, axis, 0, n), {axis}, chirp);
}

// The same with dims planes, n and x's others in the result.
Val leading_transform(const Val& x, int64_t axis, int64_t sign) {
  const int64_t n = x.size(axis);
  const int64_t factor = n <= kRadix ? n : choose_factor(n);
  if (factor == n || (factor == 1 && n <= kLargestMatrix)) return transform_matrix(x, axis, sign, n);
  if (factor == 1) {
    return move_dim(chirp_transform(x.size(0) == 2 ? x : concatenate({x, like(x, 0)}, 0), axis, sign), axis, 1);
  }
  const int64_t rest = n / factor;
  Shape split = x.shape();
  split[axis] = rest;
  split.insert(split.begin() + axis, factor);
  const Val digits = transform_matrix(reshape(x, split), axis, sign, factor);  // [2, factor, .. rest ..]
  std::vector<Complex> twiddles;
  for (int64_t k = 0; k < factor; ++k) {
    for (int64_t j = 0; j < rest; ++j) twiddles.push_back(root_of_unity(sign * k * j, n));
  }
  const Val y = leading_transform(turned(digits, {1, axis + 1}, twiddles), axis + 1, sign);  // [2, rest, factor, ..]
  Shape joined = y.shape();
  joined.erase(joined.begin() + 1);
  joined[1] = n;
  return reshape(y, joined);
}

Val transform(const Val& x, int64_t axis, int64_t sign) { return move_dim(leading_transform(x, axis, sign), 1, axis); }

// Frequencies 0 .. n / 2 of n real numbers, x [1, ..]. Two halves of an even length, its even and odd elements, are the
// parts of complex numbers z; Z's symmetric parts are their transforms E and O, and X[k] = E[k] + exp(-2 pi i k / n) O[k].
Val half_spectrum(const Val& x, int64_t axis) {
  const int64_t n = x.size(axis), half = n / 2;
  if (n <= kLargestMatrix) return move_dim(transform_matrix(x, axis, -1, half + 1), 1, axis);
  if (n % 2 == 1) return slice(transform(x, axis, -1), axis, 0, half + 1);
  const Val even = slice(x, axis, 0, n, 2), odd = slice(x, axis, 1, n, 2);
  const Val z = transform(concatenate({even, odd}, 0), axis, -1);
  const Val around = concatenate({z, slice(z, axis, 0, 1)}, axis);
  const Val mirrored = conjugated(reverse(around, {axis}));
  std::vector<Complex> turns;
  for (int64_t k = 0; k <= half; ++k) turns.push_back(root_of_unity(-k, n) * Complex(0, -0.5));
  return 0.5 * (around + mirrored) + turned(around - mirrored, {axis}, turns);
}

// The rest of a spectrum of n real numbers.
Val mirrored_spectrum(const Val& x, int64_t axis, int64_t n) {
  const int64_t count = n - x.size(axis);  // of frequencies that the half spectrum lacks: count .. 1
  if (count == 0) return x;
  return concatenate({x, conjugated(reverse(slice(x, axis, 1, count + 1), {axis}))}, axis);
}

// n real numbers [1, ..] from frequencies 0 .. n / 2, not normalized: half_spectrum backwards. The imaginary parts of
// frequencies 0 and n / 2 are not looked at.
Val from_half_spectrum(const Val& spectrum, int64_t axis, int64_t n) {
  ir::Builder& b = spectrum.builder();
  const int64_t half = n / 2;
  const Val plane = iota(b, DType::i32, spectrum.shape(), 0), k = iota(b, DType::i32, spectrum.shape(), axis);
  Val real_only = eq(k, 0);
  if (n % 2 == 0) real_only = real_only | eq(k, static_cast<double>(half));
  const Val x = where(real_only & eq(plane, 1), like(spectrum, 0), spectrum);
  if (n <= kLargestMatrix) {
    std::vector<Complex> roots;
    for (int64_t m = 0; m < n; ++m) roots.push_back(root_of_unity(m, n));
    const Val y = product(x, axis, 1, n, [&](int64_t, int64_t j, int64_t q, int64_t f) {
      const Complex root = roots[j * f % n] * (f == 0 || 2 * f == n ? 1.0 : 2.0);
      return q == 0 ? root.real() : -root.imag();
    });
    return move_dim(y, 1, axis);
  }
  if (n % 2 == 1) return slice(transform(mirrored_spectrum(x, axis, n), axis, 1), 0, 0, 1);
  const Val mirrored = conjugated(reverse(x, {axis}));
  std::vector<Complex> turns;
  for (int64_t f = 0; f < half; ++f) turns.push_back(root_of_unity(f, n) * Complex(0, 1));
  const Val sums = slice(x + mirrored, axis, 0, half), differences = slice(x - mirrored, axis, 0, half);
  const Val pairs = transform(sums + turned(differences, {axis}, turns), axis, 1);
  Shape whole = x.shape();
  whole[0] = 1;
  whole[axis] = n;
  return reshape(move_dim(pairs, 0, axis), whole);
}

// The signals of an operator: planes of x with the last transformed dim in front of the others, where its elements are
// whole rows for the products to read.
struct Signals {
  std::vector<int64_t> dims;  // of x, wrapped
  Val planes;

  Signals(const Val& x, std::vector<int64_t> transformed) : dims(std::move(transformed)) {
    const Val front = move_dim(x, dims.back(), 0);
    planes = unsqueeze(real(front), 0);
    if (is_complex(x.dtype())) planes = concatenate({planes, unsqueeze(imag(front), 0)}, 0);
  }
  void transform_others(int64_t sign) {
    for (size_t i = 0; i + 1 < dims.size(); ++i) planes = transform(planes, dims[i] + (dims[i] < dims.back() ? 2 : 1), sign);
  }
  Val in_place(const Val& x) const { return move_dim(x, 0, dims.back()); }
  Val real_result() const { return in_place(squeeze(planes, 0)); }
  Val complex_result() const { return in_place(make_complex(select(planes, 0, 0), select(planes, 0, 1))); }
};

// Divided by the number of elements of one signal, or its root.
Val normalized(const Lowering& l, const Val& planes, const Shape& signals, const std::vector<int64_t>& dims) {
  double count = 1;
  for (const int64_t d : dims) count *= static_cast<double>(signals[d]);
  const int64_t normalization = l.int_("normalization");
  if (normalization == kNone) return planes;
  return planes * (1 / (normalization == kByCount ? count : std::sqrt(count)));
}

// --- metadata ---

// As MKL's caller lays results out: the dims of a batch in the order of the input's strides, then the transformed ones.
TensorMeta transformed_meta(const TensorMeta& x, DType dtype, const std::vector<int64_t>& dims, Shape shape) {
  std::vector<int64_t> order;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x.strides[a] > x.strides[b]; });
  order.insert(order.end(), dims.begin(), dims.end());
  TensorMeta meta{dtype, std::move(shape), Shape(order.size())};
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    meta.strides[order[i]] = stride;
    stride *= std::max<int64_t>(meta.shape[order[i]], 1);
  }
  return meta;
}

std::vector<int64_t> in_stride_order(const TensorMeta& x, std::vector<int64_t> dims, size_t count) {
  std::stable_sort(dims.begin(), dims.begin() + static_cast<int64_t>(count),
                   [&](int64_t a, int64_t b) { return x.strides[a] > x.strides[b]; });
  return dims;
}

// The wrapped dims, or nothing if they are not different dims of `x`.
std::optional<std::vector<int64_t>> transformed_dims(const Lowering& l) {
  const auto rank = static_cast<int64_t>(l.meta("self").shape.size());
  std::vector<int64_t> dims = l.ints("dim"), seen(rank, 0);
  for (int64_t& d : dims) {
    if (d < 0) d += rank;
    if (d < 0 || d >= rank || seen[d]++ > 0 || l.meta("self").shape[d] == 0) return std::nullopt;
  }
  return dims;
}

TensorMeta complex_meta(const TensorMeta& x, const std::vector<int64_t>& dims) {
  return transformed_meta(x, x.dtype, in_stride_order(x, dims, dims.size()), x.shape);
}

std::optional<Metas> complex_result(const Lowering& l) {
  const auto dims = transformed_dims(l);
  const TensorMeta& x = l.meta("self");
  if (!dims || !is_complex(x.dtype)) return std::nullopt;
  return dims->empty() ? like_input()(l) : one(complex_meta(x, *dims));
}

std::optional<Metas> from_real_result(const Lowering& l) {
  const auto dims = transformed_dims(l);
  const TensorMeta& x = l.meta("self");
  if (!dims || dims->empty() || (x.dtype != DType::f32 && x.dtype != DType::f64)) return std::nullopt;
  Shape shape = x.shape;
  if (l.flag("onesided")) shape[dims->back()] = shape[dims->back()] / 2 + 1;
  return one(transformed_meta(x, to_complex(x.dtype), in_stride_order(x, *dims, dims->size() - 1), std::move(shape)));
}

std::optional<Metas> to_real_result(const Lowering& l) {
  const auto dims = transformed_dims(l);
  const int64_t n = l.int_("last_dim_size");
  TensorMeta x = l.meta("self");
  if (!dims || dims->empty() || !is_complex(x.dtype) || n < 1 || x.shape[dims->back()] < n / 2 + 1) return std::nullopt;
  if (dims->size() > 1) x = complex_meta(x, {dims->begin(), dims->end() - 1});
  Shape shape = x.shape;
  shape[dims->back()] = n;
  return one(transformed_meta(x, real_type(x.dtype), {dims->back()}, std::move(shape)));
}

}  // namespace

void register_fft(Registry& registry) {
  NEURON_OP("aten::_fft_c2c", no_promotion(), result(complex_result), [](Lowering& l) {
    const Val x = l.raw("self");
    const auto dims = transformed_dims(l);
    if (!dims) return l.unsupported("these dims");
    if (dims->empty() || x.elements() == 0) return x;
    Signals signals(x, *dims);
    const int64_t sign = l.flag("forward") ? -1 : 1;
    signals.planes = transform(signals.planes, 1, sign);
    signals.transform_others(sign);
    signals.planes = normalized(l, signals.planes, x.shape(), *dims);
    return signals.complex_result();
  });
  NEURON_OP("aten::_fft_r2c", no_promotion(), result(from_real_result), [](Lowering& l) {
    const Val x = l.raw("self");
    const auto dims = transformed_dims(l);
    if (!dims || dims->empty()) return l.unsupported("these dims");
    const int64_t n = x.size(dims->back());
    Shape shape = x.shape();
    if (l.flag("onesided")) shape[dims->back()] = n / 2 + 1;
    if (x.elements() == 0) return full(l.builder(), to_complex(x.dtype()), shape, 0);
    Signals signals(x, *dims);
    signals.planes = half_spectrum(signals.planes, 1);
    if (!l.flag("onesided")) signals.planes = mirrored_spectrum(signals.planes, 1, n);
    signals.transform_others(-1);
    signals.planes = normalized(l, signals.planes, x.shape(), *dims);
    return signals.complex_result();
  });
  NEURON_OP("aten::_fft_c2r", no_promotion(), result(to_real_result), [](Lowering& l) {
    const Val x = l.raw("self");
    const auto dims = transformed_dims(l);
    const int64_t n = l.int_("last_dim_size");
    if (!dims || dims->empty() || n < 1) return l.unsupported("these dims");
    Shape shape = x.shape();
    if (shape[dims->back()] < n / 2 + 1) return l.unsupported("a spectrum that is too short");
    shape[dims->back()] = n;
    if (x.elements() == 0) return full(l.builder(), real_type(x.dtype()), shape, 0);
    Signals signals(slice(x, dims->back(), 0, n / 2 + 1), *dims);
    signals.transform_others(1);
    signals.planes = normalized(l, from_half_spectrum(signals.planes, 1, n), shape, *dims);
    return signals.real_result();
  });
}

}  // namespace neuron::ops
