"""PyTorch's own operator samples give on `neuron` what they give on the CPU."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import op_db_driver
import pytest
import torch
from op_db_names import EXPECTED, OPERATORS, RANDOM, UNINITIALISED

import torch_neuronx

SLICE_SAMPLES = 2  # per dtype and form when not everything is run


def expected(failure: op_db_driver.Failure) -> tuple[str, str, str] | None:
    for key in EXPECTED:
        name, form, dtype = key
        if name == failure.operator and form in ("*", failure.form) and dtype in ("*", failure.dtype):
            return key
    return None


def in_slice(name: str) -> bool:
    """A third of the operators, spread evenly, when not everything is run; always those with a known difference."""
    return any(name == key[0] for key in EXPECTED) or hashlib.sha256(name.encode()).digest()[0] % 3 == 0


@pytest.mark.sweep
@pytest.mark.parametrize("name", OPERATORS)
def test_operator_samples_equal_cpu(
    name: str, no_fallback: None, run_everything: bool, record_claim: Callable[[str, int, int], None]
) -> None:
    if not run_everything and not in_slice(name):
        pytest.skip("not in this slice")
    torch_neuronx.clear_op_tracking()
    samples = None if run_everything else SLICE_SAMPLES
    ran, failures = op_db_driver.run_operator(name, samples, name not in RANDOM | UNINITIALISED)
    unexpected = [f for f in failures if expected(f) is None]
    if run_everything:
        met = {expected(f) for f in failures}
        stale = [key for key in EXPECTED if key[0] == name and key not in met]
        assert not stale, f"expected failures that no longer happen: {stale}"
    record_claim("op_db cases equal on neuron and CPU", ran - len(failures), 0)
    assert ran, "no case ran"
    assert torch_neuronx.get_fallback_ops() == {}
    assert not unexpected, f"{len(unexpected)} of {ran} cases differ\n" + "\n".join(str(f) for f in unexpected[:20])


def test_every_listed_operator_exists() -> None:
    for name in OPERATORS:
        op_db_driver.find_operator(name)


def test_the_claimed_operators_are_many() -> None:
    assert len(set(OPERATORS)) == len(OPERATORS) >= 380
    assert torch.device("neuron").type == "neuron"
