"""Train a byte-level GPT and sample from it. Plain PyTorch: runs unchanged on CPU, CUDA or any accelerator.

python train_gpt.py                          # current accelerator, eager
python train_gpt.py --compile neuron         # torch.compile with that backend
python train_gpt.py --device cpu --steps 200 --text my_book.txt
python train_gpt.py --checkpoint run.pt      # saves there, resumes from there
python train_gpt.py --prompt "def main(" --temperature 0.8 --top-k 40
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm


@dataclasses.dataclass(frozen=True)
class Config:
    layers: int = 4
    heads: int = 4
    width: int = 256
    context: int = 256
    vocabulary: int = 256  # bytes
    dropout: float = 0.0


SIZES = {
    "tiny": Config(layers=2, heads=2, width=64, context=64),
    "small": Config(),
    "medium": Config(layers=8, heads=8, width=512, context=512),
}


class KeyValueCache:
    """Keys and values of one layer, preallocated: [batch, heads, context, head width]."""

    def __init__(self, batch: int, config: Config, device: torch.device, dtype: torch.dtype):
        shape = (batch, config.heads, config.context, config.width // config.heads)
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)

    def update(self, positions: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.keys.index_copy_(2, positions, keys)
        self.values.index_copy_(2, positions, values)
        return self.keys, self.values


class Attention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, cache: KeyValueCache | None, positions: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.config.heads, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.update(positions, k, v)
        dropout = self.config.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=mask is None)
        return self.dropout(self.out(y.transpose(1, 2).reshape(batch, length, width)))


class Block(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: Tensor, cache: KeyValueCache | None, positions: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.attention(self.norm1(x), cache, positions, mask)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                scale = 0.02 / math.sqrt(2 * config.layers) if name.endswith(("out.weight", "mlp.2.weight")) else 0.02
                nn.init.normal_(parameter, std=scale)

    def forward(
        self,
        tokens: Tensor,
        caches: list[KeyValueCache] | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches else None, positions, mask)
        return self.head(self.norm(x))

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self(tokens)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def read_text(path: Path | None) -> Tensor:
    """All bytes of a file, of a folder's files, or (default) of the standard library's Python sources, as uint8."""
    path = path or Path(sysconfig.get_path("stdlib"))
    if path.is_dir():
        # Site packages differ between machines; the standard library proper does not.
        files = sorted(
            f for f in path.rglob("*") if f.is_file() and not {"site-packages", "__pycache__", "test"} & set(f.parts)
        )
        if path == Path(sysconfig.get_path("stdlib")):
            files = [f for f in files if f.suffix == ".py"]
    elif path.is_file():
        files = [path]
    else:
        raise SystemExit(f"--text {path}: no such file or folder")
    data = b"".join(f.read_bytes() for f in files)
    if len(data) < 10_000:
        raise SystemExit(f"--text {path}: {len(data)} bytes are too few to train on (at least 10,000)")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


class Batches:
    """Random windows of the text; the same seed gives the same batches on every device."""

    def __init__(self, text: Tensor, batch: int, context: int, seed: int):
        split = int(len(text) * 0.95)
        self.parts = {"train": text[:split], "validation": text[split:]}
        self.batch, self.context = batch, context
        self.generator = torch.Generator().manual_seed(seed)

    def next(self) -> tuple[Tensor, Tensor]:
        return self.draw("train", self.generator)

    def draw(self, part: str, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        text = self.parts[part]
        starts = torch.randint(len(text) - self.context - 1, (self.batch,), generator=generator)
        windows = torch.stack([text[s : s + self.context + 1] for s in starts.tolist()]).long()
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def learning_rate(step: int, steps: int, peak: float, warmup: int = 10) -> float:
    """Linear warm-up, then cosine decay to a tenth of the peak."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


def autocast(device: torch.device, dtype: torch.dtype | None) -> contextlib.AbstractContextManager:
    return torch.autocast(device.type, dtype) if dtype else contextlib.nullcontext()


@dataclasses.dataclass
class Step:
    step: int
    loss: float
    seconds: float


