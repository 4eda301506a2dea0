#include "pytorch/dispatch/boxed_kernel.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/clone.h>

#include <algorithm>

#include "base/mutation.h"
#include "pytorch/allocator.h"
#include "pytorch/device.h"
#include "pytorch/dispatch/aliasing.h"
#include "pytorch/dispatch/arguments.h"
#include "pytorch/dispatch/cached_call.h"
#include "pytorch/dispatch/call_cache.h"
#include "pytorch/dispatch/fallback.h"
#include "pytorch/dispatch/signature.h"
#include "pytorch/error.h"
#include "pytorch/factory.h"
#include "pytorch/generator.h"
#include "pytorch/scalar.h"

namespace neuron::pytorch {
namespace {

// First words of arguments that are not tensors (a tensor's has bit 63 set).
constexpr uint64_t kNone = 1, kNumber = 2, kValue = 3, kList = 4, kText = 5;

class SignatureBuilder {
 public:
  SignatureBuilder(const OperatorPlan& plan, const c10::IValue* args, Signature& signature)
      : plan_(plan), args_(args), signature_(signature) {}

  // Core of the call, or -1 when no tensor and no device argument names one.
  int build() {
    signature_.word(plan_.id);
    signature_.word(ambient_word());
    for (size_t i = 0; i < plan_.arguments.size(); ++i) argument(plan_.arguments[i], args_[i]);
    if (device_ < 0) device_ = resolve_index(device_from_argument());
    signature_.replace(0, plan_.id | static_cast<uint64_t>(device_) << 32);
    return device_;
  }

 private:
  std::optional<c10::Device> device_from_argument() const {
    if (plan_.device_argument < 0 || args_[plan_.device_argument].isNone()) return std::nullopt;
    return args_[plan_.device_argument].toDevice();
  }

  void tensor(const c10::IValue& value) {
    if (!value.isTensor()) return signature_.word(kNone);
    const c10::TensorImpl& t = *value.unsafeToTensorImpl();
    if (&t == c10::UndefinedTensorImpl::singleton()) return signature_.word(kNone);
    Role role = Role::foreign;
    const c10::Device where = t.device();
    if (where.type() == kNeuron) {
      if (device_ < 0) device_ = where.index();
      if (where.index() == device_) role = Role::device;
    } else if (where.type() == c10::kCPU && t.dim() == 0) {
      role = t.is_wrapped_number() ? Role::wrapped_number : Role::host_number;
    }
    signature_.tensor(t, role);
  }

  void number(const ArgumentPlan& plan, const c10::IValue& value) {
    if (value.isNone()) return signature_.word(kNone);
    const uint64_t kind = value.isDouble() ? 0 : value.isInt() ? 1 : value.isBool() ? 2 : 3;
    uint64_t word = kNumber | kind << 8;
    if (!plan.value_classes.empty()) word |= static_cast<uint64_t>(value_class_of(value, plan.value_classes) + 1) << 16;
    signature_.word(word);
    if (plan.known || plan.kind == ArgumentKind::float_list) {
      uint64_t slots[2] = {0, 0};
      write_slots(value.toScalar(), kind == 0 ? DType::f64 : kind == 3 ? DType::c128 : DType::i64, slots);
      signature_.word(slots[0]);
      if (kind == 3) signature_.word(slots[1]);
    }
  }

  void structural(const c10::IValue& value) {
    if (value.isNone()) return signature_.word(kNone);
    signature_.word(kValue);
    signature_.word(value.isBool() ? value.toBool() : static_cast<uint64_t>(value.toInt()));
  }

  void text(std::string_view text) {
    signature_.word(kText | text.size() << 8);
    for (size_t at = 0; at < text.size(); at += 8) {
      uint64_t packed = 0;
      std::memcpy(&packed, text.data() + at, std::min<size_t>(8, text.size() - at));
      signature_.word(packed);
    }
  }

