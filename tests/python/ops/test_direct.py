"""Lowerings that op_db does not reach below autograd (leaves, prims, data-dependent pairs), promotion, refusals, bounds."""

import itertools

import numpy as np
import ops_testlib as lib
import oracle
import pytest
import torch

aten, prims = torch.ops.aten, torch.ops.prims
PROMOTED = [t for t in oracle.NAMES if t not in (torch.float8_e4m3fn, torch.float8_e5m2)]


def check(func, *args, **kwargs):
    oracle.check_call(func, list(args), kwargs, func(*args, **kwargs))


def result(name, arguments, index=0):
    """Result `index` of a lowering as a tensor."""
    dtype, shape, data = lib.run(name, arguments, executor=lib.executor)[index]
    flat = torch.from_numpy(np.frombuffer(bytearray(data), np.uint8)) if data else torch.empty(0, dtype=torch.uint8)
    return flat.view(oracle.TORCH[dtype]).reshape(list(shape))


def tensor(name, t):
    return (name, "tensor", oracle.describe_tensor(t))


def operands(dtype):
    """The three categories of promotion; a Python number has its kind's dtype."""
    number = {torch.bool: True, torch.int64: 2, torch.float64: 1.5, torch.complex128: 1 + 2j}.get(dtype)
    return [torch.ones(2, dtype=dtype), torch.ones((), dtype=dtype)] + ([number] if number is not None else [])


