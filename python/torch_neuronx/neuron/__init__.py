"""``torch.neuron``: the device module, as ``torch.cuda`` is for CUDA. Queries do not initialise the device."""

from __future__ import annotations

from typing import Any

import torch

from torch_neuronx.neuron.amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    is_bf16_supported,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_neuronx.neuron.device import (
    _exchange_device,
    _is_in_bad_fork,
    _lazy_init,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from torch_neuronx.neuron.memory import (
    empty_cache,
    host_memory_stats,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from torch_neuronx.neuron.random import (
    _get_generator,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_neuronx.neuron.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

OutOfMemoryError = torch.OutOfMemoryError


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # torch.utils.checkpoint asks before it saves the generator's state
        return is_initialized()
    if name == "default_generators":
        return tuple(_get_generator(index) for index in range(device_count()))
    raise AttributeError(f"module 'torch.neuron' has no attribute {name!r}")


__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "_exchange_device",
    "_get_generator",
    "_is_in_bad_fork",
    "_lazy_init",
    "_maybe_exchange_device",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "host_memory_stats",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]
