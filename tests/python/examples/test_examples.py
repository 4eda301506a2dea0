"""The examples do what their pages say, on a small model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_neuronx

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
sys.path.insert(0, str(EXAMPLES))

import train_gpt  # noqa: E402

TEXT = train_gpt.read_text(EXAMPLES / "train_gpt.py")


def trainer(device: str, **options) -> train_gpt.Trainer:
    return train_gpt.Trainer(train_gpt.SIZES["tiny"], torch.device(device), TEXT, batch=4, **options)


def test_a_resumed_run_continues_the_interrupted_one(tmp_path: Path):
    whole = [s.loss for s in trainer("neuron", steps=6).run()]
    first = trainer("neuron", steps=6)
    start = [next(run).loss for run in [first.run()] for _ in range(3)]
    first.save(tmp_path / "checkpoint.pt")
    second = trainer("neuron", steps=6)
    second.load(tmp_path / "checkpoint.pt")
    assert start + [s.loss for s in second.run()] == whole


def test_a_checkpoint_moves_between_devices(tmp_path: Path):
    source = trainer("neuron", steps=4)
    next(source.run())
    source.save(tmp_path / "checkpoint.pt")
    target = trainer("cpu", steps=4)
    target.load(tmp_path / "checkpoint.pt")
    assert target.evaluate(1) == pytest.approx(source.evaluate(1), rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.8}, {"temperature": 0.8, "top_k": 10}])
def test_sampling_stays_on_the_device_and_compiles_only_at_the_start(options: dict[str, float]):
    model = trainer("neuron").model
    torch_neuronx.clear_op_tracking()
    counts = []
    text = train_gpt.generate(
        model, b"import ", 8, on_token=lambda _: counts.append(torch_neuronx.compile_count()), **options
    )
    assert len(text) == 8
    assert counts[1] == counts[-1]
    assert torch_neuronx.get_fallback_ops() == {}


def test_the_main_job_keeps_its_promises(tmp_path: Path):
    report = tmp_path / "report.html"
    command = [sys.executable, str(EXAMPLES / "compare_devices.py"), "--size", "tiny", "--steps", "12"]
    done = subprocess.run([*command, "--report", str(report)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    page = report.read_text()
    assert page.count("<svg") == 2 and "Every promise was kept" in page


def test_pretrained_embeddings_equal_cpu():
    pytest.importorskip("transformers", reason="an example package that ./dev setup installs")
    command = [sys.executable, str(EXAMPLES / "embed_text.py"), "read a file", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
