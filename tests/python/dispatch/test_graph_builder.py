"""_C.GraphBuilder: lowerings called from Python give graphs that evaluate, compile and run to the same values."""

from __future__ import annotations

import pytest
import torch

import torch_neuronx  # noqa: F401
from torch_neuronx import _C


def build(strides: tuple[int, ...] = (4, 1)):
    b = _C.GraphBuilder("test graph")
    x = b.parameter(torch.float32, [3, 4], list(strides))
    s = b.scalar("float")
    (y,) = b.call("aten::mul.Tensor", {"self": x, "other": s})
    (z,) = b.call("aten::add.Tensor", {"self": y, "other": 1.0, "alpha": 2})
    return b, x, z


def test_graph_runs_and_evaluates_alike() -> None:
    b, _, z = build()
    dtype, shape = b.type(z)
    assert dtype == torch.float32 and shape == [3, 4]
    b.output(z, [4, 1])
    x = torch.arange(12.0).reshape(3, 4)
    (evaluated,) = b.evaluate([x], [3.0])
    (launched,) = b.compile(0)([x.to("neuron")], [3.0])
    assert torch.equal(evaluated, x * 3 + 2) and torch.equal(launched.cpu(), evaluated)
    assert "multiply" in b.print() and "stablehlo.multiply" in b.stablehlo()


def test_aliased_outputs_are_written_in_place() -> None:
    b, _, z = build()
    b.output(z, [4, 1], alias=0)
    x = torch.ones(3, 4).to("neuron")
    assert b.compile(0)([x], [5.0]) == [None]
    assert x.cpu().eq(7).all()


def test_in_place_names_give_new_values() -> None:
    b = _C.GraphBuilder("in place")
    x = b.parameter(torch.float32, [2], [1])
    (new,) = b.call("aten::add_.Tensor", {"self": x, "other": 1})
    b.output(new, [1])
    (out,) = b.evaluate([torch.zeros(2)])
    assert out.tolist() == [1.0, 1.0]


def test_random_graphs_draw_eagers_numbers() -> None:
    b = _C.GraphBuilder("random")
    for _ in range(2):
        (r,) = b.call("aten::rand", {"size": [10], "dtype": torch.float32})
        b.output(r, [1])
    assert b.rng_increment > 0
    g = b.compile(0)
    torch.neuron.manual_seed(3)
    first, second = g([], [])
    after = torch.neuron.get_rng_state()
    torch.neuron.manual_seed(3)
    assert torch.equal(torch.rand(10, device="neuron").cpu(), first.cpu())
    assert torch.equal(torch.rand(10, device="neuron").cpu(), second.cpu())
    assert torch.equal(torch.neuron.get_rng_state(), after)


def test_wrong_tensors_are_refused() -> None:
    b, _, z = build()
    b.output(z, [4, 1])
    g = b.compile(0)
    for wrong in (torch.ones(4, 3).to("neuron"), torch.ones(4, 3).to("neuron").t(), torch.ones(3, 4)):
        with pytest.raises(RuntimeError, match="the graph was compiled for"):
            g([wrong], [1.0])
    with pytest.raises(RuntimeError, match="takes 1 scalars"):
        g([torch.ones(3, 4).to("neuron")], [])


def test_unknown_operators_have_no_lowering() -> None:
    assert _C.has_lowering("aten::add.Tensor") and not _C.has_lowering("aten::linalg_det")
    with pytest.raises(NotImplementedError, match="has no lowering"):
        _C.GraphBuilder("x").call("aten::linalg_det", {})
