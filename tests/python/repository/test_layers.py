"""The include law: a layer includes only what the design's table allows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "src"

ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "abi": set(),
    "isa": set(),
    "timing": {"isa"},
    "emulator": {"abi", "isa", "timing"},
    "nrt": {"abi"},
    "runtime": {"nrt", "abi"},  # nrt/library.h is made of the ABI's types
    "ir": set(),
    "ops": {"ir"},
    "compiler": {"ir", "isa", "timing"},
    "pytorch": {"isa", "timing", "nrt", "abi", "runtime", "ir", "ops", "compiler"},
}
FOREIGN = re.compile(r"^(ATen|c10|torch|pybind11)/")


def includes(file: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', file.read_text(), re.MULTILINE)


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_a_layer_includes_only_what_the_table_allows(layer: str) -> None:
    files = [f for f in (SOURCES / layer).rglob("*") if f.suffix in {".h", ".cpp", ".c", ".inc"}]
    assert files, f"src/{layer} has no sources"
    wrong = []
    for file in files:
        for name in includes(file):
            top = name.split("/")[0]
            if top in ALLOWED and top not in ALLOWED[layer] | {layer, "base"}:
                wrong.append(f"{file.relative_to(ROOT)} includes {name}")
            if FOREIGN.match(name) and layer != "pytorch":
                wrong.append(f"{file.relative_to(ROOT)} includes {name}")
    assert not wrong, "\n".join(wrong)


def test_every_folder_of_src_is_in_the_table() -> None:
    assert {d.name for d in SOURCES.iterdir() if d.is_dir()} == set(ALLOWED)
