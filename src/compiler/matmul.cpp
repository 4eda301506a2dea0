#include "compiler/matmul.h"

#include <algorithm>

#include "compiler/matmul_emitter.h"
#include "compiler/tile_emitter.h"

namespace neuron::compiler {
namespace {

// SBUF per partition for the moving operand: less than half, so that epilogue tiles and double buffers find room.
constexpr int64_t kMovingBudgetBytes = 96 * 1024;

// Views of an expression that move along its space.
template <class Visit>
void visit_views(Expression& expression, const Visit& visit) {
  for (Term& term : expression.terms) {
    if (!term.view.strides.empty()) visit(term.view);
  }
}

// The accesses behind kOut, in a fixed order: the epilogue's views and stores, the prologues of the left and right operand.
template <class Visit>
void visit_further_accesses(Expression& epilogue, std::vector<Store>& stores, std::vector<Operand>& operands,
                            const Visit& visit) {
  visit_views(epilogue, [&](View& view) { visit(view, MatmulSpace::Side::out); });
  for (Store& store : stores) visit(store.view, MatmulSpace::Side::out);
  visit_views(operands[0].prologue, [&](View& view) { visit(view, MatmulSpace::Side::lhs); });
  visit_views(operands[1].prologue, [&](View& view) { visit(view, MatmulSpace::Side::rhs); });
}

// The space of the product: the expression's dimensions (dot_general's result without size-1 dimensions, possibly split)
// and the contracted ones.
class SpaceBuilder {
 public:
  SpaceBuilder(const ir::DotAttrs& attrs, std::vector<Operand>& operands, Expression& expression, std::vector<Store>& stores)
      : attrs_(attrs), lhs_(operands[0]), rhs_(operands[1]), operands_(operands), expression_(expression), stores_(stores) {}

