"""Times networks that PyTorch exports as ONNX beside ONNX Runtime and OpenVINO, most of them over any batch and length.

    PYTHON tests/bench/imported.py [--relay build/release/relay] [--threads 1] [--seconds 0.3] [NETWORK...]

PYTHON has torch, onnx, onnxruntime and, if it is to be a peer, openvino. The networks here are of the sizes that people run; others, small
ones, are named as in tests/exchange/networks.py. Each is exported, imported by `relay import`, and run on the same arrays in turns of three, whose
medians are printed in milliseconds; times of one thread are of the processor, not of the clock. Ends with 1 where a result differs from that of ONNX Runtime.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
import torch
from torch import nn

os.environ.setdefault("RELAY", "")  # networks.py runs none here
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "exchange"))
import networks  # noqa: E402

try:
    import openvino
except ImportError:
    openvino = None


class Block(nn.Module):
    """A block of a language model."""

    def __init__(self, width=512, heads=8):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        later = torch.triu(torch.full((t, t), float("-inf")), 1)
        x = x + self.out((torch.softmax(scores + later, -1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Next(nn.Module):
    """A block of ConvNeXt."""

    def __init__(self, channels=96):
        super().__init__()
        self.window, self.norm = nn.Conv2d(channels, channels, 7, padding=3, groups=channels), nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        y = self.down(nn.functional.gelu(self.up(self.norm(self.window(x).permute(0, 2, 3, 1)))))
        return x + y.permute(0, 3, 1, 2)


class Excited(nn.Module):
    """A block of EfficientNet."""

    def __init__(self, channels=40, inside=240):
        super().__init__()
        self.up = nn.Sequential(nn.Conv2d(channels, inside, 1, bias=False), nn.BatchNorm2d(inside), nn.SiLU())
        self.window = nn.Sequential(nn.Conv2d(inside, inside, 5, padding=2, groups=inside, bias=False), nn.BatchNorm2d(inside), nn.SiLU())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(inside, 10, 1), nn.SiLU(), nn.Conv2d(10, inside, 1), nn.Sigmoid())
        self.down = nn.Sequential(nn.Conv2d(inside, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.window(self.up(x))
        return x + self.down(y * self.gate(y))


class UNet(nn.Module):
    def __init__(self):
        def two(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        super().__init__()
        self.a, self.b, self.c, self.d, self.e = two(3, 32), two(32, 64), two(64, 128), two(128, 64), two(64, 32)
        self.up1, self.up2, self.pool, self.out = nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2), nn.MaxPool2d(2), nn.Conv2d(32, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(self.pool(a))
        y = self.d(torch.cat([self.up1(self.c(self.pool(b))), b], 1))
        return self.out(self.e(torch.cat([self.up2(y), a], 1)))


class Shuffled(nn.Module):
    """Two units of ShuffleNet."""

    def __init__(self, channels=116):
        super().__init__()
        half = channels // 2
        self.unit = nn.Sequential(nn.Conv2d(half, half, 1), nn.BatchNorm2d(half), nn.ReLU(), nn.Conv2d(half, half, 3, padding=1, groups=half),
                                  nn.BatchNorm2d(half), nn.Conv2d(half, half, 1), nn.BatchNorm2d(half), nn.ReLU())

    def forward(self, x):
        for _ in range(2):
            a, b = x.chunk(2, 1)
            y = torch.cat([a, self.unit(b)], 1)
            n, c, h, w = y.shape
            x = y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return x


class Detected(nn.Module):
    """The end of a detector: what it says at each place."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.BatchNorm2d(128), nn.SiLU(), nn.Conv2d(128, 64, 1), nn.SiLU(),
                                  nn.Conv2d(64, 128, 3, padding=1), nn.SiLU())
        self.pool, self.out = nn.MaxPool2d(5, 1, 2), nn.Conv2d(256, 85 * 3, 1)

    def forward(self, x):
        y = self.body(x)
        z = self.out(torch.cat([y, self.pool(y)], 1))
        n, _, h, w = z.shape
        return torch.sigmoid(z.view(n, 3, 85, h * w).permute(0, 1, 3, 2))


class Letters(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layers, self.out = nn.Embedding(1000, 128), nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 1000)

    def forward(self, x):
        return self.out(self.layers(self.table(x))[0])


class Reaching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(64, 64, 3, padding=2**i, dilation=2**i) for i in range(5)])

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


