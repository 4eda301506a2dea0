"""Statistics, caching, out-of-memory errors and pinned memory."""

from __future__ import annotations

import gc
import subprocess
import sys

import torch


def test_statistics_follow_allocations() -> None:
    gc.collect()
    before = torch.neuron.memory_allocated()
    t = torch.empty(1 << 20, device="neuron")
    assert torch.neuron.memory_allocated() - before >= 4 << 20
    assert torch.accelerator.memory_allocated() == torch.neuron.memory_allocated()
    peak = torch.neuron.max_memory_allocated()
    del t
    assert torch.neuron.memory_allocated() == before and torch.neuron.max_memory_allocated() == peak
    torch.neuron.reset_peak_memory_stats()
    assert torch.neuron.max_memory_allocated() == torch.neuron.memory_allocated()


def test_empty_cache_returns_memory() -> None:
    t = torch.empty(64 << 20, dtype=torch.uint8, device="neuron")
    del t
    assert torch.neuron.memory_reserved() >= 64 << 20
    torch.neuron.empty_cache()
    assert torch.neuron.memory_reserved() < 64 << 20


def test_memory_info_is_free_and_total() -> None:
    free, total = torch.neuron.mem_get_info()
    assert 0 < free <= total
    assert torch.accelerator.get_memory_info() == (free, total)


def test_memory_stats_have_pytorch_names() -> None:
    torch.ones(1).to("neuron")
    assert set(torch.accelerator.memory_stats()) & set(torch.neuron.memory_stats())
    assert "allocated_bytes.all.current" in torch.neuron.memory_stats()
    assert "allocated_bytes" in torch.neuron.memory_summary()


def test_out_of_memory_names_sizes_and_leaves_the_device_usable() -> None:
    code = """
import torch, torch_neuronx
held = torch.empty(100 << 20, dtype=torch.uint8, device="neuron")
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="neuron")
except torch.OutOfMemoryError as error:
    text = str(error)
    assert str(1 << 30) in text and "free" in text and "cached" in text, text
else:
    raise SystemExit("no error")
print(torch.empty(50 << 20, dtype=torch.uint8, device="neuron").nbytes, torch.ones(3).to("neuron").cpu().sum().item())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False,
        env={"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "NEURON_EMULATOR_HBM_BYTES": "512M"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [str(50 << 20), "3.0"]


def test_pinned_memory_is_recognised_and_reused() -> None:
    t = torch.arange(1000.0).pin_memory()
    assert t.is_pinned() and not torch.ones(3).is_pinned()
    assert torch.equal(t.to("neuron").cpu(), t)
    address = t.data_ptr()
    del t
    gc.collect()
    assert torch.empty(1000, pin_memory=True).data_ptr() == address


def test_loader_with_pinned_memory() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(32.0))
    loader = torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True)
    total = sum(batch[0].to("neuron", non_blocking=True).cpu().sum().item() for batch in loader)
    assert total == sum(range(32))
