#include "ir/graph_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/element.h"
#include "ir/op_info.h"

namespace neuron::ir::testing {
namespace {

constexpr double kMaxMagnitude = 200;  // f16 sums and i8 stay in range
double epsilon(DType t) {
  switch (t) {
    case DType::f8e4m3fn:
      return 0x1p-4;
    case DType::f8e5m2:
      return 0x1p-3;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f32:
    case DType::c64:
      return 0x1p-21;  // polynomials of f32 functions are good to a few units
    case DType::f64:
    case DType::c128:
      return 0x1p-44;
    default:
      return 0;
  }
}

int64_t count(const std::vector<int64_t>& shape) { return Type{DType::f32, shape}.elements(); }

}  // namespace

GraphGenerator::GraphGenerator(uint64_t seed, GeneratorOptions options)
    : seed_(seed), options_(std::move(options)), random_(seed) {}

int64_t GraphGenerator::pick(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
}
bool GraphGenerator::chance(double probability) { return static_cast<double>(random_() >> 11) * 0x1p-53 < probability; }
DType GraphGenerator::random_dtype() { return options_.dtypes[pick(0, static_cast<int64_t>(options_.dtypes.size()) - 1)]; }

std::vector<int64_t> GraphGenerator::random_shape() {
  std::vector<int64_t> shape;
  int64_t left = options_.max_elements;
  for (int64_t rank = pick(0, options_.max_rank); rank > 0 && left > 0; --rank) {
    int64_t size = chance(0.15) ? 1 : options_.empty_tensors && chance(0.02) ? 0 : pick(1, chance(0.2) ? 40 : 9);
    size = std::min(size, left);
    shape.push_back(size);
    left /= std::max<int64_t>(size, 1);
  }
  return shape;
}

std::vector<int64_t> GraphGenerator::permuted_strides(const std::vector<int64_t>& shape) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (options_.strided_border && chance(0.4)) std::shuffle(order.begin(), order.end(), random_);
  std::vector<int64_t> strides(shape.size());
  int64_t next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = next;
    next *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

void GraphGenerator::note(Value v, Known k) {
  const auto results = static_cast<int32_t>(builder_->graph().nodes[v.node].types.size());
  for (int32_t r = 0; r < results; ++r) {
    known_[{v.node, r}] = k;
    if (count(builder_->type({v.node, r}).shape) <= options_.max_elements) pool_.push_back({v.node, r});
  }
}
GraphGenerator::Known& GraphGenerator::known(Value v) { return known_[{v.node, v.result}]; }
double GraphGenerator::epsilon_of(DType dtype) { return epsilon(dtype); }
double GraphGenerator::round_error(Value v, double magnitude) const {
  return 2 * epsilon(builder_->type(v).dtype) * magnitude;
}

// Multiples of 1/8 (exact in every float type) or small integers.
Value GraphGenerator::input(const Type& type) {
  Literal literal{type, std::vector<uint8_t>(static_cast<size_t>(type.elements()) * size_of(type.dtype))};
  const bool integer = is_integer(type.dtype);
  const int64_t low = type.dtype == DType::boolean || is_unsigned_integer(type.dtype) ? 0 : -16;
  for (int64_t i = 0; i < type.elements(); ++i) {
    const int64_t n = pick(low, type.dtype == DType::boolean ? 1 : 16);
    uint8_t* p = literal.data.data() + i * static_cast<int64_t>(size_of(type.dtype));
    if (integer || type.dtype == DType::boolean) {
      store(type.dtype, p, n);
    } else if (is_complex(type.dtype)) {
      store(type.dtype, p, Complex(static_cast<double>(n) / 8, static_cast<double>(pick(-16, 16)) / 8));
    } else {
      store(type.dtype, p, static_cast<double>(n) / 8);
    }
  }
  const auto index = static_cast<int32_t>(out_.tensors.size());
  out_.tensors.push_back(std::move(literal));
  const Value v = builder_->parameter(type, index, permuted_strides(type.shape));
  note(v, {integer ? 16.0 : type.dtype == DType::boolean ? 1.0 : 3.0, 0});
  return v;
}

Value GraphGenerator::index_constant(const std::vector<int64_t>& shape, int64_t limit) {
  const DType t = chance(0.5) ? DType::i64 : DType::i32;
  std::vector<uint8_t> data(static_cast<size_t>(count(shape)) * size_of(t));
  for (size_t i = 0; i < data.size(); i += size_of(t)) store(t, data.data() + i, pick(0, limit - 1));
  return builder_->constant({t, shape}, std::move(data));
}

Value GraphGenerator::any() {
  if (pool_.empty() || chance(0.15)) return input({random_dtype(), random_shape()});
  return pool_[pick(std::max<int64_t>(0, static_cast<int64_t>(pool_.size()) - 12), static_cast<int64_t>(pool_.size()) - 1)];
}

Value GraphGenerator::any_of(uint8_t domain, bool exact) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const Value v = any();
    if (in_domain(builder_->type(v).dtype, domain) && (!exact || known(v).exact())) return v;
  }
  std::vector<DType> fitting;
  for (DType t : options_.dtypes) {
    if (in_domain(t, domain)) fitting.push_back(t);
  }
  return fitting.empty() ? Value{} : input({fitting[pick(0, static_cast<int64_t>(fitting.size()) - 1)], random_shape()});
}

