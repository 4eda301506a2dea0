"""Modules that PyTorch routes specially on this device: recurrent cells, convolution, batch norm, rrelu."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: torch.nn.LSTM(4, 5), (3, 2, 4)),
        (lambda: torch.nn.GRU(4, 5, num_layers=2), (3, 2, 4)),
        (lambda: torch.nn.Conv2d(2, 3, 3, padding=1), (1, 2, 5, 5)),
        (lambda: torch.nn.ConvTranspose1d(2, 3, 3), (1, 2, 5)),
        (lambda: torch.nn.BatchNorm1d(4), (6, 4)),
    ],
)
def test_module_and_gradients_equal_cpus(make, shape: tuple[int, ...], no_fallback) -> None:
    torch.manual_seed(0)
    host = make()
    device = make().to("neuron")
    device.load_state_dict(host.state_dict())
    x = torch.randn(shape)
    results = []
    for module, where in ((host, "cpu"), (device, "neuron")):
        out = module(x.to(where))
        out = out[0] if isinstance(out, tuple) else out
        out.pow(2).sum().backward()
        results.append([out, *(p.grad for p in module.parameters()), *module.buffers()])
    for expected, got in zip(*results, strict=True):
        assert torch.allclose(got.cpu(), expected, atol=1e-4, rtol=1e-4)


def test_rrelu_keeps_the_slopes_that_it_draws(no_fallback) -> None:
    x = torch.linspace(-2, 2, 4000).to("neuron").requires_grad_()
    y = torch.nn.functional.rrelu(x, 0.1, 0.3, training=True)
    y.sum().backward()
    slope, negative = (y / x).detach().cpu(), x.detach().cpu() < 0
    torch.testing.assert_close(x.grad.cpu(), slope)
    drawn = slope[negative]
    assert (slope[~negative] == 1).all()
    assert drawn.min() >= 0.0999 and drawn.max() <= 0.3001
    assert abs(drawn.mean() - 0.2) < 0.01 and abs(drawn.std() - 0.2 / 12**0.5) < 0.005
