#include "pytorch/dispatch/data_dependent.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/index.h>
#include <torch/library.h>

#include <array>
#include <bit>

#include "ir/builder.h"
#include "pytorch/device.h"
#include "pytorch/dispatch/cached_call.h"
#include "pytorch/dispatch/call_cache.h"
#include "pytorch/error.h"
#include "pytorch/factory.h"
#include "pytorch/scalar.h"

namespace neuron::pytorch {
namespace {

// First words of signatures, see copy.cpp and registration.cpp.
constexpr uint64_t kCount = 2, kPositions = 3, kSelect = 4, kRepeatExtent = 5, kRepeat = 6;

using BuildGraph = void (*)(ir::Builder& b, const at::Tensor& mask, const at::Tensor* values, int64_t capacity);

ir::Value parameter(ir::Builder& b, const at::Tensor& t, int32_t index) {
  ir::Value v = b.parameter({dtype_or_raise(t.scalar_type(), "nonzero"), t.sizes().vec()}, index, t.strides().vec());
  if (t.is_conj()) v = b.unary(ir::Op::conj, v);
  if (t.is_neg()) v = b.unary(ir::Op::negate, v);
  return v;
}

// Row-major bool [N].
ir::Value flat_mask(ir::Builder& b, const at::Tensor& t) {
  const ir::Value x = b.reshape(parameter(b, t, 0), {t.numel()});
  const ir::Type type = b.type(x);
  return type.dtype == DType::boolean
             ? x
             : b.compare(ir::Comparison::ne, x, b.broadcast_to(b.splat({type.dtype, {}}, 0), type.shape));
}

void build_count(ir::Builder& b, const at::Tensor& mask, const at::Tensor* /*values*/, int64_t /*capacity*/) {
  b.output(b.reduce(ir::Reducer::add, b.convert(flat_mask(b, mask), DType::i64), {0}), {});
}

// Row r of the result gets `rows[i]` of the r-th true element i; rows: [N, width].
void scatter_rows(ir::Builder& b, ir::Value mask, ir::Value rows, int64_t capacity) {
  const ir::Type row_type = b.type(rows);
  const int64_t n = row_type.shape[0], width = row_type.shape[1];
  const ir::Value ordinal = b.binary(ir::Op::subtract, b.scan(ir::Reducer::add, b.convert(mask, DType::i64), 0),
                                     b.broadcast_to(b.splat_int({DType::i64, {}}, 1), {n}));
  const ir::Value outside = b.broadcast_to(b.splat_int({DType::i64, {}}, capacity), {n});
  const ir::Value target = b.reshape(b.select(mask, ordinal, outside), {n, 1});
  ir::ScatterAttrs attrs;
  attrs.update_window_dims = {1};
  attrs.inserted_window_dims = {0};
  attrs.scatter_dims_to_operand_dims = {0};
  attrs.index_vector_dim = 1;
  attrs.combine = ir::Reducer::assign;
  attrs.check_bounds = false;  // elements that are not selected go outside and are dropped
  const ir::Value empty = b.broadcast_to(b.splat_int({row_type.dtype, {}}, 0), {capacity, width});
  b.output(b.scatter(empty, target, rows, attrs), {1, capacity});  // columns, as the CPU's nonzero
}

void build_positions(ir::Builder& b, const at::Tensor& mask, const at::Tensor* /*values*/, int64_t capacity) {
  std::vector<ir::Value> columns;
  for (int64_t d = 0; d < mask.dim(); ++d) {
    columns.push_back(b.reshape(b.iota({DType::i64, mask.sizes().vec()}, d), {mask.numel(), 1}));
  }
  const ir::Value flat = flat_mask(b, mask);
  scatter_rows(b, flat, columns.size() == 1 ? columns[0] : b.concatenate(columns, 1), capacity);
}

void build_select(ir::Builder& b, const at::Tensor& mask, const at::Tensor* values, int64_t capacity) {
  const ir::Value flat = flat_mask(b, mask);
  scatter_rows(b, flat, b.reshape(parameter(b, *values, 1), {values->numel(), 1}), capacity);
}

// Sum and smallest of the repeats.
void build_repeat_extent(ir::Builder& b, const at::Tensor& repeats, const at::Tensor* /*values*/, int64_t /*capacity*/) {
  const ir::Value x = b.convert(parameter(b, repeats, 0), DType::i64);
  const std::array<ir::Value, 2> both{b.reshape(b.reduce(ir::Reducer::add, x, {0}), {1}),
                                      b.reshape(b.reduce(ir::Reducer::minimum, x, {0}), {1})};
  b.output(b.concatenate(both, 0), {1});
}

// Element j of the result is the number of groups that end at or before j: ones at the groups' ends, summed up.
void build_repeat(ir::Builder& b, const at::Tensor& repeats, const at::Tensor* /*values*/, int64_t capacity) {
  const ir::Value x = b.convert(parameter(b, repeats, 0), DType::i64);
  const int64_t n = repeats.numel();
  ir::ScatterAttrs attrs;
  attrs.inserted_window_dims = {0};
  attrs.scatter_dims_to_operand_dims = {0};
  attrs.index_vector_dim = 1;
  attrs.combine = ir::Reducer::add;
  attrs.check_bounds = false;  // the end of the last group is the end of the result
  const ir::Value ends = b.scan(ir::Reducer::add, x, 0);
  const ir::Value marks =
      b.scatter(b.splat_int({DType::i64, {capacity}}, 0), b.reshape(ends, {n, 1}), b.splat_int({DType::i64, {n}}, 1), attrs);
  b.output(b.convert(b.scan(ir::Reducer::add, marks, 0), dtype_or_raise(repeats.scalar_type(), "repeat_interleave")), {1});
}

void run(uint64_t kind, const char* name, BuildGraph build, const at::Tensor& mask, const at::Tensor* values,
         int64_t capacity, const at::Tensor& result) {
  const int device = mask.device().index();
  Signature signature;
  signature.word(kind | static_cast<uint64_t>(device) << 32);
  signature.word(static_cast<uint64_t>(capacity));
  signature.tensor(*mask.unsafeGetTensorImpl(), Role::device);
  if (values) signature.tensor(*values->unsafeGetTensorImpl(), Role::device);
  auto call = CallCache::instance().find(signature);
  if (!call) {
    ir::Graph graph;
    graph.name = name;
    ir::Builder builder(graph);
    builder.set_label(name);
    build(builder, mask, values, capacity);
    check(builder.status());
    auto built = std::make_shared<CachedCall>();
    built->graph = check(compile_graph(graph, device, 0, describe(mask) + (values ? ", " + describe(*values) : "")));
    call = CallCache::instance().insert(signature, std::move(built));
  }
  call->graph.launch([&](int32_t i) { return address_of(i == 0 ? mask : *values); },
                     [&](int32_t) { return address_of(result); }, {}, device);
}

int64_t count_true(const at::Tensor& mask) {
  if (mask.numel() == 0) return 0;
  const at::Tensor result = make_contiguous_tensor(mask.device().index(), {}, at::kLong);
  run(kCount, "count_nonzero", build_count, mask, nullptr, 0, result);
  int64_t count = 0;
  check(runtime::copy_to_host(&count, address_of(result), sizeof count));
  return count;
}

int64_t capacity_of(int64_t count, int64_t limit) { return std::min<int64_t>(limit, capacity_class(count)); }

// The first `sizes[0]` rows of a dense buffer, whose rows follow each other, as a tensor with a storage of its own and the
// buffer's strides.
at::Tensor first_rows(const at::Tensor& buffer, c10::IntArrayRef sizes) {
  at::Tensor result = make_tensor(buffer.device().index(), sizes, buffer.strides(), buffer.scalar_type());
  if (result.numel() > 0) check(runtime::copy_on_device(address_of(result), address_of(buffer), result.nbytes()));
  return result;
}

// Positions of the true elements in row-major order as [capacity, dims] with strides (1, capacity); rows from `count` on are
// zero.
at::Tensor position_rows(const at::Tensor& mask, int64_t count) {
  const int64_t capacity = capacity_of(count, mask.numel());
  at::Tensor rows = make_tensor(mask.device().index(), {capacity, mask.dim()}, {1, capacity}, at::kLong);
  run(kPositions, "nonzero", build_positions, mask, nullptr, capacity, rows);
  return rows;
}

at::Tensor nonzero_of(const at::Tensor& self) {
  const int64_t count = count_true(self);
  at::Tensor result = make_tensor(self.device().index(), {count, self.dim()}, {1, count}, at::kLong);
  if (count == 0 || self.dim() == 0) return result;
  const at::Tensor rows = position_rows(self, count);
  for (int64_t d = 0; d < self.dim(); ++d) {
    const at::Tensor from = rows.select(1, d), to = result.select(1, d);
    check(runtime::copy_on_device(address_of(to), address_of(from), static_cast<size_t>(count) * sizeof(int64_t)));
  }
  return result;
}

at::Tensor select_by_mask(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(mask.device() == self.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              mask.device(), "!");
  const auto shape = at::infer_size(self.sizes(), mask.sizes());
  const at::Tensor values = self.expand(shape), full_mask = mask.expand(shape);
  const int64_t count = count_true(full_mask);
  if (count == 0) return make_contiguous_tensor(self.device().index(), {0}, self.scalar_type());
  const int64_t capacity = capacity_of(count, values.numel());
  const at::Tensor buffer = make_contiguous_tensor(self.device().index(), {capacity}, self.scalar_type());
  run(kSelect, "masked_select", build_select, full_mask, &values, capacity, buffer);
  return first_rows(buffer, {count});
}

// Index i repeats[i] times. With output_size nothing is read back, and nothing checks that it is the sum of the repeats.
at::Tensor repeat_interleave_of(const at::Tensor& repeats, std::optional<c10::SymInt> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK_NOT_IMPLEMENTED(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
                              "\"repeat_interleave_cpu\" not implemented for '", repeats.scalar_type(), "'");
  const int device = repeats.device().index();
  if (repeats.size(0) == 0) return make_contiguous_tensor(device, {0}, repeats.scalar_type());
  int64_t total = 0;
  if (output_size) {
    total = output_size->guard_int(__FILE__, __LINE__);
    TORCH_CHECK(total >= 0, "Trying to create tensor with negative dimension ", total, ": [", total, "]");
  } else {
    const at::Tensor extent = make_contiguous_tensor(device, {2}, at::kLong);
    run(kRepeatExtent, "repeat_interleave", build_repeat_extent, repeats, nullptr, 0, extent);
    std::array<int64_t, 2> host{};
    check(runtime::copy_to_host(host.data(), address_of(extent), sizeof host));
    TORCH_CHECK(host[1] >= 0, "repeats can not be negative");
    total = host[0];
  }
  if (total == 0) return make_contiguous_tensor(device, {0}, repeats.scalar_type());
  const int64_t capacity = capacity_class(total);
  const at::Tensor buffer = make_contiguous_tensor(device, {capacity}, repeats.scalar_type());
  run(kRepeat, "repeat_interleave", build_repeat, repeats, nullptr, capacity, buffer);
  return first_rows(buffer, {total});
}

at::Tensor& into(const at::Tensor& result, at::Tensor& out, const char* name) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), name, ": expected out to have dtype ", result.scalar_type(),
              ", got ", out.scalar_type());
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) { return into(nonzero_of(self), out, "nonzero"); }

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  return into(select_by_mask(self, mask), out, "masked_select");
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              other.device(), "!");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.dtype(),
              " but got data type ", other.dtype(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  return at::eq(self, other).all().item<bool>();
}

