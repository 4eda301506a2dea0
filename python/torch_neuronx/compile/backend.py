"""AOTAutograd around the FX importer: which operators stay whole, how forward and backward are split."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd

from torch_neuronx import _C
from torch_neuronx.compile.float_inputs import FLOAT_INPUT_DECOMPOSITIONS
from torch_neuronx.compile.foreach import foreach_decompositions
from torch_neuronx.compile.plan import schema_name
from torch_neuronx.compile.runner import GraphRunner


@functools.cache
def decompositions() -> dict[torch._ops.OperatorBase, Callable[..., Any]]:
    """PyTorch's core decompositions, for the operators that have no lowering of their own, and list operators by element."""
    core = {
        op: rule
        for op, rule in core_aten_decompositions().items()
        if not (isinstance(op, torch._ops.OpOverload) and _C.has_lowering(schema_name(op)))
    }
    return core | foreach_decompositions() | FLOAT_INPUT_DECOMPOSITIONS


def _compiler(kind: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    def compile_graph(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(GraphRunner(graph_module, kind))

    return compile_graph


def compile_graph_module(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    if options:
        raise ValueError(f"backend 'neuron' has no options, got {sorted(options)}")
    backend = aot_autograd(
        fw_compiler=_compiler("forward"),
        bw_compiler=_compiler("backward"),
        inference_compiler=_compiler("inference"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decompositions(),
        keep_inference_input_mutations=True,
    )
    return backend(graph_module, example_inputs)
