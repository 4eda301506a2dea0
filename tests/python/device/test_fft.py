"""Fourier transforms of lengths that op_db does not reach: several factors, large primes, long even and odd real signals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")

# One factor; two and three of them; a prime with a matrix of its own, beside a factor; primes by convolution, beside a
# factor; odd with factors.
LENGTHS = [1, 2, 64, 96, 127, 128, 400, 2 * 113, 4096, 5000, 3**7, 131, 2 * 509, 3 * 1009]


def assert_as_close_as_cpu(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
    want, got = f(x), f(x.to("neuron"))
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    exact = f(x.to(torch.complex128 if x.is_complex() else torch.float64))
    scale = exact.abs().square().mean().sqrt() * torch.finfo(x.dtype).eps
    own, ours = ((y.to(exact.dtype) - exact).abs().max() / scale for y in (want, got.cpu()))
    # In float64 CPU is its own reference, and off by 600 roundings beside large primes.
    assert ours <= max(4 * own, 40 if exact.dtype != want.dtype else 2000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(n)
    signal = torch.randn(3, n, generator=generator, dtype=dtype)
    spectrum = torch.randn(3, n, generator=generator, dtype=dtype.to_complex())
    assert_as_close_as_cpu(torch.fft.fft, spectrum)
    assert_as_close_as_cpu(torch.fft.ifft, spectrum)
    assert_as_close_as_cpu(torch.fft.fft, signal)
    assert_as_close_as_cpu(torch.fft.rfft, signal)
    assert_as_close_as_cpu(lambda x: torch.fft.irfft(x, n=n), spectrum)


@pytest.mark.parametrize("dim", [(0, 1), (2, 0), (1, 2, 0)])
def test_several_dims_of_permuted_input(dim: tuple[int, ...]) -> None:
    x = torch.randn(96, 70, 12, dtype=torch.complex64).permute(2, 0, 1)
    assert_as_close_as_cpu(lambda x: torch.fft.fftn(x, dim=dim, norm="ortho"), x)
    assert_as_close_as_cpu(lambda x: torch.fft.irfftn(x, dim=dim), x)
    assert_as_close_as_cpu(lambda x: torch.fft.rfftn(x, dim=dim, norm="forward"), x.real)


def test_real_spectra_ignore_what_cannot_be_imaginary() -> None:
    for n in (8, 200, 1000):
        x = torch.randn(n // 2 + 1, dtype=torch.complex64)
        x[0], x[-1] = complex(1, float("nan")), complex(1, float("inf"))
        assert torch.fft.irfft(x.to("neuron"), n=n).cpu().isfinite().all()


def test_frames_of_speech_and_back() -> None:
    speech, window = torch.randn(2, 4000), torch.hann_window(400)
    want = torch.stft(speech, 400, 160, window=window, center=False, return_complex=True)
    got = torch.stft(speech.to("neuron"), 400, 160, window=window.to("neuron"), center=False, return_complex=True)
    assert got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=5e-5)
    back = torch.istft(got, 400, 160, window=window.to("neuron"))
    torch.testing.assert_close(back.cpu(), torch.istft(want, 400, 160, window=window), rtol=1e-5, atol=5e-5)
