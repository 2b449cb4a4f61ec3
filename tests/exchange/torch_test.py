"""tools/relay_torch.py: networks through torch.export, on both engines, against PyTorch."""
import math
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
import torch.ao.quantization.fx._decomposed  # noqa: E402, F401
from torch._higher_order_ops import while_loop  # noqa: E402
import relay_torch  # noqa: E402

QUANTISED = torch.ops.quantized_decomposed
RELAY = os.environ.get("RELAY", "build/release/relay")
NAMES = ["mobilenet_squeeze_excite", "unet", "transformer_encoder", "encoder_of_torch", "decoder_with_cache", "gpt", "dynamic_batch", "lstm", "gru",
         "resnet50", *networks.KINDS]


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


class Detector(torch.nn.Module):
    """Boxes of a grid, and of those the best that overlap no better one."""

    def __init__(self):
        super().__init__()
        self.net = networks.NETWORKS["detector"]()[0]

    def forward(self, x):
        boxes, scores = self.net(x)
        best, order = scores[0].amax(0).sort(descending=True)
        b = boxes[0][order]
        low, high = torch.maximum(b[:, None, :2], b[None, :, :2]), torch.minimum(b[:, None, 2:], b[None, :, 2:])
        common = (high - low).clamp(min=0).prod(-1)
        area = (b[:, 2:] - b[:, :2]).prod(-1)
        overlap = common > 0.3 * (area[:, None] + area - common)
        n = b.shape[0]
        places = torch.arange(n)

        def body(i, kept):
            row = overlap.index_select(0, i.reshape(1))[0] & (places > i) & kept.index_select(0, i.reshape(1))
            return i + 1, kept & ~row
        _, kept = while_loop(lambda i, kept: i < n, body, (torch.tensor(0), best > 0.3))
        return b, best, kept


class Int8(torch.nn.Module):
    """Weights as integers of a scale for each channel, activations of one scale."""
    tolerance = 0.01  # a sum in another order may be rounded to the next integer: one of the last scale

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.Conv2d(8, 16, 3, 2, 1)])
        self.head = torch.nn.Linear(16, 10)
        for k, layer in enumerate([*self.layers, self.head]):
            w = layer.weight.detach()
            scale = w.flatten(1).abs().amax(1) / 127
            self.register_buffer(f"scale{k}", scale)
            self.register_buffer(f"zero{k}", torch.zeros(len(scale), dtype=torch.int64))
            self.register_buffer(f"weight{k}", QUANTISED.quantize_per_channel(w, scale, torch.zeros(len(scale), dtype=torch.int64), 0, -127, 127, torch.int8))

    def weight(self, k):
        return QUANTISED.dequantize_per_channel(getattr(self, f"weight{k}"), getattr(self, f"scale{k}"), getattr(self, f"zero{k}"), 0, -127, 127, torch.int8)

    def forward(self, x):
        def rounded(v, scale, zero):
            q = QUANTISED.quantize_per_tensor(v, scale, zero, -128, 127, torch.int8)
            return QUANTISED.dequantize_per_tensor(q, scale, zero, -128, 127, torch.int8)
        x = rounded(x, 0.03, 5)
        for k, layer in enumerate(self.layers):
            x = rounded(torch.relu(torch.nn.functional.conv2d(x, self.weight(k), layer.bias, 2, 1)), 0.02, -128)
        return torch.nn.functional.linear(rounded(x.mean((2, 3)), 0.01, -128), self.weight(2), self.head.bias)


def spread(*shape):
    return torch.linspace(-2, 2, math.prod(shape)).reshape(shape)


