"""Runs a planned FX graph: compiled segments on the device, host nodes between them.

A graph is compiled for the concrete shapes and strides of a call, at the call, and kept by them: symbolic sizes are specialised
here, which takes milliseconds, instead of being refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_neuronx.compile.fx_import import Segment, SegmentImporter
from torch_neuronx.compile.plan import Plan, make_plan

MAX_SPECIALISATIONS = 256


@dataclasses.dataclass
class Level:
    host: HostCode
    segment: Segment | None
    views: HostCode  # views that something outside a segment reads, in graph order; a view there is PyTorch's own view


class HostCode:
    """Nodes that run eagerly, as one Python function: an optimiser step has hundreds of them on its CPU scalars."""

    def __init__(self, nodes: list[Node]):
        self.results = nodes
        inside = set(nodes)
        self.sources = list(dict.fromkeys(s for n in nodes for s in n.all_input_nodes if s not in inside))
        graph = torch.fx.Graph()
        copies = {source: graph.placeholder(source.name) for source in self.sources}
        for node in nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.target is torch.ops.prims.convert_element_type.default:
                # The same values without the Python layers of a prim, which cost fifty times as much.
                copies[node].target = torch.ops.aten._to_copy.default
                copies[node].args, copies[node].kwargs = copies[node].args[:1], {"dtype": node.args[1]}
        graph.output(tuple(copies[n] for n in nodes))
        self.function = GraphModule({}, graph).forward if nodes else None

    def __call__(self, values: dict[Node, Any]) -> None:
        if self.function:
            results = self.function(*[values[s] for s in self.sources])
            values.update(zip(self.results, results, strict=True))


class GraphRunner:
    """Callable with the graph's flat inputs; returns its flat outputs."""

    count = 0

    def __init__(self, module: GraphModule, kind: str):
        GraphRunner.count += 1
        self.name = f"{kind} graph {GraphRunner.count}"
        self.module = module
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.attributes = {n: getattr(module, n.target) for n in module.graph.nodes if n.op == "get_attr"}
        self.plan: Plan = make_plan(module.graph)
        self.escaping = self._escaping()
        self.compiled: dict[tuple[Any, ...], list[Level]] = {}

    def __call__(self, *inputs: Any) -> list[Any]:
        key = tuple((tuple(x.shape), x.stride()) if isinstance(x, torch.Tensor) else _structural(x) for x in inputs)
        levels = self.compiled.get(key)
        values: dict[Node, Any] = dict(self.attributes)
        values.update(zip(self.placeholders, inputs, strict=True))
        if levels is None:
            levels = self._compile(values)
            if len(self.compiled) >= MAX_SPECIALISATIONS:
                self.compiled.pop(next(iter(self.compiled)))
            self.compiled[key] = levels
        else:
            for level in levels:
                level.host(values)
                if level.segment is not None:
                    self._run_segment(level.segment, values)
                level.views(values)
        return [values[o] if isinstance(o, Node) else o for o in self.plan.outputs]

    def _compile(self, values: dict[Node, Any]) -> list[Level]:
        """Compiles level by level while running, because a level's parameters are the concrete values before it."""
        levels = []
        for number in range(self.plan.levels):
            host = HostCode(list(self.plan.nodes("host", number)))
            host(values)
            segment = None
            results = [n for n in self.plan.nodes("device", number) if n in self.escaping]
            written = [c for c in self.plan.mutations.values() if self.plan.level[c] == number]
            if results or written:
                importer = SegmentImporter(self.plan, number, self.name, lambda node: self._value(node, values))
                segment = importer.build(self._device(values), results)
                self._run_segment(segment, values)
            views = HostCode([n for n in self.plan.nodes("view", number) if n in self.escaping])
            views(values)
            levels.append(Level(host, segment, views))
        return levels

    def _value(self, node: Node, values: dict[Node, Any]) -> Any:
        if node not in values:
            raise RuntimeError(f"{self.name}: {node} is read before it is computed (a defect of the planner)")
        return values[node]

    def _device(self, values: dict[Node, Any]) -> int:
        for value in values.values():
            if isinstance(value, torch.Tensor) and value.device.type == "neuron":
                return value.device.index or 0
        return torch.accelerator.current_device_index()

    def _run_segment(self, segment: Segment, values: dict[Node, Any]) -> None:
        tensors = [values[n] for n in segment.tensors]
        scalars = [_number(values[n]) for n in segment.scalars]
        results = segment.executable(tensors, scalars)
        values.update(zip(segment.results, results, strict=False))

    def _escaping(self) -> set[Node]:
        """Nodes of segments (and views) whose value is needed outside: by a host node, another segment, or the caller."""
        plan, found = self.plan, set()

        def need(node: Node) -> None:
            # A view that leaves needs its base; reading views inside other segments also starts from the base.
            found.add(node)
            if plan.kind[node] == "view" and node.all_input_nodes[0] not in found:
                need(node.all_input_nodes[0])

        for output in plan.outputs:
            if isinstance(output, Node):
                need(output)
        for node, kind in plan.kind.items():
            for source in node.all_input_nodes:
                if kind == "host":
                    need(source)
                elif kind == "device" and plan.level[plan.base(source)] != plan.level[node]:
                    need(plan.base(source))
        self._materialise_views_of_mutated(found)
        return found

    def _materialise_views_of_mutated(self, found: set[Node]) -> None:
        """A view of an input that this graph overwrites must show the old contents: it is computed, not aliased."""
        plan = self.plan
        for node in list(found):
            if plan.base(node) not in plan.mutations:
                continue
            while plan.kind[node] == "view":
                plan.kind[node] = "device"
                node = node.all_input_nodes[0]


def _structural(value: Any) -> Any:
    return float if isinstance(value, float) else value


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value
