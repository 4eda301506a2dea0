"""Decompositions that keep a Python float (a learning rate) an input of the graph.

Dynamo makes a float that changed between calls symbolic, and AOTAutograd turns it into a 0-dim tensor input, but only where it meets
plain arithmetic. Hidden in an `alpha=` or `value=` it is made a constant again, and every new value compiles. So operators with such
an argument become plain arithmetic when, and only when, the argument is symbolic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _add(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return aten.add.Tensor(self, aten.mul.Tensor(other, alpha)) if isinstance(alpha, torch.SymFloat) else NotImplemented


def _sub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return aten.sub.Tensor(self, aten.mul.Tensor(other, alpha)) if isinstance(alpha, torch.SymFloat) else NotImplemented


def _addcmul(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    if not isinstance(value, torch.SymFloat):
        return NotImplemented
    return aten.add.Tensor(self, aten.mul.Tensor(aten.mul.Tensor(tensor1, tensor2), value))


def _addcdiv(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    if not isinstance(value, torch.SymFloat):
        return NotImplemented
    return aten.add.Tensor(self, aten.mul.Tensor(aten.div.Tensor(tensor1, tensor2), value))


def _lerp(self: Any, end: Any, weight: Any) -> Any:
    if not isinstance(weight, torch.SymFloat):
        return NotImplemented
    return aten.add.Tensor(self, aten.mul.Tensor(aten.sub.Tensor(end, self), weight))


FLOAT_INPUT_DECOMPOSITIONS: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.add.Tensor: _add,
    aten.sub.Tensor: _sub,
    aten.addcmul.default: _addcmul,
    aten.addcdiv.default: _addcdiv,
    aten.lerp.Scalar: _lerp,
}
