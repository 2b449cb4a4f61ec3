"""Networks on the card in batches, and steps of their training, beside PyTorch, eager and compiled, where it is installed: float32 without TF32 on
both sides. A step is a loss, its derivatives and the weights after them.

    RELAY=build/release/relay .venv/bin/python tests/gpu/networks.py [--batch N] [--check] [--json FILE] [NETWORK[:step]...]

With `--check` results, of a step the loss and its derivatives, are compared with those of the engine `jit` instead of being timed; `--size N` takes images of N x N."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../bench"))
RELAY = os.environ.get("RELAY", "build/release/relay")
NAMES = "resnet18", "mobilenet_v2", "resnet18:step", "mobilenet_v2:step"
RATE = 0.01


class Network:
    """A network of `relay new model` on a batch: its program, its weights and inputs as arrays, all in a folder."""

    def __init__(self, name, options, folder):
        self.name, self.step, self.folder = name.partition(":")[0], name.endswith(":step"), folder
        batch, size, self.check = options.batch, options.size, options.check
        at = os.path.join(folder, "network.rly")
        done = subprocess.run([RELAY, "new", "model", self.name, "-o", at], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        with open(at) as file:
            text = file.read()
        head, rest = text.split("def @main(", 1)
        signature, body = rest.split(" {\n", 1)
        self.params = dict(re.findall(r"%(\w+): (Tensor\[\([^)]*\), \w+\])", signature.split(" -> ")[0]))
        self.classes = int(re.search(r"-> Tensor\[\(1, (\d+)\)", signature)[1])
        shape = [batch] + [int(d) for d in re.search(r"\((.*)\)", self.params["data"])[1].split(", ")][1:]
        if size and len(shape) == 4:
            shape[2:] = [size, size]
        self.params["data"] = self.tensor(shape)
        rng = np.random.default_rng(3)
        self.arrays = dict(np.load(at.replace(".rly", ".weights.npz")))
        # What batches are normalised by stays as it is.
        self.weights = [n for n in self.params if n in self.arrays and self.step and not n.endswith(("_mean", "_var"))]
        self.constants = os.path.join(folder, "constants.npz")
        np.savez(self.constants, **{n: a for n, a in self.arrays.items() if n not in self.weights})
        self.arrays["data"] = rng.uniform(-1, 1, shape).astype("float32")
        self.arrays["labels"] = np.eye(self.classes, dtype="float32")[rng.integers(0, self.classes, batch)]
        self.program = os.path.join(folder, "program.rly")
        with open(self.program, "w") as file:
            net = f"{head}def @{'net' if self.step else 'main'}({self.list(self.params)}) {{\n{body}"
            file.write(net + (self.training() if self.step else ""))

    @staticmethod
    def tensor(shape):
        return f"Tensor[({', '.join(map(str, shape))}), float32]"

    def list(self, params):
        return ", ".join(f"%{n}: {t}" for n, t in params.items())

    def training(self):
        inner = {f"p{i}": self.params[n] for i, n in enumerate(self.weights)}
        call = ", ".join(f"%p{self.weights.index(n)}" if n in self.weights else f"%{n}" for n in self.params)
        now = ", ".join(f"%g.1.{i}" if self.check else f"subtract(%{n}, multiply(%g.1.{i}, {RATE}f))" for i, n in enumerate(self.weights))
        params = self.params | {"labels": self.tensor(self.arrays["labels"].shape)}
        return (f"def @main({self.list(params)}) {{\n"
                f"  let %g = value_and_grad(fn ({self.list(inner)}) {{\n"
                f"    nn.cross_entropy_with_logits(nn.log_softmax(@net({call})), %labels)\n"
                f"  }})({', '.join('%' + n for n in self.weights)});\n  (%g.0, {now})\n}}\n")

    def ours(self, engine, seconds, limit):
        """The line of `relay bench`; weights that a step changes are arguments, others are constants."""
        command = [RELAY, "bench", self.program, "--exec", engine, "--seconds", str(seconds), "--runs", "1", "--json"]
        command += ["--params", self.constants]
        for name in ["data", *self.weights, *(["labels"] if self.step else [])]:
            path = os.path.join(self.folder, name + ".npy")
            np.save(path, self.arrays[name])
            command += ["--arg", f"{name}={path}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            return {"failed": (done.stderr or done.stdout).strip()[:300]}
        return json.loads(lines[-1])

    def torch(self, compiled, seconds):
        """Milliseconds of a run by PyTorch on the card, as a median; None without it."""
        try:
            import torch
        except ImportError:
            return None
        if not torch.cuda.is_available():
            return None
        import ops_torch
        import workloads
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        with open(os.path.join(HERE, "../bench/manifest.json")) as file:
            params = json.load(file)[self.name]["params"]
        work = workloads.REGISTRY[self.name]
        tensors = {n: torch.as_tensor(a).cuda() for n, a in self.arrays.items()}
        names = {p["name"]: p["name"].replace(".", "_") for p in params}
        weights = [tensors[n] for n in self.weights]

        def run(*values):
            given = tensors | dict(zip(self.weights, values))
            return work.forward(ops_torch.TorchOps({there: given[here] for there, here in names.items()}))

        def step(*values):
            values = [v.detach().requires_grad_() for v in values]
            loss = torch.nn.functional.cross_entropy(run(*values), tensors["labels"])
            slopes = torch.autograd.grad(loss, values, allow_unused=True)
            return loss, [v if g is None else v - RATE * g for v, g in zip(values, slopes)]

        function = step if self.step else torch.no_grad()(run)
        function = torch.compile(function) if compiled else function
        for _ in range(3):
            function(*weights)
        torch.cuda.synchronize()
        times, end = [], time.perf_counter() + seconds
        while len(times) < 5 or time.perf_counter() < end:
            begun = time.perf_counter()
            function(*weights)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begun) * 1e3)
        return float(np.median(times))


def difference(wanted, got):
    """Of what `bench` tells of two results: relative to what there is, of the sum to all that was summed."""
    if "failed" in wanted or "failed" in got:
        return None
    wanted, got = wanted["out"], got["out"]
    far = max((abs(a - b) / (1 + abs(a)) for a, b in zip(wanted["first"] + wanted["spread"], got["first"] + got["spread"])), default=0)
    return max(far, abs(wanted["l2"] - got["l2"]) / (1 + wanted["l2"]), float(wanted["size"] != got["size"]))


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--size", type=int)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--limit", type=float, default=300)
    p.add_argument("--check", action="store_true")
    p.add_argument("--json", help="a line for each time is added to this file")
    p.add_argument("names", nargs="*", default=NAMES)
    options = p.parse_args(arguments)
    lines, bad = [], 0
    print(f"{'network':22} {'batch':>5} {'difference' if options.check else 'ours ms':>11}"
          + ("" if options.check else f" {'torch':>9} {'torch-compile':>13} {'ratio':>7}"))
    for name in options.names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            net = Network(name, options, folder)
            mine = net.ours("gpu", 0 if options.check else options.seconds, options.limit)
            ms = {"ours": mine.get("median_ms")}
            if options.check:
                far = difference(net.ours("jit", 0, options.limit), mine)
                wrong = far is None or not far < 1e-3
                text = "-" if far is None else f"{far:11.3g}"
            else:
                wrong = "failed" in mine
                ms |= {"torch": net.torch(False, options.seconds), "torch-compile": net.torch(True, options.seconds)} if not wrong else {}
                best = min((ms[peer] for peer in ms if peer != "ours" and ms[peer]), default=None)
                cells = [ms["ours"], ms.get("torch"), ms.get("torch-compile"), best and best / ms["ours"]]
                text = " ".join(f"{'-' if c is None else f'{c:.3f}':>{w}}" for c, w in zip(cells, (11, 9, 13, 7)))
            bad += wrong
            lines += [{"workload": name, "batch": options.batch, "peer": peer, "median_ms": t} for peer, t in ms.items() if t]
            print(f"{name:22} {options.batch:5} {text}{' WRONG ' + mine.get('failed', '') if wrong else ''}", flush=True)
    if options.json:
        with open(options.json, "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
