// Random operators on Philox bits: dropout, rrelu, bernoulli, uniform, normal, exponential and relatives, integers,
// permutations, multinomial.
//
// Not supported: complex normal numbers of generators with explicit mean and std tensors, poisson, binomial, gamma. Numbers
// differ from CPU's for the same seed (another generator); distributions are the same. Invalid probabilities are not
// reported.
#include "ops/random.h"

#include <cmath>
#include <numbers>

namespace neuron::ops {

using ir::Op;
using ir::Reducer;

namespace {

constexpr DType kWord = DType::u32, kWide = DType::u64;

Val shift_right(const Val& x, int64_t amount) { return binary(Op::shift_right_logical, x, like_int(x, amount)); }

Val bits_from(const Val& seed, const Val& offset, const Shape& shape, DType dtype) {
  ir::Builder& b = seed.builder();
  return {b, b.rng_bits(seed.value(), offset.value(), {dtype, shape})};
}
Val bits(Lowering& l, const Shape& shape, DType dtype, int64_t skip) {
  const Val offset = l.rng_offset();
  return bits_from(l.seed(), skip == 0 ? offset : offset + like_int(offset, skip), shape, dtype);
}

// Bits of a uniform number, so that it is exact in the dtype and stays below 1.
int mantissa_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 53;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    default:
      return 24;
  }
}

Val uniform_from(const Val& seed, const Val& offset, const Shape& shape, DType dtype) {
  const int kept = mantissa_bits(dtype);
  const bool wide = dtype == DType::f64;
  const Val drawn = shift_right(bits_from(seed, offset, shape, wide ? kWide : kWord), (wide ? 64 : 32) - kept);
  return convert(drawn, wide ? DType::f64 : DType::f32) * std::ldexp(1.0, -kept);
}

int64_t elements_of_self(const Lowering& l) { return element_count(l.meta("self").shape); }

// The dtype in which a distribution is computed.
DType compute_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

Val uniform01(Lowering& l, const Shape& shape, DType dtype, int64_t skip) {
  const Val offset = l.rng_offset();
  return uniform_from(l.seed(), skip == 0 ? offset : offset + like_int(offset, skip), shape, dtype);
}

Val uniform_open(Lowering& l, const Shape& shape, DType dtype, int64_t skip) {
  const bool wide = dtype == DType::f64;
  const int kept = wide ? 52 : 23;  // one less, so that the middle of each step is exact
  const Val drawn = shift_right(bits(l, shape, wide ? kWide : kWord, skip), (wide ? 64 : 32) - kept);
  return (convert(drawn, wide ? DType::f64 : DType::f32) + 0.5) * std::ldexp(1.0, -kept);
}

// Box-Muller; the radius from the first draw, the angle from the second.
Val standard_normal(Lowering& l, const Shape& shape, DType dtype) {
  const int64_t count = element_count(shape);
  const Val radius = sqrt(-2.0 * log(uniform_open(l, shape, dtype)));
  return radius * unary(Op::cosine, uniform01(l, shape, dtype, count) * (2 * std::numbers::pi));
}

Val bernoulli_from(const Val& seed, const Val& offset, const Shape& shape, const Val& probability) {
  const Val u = uniform_from(seed, offset, shape, probability.dtype());
  return lt(u, convert(probability, u.dtype()));
}
Val bernoulli(Lowering& l, const Shape& shape, const Val& probability) {
  return bernoulli_from(l.seed(), l.rng_offset(), shape, probability);
}

