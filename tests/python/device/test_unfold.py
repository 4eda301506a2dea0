"""unfold and fold, each the other's gradient: results are the CPU's for every stride, dilation and padding of both dims."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

SIZE = (11, 13)
FORMS = [
    (kernel, stride, dilation, padding)
    for kernel, stride, dilation, padding in itertools.product(
        ((1, 1), (3, 2), (4, 5)), (1, 2, 3, (5, 1)), (1, 2, (3, 1)), (0, 2)
    )
    if all(
        SIZE[i] + 2 * padding >= (dilation if isinstance(dilation, int) else dilation[i]) * (kernel[i] - 1) + 1
        for i in (0, 1)
    )
]


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), FORMS)
def test_windows_and_their_sum_equal_cpus(kernel, stride, dilation, padding, no_fallback) -> None:
    torch.manual_seed(0)
    form = {"kernel_size": kernel, "stride": stride, "dilation": dilation, "padding": padding}
    x = torch.randint(-8, 9, (2, 3, *SIZE)).float()
    windows = F.unfold(x, **form)
    torch.testing.assert_close(F.unfold(x.to("neuron"), **form).cpu(), windows, rtol=0, atol=0)
    folded = F.fold(windows, SIZE, **form)
    torch.testing.assert_close(F.fold(windows.to("neuron"), SIZE, **form).cpu(), folded, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64, torch.float64, torch.float16])
@pytest.mark.parametrize("shape", [(3, 6, 6), (0, 3, 6, 6), (2, 1, 6, 6)])
def test_other_dtypes_and_unbatched_images(dtype: torch.dtype, shape: tuple[int, ...], no_fallback) -> None:
    torch.manual_seed(0)
    x = torch.randint(0, 3, shape).to(dtype)
    windows = F.unfold(x, 3, padding=1)
    got = F.unfold(x.to("neuron"), 3, padding=1)
    folded = F.fold(got, (6, 6), 3, padding=1)
    torch.testing.assert_close(got.cpu(), windows, rtol=0, atol=0)
    torch.testing.assert_close(folded.cpu(), F.fold(windows, (6, 6), 3, padding=1), rtol=0, atol=0)
    assert folded.stride() == F.fold(windows, (6, 6), 3, padding=1).stride()


def test_gradients_are_each_other(no_fallback) -> None:
    x = torch.arange(72.0).reshape(2, 1, 6, 6)
    grads = []
    for where in ("cpu", "neuron"):
        a = x.detach().to(where).requires_grad_()
        F.fold(F.unfold(a, 3, stride=3).pow(2), (6, 6), 3, stride=3).sum().backward()
        grads.append(a.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0])
