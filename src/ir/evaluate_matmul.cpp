// dot_general, attention and its backward, random bits.
#include <cmath>
#include <limits>

#include "ir/evaluate.h"

namespace neuron::ir {
namespace {

// Dimensions of `rank` in neither list, ascending.
std::vector<int64_t> free_dims(size_t rank, const std::vector<int64_t>& batch, const std::vector<int64_t>& contract) {
  std::vector<bool> taken(rank);
  for (int64_t d : batch) taken[d] = true;
  for (int64_t d : contract) taken[d] = true;
  std::vector<int64_t> free;
  for (size_t d = 0; d < rank; ++d) {
    if (!taken[d]) free.push_back(static_cast<int64_t>(d));
  }
  return free;
}

template <class T>
void dot_general(NodeCall c) {
  const auto& d = std::get<DotAttrs>(c.node.attrs);
  const std::vector<int64_t>&as = c.type(0).shape, &bs = c.type(1).shape;
  const std::vector<T> a = numbers<T>(*c.in[0]), b = numbers<T>(*c.in[1]);
  const std::vector<int64_t> a_free = free_dims(as.size(), d.lhs_batch, d.lhs_contract);
  const std::vector<int64_t> b_free = free_dims(bs.size(), d.rhs_batch, d.rhs_contract);
  std::vector<int64_t> contracted;
  for (int64_t k : d.lhs_contract) contracted.push_back(as[k]);
  std::vector<int64_t> ai(as.size()), bi(bs.size());
  size_t p = 0;
  for (MultiIndex i(c.out[0].type.shape); i.valid(); i.next(), ++p) {
    size_t at = 0;
    for (size_t k = 0; k < d.lhs_batch.size(); ++k) ai[d.lhs_batch[k]] = bi[d.rhs_batch[k]] = i[at++];
    for (int64_t f : a_free) ai[f] = i[at++];
    for (int64_t f : b_free) bi[f] = i[at++];
    T sum{};
    for (MultiIndex k(contracted); k.valid(); k.next()) {
      for (size_t n = 0; n < contracted.size(); ++n) ai[d.lhs_contract[n]] = bi[d.rhs_contract[n]] = k[n];
      sum += a[position(ai, as)] * b[position(bi, bs)];
    }
    store_at(c.out[0], p, sum);
  }
}

// One attention call's sizes and operands. Head h of batch b is [row, column] with these strides.
struct Heads {
  int64_t count, queries, keys, depth, value_depth;
  Heads(const Type& q, const Type& v)
      : count(q.shape[0] * q.shape[1]), queries(q.shape[2]), keys(v.shape[2]), depth(q.shape[3]), value_depth(v.shape[3]) {}
};

// What is added to the score of (head, query i, key j): the mask, and -inf where bool masks or causality forbid.
class Bias {
 public:
  Bias(NodeCall c, const AttentionAttrs& a, size_t mask_operand, const std::vector<int64_t>& scores)
      : causal_(a.causal), scores_(scores) {
    if (!a.has_mask) return;
    const Literal& m = *c.in[mask_operand];
    shape_ = m.type.shape;
    if (m.type.dtype == DType::boolean) {
      for (int64_t allowed : numbers<int64_t>(m)) mask_.push_back(allowed ? 0.0 : -std::numeric_limits<double>::infinity());
    } else {
      mask_ = numbers<double>(m);
    }
  }
  double at(int64_t head, int64_t i, int64_t j) const {
    if (causal_ && j > i) return -std::numeric_limits<double>::infinity();
    if (mask_.empty()) return 0.0;
    const int64_t index[4] = {head / scores_[1], head % scores_[1], i, j};
    int64_t p = 0;
    for (size_t d = 0; d < shape_.size(); ++d) p = p * shape_[d] + (shape_[d] == 1 ? 0 : index[4 - shape_.size() + d]);
    return mask_[p];
  }

