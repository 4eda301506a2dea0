"""Runs PyTorch's own operator samples (op_db) on `neuron` and on the CPU and compares what a user can see.

One case is (operator, dtype, form, layout, sample index). Run one alone:

    python tests/conformance/op_db_driver.py add float32 functional contiguous 3
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

DTYPES = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
        torch.complex64,
    )
}
FORMS = ("functional", "in-place", "out", "backward")
LAYOUTS = ("contiguous", "transposed")
# torch.testing's defaults; float64 a little wider than its own, as CPU kernels differ from host to host by that much.
TOLERANCE = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-9),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-9),
}
WIDER = {torch.complex64: torch.complex128}
SAMPLES_LOOKED_AT = 400


class Refused(Exception):
    """The CPU itself does not run this case."""


@dataclass
class Failure:
    operator: str
    dtype: str
    form: str
    layout: str
    index: int
    what: str

    def __str__(self) -> str:
        command = (
            f"python tests/conformance/op_db_driver.py {self.operator} {self.dtype} {self.form} {self.layout} {self.index}"
        )
        return f"{command}\n    {self.what}"


def find_operator(name: str) -> Any:
    """The OpInfo called NAME or NAME.VARIANT."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        if name == (f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name):
            return op
    raise KeyError(name)


def samples_of(op: Any, dtype: torch.dtype, wanted: int | None) -> list[tuple[int, Any]]:
    """(index, sample) of `wanted` samples spread over the first ones, the same in every run; all of them for None."""
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = op.sample_inputs("cpu", dtype, requires_grad=False)
        every = list(enumerate(itertools.islice(samples, SAMPLES_LOOKED_AT if wanted is None else 12 * wanted)))
    if wanted is None or wanted >= len(every):
        return every
    picked = random.Random(f"{op.name} {dtype}").sample(range(len(every)), wanted)
    return [every[i] for i in sorted(picked)]


def transposed(t: torch.Tensor) -> torch.Tensor:
    """The same values with other strides: last two dimensions exchanged, or every second element of a vector."""
    t = t.detach().resolve_conj().resolve_neg()
    if t.dim() >= 2:
        return t.transpose(-1, -2).contiguous().transpose(-1, -2)
    if t.dim() == 1 and t.numel() > 1:
        return torch.stack([t, t], dim=-1)[:, 0]
    return t.clone()


def laid_out(t: torch.Tensor, layout: str) -> torch.Tensor:
    return transposed(t) if layout == "transposed" else t.detach().clone()


def to_device(t: torch.Tensor) -> torch.Tensor:
    """On the device with the same size, strides and offset."""
    t = t.detach().resolve_conj().resolve_neg()
    if t.numel() == 0:
        return torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="neuron")
    elements = t.untyped_storage().nbytes() // t.element_size()
    flat = t.as_strided((elements,), (1,), 0)
    return flat.to("neuron").as_strided(t.size(), t.stride(), t.storage_offset())


def map_tensors(f: Callable[[torch.Tensor], Any], tree: Any) -> Any:
    return tree_map(lambda x: f(x) if isinstance(x, torch.Tensor) else x, tree)


def device_arguments(arguments: Any, indices_stay: bool = False) -> Any:
    """Arguments on the device; `indices_stay`: all but tensors of integers behind the first argument."""

    def move(t: torch.Tensor) -> torch.Tensor:
        stays = indices_stay and t is not arguments[0] and not (t.is_floating_point() or t.is_complex())
        return t if stays else to_device(t)

    moved = map_tensors(move, arguments)
    return tree_map(lambda x: torch.device("neuron") if isinstance(x, torch.device) or x == "cpu" else x, moved)


def must_stay_on_cpu(error: Exception) -> bool:
    """PyTorch says that it takes an argument on the CPU only."""
    return "to be on cpu" in str(error)


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    return torch.equal(a, b) or (torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num()))