# One operator each, or a few that go together: (what is computed, inputs).
OPERATORS = {
    "acosh": (lambda x: torch.acosh(x + 4), [spread(6)]), "asinh": (torch.asinh, [spread(6)]), "atanh": (lambda x: torch.atanh(x / 3), [spread(6)]),
    "atan2": (torch.atan2, [spread(3, 1), spread(5)]), "log10": (lambda x: torch.log10(x + 3), [spread(6)]),
    "log1p": (torch.log1p, [torch.tensor([-0.5, -1e-6, 0, 1e-6, 0.009, 0.02, 3])]), "expm1": (torch.expm1, [torch.tensor([-5, -1e-6, 0, 1e-6, 0.009, 3])]),
    "reciprocal": (torch.reciprocal, [spread(6)]), "round": (torch.round, [torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.4])]),
    "logical_xor": (torch.logical_xor, [spread(4) > 0, spread(4) > 1]), "max": (lambda x: (x.max(), *x.max(1)), [spread(3, 4).flip(1)]),
    "min": (lambda x: x.min(0, keepdim=True), [spread(3, 4)]), "sort": (lambda x: torch.sort(torch.sin(5 * x), 0, descending=True), [spread(5, 3)]),
    "topk": (lambda x: torch.topk(torch.sin(5 * x), 3, largest=False), [spread(2, 7)]), "argmax": (lambda x: torch.argmax(torch.sin(9 * x)), [spread(2, 7)]),
    "flip": (lambda x: x.flip([0, 2]), [spread(2, 3, 4)]), "repeat": (lambda x: x.repeat(2, 1, 3), [spread(2, 3)]),
    "diagonal": (lambda x: (x.diagonal(), x.diagonal(-1, 0, 2), x[0].diagonal(1)), [spread(3, 4, 5)]),
    "group_norm": (lambda x: torch.nn.functional.group_norm(x, 2), [spread(2, 4, 3)]), "pools": (
        lambda x: (torch.nn.functional.max_pool3d(x, 2), torch.nn.functional.avg_pool3d(x, 2, 1, 1)), [spread(1, 2, 4, 4, 4)]),
    "index": (lambda x, i, j: (x[i, j], x[i], x[:, :, j], x[x > 0]), [spread(3, 4, 5), torch.tensor([[0], [-1]]), torch.tensor([1, -3, 2])]),
    "index_put": (lambda x, i: (x.index_put((i,), torch.tensor(7.)), x.index_put((i, i), x[0, :, 0][:2], accumulate=True), x.index_put((x > 1,), torch.tensor(0.))),
                  [spread(4, 4, 2), torch.tensor([1, -2])]),
    "nonzero": (torch.nonzero, [spread(3, 4) > 0.5]), "scatter": (
        lambda x, i: (x.scatter(1, i, 9.0), x.scatter(0, i, 2 * x), x.scatter_add(1, i, x), x.scatter_reduce(1, i, x, "amax")),
        [spread(3, 4), torch.tensor([[0, 1], [2, 0]])]),
    "select_scatter": (lambda x, y: x.select_scatter(y, 1, -2), [spread(3, 4), spread(3)]),
    "slice_scatter": (lambda x, y: x.slice_scatter(y, 0, 1, None, 2), [spread(6, 2), spread(3, 2)]),
    "mirrors": (lambda x: (torch.nn.functional.pad(x, (1, 2, 2, 0), mode="reflect"), torch.nn.functional.pad(x, (1, 2, 3, 0), mode="replicate")), [spread(1, 2, 4, 5)]),
    "selu": (lambda x: (torch.selu(x), torch.nn.functional.celu(x, 0.5)), [spread(6)]),
    "integer power": (lambda i, k: (i**3, i**0, i**k), [torch.tensor([-2, 0, 3]), torch.tensor([1, 2, 3])]),
    "var": (lambda x: (x.var(), x.std(1), x.var((0, 1), correction=3), *torch.var_mean(x, 0)), [spread(3, 4, 2)]),
    "clamp by tensors": (lambda x, y: torch.clamp(x, y, 2 * y + 1), [spread(5), spread(5).abs()]),
    "scans": (lambda x: (x.cumprod(1), x.logcumsumexp(0)), [spread(3, 4)]),
    "middle": (lambda x: (x.median(), *x.median(1), *x.kthvalue(2, 0, keepdim=True)), [torch.sin(9 * spread(3, 4))]),
    "searchsorted": (lambda x, b: (torch.bucketize(x, b), torch.searchsorted(b, x, right=True)), [spread(3, 4), torch.tensor([-1.0, 0, 2])]),
    "unique": (lambda i: torch.unique(i, return_inverse=True, return_counts=True), [torch.tensor([[3, 1, 3], [0, 1, 3]])]),
    "masked": (lambda x, y: (x[x > 0], x.masked_scatter(x > 0, y)), [spread(3, 4), spread(4, 3)]),
    "axes behind whole ones": (
        lambda x, i, m: (x[:, i], x[:, i, :, i], x[..., i], x[:, m], x[:, :, i, i], x.index_put((torch.tensor([0]), i), torch.tensor(5.)), x.index_add(1, i, x[:, :2])),
        [spread(3, 4, 4, 5), torch.tensor([0, 2]), torch.tensor([True, False, True, True])]),
    "set behind whole ones": (lambda x, i, m: (Computed.put(x, (slice(None), i), 3 * x[:, i]), Computed.put(x, (slice(None), slice(None), i, i), 7.0),
                                               Computed.put(x, (slice(None), m), x[:, m] + 1)),
                              [spread(3, 4, 4, 5), torch.tensor([0, 2]), torch.tensor([True, False, True, True])]),
    "views": (lambda x: (x.unfold(1, 2, 1), x.as_strided((2, 3), (1, 2)), x.t().as_strided((2, 2), (4, 1), 1)), [spread(3, 4)]),
    "fold": (lambda x: torch.nn.functional.fold(torch.nn.functional.unfold(x, 3, padding=1), (6, 5), 3, padding=1), [spread(2, 2, 6, 5)]),
    "triangle": (lambda x: (x[tuple(torch.tril_indices(4, 4, -1))], torch.triu_indices(3, 4)), [spread(4, 4)]),
    "distances": (lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, 1.0), torch.nn.functional.pdist(x)), [spread(3, 4), spread(5, 4).flip(0)]),
    "shifts": (lambda i: (i >> 1, i << 2), [torch.arange(-3, 4)]),
    "adaptive": (lambda x: (torch.nn.functional.adaptive_avg_pool1d(x[0], 3), torch.nn.functional.adaptive_max_pool2d(x, (2, 3))), [torch.sin(spread(1, 2, 5, 7) * 9)]),
    "places of maxima": (lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True), [torch.sin(spread(1, 2, 6, 5) * 9)]),
    "instance norm": (lambda x: torch.nn.functional.instance_norm(x), [torch.sin(spread(2, 3, 5) * 9)]),
    "bags": (lambda i, w: (torch.nn.functional.embedding_bag(i, w, torch.tensor([0, 2, 2]), mode="max"),
                           torch.nn.functional.embedding_bag(i, w, torch.tensor([0, 3, 3, 5]), mode="sum", include_last_offset=True, padding_idx=2),
                           torch.nn.functional.embedding_bag(i, w, torch.tensor([0, 2, 2]), mode="sum", per_sample_weights=w[:5, 0])),
             [torch.tensor([1, 2, 2, 0, 5]), spread(6, 4)]),
    "spectra": (lambda x: (torch.view_as_real(torch.fft.rfft2(x)), torch.fft.irfft(torch.fft.rfft(x)[..., :3] * torch.fft.rfft(x.flip(0))[..., :3], n=8),
                           torch.view_as_real(torch.fft.fft(x, norm="ortho")), torch.fft.rfft(x).abs()), [torch.sin(spread(3, 8) * 9)]),
    "stft": (lambda x: torch.view_as_real(torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True)), [torch.sin(spread(2, 32) * 9)]),
    "grid_sample": (lambda x, g: torch.nn.functional.grid_sample(x, g, align_corners=False), [spread(1, 2, 5, 5), spread(1, 3, 3, 2) / 1.5]),
}


