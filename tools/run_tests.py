"""Runs the C++ and Python tests, then prints the claims table and the closing line `N passed, N failed`.

A claim is a sentence with a number behind it ("container mutations that load or fail cleanly: 2,000"). Tests record what they
counted in files of $NEURON_CLAIMS_DIR; fewer than required is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "Release"
CLAIMS = ROOT / "build" / "claims"
OPERATOR_RECORDS = ROOT / "build" / "operators"  # of the whole op_db sweep: docs/operators.md is made of them


def totals(report: Path) -> tuple[int, int, int]:
    """passed, failed, skipped of a JUnit file; (0, 1, 0) if the runner died before writing it."""
    if not report.exists():
        return 0, 1, 0
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def run_cpp(environment: dict[str, str]) -> tuple[int, int, int]:
    report = ROOT / "build" / "cpp-tests"
    shutil.rmtree(report, ignore_errors=True)
    report.mkdir(parents=True)
    environment = environment | {"GTEST_OUTPUT": f"xml:{report}/"}
    done = subprocess.run(
        ["ctest", "--test-dir", str(BUILD), "--output-on-failure", "-j", "2"], env=environment, cwd=ROOT, check=False
    )
    sums = [0, 0, 0]
    for file in sorted(report.glob("*.xml")):
        sums = [a + b for a, b in zip(sums, totals(file), strict=True)]
    if done.returncode and not sums[1]:
        sums[1] = 1  # a binary crashed before it could write its report
    return tuple(sums)


def run_python(environment: dict[str, str], arguments: list[str]) -> tuple[int, int, int]:
    report = ROOT / "build" / "python-tests.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}"]
    if not any(a.startswith("-n") or a == "-x" for a in arguments):
        command += ["-n", "2"]
    code = subprocess.run([*command, *arguments], env=environment, cwd=ROOT, check=False).returncode
    passed, failed, skipped = totals(report)
    return passed, failed or int(code not in (0, 5)), skipped


def print_claims() -> int:
    """The table of claims; returns how many are not met."""
    rows: dict[str, list[int]] = {}
    for file in sorted(CLAIMS.glob("*.json")):
        record = json.loads(file.read_text())
        row = rows.setdefault(record["claim"], [0, record["required"]])
        row[0] += record["count"]
    if not rows:
        return 0
    width = max(len(claim) for claim in rows)
    print(f"\n{'claim':<{width}}  {'counted':>10}  {'required':>10}")
    missed = 0
    for claim, (count, required) in rows.items():
        missed += count < required
        print(f"{claim:<{width}}  {count:>10,}  {required:>10,}{'' if count >= required else '   NOT MET'}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="run long sweeps whole instead of a sampled slice")
    parser.add_argument("--cpp", action="store_true", help="C++ tests only")
    known, rest = parser.parse_known_args()
    shutil.rmtree(CLAIMS, ignore_errors=True)
    CLAIMS.mkdir(parents=True)
    environment = os.environ | {
        "NEURON_CLAIMS_DIR": str(CLAIMS),
        "NEURON_TEST_ALL": "1" if known.all else "0",
        "NEURON_BUILD_DIR": str(BUILD),
    }
    if known.all:
        shutil.rmtree(OPERATOR_RECORDS, ignore_errors=True)
        OPERATOR_RECORDS.mkdir(parents=True)
        environment["NEURON_OPERATOR_RECORDS"] = str(OPERATOR_RECORDS)
    sums = [0, 0, 0]
    if not rest:
        sums = [a + b for a, b in zip(sums, run_cpp(environment), strict=True)]
    if not known.cpp:
        sums = [a + b for a, b in zip(sums, run_python(environment, rest), strict=True)]
    if known.all:
        table = [sys.executable, "tests/conformance/operator_table.py", str(OPERATOR_RECORDS), "docs/operators.md"]
        sums[1] += subprocess.run(table, env=environment, cwd=ROOT, check=False).returncode != 0
    missed = print_claims()
    passed, failed, skipped = sums[0], sums[1] + missed, sums[2]
    print(f"\n{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