Value GraphGenerator::like(const Type& type, bool exact) {
  for (size_t i = pool_.size(); i-- > 0;) {
    if (builder_->type(pool_[i]) == type && (!exact || known(pool_[i]).exact()) && chance(0.5)) return pool_[i];
  }
  if (chance(0.2) && is_floating(type.dtype)) {  // a runtime number for all elements
    const double number = static_cast<double>(pick(-12, 12)) / 8;
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    out_.scalars.push_back(bits);
    const Value slot = builder_->scalar_parameter(DType::f64, static_cast<int32_t>(out_.scalars.size()) - 1);
    const Value v = builder_->broadcast_to(builder_->convert(slot, type.dtype), type.shape);
    note(v, {2, 0});
    return v;
  }
  return input(type);
}

Value GraphGenerator::smooth_positive(Value x) {
  const Type t = builder_->type(x);
  const Known k = known(x);
  const Value v = builder_->binary(Op::add, builder_->unary(Op::abs, x), builder_->splat(t, 0.5));
  note(v, {k.magnitude + 0.5, k.error + round_error(v, k.magnitude + 0.5)});
  return v;
}

bool GraphGenerator::add_unary() {
  struct Function {
    Op op;
    bool needs_exact = false, positive = false;
    double slope = 1, limit = kMaxMagnitude;  // |f'| on the operand, largest operand
    double value = 0;                         // largest |f|, 0: magnitude + 1
    uint8_t domain = kFloat;
  };
  static const Function functions[] = {
      {.op = Op::negate, .domain = kInt | kFloat},
      {.op = Op::abs, .domain = kInt | kFloat},
      {.op = Op::sign, .needs_exact = true, .value = 1, .domain = kInt | kFloat},
      {.op = Op::floor, .needs_exact = true},
      {.op = Op::ceil, .needs_exact = true},
      {.op = Op::round_nearest_even, .needs_exact = true},
      {.op = Op::trunc, .needs_exact = true},
      {.op = Op::is_finite, .needs_exact = true, .value = 1},
      {.op = Op::is_nan, .needs_exact = true, .value = 1},
      {.op = Op::not_, .domain = kBool},
      {.op = Op::popcnt, .value = 64, .domain = kInt},
      {.op = Op::exponential, .slope = 21, .limit = 3, .value = 21},
      {.op = Op::exp2, .slope = 6, .limit = 3, .value = 8},
      {.op = Op::exponential_minus_one, .slope = 21, .limit = 3, .value = 20},
      {.op = Op::log, .positive = true, .slope = 2, .value = 6},
      {.op = Op::log2, .positive = true, .slope = 3, .value = 8},
      {.op = Op::log_plus_one, .positive = true, .slope = 1, .value = 6},
      {.op = Op::sqrt, .positive = true, .slope = 1, .value = 15},
      {.op = Op::rsqrt, .positive = true, .slope = 1.5, .value = 1.5},
      {.op = Op::reciprocal, .positive = true, .slope = 4, .value = 2},
      {.op = Op::logistic, .value = 1},
      {.op = Op::tanh, .value = 1},
      {.op = Op::sine, .limit = 30, .value = 1},
      {.op = Op::cosine, .limit = 30, .value = 1},
      {.op = Op::atan, .value = 1.6},
      {.op = Op::asinh, .value = 7},
      {.op = Op::erf, .slope = 1.2, .value = 1},
      {.op = Op::gelu, .slope = 1.2},
      {.op = Op::gelu_tanh, .slope = 1.2},
      {.op = Op::gelu_dx, .slope = 1.2},
      {.op = Op::gelu_tanh_dx, .slope = 1.2},
      {.op = Op::silu, .slope = 1.2},
      {.op = Op::softplus_unit},
  };
  const Function f = functions[pick(0, static_cast<int64_t>(std::size(functions)) - 1)];
  Value x = any_of(f.domain, f.needs_exact);
  if (!x.present() || known(x).magnitude > f.limit) return false;
  if (f.positive) x = smooth_positive(x);
  const Known k = known(x);
  const Value v = builder_->unary(f.op, x);
  const bool stays_exact = f.needs_exact || f.op == Op::negate || f.op == Op::abs || f.domain == kBool || f.domain == kInt;
  const double magnitude = f.value > 0 ? f.value : k.magnitude + 1;
  note(v, {magnitude, stays_exact ? k.error : k.error * f.slope + round_error(v, std::max(magnitude, k.magnitude))});
  return true;
}