  void argument(const ArgumentPlan& plan, const c10::IValue& value) {
    switch (plan.kind) {
      case ArgumentKind::tensor:
        return tensor(value);
      case ArgumentKind::number:
        return number(plan, value);
      case ArgumentKind::structural:
        return structural(value);
      case ArgumentKind::device:
      case ArgumentKind::generator:
      case ArgumentKind::ignored:
        return;
      default:
        break;
    }
    if (value.isNone()) return signature_.word(kNone);
    if (plan.kind == ArgumentKind::text) return text(value.toStringRef());
    if (value.isInt()) return structural(value);  // int? given to int[]
    const auto list = value.toListRef();
    signature_.word(kList | list.size() << 8);
    for (const c10::IValue& element : list) {
      switch (plan.kind) {
        case ArgumentKind::tensor_list:
          tensor(element);
          break;
        case ArgumentKind::number_list:
        case ArgumentKind::float_list:
          number(plan, element);
          break;
        default:
          signature_.word(element.isBool() ? element.toBool() : static_cast<uint64_t>(element.toInt()));
      }
    }
  }

  const OperatorPlan& plan_;
  const c10::IValue* args_;
  Signature& signature_;
  int device_ = -1;
};

// For arange and relatives: the shapes that the numbers decide, in place of the numbers. (The numbers where no rule
// applies.)
void add_inferred_shapes(const OperatorPlan& plan, const c10::IValue* args, Signature& signature) {
  const Arguments arguments(plan, args);
  ops::Call call;
  call.op = plan.functional;
  call.arguments = arguments.named();
  call.ambient = ambient();
  if (const auto metas = ops::infer(*plan.definition, call)) {
    for (const auto& meta : *metas) {
      signature.word(kList | (meta ? meta->shape.size() : 0) << 8);
      if (!meta) continue;
      for (const int64_t size : meta->shape) signature.word(static_cast<uint64_t>(size));
    }
    return;
  }
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    if (!plan.arguments[i].decides_shape || args[i].isNone()) continue;
    uint64_t slots[2] = {0, 0};
    write_slots(args[i].toScalar(), DType::c128, slots);
    signature.word(slots[0]);
    signature.word(slots[1]);
  }
}

bool is_undefined(const c10::IValue& value) {
  return value.isTensor() && value.unsafeToTensorImpl() == c10::UndefinedTensorImpl::singleton();
}
bool on_device(const c10::IValue& value) {
  return value.isTensor() && !is_undefined(value) && value.unsafeToTensorImpl()->device_type() == kNeuron;
}

// One word per pair (written, other operand) that shares memory; copies operands that only may share (see Sharing::unclear).
void add_sharing(const OperatorPlan& plan, c10::IValue* args, Signature& signature) {
  const size_t count = plan.arguments.size();
  for (size_t w = 0; w < count; ++w) {
    if (plan.arguments[w].written && is_undefined(args[w])) args[w] = c10::IValue();  // an optional that is not there
    if (!plan.arguments[w].written || !on_device(args[w])) continue;
    for (size_t i = 0; i < count; ++i) {
      if (plan.arguments[i].kind == ArgumentKind::tensor_list && !args[i].isNone()) {
        for (const c10::IValue& element : args[i].toListRef()) {
          if (on_device(element)) at::assert_no_overlap(args[w].toTensor(), element.toTensor());
        }
        continue;
      }
      if (i == w || !on_device(args[i]) || (plan.arguments[i].written && i < w)) continue;
      switch (sharing(args[w].toTensor(), args[i].toTensor())) {
        case Sharing::none:
          break;
        case Sharing::same:
          signature.word(kValue | w << 8 | i << 24);
          break;
        case Sharing::unclear:
          args[i] = at::clone(args[i].toTensor());
          break;
      }
    }
  }
}

// In list operators the n-th elements may be the same tensor; that decides which parameters are one.
void add_list_sharing(const OperatorPlan& plan, const c10::IValue* args, Signature& signature) {
  for (size_t w = 0; w < plan.arguments.size(); ++w) {
    if (!plan.arguments[w].written || plan.arguments[w].kind != ArgumentKind::tensor_list) continue;
    const auto written = args[w].toListRef();
    for (size_t i = 0; i < plan.arguments.size(); ++i) {
      if (i == w || plan.arguments[i].kind != ArgumentKind::tensor_list || args[i].isNone()) continue;
      const auto other = args[i].toListRef();
      for (size_t e = 0; e < std::min(written.size(), other.size()); ++e) {
        if (on_device(written[e]) && on_device(other[e]) &&
            sharing(written[e].toTensor(), other[e].toTensor()) == Sharing::same) {
          signature.word(kValue | w << 8 | i << 24 | e << 40);
        }
      }
    }
  }
}

// True when an element of a written list shares memory with anything but its counterparts at the same place (the same tensor
// twice in a list, for instance): one launch for the whole list would then not be the element-by-element result.
bool elements_collide(const OperatorPlan& plan, const c10::IValue* args) {
  struct Extent {
    const char* begin;
    const char* end;
    const at::Tensor* tensor;
    size_t element;
    bool written;
  };
  c10::SmallVector<Extent, 64> extents;
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    if (plan.arguments[i].kind != ArgumentKind::tensor_list || args[i].isNone()) continue;
    const auto list = args[i].toListRef();
    for (size_t e = 0; e < list.size(); ++e) {
      if (!on_device(list[e])) continue;
      const at::Tensor& t = list[e].toTensor();
      const auto* begin = static_cast<const char*>(address_of(t));
      if (t.numel() > 0) extents.push_back({begin, begin + extent_bytes(t), &t, e, plan.arguments[i].written});
    }
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < extents.size(); ++i) {
    for (size_t j = i + 1; j < extents.size() && extents[j].begin < extents[i].end; ++j) {
      const Extent &a = extents[i], &b = extents[j];
      if (!a.written && !b.written) continue;
      if (a.element != b.element || (a.written && b.written) || !same_memory(*a.tensor, *b.tensor)) return true;
    }
  }
  return false;
}

