"""Special functions over the whole range of their arguments, where op_db stays between -9 and 9."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")

INF, NAN = math.inf, math.nan
# CPU's own error in float64, where it is worth mentioning.
CPU_ERROR = {"bessel_j0": 4e-7, "bessel_j1": 5e-7, "bessel_y0": 2e-7, "bessel_y1": 1e-6, "airy_ai": 4e-6}
BOTH_SIDES = (
    "i0 i0e i1 i1e bessel_j0 bessel_j1 modified_bessel_i0 modified_bessel_i1 spherical_bessel_j0 log_ndtr erfcx entr"
)
RIGHT = "bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1"
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 5.0, -5.0, 8.0, -8.0, 90.0, -90.0, INF, -INF, NAN]


def arguments(name: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    size = 10 ** (torch.rand(2000, generator=generator, dtype=torch.float64) * 5 - 3)  # 0.001 .. 100
    if name == "ndtri":
        return torch.cat([10 ** (-4 * size), 1 - 10 ** (-8 * size)]).clamp(1e-30, 1 - 1e-7)
    if name == "airy_ai":
        return torch.cat([size, -size]) / 4
    return size if name in RIGHT.split() else torch.cat([size, -size])


def assert_agrees(f: Callable[..., torch.Tensor], *x: torch.Tensor, cpu_error: float = 0) -> None:
    """As near to CPU in float64 as CPU is."""
    want, got = f(*x), f(*(t.to("neuron") for t in x)).cpu()
    exact = f(*(t.double() for t in x))
    assert got.dtype == want.dtype and torch.equal(want.isnan(), got.isnan())
    assert torch.equal(want[~want.isfinite()].nan_to_num(), got[~want.isfinite()].nan_to_num())
    finite = want.isfinite()
    own, ours = ((y.double() - exact)[finite].abs() for y in (want, got))
    epsilon = torch.finfo(want.dtype).eps
    # exp(x * x) of CPU is off by the rounding of the square: up to 350 epsilon.
    allowed = 4 * own + (64 if own.any() else 512) * epsilon * exact[finite].abs() + 16 * epsilon + 2 * cpu_error
    assert (ours <= allowed).all(), f"{x[0][finite][(ours - allowed).argmax()]}: {(ours / allowed).max()} of what is allowed"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*BOTH_SIDES.split(), *RIGHT.split(), "airy_ai", "ndtri"])
def test_functions_of_one_argument(name: str, dtype: torch.dtype) -> None:
    f = getattr(torch.special, name)
    assert_agrees(f, arguments(name).to(dtype), cpu_error=CPU_ERROR.get(name, 0))
    assert_agrees(f, torch.tensor(EDGES, dtype=dtype), cpu_error=CPU_ERROR.get(name, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zeta(dtype: torch.dtype) -> None:
    s = torch.tensor([-1, 0.5, 1, 1.5, 2, 3, 7, 20, 100, NAN], dtype=dtype)[:, None]
    q = torch.tensor([0, -1, -2, -0.5, -1.25, -30.5, 0.01, 0.5, 1, 3, 50, 1e4, -INF, NAN], dtype=dtype)
    assert_agrees(torch.special.zeta, s, q)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("f", [torch.igamma, torch.igammac])
def test_incomplete_gamma_functions(f: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    a = 10 ** (torch.rand(2000, generator=generator, dtype=torch.float64) * 7 - 3)  # 0.001 .. 10,000
    spread = torch.randn(2000, generator=generator, dtype=torch.float64)
    for x in (a + spread * a.sqrt(), a * spread.abs()):
        assert_agrees(f, a.to(dtype), x.abs().to(dtype), cpu_error=5e-10)
    edges = torch.tensor([0, -0.0, -1, 1e-30, 0.5, 1, 20, 1e4, INF, -INF, NAN], dtype=dtype)
    assert_agrees(f, edges[:, None], edges, cpu_error=5e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shifted", ["", "shifted_"])
@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_polynomials_of_any_degree(kind: str, shifted: str, dtype: torch.dtype) -> None:
    f = getattr(torch.special, f"{shifted}chebyshev_polynomial_{kind}")
    x = torch.tensor([0, 1, -1, 0.5, 0.3, -0.7, 0.99, 1.001, -1.001, 1.5, -2, 9, 1e3, INF], dtype=dtype)[:, None]
    n = torch.tensor([-2, -0.5, 0, 0.5, 1, 2, 3, 6, 7, 8, 9, 16, 17, 18, 40, 100, 999, 1e6], dtype=dtype)
    scale = 200 * torch.finfo(dtype).eps  # of an angle times the degree
    want, got = f(x, n), f(x.to("neuron"), n.to("neuron")).cpu()
    assert torch.equal(want.isnan(), got.isnan()) and torch.equal(want.isinf(), got.isinf())
    allowed = n.clamp(min=1) * scale
    near = (got - want).abs() <= allowed * want.abs().clamp(min=1)
    assert (near | ~want.isfinite()).all(), (got, want)


@pytest.mark.parametrize("name", ["hermite_polynomial_h", "hermite_polynomial_he"])
def test_hermite_polynomials_until_they_overflow(name: str) -> None:
    f = getattr(torch.special, name)
    x = torch.tensor([0, 0.5, -1.5, 4, -20, 1e3, INF, NAN], dtype=torch.float64)[:, None]
    n = torch.tensor([-1, 0, 1, 2, 7, 30, 31, 100, 199, 260, 300, 320, 511, 512, 2000], dtype=torch.float64)
    assert_agrees(f, x, n)


@pytest.mark.parametrize("name", ["laguerre_polynomial_l", "legendre_polynomial_p"])
def test_polynomials_of_one_degree(name: str) -> None:
    x = torch.tensor([[0, 1, -1, 0.5, -1.5], [4, -20, 1e3, 0.999, 1e-3]], dtype=torch.float64)
    for n in (-1, -0.5, 0, 1, 2.9, 7, 30, 100):
        assert_agrees(lambda x, n=n: getattr(torch.special, name)(x, n), x)
        assert_agrees(lambda x, n=n: getattr(torch.special, name)(x, n), x.t().long())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_frexp_of_every_kind_of_number(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    numbers = [0.0, -0.0, 1, -3, 0.75, info.max, info.tiny, info.tiny / 4, -info.smallest_normal / 2, INF, -INF, NAN]
    x = torch.tensor(numbers, dtype=dtype)
    for want, got in zip(torch.frexp(x), torch.frexp(x.to("neuron")), strict=True):
        assert want.dtype == got.dtype
        torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0, equal_nan=True)
