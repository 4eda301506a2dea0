"""Which operators of op_db the device claims, and what is known to differ from the CPU."""

from __future__ import annotations

# Operators that run on the device whole: as one lowering, or composed of operators that have one.
OPERATORS = """
H T __getitem__ __radd__ __rand__ __rdiv__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__ _chunk_cat
_softmax_backward_data _unsafe_masked_index _unsafe_masked_index_put_accumulate abs acos acosh add addbmm addcdiv
addcmul addmm addmv addr alias_copy all allclose amax amin aminmax angle any arange argmax argmin argsort argwhere
as_strided as_strided_copy as_strided_scatter asin asinh atan atan2 atanh atleast_1d atleast_2d atleast_3d baddbmm
bernoulli bfloat16 bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor block_diag
bmm bool broadcast_shapes broadcast_tensors broadcast_to byte cartesian_prod cat cauchy cdouble ceil cfloat char chunk
clamp clamp_max clamp_min clone column_stack combinations complex conj conj_physical constant_pad_nd contiguous
copysign corrcoef cos cosh count_nonzero cov cummax cummin cumprod cumsum cumulative_trapezoid deg2rad diag diag_embed
diagflat diagonal diagonal_copy diagonal_scatter diff digamma dist div.floor_rounding div.no_rounding_mode
div.trunc_rounding dot double dsplit dstack einsum empty empty_like empty_permuted empty_strided eq equal erf erfc
erfinv exp exp2 expand expand_as expand_copy expm1 exponential eye fft.fftshift fft.ifftshift fill flatten flip fliplr
flipud float float_power floor floor_divide fmax fmin fmod frac full full_like gather gcd ge geometric gradient gt
half heaviside hsplit hstack hypot imag index_add index_copy index_fill index_put index_select inner int isclose
isfinite isinf isnan isneginf isposinf isreal kron lcm ldexp le lerp lgamma linalg.diagonal 
 linalg.multi_dot   linalg.vander linalg.vecdot
linalg.vector_norm linspace linspace.tensor_overload log log10 log1p log2 log_normal log_softmax
log_softmax.with_dtype logaddexp logaddexp2 logcumsumexp logical_and logical_not logical_or logical_xor logit logspace
logspace.tensor_overload logsumexp long lt mH mT masked.amax masked.amin masked.argmax masked.argmin masked.cumprod
masked.cumsum masked.log_softmax masked.logaddexp masked.logsumexp masked.mean masked.norm masked.normalize
masked.prod masked.softmax masked.softmin masked.std masked.sum masked.var masked_fill masked_scatter masked_select
matmul max.binary max.reduction_no_dim max.reduction_with_dim maximum mean meshgrid.list_of_tensors
meshgrid.variadic_tensors min.binary min.reduction_no_dim min.reduction_with_dim minimum mm movedim msort mul
multinomial mv mvlgamma.mvlgamma_p_1 mvlgamma.mvlgamma_p_3 mvlgamma.mvlgamma_p_5 nan_to_num nanmean nanquantile nansum
narrow narrow_copy native_dropout_backward native_group_norm native_layer_norm ne neg new_empty new_empty_strided
new_full new_ones new_zeros nextafter nn.functional.alpha_dropout nn.functional.bilinear
nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.celu
nn.functional.cosine_embedding_loss nn.functional.cosine_similarity nn.functional.cross_entropy nn.functional.dropout
nn.functional.dropout2d nn.functional.dropout3d nn.functional.elu nn.functional.embedding
nn.functional.feature_alpha_dropout.with_train nn.functional.feature_alpha_dropout.without_train
nn.functional.gaussian_nll_loss nn.functional.gelu nn.functional.glu nn.functional.group_norm nn.functional.hardshrink
nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh nn.functional.hinge_embedding_loss
nn.functional.huber_loss nn.functional.kl_div nn.functional.l1_loss nn.functional.layer_norm nn.functional.leaky_relu
nn.functional.linear nn.functional.logsigmoid nn.functional.margin_ranking_loss nn.functional.mish
nn.functional.mse_loss nn.functional.multi_head_attention_forward nn.functional.multilabel_soft_margin_loss
nn.functional.nll_loss nn.functional.normalize nn.functional.one_hot nn.functional.pad.circular
nn.functional.pad.constant nn.functional.pairwise_distance nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
nn.functional.poisson_nll_loss nn.functional.prelu nn.functional.relu nn.functional.relu6 nn.functional.rms_norm
nn.functional.scaled_dot_product_attention nn.functional.selu nn.functional.silu nn.functional.silu.complex
nn.functional.smooth_l1_loss nn.functional.soft_margin_loss nn.functional.softmin nn.functional.softmin.with_dtype
nn.functional.softplus nn.functional.softshrink nn.functional.softsign nn.functional.tanhshrink
nn.functional.threshold nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss nonzero norm
norm.fro norm.inf normal normal.in_place normal.number_mean ones ones_like outer permute permute_copy polar positive
pow prod put quantile rad2deg rand_like randint randint_like randn randn_like ravel real reciprocal remainder repeat
repeat_interleave reshape reshape_as resize_ resize_as_ resolve_conj resolve_neg roll rot90 round round.decimals_0
round.decimals_3 round.decimals_neg_3 rsqrt rsub scalar_tensor scatter scatter_add scatter_reduce.amax
scatter_reduce.amin scatter_reduce.mean scatter_reduce.prod scatter_reduce.sum select select_scatter sgn short sigmoid
sign signal.windows.bartlett signal.windows.blackman signal.windows.cosine signal.windows.exponential
signal.windows.gaussian signal.windows.general_cosine signal.windows.general_hamming signal.windows.hamming
signal.windows.hann  signal.windows.nuttall signbit sin sinc sinh slice slice_scatter softmax
softmax.with_dtype sort special.ndtr special.xlog1py split split.list_args split_with_sizes split_with_sizes_copy sqrt
square squeeze squeeze.multiple squeeze_copy stack std std.unbiased std_mean std_mean.unbiased sub sum sum_to_size t
t_copy take take_along_dim tan tanh tensordot tile topk torch.ops.aten._safe_softmax.default trace transpose
transpose_copy trapezoid trapz tril tril_indices triu triu_indices true_divide trunc unbind unbind_copy unflatten
unfold unfold_copy uniform unravel_index unsafe_chunk unsafe_split unsqueeze unsqueeze_copy var var.unbiased var_mean
var_mean.unbiased vdot view view_as view_as_complex view_as_real view_copy vsplit vstack where xlogy zero_ zeros
zeros_like
""".split()

