#include "pytorch/dispatch/fallback.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "base/environment.h"
#include "pytorch/device.h"
#include "pytorch/dispatch/compiled_graph.h"
#include "pytorch/dispatch/schema_overrides.h"
#include "pytorch/dispatch/tracking.h"
#include "pytorch/error.h"
#include "pytorch/factory.h"
#include "pytorch/generator.h"
#include "pytorch/views.h"

namespace neuron::pytorch {
namespace {

FallbackMode mode_from_environment() {
  const std::string& text = environment::text("TORCH_NEURONX_FALLBACK");
  return text == "allow" ? FallbackMode::allow : text == "error" ? FallbackMode::error : FallbackMode::warn;
}

std::atomic<FallbackMode>& mode() {
  static std::atomic<FallbackMode> value(mode_from_environment());
  return value;
}

at::Tensor to_cpu(const at::Tensor& t) {
  if (!t.defined() || !t.is_privateuseone()) return t;
  const auto options = t.options().device(at::kCPU);
  if (is_dense(t) || t.numel() == 0) {
    at::Tensor host = at::empty_strided(t.sizes(), t.strides(), options);
    host.copy_(t);
    return host;
  }
  // With gaps or overlaps too the strides stay: operators decide by is_contiguous(), and their gradients decide the same way
  // again, from the device's tensor (linalg_det factors the transpose of a contiguous matrix).
  const int64_t extent = extent_bytes(t) / static_cast<int64_t>(t.element_size());
  const at::Tensor plain = t.resolve_conj().resolve_neg();
  if (!plain.is_same(t)) return plain.to(options.device());  // lazy bits: dense by now
  return t.as_strided({extent}, {1}).to(options.device()).as_strided(t.sizes(), t.strides(), 0);
}

at::Tensor to_device(const at::Tensor& host, c10::DeviceIndex device, const c10::OperatorName& op) {
  if (!host.defined() || !host.device().is_cpu()) return host;
  TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == at::kStrided && !host.is_quantized() && !host.is_nested(), op,
                              ": device neuron holds dense tensors only, and the result has layout ", host.layout());
  at::Tensor resolved = host.resolve_conj().resolve_neg();
  at::Tensor t =
      make_tensor(device, resolved.sizes(), is_dense(resolved) ? resolved.strides() : resolved.contiguous().strides(),
                  resolved.scalar_type());
  t.copy_(resolved);
  return t;
}

// One call: where its device tensors went, so that mutations and aliases find their way back.
class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : schema_(op.schema()), op_(op), stack_(stack), count_(schema_.arguments().size()) {}

  std::string describe_arguments() const {
    std::string out;
    for (const c10::IValue& value : torch::jit::last(*stack_, count_)) {
      if (value.isTensor()) out += (out.empty() ? "" : ", ") + describe(value.toTensor());
      if (value.isTensorList()) out += (out.empty() ? "[" : ", [") + std::to_string(value.toListRef().size()) + " tensors]";
    }
    return out;
  }