  Result<MatmulSpace> build() {
    space_.sides = {MatmulSpace::Side::lhs, MatmulSpace::Side::rhs, MatmulSpace::Side::out};
    visit_further_accesses(expression_, stores_, operands_,
                           [&](View&, MatmulSpace::Side side) { space_.sides.push_back(side); });
    for (size_t i = 0; i < attrs_.lhs_batch.size(); ++i) {
      NEURON_RETURN_IF_ERROR(result_dim(DimRole::batch, attrs_.lhs_batch[i], attrs_.rhs_batch[i]));
    }
    for (int64_t d : free_dims(lhs_, attrs_.lhs_batch, attrs_.lhs_contract))
      NEURON_RETURN_IF_ERROR(result_dim(DimRole::m, d, -1));
    for (int64_t d : free_dims(rhs_, attrs_.rhs_batch, attrs_.rhs_contract))
      NEURON_RETURN_IF_ERROR(result_dim(DimRole::n, -1, d));
    for (size_t i = 0; i < attrs_.lhs_contract.size(); ++i) {
      space_.dims.push_back(
          new_dim(DimRole::k, lhs_.shape[attrs_.lhs_contract[i]], attrs_.lhs_contract[i], attrs_.rhs_contract[i], 1));
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

  // Elements that a view of the operand's prologue moves per step of the operand's dimension `dim`.
  static int64_t prologue_stride(const Operand& operand, const View& view, int64_t dim) {
    if (dim < 0 || operand.shape[static_cast<size_t>(dim)] == 1) return 0;
    const auto wider = [](int64_t size) { return size != 1; };
    return view.strides[static_cast<size_t>(std::count_if(operand.shape.begin(), operand.shape.begin() + dim, wider))];
  }

  // An index along dimensions lhs_dim and rhs_dim of the operands (-1: not there), `step` elements of them at a time. The
  // result's accesses do not move along it yet.
  MatmulDim new_dim(DimRole role, int64_t size, int64_t lhs_dim, int64_t rhs_dim, int64_t step) {
    MatmulDim dim;
    dim.role = role;
    dim.size = size;
    dim.strides.assign(space_.sides.size(), 0);
    if (lhs_dim >= 0) dim.strides[kLhs] = lhs_.view.strides[lhs_dim] * step;
    if (rhs_dim >= 0) dim.strides[kRhs] = rhs_.view.strides[rhs_dim] * step;
    size_t access = kOut + 1;
    visit_further_accesses(expression_, stores_, operands_, [&](View& view, MatmulSpace::Side side) {
      if (side == MatmulSpace::Side::lhs) dim.strides[access] = prologue_stride(lhs_, view, lhs_dim) * step;
      if (side == MatmulSpace::Side::rhs) dim.strides[access] = prologue_stride(rhs_, view, rhs_dim) * step;
      ++access;
    });
    return dim;
  }

  // One dimension of the result: the next dimensions of the expression whose sizes multiply to its size.
  Status result_dim(DimRole role, int64_t lhs_dim, int64_t rhs_dim) {
    int64_t left = lhs_dim >= 0 ? lhs_.shape[lhs_dim] : rhs_.shape[rhs_dim];
    while (left > 1) {
      if (next_ == expression_.rank() || expression_.extents[next_] == 0 || left % expression_.extents[next_] != 0) {
        return internal_error("dot_general: the region's space is not the result's");
      }
      const int64_t size = expression_.extents[next_];
      left /= size;  // elements of the result's dimension per step of this part
      MatmulDim dim = new_dim(role, size, lhs_dim, rhs_dim, left);
      if (!stores_.empty()) dim.strides[kOut] = stores_[0].view.strides[next_];
      size_t access = kOut + 1;
      visit_further_accesses(expression_, stores_, operands_, [&](View& view, MatmulSpace::Side side) {
        if (side == MatmulSpace::Side::out) dim.strides[access] = view.strides[next_];
        ++access;
      });
      space_.dims.push_back(std::move(dim));
      ++next_;
    }
    return {};
  }

  const ir::DotAttrs& attrs_;
  const Operand& lhs_;
  const Operand& rhs_;
  std::vector<Operand>& operands_;
  Expression& expression_;
  std::vector<Store>& stores_;
  MatmulSpace space_;
  size_t next_ = 0;  // next dimension of the expression
};

// Gives every expression and store the collapsed space: the epilogue without contracted dimensions (which come last), the
// prologues all of it.
void rewrite_expressions(const MatmulSpace& space, Expression& epilogue, std::vector<Store>& stores,
                         std::vector<Operand>& operands) {
  const auto set_extents = [&](Expression& expression, bool contracted) {
    expression.extents.clear();
    for (const MatmulDim& dim : space.dims) {
      if (contracted || dim.role != DimRole::k) expression.extents.push_back(dim.size);
    }
    expression.reduced.assign(expression.extents.size(), 0);
  };
  set_extents(epilogue, false);
  for (Operand& operand : operands) set_extents(operand.prologue, true);
  size_t access = kOut + 1;
  visit_further_accesses(epilogue, stores, operands, [&](View& view, MatmulSpace::Side side) {
    view.strides.clear();
    for (const MatmulDim& dim : space.dims) {
      if (side != MatmulSpace::Side::out || dim.role != DimRole::k) view.strides.push_back(dim.strides[access]);
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

// The tile that a block covers, over the space's dimensions (without the contracted ones: the epilogue's).
Frame frame_of(const MatmulSpace& space, const MatmulBlock& block, bool contracted) {
  Frame frame;
  frame.partitions = block.partitions;
  if (block.free_dim >= 0) frame.slots = {block.free};
  for (int d = 0; d < static_cast<int>(space.dims.size()); ++d) {
    if (space.dims[d].role == DimRole::k && !contracted) continue;
    DimTile tile;
    tile.start = block.position[d];
    tile.partition_step = d == block.partition_dim ? 1 : 0;
    tile.slot = d == block.free_dim ? 0 : kNoSlot;
    frame.dims.push_back(tile);
  }
  return frame;
}

// Computes one block of an operand into `dst`.
Status run_prologue(EmitContext& context, const MatmulSpace& space, const Operand& operand, int32_t node,
                    const MatmulBlock& block, const isa::Access& dst) {
  ProgramBuilder& builder = context.builder;
  TileEmitter tile(context, operand.prologue, frame_of(space, block, true));
  NEURON_ASSIGN(const OnChip value, tile.materialize(operand.root));
  const isa::Access from = tile.access(value, tile.slots_of(operand.root), block.partitions);
  const isa::Access* operands[] = {&dst, &from};
  const DType compute = isa::compute_type_for(value.dtype);
  builder.set_label(context.label_of(node));
  builder.tensor_copy(builder.choose_engine(isa::Opcode::tensor_copy, compute, operands), compute, dst, from);
  return {};
}

MatmulOperand make_operand(EmitContext& context, const MatmulSpace& space, const Operand& operand, int32_t node, int access,
                           DType tile_dtype) {
  MatmulOperand result;
  result.dtype = operand.stored;
  result.access = access;
  result.tile_dtype = tile_dtype;
  if (operand.has_prologue()) {
    result.produce = [&context, &space, &operand, node](ProgramBuilder&, const MatmulBlock& block, const isa::Access& dst) {
      return run_prologue(context, space, operand, node, block, dst);
    };
    return result;
  }
  const Buffer buffer = context.buffer(operand.base);
  result.tensor = buffer.tensor;
  result.offset_bytes = buffer.byte_offset + operand.view.offset * static_cast<int64_t>(size_of(operand.stored));
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
    TileEmitter tile(context_, expression_, frame_of(space_, block, false));
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
  std::vector<Operand> operands = region.operands;
  NEURON_ASSIGN(MatmulSpace space, SpaceBuilder(attrs, operands, expression, stores).build());
  collapse(space);
  rewrite_expressions(space, expression, stores, operands);

  const Types types = choose_types(operands[0].dtype, operands[1].dtype, attrs.result_dtype);
  MatmulProblem problem;
  problem.compute = types.compute;
  problem.accumulator = types.accumulator;
  problem.space = space;
  problem.lhs = make_operand(context, problem.space, operands[0], region.node, kLhs, types.lhs);
  problem.rhs = make_operand(context, problem.space, operands[1], region.node, kRhs, types.rhs);
  problem.sbuf_budget_bytes = std::max<int64_t>(kMovingBudgetBytes / context.sbuf_divisor, 4096);
  problem.finish = Epilogue(context, problem.space, expression, stores);
  context.builder.set_label(context.label_of(region.node));
  return emit_matmul(context.builder, problem);
}

}  // namespace neuron::compiler
