"""All PTX through NVIDIA's assembler: of each network that `relay new model` knows, batches and steps of training of some, each program of the
benchmark, the samples of each operator and calls of each element type, for each kind of card.

    RELAY=build/release/relay .venv/bin/python tests/gpu/assemble.py [--part N] [--optimise N] [PROGRAM...]

A program is `network resnet18`, `batch resnet18:step`, `workload gemm_64`, `operators 3`, `types float16` or the beginning of such names.
`--part N` takes each N-th only, `--optimise` is the assembler's level (default 0). Prints what is wrong and what runs on the host; without
`ptxas` it says so and ends with 77.
"""

import argparse
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../ops"))

from networks import NAMES, Network
from rows_test import Sample, samples_of

RELAY = os.path.abspath(os.environ.get("RELAY", "build/release/relay"))
PTXAS = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
TARGETS = ("sm_80", "sm_90", "sm_90a")
HEADER = '#[version = "0.0.5"]\n'
TOGETHER = 12  # calls of operators in a program

FLOATS = "float32", "float16", "bfloat16", "float64"
UNARY = ("negative abs exp log log2 log10 sqrt rsqrt tanh sigmoid erf sin cos tan sinh cosh asin acos atan asinh acosh atanh floor ceil "
         "trunc round sign isnan isinf isfinite").split()
BINARY = "add subtract multiply divide mod power maximum minimum floor_divide floor_mod greater equal".split()
INTEGERS = "add subtract multiply divide mod maximum minimum floor_divide floor_mod left_shift right_shift bitwise_and less".split()


def program(params, body):
    return f"{HEADER}def @main({', '.join(f'%{n}: {t}' for n, t in params.items())}) {{ {body} }}\n"


def tensor(dtype, *shape):
    return f"Tensor[({', '.join(map(str, shape))}), {dtype}]"


def elementwise():
    for dtype in FLOATS:
        calls = [f"{op}(%x)" for op in UNARY] + [f"{op}(%x, %y)" for op in BINARY]
        # Of a length that fours divide, and of one that they do not.
        n = 999 if dtype == "float16" else 1024
        yield "types " + dtype, program({"x": tensor(dtype, 64, n), "y": tensor(dtype, n)}, f"({', '.join(calls)})")
    params, calls = {}, []
    for dtype in "int8", "uint8", "int16", "int32", "uint32", "int64", "bool", "float64":
        ops = INTEGERS if "int" in dtype else ["equal"] if dtype == "bool" else ["add", "divide", "mod"]
        params |= {f"{dtype}x": tensor(dtype, 64, 1024), f"{dtype}y": tensor(dtype, 1024)}
        calls += [f"{op}(%{dtype}x, %{dtype}y)" for op in ops]
        calls += [f'cast(%{dtype}x, dtype="{to}")' for to in (*FLOATS, "int8", "int64", "bool") if to != dtype]
    yield "types integers", program(params, f"({', '.join(calls)})")


def others():
    f = lambda *shape: tensor("float32", *shape)
    yield "types reductions", program({"x": f(64, 4096), "y": f(3, 5, 7)}, "(sum(%x, axis=[1]), max(%x, axis=[0]), prod(%x, axis=None), mean(%y, "
                             "axis=[0, 2]), argmax(%x, axis=[1]), argmin(%y, axis=[1]), all(greater(%x, 0f), axis=[1]))")
    yield "types rows", program({"x": f(64, 1000), "g": f(1000), "b": f(1000)}, "(nn.softmax(%x), nn.log_softmax(%x), nn.layer_norm(%x, %g, %b))")
    yield "types moves", program({"x": f(33, 65, 7)}, "(transpose(%x, axes=[2, 1, 0]), reshape(%x, newshape=[7, -1]), "
                        "strided_slice(%x, begin=[1, 2, 0], end=[30, 60, 7], strides=[2, 3, 1]), "
                        "nn.pad(%x, 0f, pad_width=[[1, 2], [0, 0], [3, 4]]), concatenate((%x, %x), axis=1))")
    yield "types products", program({"x": f(64, 128), "w": f(96, 128), "a": f(4, 33, 65), "b": f(4, 31, 65)},
                           "(nn.relu(nn.dense(%x, %w, units=96)), nn.batch_matmul(%a, %b, transpose_b=True))")
    yield "types images", program({"x": f(2, 16, 30, 30), "w": f(32, 16, 3, 3), "d": f(16, 1, 3, 3)},
                         "(nn.relu(nn.conv2d(%x, %w, padding=[1, 1])), nn.conv2d(%x, %d, groups=16, padding=[1, 1]), nn.max_pool2d(%x, "
                         "pool_size=[2, 2], strides=[2, 2]), nn.global_avg_pool2d(%x))")
    yield "types indices", program({"x": f(50, 8), "i": tensor("int32", 20)}, "(take(%x, %i, axis=0), one_hot(%i, 1f, 0f, depth=10, axis=-1, "
                          'dtype="float32"))')
    for dtype in (*FLOATS, "int8", "uint8", "int32", "int64"):
        folds = [f'scatter_elements(%x, %i, %u, axis=0, reduction="{fold}")' for fold in ("update", "add", "mul", "min", "max")]
        yield "types scattered " + dtype, program({"x": tensor(dtype, 50, 8), "i": tensor("int64", 20, 8), "u": tensor(dtype, 20, 8)},
                                                  f"(gather(%x, %i, axis=0), {', '.join(folds)})")