namespace {

// --- dropout ---

std::optional<Metas> dropout_result(const Lowering& l) {
  const TensorMeta& x = l.meta("input");
  const Shape strides = preserved_strides(x.shape, x.strides);
  return Metas{TensorMeta{x.dtype, x.shape, strides}, TensorMeta{DType::boolean, x.shape, strides}};
}

bool training(const Lowering& l) { return l.flag("train", true); }

std::vector<Val> dropout(Lowering& l) {
  const Val input = l.raw("input");
  if (!training(l)) return {input, full(l.builder(), DType::boolean, input.shape(), 1)};
  const DType t = opmath(input.dtype());
  if (!is_floating(t)) return {l.unsupported("dropout of this dtype"), Val()};
  const Val keep = 1.0 - l.scalar("p", DType::f32);
  const Val mask = bernoulli(l, input.shape(), keep);
  const Val p = l.scalar("p", t), scale = where(ge(p, 1.0), like(p, 0), 1.0 / (1.0 - p));
  const Val x = convert(input, t);
  return {convert(where(mask, x * scale, like(x, 0)), input.dtype()), mask};
}

// grad * mask * scale: integer gradients become the default float, what is not finite stays so under the mask.
DType dropout_backward_dtype(const Lowering& l) {
  const DType grad = l.meta("grad_output").dtype;
  return is_integral(grad) ? l.ambient().default_dtype : grad;
}

std::optional<Metas> dropout_backward_result(const Lowering& l) {
  if (l.meta("mask").dtype != DType::boolean) return std::nullopt;
  return pointwise_of({"grad_output", "mask"}, dropout_backward_dtype(l))(l);
}

Val dropout_backward(Lowering& l) {
  const DType result = dropout_backward_dtype(l), t = opmath(result);
  return convert(convert(l.raw("grad_output"), t) * convert(l.raw("mask"), t) * l.scalar("scale", t), result);
}

void register_dropout(Registry& registry) {
  NEURON_OP("aten::native_dropout", no_promotion(), result(dropout_result), dropout).uses_rng([](const Lowering& l) {
    return training(l) ? element_count(l.meta("input").shape) : 0;
  });
  NEURON_OP("aten::native_dropout_backward", no_promotion(), result(dropout_backward_result), dropout_backward);
}

// --- rrelu: negative numbers times a random slope, which `noise` keeps for the gradient (1 for the others) ---

bool is_rrelu(const Lowering& l) {
  const TensorMeta &x = l.meta("self"), &noise = l.meta("noise");
  return is_floating(x.dtype) && x.dtype != DType::f16 && noise.dtype == x.dtype && noise.shape == x.shape;
}

std::optional<Metas> rrelu_result(const Lowering& l) {
  if (!is_rrelu(l)) return std::nullopt;
  const TensorMeta& x = l.meta("self");
  return Metas{contiguous_meta(x.dtype, x.shape), l.meta("noise")};
}

std::vector<Val> rrelu(Lowering& l) {
  if (!is_rrelu(l)) return {l.unsupported("this form"), Val()};
  const Val input = l.raw("self"), noise = l.raw("noise"), x = convert(input, opmath(input.dtype()));
  const DType t = x.dtype();
  const Val lower = l.scalar("lower", t), upper = l.scalar("upper", t);
  if (!l.flag("training")) {
    return {convert(where(le(x, 0), x * ((lower + upper) / 2.0), x), input.dtype()), noise};
  }
  const Val drawn = convert(lower + (upper - lower) * uniform01(l, x.shape(), compute_dtype(t)), input.dtype());
  const Val slope = where(le(x, 0), convert(drawn, t), like(x, 1));
  return {convert(x * slope, input.dtype()), convert(slope, input.dtype())};
}

std::optional<Metas> rrelu_backward_result(const Lowering& l) {
  return pointwise_of({"grad_output", l.flag("training") ? "noise" : "self"})(l);
}

// Training with one possible slope draws none: as in inference, where the slope's place is the sign of self.
Val rrelu_backward(Lowering& l) {
  const Val grad = l.raw("grad_output");
  const DType t = opmath(grad.dtype());
  const Val g = convert(grad, t), lower = l.scalar("lower", t), upper = l.scalar("upper", t);
  const Val fixed = where(gt(convert(l.raw("self"), t), 0), g, g * ((lower + upper) / 2.0));
  if (!l.flag("training")) return convert(fixed, grad.dtype());
  return convert(where(gt(upper - lower, 1e-6), g * convert(l.raw("noise"), t), fixed), grad.dtype());
}

void register_rrelu(Registry& registry) {
  NEURON_OP("aten::rrelu_with_noise_functional", no_promotion(), result(rrelu_result), rrelu)
      .uses_rng([](const Lowering& l) { return l.flag("training") ? element_count(l.meta("self").shape) : 0; });
  NEURON_OP("aten::rrelu_with_noise_backward", no_promotion(), result(rrelu_backward_result), rrelu_backward);
}

// --- distributions that fill or copy the form of `self` ---

// A distribution gives values in f32 or f64; `draws` numbers per element.
struct Distribution {
  std::string name;
  int64_t draws;
  Val (*values)(Lowering&, const Shape&, DType);
};

Val uniform_values(Lowering& l, const Shape& shape, DType dtype) {
  const Val u = uniform01(l, shape, dtype);
  const Val from = l.has("from") ? l.scalar("from", u.dtype()) : full(l.builder(), u.dtype(), {}, 0);
  const Val to = l.has("to") ? l.scalar("to", u.dtype()) : full(l.builder(), u.dtype(), {}, 1);
  return u * (to - from) + from;
}

Val scalar_or(Lowering& l, const char* name, double otherwise, DType dtype) {
  return l.has(name) ? l.scalar(name, dtype) : full(l.builder(), dtype, {}, otherwise);
}

Val normal_values(Lowering& l, const Shape& shape, DType dtype) {
  const DType t = compute_dtype(dtype);
  return standard_normal(l, shape, t) * scalar_or(l, "std", 1, t) + scalar_or(l, "mean", 0, t);
}

Val exponential_values(Lowering& l, const Shape& shape, DType dtype) {
  const DType t = compute_dtype(dtype);
  return -log(uniform_open(l, shape, t)) / scalar_or(l, "lambd", 1, t);
}

// Number of trials until the first success.
Val geometric_values(Lowering& l, const Shape& shape, DType dtype) {
  const DType t = compute_dtype(dtype);
  const Val trials = log(uniform_open(l, shape, t)) / unary(Op::log_plus_one, -l.scalar("p", t));
  return maximum(unary(Op::ceil, trials), like(trials, 1));
}

Val cauchy_values(Lowering& l, const Shape& shape, DType dtype) {
  const DType t = compute_dtype(dtype);
  const Val angle = (uniform_open(l, shape, t) - 0.5) * std::numbers::pi;
  return unary(Op::tan, angle) * scalar_or(l, "sigma", 1, t) + scalar_or(l, "median", 0, t);
}

Val log_normal_values(Lowering& l, const Shape& shape, DType dtype) {
  const DType t = compute_dtype(dtype);
  return exp(standard_normal(l, shape, t) * scalar_or(l, "std", 2, t) + scalar_or(l, "mean", 1, t));
}

Val bernoulli_values(Lowering& l, const Shape& shape, DType dtype) {
  const Val p =
      l.has("p") ? (l.tensor("p") ? l.raw("p") : l.scalar("p", DType::f32)) : full(l.builder(), DType::f32, {}, 0.5);
  const Val exact = convert(p, p.dtype() == DType::f64 ? DType::f64 : DType::f32);
  return convert(bernoulli(l, shape, broadcast_to(exact, shape)), compute_dtype(dtype));
}

// Complex uniform numbers: both parts are.
Val complex_uniform(Lowering& l, const Shape& shape, DType dtype) {
  Shape parts = shape;
  parts.insert(parts.begin(), 2);
  const Val u = uniform_values(l, parts, real_type(dtype));
  return make_complex(select(u, 0, 0), select(u, 0, 1));
}

// Complex normal numbers: real and imaginary part each with half the variance.
Val complex_normal(Lowering& l, const Shape& shape, DType dtype) {
  Shape parts = shape;
  parts.insert(parts.begin(), 2);
  const DType t = real_type(dtype);
  const Val z = standard_normal(l, parts, t) * scalar_or(l, "std", 1, t) * std::numbers::sqrt2 * 0.5;
  return make_complex(select(z, 0, 0) + scalar_or(l, "mean", 0, t), select(z, 0, 1));
}

Val distributed(Lowering& l, const Distribution& d, const Shape& shape, DType dtype) {
  if (is_complex(dtype)) {
    if (d.values == uniform_values) return complex_uniform(l, shape, dtype);
    if (d.values != normal_values) return l.unsupported("complex numbers of this distribution");
    return complex_normal(l, shape, dtype);
  }
  return convert(d.values(l, shape, dtype), dtype);
}

void register_distributions(Registry& registry) {
  const Distribution distributions[] = {
      {"uniform", 1, uniform_values},
      {"normal_functional", 2, normal_values},
      {"normal_", 2, normal_values},
      {"exponential", 1, exponential_values},
      {"geometric", 1, geometric_values},
      {"cauchy", 1, cauchy_values},
      {"log_normal", 2, log_normal_values},
      {"bernoulli.p", 1, bernoulli_values},
      {"bernoulli.Tensor", 1, bernoulli_values},
      {"bernoulli_.float", 1, bernoulli_values},
      {"bernoulli_.Tensor", 1, bernoulli_values},
      {"uniform_", 1, uniform_values},
      {"exponential_", 1, exponential_values},
      {"geometric_", 1, geometric_values},
      {"cauchy_", 1, cauchy_values},
      {"log_normal_", 2, log_normal_values},
  };
  for (const Distribution& d : distributions) {
    NEURON_OP("aten::" + d.name, no_promotion(), result(like_input()), [d](Lowering& l) {
      const TensorMeta& self = l.meta("self");
      return distributed(l, d, self.shape, self.dtype);
    }).uses_rng([d](const Lowering& l) {
      return elements_of_self(l) * d.draws * (is_complex(l.meta("self").dtype) ? 2 : 1);
    });
  }
  NEURON_OP("aten::bernoulli", no_promotion(), result(contiguous_like()), [](Lowering& l) {
    const Val p = l.raw("self");
    return convert(bernoulli(l, p.shape(), convert(p, compute_dtype(p.dtype()))), p.dtype());
  }).uses_rng(elements_of_self);
}

// --- creation: rand, randn, normal with sizes or tensors, the _like forms ---

Shape size_of_result(const Lowering& l) { return l.has("size") ? l.ints("size") : l.meta("self").shape; }

DType dtype_of_result(const Lowering& l) {
  if (const auto dtype = l.dtype("dtype")) return *dtype;
  return l.tensor("self") ? l.meta("self").dtype : l.ambient().default_dtype;
}

std::optional<Metas> created(const Lowering& l) {
  const DType dtype = dtype_of_result(l);
  const auto* self = l.tensor("self");
  if (!self) return one(contiguous_meta(dtype, size_of_result(l)));
  const auto format = l.has("memory_format") ? memory_format_from_int(l.int_("memory_format")) : MemoryFormat::preserve;
  if (!format) return std::nullopt;
  return one({dtype, self->meta.shape, strides_for(*format, self->meta.shape, self->meta.strides)});
}

void add_created(Registry& registry, const std::string& name, const Distribution& d) {
  NEURON_OP("aten::" + name, no_promotion(), result(created), [d](Lowering& l) {
    return distributed(l, d, size_of_result(l), dtype_of_result(l));
  }).uses_rng([d](const Lowering& l) {
    return element_count(size_of_result(l)) * d.draws * (is_complex(dtype_of_result(l)) ? 2 : 1);
  });
}

std::optional<Metas> normal_result(const Lowering& l) {
  Names names;
  for (const char* name : {"mean", "std"}) {
    if (l.tensor(name)) names.push_back(name);
  }
  auto metas = pointwise_of(names, l.meta(names[0]).dtype)(l);
  if (metas) metas = one(contiguous_meta((*metas)[0]->dtype, (*metas)[0]->shape));  // whatever the parameters' strides
  return metas;
}

// normal(mean, std) where one or both are tensors.
Val normal_of_tensors(Lowering& l) {
  const DType dtype = l.meta(l.tensor("mean") ? "mean" : "std").dtype;
  if (is_complex(dtype)) return l.unsupported("complex normal numbers with tensor parameters");
  const DType t = compute_dtype(dtype);
  const auto operand = [&](const char* name, double otherwise) {
    return l.tensor(name) ? convert(l.raw(name), t) : scalar_or(l, name, otherwise, t);
  };
  const Val mean = operand("mean", 0), std = operand("std", 1);
  const auto shape = broadcast_shapes(mean.shape(), std.shape());
  if (!shape) return l.unsupported("these shapes");
  return convert(standard_normal(l, *shape, t) * std + mean, dtype);
}

int64_t normal_draws(const Lowering& l) {
  Shape shape;
  for (const char* name : {"mean", "std"}) {
    if (l.tensor(name)) shape = broadcast_shapes(shape, l.meta(name).shape).value_or(shape);
  }
  return 2 * element_count(shape);
}

void register_creation(Registry& registry) {
  const Distribution uniform{"", 1, uniform_values}, normal{"", 2, normal_values};
  for (const std::string suffix : {"", ".generator"}) {
    add_created(registry, "rand" + suffix, uniform);
    add_created(registry, "randn" + suffix, normal);
    add_created(registry, "rand_like" + suffix, uniform);
    add_created(registry, "randn_like" + suffix, normal);
  }
  add_created(registry, "normal.float_float", normal);
  for (const char* name : {"aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor"}) {
    NEURON_OP(name, no_promotion(), result(normal_result), normal_of_tensors).uses_rng(normal_draws);
  }
}

// --- integers ---

// Whole numbers in [from, from + range); range 0 means 2^64. Remainder of enough bits that no value is preferred noticeably.
Val integers_in(Lowering& l, const Shape& shape, int64_t from, uint64_t range, DType dtype) {
  const bool word = range != 0 && range <= (uint64_t{1} << 32);
  Val drawn = bits(l, shape, word ? kWord : kWide, 0);
  const bool power_of_two = (range & (range - 1)) == 0;  // range 0 (all bits) included
  if (power_of_two) {
    drawn = drawn & like_int(drawn, static_cast<int64_t>(range - 1));
  } else {
    drawn = binary(Op::remainder, drawn, like_int(drawn, static_cast<int64_t>(range)));
  }
  const Val number = convert(drawn, DType::i64);
  return convert(from == 0 ? number : number + like_int(number, from), dtype);
}

// The number of values random_() draws from when no bound is given: all non-negative integers of the dtype; for floats the
// integers it represents exactly.
uint64_t default_range(DType dtype) {
  if (dtype == DType::boolean) return 2;
  if (is_floating(dtype)) return (uint64_t{1} << mantissa_bits(dtype)) + 1;
  const int bits = static_cast<int>(size_of(dtype)) * 8 - (is_signed_integer(dtype) ? 1 : 0);
  return bits == 64 ? 0 : uint64_t{1} << bits;
}

Val random_values(Lowering& l) {
  const TensorMeta& self = l.meta("self");
  if (is_complex(self.dtype)) return l.unsupported("complex numbers of this distribution");
  const bool bounded = l.has("to");
  const int64_t from = l.int_("from", 0);
  uint64_t range = default_range(self.dtype);
  if (bounded) {
    range = static_cast<uint64_t>(l.int_("to")) - static_cast<uint64_t>(from);
  } else if (l.has("from")) {
    // [from, the largest value], for i64 from -2^63 all 2^64 patterns.
    range = range - static_cast<uint64_t>(from);
  }
  return integers_in(l, self.shape, from, range, self.dtype);
}

Val randint(Lowering& l) {
  if (l.tensor("high")) return l.unsupported("a bound that is a tensor");
  const int64_t low = l.int_("low", 0);
  const DType dtype = l.dtype("dtype").value_or(l.tensor("self") ? l.meta("self").dtype : DType::i64);
  return integers_in(l, size_of_result(l), low, static_cast<uint64_t>(l.int_("high")) - static_cast<uint64_t>(low), dtype);
}

std::optional<Metas> randint_result(const Lowering& l) {
  if (l.int_("high") <= l.int_("low", 0)) return std::nullopt;
  if (l.tensor("self") || l.dtype("dtype")) return created(l);
  return one(contiguous_meta(DType::i64, size_of_result(l)));
}

void register_integers(Registry& registry) {
  for (const char* name : {"random", "random.to", "random.from", "random_", "random_.to", "random_.from"}) {
    NEURON_OP(std::string("aten::") + name, no_promotion(), result(like_input()), random_values).uses_rng(elements_of_self);
  }
  for (const char* name : {"randint", "randint.generator", "randint.low", "randint.low_generator", "randint_like",
                           "randint_like.generator", "randint_like.low_dtype", "randint_like.low_generator_dtype"}) {
    NEURON_OP(std::string("aten::") + name, no_promotion(), result(randint_result), randint).uses_rng([](const Lowering& l) {
      return element_count(size_of_result(l));
    });
  }
}

// --- permutations and samples ---

// The order of random keys.
Val randperm(Lowering& l) {
  const int64_t n = l.int_("n");
  const DType dtype = l.dtype("dtype").value_or(DType::i64);
  const Val keys = uniform01(l, {n}, DType::f64);
  return convert(Val(l.builder(), l.builder().top_k(keys.value(), n, true)).result(1), dtype);
}

std::optional<Metas> multinomial_result(const Lowering& l) {
  Shape shape = l.meta("self").shape;
  if (shape.empty() || shape.size() > 2 || !is_floating(l.meta("self").dtype)) return std::nullopt;
  const int64_t samples = l.int_("num_samples");
  if (samples <= 0 || (!l.flag("replacement") && samples > shape.back())) return std::nullopt;
  shape.back() = samples;
  return one(contiguous_meta(DType::i64, std::move(shape)));
}

// One sample, or several different ones: the largest of probability / exponential. Repeated samples: where a uniform number
// falls among the running sums.
Val multinomial(Lowering& l) {
  const Val p = convert(l.raw("self"), compute_dtype(l.meta("self").dtype));
  const int64_t samples = l.int_("num_samples"), last = p.rank() - 1;
  if (!l.flag("replacement") || samples == 1) {
    const Val score = p / -log(uniform_open(l, p.shape(), p.dtype()));
    if (samples == 1) return unsqueeze(Val(l.builder(), l.builder().arg_reduce(true, score.value(), last)), last);
    return Val(l.builder(), l.builder().top_k(score.value(), samples, true)).result(1);
  }
  Shape shape = p.shape();
  shape[last] = samples;
  const Val running = scan(Reducer::add, p, last);
  const Val total = slice(running, last, p.size(last) - 1, p.size(last));
  const Val u = uniform01(l, shape, p.dtype()) * total;
  const Val below = le(unsqueeze(running, last), unsqueeze(u, last + 1));  // [.., samples, categories]
  const Val index = sum(convert(below, DType::i64), {last + 1});
  // Rounding may put u on the total: the last category that has a probability takes it.
  const Val reaches = sum(convert(lt(running, total), DType::i64), {last}, true);
  return minimum(index, broadcast_to(reaches, index.shape()));
}

int64_t multinomial_draws(const Lowering& l) {
  Shape shape = l.meta("self").shape;
  const int64_t samples = l.int_("num_samples");
  if (l.flag("replacement") && samples > 1 && !shape.empty()) shape.back() = samples;
  return element_count(shape);
}

void register_samples(Registry& registry) {
  for (const char* name : {"aten::randperm", "aten::randperm.generator"}) {
    NEURON_OP(name, no_promotion(), result(ResultRule([](const Lowering& l) {
                return std::optional<Metas>(one(contiguous_meta(l.dtype("dtype").value_or(DType::i64), {l.int_("n")})));
              })),
              randperm)
        .uses_rng([](const Lowering& l) { return l.int_("n"); });
  }
  NEURON_OP("aten::multinomial", no_promotion(), result(multinomial_result), multinomial).uses_rng(multinomial_draws);
}

}  // namespace

void register_random(Registry& registry) {
  register_dropout(registry);
  register_rrelu(registry);
  register_distributions(registry);
  register_creation(registry);
  register_integers(registry);
  register_samples(registry);
}

}  // namespace neuron::ops