class Computed(torch.nn.Module):
    def __init__(self, f, n):
        super().__init__()
        # Built-in functions have no names of parameters.
        self.forward = f if hasattr(f, "__code__") else [lambda x: f(x), lambda x, y: f(x, y)][n - 1]

    @staticmethod
    def put(x, at, values):
        x = x.clone()
        x[at] = values
        return x


def cases():
    for name, (f, inputs) in OPERATORS.items():
        yield name, Computed(f, len(inputs)), inputs, None
    for name in NAMES:
        module, inputs, axes = networks.NETWORKS[name]()
        # Which extents may be any is the network's; numbers that are 0 or 1 here would be taken for those alone.
        dynamic = [{axis: torch.export.Dim.AUTO for axis in axes.get(f"x{k}", {})} or None for k in range(len(inputs))]
        dynamic = tuple(dynamic) if name == "dynamic_batch" or name in networks.KINDS else None
        yield name, module, inputs, dynamic
    for sign in [1, -1]:
        yield f"cond {sign}", Choice(), [sign * torch.ones(3)], None
    batch, f = torch.export.Dim.AUTO, lambda x, i: (
        x.scatter(1, i, 9.0), x.scatter_add(1, i, x), x[i[:, 0]], x.var(), x.index_put((i[:, 0],), torch.tensor(7.)), x[x > 0], x.view(x.shape[0], 2, -1), x.unique(),
        torch.view_as_real(torch.fft.rfft(x)), torch.full((x.shape[0], x.shape[0]), 2.0), x[:, :x.shape[0]], x.repeat(2, 1))
    yield "any batch", Computed(f, 2), [spread(3, 4), torch.tensor([[0, 1], [2, 0], [1, 1]])], ({0: batch}, {0: batch})
    bag = lambda i, w, o: torch.nn.functional.embedding_bag(i, w, o, mode="mean")  # noqa: E731
    yield "any bags", Computed(bag, 3), [torch.tensor([1, 2, 2, 0, 5]), spread(6, 4), torch.tensor([0, 2, 2])], ({0: batch}, None, {0: batch})
    yield "detector", Detector(), [torch.randn(1, 3, 32, 32)], None
    yield "int8", Int8(), [torch.randn(1, 3, 16, 16)], None
    yield "scan", Scanned(), [torch.randn(5, 4)], None
    yield "tree", Tree(), [torch.tensor([0, 0, 0, 1, 1, 2]), torch.randn(6, 4)], None
    yield "while_loop", Halving(), [torch.ones(4) * 3], None