class Trainer:
    """A model, its optimiser and its batches on one device."""

    def __init__(
        self,
        config: Config,
        device: torch.device,
        text: Tensor,
        *,
        batch: int = 8,
        steps: int = 60,
        peak_lr: float = 1e-3,
        dtype: torch.dtype | None = None,
        backend: str | None = None,
        seed: int = 1,
        weights: dict[str, Tensor] | None = None,
    ):
        torch.manual_seed(seed)
        self.config, self.device, self.steps, self.peak_lr, self.dtype = config, device, steps, peak_lr, dtype
        model = GPT(config)  # weights are drawn on the CPU, so that every device starts from the same
        if weights is not None:
            model.load_state_dict(weights)
        self.model = model.to(device)
        decay = [p for p in self.model.parameters() if p.dim() > 1]
        rest = [p for p in self.model.parameters() if p.dim() <= 1]
        groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=peak_lr, betas=(0.9, 0.95))
        self.batches = Batches(text, batch, config.context, seed)
        self.step = 0
        self._forward: Callable[[Tensor, Tensor], Tensor] = self._loss
        self._update: Callable[[], None] = self._clip_and_update
        if backend:
            self._forward = torch.compile(self._loss, backend=backend, fullgraph=True)
            self._update = torch.compile(self._clip_and_update, backend=backend)

    def _loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        with autocast(self.device, self.dtype):
            return self.model.loss(tokens, targets)

    def _clip_and_update(self) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def run(self) -> Iterator[Step]:
        """Trains until `steps`, yielding after each step. Reading the loss synchronises, as in any training loop that logs."""
        self.model.train()
        while self.step < self.steps:
            tokens, targets = (t.to(self.device) for t in self.batches.next())
            start = time.perf_counter()
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(self.step, self.steps, self.peak_lr)
            loss = self._forward(tokens, targets)
            loss.backward()
            self._update()
            self.optimizer.zero_grad(set_to_none=True)
            done = Step(self.step, loss.item(), time.perf_counter() - start)
            self.step += 1
            yield done

    @torch.no_grad()
    def evaluate(self, batches: int = 4) -> float:
        """Mean loss over validation batches; the same batches at every call."""
        self.model.eval()
        generator = torch.Generator().manual_seed(0)
        losses = []
        for _ in range(batches):
            tokens, targets = (t.to(self.device) for t in self.batches.draw("validation", generator))
            losses.append(self._loss(tokens, targets).item())
        self.model.train()
        return sum(losses) / len(losses)

    def save(self, path: Path) -> None:
        """Writes a checkpoint; a file of that name is replaced only once the new one is complete."""
        state = {
            "config": dataclasses.asdict(self.config),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "batches": self.batches.generator.get_state(),
            "step": self.step,
        }
        partial = path.with_name(path.name + ".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location=self.device, weights_only=True)
        if state["config"] != dataclasses.asdict(self.config):
            raise SystemExit(f"{path} holds another model: {state['config']}")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.batches.generator.set_state(state["batches"].cpu())
        self.step = state["step"]


@torch.no_grad()
def generate(
    model: GPT,
    prompt: bytes,
    tokens: int,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    on_token: Callable[[int], None] | None = None,
) -> bytes:
    """Continues `prompt`. Temperature 0 is greedy. Shapes stay fixed after the prompt: one position at a time, cache in place."""
    config, device = model.config, next(model.parameters()).device
    length = len(prompt)
    if not 0 < length <= config.context - tokens:
        raise ValueError(f"prompt ({length} bytes) and {tokens} new tokens must fit the context of {config.context}")
    training = model.training
    model.eval()
    dtype = next(model.parameters()).dtype
    caches = [KeyValueCache(1, config, device, dtype) for _ in model.blocks]
    slots = torch.arange(config.context, device=device)
    positions = slots[:length]
    current = torch.tensor([list(prompt)], device=device)
    out = []
    for i in range(tokens):
        mask = slots[None, :] <= positions[:, None]  # [new positions, context]
        logits = model(current, caches, positions, mask)[:, -1]
        if temperature == 0:
            current = logits.argmax(-1, keepdim=True)
        else:
            logits = logits / temperature
            if top_k is not None:
                threshold = logits.topk(top_k).values[:, -1:]
                logits = logits.masked_fill(logits < threshold, float("-inf"))
            current = torch.multinomial(logits.softmax(-1), 1)
        out.append(current)
        positions = positions[-1:] + 1
        if on_token is not None:
            on_token(i)
    model.train(training)
    return bytes(torch.cat(out, 1)[0].tolist())


def default_device() -> torch.device:
    return torch.accelerator.current_accelerator() or torch.device("cpu")


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=torch.device, default=None, help="default: the current accelerator")
    parser.add_argument("--compile", metavar="BACKEND", help="torch.compile backend; default: eager")
    parser.add_argument("--text", type=Path, help="file or folder to train on; default: the standard library's sources")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="bfloat16: autocast")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", type=Path, help="save here at the end and every 50 steps; resume if it exists")
    parser.add_argument("--prompt", default="def ", help="what to continue after training")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 = greedy")
    parser.add_argument("--top-k", type=int)
    return parser.parse_args(arguments)


def main() -> None:
    arguments = parse_arguments()
    device = arguments.device or default_device()
    config = dataclasses.replace(SIZES[arguments.size], dropout=arguments.dropout)
    trainer = Trainer(
        config,
        device,
        read_text(arguments.text),
        batch=arguments.batch,
        steps=arguments.steps,
        peak_lr=arguments.lr,
        dtype=torch.bfloat16 if arguments.dtype == "bfloat16" else None,
        backend=arguments.compile,
        seed=arguments.seed,
    )
    if arguments.checkpoint and arguments.checkpoint.exists():
        trainer.load(arguments.checkpoint)
        print(f"resumed {arguments.checkpoint} at step {trainer.step}")
    count = sum(p.numel() for p in trainer.model.parameters())
    print(f"{count:,} parameters on {device}{f', compiled by {arguments.compile}' if arguments.compile else ''}")
    with tqdm(total=arguments.steps, initial=trainer.step, file=sys.stderr) as bar:
        for done in trainer.run():
            bar.set_postfix(loss=f"{done.loss:.4f}", tokens_per_s=f"{arguments.batch * config.context / done.seconds:,.0f}")
            bar.update()
            if arguments.checkpoint and trainer.step % 50 == 0:
                trainer.save(arguments.checkpoint)
    print(f"validation loss {trainer.evaluate():.4f}")
    if arguments.checkpoint:
        trainer.save(arguments.checkpoint)
    prompt = arguments.prompt.encode()
    text = generate(trainer.model, prompt, arguments.tokens, temperature=arguments.temperature, top_k=arguments.top_k)
    print((prompt + text).decode(errors="replace"))


if __name__ == "__main__":
    main()
