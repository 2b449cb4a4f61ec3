"""Compiled code that is kept: another process gives the same with it, and with whatever stands in the files."""

import json
import os
import random
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

import numpy

RELAY = os.environ.get("RELAY", "build/release/relay")

NETWORK = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 8, 12, 12), float32], %w: Tensor[(16, 8, 3, 3), float32], %b: Tensor[(16), float32]) {
  let %c = nn.relu(nn.bias_add(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]), %b));
  (sum(%c), nn.softmax(nn.batch_flatten(%c), axis=-1))
}
"""

VALUES = """#[version = "0.0.5"]
type Shape {
  Square(int32),
  Pair(Shape, Shape),
  Sides((int32, float32)),
  Nothing,
}
def @known(%n: int32) -> Shape { if (%n > 100) { Nothing } else { Pair(Sides((7, 0.5)), Pair(Nothing, Square(8))) } }
def @area(%s: Shape) -> int32 {
  match (%s) {
    Square(%n) => multiply(%n, %n),
    Pair(%a, %b) => add(@area(%a), @area(%b)),
    Sides(_) => 1,
    Nothing => 0,
  }
}
def @main(%n: int32) {
  let %cell = ref(%n);
  let %double = fn (%k: int32) -> int32 { add(%k, ref_read(%cell)) };
  let %s = Pair(Square(%double(%n)), Pair(Nothing, Square(%n)));
  let %old = ref_write(%cell, @area(%s));
  (%s, ref_read(%cell), (), divide(100, %n), @known(%n))
}
"""


SHAPES = """#[version = "0.0.5"]
def @main(%x: Tensor[(?, 8), float32], %n: int32) {
  let %s = nn.softmax(add(%x, 1f), axis=-1);
  let %t = topk(%s, k=2, axis=1, ret_type="values");
  (%t, divide(12, %n), argsort(%s, axis=1, is_ascend=False))
}
"""


# Code that is made while it runs: for a type, for shapes, of a closure that left.
TYPES = """#[version = "0.0.5"]
type Nest[A] {
  End,
  More(A, Nest[(A, A)]),
}
def @halves(%n: int32) -> int32 { if (%n < 2) { 0 } else { 1 + @halves(divide(%n, 2)) } }
def @size[A](%n: Nest[A]) -> int32 { match (%n) { End => 0, More(_, %t) => let %s = @size(%t); 1 + 2 * %s + @halves(%s) } }
def @grow[A](%n: int32, %a: A) -> Nest[A] { if (%n == 0) { End } else { More(%a, @grow(%n - 1, (%a, %a))) } }
def @main(%n: int32) { @halves(%n) + @size(@grow(%n, divide(1, %n))) }
"""

LENGTHS = """#[version = "0.0.5"]
def @grow(%n: int32, %x: Tensor[(?), int32]) -> int32 {
  if (%n == 0) { sum(%x) } else { @grow(%n - 1, concatenate((%x, ones(shape=[2], dtype="int32")), axis=0)) }
}
def @main(%n: int32) { @grow(%n, full(divide(6, %n), shape=[1], dtype="int32")) }
"""

# Which closure it is, and so its code at the two types, is known when it is called.
POLYMORPHIC = """#[version = "0.0.5"]
def @main(%n: int32) -> ((int32, int32), (float32, int32)) {
  let %f = fn [A](%x: A) -> (A, int32) { (%x, %n) };
  let %r = ref(%f);
  ref_write(%r, fn [A](%x: A) -> (A, int32) { (%x, %n + 1) });
  let %g = ref_read(%r);
  (%g(5), %g(2f))
}
"""

CLOSURES = """def @f(%x: int32) -> int32 { %x * 2 }
let %k = 5;
let %g = fn (%y: int32) -> int32 { @f(%y) + %k };
%g(2)
let %all = (fn (%y: int32) { %g(@f(%y)) }, %g);
%all.0(3) + %all.1(1)
def @f(%x: int32) -> int32 { %x * 100 }
%g(2)
%all.0(3) + %all.1(1)
let %i = @map(%g, Cons(1, Cons(2, Nil)));
%i
def @pair[A, B](%p: fn(int32) -> A, %q: fn(A) -> B) { fn (%x: int32) { (%q(%p(%x)), %p(%x)) } }
let %h = @pair(%g, fn (%x: int32) { divide(1000, %x) });
%h(1)
%h
:engine interp
%h(2)
"""


@unittest.skipIf(subprocess.run([RELAY, "compile", "-", "--emit", "lowered"], input=b"fn (%x: int32) { add(%x, 1) }",
                                capture_output=True).returncode == 1, "no JIT is built in")
class Cache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = RELAY
        self.cache = os.path.join(self.folder.name, "cache")
        self.code = os.path.join(self.cache, "relay", "code")

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def relay(self, *args, env=None, **more):
        env = {**os.environ, "XDG_CACHE_HOME": self.cache, "RELAY_CACHE": "on", **(env or {})}
        return subprocess.run([self.program, *args], capture_output=True, text=True, env=env, **more)

    def run_values(self, path, n, engine="jit"):
        done = self.relay("run", path, "--exec", engine, "--args", self.write("args.json", json.dumps(
            [{"dtype": "int32", "shape": [], "data": [n]}])))
        said = [line for line in done.stderr.splitlines() if "WARNING: ASan" not in line]
        return done.returncode, done.stdout, "\n".join(said)

    def bench(self, path, *args):
        done = self.relay("bench", path, "--random", "1", "--seconds", "0.001", "--runs", "1", "--json", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = json.loads(done.stdout)
        return line["cached"], line["out"]

    def files(self):
        return sorted(os.listdir(self.code)) if os.path.isdir(self.code) else []

    def test_what_is_kept_is_used(self):
        path = self.write("network.rly", NETWORK)
        cold, out = self.bench(path)
        self.assertFalse(cold)
        self.assertEqual(self.bench(path), (True, out))
        self.assertEqual(len(self.files()), 1)
        mode = os.stat(self.code).st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o700)

    def test_what_decides_code_decides_the_file(self):
        path = self.write("network.rly", NETWORK)
        for args in ([], ["-O", "0"], ["-O", "3"], ["--exact"], ["--threads", "2"], ["--exec", "gpu"], ["--exec", "gpu", "--tf32"]):
            self.assertFalse(self.bench(path, *args)[0], args)
            self.assertTrue(self.bench(path, *args)[0], args)
        self.assertFalse(self.bench(self.write("network.rly", NETWORK.replace("nn.relu", "tanh")))[0])

    def test_gradients_of_places(self):
        """What a gradient's rule calls stands where the program's own call does, as do its attributes: a text that the file knows."""
        for body in ("take(%w, %i, axis=0)", "gather(%w, expand_dims(%i, axis=0), axis=0)", "topk(%w, k=2).0", "cumsum(%w, axis=1)"):
            params = "%w: Tensor[(5, 6), float32], %i: Tensor[(6), int32]"
            path = self.write("gradient.rly", '#[version = "0.0.5"]\n'
                              f"def @main({params}) {{ grad(fn ({params}) {{ sum(exp({body})) }})(%w, %i).0 }}\n")
            self.assertFalse(self.bench(path)[0], body)
            self.assertTrue(self.bench(path)[0], body)

    def test_weights_decide_it_too(self):
        path = self.write("network.rly", NETWORK)
        outs = []
        for seed in (1, 2):
            weights = os.path.join(self.folder.name, "w.npz")
            numpy.savez(weights, w=numpy.random.default_rng(seed).standard_normal((16, 8, 3, 3)).astype("float32"))
            cold, out = self.bench(path, "--params", weights)
            self.assertFalse(cold)
            self.assertEqual(self.bench(path, "--params", weights), (True, out))
            outs.append(out)
        self.assertNotEqual(outs[0], outs[1])

    def test_values_and_failures(self):
        path = self.write("values.rly", VALUES)
        cold = [self.run_values(path, n) for n in (3, 0)]
        self.assertEqual(cold[0][0], 0, cold[0][2])
        self.assertIn("Pair(Square(6), Pair(Nothing, Square(3)))", cold[0][1])
        self.assertIn("Pair(Sides((7, 0.5)), Pair(Nothing, Square(8)))", cold[0][1])
        self.assertIn("divided by zero", cold[1][2])
        self.assertEqual(len(self.files()), 1)
        self.assertEqual([self.run_values(path, n) for n in (3, 0)], cold)

    def test_kernels_of_a_card(self):
        """The text, what is launched and what may go wrong, and what the driver made of the text; not programs of which a part has no kernel."""
        path = self.write("card.rly", """#[version = "0.0.5"]
