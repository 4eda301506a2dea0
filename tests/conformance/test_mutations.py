"""The conformance suite notices when a mechanism that all operators share is broken: each defect of src/base/mutation.h,
switched on in a module built for this, makes it fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = Path(os.environ.get("NEURON_BUILD_DIR", ROOT / "build" / "Release")) / "mutated" / "_C.so"
OPERATORS = ["add", "sub", "any", "logical_not", "nan_to_num", "isnan", "nanmean", "narrow", "sum"]
DEFECTS = ["offset", "stride", "in-place write", "promotion", "cast", "nan"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python package with the other module in it."""
    if not MODULE.exists():
        pytest.skip(f"{MODULE} is not built (NEURON_BUILD_TESTS=OFF)")
    folder = tmp_path_factory.mktemp("mutated")
    inside = folder / "torch_neuronx"
    inside.mkdir()
    for entry in (ROOT / "python" / "torch_neuronx").iterdir():
        if entry.name not in ("_C.so", "__pycache__"):
            (inside / entry.name).symlink_to(entry)
    (inside / "_C.so").symlink_to(MODULE)
    yield folder


def failing_cases(package: Path, defect: str) -> int:
    code = f"""
import sys
# The editable installation's finder comes before PYTHONPATH and would import the package from the source tree.
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")]
sys.path.insert(0, {str(ROOT / "tests" / "conformance")!r})
import op_db_driver, test_casts_and_promotion, test_special_values, torch, torch_neuronx
assert torch_neuronx.__file__.startswith({str(package)!r})
failing = sum(len(op_db_driver.run_operator(name, 2, True)[1]) for name in {OPERATORS!r})
dtypes = [torch.float32, torch.float16, torch.int64]
failing += len(test_special_values.ufunc_differences("nan_to_num", torch.float32))
print(failing + len(list(test_casts_and_promotion.promotion_differences("mul", torch.mul, dtypes))))
"""
    environment = os.environ | {"PYTHONPATH": str(package), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "NEURON_MUTATION": defect}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout.split()[-1])


def test_without_a_defect_nothing_fails(package: Path) -> None:
    assert failing_cases(package, "") == 0


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(package: Path, defect: str) -> None:
    assert failing_cases(package, defect) > 0
