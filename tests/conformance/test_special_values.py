"""NaN, infinities, signed zeros, denormals and the ends of each range through every unary and binary operator of op_db and
through the reductions, which PyTorch's own samples leave out."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import op_db_driver
import pytest
import torch
from op_db_names import ON_HOST, RANDOM
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

HOST = frozenset(name for names in ON_HOST.values() for name in names)
UFUNCS = [
    name
    for name, op in op_db_driver.operators().items()
    if isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo)
    and name not in HOST | RANDOM | {"chalf", "__rmod__"}
    and torch.float32 in op.dtypes
]
# IEEE leaves open which of +0 and -0 is the larger one; CPU's choice differs from kernel to kernel.
# bessel_j1 of the largest numbers is rounding noise around 0.
EITHER_ZERO = {
    "nn.functional.relu",
    "nn.functional.relu6",
    "fmax",
    "fmin",
    "cummax",
    "cummin",
    "unique",
    "special.bessel_j1",
}
# CPU's vector kernel gives NaN where the quotient overflows, its scalar one does not.
QUOTIENT_OVERFLOWS = {"fmod", "remainder"}  # and __rmod__, which is left out
# CPU's recurrences return an uninitialised value for NaN.
RECURRENCES = ("special.chebyshev", "special.shifted_chebyshev")
# Their value depends on the order of the additions when the largest numbers cancel.
ORDER_MATTERS = {"sum", "mean", "nansum", "nanmean", "cumsum"}
REDUCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "sum": lambda x: x.sum(1), "mean": lambda x: x.mean(1), "prod": lambda x: x.prod(1), "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(1), "max": lambda x: x.max(1), "min": lambda x: x.min(1), "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(1), "nansum": lambda x: x.nansum(1), "nanmean": lambda x: x.nanmean(1),
    "any": lambda x: x.any(1), "all": lambda x: x.all(1), "cummax": lambda x: x.cummax(1), "cummin": lambda x: x.cummin(1),
    "cumsum": lambda x: x.cumsum(1), "sort": lambda x: x.sort(1, stable=True), "argsort": lambda x: x.argsort(1, stable=True),
    "logsumexp": lambda x: x.logsumexp(1), "softmax": lambda x: x.softmax(1), "log_softmax": lambda x: x.log_softmax(1),
    "nonzero": lambda x: x.nonzero(), "unique": lambda x: x.flatten()[~x.flatten().isnan()].unique(),
}  # fmt: skip


def special(dtype: torch.dtype) -> torch.Tensor:
    info = torch.finfo(dtype)
    nan, inf = float("nan"), float("inf")
    numbers = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.5, info.max, info.min, info.tiny, info.eps]
    return torch.tensor(numbers, dtype=torch.float64).to(dtype)


def differences(what: str, run: Callable[[torch.device], object], signs: bool = True) -> list[str]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = run(torch.device("cpu"))
        except Exception:  # noqa: BLE001
            return []
        got = run(torch.device("neuron"))
    for g, w in zip(op_db_driver.tensors_of(got), op_db_driver.tensors_of(want), strict=True):
        g = g.cpu()
        difference = f"dtype {g.dtype}" if g.dtype != w.dtype else op_db_driver.values_differ(g, w, None, False)
        if difference is None and signs and w.is_floating_point():
            wrong = (g == 0) & (g.signbit() != w.signbit())
            difference = f"sign of zero at {wrong.flatten().nonzero().flatten().tolist()}" if wrong.any() else None
        if difference:
            found.append(f"{what}: {difference}")
    return found


def ufunc_differences(name: str, dtype: torch.dtype) -> list[str]:
    op = op_db_driver.find_operator(name)
    x = special(dtype)
    sample = next(iter(op.sample_inputs("cpu", dtype)))
    what, signs = f"{name} {dtype}", name not in EITHER_ZERO

    def moved(d: torch.device) -> dict[str, object]:
        return op_db_driver.map_tensors(lambda t: t.to(d), sample.kwargs)

    if isinstance(op, UnaryUfuncInfo):
        return differences(what, lambda d: op(x.to(d), **moved(d)), signs)
    a, b = x[:, None].expand(-1, x.numel()).contiguous(), x[None].expand(x.numel(), -1).contiguous()
    if name in QUOTIENT_OVERFLOWS:
        keep = (a / b).abs() < 1e6
        a, b = a[keep], b[keep]
    if name.startswith(RECURRENCES):
        a, b = a[~a.isnan()], b[~a.isnan()]
    if name == "special.zeta":  # orders whose powers overflow: infinities are subtracted, in another order than on the CPU
        finite = (a.abs() < 1e30) & b.isfinite()
        a, b = a[finite], b[finite]
    return differences(what, lambda d: op(a.to(d), b.to(d), **moved(d)), signs)


@pytest.mark.parametrize("name", UFUNCS)
def test_operators(name: str, run_everything: bool) -> None:
    op = op_db_driver.find_operator(name)
    dtypes = [torch.float32, torch.bfloat16] + ([torch.float64, torch.float16] if run_everything else [])
    assert [d for dtype in dtypes if dtype in op.dtypes for d in ufunc_differences(name, dtype)] == []


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_reductions(name: str, dtype: torch.dtype) -> None:
    x = special(dtype)
    if name in ORDER_MATTERS:
        x = x[x.abs() != torch.finfo(dtype).max]
    rows = torch.stack(
        [x, x.roll(3), x.flip(0), torch.where(x.isnan(), 1, x), torch.where(x.isfinite(), x, 0), x[[0] * len(x)]]
    )
    assert differences(f"{name} {dtype}", lambda d: REDUCTIONS[name](rows.to(d)), name not in EITHER_ZERO) == []
