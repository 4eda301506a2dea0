#include "compiler/expression.h"

#include <algorithm>

namespace neuron::compiler {

bool Expression::has_reduced() const {
  return std::any_of(reduced.begin(), reduced.end(), [](uint8_t r) { return r != 0; });
}

int64_t Expression::elements() const {
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  return n;
}

int64_t Expression::outer_elements() const {
  int64_t n = 1;
  for (size_t d = 0; d < extents.size(); ++d)
    if (!reduced[d]) n *= extents[d];
  return n;
}

View Expression::full_view() const { return identity_view(extents); }

View Expression::row_view() const {
  View v{0, std::vector<int64_t>(extents.size(), 0)};
  int64_t step = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    if (reduced[d]) continue;
    v.strides[d] = step;
    step *= std::max<int64_t>(extents[d], 1);
  }
  return v;
}

std::vector<int32_t> Expression::prune(const std::vector<int32_t>& roots) {
  std::vector<int32_t> number(terms.size(), -1);
  for (int32_t r : roots) number[static_cast<size_t>(r)] = 0;
  for (size_t t = terms.size(); t-- > 0;)
    if (number[t] == 0)
      for (int32_t i : terms[t].inputs) number[static_cast<size_t>(i)] = 0;
  size_t kept = 0;
  for (size_t t = 0; t < terms.size(); ++t) {
    if (number[t] < 0) continue;
    number[t] = static_cast<int32_t>(kept);
    if (kept != t) terms[kept] = std::move(terms[t]);
    for (int32_t& i : terms[kept].inputs) i = number[static_cast<size_t>(i)];
    ++kept;
  }
  terms.resize(kept);
  return number;
}

std::vector<uint64_t> Expression::varies() const {
  uint64_t reduced_mask = 0;
  for (size_t d = 0; d < reduced.size(); ++d)
    if (reduced[d]) reduced_mask |= 1ull << d;
  std::vector<uint64_t> mask(terms.size(), 0);
  for (size_t t = 0; t < terms.size(); ++t) {
    for (size_t d = 0; d < terms[t].view.strides.size(); ++d)
      if (terms[t].view.strides[d] != 0) mask[t] |= 1ull << d;
    for (int32_t i : terms[t].inputs) mask[t] |= mask[static_cast<size_t>(i)];
    if (terms[t].kind == TermKind::reduce) mask[t] &= ~reduced_mask;
  }
  return mask;
}

std::vector<int> Expression::phases() const {
  std::vector<int> phase(terms.size(), 0);
  for (size_t t = 0; t < terms.size(); ++t) {
    for (int32_t i : terms[t].inputs) phase[t] = std::max(phase[t], phase[static_cast<size_t>(i)]);
    if (terms[t].kind == TermKind::reduce) ++phase[t];
  }
  return phase;
}

}  // namespace neuron::compiler
