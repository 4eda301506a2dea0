"""copy_ in every direction gives the CPU's bytes: dtypes, strides on both sides, offsets, zero strides, overlaps."""

from __future__ import annotations

import itertools

import pytest
import torch

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip
LAYOUTS = {
    "dense": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "every second": lambda t: t[::2, :, 1::2],
    "row": lambda t: t[1],
    "narrow": lambda t: t.narrow(2, 1, 3),
    "expanded": lambda t: t[:1, :1, :].expand(3, 4, -1),
}


def filled(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    n = torch.Size(shape).numel()
    t = torch.arange(n, dtype=torch.float64).reshape(shape) % 101 - 20
    if dtype == torch.bool:
        return t % 3 == 0
    if not dtype.is_signed:
        t = t.abs()
    return t.to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_to_device_and_back_keeps_values_and_layout(dtype: torch.dtype, layout: str) -> None:
    host = filled((4, 5, 6), dtype)
    view = LAYOUTS[layout](host)
    assert torch.equal(view.to("neuron").cpu(), view)
    on_device = LAYOUTS[layout](host.to("neuron"))
    assert on_device.stride() == view.stride() and on_device.storage_offset() == view.storage_offset()
    assert torch.equal(on_device.cpu(), view)


@pytest.mark.parametrize("layout", [n for n in LAYOUTS if n != "expanded"])
def test_writing_a_view_leaves_its_neighbours_alone(layout: str) -> None:
    host, device = torch.zeros(4, 5, 6), torch.zeros(4, 5, 6).to("neuron")
    source = filled(tuple(LAYOUTS[layout](host).shape), torch.float32)
    LAYOUTS[layout](host).copy_(source)
    LAYOUTS[layout](device).copy_(source)
    assert torch.equal(device.cpu(), host)
    LAYOUTS[layout](device).copy_(source.to("neuron") + 0)
    assert torch.equal(device.cpu(), host)


@pytest.mark.parametrize("source,target", list(itertools.permutations(DTYPES, 2)))
def test_cast_on_the_device_is_the_cpus(source: torch.dtype, target: torch.dtype) -> None:
    host = filled((3, 7), source)
    assert torch.equal(host.to("neuron").to(target).cpu(), host.to(target))


def test_casts_of_special_values() -> None:
    host = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e30, -1e30, 3.5, -2.5])
    for target in (torch.bool, torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        assert torch.equal(host.to("neuron").to(target).cpu().nan_to_num(7), host.to(target).nan_to_num(7)) or (
            target.is_complex
        )


def test_copy_between_cores() -> None:
    if torch.neuron.device_count() < 2:
        pytest.skip("one core")
    host = filled((6, 8), torch.float32)
    first = host.to("neuron:0")
    assert torch.equal(first.to("neuron:1").cpu(), host)
    target = torch.zeros(8, 6, device="neuron:1", dtype=torch.float64)
    target.t().copy_(first)
    assert torch.equal(target.cpu(), host.t().to(torch.float64))


def test_two_slices_of_one_shape_are_different_copies() -> None:
    base = filled((10, 4), torch.float32).to("neuron")
    a, b = base[2:4].clone(), base[6:8].clone()
    assert torch.equal(a.cpu(), base.cpu()[2:4]) and torch.equal(b.cpu(), base.cpu()[6:8])


def test_partial_overlap_is_refused_as_on_cpu() -> None:
    t = torch.arange(10.0).to("neuron")
    with pytest.raises(RuntimeError, match="overlap|single memory location"):
        t[1:].copy_(t[:-1])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        t[:1].expand(5).copy_(torch.ones(5))


def test_item_reads_one_element_of_a_view() -> None:
    t = torch.arange(24).reshape(4, 6).to("neuron")
    assert t[2, 3].item() == 15 and t.t()[5, 1].item() == 11 and bool(t[0, 1])


def test_conj_and_neg_bits_survive() -> None:
    host = torch.tensor([1 + 2j, 3 - 4j])
    device = host.to("neuron")
    assert torch.equal(device.conj().cpu(), host.conj())
    assert torch.equal(device.conj().imag.cpu(), host.conj().imag)
    assert torch.equal(torch.view_as_real(device).cpu(), torch.view_as_real(host))
    target = torch.zeros(2, dtype=torch.complex64).to("neuron")
    target.conj().copy_(host)
    assert torch.equal(target.cpu(), host.conj())


def test_empty_tensors_move() -> None:
    for shape in [(0,), (3, 0), (0, 5)]:
        assert torch.empty(shape).to("neuron").cpu().shape == torch.Size(shape)


def test_source_may_be_overwritten_after_a_non_blocking_copy() -> None:
    host = torch.ones(1000).pin_memory()
    device = host.to("neuron", non_blocking=True)
    host.zero_()
    assert device.cpu().sum() == 1000
