"""Kernels for a GPU: every text that `compile --emit ptx` writes is one that NVIDIA's assembler takes, for each kind of card, and what it
launches is said in front of it."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")
PTXAS = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
TARGETS = ("sm_80", "sm_90", "sm_90a")
HEADER = '#[version = "0.0.5"]\n'

FLOATS = "float32", "float16", "bfloat16", "float64"
UNARY = ("negative abs exp log log2 log10 sqrt rsqrt tanh sigmoid erf sin cos tan sinh cosh asin acos atan asinh acosh atanh floor ceil "
         "trunc round sign isnan isinf isfinite").split()
BINARY = "add subtract multiply divide mod power maximum minimum floor_divide floor_mod greater equal".split()
INTEGERS = "add subtract multiply divide mod maximum minimum floor_divide floor_mod left_shift right_shift bitwise_and less".split()


def main(params, body):
    return f"{HEADER}def @main({', '.join(f'%{n}: {t}' for n, t in params.items())}) {{ {body} }}\n"


def tensor(dtype, *shape):
    return f"Tensor[({', '.join(map(str, shape))}), {dtype}]"


def elementwise():
    for dtype in FLOATS:
        calls = [f"{op}(%x)" for op in UNARY] + [f"{op}(%x, %y)" for op in BINARY]
        # Of a length that fours divide, and of one that they do not.
        n = 999 if dtype == "float16" else 1024
        yield dtype, main({"x": tensor(dtype, 64, n), "y": tensor(dtype, n)}, f"({', '.join(calls)})")
    params, calls = {}, []
    for dtype in "int8", "uint8", "int16", "int32", "uint32", "int64", "bool", "float64":
        ops = INTEGERS if "int" in dtype else ["equal"] if dtype == "bool" else ["add", "divide", "mod"]
        params |= {f"{dtype}x": tensor(dtype, 64, 1024), f"{dtype}y": tensor(dtype, 1024)}
        calls += [f"{op}(%{dtype}x, %{dtype}y)" for op in ops]
        calls += [f'cast(%{dtype}x, dtype="{to}")' for to in (*FLOATS, "int8", "int64", "bool") if to != dtype]
    yield "integers", main(params, f"({', '.join(calls)})")


def others():
    f = lambda *shape: tensor("float32", *shape)
    yield "reductions", main({"x": f(64, 4096), "y": f(3, 5, 7)}, "(sum(%x, axis=[1]), max(%x, axis=[0]), prod(%x, axis=None), mean(%y, "
                             "axis=[0, 2]), argmax(%x, axis=[1]), argmin(%y, axis=[1]), all(greater(%x, 0f), axis=[1]))")
    yield "rows", main({"x": f(64, 1000), "g": f(1000), "b": f(1000)}, "(nn.softmax(%x), nn.log_softmax(%x), nn.layer_norm(%x, %g, %b))")
    yield "moves", main({"x": f(33, 65, 7)}, "(transpose(%x, axes=[2, 1, 0]), reshape(%x, newshape=[7, -1]), "
                        "strided_slice(%x, begin=[1, 2, 0], end=[30, 60, 7], strides=[2, 3, 1]), "
                        "nn.pad(%x, 0f, pad_width=[[1, 2], [0, 0], [3, 4]]), concatenate((%x, %x), axis=1))")
    yield "products", main({"x": f(64, 128), "w": f(96, 128), "a": f(4, 33, 65), "b": f(4, 31, 65)},
                           "(nn.relu(nn.dense(%x, %w, units=96)), nn.batch_matmul(%a, %b, transpose_b=True))")
    yield "images", main({"x": f(2, 16, 30, 30), "w": f(32, 16, 3, 3), "d": f(16, 1, 3, 3)},
                         "(nn.relu(nn.conv2d(%x, %w, padding=[1, 1])), nn.conv2d(%x, %d, groups=16, padding=[1, 1]), nn.max_pool2d(%x, "
                         "pool_size=[2, 2], strides=[2, 2]), nn.global_avg_pool2d(%x))")
    yield "indices", main({"x": f(50, 8), "i": tensor("int32", 20)}, "(take(%x, %i, axis=0), one_hot(%i, 1f, 0f, depth=10, axis=-1, "
                          'dtype="float32"))')


def tiles():
    for dtype, sums in ("float16", ""), ("bfloat16", ""), ("int8", ', out_dtype="int32"'), ("uint8", ', out_dtype="int32"'), ("float32", ""):
        t = lambda *shape: tensor(dtype, *shape)
        yield "tiles of " + dtype, main({"x": t(1024, 512), "w": t(2048, 512), "v": t(100, 75), "u": t(90, 75), "i": t(2, 16, 30, 30),
                                         "k": t(32, 16, 3, 3), "m": t(512, 640)},
                                        f"(nn.dense(%x, %w, units=None{sums}), nn.dense(%v, %u, units=None{sums}), "
                                        f"nn.conv2d(%i, %k, padding=[1, 1]{sums}), nn.matmul(%x, %m, units=None{sums}))")


def ptx_of(text, *options):
    run = subprocess.run([RELAY, "compile", "-", "--emit", "ptx", *options], input=text, capture_output=True, text=True)
    return run.stdout, run.stderr


class Ptx(unittest.TestCase):
    def test_record(self):
        out, err = ptx_of(main({"x": tensor("float32", 64, 1024)}, "nn.relu(add(%x, 1f))"))
        self.assertEqual(err, "")
        self.assertRegex(out, r"^// run 1: 1 arguments, 1 results, 0 bytes for itself\n"
                         r"//   (\w+), grid 64 1 1, block 256 1 1, shared 0: argument 0, result 0\n")
        self.assertRegex(out, r"\.visible \.entry add_relu_1\(")
        self.assertIn(".maxntid 256, 1, 1", out)
        self.assertIn("ld.global.v4.f32", out)
        self.assertIn("st.global.v4.f32", out)

    def test_kernels_are_shared(self):
        out, _ = ptx_of(main({"x": tensor("float32", 8, 8)}, "let %a = sum(%x, axis=[1]); let %b = exp(%a); sum(outer(%b), axis=[1])")
                        .replace("outer(%b)", "multiply(%x, %b)"), "-O", "0")
        entries = re.findall(r"\.entry (\w+)\(", out)
        launches = re.findall(r"^//   (\w+), grid", out, re.M)
        self.assertEqual(len(launches), 4)
        self.assertEqual(len(set(launches)), 3, "two equal sums are one kernel")
        self.assertEqual(sorted(set(launches)), sorted(entries))

    def test_targets(self):
        text = main({"x": tensor("float32", 4)}, "exp(%x)")
        for target in TARGETS:
            out, err = ptx_of(text, "--target", target)
            self.assertEqual(err, "")
            self.assertIn(f".target {target}\n", out)
        out, err = ptx_of(text, "--target", "sm_12")
        self.assertEqual(out, "")
        self.assertIn("error[E0402]", err)
        self.assertIn("sm_90a", err)

    @unittest.skipIf(PTXAS is None, "there is no ptxas here: no text is assembled")
    def test_assembler(self):
        with tempfile.TemporaryDirectory() as folder:
            programs = [(*row, TARGETS[:1]) for row in elementwise()] + [(*row, TARGETS) for row in others()]
            programs += [(*row, TARGETS) for row in tiles()]
            for name, text, targets in programs:
                for target in targets:
                    with self.subTest(program=name, target=target):
                        out, err = ptx_of(text, "--target", target, "--tf32")
                        self.assertEqual(err, "")
                        if name.startswith("tiles"):
                            self.assertEqual(len(re.findall(r"^\.visible \.entry", out, re.M)),
                                             len(re.findall(r"^\.visible \.entry(?:(?!^}).)*?mma\.sync", out, re.M | re.S)))
                        path = os.path.join(folder, "kernels.ptx")
                        with open(path, "w") as file:
                            file.write(out)
                        run = subprocess.run([PTXAS, f"-arch={target}", "-O0", "-o", os.devnull, path], capture_output=True, text=True)
                        self.assertEqual((run.returncode, run.stderr), (0, ""))
                        self.assertNotIn("on the host", out)


if __name__ == "__main__":
    unittest.main()
