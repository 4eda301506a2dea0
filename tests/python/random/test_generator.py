"""The Philox generator: 16-byte state, reproducible, independent of the CPU's, saved by checkpointing."""

from __future__ import annotations

import struct

import torch
from torch.utils.checkpoint import checkpoint


def test_state_is_seed_and_offset() -> None:
    torch.neuron.manual_seed(1234)
    state = torch.neuron.get_rng_state()
    assert state.dtype == torch.uint8 and state.numel() == 16 and state.device.type == "cpu"
    assert struct.unpack("<QQ", bytes(state.tolist())) == (1234, 0)


def test_state_round_trip_repeats_the_numbers() -> None:
    state = torch.neuron.get_rng_state()
    first = torch.rand(100, device="neuron")
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.rand(100, device="neuron").cpu(), first.cpu())


def test_the_offset_advances_with_the_number_of_elements_only() -> None:
    def offset_after(*shape: int) -> int:
        torch.neuron.manual_seed(0)
        torch.rand(*shape, device="neuron")
        return struct.unpack("<QQ", bytes(torch.neuron.get_rng_state().tolist()))[1]

    assert offset_after(12) == offset_after(3, 4) > 0


def test_torch_manual_seed_seeds_the_device_and_device_use_leaves_the_cpu_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    torch.rand(50, device="neuron")
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(7)
    a = torch.rand(50, device="neuron")
    torch.manual_seed(7)
    assert torch.equal(torch.rand(50, device="neuron").cpu(), a.cpu())


def test_own_generators_are_independent() -> None:
    g = torch.Generator("neuron").manual_seed(5)
    clone = g.clone_state()
    before = torch.neuron.get_rng_state()
    a = torch.randn(10, device="neuron", generator=g)
    assert torch.equal(torch.neuron.get_rng_state(), before)
    assert torch.equal(torch.randn(10, device="neuron", generator=clone).cpu(), a.cpu())


def test_uniform_and_normal_have_their_moments() -> None:
    torch.neuron.manual_seed(3)
    u = torch.rand(100_000, device="neuron").cpu()
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01
    n = torch.randn(100_000, device="neuron").cpu()
    assert abs(n.mean()) < 0.02 and abs(n.std() - 1) < 0.02
    filled = torch.empty(100_000, device="neuron").normal_(3.0, 2.0).cpu()
    assert abs(filled.mean() - 3) < 0.04 and abs(filled.std() - 2) < 0.04


def test_new_values_do_not_compile_again(compiled_by) -> None:
    t = torch.empty(100, device="neuron")
    t.uniform_(0, 1)
    assert compiled_by(lambda: [t.uniform_(0, high) for high in (2.0, 3.0)]) == 0


def test_checkpointing_draws_the_same_dropout() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)).to("neuron")
    x = torch.ones(16, 8).to("neuron")
    gradients = []
    for wrap in (False, True):
        layer.zero_grad()
        torch.neuron.manual_seed(11)
        out = checkpoint(layer, x, use_reentrant=False) if wrap else layer(x)
        out.sum().backward()
        gradients.append(layer[0].weight.grad.cpu().clone())
    assert torch.equal(gradients[0], gradients[1])


def test_fork_rng_restores_the_device_state() -> None:
    before = torch.neuron.get_rng_state()
    with torch.random.fork_rng(device_type="neuron"):
        torch.rand(5, device="neuron")
    assert torch.equal(torch.neuron.get_rng_state(), before)
