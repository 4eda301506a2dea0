"""torch.compile(backend="neuron") against CPU eager: values, gradients, mutation, randomness, what compiles when."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_neuronx


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch.compiler.reset()
    torch.manual_seed(0)
    torch_neuronx.clear_op_tracking()
    yield
    assert torch_neuronx.get_fallback_ops() == {}, "a compiled test ran operators on the CPU"


def compiled(fn, **options):
    return torch.compile(fn, backend="neuron", fullgraph=True, **options)


def assert_same(actual, expected, **tolerance):
    torch.testing.assert_close(actual.cpu(), expected, **tolerance)
    assert actual.stride() == expected.stride()


def test_forward_equals_cpu():
    x, w = torch.randn(8, 16), torch.randn(32, 16)

    def f(x, w):
        return F.gelu(x @ w.t()).softmax(-1).sum(0)

    assert_same(compiled(f)(x.to("neuron"), w.to("neuron")), f(x, w))


def test_backward_equals_cpu():
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    x = torch.randn(8, 16)
    model(x).square().mean().backward()
    expected = {n: p.grad for n, p in model.named_parameters()}
    model.zero_grad()
    model = model.to("neuron")
    compiled(model)(x.to("neuron")).square().mean().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad.cpu(), expected[name], msg=name)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_forward_and_backward(is_causal: bool):
    q, k, v = (torch.randn(2, 3, 40, 16, requires_grad=True) for _ in range(3))
    F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).sin().sum().backward()
    device = [t.detach().to("neuron").requires_grad_() for t in (q, k, v)]
    compiled(F.scaled_dot_product_attention)(*device, is_causal=is_causal).sin().sum().backward()
    for ours, cpu in zip(device, (q, k, v), strict=True):
        torch.testing.assert_close(ours.grad.cpu(), cpu.grad, rtol=1e-4, atol=1e-5)


def test_inputs_are_mutated_in_place():
    def f(x, y):
        x.mul_(2).add_(y)
        y[1:] += 1
        return x.sum()

    x, y = torch.randn(4, 5), torch.randn(4, 5)
    u, v = x.to("neuron"), y.to("neuron")
    address = u.data_ptr()
    result, expected = compiled(f)(u, v), f(x, y)
    assert_same(result, expected)
    assert_same(u, x)
    assert_same(v, y)
    assert u.data_ptr() == address


def test_strided_inputs_and_outputs_keep_their_layout():
    def f(x):
        return x.t() + 1, x[:, ::2] * 2, x.permute(1, 0).contiguous()

    x = torch.randn(6, 8).t()
    for actual, expected in zip(compiled(f)(x.to("neuron")), f(x), strict=True):
        assert_same(actual, expected)


def test_a_view_of_an_input_is_returned_as_a_view():
    x = torch.randn(4, 6, device="neuron")
    y = compiled(lambda t: t.view(2, 12))(x)
    y.zero_()
    assert x.abs().sum().item() == 0


def test_dropout_draws_what_eager_draws():
    x = torch.ones(1000, device="neuron")
    torch.manual_seed(3)
    eager = F.dropout(x, 0.4)
    torch.manual_seed(3)
    assert torch.equal(compiled(lambda t: F.dropout(t, 0.4))(x).cpu(), eager.cpu())


def test_each_call_draws_anew_without_compiling():
    f = compiled(lambda t: F.dropout(t, 0.5))
    x = torch.ones(1000, device="neuron")
    first = f(x).cpu()
    count = torch_neuronx.compile_count()
    assert not torch.equal(f(x).cpu(), first)
    assert torch_neuronx.compile_count() == count


@pytest.mark.parametrize("name", ["AdamW", "Adam", "SGD"])
def test_optimizer_step_with_a_schedule_compiles_at_most_twice(name: str):
    def train(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.randn(3, 4).to(device)), nn.Parameter(torch.randn(4).to(device))]
        groups = [{"params": parameters[:1], "weight_decay": 0.1}, {"params": parameters[1:], "weight_decay": 0.0}]
        optimizer = getattr(torch.optim, name)(groups, lr=0.1)
        step = torch.compile(optimizer.step, backend="neuron") if device == "neuron" else optimizer.step
        compiles = []
        for i in range(6):
            for p in parameters:
                p.grad = (torch.arange(p.numel()).reshape(p.shape).float() - i).to(device)
            for group in optimizer.param_groups:
                group["lr"] = 0.1 / (i + 1)
            before = torch_neuronx.compile_count()
            step()
            compiles.append(torch_neuronx.compile_count() - before)
        if device == "neuron":
            assert sum(compiles[2:]) == 0, compiles
        return [p.detach().cpu() for p in parameters]

    for actual, expected in zip(train("neuron"), train("cpu"), strict=True):
        # The graph counts steps in float32 tensors where eager uses Python's float64.
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_changing_shapes_are_never_refused():
    f = compiled(lambda x: (x * 2).sum(-1), dynamic=True)
    for rows in (3, 5, 9, 17):
        x = torch.randn(rows, rows + 1)
        assert_same(f(x.to("neuron")), (x * 2).sum(-1))


def test_cpu_scalars_inside_a_graph_do_not_compile_again():
    f = compiled(lambda x, s: x * s + s)
    x = torch.randn(5)
    for value in (1.0, 2.5, -3.0):
        s = torch.tensor(value)
        assert_same(f(x.to("neuron"), s), x * s + s)
    count = torch_neuronx.compile_count()
    f(x.to("neuron"), torch.tensor(7.0))
    assert torch_neuronx.compile_count() == count


def test_a_host_read_inside_a_graph_splits_it_into_segments():
    def f(x):
        y = x * 2
        return y + y.cpu().sum().to("neuron")

    x = torch.randn(6)
    expected = x * 2 + (x * 2).sum()
    torch.testing.assert_close(torch.compile(f, backend="neuron")(x.to("neuron")).cpu(), expected)


def test_compiled_float_intermediates_of_integer_work_stay_exact():
    def f(x):
        return (x // 3) * 3 + x % 3, x.cumsum(0), (x << 2) ^ x

    x = torch.randint(-(2**60), 2**60, (64,))
    for actual, expected in zip(compiled(f)(x.to("neuron")), f(x), strict=True):
        assert_same(actual, expected, rtol=0, atol=0)


def test_unknown_options_are_refused_by_name():
    f = torch.compile(lambda x: x + 1, backend="neuron", options={"no_such_option": 1})
    with pytest.raises(Exception, match="no_such_option"):
        f(torch.ones(2, device="neuron"))


def test_compile_as_the_first_statement_of_a_program_with_any_backend():
    program = (
        "import torch\n"
        "f = torch.compile(lambda x: x * 2 + 1, backend='eager')\n"
        "assert f(torch.ones(2)).tolist() == [3, 3]\n"
        "g = torch.compile(lambda x: x * 2 + 1, backend='neuron')\n"
        "assert g(torch.ones(2, device='neuron')).tolist() == [3, 3]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