// --- boolean masks as indices ---

bool is_mask(const c10::IValue& index) {
  if (!index.isTensor() || !index.toTensor().defined()) return false;
  const auto type = index.toTensor().scalar_type();
  return type == at::kBool || type == at::kByte;
}

// self's dims from `dim` on must be the mask's; PyTorch's words.
void check_mask_shape(const at::Tensor& self, const at::Tensor& mask, int64_t dim) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    TORCH_CHECK_INDEX(dim + d < self.dim() && mask.size(d) == self.size(dim + d), "The shape of the mask ", mask.sizes(),
                      " at index ", d, " does not match the shape of the indexed tensor ", self.sizes(), " at index ",
                      dim + d);
  }
}

at::Tensor on(const at::Tensor& index, const at::Tensor& self) {
  return index.device() == self.device() ? index : index.to(self.device());
}

// x[mask] with one mask over the leading dims: gathered for a capacity class, then cut to size.
bool leading_mask_index(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, at::Tensor* result) {
  const std::optional<at::Tensor> first = indices.get(0);
  if (!first || !is_mask(*first) || first->dim() == 0) return false;
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices.get(i) && indices.get(i)->defined()) return false;
  }
  check_mask_shape(self, *first, 0);
  const at::Tensor mask = on(*first, self);
  const int64_t count = count_true(mask);
  std::vector<int64_t> sizes{count};
  for (int64_t d = mask.dim(); d < self.dim(); ++d) sizes.push_back(self.size(d));
  if (count == 0) {
    *result = make_contiguous_tensor(self.device().index(), sizes, self.scalar_type());
    return true;
  }
  const at::Tensor rows = position_rows(mask, count);
  c10::List<std::optional<at::Tensor>> columns;
  for (int64_t d = 0; d < mask.dim(); ++d) columns.push_back(rows.select(1, d));
  const at::Tensor rows_of_class = at::index(self, columns);
  const bool prefix = rows_of_class.is_non_overlapping_and_dense() && rows_of_class.storage_offset() == 0 &&
                      rows_of_class.stride(0) * rows_of_class.size(0) == rows_of_class.numel();
  *result = first_rows(prefix ? rows_of_class : rows_of_class.contiguous(), sizes);
  return true;
}

