"""The main job of `./dev run`: one GPT, same weights and batches, on cpu, on neuron eager and on neuron compiled.

Prints a report and writes it as one self-contained HTML page. Exit status 1 when a promise is broken: losses that differ from
CPU's, a loss that does not fall, an operator that fell back to the CPU, an executable compiled after the warm-up.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import torch_neuronx
from report_html import write_html
from train_gpt import GPT, SIZES, Config, Trainer, generate, read_text

MODEL_FIELDS = ("total_ns", "launch_ns", "tensor_ns", "vector_ns", "scalar_ns", "gpsimd_ns", "dma_ns", "routine_ns", "flops")
ENGINES = {"TensorE": "tensor_ns", "VectorE": "vector_ns", "ScalarE": "scalar_ns", "GpSimdE": "gpsimd_ns", "DMA": "dma_ns"}


@dataclasses.dataclass
class Modelled:
    """Trainium2 time of one training step, by the timing model: sums over the executables that the step launched."""

    launches: int = 0
    executables: int = 0
    totals: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(MODEL_FIELDS, 0.0))
    physical_cores: int = 1
    timeline: str = "[]"  # of the executable with the most time; taken now because executables may be unloaded later

    @property
    def bound_by(self) -> str:
        return max(ENGINES, key=lambda e: self.totals[ENGINES[e]])

    @property
    def routine_share(self) -> float:
        busy = sum(self.totals[f] for f in ENGINES.values())
        return self.totals["routine_ns"] / busy if busy else 0.0


@dataclasses.dataclass
class Run:
    """What one training run showed."""

    name: str
    losses: list[float] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)
    compiled: list[int] = dataclasses.field(default_factory=list)  # executables compiled in each step
    fallbacks: dict[str, int] = dataclasses.field(default_factory=dict)
    peak_bytes: int = 0
    validation: float = 0.0
    modelled: Modelled | None = None
    weights: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    def tokens_per_second(self, tokens: int) -> float:
        """Median over the second half: past compilation and warm-up."""
        tail = sorted(self.seconds[len(self.seconds) // 2 :])
        return tokens / tail[len(tail) // 2]


def launches() -> dict[int, int]:
    return {e["sequence"]: e["launches"] for e in torch_neuronx.executables()}


def modelled_step(before: dict[int, int], after: dict[int, int]) -> Modelled:
    step, most, slowest = Modelled(), -1.0, 0
    for sequence, count in after.items():
        count -= before.get(sequence, 0)
        model = torch_neuronx.model_time(sequence) if count else None
        if model is None:
            continue
        step.launches += count
        step.executables += 1
        for field in MODEL_FIELDS:
            step.totals[field] += count * model[field]
        step.physical_cores = max(step.physical_cores, model["physical_cores_used"])
        if model["total_ns"] * count > most:
            most, slowest = model["total_ns"] * count, sequence
    if slowest:
        step.timeline = torch_neuronx.timeline(slowest)
    return step


def train(name: str, trainer: Trainer, advance: Callable[[str], None]) -> Run:
    run = Run(name)
    on_neuron = trainer.device.type == "neuron"
    if on_neuron:
        torch_neuronx.clear_op_tracking()
        torch.accelerator.memory.reset_peak_memory_stats()
    count, before = torch_neuronx.compile_count(), {}
    for done in trainer.run():
        run.losses.append(done.loss)
        run.seconds.append(done.seconds)
        run.compiled.append(torch_neuronx.compile_count() - count)
        count += run.compiled[-1]
        if on_neuron and trainer.step == trainer.steps:
            run.modelled = modelled_step(before, launches())
        before = launches() if on_neuron and trainer.step >= trainer.steps - 1 else {}
        advance(f"loss {done.loss:.3f}")
    run.validation = trainer.evaluate()
    if on_neuron:
        run.fallbacks = torch_neuronx.get_fallback_ops()
        run.peak_bytes = torch.accelerator.memory.max_memory_allocated()
    run.weights = {k: v.detach().cpu() for k, v in trainer.model.state_dict().items()}
    return run


@dataclasses.dataclass
class Generation:
    expected: bytes
    actual: bytes
    compiled: list[int]  # per token
    tokens_per_second: float
    fallbacks: dict[str, int]


def compare_generation(config: Config, weights: dict[str, torch.Tensor], prompt: bytes, tokens: int) -> Generation:
    """Greedy continuations from the same weights on CPU and neuron."""
    model = GPT(dataclasses.replace(config, dropout=0.0))
    model.load_state_dict(weights)
    expected = generate(model, prompt, tokens)
    model = model.to("neuron")
    compiled, count = [], torch_neuronx.compile_count()

    def on_token(_: int) -> None:
        nonlocal count
        now = torch_neuronx.compile_count()
        compiled.append(now - count)
        count = now

    torch_neuronx.clear_op_tracking()
    start = time.perf_counter()
    actual = generate(model, prompt, tokens, on_token=on_token)
    seconds = time.perf_counter() - start
    return Generation(expected, actual, compiled, tokens / seconds, torch_neuronx.get_fallback_ops())


def relative_differences(reference: Run, other: Run) -> list[float]:
    return [abs(a - b) / abs(a) for a, b in zip(reference.losses, other.losses, strict=True)]


def broken_promises(runs: dict[str, Run], generation: Generation, dtype: str) -> list[str]:
    broken = []
    reference = runs.get("cpu")
    for run in runs.values():
        fell = run.losses[0] - min(run.losses[-10:])
        if len(run.losses) >= 60 and fell < 1.5:
            broken.append(f"{run.name}: the loss fell by {fell:.2f} nats, less than 1.5")
        for op, count in run.fallbacks.items():
            broken.append(f"{run.name}: {op} fell back to the CPU {count} times")
        if run is reference or run.name == "cpu":
            continue
        if run.name == "neuron eager" and sum(run.compiled[2:]):
            late = [i + 1 for i, n in enumerate(run.compiled) if n and i >= 2]
            broken.append(f"{run.name}: executables were compiled in steps {late}")
        if run.name == "neuron compiled" and sum(1 for n in run.compiled[1:] if n) > 1:
            late = [i + 1 for i, n in enumerate(run.compiled) if n and i >= 1]
            broken.append(f"{run.name}: the step was recompiled in steps {late}")
        if reference and "dropout" not in run.name:
            # bfloat16 keeps 8 bits: a rounding of 2^-9 in every operator, where float32 has 2^-24.
            first, later = (1e-4, 1e-2) if dtype == "float32" else (1e-2, 5e-2)
            for step, difference in enumerate(relative_differences(reference, run)):
                if not difference <= (first if step < 10 else later):
                    broken.append(f"{run.name}: loss of step {step + 1} differs from CPU's by {difference:.1e}")
                    break
    if generation.actual != generation.expected:
        broken.append(f"greedy text differs from CPU's: {generation.actual!r} != {generation.expected!r}")
    if sum(generation.compiled[2:]):
        broken.append(f"generation compiled after its second token: {generation.compiled}")
    for op, count in generation.fallbacks.items():
        broken.append(f"generation: {op} fell back to the CPU {count} times")
    return broken


def loss_table(runs: dict[str, Run]) -> Table:
    table = Table(title="Loss", title_justify="left")
    table.add_column("step", justify="right")
    for name in runs:
        table.add_column(name, justify="right")
    steps = max(len(r.losses) for r in runs.values())
    shown = sorted({0, 1, 2, 4, 9, *range(19, steps, 20), steps - 1})
    for step in (s for s in shown if s < steps):
        table.add_row(str(step + 1), *(f"{r.losses[step]:.5f}" if step < len(r.losses) else "" for r in runs.values()))
    table.add_row("validation", *(f"{r.validation:.5f}" for r in runs.values()))
    return table


def facts(runs: dict[str, Run], generation: Generation, tokens: int) -> list[tuple[str, str]]:
    """The rest of the report, as (what, value) lines; the HTML page shows the same."""
    lines = []
    reference = runs.get("cpu")
    for run in runs.values():
        if reference and run is not reference and "dropout" not in run.name:
            lines.append(
                (f"largest relative loss difference, {run.name}", f"{max(relative_differences(reference, run)):.1e}")
            )
    for run in runs.values():
        speed = run.tokens_per_second(tokens)
        ratio = f" ({speed / reference.tokens_per_second(tokens):.2f} x cpu)" if reference and run is not reference else ""
        lines.append((f"tokens/s (wall time), {run.name}", f"{speed:,.0f}{ratio}"))
    for run in runs.values():
        if run.modelled is None:
            continue
        when = ", ".join(f"step {i + 1}: {n}" for i, n in enumerate(run.compiled) if n) or "none"
        lines.append((f"operators fallen back, {run.name}", str(len(run.fallbacks))))
        lines.append((f"executables compiled, {run.name}", when))
        lines.append((f"share of routine work, {run.name}", f"{100 * run.modelled.routine_share:.1f} %"))
        lines.append((f"peak device memory, {run.name}", f"{run.peak_bytes / 2**20:,.1f} MiB"))
    for run in runs.values():
        if run.modelled is None:
            continue
        m = run.modelled
        lines.append((f"modelled Trainium2 time per step, {run.name}", f"{m.totals['total_ns'] / 1e6:.3f} ms"))
        lines.append((f"  launch overhead, {run.name}", f"{m.totals['launch_ns'] / 1e6:.3f} ms in {m.launches} launches"))
        busy = ", ".join(f"{e} {m.totals[f] / 1e6:.3f}" for e, f in ENGINES.items())
        lines.append((f"  bound by {m.bound_by}; busy ms, {run.name}", busy))
        if m.physical_cores < 2:
            lines.append((f"  second physical core, {run.name}", "idle (unused)"))
    lines.append(("generation, tokens/s (wall time)", f"{generation.tokens_per_second:,.1f}"))
    lines.append(("greedy text equals CPU's", "yes" if generation.actual == generation.expected else "NO"))
    return lines


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--text", type=Path, help="file or folder to train on; default: the standard library's sources")
    parser.add_argument("--no-cpu", action="store_true", help="skip the CPU run and what is compared with it")
    parser.add_argument("--report", type=Path, default=Path("report.html"))
    arguments = parser.parse_args()
    if arguments.steps < 3:
        parser.error("--steps must be at least 3: the report looks at a step after warm-up")
    return arguments


def main() -> int:
    arguments = parse_arguments()
    console = Console(width=None if sys.stdout.isatty() else 140)
    config = SIZES[arguments.size]
    batch = max(1, 2048 // config.context)
    text = read_text(arguments.text)
    dtype = torch.bfloat16 if arguments.dtype == "bfloat16" else None
    plans: dict[str, dict[str, object]] = {} if arguments.no_cpu else {"cpu": {"device": "cpu"}}
    plans["neuron eager"] = {"device": "neuron"}
    plans["neuron compiled"] = {"device": "neuron", "backend": "neuron"}
    plans["neuron compiled, dropout 0.1"] = {"device": "neuron", "backend": "neuron", "dropout": 0.1}
    runs: dict[str, Run] = {}
    columns = (
        TextColumn("{task.description:<30}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as progress:
        for name, plan in plans.items():
            torch.compiler.reset()
            task = progress.add_task(name, total=arguments.steps, note="")
            trainer = Trainer(
                dataclasses.replace(config, dropout=plan.get("dropout", 0.0)),
                torch.device(plan["device"]),
                text,
                batch=batch,
                steps=arguments.steps,
                dtype=dtype,
                backend=plan.get("backend"),
            )
            runs[name] = train(name, trainer, lambda note, t=task: progress.update(t, advance=1, note=note))
    generation = compare_generation(config, next(iter(runs.values())).weights, b"def ", 48 if config.context > 52 else 16)

    lines = facts(runs, generation, batch * config.context)
    console.print(loss_table(runs))
    table = Table(show_header=False, box=None)
    for what, value in lines:
        table.add_row(what, value)
    console.print(table)
    console.print("[dim]greedy text:[/dim]", repr((b"def " + generation.actual).decode(errors="replace")))
    broken = broken_promises(runs, generation, arguments.dtype)
    modelled = runs["neuron compiled"].modelled
    timeline = modelled.timeline if modelled else "[]"
    write_html(arguments.report, {n: r.losses for n, r in runs.items()}, lines, broken, timeline)
    console.print(f"report written to {arguments.report}")
    for promise in broken:
        console.print(f"[red]broken:[/red] {promise}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
