"""Compares one ATen call: CPU against src/ops (metadata by infer, values by lower and ir::evaluate)."""

import collections
import dataclasses
import math

import numpy as np
import ops_testlib as lib
import torch

torch.set_num_threads(1)  # small tensors; the checks run in parallel processes
REGISTERED = frozenset(lib.registered_operators())
NAMES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64", torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2",
}  # fmt: skip
TORCH = {name: dtype for dtype, name in NAMES.items()}
FORMATS = {torch.contiguous_format: 0, torch.preserve_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3}
MAX_ELEMENTS = 20_000  # the evaluator is naive


@dataclasses.dataclass
class Count:
    values: int = 0  # results compared
    metas: int = 0  # result rules compared
    no_rule: int = 0  # infer said: ask PyTorch


COVERAGE: dict[str, Count] = collections.defaultdict(Count)


class Unsupported(Exception):
    """An argument that the description has no form for, or a case that ops declares unsupported."""


def operator_name(func) -> str:
    schema = func._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def raw_bytes(t: torch.Tensor) -> bytes:
    t = (
        torch.empty_like(t, memory_format=torch.contiguous_format)
        .copy_(t.detach().resolve_conj().resolve_neg())
        .reshape(t.numel())
    )
    return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def describe_tensor(t: torch.Tensor):
    if t.layout != torch.strided or t.dtype not in NAMES or t.numel() > MAX_ELEMENTS:
        raise Unsupported(f"tensor {t.dtype} {tuple(t.shape)} {t.layout}")
    return (NAMES[t.dtype], list(t.shape), list(t.stride()), "zero_dim" if t.dim() == 0 else "tensor", raw_bytes(t))


def describe_number_as_tensor(value):
    dtype = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}[type(value)]
    t = torch.tensor(value, dtype=dtype)
    return (NAMES[dtype], [], [], "wrapped_number", raw_bytes(t))


def describe_scalar(value, requirement, infer):
    kind = {bool: "bool", int: "int", float: "float", complex: "complex"}[type(value)]
    known = bool(requirement and (requirement[1] or (requirement[3] and infer)))
    value_class = None
    if requirement and not isinstance(value, complex):
        value_class = next((c for c in requirement[2] if c == value), None)
    return (kind, value, known, value_class)


def describe_argument(name, value, type_, requirements, infer):
    requirement = requirements.get(name)
    kind = str(type_).removeprefix("Optional[").removesuffix("]") if str(type_).startswith("Optional[") else str(type_)
    if value is None:
        return (name, "none", None)
    if isinstance(value, torch.Tensor):
        return (name, "tensor", describe_tensor(value))
    if isinstance(value, torch.dtype):
        if value not in NAMES:
            raise Unsupported(f"dtype {value}")
        return (name, "dtype", NAMES[value])
    if isinstance(value, torch.memory_format):
        return (name, "int", FORMATS[value])
    if isinstance(value, (torch.device, torch.layout, torch.Generator)):
        return (name, "none", None)
    if isinstance(value, str):
        return (name, "str", value)
    if isinstance(value, (list, tuple)):
        if "Tensor" in kind:
            return (name, "tensors", [None if t is None else describe_tensor(t) for t in value])
        if "number" in kind:
            return (name, "scalars", [describe_scalar(v, None, infer) for v in value])
        if value and all(isinstance(v, bool) for v in value):
            return (name, "bools", list(value))
        if all(isinstance(v, int) for v in value):
            return (name, "ints", [int(v) for v in value])
        return (name, "scalars", [describe_scalar(v, None, infer) for v in value])
    if isinstance(value, (bool, int, float, complex)):
        if kind == "Tensor":
            return (name, "tensor", describe_number_as_tensor(value))
        if kind in ("number", "Scalar", "float"):
            return (name, "scalar", describe_scalar(float(value) if kind == "float" else value, requirement, infer))
        if isinstance(value, bool):
            return (name, "bool", value)
        return (name, "int", int(value))
    raise Unsupported(f"argument {name}={value!r}")


def describe_call(func, args, kwargs, infer):
    requirements = {r[0]: r for r in lib.requirements(operator_name(func))}
    described = []
    for i, a in enumerate(func._schema.arguments):
        if i < len(args):
            value = args[i]
        elif a.name in kwargs:
            value = kwargs[a.name]
        else:
            value = a.default_value if a.has_default_value() else None
        # PyTorch's schema holds dtypes and memory formats as ints in default values only; none is not None here.
        described.append(describe_argument(a.name, value, a.type, requirements, infer))
    return described


