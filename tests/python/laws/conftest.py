"""Fixtures of the laws: snippets run in processes of their own, a runtime that counts reads."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run_python(fresh_process: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """run_python(code, NAME=value, ...): what the code prints in a fresh process with these environment variables."""

    def run(code: str, **variables: str) -> str:
        done = fresh_process(code, variables, timeout=400)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def counting_runtime(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of a library that is the software NeuronCore with its device-to-host reads counted (TORCH_NEURONX_LIBNRT)."""
    import torch_neuronx

    real = Path(torch_neuronx.__file__).parent / "lib" / "libnrt_emulated.so"
    if not real.exists():
        real = Path(torch_neuronx._C.__file__).parent / "lib" / "libnrt_emulated.so"
    out = tmp_path_factory.mktemp("counting") / "libcounting.so"
    source = Path(__file__).with_name("counting_runtime.cpp")
    subprocess.run(
        ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT / 'src'}", str(source), "-o", str(out)]
        + ["-Wl,--no-as-needed", str(real), f"-Wl,-rpath,{real.parent}"],
        check=True,
    )
    return str(out)
