"""Autocast follows the accelerator lists, GradScaler works, attention stays one operator."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import torch_neuronx

pytestmark = pytest.mark.usefixtures("no_fallback")


def test_autocast_lowers_matmuls_and_keeps_softmax_in_f32() -> None:
    layer, x = torch.nn.Linear(8, 8).to("neuron"), torch.randn(4, 8).to("neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        y = layer(x)
        assert y.dtype == torch.bfloat16 and F.softmax(y, -1).dtype == torch.float32
        assert (y + x).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(torch.sigmoid(x), torch.ones_like(x))
    assert layer(x).dtype == torch.float32


def test_encoder_layer_under_autocast() -> None:
    encoder = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).to("neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert encoder(torch.randn(2, 5, 16).to("neuron")).shape == (2, 5, 16)


def test_grad_scaler_scales_steps_and_skips_infinities() -> None:
    layer = torch.nn.Linear(4, 1).to("neuron")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("neuron", init_scale=1024.0)
    before = layer.weight.detach().cpu().clone()
    scaler.scale((layer(torch.full((2, 4), float("inf")).to("neuron"))).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(layer.weight.cpu(), before) and scaler.get_scale() == 512.0
    optimizer.zero_grad()
    scaler.scale(layer(torch.ones(2, 4).to("neuron")).sum()).backward()
    scaler.step(optimizer)
    assert torch.allclose(layer.weight.cpu(), before - 0.2)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_stays_whole_forward_and_backward(causal: bool) -> None:
    torch.manual_seed(0)
    host = [torch.randn(2, 3, 8, 4).requires_grad_() for _ in range(3)]
    device = [t.detach().to("neuron").requires_grad_() for t in host]
    torch_neuronx.clear_op_tracking()
    expected = F.scaled_dot_product_attention(*host, is_causal=causal)
    result = F.scaled_dot_product_attention(*device, is_causal=causal)
    expected.sum().backward()
    result.sum().backward()
    assert torch.allclose(result.cpu(), expected, atol=1e-5)
    assert all(torch.allclose(d.grad.cpu(), h.grad, atol=1e-5) for d, h in zip(device, host, strict=True))
    executed = torch_neuronx.get_executed_ops()
    assert executed["aten::_scaled_dot_product_fused_attention_overrideable"] == 1
    assert executed["aten::_scaled_dot_product_fused_attention_overrideable_backward"] == 1
    assert "aten::bmm" not in executed


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, foreach=True),
        lambda p: torch.optim.AdamW(p, fused=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adagrad(p),
        lambda p: torch.optim.Rprop(p),
        lambda p: torch.optim.RMSprop(p),
    ],
)
def test_optimisers_follow_the_cpu_and_stop_compiling(make, compiled_by) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)]
    layers[1].load_state_dict(layers[0].state_dict())
    layers[1].to("neuron")
    inputs = torch.randn(5, 8)
    optimizers = [make(layer.parameters()) for layer in layers]

    def step() -> None:
        for layer, optimizer in zip(layers, optimizers, strict=True):
            optimizer.zero_grad()
            layer(inputs.to(layer.weight.device)).pow(2).mean().backward()
            optimizer.step()

    step()
    step()
    assert compiled_by(step) == 0
    assert torch.allclose(layers[1].weight.cpu(), layers[0].weight, atol=1e-6)
