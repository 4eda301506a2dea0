"""segment_reduce and embedding_bag in the forms op_db leaves out."""

import oracle
import pytest
import torch

aten = torch.ops.aten
nan = float("nan")


def check(func, *args, **kwargs):
    oracle.check_call(func, list(args), kwargs, func(*args, **kwargs))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 0.0, 2.5])
def test_segments_with_zeros_nans_and_nothing(reduce, initial):
    x = torch.tensor([1.0, 3, 3, nan, 5, 0, nan, 7, 7, 2, 0, 4, 0, 0])
    lengths = torch.tensor([3, 0, 4, 3, 2, 2])
    offsets = torch.tensor([0, 3, 3, 7, 10, 12, 14])
    grad = torch.tensor([1.0, 10, 100, 1000, 1e4, 1e5])
    for where in ({"lengths": lengths}, {"offsets": offsets}, {"offsets": offsets[1:-1]}):
        output = aten.segment_reduce(x, reduce, initial=initial, **where)
        check(aten.segment_reduce.default, x, reduce, initial=initial, **where)
        g = grad[: len(output)]
        check(aten._segment_reduce_backward.default, g, output, x, reduce, initial=initial, **where)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 2])
def test_bags_of_any_size(mode, padding):
    torch.manual_seed(0)
    weight = torch.randn(9, 4)
    for n, offsets in ((0, []), (0, [0, 0]), (7, [0]), (40, [0, 0, 3, 3, 20, 40]), (5, [0, 1, 2, 3, 4])):
        index = torch.randint(0, 9, (n,))
        for last in (False, True):
            offset = torch.tensor([*offsets, n] if last else offsets, dtype=torch.int64)
            check(aten._embedding_bag.default, weight, index, offset, False, mode, False, None, last, padding)
            narrow = (weight.double(), index.int(), offset.int())
            check(aten._embedding_bag_forward_only.default, *narrow, False, mode, False, None, last, padding)
