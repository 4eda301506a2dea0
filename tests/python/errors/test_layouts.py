"""Tensors that are not dense: one clear error that names operator and layout; jagged nested tensors are made of dense ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")


def sparse() -> torch.Tensor:
    return torch.eye(3).to_sparse()


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "coo to the device": (lambda: sparse().to("neuron"), "sparse COO"),
    "coo made there": (lambda: torch.eye(3, device="neuron").to_sparse(), "layout Sparse"),
    "coo constructor": (lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="neuron"), "sparse COO"),
    "csr": (lambda: sparse().to_sparse_csr().to("neuron").sum(), "sparse compressed"),
    "sparse gradient": (
        lambda: (
            torch.nn.functional.embedding(
                torch.tensor([1], device="neuron"), torch.ones(3, 2, device="neuron", requires_grad=True), sparse=True
            )
            .sum()
            .backward()
        ),
        "sparse COO",
    ),
    "quantized": (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8).to("neuron"), "quantized"),
    "strided nested": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to("neuron"),
        "nested .*jagged",
    ),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    import torch_neuronx

    before = torch_neuronx.config.fallback()
    torch_neuronx.config.set_fallback("allow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch_neuronx.config.set_fallback(before)


@pytest.mark.parametrize("name", CASES)
def test_other_layouts_are_refused_by_name(name: str) -> None:
    call, layout = CASES[name]
    with pytest.raises(NotImplementedError, match=f"aten::.*device neuron holds dense tensors only.*{layout}"):
        call()
    assert (torch.ones(2, device="neuron") + 1).tolist() == [2, 2]


def test_jagged_tensors_are_made_of_dense_operators() -> None:
    parts = [torch.randn(2, 4), torch.randn(3, 4)]
    weight = torch.randn(4, 5)

    def run(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.nested.nested_tensor([p.to(device) for p in parts], layout=torch.jagged, requires_grad=True)
        y = torch.nn.functional.gelu(x @ weight.to(device)) + 1
        loss = (y * y).values().sum()
        (gradient,) = torch.autograd.grad(loss, x)
        return y.values().detach().cpu(), gradient.values().cpu()

    for got, want in zip(run("neuron"), run("cpu"), strict=True):
        torch.testing.assert_close(got, want)
