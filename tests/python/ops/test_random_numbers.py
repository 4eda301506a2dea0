"""Random operators: right dtype, shape and distribution; the same seed and offset give the same numbers in any layout."""

import numpy as np
import ops_testlib as lib
import oracle
import pytest
import torch

aten = torch.ops.aten


def draw(func, *args, seed=7, offset=0, **kwargs):
    described = oracle.describe_call(func, args, kwargs, False)
    name = oracle.operator_name(func)
    metas = lib.infer(name, oracle.describe_call(func, args, kwargs, True))
    dtype, shape, data = lib.run(name, described, metas, "f32", seed, offset, lib.executor)[0]
    return torch.from_numpy(np.frombuffer(bytearray(data), np.uint8)).view(oracle.TORCH[dtype]).reshape(list(shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_rand_is_uniform_below_one(dtype):
    x = draw(aten.rand.default, [2000], dtype=dtype)
    assert x.dtype == dtype and x.shape == (2000,)
    assert x.min() >= 0 and x.max() < 1
    assert abs(x.double().mean() - 0.5) < 0.03 and abs(x.double().var() - 1 / 12) < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_randn_is_normal(dtype):
    x = draw(aten.randn.default, [4000], dtype=dtype).double()
    assert abs(x.mean()) < 0.06 and abs(x.var() - 1) < 0.08
    assert abs((x.abs() < 1).double().mean() - 0.683) < 0.03


def test_randint_covers_its_range():
    x = draw(aten.randint.low, -3, 4, [2000])
    assert x.dtype == torch.int64 and set(x.tolist()) == set(range(-3, 4))


def test_bernoulli_follows_its_probability():
    x = draw(aten.bernoulli.p, torch.zeros(4000), 0.3)
    assert set(x.tolist()) == {0.0, 1.0} and abs(x.mean() - 0.3) < 0.03


def test_randperm_is_a_permutation():
    assert sorted(draw(aten.randperm.default, 50).tolist()) == list(range(50))


def test_seed_and_offset_decide_the_numbers():
    a, b = draw(aten.rand.default, [100]), draw(aten.rand.default, [100])
    assert torch.equal(a, b)
    assert not torch.equal(a, draw(aten.rand.default, [100], seed=8))
    # Element i uses counter offset + i: a later offset continues the same sequence.
    assert torch.equal(draw(aten.rand.default, [100], offset=10)[:90], a[10:])


def test_numbers_do_not_depend_on_shape_or_layout():
    flat = draw(aten.rand.default, [24])
    assert torch.equal(draw(aten.rand.default, [2, 3, 4]).reshape(-1), flat)
    assert torch.equal(draw(aten.rand_like.default, torch.zeros(6, 4).t()).reshape(-1), flat)


def test_dropout_scales_what_it_keeps():
    x = torch.ones(4000)
    described = oracle.describe_call(aten.native_dropout.default, (x, 0.25, True), {}, False)
    out, mask = lib.run("aten::native_dropout", described, None, "f32", 3, 0)
    out = torch.from_numpy(np.frombuffer(out[2], np.float32).copy())
    mask = torch.from_numpy(np.frombuffer(mask[2], np.bool_).copy())
    assert abs(mask.float().mean() - 0.75) < 0.03
    torch.testing.assert_close(out, mask / 0.75)


def test_increment_depends_on_the_number_of_elements_only():
    one = lib.rng_increment("aten::rand", oracle.describe_call(aten.rand.default, ([6, 4],), {}, True), "f32")
    two = lib.rng_increment("aten::rand", oracle.describe_call(aten.rand.default, ([24],), {}, True), "f32")
    assert one == two >= 24 // 4


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_uniform_numbers_have_two_independent_uniform_parts(dtype):
    x = draw(aten.uniform.default, torch.zeros(4000, dtype=dtype), 2.0, 3.0)
    for part in (x.real.double(), x.imag.double()):
        assert part.min() >= 2 and part.max() <= 3
        assert abs(part.mean() - 2.5) < 0.03 and abs(part.var() - 1 / 12) < 0.01
    assert abs(torch.corrcoef(torch.stack([x.real, x.imag]))[0, 1]) < 0.06
