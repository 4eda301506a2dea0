"""Random numbers: one Philox generator per core, state = 16 bytes (seed, offset)."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_neuronx import _C
from torch_neuronx.neuron.device import DeviceLike, device_count, index_of

_generators: dict[int, torch.Generator] = {}


def _get_generator(device: DeviceLike) -> torch.Generator:
    """The default generator of a core. Does not initialise the device."""
    index = index_of(device)
    if index not in _generators:
        _generators[index] = _C.default_generator(index)
    return _generators[index]


def get_rng_state(device: DeviceLike = "neuron") -> torch.Tensor:
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "neuron") -> None:
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current core."""
    _get_generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for index in range(device_count()):
        _get_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seeds the current core's generator with a random number."""
    _get_generator(None).seed()


def seed_all() -> None:
    value = None
    for index in range(device_count()):
        if value is None:
            value = _get_generator(index).seed()
        else:
            _get_generator(index).manual_seed(value)


def initial_seed() -> int:
    return _get_generator(None).initial_seed()
