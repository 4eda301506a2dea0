"""Overloads, lists and fused optimisers that op_db does not reach."""

import ops_testlib as lib
import oracle
import pytest
import torch
from test_direct import check, result, tensor

aten = torch.ops.aten


def values(dtype):
    if dtype == torch.bool:
        return torch.tensor([True, False, True]), torch.tensor([True, True, False]), True
    if dtype.is_floating_point:
        return torch.tensor([1.5, -2.25, 7.0], dtype=dtype), torch.tensor([2.0, 0.5, -3.0], dtype=dtype), 2.5
    return torch.tensor([9, 5, 12], dtype=dtype), torch.tensor([2, 3, 4], dtype=dtype), 3


NUMBER_SECOND = [
    "bitwise_and.Scalar", "bitwise_or.Scalar", "bitwise_xor.Scalar", "__and__.Scalar", "__or__.Scalar", "__xor__.Scalar",
    "bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar", "__lshift__.Scalar", "__rshift__.Scalar",
    "add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar", "rsub.Scalar", "fmod.Scalar", "remainder.Scalar",
    "xlogy.Scalar_Other", "eq.Scalar", "ne.Scalar", "lt.Scalar", "le.Scalar", "gt.Scalar", "ge.Scalar", "clamp_min",
    "clamp_max", "pow.Tensor_Scalar", "floor_divide.Scalar", "hardshrink", "softshrink", "leaky_relu",
]  # fmt: skip
NUMBER_FIRST = [
    "bitwise_and.Scalar_Tensor", "bitwise_or.Scalar_Tensor", "bitwise_xor.Scalar_Tensor", "bitwise_left_shift.Scalar_Tensor",
    "bitwise_right_shift.Scalar_Tensor", "remainder.Scalar_Tensor", "xlogy.Scalar_Self", "pow.Scalar",
]  # fmt: skip
TENSORS = ["__and__.Tensor", "__or__.Tensor", "__xor__.Tensor", "__lshift__.Tensor", "__rshift__.Tensor"]


def overload(name):
    packet, _, which = name.partition(".")
    return getattr(getattr(aten, packet), which or "default")


def check_if_cpu_can(func, *args, **kwargs):
    try:
        expected = func(*args, **kwargs)
    except (RuntimeError, NotImplementedError):
        pytest.skip("CPU refuses this dtype")
    oracle.check_call(func, list(args), kwargs, expected)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.bfloat16], ids=str
)
@pytest.mark.parametrize("name", NUMBER_SECOND + NUMBER_FIRST + TENSORS)
def test_overloads_with_numbers(name, dtype):
    a, b, number = values(dtype)
    arguments = (a, b) if name in TENSORS else (number, b) if name in NUMBER_FIRST else (a, number)
    check_if_cpu_can(overload(name), *arguments)


@pytest.mark.parametrize("mode", ["trunc", "floor", None])
def test_division_by_a_number_rounds_as_asked(mode):
    check(aten.div.Scalar_mode, torch.tensor([7, -7, 8]), 2, rounding_mode=mode)
    check(aten.div.Scalar_mode, torch.tensor([7.5, -7.5, 0.0]), -2.0, rounding_mode=mode)


def test_where_takes_numbers():
    c, x = torch.tensor([True, False, True]), torch.tensor([1, 2, 3])
    check(aten.where.ScalarSelf, c, 1.5, x)
    check(aten.where.ScalarOther, c, x, 7)
    check(aten.where.Scalar, c, 1, 2.0)


def test_copy_takes_dtype_and_shape_of_its_destination():
    check(aten.copy.default, torch.zeros(3, 4), torch.arange(4))
    check(aten.copy.default, torch.zeros(3, 4, dtype=torch.int32).t(), torch.tensor(2.7))


def test_scatter_with_a_number_combines():
    x, index = torch.arange(6.0).reshape(2, 3), torch.tensor([[0, 1, 1]])
    for reduce in ("add", "multiply"):
        check(aten.scatter.value_reduce, x, 0, index, 3.0, reduce=reduce)


def test_norms_take_a_dtype():
    x = torch.randn(3, 4, dtype=torch.float16)
    check(aten.norm.ScalarOpt_dim_dtype, x, 2, [1], True, dtype=torch.float32)
    check(aten.norm.Scalar, x.float(), 3)


