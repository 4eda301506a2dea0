"""Which operators of op_db the host still computes, and what is known to differ from the CPU."""

from __future__ import annotations

# Operators that the host computes, in part or whole, by what they need. Everything else in op_db must not touch the CPU; one
# that no longer falls back in a whole sweep has to leave this list.
ON_HOST: dict[str, list[str]] = {
    "to be sorted": [
        "cholesky",
        "cholesky_inverse",
        "cholesky_solve",
        "geqrf",
        "linalg.cholesky",
        "linalg.cholesky_ex",
        "linalg.cond",
        "linalg.det",
        "linalg.eig",
        "linalg.eigh",
        "linalg.eigvals",
        "linalg.eigvalsh",
        "linalg.householder_product",
        "linalg.inv",
        "linalg.inv_ex",
        "linalg.ldl_factor",
        "linalg.ldl_factor_ex",
        "linalg.ldl_solve",
        "linalg.lstsq",
        "linalg.lstsq.grad_oriented",
        "linalg.lu",
        "linalg.lu_factor",
        "linalg.lu_factor_ex",
        "linalg.lu_solve",
        "linalg.matrix_norm",
        "linalg.matrix_power",
        "linalg.matrix_rank",
        "linalg.matrix_rank.hermitian",
        "linalg.norm",
        "linalg.norm.subgradients_at_zero",
        "linalg.pinv",
        "linalg.pinv.hermitian",
        "linalg.pinv.singular",
        "linalg.qr",
        "linalg.slogdet",
        "linalg.solve",
        "linalg.solve_ex",
        "linalg.solve_triangular",
        "linalg.svd",
        "linalg.svdvals",
        "linalg.tensorinv",
        "linalg.tensorsolve",
        "logdet",
        "lu",
        "lu_solve",
        "lu_unpack",
        "matrix_exp",
        "nn.functional.batch_norm.without_cudnn",
        "nn.functional.ctc_loss",
        "norm.nuc",
        "ormqr",
        "pca_lowrank",
        "pinverse",
        "qr",
        "special.laguerre_polynomial_l",
        "special.legendre_polynomial_p",
        "stft",
        "svd",
        "svd_lowrank",
        "to_sparse",
        "torch._scaled_mm",
        "torch._scaled_mm_v2",
        "triangular_solve",
    ],
}

# Own random numbers: dtype, shape and strides are compared, values have their own tests.
RANDOM = frozenset(
    [
        "bernoulli",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "nn.functional.alpha_dropout",
        "nn.functional.dropout",
        "nn.functional.dropout2d",
        "nn.functional.dropout3d",
        "nn.functional.feature_alpha_dropout.with_train",
        "nn.functional.rrelu",
        "normal",
        "normal.in_place",
        "normal.number_mean",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "uniform",
    ]
)

# Results are uninitialised.
UNINITIALISED = frozenset(
    ["empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"]
)

# (operator, form or "*", dtype or "*"): reason. An entry that matches nothing in a whole sweep is itself a failure.
_DIFFERENCE_CANCELS = "log of a difference that cancels: CPU and device are 1e-4 and 8e-4 from float64"
_COMPLEX_HALF = "the result is ComplexHalf, which the device does not hold"
_LARGE_LOGITS = "logits of 7,000: half an ulp of one of them moves a probability by 2e-4"
EXPECTED: dict[tuple[str, str, str], str] = {
    ("argsort", "functional", "*"): "the order of equal values is not specified unless stable=True; ours is stable",
    ("complex", "*", "float16"): _COMPLEX_HALF,
    ("logcumsumexp", "backward", "float32"): _DIFFERENCE_CANCELS,
    ("logcumsumexp", "backward", "complex64"): _DIFFERENCE_CANCELS,
    ("narrow_copy", "out", "*"): "CPU writes a strided out as if it were contiguous",
    ("as_strided_copy", "*", "*"): "as_strided of a base that is not dense runs on the CPU",
    ("as_strided_scatter", "*", "*"): "as_strided of a base that is not dense runs on the CPU",
    (
        "nn.functional.scaled_dot_product_attention",
        "functional",
        "*",
    ): "with dropout CPU takes its unfused path, which has other strides",
    ("nn.functional.multi_head_attention_forward", "functional", "float32"): _LARGE_LOGITS,
    ("nn.functional.multi_head_attention_forward", "backward", "float32"): _LARGE_LOGITS,
    ("nn.functional.embedding", "backward", "float32"): "no sparse gradients",
    ("native_group_norm", "functional", "float64"): "CPU reads a strided weight as if it were contiguous",
    ("nn.functional.scaled_dot_product_attention", "backward", "*"): "gradients have their own strides; values are equal",
    ("nn.functional.nll_loss", "backward", "float32"): "CPU refuses the gradient of a strided input",
    ("take_along_dim", "out", "*"): "CPU refuses a strided out in other words",
    ("special.bessel_j0", "*", "float64"): "CPU's own series is off by up to 1e-6 in float64; the device's is not",
    ("special.bessel_j1", "*", "float64"): "CPU's own series is off by up to 1e-6 in float64; the device's is not",
    ("special.bessel_y1", "*", "float64"): "CPU's own series is off by up to 1e-6 in float64; the device's is not",
    ("nn.functional.embedding_bag", "backward", "float32"): "no sparse gradients",
    ("nn.functional.avg_pool3d", "out", "*"): "CPU writes a strided out as if it were contiguous",
    ("nn.functional.max_pool1d", "functional", "*"): "without gradients CPU has a kernel of its own, with other strides",
    (
        "_native_batch_norm_legit",
        "out",
        "*",
    ): "for an input that is not contiguous CPU normalises with what save_mean and save_invstd held before",
    (
        "native_batch_norm",
        "out",
        "*",
    ): "for an input that is not contiguous CPU normalises with what save_mean and save_invstd held before",
}
