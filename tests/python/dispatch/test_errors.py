"""Bad calls raise PyTorch's own errors, and the device works afterwards."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize(
    "f",
    [
        lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
        lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
        lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
        lambda d: torch.ones(2, device=d).add_(torch.ones(3, device=d)),
        lambda d: torch.ones(2, device=d).sum(3),
        lambda d: torch.ones(2, device=d).softmax(5),
        lambda d: torch.ones(2, device=d) & torch.ones(2, device=d),
        lambda d: torch.ones(2, device=d).copy_(torch.ones(3, device=d)),
        lambda d: torch.ones(2, device=d).copy_(torch.ones(2, 2, device=d)),
        lambda d: torch.empty(0, device=d).max(),
        lambda d: torch.ones(2, device=d).normal_(0, -1),
        lambda d: torch.ones(2, device=d).uniform_(2, 1),
        lambda d: torch.ones(2, device=d).bernoulli_(2.0),
        lambda d: torch.ones(2, device=d).exponential_(-1.0),
        lambda d: torch.ones(2, device=d, dtype=torch.complex64).abs_(),
        lambda d: torch.ones(2, device=d, dtype=torch.int32).logit_(),
        lambda d: torch.nn.functional.layer_norm(torch.ones(2, 3, device=d), (4,)),
    ],
)
def test_same_error_as_cpu(f) -> None:
    with pytest.raises(Exception) as on_cpu:  # noqa: PT011
        f("cpu")
    with pytest.raises(type(on_cpu.value)) as on_device:
        f("neuron")
    assert str(on_device.value).split("\n")[0] == str(on_cpu.value).split("\n")[0]
    assert (torch.ones(2, device="neuron") + 1).cpu().sum() == 4


def test_mixed_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3).to("neuron") + torch.ones(3)
    if torch.neuron.device_count() > 1:
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.ones(3).to("neuron:0") + torch.ones(3).to("neuron:1")


def test_out_of_range_index_is_an_index_error_and_the_device_stays_usable() -> None:
    table = torch.ones(4, 2).to("neuron")
    with pytest.raises(IndexError):
        torch.nn.functional.embedding(torch.tensor([1, 7]).to("neuron"), table)
        torch.neuron.synchronize()
    assert torch.nn.functional.embedding(torch.tensor([1, 3]).to("neuron"), table).cpu().sum() == 4


def test_fallback_is_counted_warned_about_and_refusable() -> None:
    import torch_neuronx

    a = torch.eye(3).to("neuron") * 2
    torch_neuronx.clear_op_tracking()
    before = torch_neuronx.config.fallback()
    try:
        torch_neuronx.config.set_fallback("allow")
        assert torch.allclose(torch.linalg.det(a).cpu(), torch.tensor(8.0))
        assert torch_neuronx.fallback_count() > 0
        torch_neuronx.config.set_fallback("error")
        with pytest.raises(NotImplementedError, match=r"f32\[3,3\]"):
            torch.linalg.det(a)
    finally:
        torch_neuronx.config.set_fallback(before)
    with pytest.raises(ValueError, match="allow, warn or error"):
        torch_neuronx.config.set_fallback("sometimes")


def test_fallback_writes_in_place_and_out_results_back() -> None:
    import torch_neuronx

    before = torch_neuronx.config.fallback()
    torch_neuronx.config.set_fallback("allow")
    try:
        host, degrees = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0])
        device, device_degrees = host.to("neuron"), degrees.to("neuron")
        torch_neuronx.clear_op_tracking()
        torch.special.laguerre_polynomial_l(device, device_degrees, out=device)
        assert torch.allclose(device.cpu(), torch.special.laguerre_polynomial_l(host, degrees))
        out = torch.empty(0, device="neuron")
        torch.special.legendre_polynomial_p(host.to("neuron"), device_degrees, out=out)
        assert torch.allclose(out.cpu(), torch.special.legendre_polynomial_p(host, degrees))
        assert torch_neuronx.fallback_count() == 2
    finally:
        torch_neuronx.config.set_fallback(before)


@pytest.mark.filterwarnings("ignore")
def test_fallback_keeps_strides() -> None:
    """linalg_det factors a contiguous matrix's transpose and its gradient decides by the same question, asked of the device's
    tensor: on the CPU a slice must stay one."""

    def gradient(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        larger = torch.randn(5, 11).to(device)
        matrix = larger[:, 1::2].detach().requires_grad_()
        assert not matrix.is_contiguous()
        torch.linalg.det(matrix).backward()
        return matrix.grad.cpu()

    import torch_neuronx

    before = torch_neuronx.config.fallback()
    torch_neuronx.config.set_fallback("allow")
    try:
        torch.testing.assert_close(gradient("neuron"), gradient("cpu"))
        x = torch.arange(12.0).reshape(3, 4)
        for view in (
            lambda t: t[:, ::2],
            lambda t: t[1:, 1:],
            lambda t: t[:1].expand(3, 4),
            lambda t: t.as_strided((2, 3), (1, 1), 2),
        ):
            torch.testing.assert_close(torch.linalg.svdvals(view(x.to("neuron"))).cpu(), torch.linalg.svdvals(view(x)))
    finally:
        torch_neuronx.config.set_fallback(before)
