"""Tells Dynamo about the device, when and only when Dynamo is imported.

Importing torch._dynamo.device_interface costs over a second, so registration waits for somebody else to import it: a finder on
sys.meta_path lets the module load and then registers. torch 2.13 has no lazy hook of its own; when it gets one (upstream:
`get_device_interface` of the device module), this file goes.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType

TARGET = "torch._dynamo.device_interface"


class _RegisterAfterLoading(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader):
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _register()


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisterAfterLoading(spec.loader)
        return spec


def _register() -> None:
    from torch_neuronx.compile.device_interface import register

    register()


def install() -> None:
    if TARGET in sys.modules:
        _register()
    elif not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
