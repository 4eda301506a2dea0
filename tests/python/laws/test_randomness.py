"""A seed decides the random numbers, whatever the layout, the number of threads or the executor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.utils.checkpoint import checkpoint

DRAWS = {
    "uniform_": lambda t: t.uniform_(-1, 2),
    "normal_": lambda t: t.normal_(1, 3),
    "bernoulli_": lambda t: t.bernoulli_(0.3),
    "random_": lambda t: t.random_(0, 1000),
    "exponential_": lambda t: t.exponential_(2.0),
    "log_normal_": lambda t: t.log_normal_(0, 0.5),
    "cauchy_": lambda t: t.cauchy_(),
    "geometric_": lambda t: t.geometric_(0.4),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_layout_of_what_is_filled_does_not_matter(name: str) -> None:
    def draw(t: torch.Tensor) -> torch.Tensor:
        torch.neuron.manual_seed(42)
        return DRAWS[name](t).cpu()

    dense = draw(torch.zeros(6, 10, device="neuron"))
    transposed = draw(torch.zeros(10, 6, device="neuron").t())
    strided = draw(torch.zeros(12, 20, device="neuron")[::2, ::2])
    vector = draw(torch.zeros(60, device="neuron"))
    assert torch.equal(transposed, dense) and torch.equal(strided, dense) and torch.equal(vector.view(6, 10), dense)


@pytest.mark.parametrize("layout", ["transposed", "strided", "expanded"])
def test_the_layout_of_dropouts_input_does_not_matter(layout: str) -> None:
    ones = torch.ones(6, 10, device="neuron")
    inputs = {
        "transposed": torch.ones(10, 6, device="neuron").t(),
        "strided": torch.ones(12, 20, device="neuron")[::2, ::2],
        "expanded": torch.ones(1, 1, device="neuron").expand(6, 10),
    }
    torch.neuron.manual_seed(1)
    want = torch.dropout(ones, 0.5, True).cpu()
    torch.neuron.manual_seed(1)
    assert torch.equal(torch.dropout(inputs[layout], 0.5, True).cpu(), want)


def test_threads_and_executors_draw_the_same_numbers(run_python: Callable[..., str]) -> None:
    code = """
import hashlib, torch
torch.manual_seed(9)
digest = hashlib.sha256()
for n in (1, 1000, 70_001):
    for t in (torch.rand(n, device="neuron"), torch.randn(n, device="neuron"), torch.randint(0, 99, (n,), device="neuron"),
              torch.nn.functional.dropout(torch.ones(n, device="neuron")), torch.randperm(min(n, 1000), device="neuron")):
        digest.update(t.cpu().numpy().tobytes())
q = torch.randn(2, 2, 64, 32, device="neuron")
digest.update(torch.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.3).cpu().numpy().tobytes())
print(digest.hexdigest())
"""
    variants = [
        {"NEURON_EMULATOR_THREADS": "1"},
        {"NEURON_EMULATOR_THREADS": "2"},
        {"NEURON_EMULATOR_EXECUTOR": "interpreter"},
    ]
    assert len({run_python(code, **v) for v in variants}) == 1


def test_a_restored_state_continues_every_kind_of_draw() -> None:
    torch.neuron.manual_seed(3)
    torch.rand(7, device="neuron")
    state = torch.neuron.get_rng_state()

    def everything() -> list[torch.Tensor]:
        t = torch.zeros(11, device="neuron")
        return [f(t).cpu().clone() for f in DRAWS.values()] + [
            torch.multinomial(torch.ones(5, device="neuron"), 3).cpu(),
            torch.bernoulli(torch.full((9,), 0.5, device="neuron")).cpu(),
        ]

    first = everything()
    torch.neuron.set_rng_state(state)
    assert all(torch.equal(a, b) for a, b in zip(first, everything(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, everything(), strict=True))


def test_what_is_drawn_in_a_fork_has_no_effect_outside() -> None:
    torch.neuron.manual_seed(4)
    want = [torch.rand(3, device="neuron").cpu() for _ in range(3)]
    torch.neuron.manual_seed(4)
    got = [torch.rand(3, device="neuron").cpu()]
    with torch.random.fork_rng(device_type="neuron"):
        torch.neuron.manual_seed(99)
        torch.rand(50, device="neuron")
    got += [torch.rand(3, device="neuron").cpu() for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_dropout_gives_the_gradients_of_the_plain_model(reentrant: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.GELU(), torch.nn.Linear(16, 16), torch.nn.Dropout(0.2)
    ).to("neuron")
    x = torch.randn(32, 8).to("neuron")
    gradients = []
    for wrap in (False, True):
        leaf = x.clone().requires_grad_()
        model.zero_grad()
        torch.neuron.manual_seed(11)
        y = checkpoint(model, leaf, use_reentrant=reentrant) if wrap else model(leaf)
        y.square().sum().backward()
        gradients.append([leaf.grad.cpu(), *(p.grad.cpu().clone() for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert gradients[0][0].abs().sum() > 0
