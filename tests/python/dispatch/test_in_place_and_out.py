"""In-place and out= forms derived from functional operators: results, aliases, casts, resizing, overlap."""

from __future__ import annotations

import warnings

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")


def both(f, *tensors: torch.Tensor):
    """f on CPU clones and on device copies; both sets of tensors afterwards, and both results."""
    host = [t.clone() for t in tensors]
    device = [t.to("neuron") for t in tensors]
    return host, f(*host), device, f(*device)


@pytest.mark.parametrize("view", ["dense", "transposed", "row", "strided"])
def test_in_place_on_views_changes_exactly_the_view(view: str) -> None:
    views = {"dense": lambda t: t, "transposed": lambda t: t.t(), "row": lambda t: t[1], "strided": lambda t: t[::2, 1::2]}
    base = torch.arange(30.0).reshape(5, 6)

    def f(t: torch.Tensor) -> torch.Tensor:
        v = views[view](t)
        result = v.add_(1.5).mul_(2)
        assert result.data_ptr() == v.data_ptr()
        return v

    host, _, device, _ = both(f, base)
    assert torch.equal(device[0].cpu(), host[0])


def test_in_place_keeps_dtype_and_refuses_narrowing() -> None:
    a = torch.tensor([1, 2]).to("neuron")
    a.add_(2)
    assert a.tolist() == [3, 4] and a.dtype == torch.int64
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        a.add_(1.5)
    b = torch.ones(2, dtype=torch.bfloat16).to("neuron")
    b.add_(torch.full((2,), 0.5).to("neuron"))
    assert b.dtype == torch.bfloat16 and b.tolist() == [1.5, 1.5]


def test_in_place_with_itself_and_with_parts_of_itself() -> None:
    base = torch.arange(16.0).reshape(4, 4)
    for f in (
        lambda t: t.add_(t),
        lambda t: t[0].add_(t[1]),
        lambda t: t[:, :2].mul_(t[:, 1:3].clone()),
        lambda t: t.addmm_(t, t),
        lambda t: t[:2].addmm_(t[2:, :2], t[2:]),
    ):
        host, _, device, _ = both(f, base)
        assert torch.equal(device[0].cpu(), host[0])


def test_overlap_is_refused_in_pytorchs_words() -> None:
    t = torch.arange(10.0).to("neuron")
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        t[:1].expand(5).add_(1)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch.add(t[:9], 1, out=t[1:])
    square = torch.ones(3, 3).to("neuron")
    with pytest.raises(RuntimeError, match="some elements"):
        square.add_(square.t())


def test_out_is_written_with_its_own_strides() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    out = torch.zeros(4, 3).to("neuron").t()
    result = torch.add(x.to("neuron"), 1, out=out)
    assert result is out and out.stride() == (1, 3) and torch.equal(out.cpu(), x + 1)
    strided = torch.zeros(6, 8).to("neuron")
    torch.sqrt(x.to("neuron"), out=strided[::2, ::2])
    expected = torch.zeros(6, 8)
    torch.sqrt(x, out=expected[::2, ::2])
    assert torch.allclose(strided.cpu(), expected)


def test_out_is_resized_with_the_usual_warning() -> None:
    x = torch.ones(3, 4).to("neuron")
    empty = torch.empty(0, device="neuron")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.mul(x, 2, out=empty)
    assert empty.shape == (3, 4) and empty.cpu().sum() == 24
    wrong = torch.zeros(5).to("neuron")
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.mul(x, 3, out=wrong)
    assert wrong.shape == (3, 4) and wrong.cpu().sum() == 36


def test_out_of_another_dtype() -> None:
    x = torch.tensor([1, 2]).to("neuron")
    wide = torch.empty(2, device="neuron", dtype=torch.float64)
    torch.add(x, x, out=wide)
    assert wide.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="can't be cast|dtype"):
        torch.add(x, 0.5, out=torch.empty(2, device="neuron", dtype=torch.int64))


def test_out_that_is_an_input() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    d = x.to("neuron")
    torch.cumsum(d, 1, out=d)
    assert torch.equal(d.cpu(), torch.cumsum(x, 1))


def test_in_place_on_autograd_leaf_views_and_versions() -> None:
    t = torch.ones(3).to("neuron")
    before = t._version
    t.mul_(2)
    assert t._version == before + 1


def test_which_operands_are_equal_is_not_remembered() -> None:
    a, b, c = torch.ones(3), torch.full((3,), 2.0), torch.full((3,), 5.0)
    da, db, dc = (t.to("neuron") for t in (a, b, c))
    for first, second in ((db, db), (db, dc), (da, db), (da, da), (dc, da)):
        host = [t.cpu() for t in (da, first, second)]
        if first is da:
            host[1] = host[0]
        if second is da:
            host[2] = host[0]
        da.addcmul_(first, second)
        assert torch.equal(da.cpu(), host[0].addcmul_(host[1], host[2]))
        lists = [da.clone()], [first.clone()], [second.clone()]
        if first is second:
            lists = lists[0], lists[1], lists[1]
        host = [[t.cpu() for t in part] for part in lists]
        torch._foreach_addcmul_(*lists, value=-1)
        torch._foreach_addcmul_(*host, value=-1)
        assert torch.equal(lists[0][0].cpu(), host[0][0])
        out = first if first is not da else dc
        expected = torch.addcmul(a, first.cpu(), second.cpu())
        torch.addcmul(a.to("neuron"), first.clone(), second, out=out.clone())
        assert torch.equal(torch.addcmul(a.to("neuron"), first, second).cpu(), expected)


def test_foreach_in_place() -> None:
    host = [torch.arange(n, dtype=torch.float32) for n in (3, 5, 0, 2)]
    device = [t.to("neuron") for t in host]
    torch._foreach_add_(host, 1.5)
    torch._foreach_add_(device, 1.5)
    torch._foreach_mul_(host, host)
    torch._foreach_mul_(device, device)
    assert all(torch.equal(d.cpu(), h) for d, h in zip(device, host, strict=True))


def test_slice_assignment_then_gradient() -> None:
    for where in ("cpu", "neuron"):
        w = torch.arange(8.0).reshape(2, 4).to(where).requires_grad_()
        y = w * 2
        y[:, :2] = 0
        y.pow(2).sum().backward()
        gradient = w.grad.cpu()
        if where == "cpu":
            expected = gradient
    assert torch.equal(gradient, expected)


def test_random_in_place_ops_write_views_only() -> None:
    t = torch.zeros(4, 4).to("neuron")
    t[1].uniform_(1, 2)
    t[2].normal_(10, 0.1)
    h = t.cpu()
    assert h[0].sum() == 0 and h[3].sum() == 0 and (h[1] >= 1).all() and (h[2] > 5).all()


def test_the_same_tensor_twice_in_a_list() -> None:
    import torch_neuronx

    torch_neuronx.config.set_fallback("allow")  # the fixture restores it
    a = torch.arange(3.0).to("neuron")
    torch._foreach_add_([a, a], 1.0)
    assert a.tolist() == [2.0, 3.0, 4.0]
    flat = torch.arange(6.0).to("neuron")
    torch_neuronx.clear_op_tracking()
    torch._foreach_mul_([flat[:3], flat[3:]], 2.0)
    assert flat.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0] and torch_neuronx.fallback_count() == 0


def test_cat_into_one_of_its_inputs_is_refused() -> None:
    a = torch.ones(4).to("neuron")
    with pytest.raises(RuntimeError, match="some elements|memory location"):
        torch.cat([a[:2], a[2:]], out=a)
