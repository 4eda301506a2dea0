"""The same bits from every executor, number of threads and host instruction set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

CODE = """
import hashlib, json, torch, torch_neuronx
import torch.nn.functional as F
torch_neuronx.config.set_fallback("error")
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)

def data(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype).to("neuron")

def bits(result):
    digest = hashlib.sha256()
    for t in result if isinstance(result, (list, tuple)) else [result]:
        digest.update(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]

def layer_norm_gradients():
    x, w = data(33, 70).requires_grad_(), data(70).requires_grad_()
    y = F.layer_norm(x, (70,), w)
    return torch.autograd.grad(y, (x, w), data(33, 70))

def attention_gradients():
    q, k, v = (data(2, 2, 40, 16).requires_grad_() for _ in range(3))
    return torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), data(2, 2, 40, 16))

out = {}
out["layer_norm"] = bits(layer_norm_gradients())
out["attention"] = bits(attention_gradients())
out["topk"] = bits(data(5, 300).topk(7))
table = data(40, 12).requires_grad_()
tokens = torch.randint(0, 40, (6, 9), generator=g).to("neuron")
loss = F.cross_entropy(F.embedding(tokens, table) @ table.t(), tokens[:, :1].expand(6, 40) % 9)
out["cross_entropy"] = bits(torch.autograd.grad(loss, table))
for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
    n = str(dtype)[6:]
    a, b = data(70, 130, dtype=dtype), data(130, 90, dtype=dtype)
    out["matmul " + n] = bits(a @ b)
    out["transposed matmul " + n] = bits(b.t() @ a.t())
    out["sum " + n] = bits([a.sum(), a.sum(0), a.sum(1), a.mean(), a.var(1)])
    out["softmax " + n] = bits(a.softmax(-1))
    out["pointwise " + n] = bits([a.exp(), a.tanh(), F.gelu(a), a.abs().log(), a.sin(), a.abs().pow(1.7)])
    out["cumsum " + n] = bits(a.cumsum(1))
    index = torch.randint(0, 50, (70,), generator=g).to("neuron")
    out["index_add " + n] = bits(torch.zeros(50, 130, dtype=dtype, device="neuron").index_add_(0, index, a))
print(json.dumps(out))
"""

VARIANTS = {
    "one thread": {"NEURON_EMULATOR_THREADS": "1"},
    "four threads": {"NEURON_EMULATOR_THREADS": "4"},
    "interpreter": {"NEURON_EMULATOR_EXECUTOR": "interpreter"},
    "shuffled schedule": {"NEURON_EMULATOR_EXECUTOR": "shuffled:7"},
    "scalar kernels": {"NEURON_EMULATOR_ISA": "scalar"},
    "AVX2 kernels": {"NEURON_EMULATOR_ISA": "avx2"},
}


def test_results_do_not_depend_on_how_programs_are_executed(
    run_python: Callable[..., str], record_claim: Callable[[str, int, int], None]
) -> None:
    flags = Path("/proc/cpuinfo").read_text()
    want = json.loads(run_python(CODE).splitlines()[-1])
    compared, different = 0, []
    for name, variables in VARIANTS.items():
        if "AVX2" in name and " avx2" not in flags:
            continue
        got = json.loads(run_python(CODE, **variables).splitlines()[-1])
        compared += len(want)
        different += [f"{case} with {name}" for case in want if got[case] != want[case]]
    record_claim("results bit-identical across executors, threads and host instruction sets", compared, 150)
    assert not different
