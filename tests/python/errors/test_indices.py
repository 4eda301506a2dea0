"""An index out of range is an IndexError, and the device works afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F


def table() -> torch.Tensor:
    return torch.arange(12.0).reshape(4, 3).to("neuron")


def index(bad: int) -> torch.Tensor:
    return torch.tensor([1, bad, 0]).to("neuron")


USES: dict[str, Callable[[int], object]] = {
    "embedding": lambda bad: F.embedding(index(bad), table()),
    "index_select": lambda bad: table().index_select(0, index(bad)),
    "gather": lambda bad: table().gather(0, index(bad).expand(2, 3)),
    "indexing": lambda bad: table()[index(bad)],
    "indexing in the second dimension": lambda bad: table()[:, index(bad)],
    "index_put": lambda bad: table().index_put_((index(bad),), torch.zeros(3, device="neuron")),
    "index_put accumulate": lambda bad: table().index_put_((index(bad),), torch.zeros(3, device="neuron"), accumulate=True),
    "assignment": lambda bad: table().__setitem__(index(bad), 0.0),
    "index_add": lambda bad: table().index_add_(0, index(bad), table()[:3]),
    "index_copy": lambda bad: table().index_copy_(0, index(bad), table()[:3]),
    "index_fill": lambda bad: table().index_fill_(0, index(bad), 0.0),
    "scatter": lambda bad: table().scatter_(0, index(bad).expand(2, 3), table()[:2]),
    "scatter_add": lambda bad: table().scatter_add_(0, index(bad).expand(2, 3), table()[:2]),
    "take": lambda bad: table().take(index(bad * 10)),
    "cross entropy": lambda bad: F.cross_entropy(table()[:3], index(bad)),
    "nll_loss": lambda bad: F.nll_loss(table()[:3].log_softmax(-1), index(bad)),
    "one_hot": lambda bad: F.one_hot(index(bad), 3),
}


def use_and_wait(name: str, bad: int) -> None:
    USES[name](bad)
    torch.neuron.synchronize()


@pytest.mark.parametrize("bad", [7, 1 << 40, -9])
@pytest.mark.parametrize("name", USES)
def test_an_index_out_of_range_is_an_index_error(name: str, bad: int) -> None:
    expected = (IndexError, RuntimeError) if name == "one_hot" else IndexError
    with pytest.raises(expected):
        use_and_wait(name, bad)
    good = table()
    assert torch.equal(F.embedding(torch.tensor([3, 0]).to("neuron"), good).cpu(), good.cpu()[[3, 0]])
    USES[name](2 if name != "take" else 0)
    torch.neuron.synchronize()


def test_the_error_is_reported_once() -> None:
    with pytest.raises(IndexError):
        use_and_wait("embedding", 7)
    torch.neuron.synchronize()
    assert (table() + 1).sum().item() == 78


def test_training_goes_on_after_a_bad_batch() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(4, 3), torch.nn.Linear(3, 4)).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters())

    def step(tokens: list[int]) -> float:
        optimizer.zero_grad()
        x = torch.tensor(tokens).to("neuron")
        loss = F.cross_entropy(model(x), x)
        loss.backward()
        optimizer.step()
        return loss.item()

    step([0, 1])
    with pytest.raises(IndexError):
        step([0, 9])
    first = step([2, 3])
    for _ in range(5):
        last = step([2, 3])
    assert last < first
