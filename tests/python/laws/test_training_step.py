"""What a training step of the example may do: nothing on the CPU, nothing compiled twice, few routines."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from gpt_snippet import GPT

BACKENDS = pytest.mark.parametrize("backend", [None, "neuron"], ids=["eager", "compiled"])


@BACKENDS
def test_a_step_reads_the_loss_and_nothing_else_from_the_device(
    backend: str | None, run_python: Callable[..., str], counting_runtime: str
) -> None:
    # The runtime itself counts: whatever code would look at device data on the host has to read it first.
    out = run_python(
        GPT
        + f"""
import ctypes, json
counts = ctypes.CDLL({counting_runtime!r})
counts.counting_runtime_reads.restype = counts.counting_runtime_bytes_read.restype = ctypes.c_uint64
runner = trainer({backend!r}).run()
steps(runner, 4)
rows = []
for _ in range(3):
    before = counts.counting_runtime_reads(), counts.counting_runtime_bytes_read()
    steps(runner, 1)
    rows.append((counts.counting_runtime_reads() - before[0], counts.counting_runtime_bytes_read() - before[1]))
assert torch_neuronx.runtime_info()["library"] == {counting_runtime!r}
assert torch_neuronx.get_fallback_ops() == {{}}
print(json.dumps(rows))
""",
        TORCH_NEURONX_LIBNRT=counting_runtime,
        TORCH_NEURONX_FALLBACK="error",
    )
    assert json.loads(out.splitlines()[-1]) == [[1, 4]] * 3


def test_operators_of_a_step_that_see_device_tensors_give_device_tensors(run_python: Callable[..., str]) -> None:
    out = run_python(
        GPT
        + """
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

class Record(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.left, self.mixed, self.seen = [], [], 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        outputs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        if any(t.device.type == "neuron" for t in inputs):
            self.seen += 1
            reads_a_number = func is torch.ops.aten._local_scalar_dense.default
            if reads_a_number or any(t.device.type == "cpu" for t in outputs):
                self.left.append(str(func))
            if any(t.device.type == "cpu" and t.dim() for t in inputs) and "copy" not in str(func):
                self.mixed.append(str(func))
        return out

runner = trainer().run()
steps(runner, 2)
with Record() as record:
    steps(runner, 1)
assert record.seen > 50, record.seen
assert record.left == ["aten._local_scalar_dense.default"], record.left
assert record.mixed == [], record.mixed
print("ok")
""",
        TORCH_NEURONX_FALLBACK="error",
    )
    assert out.splitlines()[-1] == "ok"


@BACKENDS
def test_only_random_numbers_and_scatter_add_use_routines(backend: str | None, run_python: Callable[..., str]) -> None:
    out = run_python(
        GPT
        + f"""
import json
runner = trainer({backend!r}).run()
steps(runner, 3)
rows = []
for e in torch_neuronx.executables():
    text = torch_neuronx.disassemble(e["sequence"])
    used = sorted(r for r in ("random_bits", "scatter_reduce", "top_k") if f".{{r}} " in text)
    modelled = torch_neuronx.model_time(e["sequence"])["routine_ns"]
    rows.append((e["name"], used, modelled))
print(json.dumps(rows))
"""
    )
    rows = json.loads(out.splitlines()[-1])
    assert len(rows) >= 2
    with_routines = {name: set(used) for name, used, modelled in rows if used or modelled}
    assert with_routines, "dropout and the embedding's gradient need routines"
    assert set().union(*with_routines.values()) == {"random_bits", "scatter_reduce"}
    for name, used, modelled in rows:
        assert bool(used) == (modelled > 0), f"{name} uses {used} but its modelled routine time is {modelled} ns"
    if backend is None:
        for name, used in with_routines.items():
            if "scatter_reduce" in used:
                assert name == "aten::embedding_dense_backward"
            else:
                assert "dropout" in name or "attention" in name, name


@BACKENDS
def test_a_step_that_ran_never_compiles_again(backend: str | None, run_python: Callable[..., str]) -> None:
    # Learning rate, loss scale, random offset, batch and optimiser step count change; shapes do not.
    out = run_python(
        GPT
        + f"""
runner = trainer({backend!r}).run()
steps(runner, 4)
before = torch_neuronx.compile_count()
steps(runner, 6)
print(torch_neuronx.compile_count() - before)
"""
    )
    assert out.splitlines()[-1] == "0"
