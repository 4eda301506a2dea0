"""Decompositions of `_foreach_*` operators into one operator per tensor.

In a compiled graph a list operator has no advantage: the segment is one program anyway, and the compiler fuses what belongs to one
tensor. What it would cost is Dynamo's treatment of Python floats: a learning rate becomes a graph input only where it meets plain
tensor arithmetic; in a list operator it stays a constant, and a schedule would compile a graph per step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

# List operators whose name is not the element operator's.
ELEMENT_OPERATORS: dict[str, Callable[..., Any]] = {
    "_foreach_maximum.Scalar": torch.ops.aten.clamp_min,
    "_foreach_maximum.ScalarList": torch.ops.aten.clamp_min,
    "_foreach_minimum.Scalar": torch.ops.aten.clamp_max,
    "_foreach_minimum.ScalarList": torch.ops.aten.clamp_max,
    "_foreach_norm.Scalar": lambda t, ord=2, dtype=None: torch.ops.aten.linalg_vector_norm(t, ord, dtype=dtype),
    "_foreach_max": torch.ops.aten.max,
    "_foreach_zero": torch.ops.aten.zeros_like,
}


def _element_operator(name: str) -> Callable[..., Any] | None:
    if name in ELEMENT_OPERATORS:
        return ELEMENT_OPERATORS[name]
    return getattr(torch.ops.aten, name.split(".")[0].removeprefix("_foreach_"), None)


def _keyword_only(element: Callable[..., Any]) -> set[str]:
    if not isinstance(element, torch._ops.OpOverloadPacket):
        return {"dtype"}
    overloads = (getattr(element, name) for name in element.overloads())
    return {a.name for op in overloads for a in op._schema.arguments if a.kwarg_only}


def _decomposition(op: torch._ops.OpOverload, element: Callable[..., Any]) -> Callable[..., Any]:
    schema = op._schema.arguments
    keywords = _keyword_only(element)

    def per_tensor(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        named = {a.name: v for a, v in zip(schema, args, strict=False)} | kwargs
        lists = [n for n, v in named.items() if isinstance(v, (list, tuple))]
        results = []
        for i in range(len(named[lists[0]])):
            positional, by_name = [], {}
            for name, value in named.items():
                value = value[i] if name in lists else value
                name = "value" if name == "scalars" and "value" in keywords else name
                if name in keywords:
                    by_name[name] = value
                else:
                    positional.append(value)
            results.append(element(*positional, **by_name))
        return tuple(results)

    return per_tensor


@functools.cache
def foreach_decompositions() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """For every functional `_foreach_*` overload whose element operator exists."""
    table = {}
    for full_name in torch._C._dispatch_get_all_op_names():
        if not full_name.startswith("aten::_foreach_"):
            continue
        name = full_name.removeprefix("aten::")
        packet_name, _, overload_name = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet_name), overload_name or "default")
        written = any(a.alias_info is not None and a.alias_info.is_write for a in op._schema.arguments)
        element = _element_operator(name)
        if op._schema.returns and not written and element is not None:
            table[op] = _decomposition(op, element)
    return table