BATCH, IMAGE, TIME = {"x0": {0: "b"}}, {"x0": {0: "b", 2: "h", 3: "w"}}, {"x0": {0: "b", 1: "t"}}
NETWORKS = {
    "language_block": lambda: (Block(), [torch.randn(1, 128, 512)], TIME),
    "convnext_block": lambda: (Next(), [torch.randn(1, 96, 28, 28)], BATCH),
    "efficientnet_block": lambda: (Excited(), [torch.randn(1, 40, 28, 28)], BATCH),
    "shufflenet_units": lambda: (Shuffled(), [torch.randn(1, 116, 28, 28)], BATCH),
    "unet_96": lambda: (UNet(), [torch.randn(1, 3, 96, 96)], IMAGE),
    "detector_end": lambda: (Detected(), [torch.randn(1, 64, 52, 52)], IMAGE),
    "lstm_letters": lambda: (Letters(), [torch.randint(0, 1000, (1, 32))], TIME),
    "dilated_sound": lambda: (Reaching(), [torch.randn(1, 64, 512)], {"x0": {0: "b", 2: "t"}}),
}


def by_onnxruntime(path, arrays, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, arrays)


def by_openvino(path, arrays, threads):
    hints = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(path, "CPU", hints).create_infer_request()
    return lambda: request.infer(arrays, share_inputs=True, share_outputs=True)


def least(run, options):
    clock = time.process_time_ns if options.threads == 1 else time.perf_counter_ns
    run()
    end, found = time.monotonic() + options.seconds, []
    while time.monotonic() < end or len(found) < 3:
        begin = clock()
        run()
        found.append(clock() - begin)
    return min(found) / 1e6


def relay(options, *words):
    ran = subprocess.run([options.relay, *words], capture_output=True, text=True, timeout=600, check=False)
    if ran.returncode:
        sys.exit(f"imported.py: relay {words[0]}: {ran.stderr.strip()[:500]}")
    return ran.stdout


def measure(name, folder, options):
    """Milliseconds of each, and the largest difference from ONNX Runtime's results."""
    path, program, weights = (os.path.join(folder, f"{name}.{e}") for e in ("onnx", "rly", "npz"))
    arrays = networks.export(name, 17, path)
    wanted = {i.name for i in onnx.load(path).graph.input}
    arrays = {k: v for k, v in arrays.items() if k in wanted}
    relay(options, "import", path, "-o", folder)
    given = ["--params", weights]
    text = open(program, encoding="utf-8").read()
    for k, v in arrays.items():
        np.save(os.path.join(folder, f"{k}.npy"), v)
        given += ["--arg", f"{k}={folder}/{k}.npy"] if re.search(rf"%{k}\b", text) else []
    peers = {"ONNX Runtime": by_onnxruntime(path, arrays, options.threads)}
    if openvino:
        peers["OpenVINO"] = by_openvino(path, arrays, options.threads)
    out = os.path.join(folder, "out.npz")
    relay(options, "run", program, *given, "-o", out)
    with np.load(out) as results:
        differs = max(float(np.abs(w.astype("float64") - results[k]).max()) / max(1.0, float(np.abs(w).max()))
                      for w, k in zip(peers["ONNX Runtime"](), results.files))
    found = {k: [] for k in ["relay", *peers]}
    for _ in range(3):
        line = relay(options, "bench", program, *given, "--threads", str(options.threads), "--seconds", str(options.seconds), "--json")
        found["relay"].append(json.loads(line)["min_ms"])
        for k, run in peers.items():
            found[k].append(least(run, options))
    return {k: statistics.median(v) for k, v in found.items()}, differs


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--relay", default="build/release/relay")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=0.3)
    p.add_argument("names", nargs="*")
    options = p.parse_args()
    networks.NETWORKS.update(NETWORKS)
    torch.set_num_threads(1)
    wrong, ratios = 0, []
    for name in options.names or NETWORKS:
        with tempfile.TemporaryDirectory(prefix="relay-imported-") as folder:
            found, differs = measure(name, folder, options)
        ratios.append(min(v for k, v in found.items() if k != "relay") / found["relay"])
        wrong += not differs <= 2e-4
        print(f"{name:20} " + "  ".join(f"{k} {v:8.3f}" for k, v in found.items()) + f"   best / ours {ratios[-1]:5.2f}"
              + ("" if differs <= 2e-4 else f"   WRONG by {differs:.1e}"), flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
