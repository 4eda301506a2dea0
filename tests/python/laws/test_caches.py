"""What is compiled, and how much of it is kept."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch


@pytest.mark.parametrize(
    "use",
    [
        lambda t, v: t + v,
        lambda t, v: t * v,
        lambda t, v: t.sub(t, alpha=v),
        lambda t, v: t.clamp(min=v),
        lambda t, v: t.masked_fill(t > 0, v),
        lambda t, v: t.pow(v),
        lambda t, v: torch.full_like(t, v),
        lambda t, v: t.addcmul(t, t, value=v),
        lambda t, v: torch.nn.functional.leaky_relu(t, v),
        lambda t, v: torch.where(t > 0, t, v),
        lambda t, v: t.clone().fill_(v),
        lambda t, v: t.lerp(t + 1, v),
        lambda t, v: t.div(v),
    ],
    ids=[
        "add",
        "mul",
        "alpha",
        "clamp",
        "masked_fill",
        "pow",
        "full",
        "addcmul",
        "leaky_relu",
        "where",
        "fill_",
        "lerp",
        "div",
    ],
)
def test_a_new_number_does_not_compile(
    use: Callable[..., torch.Tensor], compiled_by: Callable[..., int], request: pytest.FixtureRequest
) -> None:
    cpu = torch.linspace(-2, 2, 35).reshape(5, 7)
    t = cpu.to("neuron")
    use(t, 0.25)
    numbers = [0.0, 1.0, -1.0, 2.0, -3.5, 1e-30, 1e30, float("inf"), float("nan")]
    # pow is another operator for a handful of exponents (square, reciprocal, ...), and alpha=1 needs no multiplication.
    special = {"pow": 4, "alpha": 1}.get(request.node.callspec.id, 0)
    assert compiled_by(lambda: [use(t, v) for v in numbers]) <= special
    assert compiled_by(lambda: [use(t, v * 1.0625) for v in numbers]) <= (1 if special else 0)
    assert compiled_by(lambda: [use(t, v) for v in [*numbers, 0.7, 123.0]]) == 0
    for v in numbers:
        assert torch.allclose(use(t, v).cpu(), use(cpu, v), rtol=1e-5, equal_nan=True), v


def test_new_learning_rates_of_an_optimizer_do_not_compile(compiled_by: Callable[..., int]) -> None:
    weights = [torch.nn.Parameter(torch.ones(n, 3, device="neuron")) for n in (2, 5)]
    for kind in (torch.optim.AdamW, torch.optim.SGD):
        optimizer = kind(weights, lr=0.1)

        def step(lr: float, optimizer: torch.optim.Optimizer = optimizer) -> None:
            for group in optimizer.param_groups:
                group["lr"] = lr
            for w in weights:
                w.grad = torch.ones_like(w)
            optimizer.step()

        step(0.1)
        step(0.05)
        assert compiled_by(lambda step=step: [step(0.01 * i) for i in range(5)]) == 0


def test_views_at_other_offsets_do_not_compile(compiled_by: Callable[..., int]) -> None:
    base = torch.arange(600.0, device="neuron").reshape(10, 60)
    base[0, 3:20].exp()
    base[1, 4:21].add_(1)
    assert compiled_by(lambda: [base[i, 7 + i : 24 + i].exp() for i in range(1, 9)]) == 0
    assert compiled_by(lambda: [base[i, i : 17 + i].add_(1) for i in range(2, 9)]) == 0


def test_new_indices_do_not_compile(compiled_by: Callable[..., int]) -> None:
    table = torch.randn(50, 4).to("neuron")
    index = [torch.randint(50, (9,)).to("neuron") for _ in range(4)]
    torch.nn.functional.embedding(index[0], table)
    assert compiled_by(lambda: [torch.nn.functional.embedding(i, table) for i in index]) == 0


def test_two_hundred_shapes_leave_a_bounded_cache_and_a_usable_process(run_python: Callable[..., str]) -> None:
    out = run_python(
        """
import gc, json, torch, torch_neuronx
from torch_neuronx import _C

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

torch.manual_seed(0)
sizes = []
for n in range(1, 201):
    x = torch.randn(n, 7)
    y = (x.to("neuron") * 2 + 1).softmax(-1)
    if n % 20 == 0:
        assert torch.allclose(y.cpu(), (x * 2 + 1).softmax(-1), atol=1e-6)
        gc.collect()
        sizes.append(resident())
stats = _C.cache_stats()
x = torch.randn(3, 7)
assert torch.equal((x.to("neuron") * 2).cpu(), x * 2)  # long since dropped, compiled again
print(json.dumps([stats, len(torch_neuronx.executables()), (sizes[-1] - sizes[4]) / 100]))
""",
        TORCH_NEURONX_CACHE_ENTRIES="64",
    )
    stats, executables, growth_per_shape = json.loads(out.splitlines()[-1])
    assert stats["misses"] >= 600 and stats["evictions"] > 400
    assert stats["entries"] <= stats["capacity"] == 64
    assert executables >= 64
    assert growth_per_shape < 200_000, f"{growth_per_shape:,.0f} bytes stay behind per shape"
