#include "pytorch/copy.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include "ir/builder.h"
#include "pytorch/device.h"
#include "pytorch/dispatch/cached_call.h"
#include "pytorch/dispatch/call_cache.h"
#include "pytorch/dispatch/tracking.h"
#include "pytorch/error.h"
#include "pytorch/factory.h"
#include "pytorch/scalar.h"
#include "pytorch/views.h"

namespace neuron::pytorch {
namespace {

constexpr uint64_t kCopySignature = 1;
// A strided tensor is moved to the host together with the bytes between its elements when those are few.
constexpr int64_t kMaxWasteFactor = 4;
constexpr int64_t kAlwaysWholeExtentBytes = 64 * 1024;

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

// Both cover one block of memory in the same element order.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (!is_dense(a) || !is_dense(b)) return false;
  for (int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

size_t bytes_of(const at::Tensor& dense) { return static_cast<size_t>(dense.numel()) * dense.element_size(); }

// --- device -> device ---

std::shared_ptr<const CachedCall> build_copy(const at::Tensor& source, const at::Tensor& destination) {
  ir::Graph graph;
  graph.name = "copy";
  ir::Builder b(graph);
  b.set_label("copy");
  const DType from = dtype_or_raise(source.scalar_type(), "copy"), to = dtype_or_raise(destination.scalar_type(), "copy");
  ir::Value value = b.parameter({from, source.sizes().vec()}, 0, source.strides().vec(), "source");
  if (source.is_conj()) value = b.unary(ir::Op::conj, value);
  if (source.is_neg()) value = b.unary(ir::Op::negate, value);
  value = b.convert(value, to);
  if (destination.is_conj()) value = b.unary(ir::Op::conj, value);
  if (destination.is_neg()) value = b.unary(ir::Op::negate, value);
  b.output(value, destination.strides().vec());
  check(b.status());
  auto call = std::make_shared<CachedCall>();
  call->graph = check(compile_graph(graph, source.device().index(), 0, describe(source) + " -> " + describe(destination)));
  return call;
}

void copy_same_core(const at::Tensor& source, const at::Tensor& destination) {
  if (same_bits(source, destination) && same_layout(source, destination)) {
    if (address_of(source) == address_of(destination)) return;
    return check(runtime::copy_on_device(address_of(destination), address_of(source), bytes_of(source)));
  }
  static std::atomic<uint64_t>& executed = tracking::executed_counter("copy");
  executed.fetch_add(1, std::memory_order_relaxed);
  Signature signature;
  signature.word(kCopySignature | static_cast<uint64_t>(source.device().index()) << 32);
  signature.tensor(*source.unsafeGetTensorImpl(), Role::device);
  signature.tensor(*destination.unsafeGetTensorImpl(), Role::device);
  auto call = CallCache::instance().find(signature);
  if (!call) call = CallCache::instance().insert(signature, build_copy(source, destination));
  call->graph.launch([&](int32_t) { return address_of(source); }, [&](int32_t) { return address_of(destination); }, {},
                     source.device().index());
}

at::Tensor dense_on_device(const at::Tensor& like, c10::ScalarType type, c10::DeviceIndex device) {
  return make_contiguous_tensor(device, like.sizes(), type);
}

void copy_across_cores(const at::Tensor& source, const at::Tensor& destination) {
  at::Tensor staged = source;
  const bool direct = same_bits(source, destination) && same_layout(source, destination);
  if (!direct) {  // convert before sending, so that the wire carries the destination's dtype, densely
    staged = dense_on_device(source, destination.scalar_type(), source.device().index());
    copy_same_core(source, staged);
  }
  const bool lands = same_bits(staged, destination) && same_layout(staged, destination);
  at::Tensor landing = lands ? destination : dense_on_device(staged, staged.scalar_type(), destination.device().index());
  check(runtime::copy_on_device(address_of(landing), address_of(staged), bytes_of(staged)));
  if (!lands) copy_same_core(landing, destination);
}

// --- host -> device ---

void copy_to_device(const at::Tensor& source, const at::Tensor& destination) {
  const bool dense = is_dense(destination);
  at::Tensor host = source;
  const bool ready = dense && same_bits(source, destination) && same_layout(source, destination);
  if (!ready) {
    const auto options = source.options().dtype(destination.scalar_type());
    host = dense ? at::empty_strided(destination.sizes(), destination.strides(), options)
                 : at::empty(destination.sizes(), options);
    if (dense && destination.is_conj()) host._set_conj(true);
    if (dense && destination.is_neg()) host._set_neg(true);
    host.copy_(source);
  }
  if (dense) {
    return check(runtime::copy_to_device(address_of(destination), host.const_data_ptr(), bytes_of(host)));
  }
  at::Tensor staged = dense_on_device(host, host.scalar_type(), destination.device().index());
  check(runtime::copy_to_device(address_of(staged), host.const_data_ptr(), bytes_of(host)));
  copy_same_core(staged, destination);
}

// --- device -> host ---

// The source's elements on the host, with the source's own dtype.
at::Tensor fetch(const at::Tensor& source) {
  const int64_t extent = extent_bytes(source);
  const int64_t payload = source.numel() * static_cast<int64_t>(source.element_size());
  const auto options = source.options().device(at::kCPU);
  if (is_dense(source) || extent <= kAlwaysWholeExtentBytes || extent <= kMaxWasteFactor * payload) {
    at::Tensor host = at::empty({extent / static_cast<int64_t>(source.element_size())}, options);
    check(runtime::copy_to_host(host.mutable_data_ptr(), address_of(source), static_cast<size_t>(extent)));
    host = host.as_strided(source.sizes(), source.strides());
    if (source.is_conj()) host._set_conj(true);
    if (source.is_neg()) host._set_neg(true);
    return host;
  }
  at::Tensor staged = dense_on_device(source, source.scalar_type(), source.device().index());
  copy_same_core(source, staged);
  return fetch(staged);
}

void copy_to_host(const at::Tensor& source, const at::Tensor& destination) {
  if (same_bits(source, destination) && same_layout(source, destination)) {
    return check(runtime::copy_to_host(destination.mutable_data_ptr(), address_of(source), bytes_of(source)));
  }
  at::Tensor target = destination;
  target.copy_(fetch(source));
}

// --- operators ---

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
  copy_tensor(self, destination, non_blocking);
  return destination;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& destination) {
  if (destination.sizes() != self.sizes()) {
    if (destination.is_privateuseone()) {
      resize_tensor(destination, self.sizes(), std::nullopt);
    } else {
      destination.resize_(self.sizes());
    }
  }
  copy_tensor(self, destination, false);
  return destination;
}

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  at::Tensor host = at::empty({}, self.options().device(at::kCPU));
  check(runtime::copy_to_host(host.mutable_data_ptr(), address_of(self), self.element_size()));
  if (self.is_conj()) host._set_conj(true);
  if (self.is_neg()) host._set_neg(true);
  return host.item();
}

}  // namespace

