"""Views share memory; storages grow, shrink and are set as on the CPU."""

from __future__ import annotations

import pytest
import torch

VIEWS = [
    lambda t: t.t(), lambda t: t[1], lambda t: t[:, 2], lambda t: t[1:3, ::2], lambda t: t.view(-1),
    lambda t: t.view(2, -1, 3),
    lambda t: t.unsqueeze(1), lambda t: t.expand(2, 4, 6), lambda t: t.permute(1, 0), lambda t: t.diagonal(),
    lambda t: t.narrow(1, 2, 3), lambda t: t.unfold(1, 3, 2), lambda t: t.as_strided((2, 2), (1, 6), 3),
    lambda t: t.flatten(),
    lambda t: t.chunk(2)[1], lambda t: t.split(3, 1)[1], lambda t: t.unbind(1)[4], lambda t: t.view(torch.int32),
    lambda t: t.reshape(3, 8), lambda t: t.movedim(0, 1), lambda t: t.detach(), lambda t: t.squeeze(),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(VIEWS)))
def test_a_view_shows_and_changes_its_base(index: int) -> None:
    host = torch.arange(24.0).reshape(4, 6)
    device = host.to("neuron")
    on_host, on_device = VIEWS[index](host), VIEWS[index](device)
    assert on_device.shape == on_host.shape and on_device.stride() == on_host.stride()
    assert on_device.storage_offset() == on_host.storage_offset()
    assert torch.equal(on_device.cpu(), on_host)
    assert on_device.untyped_storage().data_ptr() == device.untyped_storage().data_ptr()
    device.copy_(torch.full((4, 6), 5.0))
    host.fill_(5.0)
    assert torch.equal(on_device.cpu(), on_host)


def test_storage_bytes_are_the_logical_ones() -> None:
    for dtype in (torch.bool, torch.int64, torch.bfloat16, torch.complex128):
        t = torch.zeros(7, dtype=dtype).to("neuron")
        assert t.untyped_storage().nbytes() == 7 * t.element_size()


def test_resize_keeps_contents() -> None:
    t = torch.arange(6.0).to("neuron")
    t.resize_(10)
    assert torch.equal(t[:6].cpu(), torch.arange(6.0))
    t.resize_(2, 3)
    assert torch.equal(t.cpu(), torch.arange(6.0).reshape(2, 3))


def test_storage_can_be_freed_and_grown_again() -> None:
    t = torch.arange(6.0).to("neuron")
    storage = t.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(24)
    t.copy_(torch.ones(6))
    assert t.cpu().sum() == 6


def test_set_to_another_storage() -> None:
    base = torch.arange(12.0).to("neuron")
    t = torch.empty(0, device="neuron")
    t.set_(base.untyped_storage(), 2, (2, 3), (3, 1))
    assert torch.equal(t.cpu(), torch.arange(2.0, 8.0).reshape(2, 3))
    t.set_(base)
    assert t.is_set_to(base)


def test_out_of_bounds_view_is_refused() -> None:
    t = torch.zeros(4).to("neuron")
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        t.as_strided((3, 3), (3, 1))


def test_data_swap_keeps_old_views() -> None:
    t = torch.ones(4).to("neuron")
    view = t[:2]
    t.data = torch.zeros(4).to("neuron")
    assert view.cpu().sum() == 2 and t.cpu().sum() == 0


def test_tied_weights_stay_tied_when_a_module_moves() -> None:
    module = torch.nn.Module()
    module.a, module.b = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
    module.b.weight = module.a.weight
    for where in ("neuron", "cpu", "neuron"):
        module.to(where)
        assert module.a.weight is module.b.weight and module.a.weight.device.type == where
