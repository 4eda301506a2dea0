"""Tiny models of every kind of architecture of transformers do on `neuron` what they do on the CPU, without the CPU: forward,
loss, backward, one AdamW step, greedy generation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import architectures
import pytest
import torch

import torch_neuronx

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

NEW_TOKENS = 6


@pytest.fixture(autouse=True)
def without_the_host() -> Iterator[None]:
    before = torch_neuronx.config.fallback()
    torch_neuronx.config.set_fallback("error")
    yield
    torch_neuronx.config.set_fallback(before)


def train_step(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> tuple[Any, dict[str, torch.Tensor]]:
    """Outputs and gradients of one step, which updates the model."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    out = model(**inputs)
    out.loss.backward()
    gradients = {name: p.grad.detach().cpu() for name, p in model.named_parameters() if p.grad is not None}
    optimizer.step()
    return out, gradients


def assert_near(got: torch.Tensor, want: torch.Tensor, exact: torch.Tensor | None, scale: float, what: str) -> None:
    """Within 1e-4 of `scale`, which is what one rounding more or less in each of some dozens of layers comes to; or as near to
    float64 (`exact`, if given) as the CPU is, where a model is worse conditioned than that."""
    assert got.shape == want.shape and got.dtype == want.dtype, what
    difference = (got - want).abs().max().item() if want.numel() else 0.0
    if difference > 1e-4 * scale:
        assert exact is not None, f"{what}: {difference:.2e} of {scale:.2e}"
        own, error = ((t.double() - exact).abs().max().item() for t in (want, got))
        assert error <= 2 * own, f"{what}: {difference:.2e} of {scale:.2e}; from float64 {error:.2e}, CPU {own:.2e}"


def assert_trained_alike(
    cpu: torch.nn.Module, device: torch.nn.Module, inputs: dict[str, torch.Tensor], exactly: bool
) -> None:
    exact, exact_gradients = None, {}
    if exactly:
        wide = {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()}
        exact, exact_gradients = train_step(copy.deepcopy(cpu).double(), wide)
    want, want_gradients = train_step(cpu, inputs)
    got, got_gradients = train_step(device, {k: v.to("neuron") for k, v in inputs.items()})
    for name in ("loss", "logits"):
        g, w, e = (getattr(o, name).detach().cpu() if o is not None else None for o in (got, want, exact))
        assert_near(g, w, e, w.abs().max().item(), name)
    assert got_gradients.keys() == want_gradients.keys()
    largest = max(g.abs().max().item() for g in want_gradients.values())
    for name, gradient in want_gradients.items():
        assert_near(got_gradients[name], gradient, exact_gradients.get(name), largest, f"gradient of {name}")
    # Adam divides by the gradient's size, so parameters whose gradient is rounding noise may move either way.
    for (name, p), q in zip(cpu.named_parameters(), device.parameters(), strict=True):
        real = (
            (want_gradients[name].abs() > 1e-3 * largest) if name in want_gradients else torch.ones_like(p, dtype=torch.bool)
        )
        moved = torch.where(real, q.detach().cpu() - p.detach(), 0.0)
        assert moved.abs().max().item() <= 1e-5, f"{name} after the step"


@pytest.mark.parametrize("name", architectures.ARCHITECTURES)
def test_architecture(name: str) -> None:
    architecture = architectures.ARCHITECTURES[name]
    model, inputs = architectures.build(name)
    start = copy.deepcopy(model)
    device = copy.deepcopy(model).to("neuron")
    assert_trained_alike(model, device, inputs, architecture.badly_conditioned)
    if architecture.generates:
        prompt = {k: v for k, v in inputs.items() if k in ("input_ids", "input_features")}
        options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "num_beams": 1}
        want = start.eval().generate(**prompt, **options)
        got = copy.deepcopy(start).to("neuron").eval().generate(**{k: v.to("neuron") for k, v in prompt.items()}, **options)
        assert got.cpu().tolist() == want.tolist()


def test_kinds_are_varied() -> None:
    kinds = {a.kind for a in architectures.ARCHITECTURES.values()}
    assert len(architectures.ARCHITECTURES) >= 30
    assert kinds == {
        "dense", "mixture of experts", "state space", "linear attention", "encoder", "encoder-decoder", "vision", "speech",
    }  # fmt: skip
