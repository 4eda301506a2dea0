// max_unpool2d and 3d: values go back to the places that max pooling took them from. (The 1-d form reaches 2d; the gradient
// is a gather that PyTorch composes.)
//
// Not supported: an index outside the volume raises the device's IndexError, not CPU's RuntimeError.
#include "ops/pooling.h"

namespace neuron::ops {
namespace {

std::optional<Metas> unpool_result(const Lowering& l, size_t spatial) {
  const TensorMeta &x = l.meta("self"), &indices = l.meta("indices");
  const Shape size = l.ints("output_size");
  if (!is_pooled(x.shape, spatial) || !is_floating(x.dtype) || indices.dtype != DType::i64) return std::nullopt;
  if (indices.shape != x.shape || size.size() != spatial || element_count(size) <= 0) return std::nullopt;
  for (int64_t s : size) {
    if (s <= 0) return std::nullopt;
  }
  if (spatial == 3) {
    const auto stride = l.ints("stride"), padding = l.ints("padding");
    if (stride.size() != 3 || padding.size() != 3) return std::nullopt;
    for (int64_t s : stride) {
      if (s <= 0) return std::nullopt;
    }
  }
  return one(planar_meta(x.dtype, with_spatial(x.shape, size), x, spatial));
}

Val unpool(Lowering& l, size_t spatial) {
  const Val x = l.raw("self");
  return scatter_rows(x, l.raw("indices"), with_spatial(x.shape(), l.ints("output_size")), spatial, ir::Reducer::assign);
}

}  // namespace

void register_unpooling(Registry& registry) {
  for (const size_t spatial : {size_t{2}, size_t{3}}) {
    NEURON_OP(spatial == 2 ? "aten::max_unpool2d" : "aten::max_unpool3d", no_promotion(),
              ResultRule([spatial](const Lowering& l) { return unpool_result(l, spatial); }),
              [spatial](Lowering& l) { return unpool(l, spatial); });
  }
}

}  // namespace neuron::ops
