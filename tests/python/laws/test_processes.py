"""Importing, forking, and several processes at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest


def test_importing_torch_does_not_start_the_runtime(run_python: Callable[..., str]) -> None:
    out = run_python(
        """
import sys, torch
import torch_neuronx
mapped = open("/proc/self/maps").read()
assert "libnrt_emulated" not in mapped, "the runtime library is loaded"
assert not torch.neuron.is_initialized()
assert "torch._dynamo" not in sys.modules and "sympy" not in sys.modules, "import pulls in the compiler"
assert torch.neuron.is_available() and torch.neuron.device_count() >= 1
assert torch.accelerator.current_accelerator().type == "neuron"
torch.manual_seed(3)
assert not torch.neuron.is_initialized()
torch.ones(1, device="neuron")
assert torch.neuron.is_initialized()
print("ok")
"""
    )
    assert out.strip() == "ok"


def test_queries_before_a_fork_leave_parent_and_child_free_to_use_the_device(run_python: Callable[..., str]) -> None:
    out = run_python(
        """
import os, torch, torch_neuronx
torch.neuron.is_available(), torch.neuron.device_count(), torch.accelerator.current_accelerator()
torch.manual_seed(1)
pid = os.fork()
x = (torch.ones(3, device="neuron") + 1).sum().item()
if pid == 0:
    os._exit(0 if x == 6 else 1)
assert x == 6
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    )
    assert out.strip() == "0"


@pytest.mark.parametrize("use", ["torch.ones(2, device='neuron')", "x + 1", "x.cpu()", "x.add_(1)", "x.sum().item()"])
def test_a_forked_child_gets_an_error_that_says_what_to_do(use: str, run_python: Callable[..., str]) -> None:
    out = run_python(
        f"""
import os, torch, torch_neuronx
x = torch.ones(2, device="neuron")
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    try:
        {use}
        text = "no error"
    except RuntimeError as error:
        text = str(error)
    os.write(w, text.encode())
    os._exit(0)
os.close(w)
print(os.read(r, 10000).decode().replace(chr(10), " "))
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert (x + 1).sum().item() == 4
"""
    )
    assert "fork" in out and "spawn" in out


def test_a_loader_with_worker_processes_feeds_the_device(run_python: Callable[..., str]) -> None:
    out = run_python(
        """
import torch, torch_neuronx
from torch.utils.data import DataLoader, TensorDataset
torch.ones(1, device="neuron")
data = TensorDataset(torch.arange(40.0))
total = 0.0
for (batch,) in DataLoader(data, batch_size=8, num_workers=2):
    total += batch.to("neuron").sum().item()
print(total)
"""
    )
    assert out.strip() == "780.0"


def test_two_processes_run_side_by_side() -> None:
    code = """
import torch, torch_neuronx
torch.manual_seed({seed})
w = torch.randn(64, 64)
a, b = w.to("neuron"), w.clone()
for _ in range(30):
    a, b = (a @ a.t()).tanh() * 0.1 + a, (b @ b.t()).tanh() * 0.1 + b
assert torch.allclose(a.cpu(), b, rtol=1e-3, atol=1e-3)
print("done {seed}")
"""
    running = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", code.format(seed=i)], stdout=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    assert [p.communicate(timeout=300)[0].strip() for p in running] == ["done 0", "done 1"]


LAST_WORK_IS_A_GRADIENT = """
import torch
x = torch.ones(4, device="neuron", requires_grad=True)
for _ in range(3):
    (gradient,) = torch.autograd.grad((x * x).sum(), x)
"""


def test_autograd_threads_let_go_before_the_interpreter_ends() -> None:
    # PyTorch's autograd thread drops its last reference to a pass some time after the pass; with more processes than cores
    # that is often after the interpreter began to shut down, where asking for the GIL ends in std::terminate.
    command = [sys.executable, "-c", LAST_WORK_IS_A_GRADIENT]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(12)]
    outputs = [p.communicate(timeout=300)[0] for p in running]
    assert [(p.returncode, out) for p, out in zip(running, outputs, strict=True)] == [(0, "")] * len(running)
