"""torch.compile(backend="neuron"): Dynamo -> AOTAutograd -> one tile program per graph.

Nothing here is imported before the first compilation: `neuron` is the entry point that Dynamo looks up by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["neuron"]


def neuron(graph_module: Any, example_inputs: Sequence[Any], options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """The backend. One object for the whole process, because Dynamo guards on its identity."""
    from torch_neuronx.compile.backend import compile_graph_module

    return compile_graph_module(graph_module, example_inputs, options)
