"""Fixtures for tests that use the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def compiled_by() -> Callable[[Callable[[], Any]], int]:
    """compiled_by(f): number of executables that calling f compiles."""
    import torch_neuronx

    def count(f: Callable[[], Any]) -> int:
        before = torch_neuronx.compile_count()
        f()
        return torch_neuronx.compile_count() - before

    return count


@pytest.fixture
def no_fallback() -> Iterator[None]:
    """Operators without a lowering raise."""
    import torch_neuronx

    before = torch_neuronx.config.fallback()
    torch_neuronx.config.set_fallback("error")
    yield
    torch_neuronx.config.set_fallback(before)
