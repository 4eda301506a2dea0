"""Runs PyTorch's own operator samples (op_db) on `neuron` and on the CPU and compares what a user can see.

One case is (operator, dtype, form, layout, sample index). Run one alone:

    python tests/conformance/op_db_driver.py add float32 functional contiguous 3
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

import torch_neuronx

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
MORE_DTYPES = {str(d).removeprefix("torch."): d for d in (torch.int16, torch.int8, torch.complex128)}  # in whole sweeps
FORMS = ("functional", "in-place", "out", "backward")
LAYOUTS = ("contiguous", "transposed", "sliced", "channels_last", "offset")
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


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


@functools.cache
def operators() -> dict[str, Any]:
    """op_db by name, `name.variant` where there are several."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {_name(op): op for op in op_db}


def find_operator(name: str) -> Any:
    return operators()[name]


def is_dense(t: torch.Tensor) -> bool:
    return t.layout == torch.strided and not t.is_quantized and not t.is_nested


def samples_of(op: Any, dtype: torch.dtype, wanted: int | None) -> list[tuple[int, Any]]:
    """(index, sample) of `wanted` samples spread over the first ones, the same in every run; all of them for None."""
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = op.sample_inputs("cpu", dtype, requires_grad=False)
        every = list(enumerate(itertools.islice(samples, SAMPLES_LOOKED_AT if wanted is None else 12 * wanted)))
        # The device holds dense tensors; that others are refused has tests of its own.
        every = [(i, s) for i, s in every if all(is_dense(t) for t in tensors_of((s.input, s.args, s.kwargs)))]
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


def inside(t: torch.Tensor, dim: int, step: int) -> torch.Tensor:
    """The same values as every step-th element from 1 on along `dim` of something larger."""
    shape = list(t.shape)
    shape[dim] = step * shape[dim] + 1
    larger = torch.ones(shape, dtype=t.dtype)
    view = larger.movedim(dim, 0)[1::step].movedim(0, dim)
    return view.copy_(t)


