"""Wrong shapes, dtypes and devices: PyTorch's own error types and words, as on the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F


def f32(d: str, *shape: int) -> torch.Tensor:
    return torch.ones(*shape, device=d)


def i64(d: str, *values: int) -> torch.Tensor:
    return torch.tensor(values).to(d)


CALLS: dict[str, Callable[[str], object]] = {
    "add of shapes that do not broadcast": lambda d: f32(d, 2, 3) + f32(d, 4),
    "in-place add that would grow": lambda d: f32(d, 3).add_(f32(d, 2, 3)),
    "in-place result that does not fit the dtype": lambda d: i64(d, 1, 2).add_(f32(d, 2)),
    "in-place division of integers": lambda d: i64(d, 1, 2).div_(2),
    "matmul of wrong inner sizes": lambda d: f32(d, 2, 3) @ f32(d, 2, 3),
    "mm of a vector": lambda d: torch.mm(f32(d, 3), f32(d, 3, 2)),
    "mm of mixed dtypes": lambda d: torch.mm(f32(d, 2, 2), f32(d, 2, 2).double()),
    "bmm of wrong batch": lambda d: torch.bmm(f32(d, 2, 3, 4), f32(d, 3, 4, 5)),
    "addmm of a bias that does not broadcast": lambda d: torch.addmm(f32(d, 7), f32(d, 2, 3), f32(d, 3, 4)),
    "linear of wrong features": lambda d: F.linear(f32(d, 2, 3), f32(d, 5, 4)),
    "baddbmm of wrong shape": lambda d: torch.baddbmm(f32(d, 2, 9, 9), f32(d, 2, 3, 4), f32(d, 2, 4, 5)),
    "cat of different sizes": lambda d: torch.cat([f32(d, 2, 3), f32(d, 2, 4)]),
    "cat of nothing": lambda d: torch.cat([]),
    "stack of different sizes": lambda d: torch.stack([f32(d, 2), f32(d, 3)]),
    "sum over a missing dimension": lambda d: f32(d, 2).sum(3),
    "sum over a dimension twice": lambda d: f32(d, 2, 3).sum((0, 0)),
    "mean of integers": lambda d: i64(d, 1, 2).mean(),
    "max of nothing": lambda d: f32(d, 0).max(),
    "argmax of nothing": lambda d: f32(d, 0).argmax(),
    "amax over an empty dimension": lambda d: f32(d, 2, 0).amax(1),
    "softmax over a missing dimension": lambda d: f32(d, 2).softmax(5),
    "softmax of integers": lambda d: i64(d, 1, 2).softmax(0),
    "layer_norm of another shape": lambda d: F.layer_norm(f32(d, 2, 3), (4,)),
    "bitwise and of floats": lambda d: f32(d, 2) & f32(d, 2),
    "shift of floats": lambda d: f32(d, 2) << 1,
    "subtraction of bools": lambda d: f32(d, 2).bool() - f32(d, 2).bool(),
    "negation of bools": lambda d: -f32(d, 2).bool(),
    "comparison order of complex": lambda d: f32(d, 2).to(torch.complex64) > f32(d, 2).to(torch.complex64),
    "clamp without limits": lambda d: f32(d, 2).clamp(),
    "where of shapes that do not broadcast": lambda d: torch.where(f32(d, 2).bool(), f32(d, 3), f32(d, 3)),
    "where with a condition of floats": lambda d: torch.where(f32(d, 2), f32(d, 2), f32(d, 2)),
    "masked_fill with a mask of floats": lambda d: f32(d, 2).masked_fill(f32(d, 2), 0.0),
    "embedding with float indices": lambda d: F.embedding(f32(d, 2), f32(d, 4, 3)),
    "gather with wrong rank": lambda d: f32(d, 2, 3).gather(1, i64(d, 0, 1)),
    "gather with float indices": lambda d: f32(d, 3).gather(0, f32(d, 2)),
    "index_select with a matrix of indices": lambda d: f32(d, 3).index_select(0, i64(d, 0, 1).view(1, 2)),
    "index_add of wrong size": lambda d: f32(d, 3, 2).index_add(0, i64(d, 0, 1), f32(d, 3, 2)),
    "scatter of another dtype": lambda d: f32(d, 3).scatter(0, i64(d, 0), f32(d, 1).double()),
    "indexing with too many indices": lambda d: f32(d, 3)[i64(d, 0), i64(d, 0)],
    "cross entropy of wrong batch": lambda d: F.cross_entropy(f32(d, 3, 4), i64(d, 0, 1)),
    "cross entropy with float classes of another shape": lambda d: F.cross_entropy(f32(d, 3, 4), f32(d, 3, 5)),
    "nll_loss of a vector and two targets": lambda d: F.nll_loss(f32(d, 4), i64(d, 0, 1)),
    "mse_loss backward through integers": lambda d: i64(d, 1).requires_grad_(),
    "attention of wrong head size": lambda d: F.scaled_dot_product_attention(
        f32(d, 1, 2, 3, 4), f32(d, 1, 2, 3, 5), f32(d, 1, 2, 3, 5)
    ),
    "topk of too many": lambda d: f32(d, 3).topk(4),
    "cumsum over a missing dimension": lambda d: f32(d, 3).cumsum(2),
    "view of wrong size": lambda d: f32(d, 6).view(4),
    "view across strides": lambda d: f32(d, 2, 3).t().view(6),
    "reshape of wrong size": lambda d: f32(d, 6).reshape(4, -1),
    "expand of a real dimension": lambda d: f32(d, 3).expand(4),
    "narrow past the end": lambda d: f32(d, 3).narrow(0, 2, 2),
    "select past the end": lambda d: f32(d, 3).select(0, 5),
    "split sizes that do not add up": lambda d: f32(d, 5).split([2, 2]),
    "permute of wrong rank": lambda d: f32(d, 2, 3).permute(0),
    "transpose of a missing dimension": lambda d: f32(d, 2, 3).transpose(0, 4),
    "roll without dimensions": lambda d: f32(d, 2, 3).roll((1, 2), (0,)),
    "roll of one dimension by two shifts": lambda d: f32(d, 2, 3).roll((1, 2), ()),
    "repeats of floats": lambda d: torch.repeat_interleave(f32(d, 2)),
    "repeats of a matrix": lambda d: torch.repeat_interleave(i64(d, 1, 2).reshape(1, 2)),
    "negative repeats": lambda d: torch.repeat_interleave(i64(d, 1, -2)),
    "triangle of negative height": lambda d: torch.tril_indices(-1, 2, device=d),
    "triangle of floats": lambda d: torch.triu_indices(1, 2, device=d, dtype=torch.float32),
    "polygamma of negative order": lambda d: f32(d, 2).polygamma(-1),
    "mvlgamma of order zero": lambda d: f32(d, 2).mvlgamma(0),
    "mvlgamma of truth values": lambda d: f32(d, 2).bool().mvlgamma(1),
    "renormalisation of a vector": lambda d: torch.embedding_renorm_(f32(d, 2), i64(d, 0), 1.0, 2.0),
    "unique complex numbers": lambda d: torch.unique(f32(d, 2).to(torch.complex64)),
    "pad too far negative": lambda d: F.pad(f32(d, 3), (-2, -2)),
    "tril of a vector": lambda d: f32(d, 3).tril(),
    "bernoulli of no probability": lambda d: torch.full((2,), 1.5, device=d).bernoulli_(2.0),
    "normal with negative deviation": lambda d: f32(d, 2).normal_(0, -1),
    "uniform with an empty range": lambda d: f32(d, 2).uniform_(1, 0),
    "randint with an empty range": lambda d: torch.randint(5, 5, (2,), device=d),
    "multinomial without replacement of too many": lambda d: torch.multinomial(f32(d, 3), 4),
    "dropout with no probability": lambda d: F.dropout(f32(d, 2), 1.5),
    "arange without an end": lambda d: torch.arange(0, 5, -1, device=d),
    "linspace of negative steps": lambda d: torch.linspace(0, 1, -1, device=d),
    "out of another dtype": lambda d: torch.add(f32(d, 2), f32(d, 2), out=i64(d, 1, 2)),
    "write to overlapping memory": lambda d: f32(d, 1).expand(4).add_(1),
    "item of several elements": lambda d: f32(d, 2).item(),
    "truth of several elements": lambda d: bool(f32(d, 2)),
    "backward of several elements": lambda d: f32(d, 2).requires_grad_().mul(2).backward(),
    "in-place on a leaf that needs a gradient": lambda d: f32(d, 2).requires_grad_().add_(1),
    "copy of another shape": lambda d: f32(d, 2).copy_(f32(d, 3)),
    "foreach of lists of different length": lambda d: torch._foreach_add([f32(d, 2)], [f32(d, 2), f32(d, 2)]),
    "generator of the other device": lambda d: torch.rand(
        2, device=d, generator=torch.Generator("neuron" if d == "cpu" else "cpu")
    ),
}

# The words differ where CPU names its own device, its kernel or its address.
OTHER_WORDS = {"generator of the other device"}

# Known differences; an entry that no longer differs is itself a failure.
DIFFERS: dict[str, str] = {}


@pytest.fixture(autouse=True)
def device_works_afterwards() -> Iterator[None]:
    yield
    assert (torch.arange(5.0, device="neuron") + 1).sum().item() == 15


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=DIFFERS[name], strict=True)) if name in DIFFERS else name
        for name in CALLS
    ],
)
def test_a_bad_call_raises_what_the_cpu_raises(name: str) -> None:
    with pytest.raises(Exception) as on_cpu:  # noqa: PT011
        CALLS[name]("cpu")
    with pytest.raises(Exception) as on_device:  # noqa: PT011
        CALLS[name]("neuron")
    assert type(on_device.value) is type(on_cpu.value), f"{on_device.value!r} instead of {on_cpu.value!r}"
    if name not in OTHER_WORDS:

        def words(error: BaseException) -> str:
            return re.sub(r"neuron(:0)?|cpu", "DEVICE", str(error).split("\n")[0])

        assert words(on_device.value) == words(on_cpu.value)


MIXED: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "add": lambda a, b: a + b,
    "matmul": lambda a, b: a @ b,
    "cat": lambda a, b: torch.cat([a, b]),
    "where": lambda a, b: torch.where(a > 0, a, b),
    "linear": lambda a, b: F.linear(a, b),
    "embedding": lambda a, b: F.embedding(b.long(), a),
    "in-place": lambda a, b: a.mul_(b),
    "out": lambda a, b: torch.mul(a, a, out=b),
    "gather": lambda a, b: a.gather(1, b.long()),
    "layer_norm": lambda a, b: F.layer_norm(a, (3,), b[0], b[0]),
    "attention": lambda a, b: F.scaled_dot_product_attention(a[None, None], b[None, None], b[None, None]),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("first", ["cpu", "neuron"])
def test_tensors_of_two_devices_are_refused(name: str, first: str) -> None:
    second = "cpu" if first == "neuron" else "neuron"
    with pytest.raises((RuntimeError, ValueError), match=r"same device|on device|device type|[Dd]evices?"):
        MIXED[name](torch.zeros(3, 3, device=first), torch.zeros(3, 3, device=second))
