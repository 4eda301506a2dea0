"""Streams and events. Event times are the modelled clock of the core, never the host's."""

from __future__ import annotations

from typing import Any

import torch

from torch_neuronx.neuron.device import DeviceLike, index_of


class Stream(torch.Stream):
    """A queue of work on a core."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> Stream:
        if kwargs:  # stream_id, device_index, device_type: an existing stream
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, torch.device("neuron", index_of(device)), priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        self.wait_event(stream.record_event())


class _EventType(type(torch.Event)):  # type: ignore[misc]
    """isinstance(e, torch.neuron.Event) asks for the device, because instances are plain torch.Events."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "neuron"


class Event(torch.Event, metaclass=_EventType):
    """A mark in a stream. ``elapsed_time`` is modelled milliseconds.

    Creating one gives a plain torch.Event: torch 2.13's elapsed_time refuses a subclass as its argument.
    """

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, device: DeviceLike = None
    ) -> torch.Event:
        return torch.Event(
            torch.device("neuron", index_of(device)),
            enable_timing=enable_timing,
            blocking=blocking,
            interprocess=interprocess,
        )


def _as_stream(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: DeviceLike = None) -> Stream:
    return _as_stream(torch._C._accelerator_getStream(index_of(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    current = torch._C._accelerator_getStream(index_of(device))
    return Stream(stream_id=0, device_index=current.device_index, device_type=current.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context manager: the stream (and its core) is current inside."""

    def __init__(self, stream: torch.Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self.device_before = torch.accelerator.current_device_index()
        self.stream_before = current_stream(self.stream.device)
        set_stream(self.stream)

    def __exit__(self, *_: Any) -> None:
        if self.stream is None:
            return
        set_stream(self.stream_before)
        torch.accelerator.set_device_index(self.device_before)


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)
