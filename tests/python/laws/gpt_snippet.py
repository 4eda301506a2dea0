"""Code that tests run in processes of their own."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

# The training example at its smallest; `trainer(backend, dropout)` makes one, `steps(trainer, n)` runs n steps.
GPT = f"""
import dataclasses, sys
import torch, torch_neuronx
sys.path.insert(0, {str(ROOT / "examples")!r})
import train_gpt

TEXT = torch.randint(0, 256, (20_000,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

def trainer(backend=None, dropout=0.1, steps=100):
    config = dataclasses.replace(train_gpt.SIZES["tiny"], layers=1, dropout=dropout)
    return train_gpt.Trainer(config, torch.device("neuron"), TEXT, batch=2, steps=steps, backend=backend)

def steps(runner, n):
    return [next(runner) for _ in range(n)]
"""
