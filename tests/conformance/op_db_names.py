"""Which operators of op_db the host still computes, and what is known to differ from the CPU."""

from __future__ import annotations

# Operators that the host computes, in part or whole, by what they need. Everything else in op_db must not touch the CPU; one
# that no longer falls back in a whole sweep has to leave this list.
ON_HOST: dict[str, list[str]] = {
    "dense factorisations: a routine is to come": [
        "cholesky",
        "geqrf",
        "linalg.cholesky",
        "linalg.cholesky_ex",
        "linalg.det",
        "linalg.householder_product",
        "linalg.inv",
        "linalg.inv_ex",
        "linalg.ldl_factor",
        "linalg.ldl_factor_ex",
        "linalg.ldl_solve",
        "linalg.lu",
        "linalg.lu_factor",
        "linalg.lu_factor_ex",
        "linalg.lu_solve",
        "linalg.matrix_power",
        "linalg.qr",
        "linalg.slogdet",
        "linalg.solve",
        "linalg.solve_ex",
        "linalg.tensorinv",
        "linalg.tensorsolve",
        "logdet",
        "lu",
        "lu_solve",
        "lu_unpack",
        "ormqr",
        "qr",
    ],
    "eigenvalues and singular values": [
        "linalg.cond",
        "linalg.eig",
        "linalg.eigh",
        "linalg.eigvals",
        "linalg.eigvalsh",
        "linalg.lstsq",
        "linalg.lstsq.grad_oriented",
        "linalg.matrix_norm",
        "linalg.matrix_rank",
        "linalg.matrix_rank.hermitian",
        "linalg.norm",
        "linalg.norm.subgradients_at_zero",
        "linalg.pinv",
        "linalg.pinv.hermitian",
        "linalg.pinv.singular",
        "linalg.svd",
        "linalg.svdvals",
        "norm.nuc",
        "pca_lowrank",
        "pinverse",
        "svd",
        "svd_lowrank",
    ],
    "a matrix exponential": [
        "matrix_exp",
    ],
    "a recursion over time whose length is a value": [
        "nn.functional.ctc_loss",
    ],
    "a recurrence whose length is a value": [
        "special.laguerre_polynomial_l",
        "special.legendre_polynomial_p",
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
_ROUNDED_HALVES = "chains of rounded halves: one more rounding moves the loss by a percent"
_COMPLEX_HALF = "the result is ComplexHalf, which the device does not hold"
EXPECTED: dict[tuple[str, str, str], str] = {
    (
        "_batch_norm_with_update",
        "functional",
        "float16",
    ): "half running statistics: the last bit depends on the layout that CPU reads",
    (
        "_native_batch_norm_legit",
        "functional",
        "float16",
    ): "half running statistics: the last bit depends on the layout that CPU reads",
    (
        "_native_batch_norm_legit",
        "out",
        "*",
    ): "for an input that is not contiguous CPU normalises with what save_mean and save_invstd held before",
    ("argsort", "functional", "*"): "the order of equal values is not specified unless stable=True; ours is stable",
    ("as_strided_copy", "*", "*"): "as_strided of a base that is not dense runs on the CPU",
    ("as_strided_scatter", "*", "*"): "as_strided of a base that is not dense runs on the CPU",
    ("chalf", "*", "*"): _COMPLEX_HALF,
    ("complex", "*", "float16"): _COMPLEX_HALF,
    ("linalg.lstsq", "functional", "*"): "a slice of a larger result on the CPU, dense here",
    ("linalg.lstsq.grad_oriented", "functional", "*"): "a slice of a larger result on the CPU, dense here",
    ("linalg.lu_solve", "*", "*"): "CPU returns a lazy conjugate",
    ("logcumsumexp", "backward", "complex64"): _DIFFERENCE_CANCELS,
    ("logcumsumexp", "backward", "float32"): _DIFFERENCE_CANCELS,
    (
        "linalg.solve_triangular",
        "backward",
        "complex64",
    ): "the gradient of a conjugated system has its transposed strides on CPU",
    ("lu_unpack", "out", "*"): "CPU writes a channels_last out as if it were contiguous",
    ("narrow_copy", "out", "*"): "CPU writes a strided out as if it were contiguous",
    (
        "native_batch_norm",
        "functional",
        "float16",
    ): "half running statistics: the last bit depends on the layout that CPU reads",
    (
        "native_batch_norm",
        "out",
        "*",
    ): "for an input that is not contiguous CPU normalises with what save_mean and save_invstd held before",
    ("native_group_norm", "functional", "float64"): "CPU reads a strided weight as if it were contiguous",
    ("nn.functional.avg_pool3d", "out", "*"): "CPU writes a strided out as if it were contiguous",
    ("nn.functional.linear_cross_entropy.chunked_none", "functional", "*"): _ROUNDED_HALVES,
    ("nn.functional.conv_transpose3d", "*", "*"): "whether the result is channels_last depends on which kernel CPU picks",
    ("nn.functional.embedding", "backward", "float32"): "no sparse gradients",
    ("nn.functional.embedding_bag", "backward", "float32"): "no sparse gradients",
    ("nn.functional.linear", "out", "*"): "CPU gives a strided out new strides",
    (
        "nn.functional.linear_cross_entropy.chunked",
        "functional",
        "*",
    ): _ROUNDED_HALVES,
    ("nn.functional.max_pool3d", "backward", "*"): "channels_last of a gradient whose planes are single elements",
    ("nn.functional.max_pool3d", "functional", "*"): "CPU refuses 4-d inputs in channels_last",
    ("nn.functional.nll_loss", "backward", "float32"): "CPU refuses the gradient of a strided input",
    ("nn.functional.scaled_dot_product_attention", "backward", "*"): "gradients have their own strides; values are equal",
    (
        "nn.functional.scaled_dot_product_attention",
        "functional",
        "*",
    ): "with dropout CPU takes its unfused path, which has other strides",
    ("pca_lowrank", "*", "*"): "random projections",
    ("special.bessel_j0", "*", "float64"): "CPU's own series is off by up to 1e-6 in float64; the device's is not",
    ("special.bessel_j1", "*", "float64"): "CPU's own series is off by up to 1e-6 in float64; the device's is not",
    ("special.bessel_y1", "*", "float64"): "CPU's own series is off by up to 1e-6 in float64; the device's is not",
    ("svd_lowrank", "*", "*"): "random projections",
    ("to_sparse", "*", "*"): "the device holds dense tensors only",
}
