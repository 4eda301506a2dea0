"""Batch and instance norm as modules use them: results, gradients, strides and running statistics are the CPU's."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn as nn

CASES = {
    "features": (lambda: nn.BatchNorm1d(6), (16, 6)),
    "sequence": (lambda: nn.BatchNorm1d(6, momentum=0.3), (4, 6, 10)),
    "images": (lambda: nn.BatchNorm2d(16), (4, 16, 12, 12)),
    "cumulative average": (lambda: nn.BatchNorm2d(4, momentum=None), (2, 4, 5, 5)),
    "no parameters": (lambda: nn.BatchNorm2d(4, affine=False), (2, 4, 5, 5)),
    "no statistics": (lambda: nn.BatchNorm2d(4, track_running_stats=False), (2, 4, 5, 5)),
    "volumes": (lambda: nn.BatchNorm3d(4), (2, 4, 3, 4, 5)),
    "instances": (lambda: nn.InstanceNorm2d(4, affine=True), (2, 4, 5, 5)),
    "instances with statistics": (lambda: nn.InstanceNorm1d(4, track_running_stats=True), (3, 4, 9)),
}


def step(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.detach().requires_grad_()
    out = module(x)
    out.backward(torch.ones_like(out) * torch.linspace(-1, 1, out.shape[-1], device=out.device, dtype=out.dtype))
    return [out, x.grad, *(p.grad.clone() for p in module.parameters()), *module.buffers()]


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_two_steps_equal_cpus(name: str, layout: str, training: bool, no_fallback) -> None:
    make, shape = CASES[name]
    torch.manual_seed(0)
    host = make().train(training)
    device = copy.deepcopy(host).to("neuron")
    run = torch.compile(device, backend="neuron") if layout == "compiled" else device
    for _ in range(2):
        x = torch.randn(shape) * 2 + 1
        if layout == "channels_last" and x.dim() == 4:
            x = x.to(memory_format=torch.channels_last)
        for expected, got in zip(step(host, x), step(run, x.to("neuron")), strict=True):
            torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)
            assert layout == "compiled" or got.stride() == expected.stride()


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
def test_half_precision_input_with_float_parameters(training: bool, no_fallback) -> None:
    torch.manual_seed(0)
    host = nn.BatchNorm2d(4).train(training)
    device = copy.deepcopy(host).to("neuron")
    x = torch.randn(2, 4, 5, 5).bfloat16()
    results = [step(host, x), step(device, x.to("neuron"))]
    for expected, got in zip(*results, strict=True):
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got.cpu(), expected, rtol=2e-2, atol=2e-2)
