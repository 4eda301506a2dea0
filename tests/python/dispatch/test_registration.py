"""Every mutating form of an operator with a lowering is derived, or listed with a reason."""

from __future__ import annotations

import torch

import torch_neuronx  # noqa: F401
from torch_neuronx import _C

# Overloads whose results cannot be mapped to one functional call.
KNOWN_UNDERIVED = {
    "aten::_amp_foreach_non_finite_check_and_unscale.out",  # writes out= lists and an input
}


def test_nothing_is_silently_underived() -> None:
    assert set(_C.underived_overloads()) <= KNOWN_UNDERIVED


def test_in_place_forms_of_registered_operators_have_kernels() -> None:
    bound = set(_C.registered_overloads())
    for name in ("aten::add.Tensor", "aten::add_.Tensor", "aten::add.out", "aten::mm", "aten::mm.out", "aten::fill_.Scalar"):
        assert name in bound, name
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")


def test_composite_operators_keep_decomposing() -> None:
    for name in ("aten::linear", "aten::layer_norm", "aten::dropout", "aten::where.Scalar"):
        assert not torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")
