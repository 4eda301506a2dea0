"""repr() of a device tensor formats a host copy.

torch 2.13 moves tensors to the CPU before formatting only for a fixed list of device types; others are sliced, masked and
reduced on the device, which costs tens of small executables per print. Goes when upstream asks the device module.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._tensor_str


def install() -> None:
    original = torch._tensor_str._tensor_str

    def _tensor_str(self: torch.Tensor, indent: int) -> Any:
        if self.device.type == "neuron" and not torch._C._functorch.is_functorch_wrapped_tensor(self):
            self = self.detach().cpu()
        return original(self, indent)

    torch._tensor_str._tensor_str = _tensor_str
