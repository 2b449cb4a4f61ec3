"""Code that the kernels of a network share: register tiles and rows that differ in extents and strides alone are one function."""

import os
import re
import subprocess
import tempfile
import unittest
import zipfile

import numpy

RELAY = os.environ["RELAY"]
HEAD = '#[version = "0.0.5"]\n'


@unittest.skipIf(subprocess.run([RELAY, "compile", "-", "--emit", "lowered"], input=b"fn (%x: int32) { add(%x, 1) }",
                                capture_output=True).returncode == 1, "no JIT is built in")
class Tiles(unittest.TestCase):
    dtype = "float32"  # of weights

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def relay(self, command, program, weights, *options):
        path, params = os.path.join(self.folder.name, "f.rly"), os.path.join(self.folder.name, "w.npz")
        with open(path, "w") as f:
            f.write(HEAD + program)
        dice = numpy.random.default_rng(1)
        numpy.savez(params, **{name: dice.standard_normal(shape).astype(self.dtype) * 0.1 for name, shape in weights.items()})
        env = dict(os.environ, XDG_CACHE_HOME=self.folder.name, RELAY_CACHE="on")
        done = subprocess.run([RELAY, command, path, "--params", params, *options], capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def functions(self, program, weights):
        """The functions that stand apart: (made, called from so many places)."""
        text = self.relay("compile", program, weights, "--emit", "llvm-ir")
        return len(re.findall(r"^define .*@apart", text, re.M)), len(re.findall(r"call void @apart", text))

    def agree(self, program, weights, off=1e-4):
        values = {}
        for engine in ("interp", "jit"):
            out = os.path.join(self.folder.name, engine + ".npz")
            self.relay("run", program, weights, "--exec", engine, "--random", "3", "-o", out)
            with zipfile.ZipFile(out) as z:
                values[engine] = numpy.concatenate([numpy.load(z.open(name)).ravel() for name in sorted(z.namelist())])
        self.assertTrue(numpy.allclose(values["interp"], values["jit"], rtol=off, atol=off))

    def test_tiles_of_layers(self):
        """Three products of other channels, images and outer loops: the tiles differ in numbers that the code is given."""
        program = """def @main(%x: Tensor[(1, 32, 14, 14), float32], %a: Tensor[(96, 32, 1, 1), float32],
          %b: Tensor[(192, 96, 1, 1), float32], %c: Tensor[(384, 192, 1, 1), float32]) {
  let %p = nn.relu(nn.conv2d(%x, %a, channels=96, kernel_size=[1, 1]));
  let %q = nn.relu(nn.conv2d(%p, %b, channels=192, kernel_size=[1, 1]));
  nn.relu(nn.conv2d(%q, %c, channels=384, kernel_size=[1, 1]))
}
"""
        weights = {"a": (96, 32, 1, 1), "b": (192, 96, 1, 1), "c": (384, 192, 1, 1)}
        made, called = self.functions(program, weights)
        self.assertGreaterEqual(called, 3)
        self.assertLessEqual(made, 2)
        self.agree(program, weights)

    def test_doubles(self):
        """Half as many lanes: weights that are laid out once, columns that are laid out each time or read as they lie, in batches of batches."""
        self.dtype = "float64"
        program = """def @main(%x: Tensor[(2, 37, 3, 24), float64], %y: Tensor[(2, 29, 3, 24), float64], %z: Tensor[(2, 3, 29, 21), float64],
          %w: Tensor[(45, 24), float64]) {
  let %d = nn.dense(reshape(%x, newshape=[222, 24]), %w, units=45);
  let %s = multiply(einsum((%x, %y), equation="bqhd,bkhd->bhqk"), 0.5f64);
  (nn.relu(%d), %s, einsum((%s, %z), equation="bhqk,bhkd->bqhd"))
}
"""
        text = self.relay("compile", program, {"w": (45, 24)}, "--emit", "lowered")
        self.assertEqual(len(re.findall("kernel|product", text)), 0)
        self.assertGreaterEqual(len(re.findall("apart", text)), 3)
        self.agree(program, {"w": (45, 24)}, 1e-12)

    def test_rows_of_channels(self):
        """The first row of windows, those between and the last differ in how many taps lie inside, and layers in their channels."""
        layers, weights, last = [], {}, "%x"
        for i, (channels, out) in enumerate([(32, 64), (64, 128), (128, 32)]):
            weights |= {f"d{i}": (channels, 1, 3, 3), f"p{i}": (out, channels, 1, 1)}
            layers.append(f"  let %d{i}_ = nn.relu(nn.conv2d({last}, %d{i}, padding=[1, 1, 1, 1], groups={channels}, channels={channels}, "
                          f"kernel_size=[3, 3]));\n  let %p{i}_ = nn.relu(nn.conv2d(%d{i}_, %p{i}, channels={out}, kernel_size=[1, 1]));\n")
            last = f"%p{i}_"
        params = "".join(f", %{name}: Tensor[{shape}, float32]" for name, shape in weights.items())
        program = f"def @main(%x: Tensor[(1, 32, 14, 14), float32]{params}) {{\n{''.join(layers)}  {last}\n}}\n"
        made, called = self.functions(program, weights)
        self.assertGreaterEqual(called, 3 * 3)  # first rows, those between, last ones
        self.assertLessEqual(made, 4)
        self.agree(program, weights)

    def test_transforms(self):
        """Winograd's transforms and products of two layers, whose channels and images differ."""
        program = """def @main(%x: Tensor[(1, 64, 56, 56), float32], %y: Tensor[(1, 128, 28, 28), float32],
          %a: Tensor[(64, 64, 3, 3), float32], %b: Tensor[(128, 128, 3, 3), float32]) {
  let %p = nn.relu(nn.conv2d(%x, %a, padding=[1, 1, 1, 1], channels=64, kernel_size=[3, 3]));
  let %q = nn.relu(nn.conv2d(%y, %b, padding=[1, 1, 1, 1], channels=128, kernel_size=[3, 3]));
  (%p, %q)
}
"""
        weights = {"a": (64, 64, 3, 3), "b": (128, 128, 3, 3)}
        made, called = self.functions(program, weights)
        self.assertLess(made, called)
        self.agree(program, weights)

    def test_columns_are_fetched_ahead(self):
        """Where a tile reads more of the second factor than lies in the first cache, and has rows enough: each line once."""
        program = """def @main(%x: Tensor[({rows}, {sums}), float32], %w: Tensor[(96, {sums}), float32]) {{ nn.dense(%x, %w, units=96) }}\n"""
        for rows, sums, fetches in ((64, 1024, True), (64, 64, False), (2, 1024, False)):
            with self.subTest(rows=rows, sums=sums):
                weights = {"w": (96, sums)}
                text = self.relay("compile", program.format(rows=rows, sums=sums), weights, "--emit", "lowered")
                self.assertEqual("bytes ahead" in text, fetches, text)
                text = self.relay("compile", program.format(rows=rows, sums=sums), weights, "--emit", "llvm-ir")
                tiles = [tile for tile in re.findall(r"^define .*?^}", text, re.M | re.S) if "@llvm.prefetch" in tile]
                self.assertEqual(bool(tiles), fetches)
                for tile in tiles:
                    loads = len(re.findall(r"load <(?:8|16) x float>", tile))
                    self.assertLessEqual(tile.count("call void @llvm.prefetch"), loads)
                self.agree(program.format(rows=rows, sums=sums), weights)

    def test_weights_that_nobody_reads_are_not_kept(self):
        """Of weights that are transformed the file holds the transformed ones alone."""
        program = """def @main(%x: Tensor[(1, 128, 28, 28), float32], %a: Tensor[(128, 128, 3, 3), float32]) {
  nn.conv2d(%x, %a, padding=[1, 1, 1, 1], channels=128, kernel_size=[3, 3])
}
"""
        self.relay("run", program, {"a": (128, 128, 3, 3)}, "--exec", "jit", "--random", "1")
        files = [os.path.join(at, name) for at, _, names in os.walk(os.path.join(self.folder.name, "relay")) for name in names]
        kept = sum(os.path.getsize(file) for file in files)
        weights = 4 * 128 * 128 * 9
        self.assertIn(kept // (4 * 128 * 128), (9, 16, 36), f"{kept} bytes for weights of {weights}")

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "there is one core")
    def test_threads_share_the_rows(self):
        """Rows whose channels lie in planes, and rows that are one after another, of which what is left over stands beside."""
        program = """def @main(%x: Tensor[(1, 3, 224, 224), float32], %a: Tensor[(64, 3, 7, 7), float32],
          %b: Tensor[(96, 64, 1, 1), float32]) {
  let %p = nn.relu(nn.conv2d(%x, %a, strides=[2, 2], padding=[3, 3, 3, 3], channels=64, kernel_size=[7, 7]));
  nn.relu(nn.conv2d(%p, %b, channels=96, kernel_size=[1, 1]))
}
"""
        weights = {"a": (64, 3, 7, 7), "b": (96, 64, 1, 1)}
        text = self.relay("compile", program, weights, "--emit", "lowered")
        shared = [int(n) for n in re.findall(r"^ *parallel \w+ in 0\.\.(\d+):$", text, re.M)]
        serial = [line for line in re.findall(r"^for \w+ in 0\.\.(?:112|12544|1568):$", text, re.M)]
        self.assertEqual(serial, [])
        self.assertGreaterEqual(sum(n >= 7 for n in shared), 2)
        self.agree(program, weights)

    @unittest.skipIf(len(os.sched_getaffinity(0)) != 2, "how much is shared depends on the number of cores")
    def test_threads_share_what_is_left_over(self):
        """Few blocks of channels are shared with the tiles in them and what is left over of those, and rows with all of their channels."""
        conv = "nn.relu(nn.conv2d({}, {}, channels={}, kernel_size=[1, 1]))"
        depthwise = "nn.relu(nn.conv2d({0}, {1}, padding=[1, 1, 1, 1], groups={2}, channels={2}, kernel_size=[3, 3]))"
        for channels, rows, shared in ((960, 7, r"o\d+ in 0\.\.5:\n  parallel x"), (32, 56, r"c\d+ in 0\.\.2:\n(  .*\n)*?  parallel y")):
            weights = {"a": (channels, 160, 1, 1), "b": (channels, 1, 3, 3), "c": (160, channels, 1, 1)}
            types = ", ".join(f"%{name}: Tensor[{shape}, float32]" for name, shape in weights.items())
            wide = depthwise.format(conv.format("%x", "%a", channels), "%b", channels)
            program = f"def @main(%x: Tensor[(1, 160, {rows}, {rows}), float32], {types}) {{ {conv.format(wide, '%c', 160)} }}\n"
            text = self.relay("compile", program, weights, "--emit", "lowered")
            self.assertTrue(re.search(r"\nparallel " + shared, text), f"{rows} rows")
            self.agree(program, weights)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "there is one thread")
    def test_loops_one_behind_the_other_in_others(self):
        """Images, groups in them, and in each whole blocks of channels and what is left over: what one body computed is not there in the next."""
        program = """def @main(%x: Tensor[(3, 32, 17, 17), float32], %w: Tensor[(80, 16, 3, 3), float32]) {
  nn.relu(nn.conv2d(%x, %w, channels=80, groups=2, kernel_size=[3, 3], padding=[1, 1]))
}
"""
        self.agree(program, {})

    def test_what_follows_products_of_a_batch_is_done_where_they_are_stored(self):
        program = """def @main(%x: Tensor[(3, 40, 64), float32], %y: Tensor[(3, 72, 64), float32], %z: Tensor[(3, 1, 72), float32]) {
  nn.batch_matmul(%x, %y, transpose_b=True) / 8f + %z
}
"""
        text = self.relay("compile", program, {}, "--emit", "lowered")
        self.assertNotIn(" t0[", text.split("\n\n", 2)[-1].split("out[i0, i1, i2] =")[-1])
        self.agree(program, {})
        for shapes, sides in [("(2, 3, 40, 64) (2, 3, 72, 64) (2, 3, 1, 72)", "bhqk"), ("(2, 16, 16, 64) (2, 16, 72, 64) (2, 16, 16, 72)", "bqhk")]:
            x, y, z = re.findall(r"\(.*?\)", shapes)
            self.agree(f"""def @main(%x: Tensor[{x}, float32], %y: Tensor[{y}, float32], %z: Tensor[{z}, float32]) {{
  einsum((%x, %y), equation="bhqd,bhkd->{sides}") / 8f + %z
}}
""", {})


if __name__ == "__main__":
    unittest.main()
