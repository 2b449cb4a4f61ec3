"""Networks of random weights that PyTorch exports as ONNX, through `relay import` on both engines, against ONNX Runtime.

    RELAY=build/release/relay PYTHON tests/exchange/networks.py [--opset N]… [NETWORK…]

PYTHON has torch, onnx and onnxruntime; without them the script says so and ends with 77. The networks are written here. For each the
program is formatted, checked and exported too, and the exported model run by ONNX Runtime. Prints a line for each network and opset: lines of text, seconds of the import, the largest
difference on each engine.
"""
import argparse
import copy
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings

try:
    import numpy as np
    import onnx
    import onnxruntime
    import torch
    from torch import nn
except ImportError as x:
    print(f"skipped: {x}")
    sys.exit(77)

from kinds import KINDS

RELAY = os.environ.get("RELAY", "build/release/relay")
NETWORKS = {}


def network(f):
    """A function that gives (module, inputs, names of symbolic axes)."""
    NETWORKS[f.__name__] = f
    return f


def conv(i, o, k, s=1, g=1):
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o))


class Bottleneck(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.body = nn.Sequential(conv(i, o // 4, 1), nn.ReLU(), conv(o // 4, o // 4, 3, s), nn.ReLU(), conv(o // 4, o, 1))
        self.short = conv(i, o, 1, s) if i != o or s != 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet(width, image):
    stages, i = [], width
    for k, count in enumerate([3, 4, 6, 3]):
        for j in range(count):
            o = 4 * width * 2**k
            stages.append(Bottleneck(i, o, 2 if j == 0 and k > 0 else 1))
            i = o
    return nn.Sequential(conv(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(i, 1000)), [torch.randn(1, 3, image, image)], {}


@network
def resnet50():
    return resnet(16, 64)


class Squeeze(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(n, n // 4, 1), nn.ReLU(), nn.Conv2d(n // 4, n, 1), nn.Hardsigmoid())

    def forward(self, x):
        return x * self.gate(x)


class Inverted(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.body = nn.Sequential(conv(i, 4 * i, 1), nn.Hardswish(), conv(4 * i, 4 * i, 3, s, 4 * i), nn.Hardswish(), Squeeze(4 * i), conv(4 * i, o, 1))
        self.adds = i == o and s == 1

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


@network
def mobilenet_squeeze_excite():
    return nn.Sequential(conv(3, 8, 3, 2), nn.ReLU6(), Inverted(8, 8, 1), Inverted(8, 16, 2), Inverted(16, 16, 1), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(16, 10)), [torch.randn(2, 3, 32, 32)], {}


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        block = lambda i, o: nn.Sequential(conv(i, o, 3), nn.ReLU(), conv(o, o, 3), nn.ReLU())  # noqa: E731
        self.down = nn.ModuleList([block(1, 8), block(8, 16)])
        self.middle = block(16, 32)
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.join = nn.ModuleList([block(32, 16), block(16, 8)])
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        seen = []
        for d in self.down:
            x = d(x)
            seen.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for u, j in zip(self.up, self.join):
            x = j(torch.cat([u(x), seen.pop()], 1))
        return nn.functional.interpolate(self.last(x), scale_factor=2, mode="bilinear", align_corners=False)


@network
def unet():
    return UNet(), [torch.randn(1, 1, 32, 32)], {}


class Layer(nn.Module):
    """A layer of a transformer; with a cache it gives what it has seen."""

    def __init__(self, d, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norms = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, past=None):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        scores = q @ k.transpose(-1, -2) / (d // self.heads)**0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        y = scores.softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norms[1](x)), torch.stack([k, v])


@network
def transformer_encoder():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer(32, 4) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)[0]
            return x
    return Net(), [torch.randn(2, 7, 32)], {"x0": {0: "batch", 1: "length"}}


@network
def encoder_of_torch():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"), 2, enable_nested_tensor=False), \
        [torch.randn(2, 5, 32)], {}


@network
def decoder_with_cache():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer(32, 4) for _ in range(2)])

        def forward(self, x, past):
            seen = []
            for i, layer in enumerate(self.layers):
                x, s = layer(x, past[i])
                seen.append(s)
            return x, torch.stack(seen)
    return Net(), [torch.randn(1, 1, 32), torch.randn(2, 2, 1, 4, 6, 8)], {"x1": {4: "past"}}


@network
def gpt():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
            self.layers = nn.ModuleList([Layer(32, 4, True) for _ in range(3)])
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)

        def forward(self, ids):
            x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            for layer in self.layers:
                x = layer(x)[0]
            return self.head(self.norm(x))
    return Net(), [torch.randint(0, 50, (2, 9))], {}


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(24, 3)

    def forward(self, x):
        y, _ = self.layer(x)
        return self.head(y)


@network
def lstm():
    return Recurrent(nn.LSTM(8, 12, 2, bidirectional=True, batch_first=True)), [torch.randn(3, 6, 8)], {"x0": {0: "batch"}}


@network
def gru():
    return Recurrent(nn.GRU(8, 24)), [torch.randn(6, 3, 8)], {"x0": {0: "length"}}


@network
def detector():
    """Boxes of a grid; suppression is added behind what PyTorch exports."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(conv(3, 8, 3, 2), nn.SiLU(), conv(8, 16, 3, 2), nn.SiLU(), nn.Conv2d(16, 4 + 3, 1))

        def forward(self, x):
            y = self.body(x).flatten(2)
            centre, size = y[:, :2].sigmoid() * 32, y[:, 2:4].exp() * 8
            boxes = torch.cat([centre - size / 2, centre + size / 2], 1).transpose(1, 2)
            return boxes, y[:, 4:].sigmoid()
    return Net(), [torch.randn(1, 3, 32, 32)], {}


@network
def int8():
    """Quantised by ONNX Runtime behind the export."""
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(16, 10)), [torch.randn(1, 3, 16, 16)], {}


@network
def dynamic_batch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 5)

        def forward(self, x):
            y = torch.relu(self.a(x))
            return self.b(y.view(x.size(0), -1)) * x.size(0)
    return Net(), [torch.randn(3, 1, 8, 8)], {"x0": {0: "batch"}}


@network
def while_loop():
    class Net(nn.Module):
        def forward(self, x):
            n = 0
            while bool(x.abs().sum() > 1.0) and n < 100:
                x = x * 0.7 + 0.01
                n += 1
            return x, torch.tensor(n)
    return torch.jit.script(Net()), [torch.randn(5)], {}


@network
def tree():
    """Sums over a tree in an array, children behind parents: what a recursion is in ONNX."""
    class Net(nn.Module):
        def forward(self, parents, values):
            out = values
            i = parents.size(0) - 1
            while i > 0:
                p = int(parents[i])
                row = torch.tanh(out[p] + out[i])
                out = torch.cat([out[:p], row.unsqueeze(0), out[p + 1:]])
                i -= 1
            return out[0]
    return torch.jit.script(Net()), [torch.tensor([0, 0, 0, 1, 1, 2]), torch.randn(6, 4)], {}


NETWORKS.update(KINDS)


# ---- running them ------------------------------------------------------------------------------------------------

def add_suppression(path):
    m = onnx.load(path)
    g = m.graph
    boxes, scores = g.output[0].name, g.output[1].name
    for name, v in {"most": np.array([5]), "iou": np.array([0.5], "float32"), "least": np.array([0.3], "float32")}.items():
        g.initializer.append(onnx.numpy_helper.from_array(v, name))
    g.node.append(onnx.helper.make_node("NonMaxSuppression", [boxes, scores, "most", "iou", "least"], ["chosen"]))
    g.output.append(onnx.helper.make_tensor_value_info("chosen", onnx.TensorProto.INT64, [None, 3]))
    onnx.save(m, path)


def quantise(path, inputs):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    class Reader(CalibrationDataReader):
        left = 2

        def get_next(self):
            self.left -= 1
            return inputs if self.left >= 0 else None
    quantize_static(path, path, Reader(), quant_format=QuantFormat.QDQ)


def relay(*arguments):
    return subprocess.run([RELAY, *arguments], capture_output=True, text=True, timeout=300)


def export(name, opset, path):
    torch.manual_seed(len(name))
    module, inputs, axes = NETWORKS[name]()
    module.eval()
    for m in module.modules():  # what training would have left there
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    names = [f"x{i}" for i in range(len(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(copy.deepcopy(inputs)), path, input_names=names, opset_version=opset, dynamic_axes=axes, dynamo=False)
    arrays = {n: v.numpy() for n, v in zip(names, inputs)}
    if name == "detector":
        add_suppression(path)
    if name == "int8":
        quantise(path, arrays)
    return arrays


def round_trip(program, weights, arrays, want, tolerance, folder):
    """What is wrong with the program as an ONNX model again."""
    path = os.path.join(folder, "back.onnx")
    got = relay("export", "--to", "onnx", program, "--params", weights, "-o", path)
    if got.returncode:
        return [got.stderr.strip()]
    onnx.checker.check_model(path, full_check=True)
    results = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, arrays)
    wrong = [] if len(results) == len(want) else [f"{len(results)} results"]
    for w, r in zip(want, results):
        if np.shape(w) != np.shape(r) or w.dtype != r.dtype:
            wrong.append(f"{r.dtype}{list(np.shape(r))}, wanted {w.dtype}{list(np.shape(w))}")
        elif w.size and np.abs(w.astype("float64") - r).max() > tolerance * max(1.0, float(np.abs(w).max())):
            wrong.append(f"differs by {np.abs(w.astype('float64') - r).max():g}")
    return wrong


def test(name, opset, folder):
    """A message for each thing that is wrong, and the line to print."""
    path, program, weights = (os.path.join(folder, f"{name}.{e}") for e in ["onnx", "rly", "npz"])
    arrays = export(name, opset, path)
    want = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, arrays)
    start = time.perf_counter()
    got = relay("import", path, "-o", folder)
    seconds = time.perf_counter() - start
    if got.returncode:
        return [got.stderr.strip()], ""
    wrong, differences = [], []
    text = open(program).read()
    if relay("fmt", program).stdout != text:
        wrong.append("fmt changes the text")
    for command in (["check", program], ["opt", "-p", "-O2", program]):
        ran = relay(*command)
        if ran.returncode or ran.stderr:
            wrong.append(f"{command[0]}: {ran.stderr.strip()[:300]}")
    given = []
    for n, v in arrays.items():
        np.save(os.path.join(folder, f"{n}.npy"), v)
        if re.search(rf"%{n}\b", text):
            given += ["--arg", f"{n}={folder}/{n}.npy"]
    for engine in ["interp", "jit"]:
        ran = relay("run", program, "--params", weights, *given, "--exec", engine, "-o", f"{folder}/out.npz")
        if ran.returncode or ran.stderr:
            wrong.append(f"{engine}: {ran.stderr.strip()[:400]}")
            continue
        with np.load(f"{folder}/out.npz") as out:
            results = [out[k] for k in out.files]
        worst = 0.0
        for w, r in zip(want, results):
            if np.shape(w) != r.shape or w.dtype != r.dtype or len(want) != len(results):
                wrong.append(f"{engine}: {r.dtype}{list(r.shape)}, wanted {w.dtype}{list(np.shape(w))}")
                continue
            scale = max(1.0, float(np.abs(w).max()) if w.size else 1.0)
            worst = max(worst, float(np.abs(w.astype("float64") - r).max()) / scale if w.size else 0.0)
        differences.append(worst)
        if worst > (0.06 if name == "int8" else 2e-4):
            wrong.append(f"{engine}: differs by {worst:g}")
    names = [n for n in arrays if re.search(rf"%{n}\b", text)]
    wrong += [f"export: {m}" for m in round_trip(program, weights, {n: arrays[n] for n in names}, want, 0.06 if name == "int8" else 2e-4, folder)]
    return wrong, f"{text.count(chr(10)):5} lines  {seconds:6.3f} s  " + "  ".join(f"{d:.1e}" for d in differences)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--opset", type=int, action="append")
    p.add_argument("names", nargs="*")
    options = p.parse_args()
    failed = 0
    for opset in options.opset or [14, 17]:
        for name in options.names or NETWORKS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    wrong, line = test(name, opset, folder)
                except Exception as x:  # the exporter, or a runtime
                    wrong, line = [f"{type(x).__name__}: {str(x)[:300]}"], ""
            failed += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok':6} {name:26} opset {opset}  {line}", flush=True)
            for w in wrong:
                print(f"       {w}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