def @main(%n: int32) {
  let %x = full(%n, shape=[300], dtype="int32");
  let %y = divide(arange(0, 300, 1, dtype="int32"), %x);
  (sum(%y), nn.softmax(cast(concatenate((%y, full(7, shape=[3], dtype="int32"))), dtype="float32")))
}
""")
        cold = [self.run_values(path, n, "gpu") for n in (3, 0)]
        self.assertEqual(cold[0][0], 0, cold[0][2])
        self.assertIn("divided by zero", cold[1][2])
        self.assertEqual(len(self.files()), 2)
        self.assertEqual([self.run_values(path, n, "gpu") for n in (3, 0)], cold)
        self.assertEqual(self.run_values(path, 3)[0], 0)
        self.assertEqual(len(self.files()), 3)

    def test_shapes_have_files_and_operators_their_places(self):
        path = self.write("shapes.rly", SHAPES)
        known = {}
        for rows, n, files in ((3, 2, 1), (3, 2, 1), (5, 2, 2), (5, 0, 2), (3, 2, 2), (5, 0, 2)):
            args = [{"dtype": "float32", "shape": [rows, 8], "data": [i * 7 % 11 / 3 for i in range(rows * 8)]},
                    {"dtype": "int32", "shape": [], "data": [n]}]
            done = self.relay("run", path, "--exec", "jit", "--args", self.write("args.json", json.dumps(args)))
            self.assertEqual(known.setdefault((rows, n), (done.stdout, done.stderr)), (done.stdout, done.stderr))
            self.assertEqual(len(self.files()), files)
            self.assertEqual("divided by zero" in done.stderr, n == 0)

    def test_llvm_is_not_opened(self):
        path = self.write("values.rly", VALUES)
        wanted = self.run_values(path, 3)
        self.without_llvm()
        self.assertEqual(self.run_values(path, 3), wanted)
        code, _, err = self.run_values(self.write("other.rly", VALUES.replace("100", "99")), 3)
        self.assertEqual(code, 0)
        self.assertIn("W0701", err)
        self.assertIn("relay-llvm.so is not installed", err)

    def without_llvm(self):
        """Without its plug-in nothing is made; what was made runs."""
        build = os.path.join(self.folder.name, "build")
        os.makedirs(build, exist_ok=True)
        beside = os.path.dirname(os.path.realpath(RELAY))
        for name in ("relay", "relay-jit.so"):
            shutil.copy(os.path.join(beside, name), build)
        self.program = os.path.join(build, "relay")

    def test_what_is_made_while_code_runs_is_kept(self):
        for name, text, few, more in (("types", TYPES, 17, 19), ("lengths", LENGTHS, 6, 9)):
            with self.subTest(name):
                shutil.rmtree(self.cache, ignore_errors=True)
                path = self.write("growing.rly", text)
                wanted = {n: self.run_values(path, n, "interp") for n in (0, few, more, more + 1)}
                self.program = RELAY
                self.assertEqual(self.run_values(path, few), wanted[few])
                self.without_llvm()
                self.assertEqual(self.run_values(path, few), wanted[few])
                code, _, err = self.run_values(path, more)
                self.assertIn("relay-llvm.so is not installed", err)
                self.assertNotEqual(code, 0)
                # The next process makes what is missing beside what is there, and so does the one after it.
                for n in (more, more + 1):
                    self.program = RELAY
                    self.assertEqual(self.run_values(path, n), wanted[n])
                    self.without_llvm()
                    self.assertEqual(self.run_values(path, few), wanted[few])
                    self.assertEqual(self.run_values(path, n), wanted[n])
                self.assertIn("divided by zero", self.run_values(path, 0)[2])
                self.assertEqual(len(self.files()), 1)

    def test_types_of_polymorphic_closures_are_kept(self):
        path = self.write("closures.rly", POLYMORPHIC)
        wanted = self.run_values(path, 3, "interp")
        self.assertEqual(wanted[0], 0, wanted)
        self.assertEqual(self.run_values(path, 3), wanted)
        self.without_llvm()
        self.assertEqual(self.run_values(path, 3), wanted)

    def test_closures_are_kept_and_find_what_is_defined_anew(self):
        plain = self.relay("--exec", "jit", input=CLOSURES, env={"RELAY_CACHE": "off"}).stdout
        self.assertIn("(4, 205)", plain)
        for _ in range(2):
            self.assertEqual(self.relay("--exec", "jit", input=CLOSURES).stdout, plain)

    def test_a_plugin_of_another_build_is_not_opened(self):
        build, beside = os.path.join(self.folder.name, "build"), os.path.dirname(os.path.realpath(RELAY))
        os.mkdir(build)
        self.program = shutil.copy(os.path.join(beside, "relay"), build)
        with open(os.path.join(beside, "relay-jit.so"), "rb") as file:
            plugin = file.read()
        with open(self.program, "rb") as file:
            marks = set(re.findall(rb"(?<![0-9a-f])[0-9a-f]{64}(?=\0)", file.read())) & set(re.findall(rb"[0-9a-f]{64}(?=\0)", plugin))
        self.assertEqual(len(marks), 1)
        mark = marks.pop()
        with open(os.path.join(build, "relay-jit.so"), "wb") as file:
            file.write(plugin.replace(mark, mark[::-1]))
        code, out, err = self.run_values(self.write("values.rly", VALUES), 3)
        self.assertEqual(code, 0)
        self.assertTrue(out)
        self.assertIn("relay-jit.so is of another build of relay", " ".join(err.split()))

    def test_what_is_shown_is_what_the_optimiser_made(self):
        path = self.write("network.rly", NETWORK)
        anew = self.relay("compile", path, "--emit", "lowered", env={"RELAY_CACHE": "off"})
        self.assertEqual(anew.returncode, 0, anew.stderr)
        self.relay("run", path, "--random", "1")
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(self.relay("compile", path, "--emit", "lowered").stdout, anew.stdout)

    def test_sessions_share_it_wherever_a_text_stands(self):
        lines = ["def @f(%x: int32) { divide(7, %x) };", "let %n = 0;"]
        call = "@f(%n)\n:time @f(%n + 2)\n"
        first = self.relay(input="\n".join(lines) + "\n" + call)
        other = self.relay(input="1 + 1\n" + "\n".join(lines) + "\n2\n" + call)
        self.assertIn("compiled in", first.stdout)
        self.assertIn("taken from the cache", other.stdout)
        self.assertIn("divided by zero", first.stderr + first.stdout)

    def test_damage_is_noticed(self):
        path = self.write("values.rly", VALUES)
        wanted = self.run_values(path, 3)
        file = os.path.join(self.code, self.files()[0])
        with open(file, "rb") as f:
            whole = f.read()
        dice = random.Random(7)
        damaged = [whole[:n] for n in (0, 1, 63, 64, 200, len(whole) - 1)] + [whole + b"\0" * 64]
        for _ in range(20):
            at = dice.randrange(len(whole))
            damaged.append(whole[:at] + bytes([whole[at] ^ (1 << dice.randrange(8))]) + whole[at + 1:])
        for bytes_of in damaged:
            with open(file, "wb") as f:
                f.write(bytes_of)
            self.assertEqual(self.run_values(path, 3), wanted)
            with open(file, "rb") as f:
                self.assertEqual(len(f.read()), len(whole))

    def test_those_used_least_lately_go(self):
        def program(i):
            return self.write(f"p{i}.rly", f"""#[version = "0.0.5"]
