"""Which part of an FX graph runs where and in which order.

Every node is one of
  device   computed by a compiled segment: an operator with a lowering whose result is on `neuron`
  view     an alias of a device tensor: applied inside whichever segment reads it, and as a real view where it leaves the graph
  host     everything else: CPU tensors (AdamW's step count), symbolic sizes, and operators without a lowering, which run eagerly
           (on the device or, counted, on the CPU)
Nodes are put on levels: a device node runs in the segment of the highest level among its inputs; a host node runs before the
segment of its level, one level above the device nodes that it reads. A graph without host nodes that read device results is
one segment, so one executable.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator

import torch
from torch.fx import Graph, Node

from torch_neuronx import _C

# Aliases in everything but the schema; their results are their inputs.
IDENTITIES = {
    torch.ops.aten.detach.default,
    torch.ops.aten.alias.default,
    torch.ops.aten.lift_fresh_copy.default,
}
COPY = torch.ops.aten.copy_.default


@dataclasses.dataclass
class Plan:
    kind: dict[Node, str]
    level: dict[Node, int]
    levels: int
    mutations: dict[Node, Node]  # placeholder -> the copy_ node that gives its new value
    outputs: list[object]  # the graph's flat results: nodes and constants

    def base(self, node: Node) -> Node:
        """The node whose storage a view shows; the node itself if it is no view."""
        while self.kind[node] == "view":
            node = node.all_input_nodes[0]
        return node

    def nodes(self, kind: str, level: int) -> Iterator[Node]:
        return (n for n, k in self.kind.items() if k == kind and self.level[n] == level)


def tensors_of(node: Node) -> list[torch.Tensor]:
    """The fake tensors among a node's results."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [v for v in value if isinstance(v, torch.Tensor)]
    return []


def on_device(node: Node) -> bool:
    return any(t.device.type == "neuron" for t in tensors_of(node))


def schema_name(op: torch._ops.OpOverload) -> str:
    overload = op._schema.overload_name
    return f"{op._schema.name}.{overload}" if overload else op._schema.name


def is_view(node: Node) -> bool:
    """True for operators whose one result aliases their first argument without writing to it."""
    op = node.target
    if not isinstance(op, torch._ops.OpOverload) or len(op._schema.returns) != 1:
        return False
    if op in IDENTITIES:
        return True
    alias = op._schema.returns[0].alias_info
    return alias is not None and not alias.is_write and isinstance(node.meta.get("val"), torch.Tensor)


def scalars_only_from_host(node: Node) -> bool:
    """A segment reads host tensors as runtime scalars, so they must have no dimensions."""
    return all(on_device(source) or all(t.dim() == 0 for t in tensors_of(source)) for source in node.all_input_nodes)


def classify(node: Node) -> str:
    if node.target is operator.getitem:
        return "device" if on_device(node) else "host"
    if not isinstance(node.target, torch._ops.OpOverload) or not on_device(node):
        return "host"
    if is_view(node) and on_device(node.all_input_nodes[0]):
        return "view"
    name = "aten::copy" if node.target is COPY else schema_name(node.target)
    return "device" if _C.has_lowering(name) and scalars_only_from_host(node) else "host"


def make_plan(graph: Graph) -> Plan:
    kind: dict[Node, str] = {}
    level: dict[Node, int] = {}
    mutations: dict[Node, Node] = {}
    outputs: list[object] = []
    for node in graph.nodes:
        if node.op == "output":
            flat = node.args[0]
            outputs = list(flat) if isinstance(flat, (tuple, list)) else [flat]
            continue
        if node.op in ("placeholder", "get_attr"):
            kind[node], level[node] = "input", 0
            continue
        kind[node] = classify(node)
        if node.target is operator.getitem and kind[node] == "device":
            kind[node] = kind[node.args[0]]  # results follow their operator
        if node.target is COPY and kind[node] == "device":
            target = node.args[0]
            if target.op == "placeholder" and target not in mutations:
                mutations[target] = node
            else:
                kind[node] = "host"
        above = kind[node] == "host"
        level[node] = max((level[s] + int(above and kind[s] in ("device", "view")) for s in node.all_input_nodes), default=0)
    top = max(level.values(), default=0)
    # In-place results overwrite their inputs when the segment ends: they belong to the last one, after every reader.
    for node in mutations.values():
        level[node] = top
    return Plan(kind, level, top + 1, mutations, outputs)
