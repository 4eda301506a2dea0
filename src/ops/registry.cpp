#include "ops/registry.h"

#include <algorithm>

#include "ops/families.h"

namespace neuron::ops {

Lowering::Lowering(const OpDef& op, const Call& call, const Metas* expected, ir::Builder* builder)
    : op_(op), call_(call), expected_(expected), builder_(builder) {
  if (op.promotion.rule) {
    dtypes_ = op.promotion.rule(*this, op.promotion.inputs);
    // In lower() PyTorch has accepted the call before: what the rule refuses is then a gap of ours.
    if (!dtypes_) fail(neuron::unsupported("this combination of dtypes is not supported (" + describe_arguments() + ")"));
  }
}

void Lowering::fail(Status status) const {
  if (failed_) return;
  failed_ = true;
  status_ = status.within(op_.name);
  if (builder_) builder_->fail(status_);
}

Val Lowering::unsupported(const std::string& what) const {
  fail(neuron::unsupported(what + " is not supported (" + describe_arguments() + ")"));
  return placeholder();
}

Val Lowering::placeholder() const { return builder_ ? full(*builder_, compute(), {}, 0) : Val(); }

std::string Lowering::describe_arguments() const {
  std::string text;
  for (const NamedArgument& a : call_.arguments) {
    const auto* t = std::get_if<TensorArg>(&a.value);
    if (!t) continue;
    if (!text.empty()) text += ", ";
    text += std::string(a.name) + " " + ir::to_string({t->meta.dtype, t->meta.shape});
  }
  return text;
}

// --- arguments ---

const Argument* Lowering::argument(std::string_view name) const {
  for (const NamedArgument& a : call_.arguments) {
    if (a.name == name) return std::holds_alternative<None>(a.value) ? nullptr : &a.value;
  }
  return nullptr;
}

template <class T>
static const T* get(const Argument* a) {
  return a ? std::get_if<T>(a) : nullptr;
}

const TensorArg* Lowering::tensor(std::string_view name) const { return get<TensorArg>(argument(name)); }
const ScalarArg* Lowering::scalar_argument(std::string_view name) const { return get<ScalarArg>(argument(name)); }

const TensorMeta& Lowering::meta(std::string_view name) const {
  static const TensorMeta empty;
  const TensorArg* t = tensor(name);
  if (!t) {
    fail(invalid_argument("tensor argument '" + std::string(name) + "' is missing"));
    return empty;
  }
  return t->meta;
}

const TensorList& Lowering::list(std::string_view name) const {
  static const TensorList empty;
  const auto* l = get<TensorList>(argument(name));
  return l ? *l : empty;
}

int64_t Lowering::int_(std::string_view name, int64_t otherwise) const {
  const Argument* a = argument(name);
  if (const auto* i = get<int64_t>(a)) return *i;
  if (const auto* b = get<bool>(a)) return *b;
  if (const auto* s = get<ScalarArg>(a)) {
    if (s->known_int) return *s->known_int;
    if (s->known) return static_cast<int64_t>(s->known->real());
    fail(internal_error("the value of '" + std::string(name) + "' is needed but not known"));
  }
  return otherwise;
}

bool Lowering::flag(std::string_view name, bool otherwise) const {
  const Argument* a = argument(name);
  if (const auto* b = get<bool>(a)) return *b;
  if (const auto* i = get<int64_t>(a)) return *i != 0;
  return otherwise;
}

std::vector<int64_t> Lowering::ints(std::string_view name) const {
  const Argument* a = argument(name);
  if (const auto* v = get<std::vector<int64_t>>(a)) return *v;
  if (const auto* i = get<int64_t>(a)) return {*i};
  return {};
}

std::optional<DType> Lowering::dtype(std::string_view name) const {
  const auto* d = get<DType>(argument(name));
  return d ? std::optional<DType>(*d) : std::nullopt;
}

std::string Lowering::text(std::string_view name) const {
  const auto* s = get<std::string>(argument(name));
  return s ? *s : "";
}

std::optional<double> Lowering::number(std::string_view name) const {
  const Argument* a = argument(name);
  if (const auto* s = get<ScalarArg>(a)) {
    if (s->known) return s->known->real();
    if (s->known_int) return static_cast<double>(*s->known_int);
  }
  if (const auto* i = get<int64_t>(a)) return static_cast<double>(*i);
  return std::nullopt;
}

bool Lowering::equals(std::string_view name, double value) const {
  const ScalarArg* s = scalar_argument(name);
  if (!s) return false;
  if (s->value_class) return *s->value_class == value;
  if (s->known) return *s->known == std::complex<double>(value, 0);
  return s->known_int && static_cast<double>(*s->known_int) == value;
}

static std::optional<int64_t> wrap_dim(int64_t dim, int64_t rank) {
  const int64_t bound = std::max<int64_t>(rank, 1);
  if (dim < -bound || dim >= bound) return std::nullopt;
  return dim < 0 ? dim + bound : dim;
}

int64_t Lowering::dim(std::string_view name, int64_t rank, int64_t otherwise) const {
  const auto d = wrap_dim(int_(name, otherwise), rank);
  if (!d) {
    fail(invalid_argument("'" + std::string(name) + "' is out of range for rank " + std::to_string(rank)));
    return 0;
  }
  return *d;
}

std::vector<int64_t> Lowering::dims(std::string_view name, int64_t rank) const {
  std::vector<int64_t> dims = ints(name);
  if (dims.empty()) {
    for (int64_t d = 0; d < rank; ++d) dims.push_back(d);
    return dims;
  }
  for (int64_t& d : dims) {
    const auto wrapped = wrap_dim(d, rank);
    if (!wrapped) {
      fail(invalid_argument("'" + std::string(name) + "' is out of range for rank " + std::to_string(rank)));
      return {};
    }
    d = *wrapped;
  }
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end()) {
    fail(invalid_argument("'" + std::string(name) + "' names a dim twice"));
    return {};
  }
  if (rank == 0) dims.clear();
  return dims;
}

