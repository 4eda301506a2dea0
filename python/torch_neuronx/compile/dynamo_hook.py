"""Tells Dynamo about the device, when and only when Dynamo is imported.

Importing torch._dynamo costs over a second, so what must happen to its modules waits for somebody else to import them: a finder on
sys.meta_path lets a module load and then calls what is listed for it. torch 2.13 has no lazy hook of its own; when it gets one
(upstream: `get_device_interface` of the device module), the first entry goes.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType


def _register_interface(_: ModuleType) -> None:
    from torch_neuronx.compile.device_interface import register

    register()


def _keep_optimizer_steps(module: ModuleType) -> None:
    from torch_neuronx._compat.dynamo_optimizer import keep_steps_where_they_are

    keep_steps_where_they_are(module)


AFTER_IMPORT: dict[str, Callable[[ModuleType], None]] = {
    "torch._dynamo.device_interface": _register_interface,
    "torch._dynamo.variables.optimizer": _keep_optimizer_steps,
}


class _CallAfterLoading(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, call: Callable[[ModuleType], None]):
        self.loader, self.call = loader, call

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.call(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, waiting: dict[str, Callable[[ModuleType], None]]):
        self.waiting = waiting

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        call = self.waiting.pop(name, None)  # popped first: the look-up below asks this finder again
        if call is None:
            return None
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallAfterLoading(spec.loader, call)
        return spec


def install() -> None:
    waiting = {}
    for name, call in AFTER_IMPORT.items():
        if name in sys.modules:
            call(sys.modules[name])
        else:
            waiting[name] = call
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))
