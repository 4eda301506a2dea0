"""Finds the compiled test library (no device, no ATen) and adds this suite's options."""

import importlib.util
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def pytest_addoption(parser):
    group = parser.getgroup("ops")
    group.addoption("--all-samples", action="store_true", help="every op_db sample, dtype and layout, not a selection")
    group.addoption(
        "--executor",
        default="evaluate",
        choices=["evaluate", "interpreter", "plan"],
        help="what computes the lowered graphs: the IR evaluator, or compiled programs on the emulator",
    )
    group.addoption("--ops-testlib", default=None, help="path of ops_testlib*.so; default: the newest in the build folder")


def find_library(given):
    if given:
        return pathlib.Path(given)
    named = os.environ.get("NEURON_BUILD_DIR")
    builds = [pathlib.Path(named)] if named else sorted(ROOT.glob("build*"))
    found = [library for build in builds for library in build.glob("**/ops_testlib*.so")]
    if not found:
        raise pytest.UsageError("ops_testlib is not built: cmake --build build --target ops_testlib")
    return max(found, key=lambda p: p.stat().st_mtime)


def pytest_configure(config):
    # Options exist only when this folder is named on the command line; a run of all tests loads this file later.
    library = find_library(config.getoption("--ops-testlib", default=None))
    spec = importlib.util.spec_from_file_location("ops_testlib", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.executor = config.getoption("--executor", default="evaluate")
    sys.modules["ops_testlib"] = module


@pytest.fixture(scope="session")
def all_samples(request, run_everything):
    return run_everything or request.config.getoption("--all-samples", default=False)


def pytest_terminal_summary(terminalreporter):
    oracle = sys.modules.get("oracle")
    if oracle is None or not oracle.COVERAGE:
        return
    registered = set(sys.modules["ops_testlib"].registered_operators())
    reached = {name for name, count in oracle.COVERAGE.items() if count.values}
    total = sum(count.values for count in oracle.COVERAGE.values())
    rules = sum(count.metas for count in oracle.COVERAGE.values())
    terminalreporter.write_line(
        f"lowerings checked against CPU: {len(reached)} of {len(registered)} operators, "
        f"{total} evaluations, {rules} result rules"
    )
    if terminalreporter.config.getoption("verbose") > 0:
        terminalreporter.write_line("not reached: " + " ".join(sorted(registered - reached)))
