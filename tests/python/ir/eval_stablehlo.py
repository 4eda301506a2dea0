"""Runs StableHLO modules without arguments in jaxlib's reference interpreter and compares their results with files.

Usage: python eval_stablehlo.py FOLDER   (FOLDER as ir_oracle writes it; needs jaxlib; prints one line per failing module and
a last line "N accepted, M equal, K skipped"). A script of its own because jaxlib lives in another environment than torch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import stablehlo

NUMPY_TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "u64": np.uint64}


def parse_result(text: str) -> tuple[np.dtype, tuple[int, ...], float]:
    """'f32[2,3]:0.001' -> dtype, shape, tolerance."""
    type_text, tolerance = text.rsplit(":", 1)
    name, dims = type_text[:-1].split("[")
    shape = tuple(int(d) for d in dims.split(",") if d)
    return np.dtype(NUMPY_TYPES[name]), shape, float(tolerance)


def difference(want: np.ndarray, got: np.ndarray, tolerance: float) -> str:
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            bad = ~((np.isnan(want) & np.isnan(got)) | (want == got) | (np.abs(want - got) <= tolerance))
    else:
        bad = want != got
    if not bad.any():
        return ""
    at = tuple(np.argwhere(bad)[0])
    return f"element {at} is {got[at]}, expected {want[at]} (tolerance {tolerance})"


def run_case(folder: Path, words: list[str]) -> str:
    """Empty when the module's results equal the files."""
    text = (folder / f"{words[0]}.mlir").read_text()
    module = ir.Module.parse(text)
    module.operation.verify()
    results = stablehlo.eval_module(module, [])
    expected = [parse_result(w) for w in words[3:]]
    if len(results) != len(expected):
        return f"{len(results)} results instead of {len(expected)}"
    for k, (dtype, shape, tolerance) in enumerate(expected):
        want = np.fromfile(folder / f"{words[0]}.{k}.bin", dtype=dtype).reshape(shape)
        got = np.asarray(results[k]).reshape(shape) if want.size else want
        problem = difference(want, got.astype(dtype) if got.dtype.kind == dtype.kind else got, tolerance)
        if problem:
            return f"result {k}: {problem}"
    return ""


def run_in_child(folder: Path, words: list[str]) -> str:
    """The interpreter aborts the process on some defects: each module runs in a child that reports through a pipe."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with ir.Context() as context, ir.Location.unknown():
                registry = ir.DialectRegistry()
                _jax_mlir_ext.register_dialects(registry)  # func, which stablehlo's own registration leaves out
                context.append_dialect_registry(registry)
                context.load_all_available_dialects()
                stablehlo.register_dialect(context)
                problem = run_case(folder, words)
        except Exception as error:  # a module that is refused is a finding, the others still run
            problem = f"{type(error).__name__}: {str(error)[:600]}"
        os.write(writer, problem.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        problem = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return problem if status == 0 else f"the interpreter died ({status})"


def main() -> int:
    folder = Path(sys.argv[1])
    accepted = equal = skipped = 0
    for line in (folder / "index.txt").read_text().splitlines():
        words = line.split()
        if "custom_call" in (folder / f"{words[0]}.mlir").read_text():
            skipped += 1
            continue
        problem = run_in_child(folder, words)
        accepted += not problem.startswith(("MLIRError", "ValueError", "the interpreter"))
        equal += not problem
        if problem:
            print(f"module {words[0]} (seed {words[2]}): {problem}")
    print(f"{accepted} accepted, {equal} equal, {skipped} skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