def flatten_results(results):
    if isinstance(results, torch.Tensor) or results is None:
        return [results]
    return [r for group in results for r in (group if isinstance(group, (list, tuple)) else [group])]


def meta_of(t):
    if t is not None and t.dtype not in NAMES:
        raise Unsupported(f"result of {t.dtype}")
    return None if t is None else (NAMES[t.dtype], list(t.shape), list(t.stride()))


def significant_strides(shape, strides):
    """Strides that matter: those of dims with at least two elements, of tensors that hold something."""
    if 0 in shape:
        return None
    return [s for n, s in zip(shape, strides, strict=True) if n > 1]


TOLERANCE = {
    torch.float16: (2e-3, 1e-4), torch.bfloat16: (1.6e-2, 1e-3), torch.float32: (2e-5, 2e-6), torch.float64: (1e-9, 1e-10),
    torch.complex64: (5e-5, 1e-5), torch.complex128: (1e-9, 1e-10),
    torch.float8_e4m3fn: (0.125, 0), torch.float8_e5m2: (0.25, 0),
}  # fmt: skip

# Absolute error of CPU's own series in double precision.
CPU_ERROR = {
    "aten::special_bessel_j0": 1e-6, "aten::special_bessel_j1": 1e-6, "aten::special_bessel_y0": 1e-6,
    "aten::special_bessel_y1": 1e-6, "aten::special_airy_ai": 4e-6,
}  # fmt: skip


def widen(value):
    """The same argument in double precision."""
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return value.to(torch.complex128)
        return value.to(torch.float64) if value.is_floating_point() else value
    if isinstance(value, (list, tuple)):
        return type(value)(widen(v) for v in value)
    return torch.float64 if value in (torch.float16, torch.bfloat16, torch.float32) else value


def closer_than_cpu(actual, expected, func, args, kwargs, index) -> bool:
    """CPU rounds too: at most twice its own distance from the result in double precision, or a few ulp, is right."""
    try:
        exact = flatten_results(func(*widen(args), **{k: widen(v) for k, v in kwargs.items()}))[index]
    except (RuntimeError, NotImplementedError):
        return False
    if exact is None or exact.shape != actual.shape:
        return False
    wide = exact.dtype
    ours, cpu = (actual.to(wide) - exact).abs(), (expected.to(wide) - exact).abs()
    real = torch.finfo(expected.dtype)
    floor = 4 * real.eps * exact.abs() + real.tiny
    # What only double precision can hold is infinite for CPU and for us.
    fits = (exact.abs() <= real.max) | ~torch.isfinite(exact)
    good = (ours <= torch.maximum(2 * cpu, floor)) | (actual.to(wide) == exact) | ~fits
    good |= torch.isnan(actual.to(wide).abs()) & torch.isnan(exact.abs())
    return bool(good.all())


# Operators whose indices may differ where values are equal, with the position of `dim`.
CHOOSING = {
    "aten::topk": 2, "aten::sort": 1, "aten::sort.stable": 99, "aten::kthvalue": 2, "aten::mode": 1,
    "aten::nanmedian.dim": 1,  # of NaNs alone
}  # fmt: skip


def same_choice(name, args, kwargs, actual, expected) -> bool:
    """Of equal elements any may be chosen: the chosen values must agree."""
    if name not in CHOOSING or actual.dtype != torch.int64:
        return False
    x = args[0] if args[0].dim() else args[0].reshape(1)
    position = CHOOSING[name]
    dim = args[position] if len(args) > position else kwargs.get("dim", -1)
    along = lambda index: index if index.dim() == x.dim() else index.unsqueeze(dim)  # noqa: E731
    pick = lambda index: torch.gather(x, dim, along(index))  # noqa: E731
    return torch.equal(pick(actual).nan_to_num(), pick(expected).nan_to_num())


