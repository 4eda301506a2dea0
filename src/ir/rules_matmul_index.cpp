// Rules of dot_general, gather, scatter, random bits, attention and custom programs.
#include "ir/rules.h"

namespace neuron::ir {
namespace {

int64_t rank_of(const Type& t) { return static_cast<int64_t>(t.shape.size()); }
std::string text(int64_t v) { return std::to_string(v); }
bool contains(const std::vector<int64_t>& list, int64_t value) {
  for (int64_t v : list) {
    if (v == value) return true;
  }
  return false;
}
std::vector<int64_t> joined(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// dot_general.3 equal number dtypes; .4 batch and contracting dims distinct, in range, as many left as right; .5 paired
// sizes equal; .6 result dtype of the operands' kind.
Result<Types> infer_dot(const RuleInput& r) {
  const Type& a = *r.in[0];
  const Type& b = *r.in[1];
  const auto& d = std::get<DotAttrs>(r.attrs);
  NEURON_RULE(a.dtype == b.dtype && in_domain(a.dtype, kNumber), 3, "operand dtypes differ or are bool");
  NEURON_RULE(
      distinct_in_range(joined(d.lhs_batch, d.lhs_contract), rank_of(a)) &&
          distinct_in_range(joined(d.rhs_batch, d.rhs_contract), rank_of(b)) && d.lhs_batch.size() == d.rhs_batch.size() &&
          d.lhs_contract.size() == d.rhs_contract.size(),
      4, "dims batch " + list(d.lhs_batch) + list(d.rhs_batch) + " contract " + list(d.lhs_contract) + list(d.rhs_contract));
  Type out{d.result_dtype, {}};
  for (size_t i = 0; i < d.lhs_batch.size(); ++i) {
    NEURON_RULE(a.shape[d.lhs_batch[i]] == b.shape[d.rhs_batch[i]], 5, "batch sizes differ");
    out.shape.push_back(a.shape[d.lhs_batch[i]]);
  }
  for (size_t i = 0; i < d.lhs_contract.size(); ++i) {
    NEURON_RULE(a.shape[d.lhs_contract[i]] == b.shape[d.rhs_contract[i]], 5, "contracted sizes differ");
  }
  NEURON_RULE(domain_of(d.result_dtype) == domain_of(a.dtype), 6,
              "result dtype " + std::string(neuron::name_of(d.result_dtype)));
  for (int64_t i = 0; i < rank_of(a); ++i) {
    if (!contains(d.lhs_batch, i) && !contains(d.lhs_contract, i)) out.shape.push_back(a.shape[i]);
  }
  for (int64_t i = 0; i < rank_of(b); ++i) {
    if (!contains(d.rhs_batch, i) && !contains(d.rhs_contract, i)) out.shape.push_back(b.shape[i]);
  }
  return Types{out};
}

// Sizes of the index tensor without its index_vector_dim.
std::vector<int64_t> batch_sizes(const Type& indices, int64_t index_vector_dim) {
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < rank_of(indices); ++d) {
    if (d != index_vector_dim) sizes.push_back(indices.shape[d]);
  }
  return sizes;
}

struct IndexDims {
  const std::vector<int64_t>&window, &dropped, &batching, &index_batching, &map;
  int64_t index_vector_dim;
};

// Rules that gather (operand, start_indices) and scatter (operand, indices) share: .3 integer indices; .4 index_vector_dim
// in range and the index depth equals the map's length; .5 window dims sorted, distinct; .6 dropped and batching dims
// sorted, distinct, in range, disjoint, and with the window dims cover the operand; .7 batching dims: as many on both sides,
// sizes equal, not the index vector dim; .8 map sorted, distinct, in range, disjoint from batching.
Status check_index_dims(const RuleInput& r, const Type& operand, const Type& indices, const IndexDims& d,
                        int64_t result_rank) {
  NEURON_RULE(is_integer(indices.dtype), 3, "indices are not integers");
  const int64_t ivd = d.index_vector_dim;
  NEURON_RULE(ivd >= 0 && ivd <= rank_of(indices), 4, "index_vector_dim " + text(ivd));
  const int64_t depth = ivd < rank_of(indices) ? indices.shape[ivd] : 1;
  NEURON_RULE(depth == static_cast<int64_t>(d.map.size()), 4, "index depth " + text(depth) + " for map " + list(d.map));
  NEURON_RULE(sorted_distinct_in_range(d.window, result_rank), 5, "window dims " + list(d.window));
  NEURON_RULE(sorted_distinct_in_range(d.dropped, rank_of(operand)) &&
                  sorted_distinct_in_range(d.batching, rank_of(operand)) &&
                  distinct_in_range(joined(d.dropped, d.batching), rank_of(operand)),
              6, "dropped dims " + list(d.dropped) + ", batching dims " + list(d.batching));
  NEURON_RULE(d.window.size() + d.dropped.size() + d.batching.size() == operand.shape.size(), 6,
              "window, dropped and batching dims do not cover the operand");
  NEURON_RULE(d.batching.size() == d.index_batching.size() && distinct_in_range(d.index_batching, rank_of(indices)) &&
                  !contains(d.index_batching, ivd),
              7, "index batching dims " + list(d.index_batching));
  for (size_t i = 0; i < d.batching.size(); ++i) {
    NEURON_RULE(operand.shape[d.batching[i]] == indices.shape[d.index_batching[i]], 7, "batching sizes differ");
  }
  NEURON_RULE(
      sorted_distinct_in_range(d.map, rank_of(operand)) && distinct_in_range(joined(d.map, d.batching), rank_of(operand)), 8,
      "index map " + list(d.map));
  return {};
}

// gather: .3-.8 above; .9 slice sizes: one per dim, 0 <= size <= dim; .10 collapsed and batching dims have slice size <= 1.
Result<Types> infer_gather(const RuleInput& r) {
  const Type& x = *r.in[0];
  const Type& indices = *r.in[1];
  const auto& g = std::get<GatherAttrs>(r.attrs);
  const int64_t index_rank = rank_of(indices) - (g.index_vector_dim < rank_of(indices) ? 1 : 0);
  const int64_t result_rank = index_rank + static_cast<int64_t>(g.offset_dims.size());
  NEURON_RETURN_IF_ERROR(check_index_dims(r, x, indices,
                                          {g.offset_dims, g.collapsed_slice_dims, g.operand_batching_dims,
                                           g.start_indices_batching_dims, g.start_index_map, g.index_vector_dim},
                                          result_rank));
  NEURON_RULE(g.slice_sizes.size() == x.shape.size(), 9, "slice sizes " + list(g.slice_sizes));
  std::vector<int64_t> window;
  for (int64_t d = 0; d < rank_of(x); ++d) {
    NEURON_RULE(g.slice_sizes[d] >= 0 && g.slice_sizes[d] <= x.shape[d], 9, "slice sizes " + list(g.slice_sizes));
    const bool dropped = contains(g.collapsed_slice_dims, d) || contains(g.operand_batching_dims, d);
    NEURON_RULE(!dropped || g.slice_sizes[d] <= 1, 10, "slice size of dropped dim " + text(d));
    if (!dropped) window.push_back(g.slice_sizes[d]);
  }
  const std::vector<int64_t> batch = batch_sizes(indices, g.index_vector_dim);
  Type out{x.dtype, {}};
  for (int64_t d = 0, w = 0, b = 0; d < result_rank; ++d) {
    out.shape.push_back(contains(g.offset_dims, d) ? window[w++] : batch[b++]);
  }
  return Types{out};
}

bool scatter_takes(Reducer reducer, DType dtype) {
  switch (reducer) {
    case Reducer::maximum:
    case Reducer::minimum:
      return !is_complex(dtype);
    case Reducer::and_:
    case Reducer::or_:
    case Reducer::xor_:
      return in_domain(dtype, kBool | kInt);
    default:
      return true;
  }
}

// scatter: .3-.8 above; .9 updates of the operand's dtype; .10 update rank; .11 update window sizes within the operand,
// other sizes those of the indices; .12 the combiner takes the dtype.
Result<Types> infer_scatter(const RuleInput& r) {
  const Type& x = *r.in[0];
  const Type& indices = *r.in[1];
  const Type& updates = *r.in[2];
  const auto& s = std::get<ScatterAttrs>(r.attrs);
  const int64_t index_rank = rank_of(indices) - (s.index_vector_dim < rank_of(indices) ? 1 : 0);
  const int64_t update_rank = index_rank + static_cast<int64_t>(s.update_window_dims.size());
  NEURON_RETURN_IF_ERROR(
      check_index_dims(r, x, indices,
                       {s.update_window_dims, s.inserted_window_dims, s.input_batching_dims, s.scatter_indices_batching_dims,
                        s.scatter_dims_to_operand_dims, s.index_vector_dim},
                       update_rank));
  NEURON_RULE(updates.dtype == x.dtype, 9, "updates are not of the operand's dtype");
  NEURON_RULE(rank_of(updates) == update_rank, 10, "updates must have rank " + text(update_rank));
  std::vector<int64_t> window;
  for (int64_t d = 0; d < rank_of(x); ++d) {
    if (!contains(s.inserted_window_dims, d) && !contains(s.input_batching_dims, d)) window.push_back(x.shape[d]);
  }
  const std::vector<int64_t> batch = batch_sizes(indices, s.index_vector_dim);
  for (int64_t d = 0, w = 0, b = 0; d < update_rank; ++d) {
    const bool in_window = contains(s.update_window_dims, d);
    const bool fits = in_window ? updates.shape[d] <= window[w++] : updates.shape[d] == batch[b++];
    NEURON_RULE(fits, 11, "size of update dim " + text(d));
  }
  NEURON_RULE(scatter_takes(s.combine, x.dtype), 12,
              std::string(name_of(s.combine)) + " of " + std::string(neuron::name_of(x.dtype)));
  return Types{x};
}

// rng_bit_generator.3 seed and offset are u64 0-dim; .4 result u32 or u64, equal to attrs.bits.
Result<Types> infer_rng(const RuleInput& r) {
  const Type word{DType::u64, {}};
  NEURON_RULE(*r.in[0] == word && *r.in[1] == word, 3, "seed and offset must be u64[]");
  const DType bits = std::get<RngAttrs>(r.attrs).bits;
  NEURON_RULE(r.requested && r.requested->dtype == bits && (bits == DType::u32 || bits == DType::u64), 4,
              "result must be u32 or u64");
  return Types{*r.requested};
}

bool broadcasts_to(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  if (from.size() > to.size()) return false;
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != to[lead + i]) return false;
  }
  return true;
}

