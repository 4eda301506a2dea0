"""What is installed, which runtime is used and why, and what it offers. Exit status 1 if the device cannot be used."""

from __future__ import annotations

import platform
import sys


def _row(name: str, value: object) -> None:
    print(f"  {name:<18} {value}")


def main() -> int:
    print("Software")
    _row("python", f"{platform.python_version()} ({sys.executable})")
    try:
        import torch

        _row("torch", f"{torch.__version__} ({torch.__file__})")
        import torch_neuronx

        _row("torch_neuronx", f"{torch_neuronx.__version__} ({torch_neuronx.__file__})")
    except (ImportError, RuntimeError) as error:
        _row("problem", error)
        return 1
    from torch_neuronx import _C

    print("Runtime")
    try:
        info = torch_neuronx.runtime_info()
        for name in ("library", "reason", "version", "instance", "host_isa"):
            _row(name, info[name])
        _row("emulated", "yes: a software NeuronCore on this host" if info["emulated"] else "no: Trainium hardware")
        _row("cores", torch.neuron.device_count())
        free, total = torch.neuron.mem_get_info(0)
        _row("HBM per core", f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free now")
        check = (torch.arange(4.0).to("neuron") + 1).sum().item()
        _row("check", "arange(4) + 1 sums to 10" if check == 10 else f"WRONG: got {check}, expected 10")
    except RuntimeError as error:
        _row("problem", error)
        return 1
    print(f"Operators\n  {len(_C.registered_overloads())} overloads have a kernel of their own")
    print("Environment (* = not the default)")
    torch_neuronx.config.show()
    return 0 if check == 10 else 1


if __name__ == "__main__":
    sys.exit(main())
