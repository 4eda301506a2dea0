"""PyTorch device ``neuron``: Trainium, or a software NeuronCore where there is none.

Installed, this package is loaded by ``import torch`` itself (entry point ``torch.backends``). ``torch.neuron`` is the device
module; what is here says what the device did: operators, fallbacks, executables, modelled time.
"""

import os as _os
import sys as _sys

if "torch" not in _sys.modules:
    # Our entry point must not run inside the import of torch that our own import starts: the package is half initialised.
    _before = _os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
    _os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    try:
        import torch as _torch  # noqa: F401
    finally:
        if _before is None:
            del _os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        else:
            _os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = _before

from torch_neuronx import config
from torch_neuronx._registration import register as _register
from torch_neuronx.explain import (
    clear_op_tracking,
    compile_count,
    disassemble,
    executables,
    explain,
    fallback_count,
    get_executed_ops,
    get_fallback_ops,
    model_time,
    timeline,
)

__version__ = "0.1.0"

__all__ = [
    "clear_op_tracking",
    "compile_count",
    "config",
    "disassemble",
    "executables",
    "explain",
    "fallback_count",
    "get_executed_ops",
    "get_fallback_ops",
    "model_time",
    "runtime_info",
    "timeline",
]


def runtime_info() -> dict[str, object]:
    """Which libnrt is used and why. Initialises the runtime."""
    from torch_neuronx import _C

    return _C.runtime_info()


def _autoload() -> None:
    """Entry point of group ``torch.backends``; the import above has done the work."""


_register()