// --- values ---

bool Lowering::takes_part(std::string_view name) const {
  if (!dtypes_) return false;
  const Names& inputs = op_.promotion.inputs;
  return inputs.empty() || std::find(inputs.begin(), inputs.end(), name) != inputs.end();
}

Val Lowering::operand(const TensorArg& tensor, bool takes_part) {
  if (!tensor.value.present()) {
    fail(internal_error("a tensor argument has no IR value"));
    return placeholder();
  }
  Val v(*builder_, tensor.value);
  if (!takes_part) return v;
  const bool exact = op_.promotion.exact_scalars && tensor.category != Category::tensor && !is_complex(v.dtype());
  return convert(exact ? v : convert(v, common()), compute());
}

Val Lowering::arg(std::string_view name) {
  if (const TensorArg* t = tensor(name)) return operand(*t, takes_part(name));
  if (scalar_argument(name)) {
    const bool round_first = takes_part(name) && !op_.promotion.exact_scalars;
    return convert(scalar(name, round_first ? common() : compute()), compute());
  }
  fail(invalid_argument("argument '" + std::string(name) + "' is missing"));
  return placeholder();
}

Val Lowering::optional(std::string_view name) { return has(name) ? arg(name) : Val(); }

Val Lowering::raw(std::string_view name) {
  if (const TensorArg* t = tensor(name)) return operand(*t, false);
  fail(invalid_argument("tensor argument '" + std::string(name) + "' is missing"));
  return placeholder();
}

Val Lowering::scalar(std::string_view name) {
  DType dtype = compute();
  if (!dtypes_) {
    for (const NamedArgument& a : call_.arguments) {
      if (const auto* t = std::get_if<TensorArg>(&a.value)) {
        dtype = opmath(t->meta.dtype);
        break;
      }
    }
  }
  return scalar(name, dtype);
}

Val Lowering::scalar(std::string_view name, DType dtype) {
  const Argument* a = argument(name);
  if (const auto* i = get<int64_t>(a)) return convert(full_int(*builder_, DType::i64, {}, *i), dtype);
  if (const auto* b = get<bool>(a)) return full(*builder_, dtype, {}, *b ? 1 : 0);
  const ScalarArg* s = get<ScalarArg>(a);
  if (!s) {
    fail(invalid_argument("number '" + std::string(name) + "' is missing"));
    return placeholder();
  }
  if (s->value.present()) return convert(Val(*builder_, s->value), dtype);
  if (s->known_int) return convert(full_int(*builder_, DType::i64, {}, *s->known_int), dtype);
  if (s->known) {
    if (s->kind == ScalarArg::Kind::complex) {
      return convert(Val(*builder_, builder_->splat_complex({DType::c128, {}}, *s->known)), dtype);
    }
    return convert(full(*builder_, DType::f64, {}, s->known->real()), dtype);
  }
  fail(internal_error("number '" + std::string(name) + "' has neither a value nor a number"));
  return placeholder();
}

std::vector<Val> Lowering::tensors(std::string_view name) {
  std::vector<Val> out;
  for (const auto& t : list(name)) out.push_back(t ? operand(*t, takes_part(name)) : Val());
  return out;
}

Val Lowering::seed() {
  if (call_.seed) return {*builder_, *call_.seed};
  fail(internal_error("the generator's seed is missing"));
  return full(*builder_, DType::u64, {}, 0);
}

Val Lowering::rng_offset() {
  if (call_.offset) return {*builder_, *call_.offset};
  fail(internal_error("the generator's offset is missing"));
  return full(*builder_, DType::u64, {}, 0);
}

