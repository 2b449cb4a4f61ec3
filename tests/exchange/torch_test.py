"""tools/relay_torch.py: networks through torch.export, on both engines, against PyTorch."""
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as x:
    print(f"skipped: {x}")
    sys.exit(77)
import numpy as np

SOURCE = os.environ.get("RELAY_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path[:0] = [os.path.join(SOURCE, "tools"), os.path.join(SOURCE, "tests", "exchange")]
import networks  # noqa: E402
from torch._higher_order_ops import while_loop  # noqa: E402
import relay_torch  # noqa: E402

RELAY = os.environ.get("RELAY", "build/release/relay")
NAMES = ["mobilenet_squeeze_excite", "unet", "transformer_encoder", "decoder_with_cache", "gpt", "dynamic_batch", "detector", "resnet50"]


class Choice(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, (x,))


class Halving(torch.nn.Module):
    def forward(self, x):
        return while_loop(lambda n, v: v.abs().sum() > 1, lambda n, v: (n + 1, v * 0.5), (torch.tensor(0), x))


class Scanned(torch.nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.scan import scan
        return scan(lambda c, v: (c * 0.5 + v, c * 2 + v.sum()), torch.zeros(4), x)


class Tree(torch.nn.Module):
    """Sums over a tree in an array, children behind parents."""

    def forward(self, parents, values):
        def body(i, rows):
            parent = parents.index_select(0, i)
            row = torch.tanh(rows.index_select(0, parent) + rows.index_select(0, i))
            return i - 1, torch.where((torch.arange(6) == parent)[:, None], row, rows)
        return while_loop(lambda i, rows: i.sum() > 0, body, (torch.tensor([5]), values))[1][0]


def cases():
    for name in NAMES:
        module, inputs, _ = networks.NETWORKS[name]()
        dynamic = ({0: torch.export.Dim("batch")},) if name == "dynamic_batch" else None
        yield name, module, inputs, dynamic
    for sign in [1, -1]:
        yield f"cond {sign}", Choice(), [sign * torch.ones(3)], None
    yield "scan", Scanned(), [torch.randn(5, 4)], None
    yield "tree", Tree(), [torch.tensor([0, 0, 0, 1, 1, 2]), torch.randn(6, 4)], None
    yield "while_loop", Halving(), [torch.ones(4) * 3], None


def test(module, inputs, dynamic, folder):
    path = os.path.join(folder, "net")
    names = relay_torch.save(module, tuple(inputs), path, dynamic_shapes=dynamic)
    with torch.no_grad():
        want = module(*inputs)
    want = list(want) if isinstance(want, (tuple, list)) else [want]
    given = []
    for name, v in zip(names, inputs):
        np.save(f"{folder}/{name}.npy", v.numpy())
        given += ["--arg", f"{name}={folder}/{name}.npy"]
    for engine in ["interp", "jit"]:
        ran = subprocess.run([RELAY, "run", f"{path}.rly", "--params", f"{path}.npz", *given, "--exec", engine, "-o", f"{folder}/out.npz"],
                             capture_output=True, text=True, timeout=300)
        if ran.returncode or ran.stderr:
            return f"{engine}: {ran.stderr.strip()[:500]}"
        with np.load(f"{folder}/out.npz") as out:
            results = [out[k] for k in out.files]
        for w, r in zip(want, results):
            if len(want) != len(results) or tuple(w.shape) != r.shape or not np.allclose(w.numpy(), r, rtol=1e-3, atol=1e-4):
                return f"{engine}: another value: {r.shape} {np.abs(w.numpy() - r).max() if tuple(w.shape) == r.shape else w.shape}"
    return None


failures = 0
for name, module, inputs, dynamic in cases():
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        try:
            message = test(module.eval(), inputs, dynamic, folder)
        except Exception as x:  # of PyTorch, or Unsupported
            message = f"{type(x).__name__}: {str(x)[:600]}"
    failures += message is not None
    print(f"{'FAILED' if message else 'ok':6} {name} {message or ''}", flush=True)
sys.exit(1 if failures else 0)