 private:
  bool causal_;
  std::vector<int64_t> scores_, shape_;
  std::vector<double> mask_;
};

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// scores = scale * q k^T + bias; p = softmax(scores) over keys (a row without any key: zeros, logsumexp -inf);
// out = (keep ? p * keep_scale : 0) v; logsumexp = log(sum(exp(scores))).
void attention(NodeCall c) {
  const auto& a = std::get<AttentionAttrs>(c.node.attrs);
  const Heads n(c.type(0), c.type(2));
  const Bias bias(c, a, 3, {c.type(0).shape[0], c.type(0).shape[1], n.queries, n.keys});
  const std::vector<double> q = numbers<double>(*c.in[0]), k = numbers<double>(*c.in[1]), v = numbers<double>(*c.in[2]);
  const std::vector<int64_t> keep = a.has_keep ? numbers<int64_t>(*c.in[3 + a.has_mask]) : std::vector<int64_t>();
  const double lowest = -std::numeric_limits<double>::infinity();
  std::vector<double> row(n.keys), out(n.value_depth);
  for (int64_t h = 0; h < n.count; ++h) {
    for (int64_t i = 0; i < n.queries; ++i) {
      double top = lowest, sum = 0;
      for (int64_t j = 0; j < n.keys; ++j) {
        row[j] =
            a.scale * dot(&q[(h * n.queries + i) * n.depth], &k[(h * n.keys + j) * n.depth], n.depth) + bias.at(h, i, j);
        if (std::isnan(row[j]) || row[j] > top) top = row[j];
      }
      const double shift = top == lowest ? 0.0 : top;
      for (double& s : row) sum += s = std::exp(s - shift);
      std::fill(out.begin(), out.end(), 0.0);
      for (int64_t j = 0; j < n.keys; ++j) {
        double p = sum == 0 ? 0.0 : row[j] / sum;
        if (a.has_keep) p = keep[(h * n.queries + i) * n.keys + j] ? p * a.keep_scale : 0.0;
        for (int64_t e = 0; e < n.value_depth; ++e) out[e] += p * v[(h * n.keys + j) * n.value_depth + e];
      }
      for (int64_t e = 0; e < n.value_depth; ++e) store_at(c.out[0], (h * n.queries + i) * n.value_depth + e, out[e]);
      store_at(c.out[1], h * n.queries + i, sum == 0 ? lowest : std::log(sum) + shift);
    }
  }
}

// p = exp(scores - logsumexp); pd = keep ? p * keep_scale : 0; dv = pd^T g; dp = keep ? (g v^T) * keep_scale : 0;
// ds = p * (dp - rowsum(g * out)); dq = scale * ds k; dk = scale * ds^T q.
void attention_backward(NodeCall c) {
  const auto& a = std::get<AttentionAttrs>(c.node.attrs);
  const Heads n(c.type(1), c.type(3));
  const Bias bias(c, a, 6, {c.type(1).shape[0], c.type(1).shape[1], n.queries, n.keys});
  const std::vector<double> g = numbers<double>(*c.in[0]), q = numbers<double>(*c.in[1]), k = numbers<double>(*c.in[2]),
                            v = numbers<double>(*c.in[3]), out = numbers<double>(*c.in[4]), lse = numbers<double>(*c.in[5]);
  const std::vector<int64_t> keep = a.has_keep ? numbers<int64_t>(*c.in[6 + a.has_mask]) : std::vector<int64_t>();
  std::vector<double> dq(q.size()), dk(k.size()), dv(v.size());
  for (int64_t h = 0; h < n.count; ++h) {
    for (int64_t i = 0; i < n.queries; ++i) {
      const int64_t row = h * n.queries + i;
      if (std::isinf(lse[row]) && lse[row] < 0) continue;  // no key: no gradient
      const double delta = dot(&g[row * n.value_depth], &out[row * n.value_depth], n.value_depth);
      for (int64_t j = 0; j < n.keys; ++j) {
        const int64_t key = h * n.keys + j;
        const double p =
            std::exp(a.scale * dot(&q[row * n.depth], &k[key * n.depth], n.depth) + bias.at(h, i, j) - lse[row]);
        const double kept = !a.has_keep ? 1.0 : keep[row * n.keys + j] ? a.keep_scale : 0.0;
        const double dp = kept == 0 ? 0.0 : kept * dot(&g[row * n.value_depth], &v[key * n.value_depth], n.value_depth);
        const double ds = a.scale * p * (dp - delta);
        for (int64_t e = 0; e < n.value_depth; ++e) dv[key * n.value_depth + e] += kept * p * g[row * n.value_depth + e];
        for (int64_t e = 0; e < n.depth; ++e) {
          dq[row * n.depth + e] += ds * k[key * n.depth + e];
          dk[key * n.depth + e] += ds * q[row * n.depth + e];
        }
      }
    }
  }
  for (size_t i = 0; i < dq.size(); ++i) store_at(c.out[0], i, dq[i]);
  for (size_t i = 0; i < dk.size(); ++i) store_at(c.out[1], i, dk[i]);
  for (size_t i = 0; i < dv.size(); ++i) store_at(c.out[2], i, dv[i]);
}

// Philox4x32-10: counter words (counter low, counter high, 0, 0), key words (seed low, seed high).
std::pair<uint32_t, uint32_t> philox(uint64_t seed, uint64_t counter) {
  uint32_t x[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = uint64_t{0xD2511F53} * x[0], odd = uint64_t{0xCD9E8D57} * x[2];
    const uint32_t next[4] = {static_cast<uint32_t>(odd >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(odd),
                              static_cast<uint32_t>(even >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(even)};
    for (int i = 0; i < 4; ++i) x[i] = next[i];
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return {x[0], x[1]};
}

}  // namespace

Status evaluate_matmul(NodeCall c) {
  with_number(c.type(0).dtype, [&]<class T>(T) { dot_general<T>(c); });
  return {};
}

Status evaluate_attention(NodeCall c) {
  c.node.op == Op::attention ? attention(c) : attention_backward(c);
  return {};
}

Status evaluate_random(NodeCall c) {
  const uint64_t seed = numbers<uint64_t>(*c.in[0])[0], offset = numbers<uint64_t>(*c.in[1])[0];
  const bool wide = c.out[0].type.dtype == DType::u64;
  for (int64_t i = 0; i < c.out[0].type.elements(); ++i) {
    const auto [low, high] = philox(seed, offset + static_cast<uint64_t>(i));
    store_at(c.out[0], i, wide ? low | uint64_t{high} << 32 : uint64_t{low});
  }
  return {};
}

}  // namespace neuron::ir
