// The slow half of a boxed kernel: the first call with a signature. Metadata -> lowering -> compilation -> cache entry.
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "pytorch/device.h"
#include "pytorch/dispatch/arguments.h"
#include "pytorch/dispatch/boxed_kernel.h"
#include "pytorch/dispatch/cached_call.h"
#include "pytorch/dispatch/result_meta.h"
#include "pytorch/dispatch/schema_overrides.h"
#include "pytorch/error.h"
#include "pytorch/scalar.h"

namespace neuron::pytorch {
namespace {

std::string signature_text(const OperatorPlan& plan, const c10::IValue* args) {
  std::string out;
  auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const c10::IValue& value = args[i];
    if (plan.arguments[i].kind == ArgumentKind::tensor) {
      add(value.isTensor() ? describe(value.toTensor()) : "None");
    } else if (plan.arguments[i].kind == ArgumentKind::tensor_list && !value.isNone()) {
      std::string list;
      const auto elements = value.toListRef();
      for (size_t e = 0; e < std::min<size_t>(elements.size(), 4); ++e) {
        list += (e ? ", " : "") + (elements[e].isTensor() ? describe(elements[e].toTensor()) : "None");
      }
      if (elements.size() > 4) list += ", ... " + std::to_string(elements.size()) + " in all";
      add("[" + list + "]");
    } else if (plan.arguments[i].kind == ArgumentKind::structural && !value.isNone()) {
      add(plan.arguments[i].name + "=" +
          (value.isBool() ? std::string(value.toBool() ? "True" : "False") : std::to_string(value.toInt())));
    }
  }
  return out;
}

ResultTarget fresh_target(c10::ScalarType type, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  ResultTarget target;
  target.type = type;
  target.sizes.assign(sizes.begin(), sizes.end());
  target.strides.assign(strides.begin(), strides.end());
  target.bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    target.contiguous = target.contiguous && strides[d] == expected;
    expected *= std::max<int64_t>(sizes[d], 1);
  }
  return target;
}

class CallBuilder {
 public:
  CallBuilder(const OperatorPlan& plan, const c10::OperatorHandle& op, const c10::IValue* args, int device)
      : plan_(plan), op_(op), args_(args), device_(device), arguments_(plan, args) {}

  std::shared_ptr<const CachedCall> build() {
    check_devices(plan_, args_, device_);
    check_written();
    if (any_empty_input()) raise_as_cpu_does(plan_, op_, args_);  // costs nothing, and rules are about shapes with elements
    const ops::Call call = functional_call();
    metas_ = ops::infer(*plan_.definition, call);
    shape_rule_ = metas_.has_value();
    if (plan_.mutates) {
      targets_for_written();
    } else if (!targets_for_fresh()) {
      return fallback("PyTorch has no Meta kernel for it and no result rule is declared");
    }
    const bool anything = std::any_of(out_->results.begin(), out_->results.end(), [&](const ResultTarget& r) {
      return (r.kind == ResultTarget::Kind::fresh || r.kind == ResultTarget::Kind::written) && elements_of(r) > 0;
    });
    if (plan_.uses_rng) out_->rng_increment = static_cast<uint64_t>(ops::rng_increment(*plan_.definition, call));
    if (!anything) return out_;
    Status status = lower_and_compile();
    if (status.ok()) return out_;
    raise_as_cpu_does(plan_, op_, args_);
    if (status.code() == Code::unsupported || status.code() == Code::does_not_fit) return fallback(status.message());
    raise(status.within(plan_.name));
  }

 private:
  ops::Call functional_call() const {
    ops::Call call;
    call.op = plan_.functional;
    call.arguments = arguments_.named();
    call.ambient = ambient();
    return call;
  }

  std::shared_ptr<const CachedCall> fallback(std::string reason) {
    auto entry = std::make_shared<CachedCall>();
    entry->fallback = true;
    entry->reason = std::move(reason);
    return entry;
  }

  static int64_t elements_of(const ResultTarget& target) {
    int64_t n = 1;
    for (const int64_t size : target.sizes) n *= size;
    return n;
  }

