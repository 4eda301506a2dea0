#include "ops/families.h"

namespace neuron::ops {

// Written here, not in a header: one line per family, in the order of registration (later ones may alias earlier ones).
void register_unary(Registry&);
void register_binary(Registry&);
void register_comparison(Registry&);
void register_ternary(Registry&);
void register_activation(Registry&);
void register_special(Registry&);
void register_gamma(Registry&);
void register_bessel(Registry&);
void register_normal_distribution(Registry&);
void register_orthogonal_polynomials(Registry&);
void register_complex(Registry&);
void register_reduction(Registry&);
void register_statistics(Registry&);
void register_order_statistics(Registry&);
void register_cumulative(Registry&);
void register_matmul(Registry&);
void register_fft(Registry&);
void register_convolution(Registry&);
void register_unfold(Registry&);
void register_triangular(Registry&);
void register_indexing(Registry&);
void register_advanced_indexing(Registry&);
void register_shape(Registry&);
void register_views(Registry&);
void register_view_backward(Registry&);
void register_factory(Registry&);
void register_prims(Registry&);
void register_normalization(Registry&);
void register_weight_norm(Registry&);
void register_batch_norm(Registry&);
void register_attention(Registry&);
void register_loss(Registry&);
void register_embedding(Registry&);
void register_search(Registry&);
void register_histogram(Registry&);
void register_segment_reduce(Registry&);
void register_embedding_bag(Registry&);
void register_padding(Registry&);
void register_pooling(Registry&);
void register_fractional_pooling(Registry&);
void register_unpooling(Registry&);
void register_upsample(Registry&);
void register_grid_sample(Registry&);
void register_vectors(Registry&);
void register_margin_loss(Registry&);
void register_distance(Registry&);
void register_random(Registry&);
void register_optimizer(Registry&);
void register_foreach(Registry&);  // after the single operators: takes over their scalar requirements

// clang-format off: one line per family
static constexpr Family kFamilies[] = {
    register_unary,
    register_binary,
    register_comparison,
    register_ternary,
    register_activation,
    register_special,
    register_gamma,
    register_bessel,
    register_normal_distribution,
    register_orthogonal_polynomials,
    register_complex,
    register_reduction,
    register_statistics,
    register_order_statistics,
    register_cumulative,
    register_matmul,
    register_fft,
    register_convolution,
    register_unfold,
    register_triangular,
    register_indexing,
    register_advanced_indexing,
    register_shape,
    register_views,
    register_view_backward,
    register_factory,
    register_prims,
    register_normalization,
    register_weight_norm,
    register_batch_norm,
    register_attention,
    register_loss,
    register_embedding,
    register_search,
    register_histogram,
    register_segment_reduce,
    register_embedding_bag,
    register_padding,
    register_pooling,
    register_fractional_pooling,
    register_unpooling,
    register_upsample,
    register_grid_sample,
    register_vectors,
    register_margin_loss,
    register_distance,
    register_random,
    register_optimizer,
    register_foreach,
};
// clang-format on

std::span<const Family> families() { return kFamilies; }

}  // namespace neuron::ops