def @main(%x: Tensor[(1, 64), float32], %w: Tensor[(512, 64), float32]) {{
  multiply(nn.dense(%x, %w, units=512), {i}f)
}}
""")
        weights = os.path.join(self.folder.name, "w.npz")
        numpy.savez(weights, w=numpy.ones((512, 64), "float32"))

        def is_kept(i):
            done = self.relay("bench", program(i), "--params", weights, "--random", "1", "--seconds", "0.001", "--runs", "1",
                              "--json", env={"RELAY_CACHE": "1"})
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["cached"]

        # Each file has the weights, an eighth of a mebibyte; the first one is used again and again.
        for i in range(1, 13):
            self.assertFalse(is_kept(i), i)
            self.assertTrue(is_kept(1))
            size = sum(os.stat(os.path.join(self.code, name)).st_size for name in self.files())
            self.assertLessEqual(size, (1 << 20) + (1 << 18))
        self.assertTrue(is_kept(12))
        self.assertFalse(is_kept(2))

    def test_the_variable_is_understood_or_refused(self):
        path = self.write("values.rly", VALUES)
        done = self.relay("run", path, "--random", "1", env={"RELAY_CACHE": "much"})
        self.assertIn("W0702", done.stderr)
        self.assertIn("RELAY_CACHE=much", done.stderr)
        self.assertEqual(self.files(), [])

    def test_values_outlive_the_code_they_came_with(self):
        lines = "\n".join(["def @k() { (full(1f, shape=[70000]), 3) };", "let %a = @k();", "%a.1", "def @k() { (full(2f, shape=[70000]), 4) };",
                           "let %b = @k();", "sum(%a.0)", "sum(%b.0)"])
        first = self.relay("--exec", "jit", input=lines)
        self.assertIn("70000", first.stdout)
        self.assertGreaterEqual(len(self.files()), 2)
        self.assertEqual(self.relay("--exec", "jit", input=lines).stdout, first.stdout)

    def test_a_folder_for_others_is_not_used(self):
        path = self.write("values.rly", VALUES)
        os.makedirs(self.code)
        os.chmod(self.code, 0o755)
        code, out, err = self.run_values(path, 3)
        self.assertEqual(code, 0)
        self.assertIn("W0702", err)
        self.assertEqual(self.files(), [])
        os.chmod(self.code, 0o700)
        self.assertEqual(self.run_values(path, 3), (0, out, ""))
        self.assertEqual(len(self.files()), 1)

    def test_files_for_others_are_not_used(self):
        path = self.write("values.rly", VALUES)
        self.run_values(path, 3)
        file = os.path.join(self.code, self.files()[0])
        os.chmod(file, 0o666)
        self.assertEqual(self.run_values(path, 3)[0], 0)
        self.assertEqual(stat.S_IMODE(os.stat(file).st_mode), 0o600)

    def test_it_can_be_turned_off(self):
        path = self.write("network.rly", NETWORK)
        self.assertFalse(self.bench(path, "--no-cache")[0])
        self.relay("run", path, "--random", "1", env={"RELAY_CACHE": "off"})
        self.assertEqual(self.files(), [])

    def test_several_processes_at_once(self):
        path = self.write("network.rly", NETWORK)
        env = {**os.environ, "XDG_CACHE_HOME": self.cache, "RELAY_CACHE": "on"}
        all_of = [subprocess.Popen([RELAY, "run", path, "--random", "1"], env=env, stdout=subprocess.PIPE)
                  for _ in range(4)]
        outs = {p.communicate()[0] for p in all_of}
        self.assertEqual(len(outs), 1)
        self.assertEqual(len(self.files()), 1)


if __name__ == "__main__":
    unittest.main()
