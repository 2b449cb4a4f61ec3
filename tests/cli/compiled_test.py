"""Programs for others to run: `relay compile --emit lib|header|exe`, called from C and from Python, beside `relay run`."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy

RELAY = os.environ.get("RELAY", "build/release/relay")
SOURCE = os.environ.get("RELAY_SOURCE", ".")
DIGITS = os.path.join(SOURCE, "examples", "digits")
BUILD = os.path.dirname(os.path.realpath(RELAY))
SANITIZED = "libasan" in subprocess.run(["ldd", RELAY], capture_output=True, text=True).stdout
CC = ["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(SOURCE, "include")]
CC += ["-fsanitize=address,undefined"] if SANITIZED else []

PROGRAM = """#[version = "0.0.5"]
import "prelude.rly"
type Shape { Circle(float32), Square(float32) }
def @area(%s: Shape) -> float32 {
  match (%s) { Circle(%r) => 3f * %r * %r, Square(%a) => %a * %a }
}
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) -> (Tensor[(2, 4), float32], (float32, Tensor[(2), bool])) {
  let %y = nn.relu(nn.dense(%x, %w, units=4));
  let %areas = @map(@area, Cons(Circle(sum(%y)), Cons(Square(2f), Nil)));
  (%y, (@foldl(fn (%a: float32, %b: float32) { %a + %b }, 0f, %areas), any(%y > 0f, axis=[1])))
}
def @rows(%x: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] { %x + sum(%x, axis=[0], keepdims=True) }
def @norm(%x: Tensor[(?, ?), float32]) -> Tensor[(?, ?), float32] { nn.softmax(%x, axis=-1) }
def @grow(%x: Tensor[(?, 3), float32], %n: int32) -> Tensor[(?, ?), float32] {
  if (%n == 0) { @norm(%x) } else { @grow(concatenate((%x, strided_slice(%x, begin=[0], end=[1], strides=[1], axes=[0])), axis=0), %n - 1) }
}
def @divide(%x: int32, %y: int32) -> int32 { %x / %y }
def @deep(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { 1i64 + @deep(%n - 1i64) } }
def @pass(%b: Tensor[(4), bool], %nothing: (), %p: (int64, (Tensor[(2, 0), float32], uint8))) {
  (%b, ((), cast(%p.1.1, dtype="int64") + %p.0), %p.1.0)
}
"""
NAMES = ["main", "rows", "grow", "divide", "deep", "pass"]

DATA = """#[version = "0.0.5"]
import "prelude.rly"
type Shape { Circle(float32), Square(float32), Nothing }
def @main(%l: List[Shape], %n: int32) -> (List[Shape], int32) { (@rev(%l), 12 / %n) }
"""

C_PROGRAM = """
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    float x[6] = {1, 2, 3, 4, 5, 6}, w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, -1, -1, -1};
    int64_t of_x[] = {2, 3}, of_w[] = {4, 3};
    RelayTensor args[2] = {{.data = x, .device_type = 1, .rank = 2, .code = 2, .bits = 32, .lanes = 1, .shape = of_x},
                           {.data = w, .device_type = 1, .rank = 2, .code = 2, .bits = 32, .lanes = 1, .shape = of_w}};
    RelayTensor results[3], before[3];
    memset(results, 0, sizeof results);
    for (int round = 0; round < 3; round++) {
        if (program_main(args, results) != RELAY_OK)
            return fputs(program_error(), stderr), 1;
        for (int i = 0; i < 8; i++)
            printf("%g ", ((float *)results[0].data)[i]);
        printf("%g %d %d\\n", *(float *)results[1].data, ((char *)results[2].data)[0], ((char *)results[2].data)[1]);
        if (round == 1) {
            for (int i = 0; i < 3; i++)
                free(results[i].data);
            memset(results, 0, sizeof results);
        }
    }
    memcpy(before, results, sizeof before);
    x[0] = 7;
    results[1].bits = 64; /* no float32 fits there */
    RelayStatus status = program_main(args, results);
    printf("%d %s", status, program_error());
    results[1].bits = 32;
    printf("same %d\\n", !memcmp(before, results, sizeof before));
    of_x[0] = 3;
    printf("%d %s", program_main(args, results), program_error());
    int32_t a = 7, b = 0;
    RelayTensor numbers[2] = {{.data = &a, .device_type = 1, .bits = 32, .lanes = 1},
                              {.data = &b, .device_type = 1, .bits = 32, .lanes = 1}};
    RelayTensor quotient = {0};
    printf("%d %s", program_divide(numbers, &quotient), program_error());
    b = 2;
    printf("%d %s", program_divide(numbers, &quotient), program_error());
    printf("%d\\n", *(int32_t *)quotient.data);
    free(quotient.data);
    for (int i = 0; i < 3; i++)
        free(results[i].data);
    return 0;
}
"""


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


def tensor(a, strides=False):
    code = {"i": 0, "u": 1, "f": 2, "b": 6}[a.dtype.kind]
    steps = (ctypes.c_int64 * a.ndim)(*[s // a.itemsize for s in a.strides]) if strides else None
    return Tensor(a.ctypes.data, 1, 0, a.ndim, code, 8 * a.itemsize, 1, (ctypes.c_int64 * a.ndim)(*a.shape), steps)


def plain(text):
    """Without the sanitizer's notice that it follows switches of stacks by halves."""
    return "".join(line for line in text.splitlines(True) if "makecontext/swapcontext" not in line)