c10::List<std::optional<at::Tensor>> expand_masks(const at::Tensor& self,
                                                  const c10::List<std::optional<at::Tensor>>& indices) {
  c10::List<std::optional<at::Tensor>> expanded;
  int64_t dim = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<at::Tensor> index = indices.get(i);
    if (!index || !index->defined()) {
      expanded.push_back(std::nullopt);
      ++dim;
    } else if (is_mask(*index)) {
      check_mask_shape(self, *index, dim);
      const at::Tensor positions = nonzero_of(on(*index, self));
      for (int64_t d = 0; d < index->dim(); ++d) expanded.push_back(positions.select(1, d));
      dim += index->dim();
    } else {
      expanded.push_back(on(*index, self));
      ++dim;
    }
  }
  return expanded;
}

// CPU index tensors are allowed for device tensors, masks need their count: both are settled before the signature.
bool needs_expansion(const at::Tensor& self, const c10::IValue& indices) {
  for (const c10::IValue& index : indices.toListRef()) {
    if (is_mask(index)) return true;
    if (index.isTensor() && index.toTensor().defined() && index.toTensor().device() != self.device()) return true;
  }
  return false;
}

bool prepare_index(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::IValue* args = stack->data() + stack->size() - op.schema().arguments().size();
  const at::Tensor self = args[0].toTensor();
  if (!self.is_privateuseone() || !needs_expansion(self, args[1])) return false;
  const auto indices = args[1].toOptionalTensorList();
  at::Tensor result;
  if (op.schema().arguments().size() == 2 && leading_mask_index(self, indices, &result)) {
    torch::jit::drop(*stack, 2);
    stack->emplace_back(std::move(result));
    return true;
  }
  args[1] = expand_masks(self, indices);
  return false;
}

