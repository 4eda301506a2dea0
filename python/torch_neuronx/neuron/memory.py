"""Device memory: statistics of the caching allocator, and giving memory back."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torch_neuronx import _C
from torch_neuronx.neuron.device import DeviceLike, index_of


def empty_cache() -> None:
    """Returns cached blocks that no tensor uses."""
    if _C.is_initialized():
        _C.empty_cache()


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, Any]:
    """Flat statistics, named as torch.accelerator.memory_stats names them."""
    flat: OrderedDict[str, Any] = OrderedDict()
    for name, value in sorted(_C.memory_stats(index_of(device)).items()):
        if isinstance(value, dict):
            for field, number in sorted(value.items()):
                flat[f"{name}.all.{field}"] = number
        else:
            flat[name] = value
    return flat


def _stat(device: DeviceLike, name: str, field: str) -> int:
    return int(_C.memory_stats(index_of(device))[name][field])


def memory_allocated(device: DeviceLike = None) -> int:
    return _stat(device, "allocated_bytes", "current")


def max_memory_allocated(device: DeviceLike = None) -> int:
    return _stat(device, "allocated_bytes", "peak")


def memory_reserved(device: DeviceLike = None) -> int:
    return _stat(device, "reserved_bytes", "current")


def max_memory_reserved(device: DeviceLike = None) -> int:
    return _stat(device, "reserved_bytes", "peak")


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    _C.reset_peak_memory_stats(index_of(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    _C.reset_accumulated_memory_stats(index_of(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes of a core."""
    free, total = _C.memory_info(index_of(device))
    return int(free), int(total)


def memory_snapshot(device: DeviceLike = None) -> list[dict[str, Any]]:
    """One entry per core with its totals; the allocator does not list single blocks."""
    index = index_of(device)
    return [
        {
            "device": index,
            "total_size": memory_reserved(index),
            "allocated_size": memory_allocated(index),
            "active_size": _stat(index, "active_bytes", "current"),
        }
    ]


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """A table of the allocator's statistics."""
    index = index_of(device)
    stats = _C.memory_stats(index)
    names = ["allocated_bytes", "reserved_bytes"] if abbreviated else [n for n, v in stats.items() if isinstance(v, dict)]
    fields = ("current", "peak", "allocated", "freed")
    lines = [f"neuron:{index}", f"{'':<22}" + "".join(f"{f:>18}" for f in fields)]
    lines += [f"{name:<22}" + "".join(f"{stats[name][f]:>18,}" for f in fields) for name in names]
    lines += [f"{name:<22}{value:>18,}" for name, value in stats.items() if not isinstance(value, dict)]
    return "\n".join(lines)


def host_memory_stats() -> dict[str, Any]:
    """Statistics of pinned host memory."""
    return dict(_C.host_memory_stats())


def ipc_collect() -> None:
    """Nothing to collect: device memory is not shared between processes."""