  template <class F>
  void for_each_written(F&& f) const {
    for (const ResultPlan& result : plan_.results) {
      if (result.written < 0) continue;
      const c10::IValue& value = args_[result.written];
      if (!result.list) {
        f(TensorSource{result.written, -1});
      } else {
        const auto count = static_cast<int32_t>(value.toListRef().size());
        for (int32_t e = 0; e < count; ++e) f(TensorSource{result.written, e});
      }
    }
  }

  bool any_empty_input() const {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      const bool tensor = plan_.arguments[i].kind == ArgumentKind::tensor && args_[i].isTensor();
      if (tensor && args_[i].toTensor().defined() && args_[i].toTensor().numel() == 0) return true;
    }
    return false;
  }

  void check_written() const {
    if (!plan_.mutates) return;
    for_each_written([&](TensorSource source) {
      if (args_[source.argument].isNone()) return;
      at::assert_no_internal_overlap(arguments_.tensor(source));
    });
  }

  // --- metadata ---

  bool targets_for_fresh() {
    if (metas_) {
      for (const auto& meta : *metas_) {
        ResultTarget target;
        if (meta) {
          target = fresh_target(to_scalar_type(meta->dtype), meta->shape, meta->strides);
        } else {
          target.kind = ResultTarget::Kind::undefined;
        }
        out_->results.push_back(std::move(target));
      }
      add_numbers();
      return true;
    }
    auto meta = run_meta(plan_, op_, args_);
    if (!meta) return false;
    metas_.emplace();
    for (const c10::IValue& value : meta->returns) {
      if (value.isList()) {
        for (const c10::IValue& element : value.toListRef()) add_fresh(element);
      } else {
        add_fresh(value.isTensor() ? value : c10::IValue());
      }
    }
    add_numbers();
    return true;
  }

  void add_fresh(const c10::IValue& value) {
    if (value.isNone() || !value.toTensor().defined()) {
      out_->results.emplace_back().kind = ResultTarget::Kind::undefined;
      metas_->push_back(std::nullopt);
      return;
    }
    const at::Tensor& t = value.toTensor();
    metas_->push_back(
        ops::TensorMeta{dtype_or_raise(t.scalar_type(), plan_.name.c_str()), t.sizes().vec(), t.strides().vec()});
    out_->results.push_back(fresh_target(t.scalar_type(), t.sizes(), t.strides()));
  }

  // int results sit between tensor results; rules and lowerings leave their places empty.
  void add_numbers() {
    for (size_t i = 0; i < plan_.results.size(); ++i) {
      if (!plan_.results[i].number) continue;
      out_->results[i].kind = ResultTarget::Kind::number;
      out_->results[i].number = number_result(plan_.functional, i, args_);
    }
  }

  bool accepted_by_rule(const at::Tensor& t, const ops::TensorMeta& meta) const {
    if (t.sizes() != c10::IntArrayRef(meta.shape)) return false;
    const c10::ScalarType type = to_scalar_type(meta.dtype);
    return t.scalar_type() == type || (!plan_.resizes && c10::canCast(type, t.scalar_type()));
  }

  void targets_for_written() {
    size_t flat = 0;
    bool accepted = metas_.has_value(), casts = false;
    for (const ResultPlan& result : plan_.results) {
      const size_t count = result.list ? args_[result.written].toListRef().size() : 1;
      for (size_t e = 0; e < count; ++e, ++flat) {
        const bool present = result.written >= 0 && !args_[result.written].isNone();
        if (!present) continue;
        const at::Tensor& t = arguments_.tensor({result.written, result.list ? static_cast<int32_t>(e) : -1});
        accepted = accepted && flat < metas_->size() && (*metas_)[flat] && accepted_by_rule(t, *(*metas_)[flat]);
        casts = casts || (accepted && t.scalar_type() != to_scalar_type((*metas_)[flat]->dtype));
      }
    }
    if (casts) raise_as_cpu_does(plan_, op_, args_);  // what may be cast into the destination is the operator's own matter
    std::optional<MetaResult> meta;
    if (!accepted) meta = run_meta(plan_, op_, args_);  // raises if the arguments are wrong
    flat = 0;
    for (const ResultPlan& result : plan_.results) {
      const size_t count = result.list ? args_[result.written].toListRef().size() : 1;
      for (size_t e = 0; e < count; ++e, ++flat) {
        add_written(result, {result.written, result.list ? static_cast<int32_t>(e) : -1}, meta, flat);
      }
    }
  }

  void add_written(const ResultPlan& result, TensorSource source, const std::optional<MetaResult>& meta, size_t flat) {
    ResultTarget target;
    if (result.written < 0) {  // a new tensor beside written ones
      TORCH_CHECK(metas_ && flat < metas_->size(), plan_.name, ": no rule for the result");
      const auto& m = (*metas_)[flat];
      if (m) {
        target = fresh_target(to_scalar_type(m->dtype), m->shape, m->strides);
      } else {
        target.kind = ResultTarget::Kind::undefined;
      }
      out_->results.push_back(std::move(target));
      return;
    }
    if (args_[source.argument].isNone()) {
      target.kind = ResultTarget::Kind::undefined;
      out_->results.push_back(std::move(target));
      return;
    }
    const at::Tensor& t = arguments_.tensor(source);
    c10::IntArrayRef sizes = t.sizes(), strides = t.strides();
    std::vector<int64_t> contiguous;
    if (meta && plan_.resizes) {
      const c10::IValue& value = meta->arguments[source.argument];
      const at::Tensor& final = (source.element < 0 ? value : value.toListRef()[source.element]).toTensor();
      if (final.sizes() != sizes) {
        target = fresh_target(t.scalar_type(), final.sizes(), final.strides());
        target.resize = true;
      }
    } else if (plan_.resizes && metas_ && (*metas_)[flat] && c10::IntArrayRef((*metas_)[flat]->shape) != sizes) {
      target = fresh_target(t.scalar_type(), (*metas_)[flat]->shape, ir::contiguous_strides((*metas_)[flat]->shape));
      target.resize = true;
    }
    if (!target.resize) target = fresh_target(t.scalar_type(), sizes, strides);
    target.kind = ResultTarget::Kind::written;
    target.destination = source;
    out_->results.push_back(std::move(target));
  }

  // --- graph ---

  Status lower_and_compile() {
    ir::Graph graph;
    graph.name = plan_.name;
    ir::Builder builder(graph);
    builder.set_label(plan_.name);
    if (shape_rule_) arguments_.forget_shape_numbers();
    arguments_.bind(builder, *out_);
    add_fit_checks();
    int32_t slots = arguments_.slots_used();
    ops::Call call = functional_call();
    if (plan_.uses_rng) {
      call.seed = builder.scalar_parameter(DType::u64, slots++);
      call.offset = builder.scalar_parameter(DType::u64, slots++);
      out_->slots.push_back({SlotSource::Kind::seed, DType::u64, {}});
      out_->slots.push_back({SlotSource::Kind::offset, DType::u64, {}});
    }
    NEURON_ASSIGN(std::vector<ir::Value> values, ops::lower(*plan_.definition, call, metas_ ? &*metas_ : nullptr, builder));
    NEURON_RETURN_IF_ERROR(builder.status());
    NEURON_RETURN_IF_ERROR(add_outputs(builder, values));
    NEURON_RETURN_IF_ERROR(builder.status());
    NEURON_RETURN_IF_ERROR(ir::verify(graph));
    NEURON_ASSIGN(out_->graph, compile_graph(graph, device_, slots, signature_text(plan_, args_)));
    return {};
  }

  void add_fit_checks() {
    using Fits = ops::ScalarRequirement::Fits;
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      const ArgumentPlan& a = plan_.arguments[i];
      if (a.fits == Fits::anything || a.kind != ArgumentKind::number || args_[i].isNone() || out_->results.empty()) continue;
      if (value_class_of(args_[i], a.value_classes) >= 0) continue;  // alpha = 1: in the signature, and fits everywhere
      c10::ScalarType type = metas_ && !metas_->empty() && metas_->front() ? to_scalar_type(metas_->front()->dtype)
                                                                           : out_->results.front().type;
      if (a.fits == Fits::compute) type = at::toOpMathType(type);
      out_->fit_checks.push_back({{static_cast<int32_t>(i), -1}, type});
    }
  }

  static bool used(const ir::Graph& graph, int32_t parameter) {
    int32_t node = -1;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const auto* attrs = std::get_if<ir::ParameterAttrs>(&graph.nodes[n].attrs);
      if (attrs && attrs->kind == ir::ParameterAttrs::Kind::tensor && attrs->index == parameter)
        node = static_cast<int32_t>(n);
    }
    for (const ir::Node& n : graph.nodes) {
      for (const ir::Value& v : n.operands) {
        if (v.node == node) return true;
      }
    }
    return std::any_of(graph.outputs.begin(), graph.outputs.end(),
                       [&](const ir::Output& o) { return o.value.node == node; });
  }

  Status add_outputs(ir::Builder& builder, const std::vector<ir::Value>& values) {
    size_t next = 0;
    struct Pending {
      ir::Value value;
      ResultTarget* target;
    };
    std::vector<Pending> pending;
    for (ResultTarget& target : out_->results) {
      if (next >= values.size())
        return internal_error("the lowering returned " + std::to_string(values.size()) + " results");
      ir::Value value = values[next++];
      if (target.kind == ResultTarget::Kind::undefined || target.kind == ResultTarget::Kind::number) continue;
      if (!value.present()) return internal_error("the lowering left a result out that the metadata have");
      const ir::Type want{*to_dtype(target.type), {target.sizes.begin(), target.sizes.end()}};
      const ir::Type have = builder.type(value);
      const bool converts = target.kind == ResultTarget::Kind::written;
      if (have.shape != want.shape || (have.dtype != want.dtype && !converts)) {
        return internal_error("the lowering returned " + ir::to_string(have) + " where the metadata say " +
                              ir::to_string(want));
      }
      if (have.dtype != want.dtype && !c10::canCast(to_scalar_type(have.dtype), target.type)) {
        return invalid_argument(std::string("result type ") + c10::toString(to_scalar_type(have.dtype)) +
                                " can't be cast to the desired output type " + c10::toString(target.type));
      }
      value = builder.convert(value, want.dtype);
      if (target.kind == ResultTarget::Kind::written) {
        const at::Tensor& t = arguments_.tensor(target.destination);
        if (t.is_conj()) value = builder.unary(ir::Op::conj, value);
        if (t.is_neg()) value = builder.unary(ir::Op::negate, value);
      }
      if (elements_of(target) > 0) pending.push_back({value, &target});
    }
    for (const Pending& p : pending) {
      int32_t alias = -1;
      if (p.target->kind == ResultTarget::Kind::written && !p.target->resize) {
        alias = alias_of(p.target->destination);
        if (alias >= 0 && !used(builder.graph(), alias) && p.value != parameter_value(builder.graph(), alias)) alias = -1;
      }
      // An argument that the schema calls mutated but that keeps its value (gradients of a fused optimizer step) is not
      // written at all, unless nothing else would be.
      const bool unchanged = alias >= 0 && p.value == parameter_value(builder.graph(), alias);
      if (unchanged && (!builder.graph().outputs.empty() || &p != &pending.back())) continue;
      p.target->graph_output = static_cast<int32_t>(builder.graph().outputs.size());
      builder.output(p.value, {p.target->strides.begin(), p.target->strides.end()}, alias);
    }
    return {};
  }

  static ir::Value parameter_value(const ir::Graph& graph, int32_t parameter) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const auto* attrs = std::get_if<ir::ParameterAttrs>(&graph.nodes[n].attrs);
      if (attrs && attrs->kind == ir::ParameterAttrs::Kind::tensor && attrs->index == parameter) {
        return {static_cast<int32_t>(n), 0};
      }
    }
    return {};
  }

  // The parameter that is the destination's memory: the in-place operand itself, or (out=) an operand given twice.
  int32_t alias_of(TensorSource destination) const {
    const int32_t own = arguments_.parameter_of(destination);
    if (own >= 0) return own;
    return arguments_.parameter_sharing(arguments_.tensor(destination));
  }

  const OperatorPlan& plan_;
  const c10::OperatorHandle& op_;
  const c10::IValue* args_;
  int device_;
  Arguments arguments_;
  std::optional<ops::Metas> metas_;
  bool shape_rule_ = false;  // metas_ come from the operator's own rule
  std::shared_ptr<CachedCall> out_ = std::make_shared<CachedCall>();
};

}  // namespace

std::shared_ptr<const CachedCall> build_call(const OperatorPlan& plan, const c10::OperatorHandle& op,
                                             const c10::IValue* args, int device) {
  return CallBuilder(plan, op, args, device).build();
}

}  // namespace neuron::pytorch
