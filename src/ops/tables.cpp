#include "ops/tables.h"

#include <cstring>

#include "ops/indexing.h"

namespace neuron::ops {

template <class To, class From>
static Val table(ir::Builder& b, DType dtype, const std::vector<From>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(To));
  for (size_t i = 0; i < values.size(); ++i) {
    const To v = static_cast<To>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &v, sizeof(To));
  }
  return {b, b.constant({dtype, {static_cast<int64_t>(values.size())}}, std::move(bytes))};
}

Val index_table(ir::Builder& b, const std::vector<int64_t>& values) { return table<int32_t>(b, DType::i32, values); }
Val weight_table(ir::Builder& b, DType dtype, const std::vector<double>& values) {
  return dtype == DType::f64 ? table<double>(b, dtype, values) : table<float>(b, DType::f32, values);
}
Val mask_table(ir::Builder& b, const std::vector<bool>& values) { return table<uint8_t>(b, DType::boolean, values); }

Val along(const Val& vector, int64_t dim, int64_t rank) {
  Shape shape(rank, 1);
  shape[dim] = vector.elements();
  return reshape(vector, shape);
}

Val take_positions(const Val& x, int64_t dim, const std::vector<int64_t>& positions) {
  const Val rows = take_slices(move_dim(x, dim, 0), index_table(x.builder(), positions), 0);
  return move_dim(rows, 0, dim);
}

}  // namespace neuron::ops