@pytest.mark.parametrize("default", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("left", PROMOTED, ids=str)
def test_promotion_is_result_type(left, default):
    torch.set_default_dtype(default)
    try:
        for right in PROMOTED:
            for a, b in itertools.product(operands(left), operands(right)):
                if not isinstance(a, torch.Tensor):
                    continue
                described = [
                    tensor("self", a),
                    tensor("other", b)
                    if isinstance(b, torch.Tensor)
                    else ("other", "tensor", oracle.describe_number_as_tensor(b)),
                ]
                metas = lib.infer("aten::mul.Tensor", described, oracle.NAMES[default])
                try:
                    expected = oracle.NAMES.get(torch.result_type(a, b))  # complex32 is not among our types
                except RuntimeError:
                    expected = None
                assert (metas and metas[0][0]) == expected, (a, b)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_python_numbers_meet_half_types_unrounded(dtype):
    x = torch.randn(64).to(dtype)
    for func in (aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor, aten.div.Tensor):
        check(func, x, 0.1)
    for func in (aten.lt.Scalar, aten.ge.Scalar, aten.eq.Scalar):
        check(func, torch.full((4,), 0.1).to(dtype), 0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_linear_stays_whole(shape, bias, dtype):
    x, w = torch.randn(*shape).to(dtype), torch.randn(4, 5).to(dtype)
    for layout in oracle.LAYOUTS.values():
        check(aten.linear.default, layout(x), layout(w), torch.randn(4).to(dtype) if bias else None)


def test_linear_backward_gives_the_gradients_asked_for():
    x, w, g = torch.randn(2, 3, 5, requires_grad=True), torch.randn(4, 5, requires_grad=True), torch.randn(2, 3, 4)
    b = torch.zeros(4, requires_grad=True)
    torch.nn.functional.linear(x, w, b).backward(g)
    for mask in itertools.product([True, False], repeat=3):
        arguments = [tensor("self", x), tensor("grad_output", g), tensor("weight", w), ("output_mask", "bools", list(mask))]
        results = lib.run("aten::linear_backward", arguments)
        for wanted, r, i, leaf in zip(mask, results, range(3), (x, w, b), strict=True):
            assert (r is not None) == wanted
            if wanted:
                torch.testing.assert_close(result("aten::linear_backward", arguments, i), leaf.grad)


SHAPES = [(), (1,), (7,), (3, 4), (2, 3, 4), (0, 3), (2, 0)]


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nonzero_is_a_count_and_a_fill(shape, dtype):
    x = torch.randint(0, 2, shape).to(dtype)
    expected = torch.nonzero(x)
    assert result("neuron::nonzero_count", [tensor("self", x)]).item() == len(expected)
    for capacity in (len(expected), len(expected) + 3):
        filled = result("neuron::nonzero_fill", [tensor("self", x), ("capacity", "int", capacity)])
        assert filled.shape == (capacity, x.dim())
        assert torch.equal(filled[: len(expected)], expected)


@pytest.mark.parametrize(
    "shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((), (5,)), ((0,), (0,)), ((2, 1), (1, 3))], ids=str
)
def test_masked_select_is_a_count_and_a_fill(shapes):
    x, mask = torch.randn(shapes[0]), torch.rand(shapes[1]) > 0.5
    expected = torch.masked_select(x, mask)
    both = [tensor("self", x), tensor("mask", mask)]
    assert result("neuron::masked_select_count", both).item() == len(expected)
    filled = result("neuron::masked_select_fill", [*both, ("capacity", "int", len(expected) + 2)])
    assert torch.equal(filled[: len(expected)], expected)


@pytest.mark.parametrize(
    "func", ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "fmod", "remainder", "atan2", "eq", "lt", "ge"]
)
def test_prims_of_two_operands(func):
    a, b = torch.rand(3, 4) + 0.5, torch.rand(3, 4) + 0.5
    check(getattr(prims, func).default, a, b)


@pytest.mark.parametrize(
    "func", ["exp", "log", "sqrt", "rsqrt", "neg", "abs", "tanh", "erf", "sin", "floor", "isfinite", "sign", "cbrt", "exp2"]
)
def test_prims_of_one_operand(func):
    check(getattr(prims, func).default, torch.rand(3, 4) + 0.5)


def test_prims_that_move_elements():
    x = torch.randn(2, 3, 4)
    check(prims.convert_element_type.default, x, torch.bfloat16)
    check(prims.broadcast_in_dim.default, torch.randn(3), [2, 3, 4], [1])
    check(prims.transpose.default, x, [2, 0, 1])
    check(prims.rev.default, x, [0, 2])
    check(prims.collapse.default, x, 0, 1)
    check(prims.split_dim.default, x, 2, 2)
    check(prims.squeeze.default, torch.randn(2, 1, 3), [1])
    check(prims.reshape.default, x, [6, 4])
    check(prims.view_of.default, x)
    check(prims.where.default, x > 0, x, x * 2)
    check(prims.iota.default, 5, start=2, step=3, dtype=torch.int64, device=torch.device("cpu"), requires_grad=False)
    check(prims.cat.default, [x, x], 1)


def test_prims_that_reduce():
    x = torch.randn(2, 3, 4)
    for func in (prims.sum, prims.amax, prims.amin, prims.prod):
        check(func.default, x, [0, 2])
    check(prims.var.default, x, [1], 1.0)


def test_prims_fma():
    a, b, c = torch.randn(3, 5).unbind()
    arguments = [tensor("a", a), tensor("b", b), tensor("c", c)]
    torch.testing.assert_close(result("prims::fma", arguments), a * b + c)


def test_fill_and_zero_take_the_layout_of_their_input():
    x = torch.randn(3, 4).t()
    check(aten.fill.Scalar, x, 2.5)
    check(aten.fill.Tensor, x, torch.tensor(3))
    check(aten.zero.default, x)


@pytest.mark.parametrize("ranges", [(0, 10, 1), (5, -3, -2), (0.0, 1.0, 0.1), (2, 2, 1), (1.5, 7, 2)], ids=str)
@pytest.mark.parametrize("dtype", [None, torch.int32, torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_arange_needs_only_its_length_when_lowering(ranges, dtype):
    check(aten.arange.start_step, *ranges, dtype=dtype)


@pytest.mark.parametrize("index", [5, -6, 100])
def test_indices_out_of_range_are_reported(index):
    x = torch.randn(5)
    bad = torch.tensor([0, index])
    with pytest.raises(RuntimeError, match="out_of_range"):
        lib.run("aten::index.Tensor", [tensor("self", x), ("indices", "tensors", [oracle.describe_tensor(bad)])])
    with pytest.raises(RuntimeError, match="out_of_range"):
        lib.run("aten::index_select", [tensor("self", x), ("dim", "int", 0), tensor("index", bad)])


def test_negative_indices_count_from_the_end():
    x = torch.randn(4, 5)
    check(aten.index.Tensor, x, [torch.tensor([-1, 0, -4]), None])
    check(aten.index_put.default, x, [torch.tensor([-1, 0]), torch.tensor([2, -5])], torch.tensor([1.0, 2.0]))
    check(aten.index_fill.int_Scalar, x, 0, torch.tensor([-1]), 3.0)
    check(aten.take.default, x, torch.tensor([-1, 3]))


def test_index_put_accumulates_duplicates():
    x = torch.zeros(3)
    check(aten.index_put.default, x, [torch.tensor([1, 1, 1, 2])], torch.tensor([1.0, 2.0, 3.0, 4.0]), True)


# Each pair: PyTorch refuses the call, so infer leaves it to PyTorch's meta function (and its words).
def refused():
    f, b, c, i = (
        torch.ones(3),
        torch.ones(3, dtype=torch.bool),
        torch.ones(3, dtype=torch.complex64),
        torch.ones(3, dtype=torch.int64),
    )
    m = torch.ones(2, 3)
    yield from [
        (aten.add.Tensor, (f, torch.ones(4))), (aten.sub.Tensor, (b, b)), (aten.neg.default, (b,)), (aten.lt.Tensor, (c, c)),
        (aten.clamp.default, (f,)), (aten.bitwise_and.Tensor, (f, f)), (aten.mm.default, (m, m)), (aten.mm.default, (m, f)),
        (aten.mm.default, (m, m.t().double())), (aten.bmm.default, (m, m)),
        (aten.addmm.default, (torch.ones(5, 5), m, m.t())),
        (aten.cat.default, ([m, torch.ones(2, 4)],)), (aten.gather.default, (m, 0, torch.zeros(1, 4, dtype=torch.int64))),
        (aten.amax.default, (torch.ones(0),)), (aten.argmax.default, (torch.ones(0),)), (aten.mean.default, (i,)),
        (aten.index_select.default, (m, 2, i)), (aten.tril.default, (f,)),
        (aten.floor.default, (b,)), (aten.erf.default, (c,)),
        (aten.add.Tensor, (i, i), {"alpha": 1.5}), (aten.lerp.Scalar, (f, f.double(), 0.5)), (aten.max.default, (c,)),
        (aten.topk.default, (f, 4)), (aten.gelu.default, (i,)),
    ]  # fmt: skip


@pytest.mark.parametrize("case", list(refused()), ids=lambda case: oracle.operator_name(case[0]))
def test_what_pytorch_refuses_has_no_metadata(case):
    func, args, kwargs = (*case, {})[:3]
    with pytest.raises((RuntimeError, IndexError, NotImplementedError)):
        func(*args, **kwargs)
    described = oracle.describe_call(func, args, kwargs, True)
    assert lib.infer(oracle.operator_name(func), described) is None


@pytest.mark.parametrize("rows", range(5))
@pytest.mark.parametrize("columns", range(5))
def test_triangle_indices_of_every_offset(rows, columns):
    for offset in range(-6, 7):
        for func in (aten.tril_indices.default, aten.triu_indices.default):
            check(func, rows, columns, offset)


def test_triangle_indices_of_long_triangles():
    for func in (aten.tril_indices.default, aten.triu_indices.default):
        check(func, 130, 130, 1)
        check(func, 3, 3000, -1, dtype=torch.int32)
        check(func, 3000, 3, 1)


@pytest.mark.parametrize("turns", [1, 9, 30])
def test_complex_logcumsumexp_counts_the_turns_of_the_imaginary_part_as_one_by_one(turns):
    torch.manual_seed(0)
    x = torch.complex(3 * torch.randn(5, 100), turns * torch.randn(5, 100)).to(torch.complex128)
    for dim in (0, 1):
        check(aten.logcumsumexp.default, x, dim)
        check(aten.logcumsumexp.default, torch.where(x.real > 2, torch.complex(x.real - torch.inf, x.imag), x), dim)


def test_complex_logaddexp_of_what_is_not_finite():
    inf, nan = torch.inf, torch.nan
    numbers = [complex(a, b) for a in (inf, -inf, nan, 0.0, 2.0, -300.0) for b in (inf, -inf, nan, 0.0, 1.5, -4.0, 20.0)]
    a, b = torch.tensor(list(itertools.product(numbers, numbers))).unbind(1)
    check(aten.logaddexp.default, a.contiguous(), b.contiguous())
    check(aten.logsumexp.default, torch.stack([a, b]), [0])


@pytest.mark.parametrize("order", range(11))
def test_polygamma_on_both_sides_of_zero(order):
    special = [0.0, -0.0, -1.0, -7.0, 1e-3, -1e-3, 1e4, 1e20, torch.inf, -torch.inf, torch.nan]
    x = torch.cat([torch.linspace(-12.3, 12.4, 801, dtype=torch.float64), torch.tensor(special, dtype=torch.float64)])
    check(aten.polygamma.default, order, x)
    check(aten.polygamma.default, order, torch.linspace(0.1, 12.3, 200))


@pytest.mark.parametrize("order", [0.0, 1.0, 2.0, 2.5, torch.inf, -1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_embedding_renorm_scales_the_rows_that_are_named(order, dtype):
    torch.manual_seed(0)
    table, index = torch.randn(6, 5).to(dtype), torch.tensor([[1, 1], [3, 5]])
    check(aten.embedding_renorm.default, table, index, 1.5, order)
    check(aten.embedding_renorm.default, table.t().contiguous().t(), index.int(), 1.5, order)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_dropout_backward_keeps_what_is_not_finite(dtype):
    grad, mask = torch.tensor([1.0, torch.nan, torch.inf]).to(dtype), torch.tensor([True, False, False])
    check(aten.native_dropout_backward.default, grad, mask, 2.0)


@pytest.mark.parametrize("shape", [(3, 6), (2, 6, 3), (2, 6, 4, 5), (1, 6, 2, 3, 4)], ids=str)
@pytest.mark.parametrize("channels_last", [False, True])
def test_group_norm_keeps_the_memory_format(shape, channels_last):
    x, g, w = torch.randn(shape), torch.randn(shape), torch.randn(6)
    if channels_last and len(shape) == 4:
        x, g = (t.contiguous(memory_format=torch.channels_last) for t in (x, g))
    sizes = (shape[0], 6, x.numel() // shape[0] // 6, 2)
    for weight in (w, None):
        results = aten.native_group_norm.default(x, weight, weight, *sizes, 1e-5)
        check(aten.native_group_norm.default, x, weight, weight, *sizes, 1e-5)
        mask = [True, weight is not None, weight is not None]
        check(aten.native_group_norm_backward.default, g, x, *results[1:], weight, *sizes, mask)
