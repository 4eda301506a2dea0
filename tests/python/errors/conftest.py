"""Fixtures of the error tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest


@pytest.fixture
def run_python(
    fresh_process: Callable[..., subprocess.CompletedProcess[str]],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """run_python(code, NAME=value, ...): the code in a fresh process with these variables."""
    return lambda code, **variables: fresh_process(code, variables, timeout=300)
