"""Ratios against CPU eager in one process: interleaved rounds, median of per-round ratios. Writes docs/performance.md.

Times alone mean nothing on shared machines; a ratio of two contenders that took turns does.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import torch_neuronx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))


@dataclasses.dataclass
class Row:
    """One line of the table. `bar` is the promise, `kept` whether this run keeps it."""

    what: str
    value: str
    bar: str
    kept: bool | None = None


# Threads of the contender before keep spinning for a while (OpenMP's for about 10 ms): nobody is timed against them.
SETTLE_SECONDS = 0.03


def timed(fn: Callable[[], object], repeat: int) -> float:
    """Seconds per call."""
    time.sleep(SETTLE_SECONDS)
    fn()
    torch.neuron.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        fn()
    torch.neuron.synchronize()
    return (time.perf_counter() - start) / repeat


def ratio(ours: Callable[[], object], cpu: Callable[[], object], *, rounds: int, repeat: int) -> tuple[float, float, float]:
    """Median over rounds of time_cpu / time_ours (above 1: ours is faster), and the two medians in seconds."""
    timed(ours, max(3, repeat // 10)), timed(cpu, max(3, repeat // 10))
    ratios, a, b = [], [], []
    for round_number in range(rounds):
        order = (ours, cpu) if round_number % 2 == 0 else (cpu, ours)
        times = {id(fn): timed(fn, repeat) for fn in order}
        a.append(times[id(ours)])
        b.append(times[id(cpu)])
        ratios.append(b[-1] / a[-1])
    return statistics.median(ratios), statistics.median(a), statistics.median(b)


def cached_add(rounds: int) -> Row:
    x, y = torch.ones(1), torch.ones(1)
    u, v = x.to("neuron"), y.to("neuron")
    speedup, ours, cpu = ratio(lambda: u + v, lambda: x + y, rounds=rounds, repeat=20000)
    value = f"{1 / speedup:.2f} x CPU's time ({ours * 1e6:.2f} us, CPU {cpu * 1e6:.2f} us)"
    return Row("cached one-element `add` from Python", value, "<= 1.2 x", 1 / speedup <= 1.2)


def cold_miss(rounds: int) -> Row:
    inputs = [torch.ones(7, 100 + i, device="neuron") for i in range(max(20, rounds * 4))]
    inputs[0] + inputs[0]
    times = []
    for x in inputs[1:]:
        start = time.perf_counter()
        x + x
        times.append(time.perf_counter() - start)
    median = statistics.median(times) * 1e3
    return Row("cold miss of a rule-covered operator (`add`, new shape)", f"{median:.2f} ms", "<= 1 ms", median <= 1)


def matmul(rounds: int, size: int, bar: float | None, dtype: torch.dtype = torch.float32) -> Row:
    x, y = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
    u, v = x.to("neuron"), y.to("neuron")
    out, device_out = torch.empty_like(x), torch.empty_like(u)
    speedup, _, _ = ratio(
        lambda: torch.mm(u, v, out=device_out),
        lambda: torch.mm(x, y, out=out),
        rounds=rounds,
        repeat=max(2, 2**31 // size**3),
    )
    name = str(dtype).removeprefix("torch.")
    return Row(
        f"{name} matmul {size}^3",
        f"{speedup:.2f} x torch CPU",
        f">= {bar} x" if bar else "",
        speedup >= bar if bar else None,
    )


def elementwise(rounds: int, name: str, fn: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> Row:
    x = torch.randn(shape)
    u = x.to("neuron")
    speedup, _, _ = ratio(lambda: fn(u), lambda: fn(x), rounds=rounds, repeat=max(3, 2**24 // x.numel()))
    return Row(f"{name} {list(shape)}", f"{speedup:.2f} x torch CPU", "")


def train_step(rounds: int) -> list[Row]:
    """The example's step on CPU eager, neuron eager, neuron compiled, in turns."""
    from train_gpt import SIZES, Trainer, read_text

    text = read_text(None)
    rounds *= 4  # a step takes long enough for the machine's mood to change within it: the median needs more of them
    steps = 3 + rounds
    runs = {
        name: Trainer(SIZES["small"], torch.device(device), text, steps=steps, backend=backend).run()
        for name, device, backend in [("cpu", "cpu", None), ("eager", "neuron", None), ("compiled", "neuron", "neuron")]
    }
    for _ in range(3):
        for run in runs.values():
            next(run)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(SETTLE_SECONDS)
            seconds[name].append(next(run).seconds)
    rows = []
    for name, bar in [("eager", 0.7), ("compiled", 1.0)]:
        speedup = statistics.median(c / o for c, o in zip(seconds["cpu"], seconds[name], strict=True))
        rows.append(Row(f"example train step, {name}", f"{speedup:.2f} x CPU eager", f">= {bar} x", speedup >= bar))
    return rows