def tiles():
    for dtype, sums in ("float16", ""), ("bfloat16", ""), ("int8", ', out_dtype="int32"'), ("uint8", ', out_dtype="int32"'), ("float32", ""):
        t = lambda *shape: tensor(dtype, *shape)
        yield "tiles " + dtype, program({"x": t(1024, 512), "w": t(2048, 512), "v": t(100, 75), "u": t(90, 75), "i": t(2, 16, 30, 30),
                                         "k": t(32, 16, 3, 3), "m": t(512, 640)},
                                        f"(nn.dense(%x, %w, units=None{sums}), nn.dense(%v, %u, units=None{sums}), "
                                        f"nn.conv2d(%i, %k, padding=[1, 1]{sums}), nn.matmul(%x, %m, units=None{sums}))")


def attention():
    """Heads side by side as rows of one matrix, of any length, and masked, scaled and turned ones, of each width that there is room for."""
    for dtype in "float16", "bfloat16":
        for width in 64, 128, 40:
            t = lambda *shape: tensor(dtype, *shape)
            yield f"tiles attention {dtype} {width}", program(
                {"q": t(2, 500, width), "k": t(2, 320, width), "v": t(2, 320, width), "u": t(2, width, 320), "m": t(500, 320), "s": dtype},
                "(nn.batch_matmul(nn.softmax(nn.batch_matmul(%q, %k, transpose_b=True)), %v, transpose_b=False), "
                "nn.batch_matmul(nn.softmax(nn.batch_matmul(%q, %v, transpose_b=True) / %s + %m), %u, transpose_b=True))")


def operators():
    """The samples of all rows, some of them together."""
    rows = run([os.path.join(os.path.dirname(RELAY), "generate"), "--rows"]).stdout
    samples = [Sample(line.split("\t")[0], text, wide=False) for line in rows.splitlines() for text in samples_of(line.split("\t")[3])]
    for at in range(0, len(samples), TOGETHER):
        own = lambda i, text: text.replace("%p", f"%s{i}p")
        some = list(enumerate(samples[at:at + TOGETHER]))
        params = ", ".join(own(i, s.parameters()) for i, s in some if s.arrays)
        yield f"operators {at // TOGETHER}", f"{HEADER}def @main({params}) {{ ({', '.join(own(i, s.call) for i, s in some)}) }}\n"


def networks():
    for line in run([RELAY, "new", "model"]).stdout.splitlines():
        name = line.split()[0]
        yield "network " + name, run([RELAY, "new", "model", name]).stdout


def steps():
    """What networks.py measures, of 32 images each: forwards, and steps of training."""
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder:
            with open(Network(name, argparse.Namespace(batch=32, size=None, check=False), folder).program) as f:
                yield "batch " + name, f.read()


def workloads():
    for path in sorted(glob.glob(os.path.join(HERE, "../bench/programs/*.rly"))):
        with open(path) as f:
            yield "workload " + os.path.basename(path)[:-4], f.read()


def programs():
    for some in elementwise(), others(), tiles(), attention(), operators(), workloads(), steps(), networks():
        yield from some


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True)


class Assembler:
    def __init__(self, folder, level):
        self.path, self.level = os.path.join(folder, "kernels.ptx"), level
        self.kernels = self.failed = 0
        self.hosted = collections.Counter()

    def wrong(self, name, text, target):
        """What is wrong with the program's text for such cards; None: nothing."""
        made = run([RELAY, "compile", "-", "--emit", "ptx", "--target", target, "--tf32"], text)
        if made.returncode or made.stderr:
            return made.stderr.strip() or f"status {made.returncode}"
        entries = made.stdout.split("\n.visible .entry ")[1:]
        if name.startswith("tiles") and not all("mma.sync" in entry or "wgmma" in entry for entry in entries):
            return "a product is not on tensor cores"
        products = re.fullmatch(r"tiles \w+", name)
        if products and not all((part in made.stdout) == (target == "sm_90a") for part in ("wgmma", "cp.async.bulk.tensor")):
            return "products are not of boxes and by groups of warps, or so on a card that has none"
        if name.startswith("types scattered") and len(entries) < 12:
            return "what goes to places that are data does so on the host"
        hosted = re.findall(r"^//   on the host, because (.*?):", made.stdout, re.M)
        if hosted and name.startswith(("types", "tiles")):
            return f"no kernel: {hosted[0]}"
        self.kernels += len(entries)
        self.hosted.update(hosted)
        if not entries:
            return None
        with open(self.path, "w") as file:
            file.write(made.stdout)
        # Without any optimising the assembler has not the registers that groups of warps want, and says so.
        level = max(self.level, 1) if "wgmma" in made.stdout else self.level
        done = run([PTXAS, f"-arch={target}", f"-O{level}", "-o", os.devnull, self.path])
        return None if (done.returncode, done.stderr) == (0, "") else done.stderr.strip() or f"ptxas ends with {done.returncode}"

    def take(self, name, text):
        for target in TARGETS:
            wrong = self.wrong(name, text, target)
            if wrong:
                self.failed += 1
                print(f"WRONG {name} for {target}: {wrong}", flush=True)


def main(arguments=None):
    p = argparse.ArgumentParser()
    p.add_argument("--part", type=int, default=1)
    p.add_argument("--optimise", type=int, default=0)
    p.add_argument("names", nargs="*")
    options = p.parse_args(arguments)
    if PTXAS is None:
        print("skipped: there is no ptxas here, so no text is assembled")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        assembler, n = Assembler(folder, options.optimise), 0
        wanted = [row for row in programs() if not options.names or row[0].startswith(tuple(options.names))]
        for name, text in wanted[::options.part]:
            n += 1
            assembler.take(name, text)
    for why, times in assembler.hosted.most_common():
        print(f"on the host, {times} times: {why}")
    print(f"{n} programs for {', '.join(TARGETS)}: {assembler.kernels} kernels assembled, {assembler.failed} texts wrong")
    return 1 if assembler.failed or not n else 0


if __name__ == "__main__":
    sys.exit(main())
