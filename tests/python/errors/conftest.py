"""Fixtures of the error tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """run_python(code, NAME=value, ...): the code in a fresh process with these variables."""

    def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("NEURON_EMULATOR", "TORCH_NEURONX"))}
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            timeout=300,
            env=environment | variables,
            check=False,
        )

    return run