@unittest.skipIf(subprocess.run([RELAY, "compile", "-", "--emit", "lowered"], input=b"fn (%x: int32) { add(%x, 1) }",
                                capture_output=True).returncode == 2, "no JIT is built in")
class Compiled(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write("program.rly", PROGRAM)
        self.write("data.rly", DATA)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.at(name), "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())

    def run_in(self, *command, status=0, env=None, **how):
        run = subprocess.run(command, cwd=self.folder.name, capture_output=True, text=True, env=dict(os.environ, **(env or {})), **how)
        self.assertEqual(run.returncode, status, f"{command}: {run.stdout}{run.stderr}")
        run.stderr = plain(run.stderr)
        return run

    def relay(self, *args, **how):
        return self.run_in(os.path.realpath(RELAY), *args, **how)

    def library(self, name="libprogram.so", *options):
        entries = [word for name in NAMES for word in ("--entry", name)]
        self.relay("compile", "program.rly", "--emit", "lib", *entries, *options, "-o", name)
        self.relay("compile", "program.rly", "--emit", "header", *entries, *options, "-o", "program.h")

    # ---- C

    def test_c(self):
        self.library()
        self.write("use.c", C_PROGRAM)
        self.run_in(*CC, "use.c", "-I.", "-L.", "-lprogram", "-Wl,-rpath,$ORIGIN", "-o", "use")
        lines = self.run_in("./use").stdout.splitlines()
        numpy.save(self.at("x.npy"), numpy.arange(1, 7, dtype="float32").reshape(2, 3))
        numpy.save(self.at("w.npy"), numpy.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]], "float32"))
        said = self.relay("run", "program.rly", "--arg", "x=x.npy", "--arg", "w=w.npy", "--json").stdout
        y, (total, any_of) = [json.loads(said)["tuple"][0], json.loads(said)["tuple"][1]["tuple"]]
        expected = [*y["data"], *total["data"], *map(int, any_of["data"])]
        for line in lines[:3]:
            self.assertEqual([float(word) for word in line.split()], expected)
        self.assertEqual("\n".join(lines[3:]), "\n".join([
            "1 error[E0305]: `results[1]` of `@main` has data for another dtype, rank or shape, or has strides",
            "note: it is to be `float32`",
            "same 1",
            "1 error[E0305]: `args[0]` of `@main` has another dtype, rank or shape",
            "note: it is to be `Tensor[(2, 3), float32]`",
            "1 error[E0302]: an integer was divided by zero",
            "   --> program.rly:17:46",
            "    |",
            " 17 | def @divide(%x: int32, %y: int32) -> int32 { %x / %y }",
            "    |                                              ^^^^^^^",
            "help: ask first: `if (… == 0) { … } else { … }`",
            "0 3"]))

    def test_header_everywhere(self):
        self.library()
        for compiler, standard in [("cc", "c17"), ("c++", "c++17")]:
            self.write("alone.c", '#include "program.h"\nRelayFunction *const both[] = {program_main, program_rows};\n')
            self.run_in(compiler, f"-std={standard}", "-x", standard.rstrip("17"), "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "alone.c",
                        "-I", os.path.realpath(os.path.join(SOURCE, "include")), "-o", "alone.o")

    def test_example(self):
        """The classifier as examples/digits/classify.c says."""
        what = ["compile", os.path.realpath(os.path.join(DIGITS, "digits.rly")), "--entry", "classify", "--params",
                os.path.realpath(os.path.join(DIGITS, "weights.npz")), "--emit"]
        self.relay(*what, "header", "-o", "digits.h")
        self.relay(*what, "lib", "-o", "libdigits.so")
        program = os.path.realpath(os.path.join(DIGITS, "classify.c"))
        self.run_in(*CC, program, "-I.", "-L.", "-ldigits", "-Wl,-rpath,.", "-o", "classify")
        with numpy.load(os.path.join(DIGITS, "digits.npz")) as data:
            images, labels = data["images"][1347:], data["labels"][1347:]
        self.write("images.bin", images.tobytes())
        with open(self.at("images.bin"), "rb") as f:
            digits = numpy.array(self.run_in("./classify", stdin=f).stdout.split(), "int32")
        numpy.save(self.at("batch.npy"), images)
        said = self.relay("run", what[1], "--entry", "classify", "--params", what[5], "--arg", "batch=batch.npy", "--json").stdout
        self.assertEqual(digits.tolist(), json.loads(said)["data"])
        self.assertGreater((digits == labels).mean(), 0.98)

    # ---- Python

    def load(self, name):
        library = ctypes.CDLL(self.at(name))
        library.program_error.restype = ctypes.c_char_p
        return library

    def call(self, function, args, n):
        """The arrays that it gives, in memory of their own; or what is wrong."""
        results = (Tensor * n)()
        status = function((Tensor * len(args))(*args), results)
        arrays = []
        for r in results if status == 0 else []:
            kind = {(2, 32): "float32", (0, 64): "int64", (6, 8): "bool"}[r.code, r.bits]
            shape = r.shape[:r.rank]
            size = int(numpy.prod(shape, dtype=int))
            arrays.append(numpy.frombuffer(ctypes.string_at(r.data, size * r.bits // 8), kind).reshape(shape))
            ctypes.CDLL(None).free(ctypes.c_void_p(r.data))
        return arrays if status == 0 else status

    @unittest.skipIf(SANITIZED, "Python is not sanitized")
    def test_python(self):
        self.library()
        library = self.load("libprogram.so")
        x = numpy.random.default_rng(1).normal(size=(14, 6)).astype("float32")
        for view in [x[::2, 1:4], x[::-3, ::-2], x[:0, :3], x.T[:, :3]]:
            [rows] = self.call(library.program_rows, [tensor(view, strides=True)], 1)
            self.assertEqual(rows.shape, view.shape)
            numpy.testing.assert_allclose(rows, view + view.sum(0, keepdims=True), rtol=1e-5, atol=1e-5)
        out = numpy.zeros((7, 3), "float32")
        self.assertEqual(library.program_rows((Tensor * 1)(tensor(x[::2, 1:4], True)), (Tensor * 1)(tensor(out))), 0)
        numpy.testing.assert_allclose(out, x[::2, 1:4] + x[::2, 1:4].sum(0), rtol=1e-5, atol=1e-5)
        given = [numpy.array([0, 2, 1, 255], "uint8").view("bool"), numpy.array(5), numpy.zeros((2, 0), "float32"), numpy.array(7, "uint8")]
        flags, total, nothing = self.call(library.program_pass, [tensor(a) for a in given], 3)
        self.assertEqual((flags.view("uint8").tolist(), total.tolist(), nothing.shape), ([0, 1, 1, 1], 12, (2, 0)))
        self.assertEqual(self.call(library.program_rows, [tensor(x)], 1), 1)
        self.assertIn(b"it is to be `Tensor[(?, 3), float32]`", library.program_error())
        on_card = tensor(out)
        on_card.device_type = 2
        self.assertEqual(self.call(library.program_rows, [on_card], 1), 1)
        self.assertIn(b"memory of the processor", library.program_error())
        for n in [0, 1, 5]:
            [grown] = self.call(library.program_grow, [tensor(x[:2, :3].copy()), tensor(numpy.array(n, "int32"))], 1)
            whole = numpy.exp(numpy.concatenate([x[:2, :3]] + n * [x[:1, :3]]))
            numpy.testing.assert_allclose(grown, whole / whole.sum(1, keepdims=True), rtol=1e-5)
        [n] = self.call(library.program_deep, [tensor(numpy.array(1000000))], 1)
        self.assertEqual(n.tolist(), 1000000)
        self.assertEqual(self.call(library.program_deep, [tensor(numpy.array(10**15))], 1), 3)
        [n] = self.call(library.program_deep, [tensor(numpy.array(1000))], 1)
        self.assertEqual((n.tolist(), library.program_error()), (1000, b""))

    @unittest.skipIf(SANITIZED, "Python is not sanitized")
    def test_installed(self):
        """Where the program and its library are in folders of their own."""
        for folder in ["bin", "lib/relay"]:
            os.makedirs(self.at(folder))
        shutil.copy(RELAY, self.at("bin/relay"))
        for name in os.listdir(BUILD):
            if ".so" in name:
                os.symlink(os.path.join(BUILD, name), self.at(f"lib/{'relay/' if name.startswith('relay-') else ''}{name}"))
        self.run_in("bin/relay", "compile", "program.rly", "--emit", "lib", "--entry", "rows", "-o", "librows.so", env={"LD_LIBRARY_PATH": self.at("lib")})

    @unittest.skipIf(SANITIZED, "Python is not sanitized")
    def test_nothing_of_a_library_can_be_written(self):
        """However many pages its names take."""
        for n in [1, 30, 60]:
            name = f"lib{n}.so"
            functions = [f"def @{'f' * 60}{i}(%x: int32) -> int32 {{ %x + {i} }}" for i in range(n)]
            self.write("many.rly", "\n".join(['#[version = "0.0.5"]', *functions]))
            self.relay("compile", "many.rly", "--emit", "lib", "-o", name)
            ctypes.CDLL(self.at(name))
            with open("/proc/self/maps", encoding="utf-8") as maps:
                ways = [line.split()[1] for line in maps if line.endswith(name + "\n")]
            self.assertIn("r-xp", ways)
            self.assertFalse([way for way in ways if "w" in way])

    @unittest.skipIf(SANITIZED, "Python is not sanitized")
    def test_threads(self):
        """Each has its own results and its own error; two libraries do not wait for each other."""
        self.library()
        self.library("libother.so", "-O", "0")
        libraries, wrong = [self.load("libprogram.so"), self.load("libother.so")], []

        def work(seed):
            x = numpy.random.default_rng(seed).normal(size=(seed, 3)).astype("float32")
            for i in range(100):
                library = libraries[(seed + i) % 2]
                [rows] = self.call(library.program_rows, [tensor(x)], 1)
                bad = self.call(library.program_rows, [tensor(x.astype("int64"))], 1)
                if abs(rows - x - x.sum(0)).max() > 1e-4 or bad != 1 or b"args[0]" not in library.program_error():
                    wrong.append(seed)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 9)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    @unittest.skipIf(SANITIZED, "the sanitizer wants its library first")
    def test_page(self):
        """What docs/compiled.md says to write in Python, and its table of kinds, which --help has too."""
        with open(os.path.join(SOURCE, "docs", "compiled.md"), encoding="utf-8") as f:
            page = f.read()
        what = ["compile", os.path.realpath(os.path.join(DIGITS, "digits.rly")), "--entry", "classify", "--params",
                os.path.realpath(os.path.join(DIGITS, "weights.npz")), "--emit", "lib", "-o", "libdigits.so"]
        self.relay(*what)
        self.assertTrue(self.run_in(sys.executable, "-c", page.split("```python")[1].split("```")[0]).stdout.startswith("0 ["))
        rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", page, re.M)
        self.assertEqual(rows, re.findall(r"^  ([a-z-]+) +(\S.*)$", self.relay("compile", "--help").stdout.split("options:")[0], re.M))

    # ---- programs

    def same(self, program, *args, status=0):
        ours = self.run_in(f"./{program}", *args, status=status)
        run = self.relay("run", f"{program}.rly", *args, status=status)
        self.assertEqual(ours.stdout, run.stdout)
        return ours, run

    def test_program(self):
        self.relay("compile", "program.rly", "--emit", "exe", "-o", "program")
        self.relay("compile", "data.rly", "--emit", "exe", "-o", "data")
        self.same("program", "--random", "3")
        self.same("program", "--random", "3", "--json")
        self.same("program", "--random", "4", "--out", "values.npz")
        numpy.savez(self.at("both.npz"), x=numpy.ones((2, 3), "float32"), w=numpy.ones((4, 3), "float32"))
        self.same("program", "--params", "both.npz")
        numpy.save(self.at("x.npy"), numpy.ones((2, 3), "float32"))
        self.same("program", "--arg", "x=x.npy", "--random", "1")
        self.assertIn("no argument for `%w`", self.same("program", "--arg", "x=x.npy", status=1)[0].stderr)
        self.assertIn("cannot read `none.npy`", self.same("program", "--arg", "x=none.npy", status=2)[0].stderr)
        self.assertIn("unknown option", self.same("program", "--engine", status=2)[0].stderr)
        self.assertIn("usage: ./program", self.run_in("./program", "--help").stdout)
        shapes = {"constructor": "Nil", "fields": []}
        for shape in [{"constructor": "Circle", "fields": [{"dtype": "float32", "shape": [], "data": [2.5]}]}, {"constructor": "Nothing", "fields": []}]:
            shapes = {"constructor": "Cons", "fields": [shape, shapes]}
        for n, status in [(3, 0), (0, 1)]:
            self.write("args.json", json.dumps([shapes, {"dtype": "int32", "shape": [], "data": [n]}]))
            ours, run = self.same("data", "--args", "args.json", status=status)
            self.assertEqual(ours.stderr, run.stderr)
            self.same("data", "--args", "args.json", "--json", status=status)

    def test_deep_program(self):
        self.relay("compile", "program.rly", "--emit", "exe", "--entry", "deep", "-o", "deep", "-O", "0")
        self.write("args.json", '[{"dtype": "int64", "shape": [], "data": [1000000]}]')
        self.assertEqual(self.run_in("./deep", "--args", "args.json").stdout, "1000000\n")
        limited = ["--args", "args.json", "--depth-limit", "100"]
        run = self.relay("run", "program.rly", "--entry", "deep", "-O", "0", *limited, status=3)
        self.assertIn("program.rly:18:1", run.stderr)
        self.assertEqual(self.run_in("./deep", *limited, status=3).stderr, run.stderr)

    @unittest.skipIf(SANITIZED or not os.path.exists(os.path.join(BUILD, "random")), "slow, or there are no random programs")
    def test_random_programs(self):
        """What can be compiled for others gives them what `relay run` gives."""
        compiled = 0
        for seed in range(500, 515):
            said = self.run_in(os.path.join(BUILD, "random"), "--count", "1", "--from", str(seed), "--data", "--show").stdout
            self.write("random.rly", said[said.index("#[version"):said.rindex("\n1 programs") + 1])
            made = subprocess.run([os.path.realpath(RELAY), "compile", "random.rly", "--emit", "exe", "-o", "random"],
                                  cwd=self.folder.name, capture_output=True, text=True)
            self.assertIn(made.returncode, (0, 1), made.stderr)
            if made.returncode == 0:
                compiled += 1
                run = subprocess.run([os.path.realpath(RELAY), "run", "random.rly", "--random", "1", "--json"], cwd=self.folder.name, capture_output=True)
                ours = subprocess.run(["./random", "--random", "1", "--json"], cwd=self.folder.name, capture_output=True)
                self.assertEqual((ours.returncode, ours.stdout), (run.returncode, run.stdout), seed)
        self.assertGreater(compiled, 8)

    def test_without_llvm(self):
        """In a folder that has the runtime alone."""
        self.library()
        self.relay("compile", "program.rly", "--emit", "exe", "-o", "program")
        expected = self.run_in("./program", "--random", "3").stdout
        os.mkdir(self.at("there"))
        for name in ["relay-jit.so", "librelay.so.0"]:
            shutil.copy(os.path.join(BUILD, name), self.at("there"))
        for name in ["program", "libprogram.so"]:
            shutil.move(self.at(name), self.at("there"))
        self.assertEqual(self.run_in("there/program", "--random", "3").stdout, expected)
        self.write("use.c", C_PROGRAM)
        self.run_in(*CC, "use.c", "-I.", "-Lthere", "-lprogram", "-Wl,-rpath-link,there", "-o", "use")
        self.assertIn("0 3", self.run_in("./use", env={"LD_LIBRARY_PATH": self.at("there")}).stdout)

    # ---- what cannot be

    def test_other_files(self):
        """Files are replaced as a whole, and may be run; those that are damaged, cut short or of another build say so."""
        self.write("program", "older")
        self.relay("compile", "program.rly", "--emit", "exe", "--entry", "divide", "-o", "program")
        self.assertTrue(os.access(self.at("program"), os.X_OK))
        self.assertEqual([n for n in os.listdir(self.folder.name) if n.endswith(".new")], [])
        with open(self.at("program"), "rb") as f:
            whole = f.read()
        begin = whole.rindex(b"relay compiled\n")
        end = whole.rindex(b"relay attached\n")
        build = re.search(rb"\x14\0\0\0\0\0\0\0(.{20})", whole[begin:], re.S)
        damages = [(begin + build.start(1), "another build"), (begin + 16, "damaged"), (begin + 24, "damaged")]
        code = whole.index(b"relay code 1\n", begin)
        damages += [(at, "damaged") for at in range(code, end - 64, (end - code) // 20) if at < end - 200]
        words = whole.index(b'#[version = "0.0.5"]', begin)
        damages += [(at, "damaged") for at in range(words, code - 64, (code - words) // 20)]
        self.write("args.json", '[{"dtype": "int32", "shape": [], "data": [7]}, {"dtype": "int32", "shape": [], "data": [2]}]')
        self.assertEqual(self.run_in("./program", "--args", "args.json").stdout, "3\n")
        for at, word in damages:
            broken = bytearray(whole)
            broken[at] ^= 0x55
            self.write("program", bytes(broken))
            self.assertIn(word, self.run_in("./program", "--args", "args.json", status=2).stderr, at)
        for n in [begin, begin + 20, code, end, len(whole) - 1]:
            self.write("program", whole[:n])
            self.assertIn("damaged", self.run_in("./program", status=2).stderr, n)

    def test_other_processor(self):
        """Code for less than this processor has runs, other code says what it wants."""
        self.relay("compile", "program.rly", "--emit", "exe", "--entry", "divide", "-o", "program", env={"RELAY_CPU": "avx2"})
        self.write("args.json", '[{"dtype": "int32", "shape": [], "data": [7]}, {"dtype": "int32", "shape": [], "data": [2]}]')
        self.assertEqual(self.run_in("./program", "--args", "args.json").stdout, "3\n")
        with open(self.at("program"), "rb") as f:
            whole = f.read()
        self.assertIn(b" sse4.2 ", whole)
        self.write("program", whole.replace(b" sse4.2 ", b" sse9.2 "))
        self.assertIn("made for a processor that has sse9.2", self.run_in("./program", "--args", "args.json", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
