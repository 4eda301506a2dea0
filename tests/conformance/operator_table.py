"""Writes docs/operators.md from the records of a whole sweep (`./dev test --all`).

python tests/conformance/operator_table.py FOLDER_OF_RECORDS OUTPUT
"""

from __future__ import annotations

import collections
import datetime
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import op_db_driver
import torch
from op_db_names import EXPECTED, ON_HOST

import torch_neuronx

LETTERS = {"native": "n", "decomposed": "d", "host": "**h**", "unsupported": "**u**", "": ""}
ROUTINE_SHARE = 0.5


def machine() -> str:
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    return (
        f"{os.cpu_count()} cores of {model}, kernels {torch_neuronx.runtime_info()['host_isa']}, torch {torch.__version__}"
    )


def overall(dtypes: dict[str, Any]) -> str:
    states = {d["state"] for d in dtypes.values()}
    return next((s for s in ("unsupported", "host", "decomposed", "native") if s in states), "")


def table(records: list[dict[str, Any]]) -> str:
    dtypes = list(op_db_driver.DTYPES | op_db_driver.MORE_DTYPES)
    routines: dict[str, float] = {}
    for r in records:
        for name, share in r["routines"].items():
            routines[name] = max(share, routines.get(name, 0.0))
    ran = [r for r in records if overall(r["dtypes"])]
    counts = collections.Counter(overall(r["dtypes"]) for r in ran)
    own = counts["native"] + counts["decomposed"]
    cases = sum(d["cases"] for r in ran for d in r["dtypes"].values())
    differ = sum(d["differ"] for r in ran for d in r["dtypes"].values())
    reasons = {name: why for why, names in ON_HOST.items() for name in names}
    lines = [
        "# Operators",
        "",
        "Every entry of PyTorch's `op_db` that the CPU runs, on device `neuron`: all samples (of 400), functional, in-place, `out=`",
        "and backward, contiguous and in turn transposed, sliced with neighbours, channels_last and with an offset, compared with",
        "the CPU in value, dtype, shape, strides and untouched neighbours. Written by",
        "`./dev test --all`; rerun one operator with `./dev test tests/conformance -k NAME`.",
        "",
        f"{datetime.date.today().isoformat()}, {machine()}.",
        "",
        f"- {len(ran)} of {len(records)} entries (the CPU runs no sample of the others), {cases:,} cases, "
        f"{cases - differ:,} equal; the other {differ:,} are listed with reasons in `tests/conformance/op_db_names.py` "
        f"({len(EXPECTED)} lines).",
        f"- {own} entries ({own / len(ran):.1%}) without the host for every dtype: {counts['native']} native (n: one "
        f"operator of our own), {counts['decomposed']} decomposed (d: several).",
        f"- {counts['host']} entries with a detour through the host (h), {counts['unsupported']} unsupported for some "
        "dtype (u).",
        f"- *routine*: more than {ROUTINE_SHARE:.0%} of the modelled time is a routine of GpSimd, not instructions.",
        "",
        "| operator | " + " | ".join(dtypes) + " | routine | cases | host: why |",
        "|---" * (len(dtypes) + 4) + "|",
    ]
    for r in sorted(ran, key=lambda r: r["operator"].lower()):
        cells = [LETTERS[r["dtypes"][d]["state"]] if d in r["dtypes"] else "" for d in dtypes]
        executed = {op for d in r["dtypes"].values() for op in d["executed"]}
        mostly = "yes" if any(routines.get(op, 0.0) > ROUTINE_SHARE for op in executed) else ""
        host = sorted({op for d in r["dtypes"].values() for op in d["host"]})
        why = f"{reasons.get(r['operator'], '')}: {', '.join(f'`{op}`' for op in host)}" if host else ""
        total = sum(d["cases"] for d in r["dtypes"].values())
        lines.append(f"| {r['operator']} | " + " | ".join(cells) + f" | {mostly} | {total} | {why} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    folder, output = map(Path, sys.argv[1:])
    records = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    missing = set(op_db_driver.operators()) - {r["operator"] for r in records}
    if missing:
        print(f"{output} is unchanged: {len(missing)} operators were not run")
        return 0
    output.write_text(table(records))
    print(f"wrote {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