const TensorMeta* Lowering::expected(size_t index) const {
  if (!expected_ || index >= expected_->size() || !(*expected_)[index]) return nullptr;
  return &*(*expected_)[index];
}

// --- definitions ---

static ScalarRequirement& requirement(OpDef& op, std::string name) {
  for (ScalarRequirement& r : op.scalars) {
    if (r.name == name) return r;
  }
  op.scalars.push_back({std::move(name)});
  return op.scalars.back();
}

OpDef& OpDef::structural(std::string scalar) {
  requirement(*this, std::move(scalar)).structural = true;
  return *this;
}
OpDef& OpDef::value_classes(std::string scalar, std::vector<double> values) {
  requirement(*this, std::move(scalar)).value_classes = std::move(values);
  return *this;
}
OpDef& OpDef::decides_shape(std::string scalar) {
  requirement(*this, std::move(scalar)).decides_shape = true;
  return *this;
}
OpDef& OpDef::must_fit(std::string scalar, ScalarRequirement::Fits in) {
  requirement(*this, std::move(scalar)).fits = in;
  return *this;
}
OpDef& OpDef::uses_rng(std::function<int64_t(const Lowering&)> increment) {
  rng_increment = std::move(increment);
  return *this;
}

OpDef& Registry::add(std::string name, Promotion promotion, ResultRule result, Body body) {
  auto def = std::make_unique<OpDef>(OpDef{name, std::move(promotion), std::move(result), std::move(body), {}, {}});
  auto& slot = ops_[std::move(name)];
  slot = std::move(def);
  return *slot;
}

void Registry::alias(std::string name, const std::string& original) {
  const OpDef* def = find(original);
  assert(def != nullptr);
  auto copy = std::make_unique<OpDef>(*def);
  copy->name = name;
  ops_[std::move(name)] = std::move(copy);
}

const OpDef* Registry::find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : it->second.get();
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> out;
  for (const auto& [name, def] : ops_) out.push_back(name);
  return out;
}

// --- the outward contract (lowering.h) ---

static const Registry& registry() {
  static const Registry* const instance = [] {
    auto* r = new Registry;  // never destroyed: worker threads may outlive static destruction
    for (auto family : families()) family(*r);
    return r;
  }();
  return *instance;
}

const OpDef* find(std::string_view op) { return registry().find(op); }
std::vector<std::string> registered_operators() { return registry().names(); }
std::span<const ScalarRequirement> scalar_requirements(const OpDef& op) { return op.scalars; }
bool uses_rng(const OpDef& op) { return static_cast<bool>(op.rng_increment); }

int64_t rng_increment(const OpDef& op, const Call& call) {
  if (!op.rng_increment) return 0;
  return op.rng_increment(Lowering(op, call, nullptr, nullptr));
}

std::optional<Metas> infer(const OpDef& op, const Call& call) {
  if (!op.result) return std::nullopt;
  const Lowering l(op, call, nullptr, nullptr);
  if (l.failed()) return std::nullopt;
  auto metas = op.result(l);
  if (l.failed()) return std::nullopt;
  return metas;
}

// Rounds from the compute dtype to what the result is declared to be; any other difference is a defect of the lowering.
static Result<ir::Value> finish(const Lowering& l, Val v, const TensorMeta* expected, size_t index) {
  const DType target = expected ? expected->dtype : l.promoted() && v.dtype() == l.compute() ? l.result_dtype() : v.dtype();
  if (v.dtype() != target && l.promoted() && v.dtype() == l.compute()) v = convert(v, target);
  const std::string which = l.op().name + ": result " + std::to_string(index) + " is " + describe(v) + ", expected ";
  if (v.dtype() != target) return internal_error(which + std::string(name_of(target)));
  if (expected && v.shape() != expected->shape) {
    return internal_error(which + ir::to_string({expected->dtype, expected->shape}));
  }
  return v.value();
}

Result<std::vector<ir::Value>> lower(const OpDef& op, const Call& call, const Metas* expected, ir::Builder& builder) {
  builder.set_label(op.name);
  Lowering l(op, call, expected, &builder);
  if (l.failed()) return l.status();
  const std::vector<Val> results = op.body(l);
  if (l.failed()) return l.status();
  if (!builder.status().ok()) return builder.status().within(op.name);
  if (expected && expected->size() != results.size()) {
    return internal_error(op.name + ": " + std::to_string(results.size()) + " results, expected " +
                          std::to_string(expected->size()));
  }
  std::vector<ir::Value> values;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].present()) {
      values.push_back({});
      continue;
    }
    NEURON_ASSIGN(ir::Value value, finish(l, results[i], l.expected(i), i));
    values.push_back(value);
  }
  if (!builder.status().ok()) return builder.status().within(op.name);
  return values;
}

}  // namespace neuron::ops