bool GraphGenerator::add_integer_division(Value a) {
  static const Op ops[] = {Op::divide, Op::remainder, Op::floor_divide, Op::python_remainder};
  const Type t = builder_->type(a);
  const Value b = like(t, true);
  const Value divisor = builder_->binary(Op::or_, b, builder_->splat_int(t, 1));  // odd: never 0
  note(builder_->binary(ops[pick(0, 3)], a, divisor), {known(a).magnitude + known(b).magnitude + 2, 0});
  return true;
}

bool GraphGenerator::add_binary() {
  const Value a = any_of(kBool | kInt | kFloat, false);
  if (!a.present()) return false;
  const Type t = builder_->type(a);
  if (is_integer(t.dtype) && chance(0.3)) return add_integer_division(a);
  const Value b = like(t, false);
  const Known ka = known(a), kb = known(b);
  if (t.dtype == DType::boolean || (is_integer(t.dtype) && chance(0.3))) {
    static const Op ops[] = {Op::and_, Op::or_, Op::xor_};
    note(builder_->binary(ops[pick(0, 2)], a, b), {2 * std::max(ka.magnitude, kb.magnitude) + 2, 0});
    return true;
  }
  static const Op ops[] = {Op::add, Op::subtract, Op::multiply, Op::maximum, Op::minimum, Op::divide, Op::add, Op::multiply};
  const Op op = ops[pick(0, 7)];
  const bool product = op == Op::multiply;
  const double magnitude = op == Op::divide                      ? 2 * ka.magnitude
                           : product                             ? ka.magnitude * kb.magnitude
                           : op == Op::add || op == Op::subtract ? ka.magnitude + kb.magnitude
                                                                 : std::max(ka.magnitude, kb.magnitude);
  if (magnitude > kMaxMagnitude || (op == Op::divide && is_integer(t.dtype))) return false;
  if (op == Op::subtract && is_unsigned_integer(t.dtype)) return false;
  const Value v = builder_->binary(op, a, op == Op::divide ? smooth_positive(b) : b);
  double error = op == Op::divide ? 2 * ka.error + 4 * ka.magnitude * (kb.error + round_error(v, kb.magnitude + 0.5))
                 : product        ? ka.magnitude * kb.error + kb.magnitude * ka.error
                                  : ka.error + kb.error;
  const bool rounds = is_floating(t.dtype) && op != Op::maximum && op != Op::minimum;
  note(v, {magnitude, rounds ? error + round_error(v, magnitude) : error});
  return true;
}

bool GraphGenerator::add_compare() {
  const Value a = any_of(kBool | kInt | kFloat, true);
  if (!a.present()) return false;
  const Type t = builder_->type(a);
  const Value b = like(t, true);
  const Value pred = builder_->compare(static_cast<Comparison>(pick(0, 5)), a, b);
  note(pred, {1, 0});
  if (chance(0.3) && t.dtype != DType::boolean) {
    const Value low = like(t, true);
    note(builder_->clamp(builder_->binary(Op::minimum, low, b), a, builder_->binary(Op::maximum, low, b)),
         {std::max(known(low).magnitude, known(b).magnitude), 0});
  }
  const Value x = like({random_dtype(), t.shape}, false), y = like(builder_->type(x), false);
  note(builder_->select(pred, x, y),
       {std::max(known(x).magnitude, known(y).magnitude), std::max(known(x).error, known(y).error)});
  return true;
}

bool GraphGenerator::add_convert() {
  const Value x = any();
  const DType to = random_dtype(), from = builder_->type(x).dtype;
  const Known k = known(x);
  if (from == to || is_complex(from) || is_complex(to)) return false;
  if (!is_floating(to) && is_floating(from) && !k.exact()) return false;
  if (is_unsigned_integer(to)) return false;
  const Value v = builder_->convert(x, to);
  // Magnitudes stay below 2^8 x 1/8 steps: exact in bf16 only up to its 8 bits.
  const double rounding = is_floating(to) && epsilon(to) > 0x1p-20 ? round_error(v, k.magnitude) : 0;
  note(v, {k.magnitude + 1, k.error + rounding});
  return true;
}

