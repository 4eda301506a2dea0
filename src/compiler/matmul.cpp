#include "compiler/matmul.h"

#include <algorithm>

#include "compiler/matmul_emitter.h"
#include "compiler/tile_emitter.h"

namespace neuron::compiler {
namespace {

// SBUF per partition for the moving operand: less than half, so that epilogue tiles and double buffers find room.
constexpr int64_t kMovingBudgetBytes = 96 * 1024;

// Views of the expression that move along its space, in a fixed order: terms with a view, then stores.
template <class Visit>
void visit_views(Expression& expression, std::vector<Store>& stores, const Visit& visit) {
  for (Term& term : expression.terms) {
    if (!term.view.strides.empty()) visit(term.view);
  }
  for (Store& store : stores) visit(store.view);
}

// The space of the product: the expression's dimensions (dot_general's result without size-1 dimensions, possibly split)
// and the contracted ones.
class SpaceBuilder {
 public:
  SpaceBuilder(const ir::DotAttrs& attrs, const Region& region, Expression& expression, std::vector<Store>& stores)
      : attrs_(attrs), lhs_(region.operands[0]), rhs_(region.operands[1]), expression_(expression), stores_(stores) {}

  Result<MatmulSpace> build() {
    space_.sides = {MatmulSpace::Side::lhs, MatmulSpace::Side::rhs, MatmulSpace::Side::out};
    visit_views(expression_, stores_, [&](View&) { space_.sides.push_back(MatmulSpace::Side::out); });
    for (size_t i = 0; i < attrs_.lhs_batch.size(); ++i) {
      NEURON_RETURN_IF_ERROR(result_dim(DimRole::batch, attrs_.lhs_batch[i], attrs_.rhs_batch[i]));
    }
    for (int64_t d : free_dims(lhs_, attrs_.lhs_batch, attrs_.lhs_contract))
      NEURON_RETURN_IF_ERROR(result_dim(DimRole::m, d, -1));
    for (int64_t d : free_dims(rhs_, attrs_.rhs_batch, attrs_.rhs_contract))
      NEURON_RETURN_IF_ERROR(result_dim(DimRole::n, -1, d));
    for (size_t i = 0; i < attrs_.lhs_contract.size(); ++i) {
      MatmulDim dim = new_dim(DimRole::k, lhs_.shape[attrs_.lhs_contract[i]]);
      dim.strides[kLhs] = lhs_.view.strides[attrs_.lhs_contract[i]];
      dim.strides[kRhs] = rhs_.view.strides[attrs_.rhs_contract[i]];
      space_.dims.push_back(std::move(dim));
    }
    if (next_ != expression_.rank()) return internal_error("dot_general: the region's space is not the result's");
    return std::move(space_);
  }

 private:
  static std::vector<int64_t> free_dims(const Operand& operand, const std::vector<int64_t>& batch,
                                        const std::vector<int64_t>& contract) {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < static_cast<int64_t>(operand.shape.size()); ++d) {
      const auto in = [&](const std::vector<int64_t>& list) { return std::find(list.begin(), list.end(), d) != list.end(); };
      if (!in(batch) && !in(contract)) dims.push_back(d);
    }
    return dims;
  }

  MatmulDim new_dim(DimRole role, int64_t size) const {
    MatmulDim dim;
    dim.role = role;
    dim.size = size;
    dim.strides.assign(space_.sides.size(), 0);
    return dim;
  }

  // One dimension of the result: the next dimensions of the expression whose sizes multiply to its size.
  Status result_dim(DimRole role, int64_t lhs_dim, int64_t rhs_dim) {
    int64_t left = lhs_dim >= 0 ? lhs_.shape[lhs_dim] : rhs_.shape[rhs_dim];
    while (left > 1) {
      if (next_ == expression_.rank() || expression_.extents[next_] == 0 || left % expression_.extents[next_] != 0) {
        return internal_error("dot_general: the region's space is not the result's");
      }
      MatmulDim dim = new_dim(role, expression_.extents[next_]);
      left /= dim.size;  // elements of the result's dimension per step of this part
      if (lhs_dim >= 0) dim.strides[kLhs] = lhs_.view.strides[lhs_dim] * left;
      if (rhs_dim >= 0) dim.strides[kRhs] = rhs_.view.strides[rhs_dim] * left;
      if (!stores_.empty()) dim.strides[kOut] = stores_[0].view.strides[next_];
      size_t access = kOut + 1;
      visit_views(expression_, stores_, [&](View& view) { dim.strides[access++] = view.strides[next_]; });
      space_.dims.push_back(std::move(dim));
      ++next_;
    }
    return {};
  }

