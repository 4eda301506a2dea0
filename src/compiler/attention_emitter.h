// The attention regions: softmax(q k^T scale + mask) v and its backward as one loop nest per (batch, head), scores never in
// HBM. Inputs and outputs are HBM tensors with any strides.
//
// Forward, per tile of 128 query rows: scores by TensorE into PSUM; mask; row maximum; exp with the row sum in the same
// instruction; probabilities turned (nc_transpose) for the product with v; division by the sum after it. Rows wider than
// kScoreColumns are taken in blocks with running maximum and sum. Causal blocks above the diagonal are skipped.
//
// Backward, per block of keys: probabilities recomputed from logsumexp, delta = rowsum(grad * out), dv and dk accumulate in
// PSUM over query tiles, dq in SBUF over key blocks.
#pragma once

#include <array>

#include "base/status.h"
#include "compiler/program_builder.h"
#include "ir/graph.h"

namespace neuron::compiler {

// A 4-D tensor in HBM (mask and keep-mask broadcast with stride 0; logsumexp uses the first three dims).
struct AttentionTensor {
  bool present = false;
  uint32_t tensor = 0;
  DType dtype = DType::f32;
  int64_t offset_bytes = 0;
  std::array<int64_t, 4> strides{};  // elements, over [B, H, S, D] or [B, H, Sq, Sk]
};

struct AttentionShape {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, head_dim = 0, value_dim = 0;
};

struct AttentionForward {
  AttentionShape shape;
  ir::AttentionAttrs attrs;
  AttentionTensor q, k, v, mask, keep;
  AttentionTensor out, logsumexp;  // either may be absent
  // SBUF per partition that k and v of one head may keep (twice: the next head's are loaded meanwhile); else they are loaded
  // block by block for every query tile.
  int64_t resident_bytes = 64 * 1024;
  bool share_tiles = false;  // query tiles that are written out one after the other use the same bytes: less overlap
};

struct AttentionBackward {
  AttentionShape shape;
  ir::AttentionAttrs attrs;
  AttentionTensor grad, q, k, v, out, logsumexp, mask, keep;
  AttentionTensor dq, dk, dv;  // any may be absent
  bool share_tiles = false;
};

// What the regions take: f32, bf16, f16 and head dimensions that fit their tiles. The rest goes through
// attention_expansion.h.
bool attention_region_takes(const ir::Graph& graph, const ir::Node& node);

Status emit_attention(ProgramBuilder& builder, const AttentionForward& attention);
Status emit_attention_backward(ProgramBuilder& builder, const AttentionBackward& attention);

}  // namespace neuron::compiler