void copy_tensor(const at::Tensor& source_in, const at::Tensor& destination,
                 bool /*non_blocking: host copies are complete*/) {
  TORCH_CHECK(destination.defined(), "copy: destination is undefined");
  TORCH_CHECK(source_in.defined(), "copy: source is undefined");
  at::Tensor source = source_in;
  if (source.sizes() != destination.sizes()) {
    const auto shape = at::infer_size_dimvector(destination.sizes(), source.sizes());
    TORCH_CHECK(destination.sizes() == c10::IntArrayRef(shape), "output with shape ", destination.sizes(),
                " doesn't match the broadcast shape ", c10::IntArrayRef(shape));
    source = source.expand(destination.sizes());
  }
  if (destination.numel() == 0) return;
  at::assert_no_internal_overlap(destination);
  const bool from_device = source.is_privateuseone(), to_device = destination.is_privateuseone();
  TORCH_CHECK_NOT_IMPLEMENTED((from_device || source.is_cpu()) && (to_device || destination.is_cpu()), "copy between ",
                              source.device(), " and ", destination.device(), " is not supported");
  if (from_device && to_device) {
    if (source.device() != destination.device()) return copy_across_cores(source, destination);
    if (source.is_same(destination)) return;
    at::assert_no_partial_overlap(destination, source);
    return copy_same_core(source, destination);
  }
  if (to_device) return copy_to_device(source, destination);
  if (from_device) return copy_to_host(source, destination);
  at::Tensor target = destination;
  target.copy_(source);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

// copy_ hands over operands with their conj and neg bits; the fallbacks of those keys would resolve them with another copy.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace neuron::pytorch