class Run {
 public:
  Run(const OperatorPlan& plan, const CachedCall& call, c10::IValue* args, int device)
      : plan_(plan), call_(call), args_(args), device_(device) {}

  void launch() {
    for (const FitCheck& check : call_.fit_checks) check_fits(args_[check.source.argument].toScalar(), check.type);
    make_results();
    if (!call_.graph.executable && call_.rng_increment == 0) return;
    c10::SmallVector<uint64_t, 16> scalars;
    fill_scalars(scalars);
    if (!call_.graph.executable) return;
    call_.graph.launch([&](int32_t i) { return address_of(tensor(call_.parameters[i])); },
                       [&](int32_t i) { return address_of(by_output_[i]); }, scalars, device_);
  }

  void push_returns(torch::jit::Stack& stack) {
    c10::SmallVector<c10::IValue, 4> returned;
    if (plan_.mutates) {
      for (const int argument : plan_.returned_argument) {
        if (argument >= 0) returned.push_back(args_[argument]);
      }
    }
    size_t flat = 0;
    for (const ResultPlan& result : plan_.results) {
      if (result.written >= 0) {
        flat += result.list ? args_[result.written].toListRef().size() : 1;
      } else if (result.list) {
        const size_t length = result.length_from >= 0 ? args_[result.length_from].toListRef().size()
                                                      : call_.results.size() - (plan_.results.size() - 1);
        c10::List<at::Tensor> list;
        for (size_t n = length; n > 0; --n) list.push_back(std::move(results_[flat++]));
        returned.push_back(std::move(list));
      } else if (result.number) {
        returned.push_back(call_.results[flat++].number);
      } else {
        returned.push_back(std::move(results_[flat++]));
      }
    }
    torch::jit::drop(stack, plan_.arguments.size());
    for (c10::IValue& value : returned) stack.push_back(std::move(value));
  }

 private:
  const c10::TensorImpl* tensor(TensorSource source) const {
    const c10::IValue& value = args_[source.argument];
    return (source.element < 0 ? value : value.toListRef()[source.element]).unsafeToTensorImpl();
  }

