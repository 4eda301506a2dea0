"""Attention, fused optimizers, _foreach_* and random operators: what op_db does not reach, or what is compared by other means
than CPU's values (statistics of random numbers, attention against its written-out form)."""

import copy
import itertools

import numpy as np
import ops_testlib as lib
import oracle
import pytest
import torch

aten = torch.ops.aten
FLOATS = [torch.float32, torch.bfloat16, torch.float64]


def run(func, args, kwargs=None, seed=7, offset=0):
    """The results of a lowering as tensors (None where there is none)."""
    results = lib.run(
        oracle.operator_name(func), oracle.describe_call(func, args, kwargs or {}, False), None, "f32", seed, offset
    )
    return [None if r is None else to_tensor(r) for r in results]


def to_tensor(result):
    dtype, shape, data = result
    flat = torch.from_numpy(np.frombuffer(bytearray(data), np.uint8)) if data else torch.empty(0, dtype=torch.uint8)
    return flat.view(oracle.TORCH[dtype]).reshape(list(shape))


# --- attention ---


def attention_case(dtype, mask, causal, dropout=0.0):
    make = lambda *shape: torch.randn(*shape, dtype=dtype, requires_grad=True)  # noqa: E731
    q, k, v = make(2, 4, 5, 8), make(2, 2, 7, 8), make(2, 2, 7, 6)  # two query heads share a key head
    m = None
    if mask == "bool":
        m = torch.rand(5, 7) > 0.3
        m[2] = False  # a query that sees no key
    if mask == "float":
        m = make(2, 1, 5, 7)
    return q, k, v, m


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mask,causal", [(None, False), (None, True), ("bool", False), ("float", False)])
def test_attention_equals_its_written_out_form_forward_and_backward(dtype, mask, causal):
    torch.manual_seed(0)
    q, k, v, m = attention_case(dtype, mask, causal)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, m, is_causal=causal, enable_gqa=True)
    grad = torch.randn_like(want)
    want.backward(grad)
    plain = [None if t is None else t.detach() for t in (q, k, v, m)]
    forward = aten._scaled_dot_product_fused_attention_overrideable.default
    out = run(forward, [*plain, 0.0, causal])
    close = {torch.bfloat16: 5e-2}.get(dtype, 1e-5)
    torch.testing.assert_close(out[0], want.detach(), rtol=close, atol=close)
    backward = aten._scaled_dot_product_fused_attention_overrideable_backward.default
    empty = torch.zeros(0)
    got = run(
        backward,
        [grad, *plain, [True, True, True, mask == "float"], out[0], out[1], empty, empty, 5, 7, 0.0, causal, out[6], out[7]],
    )
    for ours, theirs in zip(got, (q, k, v, m), strict=False):
        if theirs is not None and theirs.grad is not None:
            torch.testing.assert_close(ours, theirs.grad, rtol=close, atol=close)


def test_attention_dropout_repeats_its_mask_in_backward():
    torch.manual_seed(0)
    q, k = torch.randn(1, 2, 32, 8), torch.randn(1, 2, 32, 8)
    v = torch.eye(32).expand(1, 2, 32, 32).contiguous()  # the output is the matrix of kept probabilities
    out = run(aten._scaled_dot_product_fused_attention_overrideable.default, [q, k, v, None, 0.3], offset=11)
    kept = out[0] != 0
    assert abs(kept.float().mean() - 0.7) < 0.05
    assert (out[6].item(), out[7].item()) == (7, 11)
    probabilities = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
    torch.testing.assert_close(out[0], torch.where(kept, probabilities / 0.7, 0.0))
    empty = torch.zeros(0)
    grad = torch.randn_like(out[0])
    got = run(
        aten._scaled_dot_product_fused_attention_overrideable_backward.default,
        [grad, q, k, v, None, [True, True, True, False], out[0], out[1], empty, empty, 32, 32, 0.3, False, out[6], out[7]],
        seed=99,
    )
    torch.testing.assert_close(got[2], out[0].transpose(-1, -2) @ grad)


# --- optimizers ---


