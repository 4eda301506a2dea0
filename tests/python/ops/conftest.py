"""Finds the compiled test library (no device, no ATen) and adds this suite's options."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def pytest_addoption(parser):
    group = parser.getgroup("ops")
    group.addoption(
        "--all-samples", action="store_true", help="every op_db sample, dtype and layout (minutes), not a selection"
    )
    group.addoption("--executor", default="evaluate", choices=["evaluate", "interpreter", "plan"],
                    help="what computes the lowered graphs: the IR evaluator, or compiled programs on the emulator")  # fmt: skip
    group.addoption("--ops-testlib", default=None, help="path of ops_testlib*.so; default: the newest under build*/")


def pytest_configure(config):
    given = config.getoption("--ops-testlib", default=None)
    found = (
        [pathlib.Path(given)] if given else sorted(ROOT.glob("build*/**/ops_testlib*.so"), key=lambda p: p.stat().st_mtime)
    )
    if not found:
        raise pytest.UsageError("ops_testlib is not built: cmake --build build --target ops_testlib")
    spec = importlib.util.spec_from_file_location("ops_testlib", found[-1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import sys

    sys.modules["ops_testlib"] = module
    module.executor = config.getoption("--executor")


def pytest_terminal_summary(terminalreporter):
    import sys

    oracle = sys.modules.get("oracle")
    if oracle is None or not oracle.COVERAGE:
        return
    lib = sys.modules["ops_testlib"]
    registered = set(lib.registered_operators())
    reached = {name for name, count in oracle.COVERAGE.items() if count.values}
    total = sum(count.values for count in oracle.COVERAGE.values())
    rules = sum(count.metas for count in oracle.COVERAGE.values())
    terminalreporter.write_line(
        f"lowerings checked against CPU: {len(reached)} of {len(registered)} operators, "
        f"{total} evaluations, {rules} result rules"
    )
    missing = sorted(registered - reached)
    if missing and terminalreporter.config.getoption("verbose") > 0:
        terminalreporter.write_line("not reached: " + " ".join(missing))