# Functions of modules that are called more than once.
FUNCTIONS = {"resnet50": 4, "gpt": 1, "transformer_encoder": 1}


def test(module, inputs, dynamic, folder, functions):
    path = os.path.join(folder, "net")
    names = relay_torch.save(module, tuple(inputs), path, dynamic_shapes=dynamic)
    with open(f"{path}.rly") as file:
        found = file.read().count("\ndef @") - 1
    if found < functions:
        return f"{found} functions, {functions} are wanted"
    with torch.no_grad():
        want = module(*inputs)
    want = list(want) if isinstance(want, (tuple, list)) else [want]
    for command in (["fmt", "--in-place"], ["check"], ["opt", "-p", "-O2"]):
        ran = subprocess.run([RELAY, *command, f"{path}.rly"], capture_output=True, text=True, timeout=300)
        if ran.returncode or ran.stderr:
            return f"{command[0]}: {ran.stderr.strip()[:900]}"
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
            if len(want) != len(results) or tuple(w.shape) != r.shape or not np.allclose(w.numpy(), r, rtol=1e-3, atol=getattr(module, "tolerance", 1e-4)):
                return f"{engine}: another value: {r.shape} {np.abs(w.numpy() - r).max() if tuple(w.shape) == r.shape else w.shape}"
    return None


failures = 0
for name, module, inputs, dynamic in cases():
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        continue
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        try:
            message = test(module.eval(), inputs, dynamic, folder, FUNCTIONS.get(name, 0))
        except Exception as x:  # of PyTorch, or Unsupported
            message = f"{type(x).__name__}: {str(x)[:600]}"
    failures += message is not None
    print(f"{'FAILED' if message else 'ok':6} {name} {message or ''}", flush=True)
sys.exit(1 if failures else 0)
