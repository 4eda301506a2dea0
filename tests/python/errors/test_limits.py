"""Memory that runs out, variables that do not exist, and a user who presses Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess]


def test_a_batch_that_does_not_fit_is_out_of_memory_and_a_smaller_one_works(run_python: Run) -> None:
    done = run_python(
        """
import re, torch, torch_neuronx
model = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 256)).to("neuron")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step(batch):
    x = torch.ones(batch, 256, device="neuron")
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()

step(16)
before = torch.neuron.memory_allocated()
try:
    step(8192)
except torch.OutOfMemoryError as error:
    text = str(error)
else:
    raise SystemExit("no error")
for word in ("free", "cached"):
    assert word in text, text
assert len(re.findall(r"\\d+", text)) >= 3, text
assert isinstance(step(32), float)
optimizer.zero_grad(set_to_none=True)
assert torch.neuron.memory_allocated() <= before + (1 << 20), (torch.neuron.memory_allocated(), before)
print(text)
""",
        NEURON_EMULATOR_HBM_BYTES="192M",
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_cached_blocks_are_given_back_before_memory_is_exhausted(run_python: Run) -> None:
    done = run_python(
        """
import torch, torch_neuronx
for n in (40, 60, 90, 100, 55):  # megabytes; what is cached would not leave room for the next
    torch.empty(n << 20, dtype=torch.uint8, device="neuron")
print("ok")
""",
        NEURON_EMULATOR_HBM_BYTES="128M",
    )
    assert done.stdout.strip() == "ok", done.stderr[-3000:]


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("TORCH_NEURONX_FALLBACK", "maybe", ["allow", "warn", "error"]),
        ("TORCH_NEURONX_RUNTIME", "gpu", ["auto", "hardware", "emulated"]),
        ("TORCH_NEURONX_LOG", "loud", ["error", "warn", "info", "debug"]),
        ("TORCH_NEURONX_CACHE_ENTRIES", "many", ["16", "1000000"]),
        ("TORCH_NEURONX_CACHE_ENTRIES", "3", ["16", "1000000"]),
        ("NEURON_EMULATOR_ISA", "neon", ["auto", "scalar", "avx2", "avx512"]),
        ("NEURON_EMULATOR_EXECUTOR", "fast", ["plan", "interpreter", "shuffled"]),
        ("NEURON_EMULATOR_HBM_BYTES", "lots", ["bytes"]),
        ("NEURON_EMULATOR_THREADS", "-1", ["0..1024"]),
        ("NEURON_EMULATOR_INSTANCE_TYPE", "trn9", ["trn2.3xlarge", "trn2.48xlarge"]),
        ("NEURON_LAUNCH_BLOCKING", "yes please", ["0", "1"]),
    ],
)
def test_an_unknown_value_is_an_error_that_lists_the_valid_ones(
    name: str, value: str, valid: list[str], run_python: Run
) -> None:
    done = run_python("import torch, torch_neuronx; torch.ones(1, device='neuron')", **{name: value})
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if name in line and value in line and "import torch" not in line]
    assert any(all(v in line for v in valid) for line in lines), done.stderr[-3000:]


@pytest.mark.parametrize("name", ["TORCH_NEURONX_FALBACK", "NEURON_EMULATOR_THREAD"])
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(name: str, run_python: Run) -> None:
    done = run_python("import torch, torch_neuronx; torch.ones(1, device='neuron')", **{name: "1"})
    assert done.returncode != 0
    text = done.stderr
    assert name in text and "TORCH_NEURONX_FALLBACK" in text and "NEURON_EMULATOR_THREADS" in text


def test_a_library_that_does_not_exist_is_named(run_python: Run) -> None:
    done = run_python(
        "import torch, torch_neuronx; torch.ones(1, device='neuron')", TORCH_NEURONX_LIBNRT="/nowhere/libnrt.so"
    )
    assert done.returncode != 0 and "/nowhere/libnrt.so" in done.stderr.strip().splitlines()[-1]


def test_ctrl_c_in_mid_step_leaves_a_usable_process() -> None:
    code = """
import signal, sys, torch, torch_neuronx
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits that it is ignored
a = torch.eye(1024, device="neuron")
print("ready", flush=True)
interrupted = 0
try:
    while True:
        for _ in range(50):
            a = (a @ a).softmax(-1) + a
except KeyboardInterrupt:
    interrupted += 1
x = torch.ones(100, 100)
assert torch.equal((x.to("neuron") @ x.to("neuron")).cpu(), x @ x)
model = torch.nn.Linear(4, 4).to("neuron")
model(torch.ones(2, 4, device="neuron")).sum().backward()
assert torch.equal(model.bias.grad.cpu(), torch.full((4,), 2.0))
print("usable", interrupted)
"""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline().strip() == "ready"
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0 and out.strip() == "usable 1", f"{out}\n{err[-3000:]}"