  at::Tensor fresh(const ResultTarget& target) const {
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), target.bytes,
                                                         allocate_on(static_cast<c10::DeviceIndex>(device_), target.bytes),
                                                         device_allocator(), /*resizable=*/true);
    at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                            c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                            c10::scalarTypeToTypeMeta(target.type));
    if (target.contiguous) {
      if (target.sizes.size() != 1 || target.sizes[0] != 0) t.unsafeGetTensorImpl()->set_sizes_contiguous(target.sizes);
    } else {
      t.unsafeGetTensorImpl()->set_sizes_and_strides(target.sizes, target.strides);
    }
    return t;
  }

  void make_results() {
    results_.resize(call_.results.size());
    for (size_t i = 0; i < call_.results.size(); ++i) {
      const ResultTarget& target = call_.results[i];
      const c10::TensorImpl* impl = nullptr;
      if (target.kind == ResultTarget::Kind::fresh) {
        results_[i] = fresh(target);
        impl = results_[i].unsafeGetTensorImpl();
      } else if (target.kind == ResultTarget::Kind::written) {
        const auto source = target.destination;
        const c10::IValue& value = args_[source.argument];
        const at::Tensor& t = (source.element < 0 ? value : value.toListRef()[source.element]).toTensor();
        if (target.resize && at::native::resize_output(t, target.sizes) && !target.contiguous) {
          t.unsafeGetTensorImpl()->set_sizes_and_strides(target.sizes, target.strides);
        }
        impl = t.unsafeGetTensorImpl();
        if (mutated("in-place write")) impl = (results_[i] = fresh(target)).unsafeGetTensorImpl();
      }
      if (target.graph_output >= 0) {
        if (by_output_.size() <= static_cast<size_t>(target.graph_output)) by_output_.resize(target.graph_output + 1);
        by_output_[target.graph_output] = impl;
      }
    }
  }

  void fill_scalars(c10::SmallVector<uint64_t, 16>& scalars) {
    NeuronGenerator::Philox philox{};
    if (call_.rng_increment > 0) {
      std::optional<at::Generator> generator;
      if (plan_.generator_argument >= 0 && !args_[plan_.generator_argument].isNone()) {
        generator = args_[plan_.generator_argument].toGenerator();
      }
      philox = generator_for(generator, static_cast<c10::DeviceIndex>(device_)).consume(call_.rng_increment);
    }
    uint64_t slots[2];
    for (const SlotSource& slot : call_.slots) {
      int written = 1;
      switch (slot.kind) {
        case SlotSource::Kind::seed:
          slots[0] = philox.seed;
          break;
        case SlotSource::Kind::offset:
          slots[0] = philox.offset;
          break;
        case SlotSource::Kind::number: {
          const c10::IValue& value = args_[slot.source.argument];
          const c10::IValue& number = slot.source.element < 0 ? value : value.toListRef()[slot.source.element];
          if (number.isDouble() && slot.type == DType::f64) [[likely]] {
            const double d = number.toDouble();
            std::memcpy(slots, &d, sizeof d);
          } else {
            written = write_slots(number.toScalar(), slot.type, slots);
          }
          break;
        }
        case SlotSource::Kind::host_tensor: {
          const c10::TensorImpl* t = tensor(slot.source);
          const auto* base = static_cast<const char*>(t->storage().data());
          written = write_slots(base + t->storage_offset() * static_cast<int64_t>(t->itemsize()),
                                c10::typeMetaToScalarType(t->dtype()), slot.type, slots);
          break;
        }
      }
      scalars.append(slots, slots + written);
    }
  }

  const OperatorPlan& plan_;
  const CachedCall& call_;
  c10::IValue* args_;
  int device_;
  c10::SmallVector<at::Tensor, 4> results_;
  c10::SmallVector<const c10::TensorImpl*, 4> by_output_;
};

}  // namespace

void BoxedKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  const OperatorPlan& plan = *plan_;
  if (plan.preparation && plan.preparation(op, stack)) [[unlikely]]
    return;
  c10::IValue* args = stack->data() + stack->size() - plan.arguments.size();
  Signature signature;
  const int device = SignatureBuilder(plan, args, signature).build();
  if (plan.shape_from_numbers) [[unlikely]]
    add_inferred_shapes(plan, args, signature);
  if (plan.mutates) {
    if (plan.lists) {
      if (elements_collide(plan, args)) return run_on_cpu(op, stack, "elements of the lists share memory");
      add_list_sharing(plan, args, signature);
    }
    add_sharing(plan, args, signature);
  }
  std::shared_ptr<const CachedCall> call = CallCache::instance().find(signature);
  if (!call) [[unlikely]] {
    ensure_initialized();
    call = CallCache::instance().insert(signature, build_call(plan, op, args, device));
  }
  if (call->fallback) [[unlikely]]
    return run_on_cpu(op, stack, call->reason);
  plan.executed->fetch_add(1, std::memory_order_relaxed);
  Run run(plan, *call, args, device);
  run.launch();
  run.push_returns(*stack);
}

}  // namespace neuron::pytorch
