"""Pooling, padding and interpolation in the forms op_db does not reach: larger sizes, odd windows, layouts, ties, NaN."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "max 3 stride 2 padding 1": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 8, 56, 56)),
    "max of long windows": (lambda x: F.max_pool2d(x, (13, 11), 1, (6, 5)), (2, 4, 20, 20)),
    "max dilated, last window cut": (lambda x: F.max_pool2d(x, 3, 2, 1, dilation=3, ceil_mode=True), (2, 4, 21, 18)),
    "max without batch": (lambda x: F.max_pool2d(x, 2), (3, 9, 9)),
    "max 1d": (lambda x: F.max_pool1d(x, 5, 3, 2), (2, 3, 50)),
    "max 3d": (lambda x: F.max_pool3d(x, 3, 2, 1), (1, 3, 8, 9, 10)),
    "average counts padding": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 4, 20, 21)),
    "average without padding": (lambda x: F.avg_pool2d(x, 5, 2, 2, ceil_mode=True, count_include_pad=False), (2, 4, 20, 21)),
    "average with a divisor": (lambda x: F.avg_pool2d(x, (2, 12), (3, 4), divisor_override=7), (2, 4, 20, 21)),
    "average 3d": (lambda x: F.avg_pool3d(x, (2, 3, 9), 2, (1, 1, 4)), (1, 3, 8, 9, 20)),
    "adaptive average, uneven": (lambda x: F.adaptive_avg_pool2d(x, (7, 5)), (2, 4, 24, 33)),
    "adaptive average to more": (lambda x: F.adaptive_avg_pool2d(x, (9, 20)), (2, 4, 4, 13)),
    "adaptive max, uneven": (lambda x: F.adaptive_max_pool2d(x, (7, 5)), (2, 4, 24, 33)),
    "reflect": (lambda x: F.pad(x, (3, 5, 2, 0), mode="reflect"), (2, 4, 6, 7)),
    "reflect and crop": (lambda x: F.pad(x, (-2, 5), mode="reflect"), (4, 6, 7)),
    "replicate": (lambda x: F.pad(x, (9, 5, -2, 8), mode="replicate"), (2, 4, 6, 7)),
    "nearest by a factor": (lambda x: F.interpolate(x, scale_factor=(2.3, 0.4)), (2, 4, 13, 17)),
    "linear by a factor": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (2, 4, 13, 17)),
    "linear from one": (lambda x: F.interpolate(x, size=(40, 40), mode="bilinear"), (2, 4, 1, 1)),
    "cubic between corners": (lambda x: F.interpolate(x, size=(30, 9), mode="bicubic", align_corners=True), (2, 4, 13, 17)),
    "cubic, antialiased": (lambda x: F.interpolate(x, size=(3, 90), mode="bicubic", antialias=True), (2, 4, 150, 17)),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (1, 3, 4, 5, 6)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("layout", ["contiguous", "channels last"])
def test_value_gradient_and_strides_are_cpus(name: str, layout: str, no_fallback: None) -> None:
    function, shape = CASES[name]
    if layout == "channels last" and len(shape) != 4:
        pytest.skip("no such layout")
    torch.manual_seed(0)
    x = torch.randn(shape)
    if layout == "channels last":
        x = x.contiguous(memory_format=torch.channels_last)
    host, device = x.clone().requires_grad_(), x.to("neuron").requires_grad_()
    expected, got = function(host), function(device)
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got.cpu(), expected)
    grad = torch.randn_like(expected)
    expected.backward(grad)
    got.backward(grad.to("neuron"))
    assert device.grad.stride() == host.grad.stride()
    torch.testing.assert_close(device.grad.cpu(), host.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("window", [(2, 2, 0, 1), (3, 1, 1, 1), (3, 2, 1, 2), (11, 1, 5, 1)], ids=str)
def test_the_first_of_equal_maxima_and_the_last_nan_are_chosen(
    window: tuple[int, int, int, int], dtype: torch.dtype, no_fallback: None
) -> None:
    kernel, stride, padding, dilation = window
    x = torch.randint(0, 3, (2, 3, 16, 15)).to(dtype)
    if dtype.is_floating_point:
        x[torch.rand(x.shape) < 0.1] = float("nan")
        x[0, 0] = float("-inf")
    expected = torch.ops.aten.max_pool2d_with_indices(x, kernel, stride, padding, dilation)
    got = torch.ops.aten.max_pool2d_with_indices(x.to("neuron"), kernel, stride, padding, dilation)
    for e, g in zip(expected, got, strict=True):
        torch.testing.assert_close(g.cpu(), e, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "area"])
def test_infinities_stay_where_cpu_has_them(mode: str, no_fallback: None) -> None:
    x = torch.randn(1, 2, 9, 8)
    x[0, 0, 3, 4], x[0, 1, 0, 0] = float("inf"), float("nan")
    expected = F.interpolate(x, size=(14, 5), mode=mode)
    torch.testing.assert_close(F.interpolate(x.to("neuron"), size=(14, 5), mode=mode).cpu(), expected, equal_nan=True)


def test_a_place_outside_of_the_unpooled_volume_is_an_error() -> None:
    x = torch.ones(1, 1, 2, 2, device="neuron")
    with pytest.raises((IndexError, RuntimeError)):
        F.max_unpool2d(x, torch.tensor([[[[0, 1], [2, 99]]]]).to("neuron"), 2)
        torch.neuron.synchronize()