def optimizer_case(name, dtype, variant):
    shapes = [(3, 4), (5,), (), (2, 1, 2)]
    make = lambda positive=False: [(torch.rand(s) if positive else torch.randn(s)).to(dtype) for s in shapes]  # noqa: E731
    settings = dict(weight_decay=0.1 if variant else 0.0, maximize=variant == 2)
    if name == "sgd":
        lists = [make(), make(), make() if variant != 1 else []]
        settings.update(momentum=0.9 if variant != 1 else 0.0, lr=0.01, dampening=0.1 if variant == 2 else 0.0)
        settings.update(nesterov=variant == 3, is_first_step=variant == 0)
    else:
        lists = [make(), make(), make(), make(True), make(True) if variant == 1 else []]
        lists.append([torch.tensor(float(3 + i)) for i in range(len(shapes))])
        settings.update(lr=0.01, beta1=0.9, beta2=0.999, eps=1e-8, amsgrad=variant == 1)
    return lists, settings


def check_step(func, lists, settings, mutated):
    after = copy.deepcopy(lists)
    func(*after, **settings)
    oracle.check_call(func, lists, settings, [t for tensors in after[:mutated] for t in tensors])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name,variant", list(itertools.product(["adam", "adamw", "sgd"], range(4))))
def test_fused_optimizer_steps(name, variant, dtype):
    torch.manual_seed(variant)
    lists, settings = optimizer_case(name, dtype, variant)
    mutated = 3 if name == "sgd" else 5
    func = getattr(aten, f"_fused_{name}_").default
    check_step(func, lists, settings, mutated)
    if dtype == torch.float32:
        scaled = {**settings, "grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(0.0)}
        check_step(func, lists, scaled, mutated)
        check_step(func, lists, {**scaled, "found_inf": torch.tensor(1.0)}, mutated)
        check_step(getattr(aten, f"_fused_{name}_").tensor_lr, lists, {**settings, "lr": torch.tensor(0.01)}, mutated)


def test_first_adam_step_keeps_the_digits_of_the_bias_correction():
    p, g = [torch.zeros(1000)], [torch.randn(1000)]
    state = [[torch.zeros(1000)], [torch.zeros(1000)], [], [torch.tensor(1.0)]]
    settings = dict(lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=0.0, amsgrad=False, maximize=False)
    new = run(aten._fused_adam_.default, [p, g, *state], settings)[0]
    torch.testing.assert_close(new, -1e-3 * g[0].sign(), rtol=2e-6, atol=0)  # 1 - 0.999 in f32 would be 2e-5 off


@pytest.mark.parametrize("found,tracker", [(0.0, 3), (1.0, 3), (0.0, 1)])
def test_gradient_scaler_grows_and_backs_off(found, tracker):
    state = [torch.tensor(8.0), torch.tensor(tracker, dtype=torch.int32)]
    after = copy.deepcopy(state)
    func = aten._amp_update_scale_.default
    func(*after, torch.tensor(found), 2.0, 0.5, 4)
    got = run(func, [*state, torch.tensor(found), 2.0, 0.5, 4])
    assert [g.item() for g in got] == [a.item() for a in after]


def test_gradient_scaler_finds_what_is_not_finite():
    gradients = [torch.randn(3), torch.tensor([1.0, float("inf")])]
    func = aten._amp_foreach_non_finite_check_and_unscale_.default
    for lists in (gradients[:1], gradients):
        after = [copy.deepcopy(lists), torch.tensor(0.0)]
        func(*after, torch.tensor(0.5))
        oracle.check_call(func, [lists, torch.tensor(0.0), torch.tensor(0.5)], {}, [*after[0], after[1]])


# --- foreach ---


def foreach_operand(name, type_, kind, number, dtype):
    shapes = [(3, 4), (5,), (), (2, 3)]
    if name == "mat2":
        return [torch.randn(4, 2).to(dtype)]
    if "List[Tensor]" in type_:
        return [(torch.rand(s) * 3 + 0.5).to(dtype) for s in shapes]
    if type_ == "Tensor":
        return torch.tensor([1.5, 2.0, 3.0, 0.5]) if name == "scalars" else torch.tensor(2.0)
    if "List" in type_:
        return [kind(2 + i) for i in range(4)]
    return kind(number)


def foreach_operators():
    return sorted(n for n in oracle.REGISTERED if n.startswith("aten::_foreach_"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", foreach_operators())
def test_foreach_equals_cpu(name, dtype):
    torch.manual_seed(0)
    packet, _, overload = name.removeprefix("aten::").partition(".")
    func = getattr(getattr(aten, packet), overload or "default")
    for kind in (float, int):
        args, kwargs = [], {}
        for a in func._schema.arguments:
            if str(a.type) not in ("List[Tensor]", "Tensor", "number", "List[number]"):
                continue
            value = foreach_operand(a.name, str(a.type), kind, {"alpha": 1, "ord": 2}.get(a.name, 2), dtype)
            if packet == "_foreach_mm" and a.name == "self":
                value = value[:1]
            if a.kwarg_only:
                kwargs[a.name] = value
            else:
                args.append(value)
        try:
            want = func(*args, **kwargs)
        except (RuntimeError, NotImplementedError):
            continue  # CPU does not take this dtype
        try:
            oracle.check_call(func, args, kwargs, want)
        except oracle.Unsupported:
            pytest.skip("declared unsupported")


# --- random numbers ---


@pytest.mark.parametrize(
    "func,args,mean,std",
    [
        (aten.uniform_.default, (2.0, 5.0), 3.5, 3 / 12**0.5),
        (aten.normal_.default, (1.0, 2.0), 1.0, 2.0),
        (aten.exponential_.default, (2.0,), 0.5, 0.5),
        (aten.geometric_.default, (0.25,), 4.0, 12**0.5),
        (aten.log_normal_.default, (0.0, 0.5), 1.1331, 0.6039),
        (aten.bernoulli_.float, (0.3,), 0.3, 0.21**0.5),
        (getattr(aten.random_, "from"), (-5, 6), 0.0, 10**0.5),
    ],
    ids=lambda f: str(f) if callable(f) else "",
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_distribution_has_its_moments(func, args, mean, std, dtype):
    x = run(func, [torch.zeros(200, 100, dtype=dtype), *args])[0].double()
    error = 5 / 20000**0.5  # five standard errors
    assert abs(x.mean().item() - mean) < error * std + abs(mean) * 0.004
    assert abs(x.std().item() / std - 1) < 0.04
    assert torch.isfinite(x).all()


def test_uniform_numbers_reach_neither_end_beyond_what_is_promised():
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = run(aten.uniform_.default, [torch.zeros(20000, dtype=dtype), 0.0, 1.0])[0]
        assert x.min() >= 0 and x.max() < 1
    assert run(aten.exponential_.default, [torch.zeros(20000), 1.0])[0].min() > 0


def test_element_uses_offset_plus_its_index_whatever_the_shape():
    whole = run(aten.uniform_.default, [torch.zeros(6, 4), 0.0, 1.0])[0].flatten()
    tail = run(aten.uniform_.default, [torch.zeros(10), 0.0, 1.0], offset=14)[0]
    assert torch.equal(whole[14:], tail)
    strided = run(aten.uniform_.default, [torch.zeros(4, 6).t(), 0.0, 1.0])[0].flatten()
    assert torch.equal(whole, strided)


def test_dropout_scales_what_it_keeps():
    x = torch.rand(100, 100) + 0.5
    y, mask = run(aten.native_dropout.default, [x, 0.25, True])
    assert abs(mask.float().mean() - 0.75) < 0.02
    torch.testing.assert_close(y, x * mask / 0.75)
    for p, expected in ((0.0, x), (1.0, torch.zeros_like(x))):
        assert torch.equal(run(aten.native_dropout.default, [x, p, True])[0], expected)
    y, mask = run(aten.native_dropout.default, [x, 0.25, False])
    assert torch.equal(y, x) and mask.all()


def test_permutation_and_samples():
    assert torch.equal(run(aten.randperm.default, [500])[0].sort()[0], torch.arange(500))
    weights = torch.tensor([[0.0, 1, 2, 3], [4.0, 0, 4, 0]])
    distinct = run(aten.multinomial.default, [weights, 2, False])[0]
    assert distinct[1].sort()[0].tolist() == [0, 2] and 0 not in distinct[0]
    drawn = run(aten.multinomial.default, [weights, 4000, True])[0]
    for row, w in zip(drawn, weights, strict=True):
        share = torch.bincount(row, minlength=4) / 4000
        torch.testing.assert_close(share, w / w.sum(), atol=0.03, rtol=0)


def test_integers_cover_their_range():
    for low, high in ((0, 7), (-3, 5), (0, 2**40), (-(2**62), 2**62)):
        x = run(aten.randint.low, [low, high, [4000]])[0]
        assert low <= x.min() and x.max() < high
        assert x.double().std().item() == pytest.approx((high - low) / 12**0.5, rel=0.2)
    for dtype in (torch.uint8, torch.int32, torch.bool):
        x = run(aten.random_.default, [torch.zeros(4000, dtype=dtype)])[0]
        top = 1 if dtype == torch.bool else torch.iinfo(dtype).max
        assert x.double().mean().item() == pytest.approx(top / 2, rel=0.1)
