#include "compiler/attention.h"

#include <algorithm>

#include "compiler/attention_emitter.h"

namespace neuron::compiler {
namespace {

// A view over the dims of `shape`, aligned to the right of four; dimensions that broadcast get stride 0.
AttentionTensor bind_tensor(Buffer buffer, DType dtype, const View& view, const std::vector<int64_t>& shape,
                            size_t leading) {
  AttentionTensor t;
  t.present = true;
  t.tensor = buffer.tensor;
  t.dtype = dtype;
  t.offset_bytes = buffer.byte_offset + view.offset * static_cast<int64_t>(size_of(dtype));
  for (size_t d = 0; d < shape.size(); ++d) t.strides[leading + d] = shape[d] == 1 ? 0 : view.strides[d];
  return t;
}

class Binder {
 public:
  Binder(EmitContext& context, const Region& region)
      : context_(context), region_(region), node_(context.graph.nodes[region.node]) {}

  AttentionTensor operand(size_t index) const {
    const Operand& o = region_.operands[index];
    // logsumexp [B,H,Sq] aligns to the left, masks of lower rank to the right.
    const bool rows = node_.op == ir::Op::attention_backward && index == 5;
    return bind_tensor(context_.buffer(o.base), o.stored, o.view, o.shape, rows ? 0 : 4 - o.shape.size());
  }
  AttentionTensor result(int32_t index) const {
    for (const Store& store : region_.stores) {
      if (store.result != index) continue;
      const ir::Type& type = node_.types[index];
      return bind_tensor(context_.destination(store), type.dtype, store.view, type.shape, 0);
    }
    return {};
  }
  AttentionShape shape(size_t q) const {
    const auto& q_shape = region_.operands[q].shape;
    AttentionShape s;
    s.batch = q_shape[0];
    s.heads = q_shape[1];
    s.queries = q_shape[2];
    s.head_dim = q_shape[3];
    s.keys = region_.operands[q + 1].shape[2];
    s.value_dim = region_.operands[q + 2].shape[3];
    return s;
  }
  Status check(size_t first_floating) const {
    for (size_t i = first_floating; i < first_floating + 3; ++i) {
      if (region_.operands[i].stored != region_.operands[first_floating].dtype) {
        return unsupported("attention: operand " + std::to_string(i) + " is stored as " +
                           std::string(name_of(region_.operands[i].stored)));
      }
    }
    if (!attention_region_takes(context_.graph, node_)) {
      return unsupported(std::string(name_of(node_.op)) + ": no region for " +
                         ir::to_string(context_.graph.type(node_.operands[first_floating])));
    }
    return {};
  }

 private:
  EmitContext& context_;
  const Region& region_;
  const ir::Node& node_;
};

}  // namespace

Status emit_attention_region(EmitContext& context, const Region& region) {
  const ir::Node& node = context.graph.nodes[region.node];
  const auto& attrs = std::get<ir::AttentionAttrs>(node.attrs);
  const Binder binder(context, region);
  context.builder.set_label(context.label_of(region.node));
  const size_t last = region.operands.size() - 1;
  if (node.op == ir::Op::attention) {
    NEURON_RETURN_IF_ERROR(binder.check(0));
    AttentionForward a;
    a.shape = binder.shape(0);
    a.attrs = attrs;
    a.q = binder.operand(0);
    a.k = binder.operand(1);
    a.v = binder.operand(2);
    if (attrs.has_mask) a.mask = binder.operand(3);
    if (attrs.has_keep) a.keep = binder.operand(last);
    a.out = binder.result(0);
    a.logsumexp = binder.result(1);
    a.share_tiles = context.sbuf_divisor > 1;
    a.resident_bytes /= std::max<int64_t>(1, context.sbuf_divisor / 2);
    return emit_attention(context.builder, a);
  }
  NEURON_RETURN_IF_ERROR(binder.check(1));
  AttentionBackward a;
  a.shape = binder.shape(1);
  a.attrs = attrs;
  a.grad = binder.operand(0);
  a.q = binder.operand(1);
  a.k = binder.operand(2);
  a.v = binder.operand(3);
  a.out = binder.operand(4);
  a.logsumexp = binder.operand(5);
  if (attrs.has_mask) a.mask = binder.operand(6);
  if (attrs.has_keep) a.keep = binder.operand(last);
  a.dq = binder.result(0);
  a.dk = binder.result(1);
  a.dv = binder.result(2);
  a.share_tiles = context.sbuf_divisor > 1;
  return emit_attention_backward(context.builder, a);
}

}  // namespace neuron::compiler