bool GraphGenerator::add_reduce() {
  const Value x = any();
  const Type t = builder_->type(x);
  if (t.shape.empty() || is_complex(t.dtype)) return false;
  const Known k = known(x);
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < static_cast<int64_t>(t.shape.size()); ++d) {
    if (chance(0.5)) dims.push_back(d);
  }
  double folded = 1;
  for (int64_t d : dims) folded *= static_cast<double>(t.shape[d]);
  if (chance(0.25) && k.exact()) {
    const int64_t dim = pick(0, static_cast<int64_t>(t.shape.size()) - 1);
    if (t.shape[dim] == 0) return false;
    note(builder_->arg_reduce(chance(0.5), x, dim), {static_cast<double>(t.shape[dim]), 0});
    return true;
  }
  if (chance(0.5) && folded > 0) {
    note(builder_->reduce(chance(0.5) ? Reducer::maximum : Reducer::minimum, x, dims), k);
    return true;
  }
  if (t.dtype == DType::boolean) {
    note(builder_->reduce(chance(0.5) ? Reducer::and_ : Reducer::or_, x, dims), k);
    return true;
  }
  if (k.magnitude * folded > 4000) return false;
  const Value v = builder_->reduce(Reducer::add, x, dims);
  const double sum = k.magnitude * std::max(folded, 1.0);
  note(v, {sum, is_floating(t.dtype) ? k.error * folded + round_error(v, sum) + folded * 0x1p-22 * sum : 0});
  return true;
}

bool GraphGenerator::add_scan() {
  const Value x = any_of(kInt | kFloat, true);
  if (!x.present() || builder_->type(x).shape.empty()) return false;
  const Type t = builder_->type(x);
  const int64_t dim = pick(0, static_cast<int64_t>(t.shape.size()) - 1);
  const Known k = known(x);
  if (chance(0.4)) {
    note(builder_->scan(chance(0.5) ? Reducer::maximum : Reducer::minimum, x, dim, chance(0.3)),
         {std::max(k.magnitude, static_cast<double>(t.shape[dim])), 0});
    return true;
  }
  const double sum = k.magnitude * static_cast<double>(std::max<int64_t>(t.shape[dim], 1));
  if (sum > 4000) return false;
  const Value v = builder_->scan(Reducer::add, x, dim, chance(0.3));
  note(v, {sum, is_floating(t.dtype)
                    ? static_cast<double>(t.shape[dim]) * (k.error + epsilon(t.dtype) * sum) + round_error(v, sum)
                    : 0});
  return true;
}

bool GraphGenerator::add_sort() {
  const Value x = any_of(kInt | kFloat, true);
  if (!x.present() || builder_->type(x).shape.empty()) return false;
  const Type t = builder_->type(x);
  const Known k{std::max(known(x).magnitude, static_cast<double>(count(t.shape))), 0};
  if (chance(0.5)) {
    note(builder_->sort(x, pick(0, static_cast<int64_t>(t.shape.size()) - 1), chance(0.5)), k);
  } else {
    note(builder_->top_k(x, pick(options_.empty_tensors ? 0 : std::min<int64_t>(1, t.shape.back()), t.shape.back()),
                         chance(0.5)),
         k);
  }
  return true;
}

bool GraphGenerator::add_random() {
  const auto word = [this](uint64_t value) {
    out_.scalars.push_back(value);
    return builder_->scalar_parameter(DType::u64, static_cast<int32_t>(out_.scalars.size()) - 1);
  };
  const Value bits = builder_->rng_bits(word(random_()), word(random_()), {DType::u32, random_shape()});
  const Type t = builder_->type(bits);
  // To a uniform number in [0, 1), as lowerings do.
  const Value high = builder_->binary(Op::shift_right_logical, bits, builder_->splat_int(t, 8));
  const Value uniform = builder_->convert(high, DType::f32);
  const Value scaled = builder_->binary(Op::multiply, uniform, builder_->splat({DType::f32, t.shape}, 0x1p-24));
  note(scaled, {1, 0});
  note(builder_->compare(Comparison::lt, scaled, builder_->splat({DType::f32, t.shape}, 0.3)), {1, 0});
  return true;
}

