"""Fixtures of the conformance tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def no_fallback() -> Iterator[None]:
    """Operators without a lowering raise."""
    import torch_neuronx

    before = torch_neuronx.config.fallback()
    torch_neuronx.config.set_fallback("error")
    yield
    torch_neuronx.config.set_fallback(before)
