"""torch._dynamo.variables.optimizer moves optimiser steps to the parameters' device while it traces.

With more than one parameter group it does so between making a step tensor and using it: the graph then counts on a tensor that the
optimiser no longer holds (torch 2.13; CUDA is spared because Dynamo turns on `capturable` for it). CPU steps are fine here: they are
graph inputs and their arithmetic runs on the host. To be removed when Dynamo moves steps before it traces the groups.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def keep_steps_where_they_are(module: ModuleType) -> None:
    variable = module.OptimizerVariable
    original = variable.move_step_if_cpu

    def move_step_if_cpu(self: Any) -> None:
        if not any(p.device.type == "neuron" for p in self.value.state):
            original(self)

    variable.move_step_if_cpu = move_step_if_cpu
