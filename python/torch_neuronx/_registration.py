"""The ordered steps that make device ``neuron`` known to PyTorch. None of them touches the device."""

from __future__ import annotations

import atexit

import torch

NAME = "neuron"


def register() -> None:
    if hasattr(torch, NAME):
        return
    _claim_device_name()
    _load_extension()
    _register_device_module()
    _generate_methods()
    _install_compat()
    _announce_to_dynamo()


def _claim_device_name() -> None:
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in ("privateuseone", NAME):
        raise RuntimeError(
            f"another package has registered the device {taken!r} under PyTorch's PrivateUse1 key, one per "
            f"process; torch_neuronx cannot be used beside it"
        )
    torch.utils.rename_privateuse1_backend(NAME)


def _load_extension() -> None:
    from torch_neuronx import _C  # registers guard, hooks, allocators and operators

    atexit.register(_C.drain_autograd_workers)


def _register_device_module() -> None:
    from torch_neuronx import neuron

    torch._register_device_module(NAME, neuron)


def _generate_methods() -> None:
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    # Lazy modules refuse every method of uninitialised parameters that is not listed.
    from torch.nn.parameter import UninitializedTensorMixin

    UninitializedTensorMixin._allowed_methods.append(torch.Tensor.neuron)


def _install_compat() -> None:
    from torch_neuronx._compat import tensor_str

    tensor_str.install()


def _announce_to_dynamo() -> None:
    from torch_neuronx.compile import dynamo_hook

    dynamo_hook.install()