def compare_values(actual: torch.Tensor, expected: torch.Tensor, where: str, second_opinion, cpu_error: float):
    if expected.dtype not in TOLERANCE:
        if not torch.equal(actual, expected) and not second_opinion():
            raise AssertionError(f"{where}: values differ\n ours {actual}\n CPU  {expected}")
        return
    rtol, atol = TOLERANCE[expected.dtype]
    atol = max(atol, cpu_error)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    a, e = actual.to(wide), expected.to(wide)
    if (
        not torch.allclose(a, e, rtol=rtol, atol=atol * max(1.0, math.sqrt(expected.numel())), equal_nan=True)
        and not second_opinion()
    ):
        bad = ~torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
        index = tuple(int(i) for i in bad.nonzero()[0]) if a.dim() else ()
        raise AssertionError(f"{where}: {int(bad.sum())} values differ, first at {index}: ours {a[index]}, CPU {e[index]}")


def default_dtype_name():
    return NAMES[torch.get_default_dtype()]


def check_call(func, args, kwargs, results):
    """`results` is what CPU returned for func(*args, **kwargs). Raises AssertionError with the call in the message."""
    name = operator_name(func)
    expected = flatten_results(results)
    if (
        name.startswith("aten::as_strided")
        and args[0].untyped_storage().nbytes() != args[0].numel() * args[0].element_size()
    ):
        raise Unsupported("sees storage that is not part of the argument")
    shapes = ", ".join(
        f"{NAMES.get(a.dtype)}{list(a.shape)}/{list(a.stride())}" if isinstance(a, torch.Tensor) else repr(a)[:200]
        for a in args
    )
    where = f"{name}({shapes}{', ' + repr(kwargs)[:200] if kwargs else ''})"
    if any(t is not None and t.numel() > MAX_ELEMENTS for t in expected):
        raise Unsupported("large result")
    metas = lib.infer(name, describe_call(func, args, kwargs, True), default_dtype_name())
    reference = [meta_of(t) for t in expected]
    if metas is None:
        COVERAGE[name].no_rule += 1
    else:
        COVERAGE[name].metas += 1
        if len(metas) != len(reference):
            raise AssertionError(f"{where}: infer gives {len(metas)} results, CPU {len(reference)}")
        for i, (m, r) in enumerate(zip(metas, reference, strict=True)):
            if (m is None) != (r is None):
                raise AssertionError(f"{where}: result {i}: infer {m}, CPU {r}")
            if m is None:
                continue
            if m[0] != r[0] or list(m[1]) != r[1] or significant_strides(m[1], m[2]) != significant_strides(r[1], r[2]):
                raise AssertionError(f"{where}: result {i}: infer {m}, CPU {r}")
    try:
        ours = lib.run(
            name, describe_call(func, args, kwargs, False), reference, default_dtype_name(), executor=lib.executor
        )
    except RuntimeError as error:
        if str(error).startswith("unsupported"):
            raise Unsupported(str(error)) from None
        raise AssertionError(f"{where}: {error}") from None
    for i, (r, t) in enumerate(zip(ours, expected, strict=True)):
        if t is None:
            continue
        data = np.frombuffer(bytearray(r[2]), dtype=np.uint8)
        actual = torch.from_numpy(data).view(TORCH[r[0]]) if len(data) else torch.empty(0, dtype=TORCH[r[0]])
        actual = actual.reshape(list(r[1]))
        t = t.resolve_conj().resolve_neg().contiguous()

        def second_opinion(actual=actual, t=t, i=i):
            if t.dtype in TOLERANCE:
                return closer_than_cpu(actual, t, func, args, kwargs, i)
            return same_choice(name, args, kwargs, actual, t)

        compare_values(actual, t, f"{where}: result {i}", second_opinion, CPU_ERROR.get(name, 0))
    COVERAGE[name].values += 1


# --- layouts ---


def permuted(t: torch.Tensor) -> torch.Tensor:
    """Equal values, dims stored in reverse order."""
    if t.dim() < 2:
        return t
    order = list(range(t.dim()))[::-1]
    return t.permute(order).contiguous().permute(order)


def strided(t: torch.Tensor) -> torch.Tensor:
    """Equal values, every second element of a wider buffer."""
    if t.dim() == 0 or t.numel() == 0:
        return t
    wide = torch.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype)
    wide[..., ::2] = t
    return wide[..., ::2]


def channels_last(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else permuted(t)


LAYOUTS = {"as_given": lambda t: t, "permuted": permuted, "strided": strided, "channels_last": channels_last}


def map_tensors(value, function):
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(v, function) for v in value)
    return value


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v)]
    return []