def test_addmm_activation_is_addmm_then_an_activation():
    b, x, y = torch.randn(4), torch.randn(3, 5), torch.randn(5, 4)
    check(aten._addmm_activation.default, b, x, y)
    arguments = [tensor("self", b), tensor("mat1", x), tensor("mat2", y), ("use_gelu", "bool", True)]
    expected = torch.nn.functional.gelu(torch.addmm(b, x, y), approximate="tanh")
    torch.testing.assert_close(result("aten::_addmm_activation", arguments), expected)


# --- lists ---

FOREACH_UNARY = sorted(
    n.removeprefix("aten::")
    for n in oracle.REGISTERED
    if n.startswith("aten::_foreach_") and "." not in n and "copy" not in n
)


def tensors(positive=False, dtype=torch.float32):
    made = [torch.rand(3, 4) + 0.2 if positive else torch.randn(3, 4), torch.rand(5) + 0.2, torch.rand(()) + 0.2]
    return [t.clamp(max=0.95).to(dtype) if positive else t.to(dtype) for t in made]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", [n for n in FOREACH_UNARY if n not in ("_foreach_zero", "_foreach_mm")])
def test_foreach_is_the_operator_on_each(name, dtype):
    check_if_cpu_can(getattr(aten, name).default, tensors(True, dtype))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_max", "clamp_min", "pow"])
def test_foreach_takes_lists_numbers_and_lists_of_numbers(name):
    packet = getattr(aten, f"_foreach_{name}")
    check_if_cpu_can(packet.List, tensors(True), tensors(True))
    check_if_cpu_can(packet.Scalar, tensors(True), 0.5)
    check_if_cpu_can(packet.ScalarList, tensors(True), [0.5, 2.0, 1.5])
    if name in ("add", "mul", "div"):
        check_if_cpu_can(packet.Tensor, tensors(True), torch.tensor(0.5))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_foreach_of_three_lists(name):
    packet = getattr(aten, f"_foreach_{name}")
    check(packet.Scalar, tensors(), tensors(True), tensors(True), 0.5)
    check(packet.ScalarList, tensors(), tensors(True), tensors(True), [0.5, 2.0, 1.5])
    check(packet.Tensor, tensors(), tensors(True), tensors(True), torch.tensor([0.5, 2.0, 1.5]))


def test_foreach_lerp_and_norm():
    check(aten._foreach_lerp.List, tensors(), tensors(), tensors(True))
    check(aten._foreach_lerp.Scalar, tensors(), tensors(), 0.3)
    check(aten._foreach_norm.Scalar, tensors(), 2)
    check(aten._foreach_norm.Scalar, tensors(), 1)


# --- operators that change their arguments: new values in schema order ---


def check_mutation(func, args, kwargs):
    """CPU changes clones in place; the lowering returns what they became (then the results)."""
    described = oracle.describe_call(func, args, kwargs, False)
    changed_args = oracle.map_tensors(args, torch.clone)
    changed_kwargs = {k: oracle.map_tensors(v, torch.clone) for k, v in kwargs.items()}
    func(*changed_args, **changed_kwargs)
    expected = []
    for i, a in enumerate(func._schema.arguments):
        if a.alias_info is not None and a.alias_info.is_write:
            value = changed_args[i] if i < len(changed_args) else changed_kwargs[a.name]
            expected += oracle.tensors_in(value)
    ours = lib.run(oracle.operator_name(func), described)
    assert len(ours) >= len(expected)
    for i, want in enumerate(expected):
        got = result(oracle.operator_name(func), described, i)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
def test_fused_adam_steps_as_cpu(name, amsgrad, maximize):
    lists = [tensors()[:2], tensors()[:2], tensors(True)[:2], tensors(True)[:2], tensors(True)[:2] if amsgrad else []]
    steps = [torch.tensor(3.0), torch.tensor(3.0)]
    numbers = dict(lr=0.01, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=amsgrad, maximize=maximize)
    check_mutation(getattr(aten, name).default, [*lists, steps], numbers)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
def test_fused_sgd_steps_as_cpu(nesterov, first):
    lists = [tensors()[:2], tensors()[:2], tensors(True)[:2]]
    numbers = dict(
        weight_decay=0.1, momentum=0.9, lr=0.01, dampening=0.0, nesterov=nesterov, maximize=False, is_first_step=first
    )
    check_mutation(aten._fused_sgd_.default, lists, numbers)
