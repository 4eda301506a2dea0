"""What compiles again and what does not."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")


def test_same_shapes_compile_once(compiled_by) -> None:
    a, b = torch.ones(5, 7).to("neuron"), torch.ones(5, 7).to("neuron")
    _ = a + b
    assert compiled_by(lambda: [a + b for _ in range(10)]) == 0


def test_python_numbers_and_cpu_scalars_are_runtime_values(compiled_by) -> None:
    a = torch.arange(6.0).to("neuron")
    _, _ = a * 2.0, torch.add(a, a, alpha=3.0)
    _ = a * torch.tensor(2.0)

    def more() -> None:
        for x in (0.5, -7.25, 1e9):
            assert torch.equal((a * x).cpu(), a.cpu() * x)
            assert torch.equal(torch.add(a, a, alpha=x).cpu(), torch.add(a.cpu(), a.cpu(), alpha=x))
            assert torch.equal((a * torch.tensor(x)).cpu(), a.cpu() * x)

    assert compiled_by(more) == 0


def test_storage_offsets_share_an_executable(compiled_by) -> None:
    base = torch.arange(40.0).reshape(10, 4).to("neuron")
    _ = base[0:2] + 1

    def more() -> None:
        for i in (2, 5, 8):
            assert torch.equal((base[i : i + 2] + 1).cpu(), base.cpu()[i : i + 2] + 1)

    assert compiled_by(more) == 0


def test_ambient_default_dtype_is_part_of_the_signature() -> None:
    a = torch.tensor([4, 9]).to("neuron")
    assert a.sqrt().dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert a.sqrt().dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert a.sqrt().dtype == torch.float32


def test_kinds_of_numbers_decide_result_types() -> None:
    a = torch.tensor([1, 2]).to("neuron")
    assert (a + 1).dtype == torch.int64 and (a + 1.0).dtype == torch.float32 and (a * True).dtype == torch.int64
    assert (a + torch.tensor(1.0, dtype=torch.float64)).dtype == torch.float64
    assert (a.float() + torch.tensor(1.0, dtype=torch.float64)).dtype == torch.float32
    assert (a + 1j).dtype == torch.complex64


def test_executables_say_what_they_are() -> None:
    import torch_neuronx

    torch_neuronx.clear_op_tracking()
    a = torch.ones(3, 5).to("neuron")
    _ = a + a
    assert torch_neuronx.get_executed_ops()["aten::add.Tensor"] == 1
    assert torch_neuronx.fallback_count() == 0
    rows = [r for r in torch_neuronx.executables() if r["name"] == "aten::add.Tensor" and "f32[3,5]" in r["signature"]]
    assert rows and rows[-1]["launches"] >= 1 and rows[-1]["compile_ms"] > 0
    assert "aten::add.Tensor" in str(torch_neuronx.explain())


def test_cache_is_bounded() -> None:
    from torch_neuronx import _C

    stats = _C.cache_stats()
    assert stats["entries"] <= stats["capacity"]


def test_concurrent_first_calls_give_one_answer() -> None:
    import threading

    a = torch.arange(97.0).to("neuron")
    results: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda: results.append((a * 3).cpu())) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 8 and all(torch.equal(r, torch.arange(97.0) * 3) for r in results)


def test_arange_compiles_by_length_not_by_bounds(compiled_by) -> None:
    _ = torch.arange(0, 4, device="neuron")

    def more() -> None:
        for start in (3, 17, -5):
            assert torch.arange(start, start + 4, device="neuron").tolist() == list(range(start, start + 4))

    assert compiled_by(more) == 0
