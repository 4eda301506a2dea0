// sort, top_k. NaN is the largest number, as in torch.sort; equal elements keep their order.
#include <algorithm>
#include <cmath>

#include "ir/evaluate.h"

namespace neuron::ir {
namespace {

template <class T>
bool less(T a, T b) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

// The order of the elements x[first + i * step], i < length.
template <class T>
std::vector<int64_t> ordered(const std::vector<T>& x, int64_t first, int64_t step, int64_t length, bool descending) {
  std::vector<int64_t> order(length);
  for (int64_t i = 0; i < length; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const T va = x[first + a * step], vb = x[first + b * step];
    return descending ? less(vb, va) : less(va, vb);
  });
  return order;
}

template <class T>
void order_lines(NodeCall c, int64_t dim, bool descending) {
  const std::vector<int64_t>& shape = c.type(0).shape;
  const std::vector<T> x = numbers<T>(*c.in[0]);
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= shape[d];
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const int64_t length = shape[dim], kept = c.out[0].type.shape[dim];
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t n = 0; n < inner; ++n) {
      const std::vector<int64_t> order = ordered(x, o * length * inner + n, inner, length, descending);
      for (int64_t i = 0; i < kept; ++i) {
        const int64_t to = (o * kept + i) * inner + n;
        copy_element(c.out[0], to, *c.in[0], (o * length + order[i]) * inner + n);
        store_at(c.out[1], to, order[i]);
      }
    }
  }
}

}  // namespace

Status evaluate_order(NodeCall c) {
  const bool sort = c.node.op == Op::sort;
  const int64_t dim = sort ? std::get<SortAttrs>(c.node.attrs).dim : static_cast<int64_t>(c.type(0).shape.size()) - 1;
  const bool descending = sort ? std::get<SortAttrs>(c.node.attrs).descending : std::get<TopKAttrs>(c.node.attrs).largest;
  with_number(c.type(0).dtype, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, Complex>) order_lines<T>(c, dim, descending);
  });
  return {};
}

}  // namespace neuron::ir