  void run() {
    refuse_views();
    find_shared_storages();
    original_.assign(stack_->end() - static_cast<ptrdiff_t>(count_), stack_->end());
    for (size_t i = 0; i < count_; ++i) (*stack_)[stack_->size() - count_ + i] = convert(original_[i]);
    if (device_ < 0) device_ = static_cast<c10::DeviceIndex>(resolve_index(std::nullopt));
    const std::vector<c10::IValue> host(stack_->end() - static_cast<ptrdiff_t>(count_), stack_->end());
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    }
    for (size_t i = 0; i < count_; ++i) {
      const auto* alias = schema_.arguments()[i].alias_info();
      if ((alias && alias->isWrite()) || hidden_write(i)) copy_back(original_[i], host[i]);
    }
    convert_returns(host);
  }

 private:
  void refuse_views() const {
    for (const c10::Argument& r : schema_.returns()) {
      TORCH_CHECK_NOT_IMPLEMENTED(!r.alias_info() || r.alias_info()->isWrite(), schema_.operator_name(),
                                  ": a view operator without a kernel on device neuron; its result would not share memory");
    }
  }

  bool hidden_write(size_t i) const {
    return schema_.name() == "aten::native_batch_norm" &&
           (schema_.arguments()[i].name() == "running_mean" || schema_.arguments()[i].name() == "running_var");
  }

  at::Tensor convert_tensor(const at::Tensor& t) {
    if (!t.defined() || !t.is_privateuseone()) return t;
    if (device_ < 0) device_ = t.device().index();
    const auto shared = shared_.find(t.storage().unsafeGetStorageImpl());
    return shared == shared_.end() ? to_cpu(t) : view_of_shared(t, shared->second);
  }

  // Operands that share memory must share it on the host as well when something is written.
  void find_shared_storages() {
    const auto& arguments = schema_.arguments();
    const bool mutates = std::any_of(arguments.begin(), arguments.end(),
                                     [](const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); });
    if (!mutates) return;
    std::map<c10::StorageImpl*, int> uses;
    auto count = [&uses](const c10::IValue& value) {
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_privateuseone()) {
        ++uses[value.toTensor().storage().unsafeGetStorageImpl()];
      }
    };
    for (const c10::IValue& value : torch::jit::last(*stack_, count_)) {
      count(value);
      if (value.isTensorList() || value.isOptionalTensorList()) {
        for (const c10::IValue& element : value.toListRef()) count(element);
      }
    }
    for (const auto& [storage, n] : uses) {
      if (n > 1) shared_.emplace(storage, at::Tensor());
    }
  }

  at::Tensor view_of_shared(const at::Tensor& t, at::Tensor& bytes) {
    if (!bytes.defined()) {
      const auto size = static_cast<int64_t>(t.storage().nbytes());
      bytes = at::empty({size}, at::TensorOptions().dtype(at::kByte));
      if (size > 0) check(runtime::copy_to_host(bytes.mutable_data_ptr(), t.storage().data(), static_cast<size_t>(size)));
    }
    at::Tensor view = at::empty({0}, t.options().device(at::kCPU));
    view.set_(bytes.storage(), t.storage_offset(), t.sizes(), t.strides());
    if (t.is_conj()) view._set_conj(true);
    if (t.is_neg()) view._set_neg(true);
    return view;
  }

  c10::IValue convert(const c10::IValue& value) {
    if (value.isTensor()) return convert_tensor(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& element : value.toListRef()) list.push_back(convert_tensor(element.toTensor()));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue& element : value.toListRef()) {
        list.push_back(element.isNone() ? std::nullopt : std::make_optional(convert_tensor(element.toTensor())));
      }
      return list;
    }
    if (value.isDevice() && value.toDevice().type() == kNeuron) {
      if (device_ < 0) device_ = resolve_index(value.toDevice());
      return c10::Device(c10::kCPU);
    }
    if (value.isGenerator()) return host_generator(value.toGenerator());
    return value;
  }

  // A CPU generator that continues the device generator's sequence of seeds; the device one moves on.
  c10::IValue host_generator(const at::Generator& generator) {
    if (!generator.defined() || generator.device().type() != kNeuron) return generator;
    const auto philox = generator_for(generator, generator.device().index()).consume(1);
    at::Generator host = at::globalContext().defaultGenerator(c10::Device(c10::kCPU)).clone();
    host.set_current_seed(philox.seed * 0x9e3779b97f4a7c15ull + philox.offset);
    return host;
  }

  void copy_back_tensor(const at::Tensor& t, const at::Tensor& host) {
    if (!t.defined() || !t.is_privateuseone()) return;
    if (t.sizes() != host.sizes()) {
      resize_tensor(t, host.sizes(), is_dense(host) ? at::OptionalIntArrayRef(host.strides()) : std::nullopt);
    }
    t.copy_(host);
  }

  void copy_back(const c10::IValue& original, const c10::IValue& host) {
    if (original.isTensor()) {
      copy_back_tensor(original.toTensor(), host.toTensor());
    } else if (original.isTensorList()) {
      const auto list = original.toListRef();
      for (size_t e = 0; e < list.size(); ++e) copy_back_tensor(list[e].toTensor(), host.toListRef()[e].toTensor());
    }
  }

  void convert_returns(const std::vector<c10::IValue>& host) {
    const size_t returns = schema_.returns().size();
    for (size_t r = 0; r < returns; ++r) {
      c10::IValue& value = (*stack_)[stack_->size() - returns + r];
      if (value.isTensor()) {
        value = converted_return(value.toTensor(), host);
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const c10::IValue& element : value.toListRef())
          list.push_back(to_device(element.toTensor(), device_, schema_.operator_name()));
        value = std::move(list);
      }
    }
  }

  c10::IValue converted_return(const at::Tensor& t, const std::vector<c10::IValue>& host) {
    for (size_t i = 0; i < count_; ++i) {
      if (host[i].isTensor() && t.defined() && host[i].toTensor().is_same(t)) return original_[i];
    }
    return to_device(t, device_, schema_.operator_name());
  }

  const c10::FunctionSchema& schema_;
  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  size_t count_;
  std::vector<c10::IValue> original_;
  std::map<c10::StorageImpl*, at::Tensor> shared_;  // device storage used more than once -> its bytes on the host
  c10::DeviceIndex device_ = -1;
};

void warn_once(const std::string& name, const std::string& reason) {
  static std::mutex mutex;
  static auto* warned = new std::set<std::string>();
  {
    std::lock_guard lock(mutex);
    if (!warned->insert(name).second) return;
  }
  TORCH_WARN(name, " has no kernel on device neuron for these arguments and runs on the CPU (", reason,
             "). TORCH_NEURONX_FALLBACK=error forbids this, =allow silences it.");
}

void boxed_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
  run_on_cpu(op, stack, "no lowering");
}

}  // namespace

FallbackMode fallback_mode() { return mode().load(std::memory_order_relaxed); }
void set_fallback_mode(FallbackMode value) { mode().store(value, std::memory_order_relaxed); }

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const std::string& reason) {
  const std::string name = full_name(op.schema().operator_name());
  CpuCall call(op, stack);
  TORCH_CHECK_NOT_IMPLEMENTED(fallback_mode() != FallbackMode::error, name, "(", call.describe_arguments(),
                              ") is not implemented on device neuron (", reason,
                              ") and TORCH_NEURONX_FALLBACK=error forbids running it on the CPU");
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), name, "(",
                              call.describe_arguments(), ") is implemented neither on device neuron nor on the CPU");
  tracking::count_fallback(name, reason);
  if (fallback_mode() == FallbackMode::warn) warn_once(name, reason);
  call.run();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>()); }
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

}  // namespace neuron::pytorch
