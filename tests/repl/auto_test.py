"""The engine `auto`: counted work decides, so two runs give the same bits and the same definitions are hot; once a loop is hot it runs as
fast as with `jit`; what is small is answered at once. `run` and `bench` keep the JIT."""

import os
import re
import resource
import subprocess
import tempfile
import time
import unittest

RELAY = os.environ["RELAY"]
LOOP = ("def @loop(%i: int32, %n: int32, %acc: int32) -> int32 "
        "{ if (%i == %n) { %acc } else { @loop(%i + 1, %n, mod(%acc * 31 + %i, 1000003)) } }\n")
# Sums of floats whose last digits tell which engine added them up in which order.
FLOATS = """def @grow(%i: int32, %x: float32, %t: Tensor[(257), float32]) -> float32 {
  if (%i == 0) { %x } else { @grow(%i - 1, %x * 0.999f + sum(tanh(%t * %x)) * 0.001f, %t) }
}
let %t = cast(arange(0, 257, 1, dtype="int32"), dtype="float32") / 100f;
"""


def run(text, *args):
    return subprocess.run([RELAY, *args], input=text, capture_output=True, text=True, timeout=300, check=False)


def cpu(text):
    """Seconds of the processor that a session needs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(text)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime


class Auto(unittest.TestCase):
    def test_two_runs_give_the_same_bits(self):
        cells = FLOATS + "".join(f"@grow({n}, 0.5f, %t)\n:engine\n" for n in (10, 100, 1000, 3000, 5000))
        first = run(cells)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("hot, and compiled: `@grow`", first.stdout)
        for _ in range(2):
            self.assertEqual(run(cells).stdout, first.stdout)

    def test_a_hot_loop_is_as_fast_as_compiled(self):
        def per_call(engine):
            head = f":engine {engine}\n{LOOP}" + "@loop(0, 1000000, 1)\n"
            call = "@loop(0, 20000000, 1)\n"
            return min(cpu(head + call * 5) - cpu(head + call) for _ in range(3)) / 4
        best = min(per_call("auto") / per_call("jit") for _ in range(3))
        self.assertLess(best, 1.1)

    def test_what_closures_do_counts_for_their_definition(self):
        """A function that is hot is code, which calls a closure of the evaluator again and again: what makes the closure is hot, too."""
        cells = ("def @times(%i: int32, %f: fn (int32) -> int32, %x: int32) -> int32 { if (%i == 0) { %x } else { @times(%i - 1, %f, %f(%x)) } }\n"
                 "def @work(%n: int32) -> int32 { let %k = mod(%n, 7); @times(%n, fn (%x: int32) -> int32 { mod(%x * 3 + %k, 1000003) }, 1) }\n"
                 + "@work(100000)\n" * 3 + ":engine\n")
        done = run(cells)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "hot, and compiled: .*`@work`")

    def test_small_cells_are_answered_at_once(self):
        with subprocess.Popen([RELAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as session:
            least = 1.0
            for i in range(30):
                start = time.perf_counter()
                session.stdin.write(f"add({i}, {i}) * 3\n\n".encode())
                self.assertEqual(session.stdout.readline().strip(), str(6 * i).encode())
                least = min(least, time.perf_counter() - start) if i else least
            session.stdin.close()
        self.assertLess(least, 0.001)

    def test_what_ends_in_a_hot_call_is_used_again(self):
        """A list that nobody holds beside the call is turned around in its own cells: there is no room for twice as many."""
        cells = ("type List[A] { Cons(A, List[A]), Nil }\n"
                 "def @count(%n: int32, %acc: List[int32]) -> List[int32] { if (%n == 0) { %acc } else { @count(%n - 1, Cons(%n, %acc)) } }\n"
                 "def @turn(%l: List[int32], %acc: List[int32]) -> List[int32] "
                 "{ match (%l) { Cons(%x, %r) => @turn(%r, Cons(%x, %acc)), Nil => %acc } }\n"
                 "def @sum(%l: List[int32], %acc: int32) -> int32 { match (%l) { Cons(%x, %r) => @sum(%r, mod(%acc + %x, 10007)), Nil => %acc } }\n"
                 ":limit memory 64\n"
                 + "".join(f"@sum(@turn(@count({n}, Nil), Nil), 0)\n" for n in (200000, 200000, 2000000)) + ":engine\n")
        done = run(cells)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"9730\n9730\n8621\n(.*\n)*hot, and compiled: `@sum`, `@turn`, `@count`")

    def test_run_and_bench_compile(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "main.rly")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#[version = "0.0.5"]\n{LOOP}def @main() -> int32 {{ @loop(0, 1000, 1) }}\n')
            shown = run("", "bench", path, "--seconds", "0.01")
            self.assertRegex(shown.stdout, r"\bjit level 2\b")
            self.assertEqual(run("", "run", path).stdout, run("", "run", "--exec", "interp", path).stdout)
            self.assertTrue(re.search(r"default `jit`", run("", "run", "--help").stdout))


if __name__ == "__main__":
    unittest.main()
