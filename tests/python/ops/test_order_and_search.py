"""Order statistics, searches and histograms in the forms op_db leaves out: NaNs, ties, sizes, odd arguments."""

import oracle
import pytest
import torch

aten = torch.ops.aten
nan, inf = float("nan"), float("inf")


def check(func, *args, **kwargs):
    oracle.check_call(func, list(args), kwargs, func(*args, **kwargs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("keepdim", [False, True])
def test_median_of_rows_with_nan(dtype, keepdim):
    rows = torch.tensor(
        [[nan, 1, nan, 2], [3, inf, 1, -inf], [nan, nan, nan, nan], [4, 0, nan, 4], [1, 1, 1, 1]], dtype=dtype
    )
    for x, dim in ((rows, 1), (rows, -1), (rows.t(), 0), (rows.reshape(5, 2, 2), 1)):
        check(aten.median.dim, x, dim, keepdim)
    for x, dim in ((rows[[0, 1, 3, 4]], 1), (rows[:2].t(), 0)):  # of NaNs alone, CPU chooses any
        check(aten.nanmedian.dim, x, dim, keepdim)
    for row in rows:
        check(aten.median.default, row)
        check(aten.nanmedian.default, row)


def test_index_of_the_median_among_equal_values():
    torch.manual_seed(0)
    for n in (1, 2, 7, 16, 50, 333):
        check(aten.median.dim, torch.randint(0, 4, (6, n)), 1)


def test_order_statistics_of_nothing_and_of_one_number():
    check(aten.median.default, torch.empty(0))
    check(aten.nanmedian.default, torch.empty(2, 0, dtype=torch.float16))
    for func, args in (
        (aten.median.dim, (0,)),
        (aten.nanmedian.dim, (-1,)),
        (aten.kthvalue.default, (1,)),
        (aten.mode.default, ()),
    ):
        check(func, torch.tensor(3.0), *args)
    check(aten.median.dim, torch.empty(0, 3), 1)
    check(aten.kthvalue.default, torch.empty(0, 3), 2)
    check(aten.mode.default, torch.empty(0, 3), 1, True)


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_mode_is_the_smallest_of_the_most_frequent(n):
    torch.manual_seed(0)
    check(aten.mode.default, torch.randint(0, 3, (40, n)), 1)
    check(aten.mode.default, torch.randint(0, 3, (n, 40)).to(torch.bfloat16), 0, True)


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 64, 65, 100, 1000])
def test_every_place_of_a_search_in_rows_of_any_length(n):
    torch.manual_seed(0)
    bounds = torch.randint(0, 2 * n + 1, (n,)).sort()[0].float()
    values = torch.cat([torch.arange(-1, 2 * n + 2.0), torch.tensor([nan, inf, -inf])])
    rows = torch.stack([bounds, bounds + 3])
    for right in (False, True):
        check(aten.bucketize.Tensor, values, bounds, right=right)
        check(aten.searchsorted.Tensor, rows, torch.stack([values, values]), right=right, out_int32=True)
    check(aten.isin.Tensor_Tensor, values, bounds)
    check(aten.isin.Tensor_Tensor, values.long(), torch.cat([bounds, torch.tensor([nan])]), invert=True)


def test_search_promotes_as_cpu_does():
    whole, half = torch.tensor([1, 2, 3], dtype=torch.int32), torch.tensor([1, 2, 3], dtype=torch.float16)
    for number in (2.5, 2, 2**40, 2.0001):
        check(aten.searchsorted.Scalar, whole, number)
        check(aten.bucketize.Scalar, number, half, right=True)
        check(aten.isin.Scalar_Tensor, number, whole)
        check(aten.isin.Tensor_Scalar, half, number)
    check(aten.bucketize.Tensor, torch.tensor([2.0001, nan]), half)
    check(aten.bucketize.Tensor, torch.tensor(2.5), whole)
    check(aten.isin.Tensor_Tensor, torch.tensor([1, 2**24 + 1]), torch.tensor([2.0**24]))


def test_search_through_a_sorter():
    torch.manual_seed(0)
    rows = torch.randn(3, 40)
    check(aten.searchsorted.Tensor, rows, torch.randn(3, 5), sorter=rows.argsort(1), side="right")
    check(aten.searchsorted.Scalar, rows[0], 0.5, sorter=rows[0].argsort())


def test_values_on_the_edges_of_a_histogram():
    torch.manual_seed(0)
    dtype = torch.float32  # CPU's edges in float64 are rounded once where ours are twice
    for bins, low, high in ((7, 0.0, 0.7), (49, -1.0, 1.0), (100, 0.0, 3.0), (1, 2.0, 2.0)):
        edges = torch.histogram(torch.zeros(1, dtype=dtype), bins, range=(low, high))[1]
        x = torch.cat(
            [edges, edges.nextafter(edges + 1), edges.nextafter(edges - 1), torch.tensor([nan, inf, -inf], dtype=dtype)]
        )
        check(aten.histogram.bin_ct, x, bins, range=[low, high])
        check(aten.histogram.bins_tensor, x, edges, weight=torch.rand(len(x), dtype=dtype), density=True)
        check(aten.histc.default, x, bins, low, high + (low == high))


def test_a_histogram_without_a_range():
    torch.manual_seed(0)
    for x in (torch.randn(300), torch.full((5,), 2.0), torch.empty(0), torch.randn(4, 5).t()):
        check(aten.histogram.bin_ct, x, 9)
        check(aten.histc.default, x, 9)
        check(aten.histc.default, x.half(), 9)