// x[mask] = number becomes masked_fill_, which does not need the count.
bool fill_by_mask(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& value) {
  if (value.numel() != 1) return false;
  std::optional<at::Tensor> mask;
  int64_t leading = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<at::Tensor> index = indices.get(i);
    if (!index || !index->defined()) {
      if (!mask) ++leading;
      continue;
    }
    if (mask || !is_mask(*index)) return false;
    mask = *index;
  }
  if (!mask) return false;
  check_mask_shape(self, *mask, leading);
  at::Tensor shaped = on(*mask, self).to(at::kBool);
  for (int64_t d = leading + mask->dim(); d < self.dim(); ++d) shaped = shaped.unsqueeze(-1);
  self.masked_fill_(shaped, value.reshape({}));
  return true;
}

bool prepare_index_put(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  c10::IValue* args = stack->data() + stack->size() - count;
  at::Tensor self = args[0].toTensor();
  if (!self.is_privateuseone()) return false;
  const at::Tensor value = args[2].toTensor();
  if (value.device() != self.device() && value.dim() > 0 && value.numel() == 1) args[2] = value.reshape({});
  if (!needs_expansion(self, args[1])) return false;
  const bool in_place = op.schema().arguments()[0].alias_info() != nullptr;
  if (in_place && !args[3].toBool() && fill_by_mask(self, args[1].toOptionalTensorList(), value)) {
    torch::jit::drop(*stack, count);
    stack->emplace_back(std::move(self));
    return true;
  }
  args[1] = expand_masks(self, args[1].toOptionalTensorList());
  return false;
}

}  // namespace

int64_t capacity_class(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(count, 16))));
}

Preparation preparation_for(const std::string& op) {
  if (op.starts_with("aten::index.Tensor") || op == "aten::_unsafe_index.Tensor") return &prepare_index;
  if (op.starts_with("aten::index_put") || op.starts_with("aten::_index_put_impl") || op == "aten::_unsafe_index_put") {
    return &prepare_index_put;
  }
  return nullptr;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", nonzero_of);
  m.impl("nonzero.out", nonzero_out);
  m.impl("masked_select", select_by_mask);
  m.impl("masked_select.out", masked_select_out);
  m.impl("repeat_interleave.Tensor", repeat_interleave_of);
  m.impl("equal", equal);
}

}  // namespace neuron::pytorch
