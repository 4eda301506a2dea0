"""Fixtures that every Python test may use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def record_claim(request: pytest.FixtureRequest) -> Callable[[str, int, int], None]:
    """record_claim(claim, count, required): a row of the table that ./dev test prints (tools/run_tests.py)."""

    def record(claim: str, count: int, required: int) -> None:
        folder = os.environ.get("NEURON_CLAIMS_DIR")
        if folder:
            name = request.node.nodeid.replace("/", "_").replace("::", "-")[-150:]
            record = {"claim": claim, "count": count, "required": required}
            Path(folder, f"{name}-{abs(hash(claim)) % 10**6}.json").write_text(json.dumps(record))

    return record


@pytest.fixture(scope="session")
def run_everything() -> bool:
    """True when long sweeps run whole (./dev test --all)."""
    return os.environ.get("NEURON_TEST_ALL") == "1"


@pytest.fixture(scope="session")
def fresh_process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """fresh_process(code, variables, timeout): the code in a process of its own, with no variable of ours but these."""

    def run(code: str, variables: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("NEURON_EMULATOR", "TORCH_NEURONX"))}
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment | variables,
            check=False,
        )

    return run
