"""Convolutions with weights that are known when code is made, of odd shapes: compiled code gives what the evaluator gives."""

import json
import os
import random
import struct
import subprocess
import tempfile
import unittest
import zipfile

RELAY = os.environ.get("RELAY", "build/release/relay")


def npy(shape, values):
    """The bytes of a NumPy file of float32."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}f", *values)


class Case:
    """A convolution, with what is done behind it."""

    def __init__(self, dice, kind):
        self.n = dice.choice([1, 1, 2])
        self.groups = 1
        self.taps = [dice.randint(1, 4), dice.randint(1, 4)]
        self.strides = [dice.randint(1, 3), dice.randint(1, 3)]
        self.dilation = [dice.randint(1, 2), dice.randint(1, 2)]
        self.channels, self.out = dice.randint(4, 40), dice.randint(4, 70)
        if kind == "point":
            self.taps, self.strides = [1, 1], dice.choice([[1, 1], [2, 2]])
        if kind in ("transform", "rows"):
            self.taps, self.strides, self.dilation = [3, 3], [1, 1], [1, 1]
            self.channels, self.out = dice.randint(32, 40), dice.randint(32, 70)
        if kind == "depth":
            self.groups = self.channels = self.out = dice.randint(2, 20)
        self.image = [dice.randint(8, 34), dice.randint(8, 34)]
        if kind == "rows":  # of tiles, some at a time
            self.image = [dice.randint(50, 70), dice.randint(90, 130)]
        self.padding = [dice.randint(0, 2) for _ in range(4)]
        if kind == "bare":
            self.padding = [0, 0, 0, 0]
        if kind == "border":  # whole rows of the window lie in it
            self.taps, self.dilation = [dice.randint(2, 5), dice.randint(1, 4)], [dice.randint(1, 9), dice.randint(1, 3)]
            self.image = [dice.randint(1, 12), dice.randint(4, 34)]
            most = max((t - 1) * d for t, d in zip(self.taps, self.dilation))
            self.padding = [dice.randint(most, most + 2) for _ in range(4)]
        if kind == "few":  # products of a result
            self.channels, self.out, self.taps, self.strides = 1, dice.choice([16, 32, 48]), [3, 3], [dice.randint(1, 2), 1]
        self.last = kind == "last"  # channels

    def text(self, i):
        span = [(t - 1) * d + 1 for t, d in zip(self.taps, self.dilation)]
        out = [(self.image[a] + self.padding[a] + self.padding[a + 2] - span[a]) // self.strides[a] + 1 for a in range(2)]
        shape, data, layouts, axis = (self.n, self.out, *out), (self.n, self.channels, *self.image), "", 1
        if self.last:
            shape, data, axis = (self.n, *out, self.out), (self.n, *self.image, self.channels), 3
            layouts = ', data_layout="NHWC", kernel_layout="HWIO"'
        params = (f"%x{i}: Tensor[{data}, float32], "
                  f"%r{i}: Tensor[{shape}, float32], %w{i}: Tensor[{self.weight()}, float32], %b{i}: Tensor[({self.out},), float32]")
        body = (f"let %c{i} = nn.conv2d(%x{i}, %w{i}, strides={self.strides}, padding={self.padding}, dilation={self.dilation}, "
                f"groups={self.groups}, channels={self.out}, kernel_size={self.taps}{layouts}); "
                f"let %y{i} = nn.relu(add(nn.bias_add(%c{i}, %b{i}, axis={axis}), %r{i})); ")
        return params, body

    def weight(self):
        if self.last:
            return (*self.taps, self.channels, self.out)
        return (self.out, self.channels // self.groups, *self.taps)


class Chain:
    """Convolutions behind one another, with what stands between them in networks."""

    def __init__(self, dice, steps, channels):
        self.dice, self.weights, self.lines = dice, [], []
        self.shape = (dice.choice([1, 2]), 3, dice.randint(12, 30), dice.randint(12, 30))
        self.data, self.at = self.shape, "%x"
        for step in ["window", *steps]:
            getattr(self, step)(channels)

    def take(self, expression, shape):
        self.lines.append(f"%{len(self.lines)} = {expression};")
        self.at, self.shape = f"%{len(self.lines) - 1}", shape

    def known(self, shape):
        self.weights.append(shape)
        return f"%w{len(self.weights) - 1}"

    def conv(self, out, taps, stride, each=False):
        n, channels, h, w = self.shape
        weight = self.known((out, 1 if each else channels, taps, taps))
        pad, groups = taps // 2, channels if each else 1
        h, w = ((e + 2 * pad - taps) // stride + 1 for e in (h, w))
        self.take(f"nn.conv2d({self.at}, {weight}, strides=[{stride}, {stride}], padding=[{pad}, {pad}], groups={groups}, "
                  f"channels={out}, kernel_size=[{taps}, {taps}])", (n, out, h, w))
        if self.dice.random() < 0.5:
            self.take(f"nn.relu(nn.bias_add({self.at}, {self.known((out,))}))", self.shape)

    def point(self, channels):
        self.conv(self.dice.choice(channels), 1, self.dice.choice([1, 1, 2]))

    def window(self, channels):
        self.conv(self.dice.choice(channels), self.dice.choice([3, 5]), self.dice.choice([1, 2]))

    def transform(self, channels):
        self.conv(self.dice.choice([c for c in channels if c >= 32]), 3, 1)

    def depth(self, channels):
        self.conv(self.shape[1], self.dice.choice([3, 5]), self.dice.choice([1, 2]), True)

    def residual(self, channels):
        before = self.at
        self.conv(self.shape[1], 3, 1)
        self.take(f"add({self.at}, {before})", self.shape)

    def branches(self, channels):
        before, shape = self.at, self.shape
        self.conv(self.dice.choice(channels), 1, 1)
        first, many = self.at, self.shape[1]
        self.at, self.shape = before, shape
        self.conv(self.dice.choice(channels), 3, 1)
        n, more, h, w = self.shape
        self.take(f"concatenate(({first}, {self.at}), axis=1)", (n, many + more, h, w))

    def pool(self, channels):
        n, c, h, w = self.shape
        kind = self.dice.choice(["max", "avg"])
        self.take(f"nn.{kind}_pool2d({self.at}, pool_size=[2, 2], strides=[2, 2], padding=[1, 1])",
                  (n, c, (h + 2 - 2) // 2 + 1, (w + 2 - 2) // 2 + 1))

    def program(self):
        params = [f"%x: Tensor[{self.data}, float32]"]
        params += [f"%w{i}: Tensor[({', '.join(map(str, w))},), float32]" for i, w in enumerate(self.weights)]
        return ('#[version = "0.0.5"]\ndef @main(' + ", ".join(params).replace(",)", ")") + ") {\n" + "\n".join(self.lines) +
                f"\n{self.at}\n}}\n")

    def write(self, room):
        program, params = os.path.join(room, "c.rly"), os.path.join(room, "w.npz")
        with open(program, "w") as file:
            file.write(self.program())
        with zipfile.ZipFile(params, "w") as archive:
            for i, shape in enumerate(self.weights):
                size, scale = 1, 1
                for extent in shape:
                    size *= extent
                for extent in shape[1:]:
                    scale *= extent
                archive.writestr(f"w{i}.npy", npy(shape, [self.dice.gauss(0, scale ** -0.5) for _ in range(size)]))
        return program, params


class Convolutions(unittest.TestCase):
    def answers(self, program, params, engine, threads):
        command = [RELAY, "bench", program, "--params", params, "--random", "7", "--exec", engine, "--threads", str(threads),
                   "--seconds", "0", "--runs", "1", "--json"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        self.assertNotIn("W0701", run.stderr)
        return json.loads(run.stdout)["out"]

    def check(self, seed, kinds):
        dice = random.Random(seed)
        cases = [Case(dice, kind) for kind in kinds]
        parts = [c.text(i) for i, c in enumerate(cases)]
        with tempfile.TemporaryDirectory() as room:
            program, params = os.path.join(room, "c.rly"), os.path.join(room, "w.npz")
            with open(program, "w") as file:
                outs = ", ".join(f"reshape(%y{i}, newshape=[-1])" for i in range(len(cases)))
                file.write('#[version = "0.0.5"]\ndef @main(' + ", ".join(p for p, _ in parts) + ") { " +
                           "".join(b for _, b in parts) + f"concatenate(({outs},)) }}\n")
            with zipfile.ZipFile(params, "w") as archive:
                for i, c in enumerate(cases):
                    size = 1
                    for extent in c.weight():
                        size *= extent
                    archive.writestr(f"w{i}.npy", npy(c.weight(), [dice.uniform(-1, 1) for _ in range(size)]))
                    archive.writestr(f"b{i}.npy", npy((c.out,), [dice.uniform(-1, 1) for _ in range(c.out)]))
            self.compare(program, params, f"seed {seed}: {kinds}")

    def compare(self, program, params, what):
        wanted = self.answers(program, params, "interp", 1)
        for threads in (1, 2):
            got = self.answers(program, params, "jit", threads)
            self.assertEqual(got["size"], wanted["size"])
            scale = wanted["l2"] / wanted["size"] ** 0.5
            for key in ("first", "spread"):
                for a, b in zip(got[key], wanted[key]):
                    self.assertAlmostEqual(a, b, delta=2e-5 * max(abs(b), scale), msg=what)
            self.assertAlmostEqual(got["l2"], wanted["l2"], delta=1e-5 * wanted["l2"])

    def test_points(self):
        for seed in range(6):
            self.check(seed, ["point"])

    def test_windows(self):
        for seed in range(12):
            self.check(seed, ["bare" if seed % 3 == 0 else "any"])

    def test_borders(self):
        for seed in range(12):
            self.check(seed, ["border"])

    def test_windows_of_few(self):
        for seed in range(4):
            self.check(seed, ["few"])

    def test_transforms(self):
        for seed in range(6):
            self.check(seed, ["transform"])

    def test_rows_of_tiles(self):
        for seed in range(3):
            self.check(seed, ["rows"])

    def test_depthwise(self):
        for seed in range(8):
            self.check(seed, ["depth"])

    def test_channels_last(self):
        for seed in range(8):
            self.check(seed, ["last"])
        self.assertNotIn("product of", self.compiled("lowered", 64, 3, 28, last=True))

    def test_chains(self):
        kinds = ["point", "window", "transform", "depth", "residual", "branches", "pool"]
        for seed in range(10):
            dice = random.Random(seed)
            channels = [[16, 32, 64], [8, 24, 40, 32], [5, 16, 33, 48]][seed % 3]
            chain = Chain(dice, [dice.choice(kinds) for _ in range(4)], channels)
            with tempfile.TemporaryDirectory() as room:
                self.compare(*chain.write(room), f"seed {seed}:\n{chain.program()}")

    def test_edges(self):
        """Images are turned where a network begins and ends, weights when code is made: the pass shows what runs."""
        steps = ["pool", "residual", "depth", "point", "branches", "transform", "residual"]
        chain = Chain(random.Random(3), steps, [32, 64])
        with tempfile.TemporaryDirectory() as room:
            program, params = chain.write(room)
            text = subprocess.run([RELAY, "opt", "-O3", "--params", params, program], capture_output=True, text=True, timeout=300)
            self.assertEqual(text.returncode, 0, text.stderr)
            lines = text.stdout[:text.stdout.index("#[metadata]")].splitlines()
            turned = [line for line in lines if "layout_transform" in line]
            self.assertEqual(len(turned), 1, "\n".join(lines))
            self.assertIn('dst_layout="NCHW")', turned[0])
            self.assertFalse([line for line in lines if "nn.conv2d" in line and "NCHW8c" not in line and "NCHW16c" not in line])
            lowered = subprocess.run([RELAY, "compile", "--emit", "lowered", "--params", params, program],
                                     capture_output=True, text=True, timeout=300)
            self.assertEqual(lowered.returncode, 0, lowered.stderr)
            self.assertNotIn("weights", lowered.stdout)

    def test_several(self):
        self.check(1, ["any", "point", "transform", "depth"])

    def compiled(self, emit, channels, taps, extent, last=False):
        """A convolution with known weights as loops or as LLVM's text."""
        with tempfile.TemporaryDirectory() as room:
            program, params = os.path.join(room, "c.rly"), os.path.join(room, "w.npz")
            data, shape, layouts = (1, channels, extent, extent), (channels, channels, taps, taps), ""
            if last:
                data, shape = (1, extent, extent, channels), (taps, taps, channels, channels)
                layouts = ', data_layout="NHWC", kernel_layout="HWIO"'
            with open(program, "w") as file:
                file.write(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[{data}, float32], '
                           f"%w: Tensor[{shape}, float32]) {{ nn.conv2d(%x, %w, padding=[{taps // 2}, {taps // 2}], "
                           f"channels={channels}, kernel_size=[{taps}, {taps}]{layouts}) }}\n")
            with zipfile.ZipFile(params, "w") as archive:
                archive.writestr("w.npy", npy(shape, [1.0] * (channels * channels * taps * taps)))
            run = subprocess.run([RELAY, "compile", "--emit", emit, "--params", params, program],
                                 capture_output=True, text=True, timeout=300)
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout

    def test_size(self):
        """What is straight code takes long to compile: each convolution has little of it."""
        # Narrower vectors are more of them.
        narrow = 1.25 if os.environ.get("RELAY_CPU") else 1
        for channels, taps, extent, most in [(128, 3, 28, 5000), (64, 1, 14, 920), (16, 5, 30, 1500)]:
            lines = self.compiled("llvm-ir", channels, taps, extent).count("\n")
            self.assertLess(lines, most * narrow, msg=f"{channels} channels, {taps} taps")

    @unittest.skipIf(os.cpu_count() < 2, "one processor")
    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core")
    def test_parts(self):
        """Rows of tiles go to all threads, though each writes into all planes of the result."""
        self.assertRegex(self.compiled("lowered", 64, 3, 224), "parallel [bt]")  # more than second caches hold


if __name__ == "__main__":
    unittest.main()