// attention, attention_backward: .3 q, k, v rank 4, one float dtype; .4 shapes [B,H,Sq,D], [B,H,Sk,D], [B,H,Sk,Dv];
// .5 operand count matches has_mask and has_keep; .6 mask bool or q's dtype (or f32), broadcastable to [B,H,Sq,Sk]; .7 keep
// bool [B,H,Sq,Sk]; .8 (backward) grad and out [B,H,Sq,Dv] of q's dtype, logsumexp [B,H,Sq] f32 (f64 when q is f64).
Result<Types> infer_attention(const RuleInput& r) {
  const auto& a = std::get<AttentionAttrs>(r.attrs);
  const bool backward = r.op == Op::attention_backward;
  const size_t base = backward ? 6 : 3, first = backward ? 1 : 0;
  NEURON_RULE(r.in.size() == base + a.has_mask + a.has_keep, 5, "mask or keep-mask operand missing or unexpected");
  const Type &q = *r.in[first], &k = *r.in[first + 1], &v = *r.in[first + 2];
  NEURON_RULE(rank_of(q) == 4 && rank_of(k) == 4 && rank_of(v) == 4 && is_floating(q.dtype) && q.dtype == k.dtype &&
                  q.dtype == v.dtype,
              3, "query, key and value must be rank 4 of one float dtype");
  const int64_t B = q.shape[0], H = q.shape[1], Sq = q.shape[2], D = q.shape[3], Sk = k.shape[2], Dv = v.shape[3];
  NEURON_RULE(k.shape == (std::vector<int64_t>{B, H, Sk, D}) && v.shape == (std::vector<int64_t>{B, H, Sk, Dv}), 4,
              "shapes of query, key and value do not match");
  const std::vector<int64_t> scores{B, H, Sq, Sk};
  size_t next = base;
  if (a.has_mask) {
    const Type& m = *r.in[next++];
    NEURON_RULE((m.dtype == DType::boolean || m.dtype == q.dtype || m.dtype == DType::f32) && broadcasts_to(m.shape, scores),
                6, "mask " + to_string(m));
  }
  if (a.has_keep) NEURON_RULE((*r.in[next] == Type{DType::boolean, scores}), 7, "keep-mask " + to_string(*r.in[next]));
  const Type out{q.dtype, {B, H, Sq, Dv}};
  const Type lse{q.dtype == DType::f64 ? DType::f64 : DType::f32, {B, H, Sq}};
  if (!backward) return Types{out, lse};
  NEURON_RULE(*r.in[0] == out && *r.in[4] == out && *r.in[5] == lse, 8, "gradient, output or logsumexp");
  return Types{q, k, v};
}

}  // namespace

Result<Types> infer_matmul_index(const RuleInput& r) {
  switch (r.op) {
    case Op::dot_general:
      return infer_dot(r);
    case Op::gather:
      return infer_gather(r);
    case Op::scatter:
      return infer_scatter(r);
    case Op::rng_bit_generator:
      return infer_rng(r);
    case Op::attention:
    case Op::attention_backward:
      return infer_attention(r);
    default:
      return std::get<CustomProgramAttrs>(r.attrs).results;
  }
}

}  // namespace neuron::ir
