"""The environment variables that are read, and settings that can be changed while running."""

from __future__ import annotations

from torch_neuronx import _C


def show() -> None:
    """Prints every variable of the project, its value in force and what it does."""
    rows = _C.environment_table()
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        mark = " " if row["value"] == row["default"] else "*"
        value = row["value"] or "(empty)"
        print(f"{mark} {row['name']:<{width}}  {value:<14}  {row['help']} [{row['valid']}]")


def fallback() -> str:
    """allow, warn or error: what happens to operators without a lowering (initially TORCH_NEURONX_FALLBACK)."""
    return _C.get_fallback_mode()


def set_fallback(mode: str) -> None:
    _C.set_fallback_mode(mode)
