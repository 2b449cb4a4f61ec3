"""Each way that kernels are made in, at sizes that take several blocks, tiles and parts: the text runs on the stand-in, or on a card, and
gives what the evaluator gives."""

import json
import os
import subprocess
import tempfile
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")
PARAMS = {"x": (130, 70), "w": (150, 70), "b": (150,), "i": (2, 9, 15, 15), "k": (40, 9, 3, 3), "z": (3, 500), "l": (1, 70000),
          "t": (70, 3, 90), "q": (64, 128), "r": (128, 192), "v": (192, 128), "m": (2, 33, 40), "n": (2, 35, 40),
          "o": (10, 4096), "p": (20, 4096), "e": (20,), "c": (1, 128, 7, 7), "d": (16, 128, 3, 3), "f": (1, 100, 64), "g": (1, 192, 64)}
# Some of them several times, and some from the end.
PLACES = 'cast(floor(mod(multiply(%z, 1000f), 90f)), dtype="int32")'
BODIES = ("nn.batch_matmul(nn.softmax(divide(nn.batch_matmul(%m, %n, transpose_b=True), 8f)), %n, transpose_b=False)", "nn.relu(add(nn.dense(%o, %p, units=None), %e))", "nn.conv2d(%c, %d, padding=[1,1])", "nn.relu(add(nn.dense(%x, %w, units=None), %b))", "nn.conv2d(%i, %k, padding=[1,1])", "nn.batch_matmul(%m, %n, transpose_b=True)",
          "nn.softmax(%z)", "nn.log_softmax(%t)", "sum(%l, axis=None)", "mean(%l, axis=None)", "mean(%z, axis=[1])", "max(%t, axis=[0])",
          "min(%l, axis=None)", "argmax(%z, axis=[1])", "argmax(floor(multiply(%l, 20f)), axis=[1])",
          "argmin(floor(multiply(%z, 20f)), axis=[1], select_last_index=True)", "argmin(sqrt(subtract(%l, 0.3f)), axis=[1])",
          "max(sqrt(%l), axis=None)", "transpose(%t, axes=[2, 1, 0])", "add(%l, 1f)", "concatenate((%t, %t), axis=2)",
          "sin(multiply(%z, 3e30f))", "cos(multiply(%z, 12345678f))", "log2(abs(%z))", "mod(multiply(%z, 1e9f), 0.3f)", "exp(%z)",
          f"gather(%z, {PLACES}, axis=1)", f"scatter(%z, {PLACES}, tanh(%z), axis=1)", f"scatter_add(%z, {PLACES}, tanh(%z), axis=1)",
          f'scatter_elements(%z, {PLACES}, tanh(%z), axis=1, reduction="mul")', f'scatter_elements(%z, {PLACES}, tanh(%z), axis=1, reduction="min")',
          "tanh(%z)", "erf(%z)", 'cast(multiply(%z, 100f), dtype="int8")', 'exp(cast(%z, dtype="float16"))')


ATTENDED = ("nn.batch_matmul(nn.softmax(nn.batch_matmul(%f, %g, transpose_b=True)), %g, transpose_b=False)",
            "tanh(nn.batch_matmul(nn.softmax(tanh(nn.batch_matmul(%m, %n, transpose_b=True))), %n, transpose_b=False))")
ROUNDED = "nn.dense(%q, %v, units=None)", "nn.conv2d(%i, %k, padding=[1,1])", "nn.matmul(%q, %r, units=None)"
TILES = {"float16": ('nn.dense(%o, %p, units=None, out_dtype="float32")', "nn.relu(add(nn.dense(%x, %w, units=None), %b))", "nn.conv2d(%i, %k, padding=[1,1])", "nn.matmul(%q, %r, units=None)",
                     'nn.dense(%x, %w, units=None, out_dtype="float32")'),
         "bfloat16": ("nn.batch_matmul(%m, %n, transpose_b=True)", "nn.matmul(%q, %r, units=None)", "tanh(nn.dense(%q, %v, units=None))"),
         "int8": ('nn.dense(%o, %p, units=None, out_dtype="int32")', 'nn.dense(%q, %v, units=None, out_dtype="int32")', 'nn.conv2d(%i, %k, padding=[1,1], out_dtype="int32")'),
         "uint8": ('nn.dense(%x, %w, units=None, out_dtype="int32")',)}


def run(body, engine, dtype="float32", *options):
    names = [name for name in PARAMS if f"%{name}" in body]
    params = ", ".join(f"%{name}: Tensor[({', '.join(map(str, PARAMS[name]))}{',' if len(PARAMS[name]) == 1 else ''}), {dtype}]"
                       for name in names)
    with tempfile.NamedTemporaryFile("w", suffix=".rly") as file:
        file.write(f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}\n')
        file.flush()
        out = subprocess.run([RELAY, "run", file.name, "--exec", engine, "--random", "7", "--json", *options], capture_output=True, text=True)
    return json.loads(out.stdout)


@unittest.skipIf(subprocess.run([RELAY, "run", "-", "--exec", "gpu"], input="1", text=True, capture_output=True).returncode != 0,
                 "no engine gpu")
class Shapes(unittest.TestCase):
    def test_shapes(self):
        self.compare([("float32", body) for body in BODIES] + [(t, body) for t, bodies in TILES.items() for body in bodies])

    def test_attended(self):
        self.compare([(t, body) for t in ("float16", "bfloat16") for body in ATTENDED])

    def test_rounded(self):
        self.compare([("float32", body) for body in ROUNDED], "--tf32")
        wanted, got = (run(ROUNDED[0], "gpu", "float32", *options)["data"] for options in ((), ("--tf32",)))
        self.assertNotEqual(wanted, got)

    def compare(self, calls, *options):
        for dtype, body in calls:
            with self.subTest(body, dtype=dtype):
                wanted, got = run(body, "interp", dtype), run(body, "gpu", dtype, *options)
                self.assertEqual(wanted.get("dtype"), got.get("dtype"), got)
                near = 2e-2 if options or dtype == "bfloat16" else 5e-3 if "float16" in dtype + body else 1e-5 if "float" in wanted["dtype"] else 0
                pairs = list(zip(*(v["data"] if isinstance(v["data"], list) else [v["data"]] for v in (wanted, got))))
                self.assertLessEqual(max(abs(float(a) - float(b)) / (1 + abs(float(a))) for a, b in pairs), near)


if __name__ == "__main__":
    unittest.main()
