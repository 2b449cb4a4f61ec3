"""Products by groups of warps of what comes to them by itself: of each type, by one thread's word, of any extents, in parts and many at once, they
are what the evaluator gives. A driver without maps of tensors gets code that copies; a map that cannot be made is an error in a session that
goes on; kept code has its maps."""
# LABELS: slow

import json
import os
import subprocess
import tempfile
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")
PATH = os.environ.get("LD_LIBRARY_PATH", "")
OLD = ":".join([os.path.join(os.path.dirname(os.path.abspath(RELAY)), "standin/old"), PATH])
ENTRY = "cuTensorMapEncodeTiled"


def tensor(*shape, dtype="float32"):
    return f"Tensor[({', '.join(map(str, shape))}), {dtype}]"


def dense(rows, columns, folds, dtype):
    return (f"fn (%x: {tensor(rows, folds, dtype=dtype)}, %w: {tensor(columns, folds, dtype=dtype)})",
            some("nn.relu(nn.dense(%x, %w, units=None))", 2))


def whole(rows, columns, folds, first, second):
    """Of bytes, which are made of floats."""
    made = [f'cast(multiply(subtract(%{name}, {0.5 if dtype == "int8" else 0}f), 200f), dtype="{dtype}")'
            for name, dtype in (("x", first), ("w", second))]
    return (f"fn (%x: {tensor(rows, folds)}, %w: {tensor(columns, folds)})",
            some(f'nn.dense({made[0]}, {made[1]}, units=None, out_dtype="int32")', 2))


def batch(products, rows, columns, folds, dtype):
    return (f"fn (%x: {tensor(products, rows, folds, dtype=dtype)}, %w: {tensor(products, columns, folds, dtype=dtype)})",
            some("nn.batch_matmul(%x, %w, transpose_b=True)", 3))


def some(product, rank):
    """Of all tiles, and of each place in one."""
    return f"strided_slice({product}, begin={[0] * rank}, end={[9999] * rank}, strides={[1, 3, 7][-rank:]})"


def run(function, engine, *options, **environment):
    """The value as a list of numbers, and how often a map was made."""
    head, body = function
    with tempfile.NamedTemporaryFile("w", suffix=".rly") as file, tempfile.NamedTemporaryFile("r") as counts:
        file.write(f'#[version = "0.0.5"]\ndef @main{head[3:]} {{ {body} }}\n')
        file.flush()
        done = subprocess.run([RELAY, "run", file.name, "--exec", engine, "--random", "7", "--json", *options], capture_output=True, text=True,
                              env={**os.environ, "STANDIN_COUNT": counts.name, **environment})
        entries = dict(line.split() for line in counts)
    if done.returncode:
        raise AssertionError(done.stderr)
    stack, flat = [json.loads(done.stdout)["data"]], []
    while stack:
        top = stack.pop()
        if isinstance(top, list):
            stack += reversed(top)
        else:
            flat.append(top)
    return flat, int(entries.get(ENTRY, 0))


@unittest.skipIf(subprocess.run([RELAY, "run", "-", "--exec", "gpu"], input="1", text=True, capture_output=True).returncode != 0,
                 "no engine gpu")
class Boxes(unittest.TestCase):
    def compare(self, function, maps, *options, near=2e-2, **environment):
        got, made = run(function, "gpu", *options, **environment)
        wanted, _ = run(function, "interp")
        self.assertEqual(made, maps, function)
        self.assertEqual(len(got), len(wanted))
        most = max(map(abs, wanted))
        self.assertGreater(most, 1)
        self.assertLessEqual(max(abs(a - b) for a, b in zip(got, wanted)), near * most, function)

    def test_types(self):
        self.compare(dense(1480, 1500, 24, "float16"), 2)
        self.compare(dense(1480, 1500, 24, "bfloat16"), 2)
        self.compare(dense(1480, 1500, 12, "float32"), 2, "--tf32")
        self.compare(whole(1480, 1500, 48, "int8", "int8"), 2, near=0)
        self.compare(whole(1480, 1500, 48, "uint8", "int8"), 2, near=0)

    def test_forms(self):
        """Several steps, products and parts of the folds; what does not begin at multiples of 16 bytes does not come by itself."""
        self.compare(dense(1480, 1500, 264, "float16"), 2)
        self.compare(batch(3, 800, 900, 72, "bfloat16"), 2)
        self.compare(dense(100, 200, 20480, "float16"), 2)
        self.compare(dense(1480, 1500, 36, "float16"), 0)

    def test_old_driver(self):
        self.compare(dense(1536, 1408, 64, "float16"), 0, LD_LIBRARY_PATH=OLD)

    def test_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = {"XDG_CACHE_HOME": folder, "RELAY_CACHE": "64"}
            for _ in range(2):
                self.compare(dense(1536, 1408, 64, "float16"), 2, **kept)
            self.assertTrue(os.listdir(folder))
            self.compare(dense(1536, 1408, 64, "float16"), 0, LD_LIBRARY_PATH=OLD, **kept)

    def test_failures(self):
        cells = 'let %x = cast(full(0.5f, shape=[1480, 24]), dtype="float16");\n' + 3 * "max(nn.dense(%x, %x, units=None))\n"
        for nth, code in (1, 2), (2, 719):
            done = subprocess.run([RELAY, "--exec", "gpu"], input=cells, capture_output=True, text=True,
                                  env={**os.environ, "STANDIN_FAIL": f"{ENTRY}:{nth}:{code}"})
            self.assertRegex(done.stderr, r"error\[E040[89]\]: making a map of a tensor: the driver says: ")
            self.assertEqual(done.stderr.count("error["), 1, done.stderr)
            self.assertEqual(done.stdout.splitlines()[1:], 2 * ["6"], done.stdout)


unittest.main()
