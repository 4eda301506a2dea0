"""Convolutions at the sizes and layouts that networks use: results and gradients are the CPU's, none falls back."""

from __future__ import annotations

import pytest
import torch
import torch.nn as nn

CASES = {
    "strided stem": (lambda: nn.Conv2d(3, 16, 7, stride=2, padding=3), (2, 3, 48, 48)),
    "dilated": (lambda: nn.Conv2d(8, 8, 3, padding="same", dilation=2), (3, 8, 20, 24)),
    "pointwise": (lambda: nn.Conv2d(16, 32, 1, bias=False), (2, 16, 14, 14)),
    "patches": (lambda: nn.Conv2d(3, 24, 8, stride=8), (2, 3, 32, 32)),
    "depthwise": (lambda: nn.Conv2d(12, 12, 5, padding=2, groups=12), (2, 12, 15, 15)),
    "depth multiplier": (lambda: nn.Conv2d(6, 18, 3, stride=2, groups=6), (2, 6, 15, 15)),
    "grouped": (lambda: nn.Conv1d(12, 8, 3, stride=2, padding=1, groups=4), (2, 12, 31)),
    "unbatched": (lambda: nn.Conv1d(5, 7, 3, padding=1, padding_mode="circular"), (5, 40)),
    "volume": (lambda: nn.Conv3d(4, 6, 3, stride=(1, 2, 2), padding=1), (2, 4, 5, 10, 10)),
    "transposed": (lambda: nn.ConvTranspose2d(6, 4, 4, stride=2, padding=1), (2, 6, 9, 9)),
    "transposed, dilated": (lambda: nn.ConvTranspose2d(6, 4, 3, 3, 2, 1, 2, dilation=2), (2, 6, 9, 9)),
    "transposed volume": (lambda: nn.ConvTranspose3d(4, 2, 3, stride=2, padding=1, output_padding=1), (1, 4, 3, 5, 5)),
    "no batch": (lambda: nn.Conv2d(3, 4, 3), (0, 3, 8, 8)),
}


def run(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.detach().requires_grad_()
    out = module(x)
    out.backward(torch.ones_like(out) * torch.linspace(-1, 1, out.shape[-1], device=out.device))
    return [out, x.grad, *(p.grad for p in module.parameters())]


def layout(t: torch.Tensor) -> list[int]:
    """The strides that matter: those of size-1 dims depend on which of CPU's kernels ran."""
    return [stride for size, stride in zip(t.shape, t.stride(), strict=True) if size != 1]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("channels_last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_equal_cpus(name: str, channels_last: bool, compiled: bool, no_fallback) -> None:
    make, shape = CASES[name]
    if compiled and (channels_last or 0 in shape):
        pytest.skip("covered eagerly")
    torch.manual_seed(0)
    host, x = make(), torch.randn(shape)
    device = make().to("neuron")
    device.load_state_dict(host.state_dict())
    if channels_last and x.dim() == 4:
        x = x.to(memory_format=torch.channels_last)
    expected = run(host, x)
    got = run(torch.compile(device, backend="neuron") if compiled else device, x.to("neuron"))
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-4)
        if not compiled:
            assert layout(b) == layout(a)


def test_half_precision_is_rounded_once(no_fallback) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(1, 64, 9, 9), torch.randn(8, 64, 3, 3)
    for dtype in (torch.float16, torch.bfloat16):
        a, b = x.to(dtype), w.to(dtype)
        exact = torch.conv2d(a.double(), b.double()).to(dtype)
        got = torch.conv2d(a.to("neuron"), b.to("neuron")).cpu()
        assert (got != exact).double().mean() < 0.02  # where the f32 sum lies next to a tie


def test_the_device_form_of_underscore_convolution_is_native(no_fallback) -> None:
    x, w = torch.arange(50.0).reshape(1, 2, 5, 5), torch.ones(3, 2, 3, 3)
    results = []
    for where in ("cpu", "neuron"):
        a = x.detach().to(where).requires_grad_()
        out = torch._convolution(a, w.to(where), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True, True)
        out.sum().backward()
        results.append((out.detach().cpu(), a.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])