def ulp(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    info = torch.finfo(dtype)
    return torch.clamp(t.abs() * info.eps, min=info.smallest_normal * info.eps)


def values_differ(got: torch.Tensor, want: torch.Tensor, reference: torch.Tensor | None, sums: bool) -> str | None:
    """None, or how the device's values differ from the CPU's. `reference` is a float64 run, where there is one."""
    if not (want.is_floating_point() or want.is_complex()):
        wrong = got != want
        if not wrong.any():
            return None
        at = wrong.reshape(-1).nonzero()[0].item()
        pair = f"{got.reshape(-1)[at]} instead of {want.reshape(-1)[at]}"
        return f"{int(wrong.sum())} of {want.numel()} values differ, first at {at}: {pair}"
    rtol, atol = TOLERANCE.get(want.dtype, TOLERANCE[torch.float16])
    close = torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    if reference is not None and reference.shape == want.shape:
        wide = reference.dtype
        distance = (got.to(wide) - reference).abs()
        own = (want.to(wide) - reference).abs()
        finite = own.isfinite()
        own_worst = own[finite].max() if finite.any() else torch.zeros((), dtype=own.dtype)
        magnitude = reference.abs()
        if sums:  # gradients are sums of products that may cancel: their scale is the largest of them
            finite = magnitude.isfinite()
            magnitude = magnitude.clamp(min=magnitude[finite].max().item() if finite.any() else 0.0)
        allowed = 2 * torch.maximum(own, own_worst * (reference.abs() > 0)) + 4 * ulp(magnitude, want.dtype)
        close |= distance <= allowed
        # Where CPU overflows and float64 does not (or the other way round) either is a rounding of the truth.
        limit = torch.finfo(want.dtype).max
        close |= (reference.abs() >= limit) & (got.abs() >= limit)
        if close.all():
            return None
    wrong = ~close
    at = wrong.reshape(-1).nonzero()[0].item()
    extra = f" (float64 says {reference.reshape(-1)[at]})" if reference is not None and reference.shape == want.shape else ""
    return (
        f"{int(wrong.sum())} of {want.numel()} values differ, first at {at}: "
        f"{got.reshape(-1)[at]} instead of {want.reshape(-1)[at]}{extra}"
    )


def compare(got: Any, want: Any, reference: Any, values: bool, sums: bool = False) -> str | None:
    flat_got, spec_got = tree_flatten(got)
    flat_want, spec_want = tree_flatten(want)
    if len(flat_got) != len(flat_want):
        return f"structure {spec_got} instead of {spec_want}"
    flat_reference = tree_flatten(reference)[0] if reference is not None else [None] * len(flat_want)
    if len(flat_reference) != len(flat_want):
        flat_reference = [None] * len(flat_want)
    for i, (g, w, r) in enumerate(zip(flat_got, flat_want, flat_reference, strict=True)):
        which = f"result {i}: " if len(flat_want) > 1 else ""
        if not isinstance(w, torch.Tensor):
            if isinstance(w, torch.device):
                continue
            if g != w and not (isinstance(w, float) and abs(g - w) <= 1e-5 * abs(w)) and values and w == w:
                return f"{which}{g!r} instead of {w!r}"
            continue
        if g.device.type != "neuron":
            return f"{which}on {g.device}"
        for name in ("dtype", "shape"):
            if getattr(g, name) != getattr(w, name):
                return f"{which}{name} {getattr(g, name)} instead of {getattr(w, name)}"
        if g.stride() != w.stride():
            return f"{which}strides {g.stride()} instead of {w.stride()} (shape {tuple(w.shape)})"
        if (g.is_conj(), g.is_neg()) != (w.is_conj(), w.is_neg()):
            return f"{which}conjugate or negative bit differs"
        if values and w.numel():
            if w.is_conj() or w.is_neg():
                g, w = g.resolve_conj().resolve_neg(), w.resolve_conj().resolve_neg()
            difference = values_differ(
                g.detach().cpu(), w.detach(), r.detach() if isinstance(r, torch.Tensor) else None, sums
            )
            if difference:
                return which + difference
    return None


def widened(tree: Any) -> Any:
    def widen(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            if x.is_complex():
                return x.detach().to(torch.complex128)
            return x.detach().double() if x.is_floating_point() else x
        if isinstance(x, torch.dtype) and (x.is_floating_point or x.is_complex):
            return torch.complex128 if x.is_complex else torch.float64
        return x

    return tree_map(widen, tree)


def short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''}"


def same_choice(source: torch.Tensor, got: Any, want: Any) -> Any:
    """(values, indices along a dim, which may have gone) with CPU's indices where both choose equal values.

    Which of them is not specified.
    """
    if not isinstance(got, tuple) or source.dim() == 0:
        return got
    values, index = got[0].detach(), got[1]
    for dim in range(source.dim()):
        along = index if index.dim() == source.dim() else index.unsqueeze(dim)
        if all(m == n for d, (m, n) in enumerate(zip(along.shape, source.shape, strict=True)) if d != dim):
            chosen = source.detach().gather(dim, along).reshape(values.shape)
            if same_bits(chosen.cpu(), values.cpu()):
                return got[0], torch.empty_like(index).copy_(want[1])
    return got


class Case:
    """One sample in one form and layout: cpu() and device() run it, each on fresh copies of the arguments."""

    def __init__(self, op: Any, sample: Any, form: str, layout: str) -> None:
        self.op, self.form, self.layout = op, form, layout
        self.arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        self.broadcasts_input = sample.broadcasts_input

    def laid_out(self) -> Any:
        return map_tensors(lambda t: laid_out(t, self.layout), self.arguments)

    def call(self, arguments: Any) -> Any:
        first, rest, named = arguments
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.op(first, *rest, **named)

    def in_place(self, arguments: Any) -> Any:
        first, rest, named = arguments
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = self.op.inplace_variant(first, *rest, **named)
        if isinstance(result, torch.Tensor) and result is not first:
            raise AssertionError("the in-place form does not return its input")
        return first

    def with_out(self, arguments: Any, like: Any) -> Any:
        first, rest, named = arguments
        tensors = tensors_of(arguments)
        device = tensors[0].device if tensors else torch.get_default_device()
        outs = []
        for t in tree_leaves(like):
            out = torch.full(t.shape, 1, dtype=t.dtype, device=device)
            outs.append(
                out.transpose(-1, -2).contiguous().transpose(-1, -2)
                if self.layout == "transposed" and out.dim() >= 2
                else out
            )
        out = outs[0] if isinstance(like, torch.Tensor) else tuple(outs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.op(first, *rest, out=out, **named)
        return out

    def backward(self, arguments: Any) -> Any:
        leaves = [t.requires_grad_() for t in tensors_of(arguments) if t.is_floating_point() or t.is_complex()]
        result = self.call(arguments)
        grads: list[torch.Tensor] = []
        outputs = [t for t in tensors_of(result) if t.requires_grad]
        if not outputs or not leaves:
            raise Refused
        cotangents = []
        for t in outputs:
            generator = torch.Generator().manual_seed(t.numel())
            base = torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype)
            cotangents.append(base.to(t.device))
        found = torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
        grads += [g for g in found if g is not None]
        return grads

    def run(self, arguments: Any, like: Any = None) -> Any:
        if self.form == "functional":
            return self.call(arguments)
        if self.form == "in-place":
            return self.in_place(arguments)
        if self.form == "out":
            return self.with_out(arguments, like)
        return self.backward(arguments)

    def compare(self, values: bool) -> str | None:
        """None if the device does what the CPU does. Raises Refused if CPU does not run this."""
        like = None
        cpu_error: Exception | None = None
        try:
            if self.form == "out":
                like = self.call(self.laid_out())
                leaves = tree_leaves(like)
                if not leaves or not all(isinstance(t, torch.Tensor) for t in leaves):
                    raise Refused
            on_cpu = self.laid_out()
            untouched = [t.detach().clone() for t in tensors_of(on_cpu)]
            want = self.run(on_cpu, like)
        except Refused:
            raise
        except Exception as error:  # noqa: BLE001
            cpu_error = error
        arguments = device_arguments(self.laid_out())
        before = [t.detach().clone() for t in tensors_of(arguments)]
        # Factories without a tensor argument make their result on the current default device.
        place = contextlib.nullcontext() if before else torch.device("neuron")
        try:
            with place:
                try:
                    got = self.run(arguments, like)
                except Exception as error:
                    if not must_stay_on_cpu(error):
                        raise
                    arguments = device_arguments(self.laid_out(), indices_stay=True)
                    before = [t.detach().clone() for t in tensors_of(arguments)]
                    got = self.run(arguments, like)
        except Exception as error:  # noqa: BLE001
            if cpu_error is not None:
                if type(error) is not type(cpu_error) and not isinstance(error, type(cpu_error)):
                    return f"{short(error)} instead of {short(cpu_error)}"
                raise Refused from cpu_error
            return short(error)
        if cpu_error is not None:
            if "INTERNAL ASSERT" in str(cpu_error):
                raise Refused from cpu_error
            return f"accepted although CPU says {short(cpu_error)}"
        if self.op.name in ("sort", "topk", "kthvalue", "mode", "nanmedian"):
            got = same_choice(arguments[0], got, want)
        difference = compare(got, want, None, values)
        if difference and "values differ" in difference:
            try:
                reference = self.run(widened(self.laid_out()), widened(like))
            except Exception:  # noqa: BLE001
                reference = None
            if reference is not None:
                reference = [
                    x.to(torch.float64) if isinstance(x, torch.Tensor) and not x.is_complex() else x
                    for x in tree_leaves(reference)
                ]
            difference = compare(got, want, reference, values, self.form == "backward")
        if difference:
            return difference
        if self.form in ("functional", "out"):
            inputs = zip(tensors_of(arguments), before, tensors_of(on_cpu), untouched, strict=True)
            for i, (t, old, cpu, cpu_old) in enumerate(inputs):
                if same_bits(cpu.detach(), cpu_old):
                    if not same_bits(t.detach().cpu(), old.cpu()):
                        return f"input {i} has changed"
                elif values and (difference := values_differ(t.detach().cpu(), cpu.detach(), None, False)):
                    return f"input {i}, which CPU changes: {difference}"
        return None


def is_random(op: Any, sample: Any) -> bool:
    """Attention with dropout: each device draws its own numbers."""
    if op.name == "nn.functional.multi_head_attention_forward":
        return sample.args[9] > 0
    return sample.kwargs.get("dropout_p", 0.0) > 0


def layouts_of(sample: Any) -> tuple[str, ...]:
    has_dimension = any(t.dim() >= 1 and t.numel() > 1 for t in tensors_of((sample.input, sample.args, sample.kwargs)))
    return LAYOUTS if has_dimension else LAYOUTS[:1]


def forms_of(op: Any, dtype: torch.dtype) -> Iterator[str]:
    yield "functional"
    if op.inplace_variant is not None:
        yield "in-place"
    if op.supports_out:
        yield "out"
    if dtype in (torch.float32, torch.complex64) and op.supports_autograd and dtype in op.backward_dtypes:
        yield "backward"


def run_operator(name: str, samples: int | None, values: bool) -> tuple[int, list[Failure]]:
    """Cases that ran on both sides, and those of them that failed."""
    op = find_operator(name)
    ran = 0
    failures: list[Failure] = []
    for dtype_name, dtype in DTYPES.items():
        if dtype not in op.dtypes:
            continue
        chosen = samples_of(op, dtype, samples)
        for form in forms_of(op, dtype):
            for index, sample in chosen:
                if form == "in-place" and sample.broadcasts_input:
                    continue
                for layout in layouts_of(sample):
                    try:
                        what = Case(op, sample, form, layout).compare(values and not is_random(op, sample))
                    except Refused:
                        continue
                    ran += 1
                    if what:
                        failures.append(Failure(name, dtype_name, form, layout, index, what))
    return ran, failures


def main() -> int:
    name, dtype_name, form, layout, index = sys.argv[1:]
    import torch_neuronx

    torch_neuronx.config.set_fallback("error")
    op = find_operator(name)
    sample = dict(samples_of(op, DTYPES[dtype_name], None))[int(index)]
    print(sample.summary())
    try:
        print(Case(op, sample, form, layout).compare(not is_random(op, sample)) or "equal")
    except Refused as error:
        print("CPU refuses:", error.__cause__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
