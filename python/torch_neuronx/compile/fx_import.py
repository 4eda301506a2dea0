"""One segment of an FX graph -> one ir::Graph, by calling the same lowerings as eager dispatch through _C.GraphBuilder."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from torch_neuronx import _C
from torch_neuronx.compile.plan import COPY, IDENTITIES, Plan, schema_name, tensors_of

# Arguments that say where or how a result is stored; values do not depend on them.
PLACEMENT_ARGUMENTS = {"device", "layout", "pin_memory", "non_blocking", "memory_format"}


@dataclasses.dataclass
class Segment:
    """A compiled segment: what to pass it and what it gives."""

    executable: Any
    tensors: list[Node]  # launch tensors, in order
    scalars: list[Node]  # host values, in order
    results: list[Node]  # nodes whose tensors the launch returns, in order


class SegmentImporter:
    """Imports the device nodes of one level.

    `value_of(node)` gives the concrete value of a node that is computed outside the segment (a tensor, a number);
    `needed(node)` says whether something outside reads it.
    """

    def __init__(self, plan: Plan, level: int, name: str, value_of: Callable[[Node], Any]):
        self.plan, self.level, self.value_of = plan, level, value_of
        self.builder = _C.GraphBuilder(name)
        self.values: dict[Node, Any] = {}  # node -> Value or list of Values
        self.tensors: list[Node] = []
        self.scalars: list[Node] = []

    def build(self, device: int, results: list[Node]) -> Segment:
        for node in self.plan.nodes("device", self.level):
            self.values[node] = self.lower(node)
        for node in results:
            self.builder.output(self.read(node), strides_of(node, self.value_of))
        for placeholder, copy in self.plan.mutations.items():
            if self.plan.level[copy] == self.level:
                tensor = self.value_of(placeholder)
                self.read(placeholder)  # makes it a parameter if nothing read it
                self.builder.output(self.values[copy], list(tensor.stride()), alias=self.tensors.index(placeholder))
        return Segment(self.builder.compile(device), self.tensors, self.scalars, results)

    def read(self, node: Node) -> Any:
        """The IR value of a node, whether it is of this segment, a view, or comes from outside."""
        if node in self.values:
            return self.values[node]
        self.values[node] = self.lower(node) if self.plan.kind[node] == "view" else self.parameter(node)
        return self.values[node]

    def parameter(self, node: Node) -> Any:
        concrete = self.value_of(node)
        if isinstance(concrete, torch.Tensor):
            if concrete.device.type == "neuron":
                self.tensors.append(node)
                return self.builder.parameter(concrete.dtype, list(concrete.shape), list(concrete.stride()))
            if concrete.dim() != 0:
                raise NotImplementedError(f"{node}: a CPU tensor with dimensions inside a compiled neuron segment")
            self.scalars.append(node)
            return self.builder.scalar(kind_of(concrete.dtype), concrete.dtype)
        if isinstance(concrete, float):
            self.scalars.append(node)
            return self.builder.scalar("float")
        return concrete  # int, bool, None, dtype ..: structural

    def argument(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.read(value)
        if isinstance(value, (list, tuple)):
            return [self.argument(v) for v in value]
        return value

    def lower(self, node: Node) -> Any:
        if node.target is operator.getitem:
            return self.read(node.args[0])[node.args[1]]
        op = node.target
        if op in IDENTITIES:
            return self.argument(node.args[0])
        if op is COPY:
            return self.builder.call("aten::copy", self.named_arguments(node))[0]
        results = self.builder.call(schema_name(op), self.named_arguments(node))
        single = isinstance(node.meta.get("val"), torch.Tensor)
        return results[0] if single else results

    def named_arguments(self, node: Node) -> dict[str, Any]:
        schema = node.target._schema.arguments
        named = {a.name: v for a, v in zip(schema, node.args, strict=False)} | dict(node.kwargs)
        return {name: self.argument(v) for name, v in named.items() if name not in PLACEMENT_ARGUMENTS}


def kind_of(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "bool"
    if dtype.is_complex:
        return "complex"
    return "float" if dtype.is_floating_point else "int"


def strides_of(node: Node, value_of: Callable[[Node], Any]) -> list[int]:
    """The strides that tracing promised for a node's tensor; symbolic ones are resolved from the concrete inputs."""
    (fake,) = tensors_of(node)
    if all(isinstance(s, int) for s in fake.stride()):
        return list(fake.stride())
    return [concrete_int(s, node, value_of) for s in fake.stride()]


def concrete_int(value: Any, node: Node, value_of: Callable[[Node], Any]) -> int:
    """A symbolic size with the placeholders' concrete sizes put in."""
    if isinstance(value, int):
        return value
    bindings = {}
    for other in node.graph.nodes:
        if other.op != "placeholder":
            break
        fake, concrete = other.meta.get("val"), value_of(other)
        if isinstance(fake, torch.SymInt):
            bindings[fake.node.expr] = concrete
        elif isinstance(fake, torch.Tensor):
            for symbolic, number in zip((*fake.shape, *fake.stride()), (*concrete.shape, *concrete.stride()), strict=True):
                if isinstance(symbolic, torch.SymInt):
                    bindings.setdefault(symbolic.node.expr, number)
    return int(value.node.expr.subs(bindings))