GeneratedGraph GraphGenerator::next() {
  const uint64_t seed = seed_++;
  random_.seed(seed);
  out_ = {};
  out_.seed = seed;
  out_.graph.name = "seed_" + std::to_string(seed);
  known_.clear();
  pool_.clear();
  builder_ = std::make_unique<Builder>(out_.graph);

  struct Theme {
    const char* name;
    bool (GraphGenerator::*add)();
    int weight;
  };
  static const Theme themes[] = {
      {"unary", &GraphGenerator::add_unary, 6},     {"binary", &GraphGenerator::add_binary, 6},
      {"compare", &GraphGenerator::add_compare, 2}, {"shape", &GraphGenerator::add_shape, 6},
      {"convert", &GraphGenerator::add_convert, 2}, {"reduce", &GraphGenerator::add_reduce, 3},
      {"scan", &GraphGenerator::add_scan, 1},       {"dot", &GraphGenerator::add_dot, 2},
      {"index", &GraphGenerator::add_index, 2},     {"sort", &GraphGenerator::add_sort, 1},
      {"random", &GraphGenerator::add_random, 1},   {"attention", &GraphGenerator::add_attention, 1},
  };
  std::vector<const Theme*> bag;
  for (const Theme& theme : themes) {
    const bool wanted = options_.themes.empty() ||
                        std::find(options_.themes.begin(), options_.themes.end(), theme.name) != options_.themes.end();
    for (int i = 0; wanted && i < theme.weight; ++i) bag.push_back(&theme);
  }
  int added = 0;
  for (int attempt = 0; attempt < 20 * options_.operators && added < options_.operators; ++attempt) {
    added += (this->*bag[pick(0, static_cast<int64_t>(bag.size()) - 1)]->add)();
  }
  // Values nobody used are outputs, and some others.
  std::vector<bool> used(out_.graph.nodes.size());
  for (const Node& n : out_.graph.nodes) {
    for (Value v : n.operands) used[v.node] = true;
  }
  std::vector<Value> outputs;
  for (Value v : pool_) {
    if (out_.graph.node(v).op == Op::parameter && !pool_.empty() && out_.graph.outputs.empty() && pool_.back() != v)
      continue;
    if ((!used[v.node] || chance(0.1)) && outputs.size() < 6) outputs.push_back(v);
  }
  if (outputs.empty()) outputs.push_back(pool_.empty() ? input({DType::f32, {}}) : pool_.back());
  for (Value v : outputs) {
    builder_->output(v, permuted_strides(builder_->type(v).shape));
    out_.tolerance.push_back(known(v).error);
  }
  if (!builder_->status().ok()) out_.graph.name += " (defect of the generator: " + builder_->status().message() + ")";
  return std::move(out_);
}

// --- coverage and comparison ---

void Coverage::add(const Graph& graph) {
  for (const Node& n : graph.nodes) {
    const DType t = n.operands.empty() ? n.types[0].dtype : graph.type(n.operands[0]).dtype;
    ++counts_[{std::string(name_of(n.op)), std::string(neuron::name_of(t))}];
  }
}

size_t Coverage::operators() const {
  std::map<std::string, int> ops;
  for (const auto& [key, n] : counts_) ops[key.first] += n;
  return ops.size();
}

std::string Coverage::table() const {
  std::string s, op;
  for (const auto& [key, n] : counts_) {
    if (key.first != op) s += (op.empty() ? "" : "\n") + key.first + ":";
    op = key.first;
    s += " " + key.second + "x" + std::to_string(n);
  }
  return s + "\n";
}

std::string difference(const Literal& want, const Literal& got, double tolerance) {
  if (want.type != got.type) return "type " + to_string(got.type) + ", expected " + to_string(want.type);
  const DType t = want.type.dtype;
  const size_t size = size_of(t);
  for (size_t i = 0; i < want.data.size(); i += size) {
    const std::string differs = with_number(t, [&]<class T>(T) -> std::string {
      const T a = load<T>(t, want.data.data() + i), b = load<T>(t, got.data.data() + i);
      bool equal = a == b;
      if constexpr (std::is_same_v<T, double>)
        equal = equal || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance;
      if constexpr (std::is_same_v<T, Complex>) equal = equal || std::abs(a - b) <= tolerance;
      if (equal) return "";
      if constexpr (std::is_same_v<T, Complex>) {
        return std::to_string(b.real()) + "+" + std::to_string(b.imag()) + "i, expected " + std::to_string(a.real()) + "+" +
               std::to_string(a.imag()) + "i";
      } else {
        return std::to_string(b) + ", expected " + std::to_string(a);
      }
    });
    if (!differs.empty()) {
      return "element " + std::to_string(i / size) + " of " + to_string(want.type) + " is " + differs + " (tolerance " +
             std::to_string(tolerance) + ")";
    }
  }
  return "";
}

}  // namespace neuron::ir::testing