def laid_out(t: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values, dense or with other strides, offsets and neighbours in the same storage."""
    if layout == "transposed":
        return transposed(t)
    t = t.detach().resolve_conj().resolve_neg()
    if layout == "channels_last" and t.dim() in (4, 5):
        return t.clone(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    if layout != "contiguous" and t.dim() > 0 and t.numel() > 0:
        return inside(t, 0, 1) if layout == "offset" else inside(t, -1, 2)
    return t.clone()


def neighbours_differ(got: torch.Tensor, want: torch.Tensor) -> str | None:
    """Whether elements of the storage that do not belong to the tensor have changed on the device alone."""
    elements = want.untyped_storage().nbytes() // want.element_size()
    if elements <= want.numel() or want.numel() == 0:
        return None
    if got.untyped_storage().nbytes() < want.untyped_storage().nbytes():
        return "its storage has been replaced"
    own = torch.zeros(elements, dtype=torch.bool)
    own.as_strided(want.size(), want.stride(), want.storage_offset()).fill_(True)
    flat = [t.detach().as_strided((elements,), (1,), 0).cpu()[~own] for t in (got, want)]
    return None if same_bits(*flat) else "neighbours in its storage have changed"


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


def strides_of(t: torch.Tensor) -> tuple[int, ...]:
    """Those that reach memory: not of dimensions of size 1, and none of a tensor without elements."""
    return tuple(s for s, n in zip(t.stride(), t.shape, strict=True) if n != 1) if t.numel() else ()


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
        if strides_of(g) != strides_of(w):
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
                return got[0], to_device(want[1]) if index.stride() == want[1].stride() else index
    return got


class Case:
    """One sample in one form and layout: cpu() and device() run it, each on fresh copies of the arguments."""

    def __init__(self, op: Any, sample: Any, form: str, layout: str) -> None:
        self.op, self.form, self.layout = op, form, layout
        self.arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
        self.broadcasts_input = sample.broadcasts_input
        self.executed: set[str] = set()  # by compare(): ATen operators that ran on the device, and on the CPU instead
        self.host: set[str] = set()

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
            out = laid_out(torch.full(t.shape, 1, dtype=t.dtype), self.layout)
            outs.append(out if device.type == "cpu" else to_device(out))
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
        torch_neuronx.clear_op_tracking()
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
            self.executed, self.host = set(torch_neuronx.get_executed_ops()), set(torch_neuronx.get_fallback_ops())
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
            default = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)  # what integers are promoted to
            try:
                reference = self.run(widened(self.laid_out()), widened(like))
            except Exception:  # noqa: BLE001
                reference = None
            finally:
                torch.set_default_dtype(default)
            if reference is not None:
                reference = [
                    x.to(torch.float64) if isinstance(x, torch.Tensor) and not x.is_complex() else x
                    for x in tree_leaves(reference)
                ]
            difference = compare(got, want, reference, values, self.form == "backward")
        if difference:
            return difference
        if self.form in ("in-place", "out"):
            for g, w in zip(tensors_of(got), tensors_of(want), strict=True):
                if difference := neighbours_differ(g, w):
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
    """Attention with dropout, pooling at drawn places: each device draws its own numbers."""
    if op.name.startswith("nn.functional.fractional_max_pool"):
        return sample.kwargs.get("_random_samples") is None
    if op.name == "nn.functional.multi_head_attention_forward":
        return sample.args[9] > 0
    return sample.kwargs.get("dropout_p", 0.0) > 0


def layouts_of(sample: Any, index: int) -> tuple[str, ...]:
    has_dimension = any(t.dim() >= 1 and t.numel() > 1 for t in tensors_of((sample.input, sample.args, sample.kwargs)))
    return (LAYOUTS[0], LAYOUTS[1 + index % 4]) if has_dimension else LAYOUTS[:1]


def forms_of(op: Any, dtype: torch.dtype) -> Iterator[str]:
    yield "functional"
    if op.inplace_variant is not None:
        yield "in-place"
    if op.supports_out:
        yield "out"
    if dtype in (torch.float32, torch.complex64) and op.supports_autograd and dtype in op.backward_dtypes:
        yield "backward"


@dataclass
class Coverage:
    """What one dtype of one operator did on the device."""

    cases: int = 0
    differ: int = 0
    refused: int = 0  # of those: NotImplementedError
    executed: set[str] = field(default_factory=set)  # ATen operators of the functional form that ran on the device
    steps: int = 0  # the most of them in one case
    host: set[str] = field(default_factory=set)  # ATen operators that ran on the CPU, in any form

    def state(self) -> str:
        """native (one operator of our own), decomposed (into such), host, unsupported, or empty: CPU has nothing to run."""
        if self.cases == 0:
            return ""
        if self.refused:
            return "unsupported"
        if self.host:
            return "host"
        return "native" if self.steps <= 1 else "decomposed"


def run_operator(name: str, samples: int | None, values: bool) -> tuple[dict[str, Coverage], list[Failure]]:
    """By dtype: cases that ran on both sides and how; and those that differ."""
    op = find_operator(name)
    covered: dict[str, Coverage] = {}
    failures: list[Failure] = []
    for dtype_name, dtype in (DTYPES if samples is not None else DTYPES | MORE_DTYPES).items():
        if dtype not in op.dtypes:
            continue
        coverage = covered[dtype_name] = Coverage()
        chosen = samples_of(op, dtype, samples)
        for form in forms_of(op, dtype):
            for index, sample in chosen:
                if form == "in-place" and sample.broadcasts_input:
                    continue
                for layout in layouts_of(sample, index):
                    case = Case(op, sample, form, layout)
                    try:
                        what = case.compare(values and not is_random(op, sample))
                    except Refused:
                        continue
                    coverage.cases += 1
                    coverage.host |= case.host
                    if form == "functional":
                        coverage.executed |= case.executed
                        coverage.steps = max(coverage.steps, len(case.executed))
                    if what:
                        coverage.differ += 1
                        coverage.refused += what.startswith("NotImplementedError")
                        failures.append(Failure(name, dtype_name, form, layout, index, what))
    return covered, failures


def main() -> int:
    name, dtype_name, form, layout, index = sys.argv[1:]
    op = find_operator(name)
    sample = dict(samples_of(op, (DTYPES | MORE_DTYPES)[dtype_name], None))[int(index)]
    print(sample.summary())
    try:
        case = Case(op, sample, form, layout)
        print(case.compare(not is_random(op, sample)) or "equal")
        print(f"on the device: {sorted(case.executed)}; on the CPU: {sorted(case.host)}")
    except Refused as error:
        print("CPU refuses:", error.__cause__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