# Own random numbers: dtype, shape and strides are compared, values have their own tests.
RANDOM = frozenset(
    """
    bernoulli cauchy exponential geometric log_normal multinomial nn.functional.alpha_dropout nn.functional.dropout
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout.with_train normal
    normal.in_place normal.number_mean rand_like randint randint_like randn randn_like uniform
    """.split()
)

# Results are uninitialised.
UNINITIALISED = frozenset("empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_".split())

# (operator, form or "*", dtype or "*"): reason. An entry that matches nothing in a whole sweep is itself a failure.
_COMPLEX_LOGARITHMS = "log-sum-exp of complex numbers has no lowering"
_COMPLEX_HALF = "the result is ComplexHalf, which the device does not hold"
_OWN_STRIDES = "CPU's result has other strides than the metadata PyTorch publishes"
EXPECTED: dict[tuple[str, str, str], str] = {
    ("complex", "*", "float16"): _COMPLEX_HALF,
    ("logaddexp", "*", "complex64"): _COMPLEX_LOGARITHMS,
    ("logcumsumexp", "*", "complex64"): _COMPLEX_LOGARITHMS,
    ("logsumexp", "*", "complex64"): _COMPLEX_LOGARITHMS,
    ("masked.logsumexp", "*", "complex64"): _COMPLEX_LOGARITHMS,
    ("as_strided_copy", "*", "*"): "as_strided of a base that is not dense runs on the CPU",
    ("as_strided_scatter", "*", "*"): "as_strided of a base that is not dense runs on the CPU",
    ("bernoulli", "functional", "*"): _OWN_STRIDES,
    ("normal", "functional", "*"): _OWN_STRIDES,
    ("normal.number_mean", "functional", "*"): _OWN_STRIDES,
    ("__getitem__", "functional", "*"): _OWN_STRIDES,
    ("nn.functional.scaled_dot_product_attention", "functional", "*"): "with dropout CPU takes its unfused path, which has other strides",
    ("digamma", "backward", "*"): "polygamma has no lowering",
    ("index_fill", "backward", "*"): "_unique has no lowering",
    ("mvlgamma.mvlgamma_p_1", "*", "*"): "mvlgamma.out has no lowering",
    ("mvlgamma.mvlgamma_p_3", "*", "*"): "mvlgamma.out has no lowering",
    ("mvlgamma.mvlgamma_p_5", "*", "*"): "mvlgamma.out has no lowering",
    ("narrow_copy", "out", "*"): "narrow_copy.out has no lowering",
    ("native_dropout_backward", "functional", "int64"): "integer gradients keep their dtype",
    ("native_dropout_backward", "functional", "int32"): "integer gradients keep their dtype",
    ("native_dropout_backward", "functional", "uint8"): "integer gradients keep their dtype",
    ("native_dropout_backward", "functional", "bool"): "integer gradients keep their dtype",
    ("nn.functional.embedding", "functional", "*"): "sparse gradients and max_norm run on the CPU",
    ("nn.functional.group_norm", "backward", "*"): "native_group_norm_backward has no lowering",
    ("nn.functional.prelu", "backward", "*"): "_prelu_kernel_backward has no lowering",
    ("repeat_interleave", "*", "*"): "repeat_interleave.Tensor has no lowering",
    ("take_along_dim", "out", "*"): "CPU refuses a strided out in other words",
    ("tril_indices", "*", "*"): "no lowering",
    ("triu_indices", "*", "*"): "no lowering",
    ("uniform", "*", "complex64"): "no lowering for complex numbers",
}