def autoload(rounds: int) -> Row:
    def import_seconds(enabled: str) -> float:
        environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": enabled}
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch"], env=environment, check=True)
        return time.perf_counter() - start

    import_seconds("1"), import_seconds("0")
    # Starting a process is only ever delayed: the best of each is its cost.
    pairs = [(import_seconds("1"), import_seconds("0")) for _ in range(max(9, 2 * rounds))]
    difference = min(with_ours for with_ours, _ in pairs) - min(bare for _, bare in pairs)
    return Row("autoload over bare `import torch`", f"{difference:.3f} s", "<= 0.15 s", difference <= 0.15)


def full_build() -> Row:
    """A build from nothing in a folder of its own, without ccache."""
    import shutil

    folder = ROOT / "build" / "timed"
    shutil.rmtree(folder, ignore_errors=True)
    environment = os.environ | {"CCACHE_DISABLE": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"]
    start = time.perf_counter()
    subprocess.run(
        [*configure, "-DNEURON_PYTORCH_OUTPUT_DIR=" + str(folder / "package")],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(["ninja", "-C", str(folder), "--quiet"], env=environment, check=True)
    minutes = (time.perf_counter() - start) / 60
    shutil.rmtree(folder)
    return Row("full build, no ccache", f"{minutes:.1f} min", "<= 10 min", minutes <= 10)


def machine() -> str:
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return (
        f"{os.cpu_count()} cores of {model}, kernels {torch_neuronx.runtime_info()['host_isa']}, torch {torch.__version__}"
    )


def write(rows: list[Row], path: Path, rounds: int) -> None:
    lines = [
        "# Performance",
        "",
        "Written by `./dev bench`; nobody edits a number by hand. Ratios are medians of interleaved rounds in one process:",
        "`x torch CPU` above 1 means `neuron` (the software NeuronCore on this host) was faster. Wall time, not modelled time.",
        "Between turns the machine rests for 30 ms, so that no contender runs beside the other's spinning threads.",
        "",
        f"{datetime.date.today().isoformat()}, {machine()}, {rounds} rounds.",
        "",
        "| what | measured | promise | kept |",
        "|---|---|---|---|",
    ]
    for row in rows:
        kept = "" if row.kept is None else "yes" if row.kept else "**no**"
        lines.append(f"| {row.what} | {row.value} | {row.bar} | {kept} |")
    partial = path.with_suffix(".partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.replace(partial, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--build", action="store_true", help="also time a full build from nothing")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "performance.md")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    torch.manual_seed(0)
    rows: list[Row] = []

    def show(row: Row) -> None:
        rows.append(row)
        verdict = "" if row.kept is None else "  ok" if row.kept else "  MISSED"
        print(f"{row.what:<56} {row.value:<52} {row.bar}{verdict}", flush=True)

    show(cached_add(rounds))
    show(cold_miss(rounds))
    show(matmul(rounds, 1024, 0.85))
    for size in (128, 256, 512, 2048):
        show(matmul(rounds, size, None))
    show(matmul(rounds, 1024, None, torch.bfloat16))
    show(elementwise(rounds, "exp", torch.exp, (1024, 1024)))
    show(elementwise(rounds, "gelu", torch.nn.functional.gelu, (1024, 1024)))
    show(elementwise(rounds, "softmax", lambda t: t.softmax(-1), (2048, 1024)))
    show(elementwise(rounds, "layer_norm", lambda t: torch.nn.functional.layer_norm(t, (1024,)), (2048, 1024)))
    show(elementwise(rounds, "sum", lambda t: t.sum(), (1024, 1024)))
    for row in train_step(rounds):
        show(row)
    show(autoload(rounds))
    if arguments.build:
        show(full_build())
    write(rows, arguments.output, rounds)
    print(f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
