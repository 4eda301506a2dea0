"""Cores: how many, which one is current, what they are."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import torch

from torch_neuronx import _C

DeviceLike = torch.device | int | str | None

_forked_after_init = False


def _after_fork_in_child() -> None:
    global _forked_after_init
    _forked_after_init = _forked_after_init or _C.is_initialized()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _is_in_bad_fork() -> bool:
    """True in a child of a process that had initialised the device: nothing can run there; use the spawn start method."""
    return _forked_after_init


def index_of(device: DeviceLike) -> int:
    """Index of a core given as int, "neuron:1", torch.device or None (the current one)."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device if device >= 0 else current_device()
    device = torch.device(device)
    if device.type != "neuron":
        raise ValueError(f"expected a neuron device, got {device}")
    return current_device() if device.index is None else device.index


def init() -> None:
    """Initialises the runtime; the first use does the same."""
    _C.init()


_lazy_init = init


def is_initialized() -> bool:
    return bool(_C.is_initialized()) and not _forked_after_init


def is_available() -> bool:
    return device_count() > 0


def device_count() -> int:
    return int(_C.device_count())


def current_device() -> int:
    return int(_C.current_device())


def set_device(device: DeviceLike) -> None:
    torch._C._accelerator_setDeviceIndex(index_of(device))


def _exchange_device(device: int) -> int:
    before = current_device()
    if device >= 0 and device != before:
        set_device(device)
    return before


_maybe_exchange_device = _exchange_device


def synchronize(device: DeviceLike = None) -> None:
    """Waits for everything queued on a core; errors of earlier launches surface here."""
    if _is_in_bad_fork():
        _C.init()  # raises and says why
    _C.synchronize(index_of(device))


class device:
    """Context manager: the given core is current inside."""

    def __init__(self, device: DeviceLike):
        self.index = -1 if device is None else index_of(device)
        self.previous = -1

    def __enter__(self) -> None:
        self.previous = _exchange_device(self.index)

    def __exit__(self, *_: Any) -> bool:
        _exchange_device(self.previous)
        return False


class device_of(device):
    """Context manager: the core of a tensor is current inside; nothing happens for other tensors."""

    def __init__(self, tensor: torch.Tensor):
        super().__init__(tensor.device if tensor.device.type == "neuron" else None)


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    name: str
    total_memory: int
    multi_processor_count: int
    major: int = 2
    minor: int = 0


def get_device_name(device: DeviceLike = None) -> str:
    index_of(device)
    return "trn2"


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    _, total = _C.memory_info(index_of(device))
    # Two physical NeuronCores are one logical core.
    return DeviceProperties(name=get_device_name(device), total_memory=total, multi_processor_count=2)


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    index_of(device)
    return (2, 0)


def get_arch_list() -> list[str]:
    return ["trn2"]


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """False: copies between cores go through the host."""
    index_of(device), index_of(peer_device)
    return False
