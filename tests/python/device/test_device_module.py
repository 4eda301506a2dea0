"""torch.neuron and torch.accelerator describe the same cores, and queries do not initialise the device."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch

import torch_neuronx

QUERIES = """
import torch, torch_neuronx
assert torch.neuron.is_available() and torch.neuron.device_count() >= 1
torch.accelerator.is_available(); torch.accelerator.device_count(); torch.accelerator.current_accelerator()
torch.neuron.current_device(); torch.neuron.get_device_name(); torch.neuron.is_initialized()
torch.manual_seed(1); torch.neuron.get_rng_state(); torch.neuron.memory_allocated(); torch.neuron._is_in_bad_fork()
torch.Generator("neuron")
assert not torch.neuron.is_initialized(), "a query initialised the device"
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_queries_do_not_initialise() -> None:
    run(QUERIES)


def test_accelerator_is_neuron() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.accelerator.device_count() == torch.neuron.device_count()


def test_device_context_restores_the_current_core() -> None:
    if torch.neuron.device_count() < 2:
        pytest.skip("one core")
    with torch.neuron.device(1):
        assert torch.neuron.current_device() == 1
        assert torch.empty(2, device="neuron").device.index == 1
    assert torch.neuron.current_device() == 0


def test_wrong_ordinal_is_refused() -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.empty(1, device="neuron:100")


def test_generated_methods() -> None:
    t = torch.ones(3).neuron()
    assert t.is_neuron and t.device.type == "neuron"
    module = torch.nn.Linear(2, 2).neuron()
    assert module.weight.is_neuron


def test_properties_name_the_chip() -> None:
    properties = torch.neuron.get_device_properties(0)
    assert properties.name == "trn2" and properties.total_memory > 2**30


def test_streams_and_events_follow_torch() -> None:
    stream = torch.neuron.Stream()
    assert isinstance(stream, torch.Stream) and stream.device.type == "neuron"
    start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    with torch.neuron.stream(stream):
        assert torch.neuron.current_stream() == stream
        start.record()
        torch.ones(1000).to("neuron").clone()
        end.record()
    assert torch.neuron.current_stream() == torch.neuron.default_stream()
    assert isinstance(start, torch.neuron.Event) and issubclass(torch.neuron.Event, torch.Event)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0


def test_printing_shows_values_and_device() -> None:
    text = repr(torch.tensor([1.5, float("nan")]).to("neuron"))
    assert "1.5000" in text and "nan" in text and "device='neuron:0'" in text


def test_deepcopy_and_save_load(tmp_path) -> None:
    module = torch.nn.Linear(3, 2).to("neuron")
    twin = copy.deepcopy(module)
    assert torch.equal(module.weight.cpu(), twin.weight.cpu())
    torch.save(module.state_dict(), tmp_path / "m.pt")
    loaded = torch.load(tmp_path / "m.pt", map_location="cpu")
    assert loaded["weight"].device.type == "cpu"
    back = torch.load(tmp_path / "m.pt", map_location="neuron")
    assert back["weight"].device.type == "neuron" and torch.equal(back["weight"].cpu(), module.weight.cpu())


def test_forked_child_gets_a_clear_error() -> None:
    out = run("""
import os, torch, torch_neuronx
torch.ones(2).to("neuron")
pid = os.fork()
if pid == 0:
    try:
        torch.ones(2).to("neuron")
        code = 1
    except RuntimeError as error:
        code = 0 if "fork" in str(error) else 2
    os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""")
    assert out.strip() == "0"


@pytest.mark.parametrize("route", ["numpy", "__array__", "out"])
def test_host_code_cannot_read_device_memory(route: str) -> None:
    t = torch.ones(4).to("neuron")
    with pytest.raises((TypeError, RuntimeError, NotImplementedError, BufferError)):
        if route == "numpy":
            t.numpy()
        elif route == "__array__":
            t.__array__()
        else:
            torch.add(torch.ones(4), torch.ones(4), out=t)


def test_config_lists_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    torch_neuronx.config.show()
    out = capsys.readouterr().out
    assert "TORCH_NEURONX_FALLBACK" in out and "NEURON_EMULATOR_THREADS" in out


def test_unknown_variable_value_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import torch, torch_neuronx"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "TORCH_NEURONX_FALLBACK": "maybe"},
        timeout=300,
        check=False,
    )
    assert done.returncode != 0 and "allow" in done.stderr and "TORCH_NEURONX_FALLBACK" in done.stderr
