"""Results whose size depends on values."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")


@pytest.mark.parametrize("shape", [(7,), (4, 5), (2, 3, 4), (0,), (3, 0)])
@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
def test_nonzero_and_masked_select(shape: tuple[int, ...], density: float) -> None:
    torch.manual_seed(0)
    x = torch.rand(shape)
    mask = torch.rand(shape) < density
    n = (x * mask).to("neuron").nonzero()
    expected = (x * mask).nonzero()
    assert torch.equal(n.cpu(), expected) and n.stride() == expected.stride()
    assert torch.equal(x.to("neuron").masked_select(mask.to("neuron")).cpu(), x.masked_select(mask))


def test_nonzero_of_a_transposed_view() -> None:
    x = (torch.arange(12).reshape(3, 4) % 3).to("neuron")
    assert torch.equal(x.t().nonzero().cpu(), x.cpu().t().nonzero())


def test_a_new_count_in_the_same_class_does_not_compile(compiled_by) -> None:
    x = torch.arange(100.0)
    d = x.to("neuron")
    _ = d.masked_select((x < 40).to("neuron"))
    masks = [(x < n).to("neuron") for n in (35, 50, 64)]
    assert compiled_by(lambda: [d.masked_select(m) for m in masks]) == 0


@pytest.mark.parametrize("repeats", [[1, 2, 0, 3], [0, 0], [], [5], list(range(40))])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_repeat_interleave(repeats: list[int], dtype: torch.dtype) -> None:
    counts = torch.tensor(repeats, dtype=dtype)
    expected = torch.repeat_interleave(counts)
    result = torch.repeat_interleave(counts.to("neuron"))
    assert torch.equal(result.cpu(), expected) and result.dtype == expected.dtype
    strided = torch.stack([counts, counts], 1).to("neuron")[:, 0]
    assert torch.equal(torch.repeat_interleave(strided).cpu(), expected)
    assert torch.equal(torch.repeat_interleave(strided, output_size=sum(repeats)).cpu(), expected)
    rows = torch.randn(len(repeats), 3)
    assert torch.equal(rows.to("neuron").repeat_interleave(strided, 0).cpu(), rows.repeat_interleave(counts, 0))


def test_a_new_total_of_repeats_in_the_same_class_does_not_compile(compiled_by) -> None:
    _ = torch.repeat_interleave(torch.tensor([20, 15]).to("neuron"))
    others = [torch.tensor(r).to("neuron") for r in ([40, 2], [0, 60])]
    assert compiled_by(lambda: [torch.repeat_interleave(r) for r in others]) == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16, torch.bool, torch.uint8])
@pytest.mark.parametrize("shape", [(), (1,), (50,), (6, 7), (0,), (0, 3)])
def test_unique(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randint(0, 9, shape).to(dtype)
    for asked in ((True, True), (True, False), (False, True), (False, False)):
        for layout in (x, x.t() if x.dim() == 2 else x):
            expected = torch.ops.aten._unique2(layout, True, *asked)
            for got, want in zip(torch.ops.aten._unique2(layout.to("neuron"), True, *asked), expected, strict=True):
                assert torch.equal(got.cpu(), want) and got.dtype == want.dtype


def test_every_nan_is_unique_and_zeros_are_equal() -> None:
    x = torch.tensor([3.0, torch.nan, 0.0, torch.nan, -0.0])
    got = torch.unique(x.to("neuron"), return_counts=True)
    want = torch.unique(x, return_counts=True)
    assert torch.equal(got[0].cpu().nan_to_num(9), want[0].nan_to_num(9)) and torch.equal(got[1].cpu(), want[1])


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bfloat16, torch.bool, torch.uint8])
@pytest.mark.parametrize("shape", [(1,), (40,), (30, 2), (30, 7), (5, 3, 4), (0, 3), (3, 0)])
@pytest.mark.parametrize("consecutive", [False, True])
def test_unique_slices(dtype: torch.dtype, shape: tuple[int, ...], consecutive: bool) -> None:
    torch.manual_seed(0)
    f = torch.unique_consecutive if consecutive else torch.unique
    x = torch.randint(0, 2, shape).to(dtype)
    for layout in (x, x.movedim(0, -1)):
        for dim in range(layout.dim()):
            try:
                expected = f(layout, dim=dim, return_inverse=True, return_counts=True)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=str(error)):
                    f(layout.to("neuron"), dim=dim)
                continue
            got = f(layout.to("neuron"), dim=dim, return_inverse=True, return_counts=True)
            for g, want in zip(got, expected, strict=True):
                assert torch.equal(g.cpu(), want) and g.dtype == want.dtype and g.stride() == want.stride()


def test_unique_rows_in_lexicographic_order() -> None:
    x = torch.tensor([[2.0, -1.0, 5.0], [-3.0, 7.0, 0.0], [2.0, -1.0, 4.0], [2.0, -2.0, 9.0], [2.0, -1.0, 4.0]])
    assert torch.equal(torch.unique(x.to("neuron"), dim=0).cpu(), torch.unique(x, dim=0))


@pytest.mark.parametrize("size", [0, 1, 5, 30])
def test_nonzero_static(size: int) -> None:
    for x in (torch.arange(12).reshape(3, 4) % 3, torch.tensor(1), torch.zeros(0, 2), torch.eye(4, dtype=torch.bool)):
        want = torch.ops.aten.nonzero_static(x, size=size, fill_value=-7)
        got = torch.ops.aten.nonzero_static(x.to("neuron"), size=size, fill_value=-7)
        assert torch.equal(got.cpu(), want) and got.shape == want.shape


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_bincount(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for x in (torch.randint(0, 40, (100,)), torch.tensor([16]), torch.arange(17), torch.empty(0)):
        x = x.to(dtype)
        for weights in (None, torch.rand(len(x)), torch.randint(0, 9, (len(x),))):
            for minlength in (0, 20):
                want = torch.bincount(x, weights, minlength)
                got = torch.bincount(x.to("neuron"), None if weights is None else weights.to("neuron"), minlength)
                assert got.dtype == want.dtype and torch.allclose(got.cpu(), want)
    with pytest.raises(RuntimeError, match="non-negative integral"):
        torch.bincount(torch.tensor([3, -1]).to("neuron"))


def test_histograms_of_values_that_give_no_range_are_refused_in_cpus_words() -> None:
    x = torch.tensor([[1.0, torch.inf], [2.0, 3.0]]).to("neuron")
    with pytest.raises(RuntimeError, match=r"torch.histc: range of \[1, inf\] is not finite"):
        torch.histc(x)
    with pytest.raises(RuntimeError, match="dimension 1's range .* is not finite"):
        torch.histogramdd(x, [2, 2])
    with pytest.raises(RuntimeError, match="min should not exceed max"):
        torch.histogram(x, 4, range=(3.0, 0.0))
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(x, 4, 3, 0)
    assert torch.equal(torch.histc(x, 4, 0, 4).cpu(), torch.histc(x.cpu(), 4, 0, 4))


def test_an_index_by_a_mask_has_the_strides_of_the_cpu() -> None:
    x = torch.randn(5, 3, 4).transpose(1, 2)
    for mask in (torch.tensor([True, False, True, True, False]), x[..., 0] > 0):
        result, expected = x.to("neuron")[mask.to("neuron")], x[mask]
        assert torch.equal(result.cpu(), expected) and result.stride() == expected.stride()


def test_boolean_indexing_reads() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    rows, full = torch.tensor([True, False, True, True]), x % 5 == 0
    columns = torch.tensor([True, False, False, True, False, True])
    d = x.to("neuron")
    assert torch.equal(d[rows.to("neuron")].cpu(), x[rows])
    assert torch.equal(d[full.to("neuron")].cpu(), x[full])
    assert torch.equal(d[:, columns.to("neuron")].cpu(), x[:, columns])
    assert d[torch.zeros(4, dtype=torch.bool).to("neuron")].shape == (0, 6)


def test_boolean_indexing_writes() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    d = x.to("neuron")
    rows, full = torch.tensor([True, False, True, False]), x % 5 == 0
    x[full], d[full.to("neuron")] = -1.0, -1.0
    x[rows], d[rows.to("neuron")] = 9.0, 9.0
    values = torch.arange(12.0).reshape(2, 6)
    x[rows], d[rows.to("neuron")] = values, values.to("neuron")
    assert torch.equal(d.cpu(), x)


def test_mask_of_the_wrong_shape_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="does not match the shape of the indexed tensor"):
        torch.ones(3, 4).to("neuron")[torch.ones(2, dtype=torch.bool).to("neuron")]


def test_integer_indices_on_the_cpu_are_accepted() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    index = torch.tensor([3, 0])
    assert torch.equal(x.to("neuron")[index].cpu(), x[index])


def test_equal() -> None:
    x = torch.arange(5.0).to("neuron")
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:4])