  const ir::DotAttrs& attrs_;
  const Operand& lhs_;
  const Operand& rhs_;
  Expression& expression_;
  std::vector<Store>& stores_;
  MatmulSpace space_;
  size_t next_ = 0;  // next dimension of the expression
};

// Gives the expression and the stores the collapsed space (without contracted dimensions, which come last).
void rewrite_expression(const MatmulSpace& space, Expression& expression, std::vector<Store>& stores) {
  expression.extents.clear();
  for (const MatmulDim& dim : space.dims) {
    if (dim.role != DimRole::k) expression.extents.push_back(dim.size);
  }
  expression.reduced.assign(expression.extents.size(), 0);
  size_t access = kOut + 1;
  visit_views(expression, stores, [&](View& view) {
    view.strides.clear();
    for (const MatmulDim& dim : space.dims) {
      if (dim.role != DimRole::k) view.strides.push_back(dim.strides[access]);
    }
    ++access;
  });
}

bool tensor_engine_reads(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f8e4m3fn ||
         dtype == DType::f8e5m2;
}

struct Types {
  DType compute, accumulator, lhs, rhs;
};

Types choose_types(DType lhs, DType rhs, DType result) {
  Types t{DType::f32, DType::f32, lhs, rhs};
  t.compute = isa::compute_type_for(result);
  if (t.compute != DType::f32) {
    t.accumulator = is_integer(result) ? result : t.compute;
    return t;
  }
  // TensorE multiplies small floats of any kind with each other, and f32 with f32 only.
  if (!tensor_engine_reads(lhs) || !tensor_engine_reads(rhs) || (lhs == DType::f32) != (rhs == DType::f32)) {
    t.lhs = t.rhs = DType::f32;
  }
  return t;
}

MatmulOperand make_operand(const EmitContext& context, const Operand& operand, int access, DType tile_dtype) {
  const Buffer buffer = context.buffer(operand.base);
  MatmulOperand result;
  result.tensor = buffer.tensor;
  result.dtype = operand.stored;
  result.offset_bytes = buffer.byte_offset + operand.view.offset * static_cast<int64_t>(size_of(operand.stored));
  result.access = access;
  result.tile_dtype = tile_dtype;
  return result;
}

// Runs the expression on one block of the result and stores it.
class Epilogue {
 public:
  Epilogue(EmitContext& context, const MatmulSpace& space, const Expression& expression, const std::vector<Store>& stores)
      : context_(context), space_(space), expression_(expression), stores_(stores) {
    for (size_t t = 0; t < expression.terms.size(); ++t) {
      if (expression.terms[t].kind == TermKind::external) external_ = static_cast<int32_t>(t);
    }
  }

  Status operator()(ProgramBuilder& builder, const MatmulBlock& block, const isa::Access& accumulator) const {
    if (external_ < 0) return internal_error("dot_general: the region does not use its result");
    Frame frame;
    frame.partitions = block.partitions;
    if (block.free_dim >= 0) frame.slots = {block.free};
    for (int d = 0; d < static_cast<int>(space_.dims.size()); ++d) {
      if (space_.dims[d].role == DimRole::k) continue;
      DimTile tile;
      tile.start = block.position[d];
      tile.partition_step = d == block.partition_dim ? 1 : 0;
      tile.slot = d == block.free_dim ? 0 : kNoSlot;
      frame.dims.push_back(tile);
    }
    TileEmitter tile(context_, expression_, frame);
    tile.provide(external_, result_value(builder, block, accumulator));
    for (const Store& store : stores_) NEURON_RETURN_IF_ERROR(tile.store(store));
    return {};
  }

 private:
  OnChip result_value(ProgramBuilder& builder, const MatmulBlock& block, isa::Access accumulator) const {
    const DType dtype = expression_.terms[external_].dtype;
    // Eager rounds the product before the next operation; inside a region it stays f32 unless that is asked for.
    if (context_.options.emulate_precision_casts && accumulator.dtype != dtype && expression_.terms.size() > 1) {
      const isa::Access rounded = builder.dense(
          builder.tile("rounded", isa::Space::sbuf, block.partitions, block.free * static_cast<int64_t>(size_of(dtype)), 2),
          dtype, block.partitions, block.free);
      builder.tensor_copy(isa::Engine::vector, DType::f32, rounded, accumulator);
      accumulator = rounded;
    }
    OnChip value;
    value.tile = accumulator.object;
    value.dtype = accumulator.dtype;
    value.offset = accumulator.offset;
    value.offset.coefficient = accumulator.loop_step;
    value.stride[0] = static_cast<int64_t>(size_of(accumulator.dtype));
    value.partitions = block.partitions;
    value.valid = true;
    return value;
  }

  EmitContext& context_;
  const MatmulSpace& space_;
  const Expression& expression_;
  const std::vector<Store>& stores_;
  int32_t external_ = -1;
};

}  // namespace

Status emit_matmul_region(EmitContext& context, const Region& region) {
  const ir::Node& node = context.graph.nodes[region.node];
  const auto& attrs = std::get<ir::DotAttrs>(node.attrs);
  Expression expression = region.expression;
  std::vector<Store> stores = region.stores;
  NEURON_ASSIGN(MatmulSpace space, SpaceBuilder(attrs, region, expression, stores).build());
  collapse(space);
  rewrite_expression(space, expression, stores);

  const Types types = choose_types(region.operands[0].dtype, region.operands[1].dtype, attrs.result_dtype);
  MatmulProblem problem;
  problem.compute = types.compute;
  problem.accumulator = types.accumulator;
  problem.lhs = make_operand(context, region.operands[0], kLhs, types.lhs);
  problem.rhs = make_operand(context, region.operands[1], kRhs, types.rhs);
  problem.space = space;
  problem.sbuf_budget_bytes = std::max<int64_t>(kMovingBudgetBytes / context.sbuf_divisor, 4096);
  problem.finish = Epilogue(context, problem.space, expression, stores);
  context.builder.set_label(context.label_of(region.node));
  return emit_matmul(context.builder, problem);
}

}  // namespace neuron::compiler
