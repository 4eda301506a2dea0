"""What the device did: operators, fallbacks to the CPU, executables and their modelled time."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch_neuronx import _C


def get_executed_ops() -> dict[str, int]:
    """Calls per operator that ran on the device since the last clear_op_tracking()."""
    return dict(_C.executed_ops())


def get_fallback_ops() -> dict[str, int]:
    """Calls per operator that ran on the CPU although their tensors are on the device."""
    return {op: count for op, (count, _) in _C.fallback_ops().items()}


def fallback_count() -> int:
    return sum(get_fallback_ops().values())


def clear_op_tracking() -> None:
    """Operator counters to zero; executables keep their launch counts and sequence numbers."""
    _C.clear_op_tracking()


def compile_count() -> int:
    """Executables compiled in this process so far."""
    return int(_C.compile_count())


def executables() -> list[dict[str, Any]]:
    """sequence, name, signature, device, compile_ms and launches of every executable, in order of compilation."""
    return list(_C.executables())


def model_time(sequence: int) -> dict[str, Any] | None:
    """What the timing model says about one launch, in nanoseconds; None on hardware and for unloaded executables."""
    return _C.model_time(sequence)


def timeline(sequence: int, max_events: int = 20000) -> str:
    """Modelled per-instruction timeline of one launch, as JSON."""
    return str(_C.timeline(sequence, max_events))


def disassemble(sequence: int) -> str:
    return str(_C.disassemble(sequence))


@dataclasses.dataclass
class Explanation:
    """Printable summary; the parts are plain data."""

    executed: dict[str, int]
    fallbacks: dict[str, tuple[int, str]]
    executables: list[dict[str, Any]]
    cache: dict[str, int]

    def __str__(self) -> str:
        lines = [f"{sum(self.executed.values())} operator calls on neuron, {len(self.executed)} operators"]
        lines += [f"{sum(n for n, _ in self.fallbacks.values())} calls fell back to the CPU"]
        lines += [f"  {op}: {count} ({reason})" for op, (count, reason) in sorted(self.fallbacks.items())]
        lines += [f"{len(self.executables)} executables compiled; cache {self.cache['entries']} of {self.cache['capacity']}"]
        lines += ["   no.  compile ms  launches  model us  routine  bound by  name"]
        for row in self.executables:
            time = model_time(row["sequence"])
            modelled = "       -        -         -"
            if time is not None:
                share = time["routine_ns"] / time["total_ns"] if time["total_ns"] else 0.0
                modelled = f"{time['total_ns'] / 1e3:8.1f}  {share:6.0%}  {time['bound_by']:>8}"
            lines.append(
                f"{row['sequence']:6d}  {row['compile_ms']:10.2f}  {row['launches']:8d}  {modelled}  "
                f"{row['name']}({row['signature']})"
            )
        return "\n".join(lines)

    __repr__ = __str__


def explain() -> Explanation:
    return Explanation(dict(_C.executed_ops()), dict(_C.fallback_ops()), executables(), dict(_C.cache_stats()))
