"""The StableHLO text of many graphs is accepted, and evaluated to the values of ir::evaluate, by jaxlib's interpreter.

jaxlib is a test-only tool in an environment of its own (build/oracle-venv, made here on first use; NEURON_ORACLE_PYTHON names
another interpreter that has it). Graphs come from the C++ tool ir_oracle: one table per element-wise operator and dtype, then
generated graphs; those with an operator that StableHLO lacks (printed as custom_call) are counted apart.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
JAXLIB = "jaxlib==0.10.2"
FIRST_SEED = 1


def has_jaxlib(python: str) -> bool:
    probe = "from jaxlib.mlir.dialects import stablehlo; stablehlo.eval_module"
    return subprocess.run([python, "-c", probe], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def oracle_python() -> str:
    given = os.environ.get("NEURON_ORACLE_PYTHON")
    if given:
        return given
    python = REPOSITORY / "build" / "oracle-venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
    if not has_jaxlib(str(python)):
        install = [str(python), "-m", "pip", "install", "--quiet", JAXLIB]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"{JAXLIB} cannot be installed: {done.stderr.strip()[-200:]}")
    return str(python)


@pytest.fixture(scope="module")
def oracle_tool() -> Path:
    builds = [os.environ.get("NEURON_BUILD_DIR"), str(REPOSITORY / "build")]
    for build in filter(None, builds):
        for tool in sorted(Path(build).glob("**/tests/cpp/ir/ir_oracle")):
            return tool
    found = shutil.which("ir_oracle")
    if not found:
        pytest.skip("ir_oracle is not built (NEURON_BUILD_DIR names the CMake build folder)")
    return Path(found)


def test_stablehlo_text_means_the_same_to_another_interpreter(
    oracle_python: str,
    oracle_tool: Path,
    tmp_path: Path,
    record_claim: Callable[[str, int, int], None],
    run_everything: bool,
) -> None:
    generated = 1000 if run_everything else 150
    made = subprocess.run(
        [str(oracle_tool), str(tmp_path), str(generated), str(FIRST_SEED)], capture_output=True, text=True, check=True
    )
    print(made.stdout)  # coverage
    script = Path(__file__).with_name("eval_stablehlo.py")
    run = subprocess.run([oracle_python, str(script), str(tmp_path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    summary = re.search(r"(\d+) accepted, (\d+) equal, (\d+) skipped", run.stdout)
    assert summary, run.stdout[-2000:]
    accepted, equal, skipped = map(int, summary.groups())
    failures = [line for line in run.stdout.splitlines() if line.startswith("module ")]
    record_claim("StableHLO graphs equal in jaxlib's interpreter", equal, 100)
    again = f"rerun: {oracle_tool} FOLDER {generated} {FIRST_SEED} && {oracle_python} {script} FOLDER"
    assert not failures, "\n".join([*failures, again])
    assert equal == accepted >= 100
    assert skipped < 0.3 * accepted


def test_a_wrong_value_is_noticed(oracle_python: str, oracle_tool: Path, tmp_path: Path) -> None:
    subprocess.run([str(oracle_tool), str(tmp_path), "0"], capture_output=True, check=True)
    first = (tmp_path / "index.txt").read_text().splitlines()[0]
    (tmp_path / "index.txt").write_text(first + "\n")
    values = bytearray((tmp_path / "0.0.bin").read_bytes())
    values[3] ^= 0x80  # the sign of the first number
    (tmp_path / "0.0.bin").write_bytes(values)
    script = Path(__file__).with_name("eval_stablehlo.py")
    run = subprocess.run([oracle_python, str(script), str(tmp_path)], capture_output=True, text=True)
    assert "1 accepted, 0 equal" in run.stdout, run.stdout + run.stderr
