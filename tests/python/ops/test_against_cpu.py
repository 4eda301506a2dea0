"""Every registered lowering that PyTorch's op_db reaches, against CPU: dtype, shape, strides (infer) and values (evaluate).

The samples of an OpInfo run on CPU under a dispatch mode; each functional ATen call below autograd for which src/ops has a
lowering is repeated in several layouts and compared. Backward formulas run too. A failing call is printed whole.
"""

import collections
import random
import warnings

import oracle
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = [
    torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64, torch.float64, torch.int32, torch.uint8,
    torch.float16, torch.int8, torch.int16, torch.complex128,
]  # fmt: skip
# Draw random numbers, or leave memory as it is: nothing to compare.
UNCOMPARABLE = ("aten::empty", "aten::new_empty", "aten::rand", "aten::bernoulli", "aten::normal", "aten::uniform",
                "aten::native_dropout", "aten::multinomial", "aten::exponential", "aten::random")  # fmt: skip
# CPU reads its operands' memory as if they were contiguous: other layouts have no reference.
CPU_NEEDS_CONTIGUOUS = (
    "aten::native_group_norm_backward",
    "aten::_embedding_bag",
    "aten::_embedding_bag_forward_only",
    "aten::adaptive_max_pool3d_backward",
    "aten::fractional_max_pool2d_backward",
    "aten::fractional_max_pool3d_backward",
)
SKIPPED_OPINFOS = {
    "empty": "contents are not defined", "empty_like": "contents are not defined", "new_empty": "contents are not defined",
    "empty_strided": "contents are not defined", "new_empty_strided": "contents are not defined",
    "empty_permuted": "contents are not defined",
    "jiterator_unary": "CUDA only", "jiterator_binary": "CUDA only", "jiterator_4inputs_with_extra_args": "CUDA only",
    "jiterator_binary_return_by_ref": "CUDA only", "jiterator_2inputs_2outputs": "CUDA only",
}  # fmt: skip


class Recorder(TorchDispatchMode):
    """Collects the functional calls that src/ops has a lowering for."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = oracle.operator_name(func)
        if name in oracle.REGISTERED and not func._schema.is_mutable and not name.startswith(UNCOMPARABLE):
            detached = oracle.map_tensors(list(args), lambda t: t.detach())
            self.calls.append((func, detached, {k: oracle.map_tensors(v, lambda t: t.detach()) for k, v in kwargs.items()}))
        return func(*args, **kwargs)


def record(op, sample, backward):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Recorder() as recorder:
            result = op.op(sample.input, *sample.args, **sample.kwargs)
            if backward:
                leaves = [r for r in oracle.flatten_results(result) if isinstance(r, torch.Tensor) and r.requires_grad]
                if leaves:
                    torch.autograd.backward(leaves, [torch.rand_like(r) for r in leaves])
    return recorder.calls


def outline(value):
    """What distinguishes one call from another, up to values."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            return (value.layout, value.dtype)
        return (value.dtype, tuple(value.shape), value.stride(), value.is_conj(), value.is_neg())
    if isinstance(value, (list, tuple)):
        return tuple(outline(v) for v in value)
    return repr(value)


class Budget:
    """In a selection, no call is checked twice and no operator takes all the time."""

    def __init__(self, everything):
        self.everything = everything
        self.seen = set()
        self.spent = collections.Counter()

    def allows(self, func, args, kwargs):
        key = (func, outline(args), tuple((k, outline(v)) for k, v in kwargs.items()))
        if key in self.seen:
            return False
        self.seen.add(key)
        first = next((a.dtype for a in args if isinstance(a, torch.Tensor)), None)
        self.spent[func, first] += 1
        return self.everything or self.spent[func, first] <= 40


BUDGETS = {everything: Budget(everything) for everything in (False, True)}


def check(func, args, kwargs, layouts, budget, problems):
    if not all(t.layout == torch.strided for t in oracle.tensors_in([args, list(kwargs.values())])):
        return
    if oracle.operator_name(func) in CPU_NEEDS_CONTIGUOUS:
        layouts = ["as_given"]
    for layout in layouts:
        change = oracle.LAYOUTS[layout]
        changed_args = oracle.map_tensors(args, change)
        changed_kwargs = {k: oracle.map_tensors(v, change) for k, v in kwargs.items()}
        if not budget.allows(func, changed_args, changed_kwargs):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = func(*changed_args, **changed_kwargs)
        except (RuntimeError, IndexError, TypeError, NotImplementedError):
            continue  # CPU refuses this layout
        try:
            oracle.check_call(func, changed_args, changed_kwargs, results)
        except oracle.Unsupported:
            pass
        except AssertionError as error:
            problems[oracle.operator_name(func)].append(f"[{layout}] {error}")


def run_opinfo(op, everything):
    dtypes = [d for d in DTYPES if d in op.supported_dtypes("cpu")]
    if not everything:
        dtypes = dtypes[:5]
    sample_limit, call_limit = (1000, 1000) if everything else (6, 24)
    layouts = list(oracle.LAYOUTS) if everything else ["as_given", "permuted", "strided"]
    problems = collections.defaultdict(list)
    for dtype in dtypes:
        backward = dtype == torch.float32 and op.supports_autograd
        torch.manual_seed(0)
        try:
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=backward))
        except (RuntimeError, NotImplementedError):
            continue
        if len(samples) > sample_limit:
            samples = random.Random(0).sample(samples, sample_limit)
        calls = []
        for sample in samples:
            try:
                calls += record(op, sample, backward)
            except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
                continue  # CPU does not run this sample
        per_operator = collections.Counter()
        for func, args, kwargs in calls:
            name = oracle.operator_name(func)
            per_operator[name] += 1
            if per_operator[name] <= call_limit and len(problems[name]) < 8:
                check(func, args, kwargs, layouts, BUDGETS[everything], problems)
    return {name: found for name, found in problems.items() if found}


@pytest.mark.parametrize("op", op_db, ids=lambda op: op.formatted_name)
def test_lowerings_agree_with_cpu(op, all_samples, record_claim):
    if op.name in SKIPPED_OPINFOS:
        pytest.skip(SKIPPED_OPINFOS[op.name])
    before = sum(c.values for c in oracle.COVERAGE.values())
    problems = run_opinfo(op, all_samples)
    checked = sum(c.values for c in oracle.COVERAGE.values()) - before
    record_claim("lowered calls that agree with CPU", checked, 20_000)
    if problems:
        lines = [line for found in problems.values() for line in found]
        pytest.fail(f"{len(lines)} calls of {', '.join(problems)} differ:\n" + "\n".join(lines[:8]), pytrace=False)
    if not checked:
        pytest.skip("reaches no operator with a lowering")
