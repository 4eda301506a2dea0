"""PyTorch's own operator samples give on `neuron` what they give on the CPU, without the CPU."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import op_db_driver
import pytest
from op_db_names import EXPECTED, ON_HOST, RANDOM, UNINITIALISED

import torch_neuronx

SLICE_SAMPLES = 2  # per dtype and form when not everything is run
HOST = frozenset(name for names in ON_HOST.values() for name in names)


def expected(failure: op_db_driver.Failure) -> tuple[str, str, str] | None:
    for key in EXPECTED:
        name, form, dtype = key
        if name == failure.operator and form in ("*", failure.form) and dtype in ("*", failure.dtype):
            return key
    return None


def in_slice(name: str) -> bool:
    """A third of the operators, spread evenly, when not everything is run; always those with a known difference."""
    return any(name == key[0] for key in EXPECTED) or hashlib.sha256(name.encode()).digest()[0] % 3 == 0


def routine_shares(first: int) -> dict[str, float]:
    """Of each ATen operator compiled since executable `first`: the largest share of modelled time in routines."""
    shares: dict[str, float] = {}
    for row in torch_neuronx.executables():
        time = torch_neuronx.model_time(row["sequence"]) if row["sequence"] > first else None
        if time and time["total_ns"]:
            share = time["routine_ns"] / (time["total_ns"] - time["launch_ns"] or 1)
            shares[row["name"]] = max(share, shares.get(row["name"], 0.0))
    return shares


def record(name: str, covered: dict[str, op_db_driver.Coverage], routines: dict[str, float]) -> None:
    """For operator_table.py, in whole sweeps."""
    folder = os.environ.get("NEURON_OPERATOR_RECORDS")
    if not folder:
        return

    def plain(x: Any) -> Any:
        return sorted(x) if isinstance(x, set) else x

    dtypes = {d: {k: plain(v) for k, v in dataclasses.asdict(c).items()} | {"state": c.state()} for d, c in covered.items()}
    Path(folder, f"{name}.json").write_text(json.dumps({"operator": name, "dtypes": dtypes, "routines": routines}))


@pytest.fixture
def fallback() -> Iterator[Callable[[str], None]]:
    before = torch_neuronx.config.fallback()
    yield torch_neuronx.config.set_fallback
    torch_neuronx.config.set_fallback(before)


@pytest.mark.sweep
@pytest.mark.parametrize("name", op_db_driver.operators())
def test_operator_samples_equal_cpu(
    name: str,
    fallback: Callable[[str], None],
    run_everything: bool,
    record_claim: Callable[[str, int, int], None],
) -> None:
    if not run_everything and not in_slice(name):
        pytest.skip("not in this slice")
    fallback("allow" if name in HOST else "error")
    compiled = torch_neuronx.compile_count()
    samples = None if run_everything else SLICE_SAMPLES
    covered, failures = op_db_driver.run_operator(name, samples, name not in RANDOM | UNINITIALISED)
    ran = sum(c.cases for c in covered.values())
    if run_everything:
        record(name, covered, routine_shares(compiled))
    if not ran:
        pytest.skip("the CPU runs no sample of it")
    unexpected = [f for f in failures if expected(f) is None]
    if run_everything:
        met = {expected(f) for f in failures}
        stale = [key for key in EXPECTED if key[0] == name and key not in met]
        assert not stale, f"expected failures that no longer happen: {stale}"
        assert name not in HOST or any(c.host for c in covered.values()), "no longer computed by the host: ON_HOST"
    record_claim("op_db cases equal on neuron and CPU", ran - len(failures), 0)
    record_claim("op_db operators without the host", int(name not in HOST), 0)
    assert not unexpected, f"{len(unexpected)} of {ran} cases differ\n" + "\n".join(str(f) for f in unexpected[:20])


def test_every_listed_operator_exists() -> None:
    listed = [*HOST, *RANDOM, *UNINITIALISED, *(key[0] for key in EXPECTED)]
    assert [name for name in listed if name not in op_db_driver.operators()] == []
