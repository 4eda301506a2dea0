"""Results whose size depends on values."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("shape", [(7,), (4, 5), (2, 3, 4), (0,), (3, 0)])
@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
def test_nonzero_and_masked_select(shape: tuple[int, ...], density: float) -> None:
    torch.manual_seed(0)
    x = torch.rand(shape)
    mask = torch.rand(shape) < density
    n = (x * mask).to("neuron").nonzero()
    expected = (x * mask).nonzero()
    assert torch.equal(n.cpu(), expected) and n.stride() == expected.stride()
    assert torch.equal(x.to("neuron").masked_select(mask.to("neuron")).cpu(), x.masked_select(mask))


def test_nonzero_of_a_transposed_view() -> None:
    x = (torch.arange(12).reshape(3, 4) % 3).to("neuron")
    assert torch.equal(x.t().nonzero().cpu(), x.cpu().t().nonzero())


def test_a_new_count_in_the_same_class_does_not_compile(compiled_by) -> None:
    x = torch.arange(100.0)
    d = x.to("neuron")
    _ = d.masked_select((x < 40).to("neuron"))
    masks = [(x < n).to("neuron") for n in (35, 50, 64)]
    assert compiled_by(lambda: [d.masked_select(m) for m in masks]) == 0


def test_boolean_indexing_reads() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    rows, full = torch.tensor([True, False, True, True]), x % 5 == 0
    columns = torch.tensor([True, False, False, True, False, True])
    d = x.to("neuron")
    assert torch.equal(d[rows.to("neuron")].cpu(), x[rows])
    assert torch.equal(d[full.to("neuron")].cpu(), x[full])
    assert torch.equal(d[:, columns.to("neuron")].cpu(), x[:, columns])
    assert d[torch.zeros(4, dtype=torch.bool).to("neuron")].shape == (0, 6)


def test_boolean_indexing_writes() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    d = x.to("neuron")
    rows, full = torch.tensor([True, False, True, False]), x % 5 == 0
    x[full], d[full.to("neuron")] = -1.0, -1.0
    x[rows], d[rows.to("neuron")] = 9.0, 9.0
    values = torch.arange(12.0).reshape(2, 6)
    x[rows], d[rows.to("neuron")] = values, values.to("neuron")
    assert torch.equal(d.cpu(), x)


def test_mask_of_the_wrong_shape_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="does not match the shape of the indexed tensor"):
        torch.ones(3, 4).to("neuron")[torch.ones(2, dtype=torch.bool).to("neuron")]


def test_integer_indices_on_the_cpu_are_accepted() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    index = torch.tensor([3, 0])
    assert torch.equal(x.to("neuron")[index].cpu(), x[index])


def test_equal() -> None:
    x = torch.arange(5.0).to("neuron")
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:4])
