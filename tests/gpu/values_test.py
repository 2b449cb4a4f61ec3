"""What is on the card stays there: the driver's calls are counted while values go from cell to cell, in tuples, lists and closures."""

import os
import re
import subprocess
import tempfile
import unittest

RELAY = os.environ["RELAY"]
FIRST = 'let %x = ones(shape=[64, 32], dtype="float32");\n'


def copies(cells, *options, entry="cuMemcpyHtoDAsync_v2", **environment):
    """How often something was brought to the card, or this entry was called, and what was said."""
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as counts:
        done = subprocess.run([RELAY, "--exec", "gpu", *options], input=FIRST + cells, capture_output=True, text=True, timeout=100,
                              env={**os.environ, "STANDIN_COUNT": counts.name, **environment})
        found = re.search(rf"^{entry} (\d+)$", counts.read(), re.M)
    return int(found[1]) if found else 0, said_by(done)


def said_by(done):
    return done.stdout + "".join(line for line in done.stderr.splitlines(True) if "WARNING: ASan" not in line)


class Values(unittest.TestCase):
    def test_cells(self):
        once, said = copies("sum(tanh(%x))\n")
        self.assertNotIn("error", said)
        self.assertEqual(copies("sum(tanh(%x))\n" * 3)[0], once)
        self.assertEqual(copies("let %y = exp(%x);\nlet %z = tanh(%y);\nsum(%z * %y)\n")[0], once)

    def test_inside_of_others(self):
        once, _ = copies("sum(tanh(%x))\n")
        pair = "let %p = (exp(%x), tanh(%x));\nlet %a = exp(%p.0);\nsum(%a * %p.1)\n"
        closure = "let %y = exp(%x);\nlet %f = fn (%t: Tensor[(64, 32), float32]) { sum(%t * %y) };\n%f(exp(%y))\n%f(%y)\n"
        several = "let %l = Cons(exp(%x), Cons(tanh(%x), Nil));\nmatch (%l) { Cons(%a, _) => sum(tanh(%a)), Nil => 0f }\n"
        for cells in pair, closure, several:
            got, said = copies(cells)
            self.assertNotIn("error", said)
            self.assertEqual(got, once, cells)

    def test_replayed(self):
        """A run of several kernels is noted when a later call finds everything in the same places, and replayed from then on."""
        cells = ("def @f(%n: int32, %t: Tensor[(64, 64), float32]) { if (%n == 0) { sum(%t * %t) } else { "
                 "@f(%n - 1, nn.softmax(nn.dense(tanh(%t), nn.softmax(%t), units=None))) } }\nlet %y = nn.dense(%x, %x, units=None);\n")
        replayed, said = copies(cells + "@f(20, %y)\n", entry="cuGraphLaunch")
        self.assertGreater(replayed, 8, said)
        noted = copies(cells + "@f(20, %y)\n", entry="cuGraphInstantiateWithFlags")[0]
        self.assertLessEqual(noted, 4)
        wanted = subprocess.run([RELAY, "--exec", "interp"], input=FIRST + cells + "@f(20, %y)\n", capture_output=True, text=True).stdout
        got, wanted = (float(text.splitlines()[-1]) for text in (said, wanted))
        self.assertLess(abs(got - wanted), 1e-4 * abs(wanted))

    def test_recurrence(self):
        """Runs that follow each other as they did before are one graph, whatever the numbers are that they are given: a recurrence is asked for once."""
        step = "tanh(nn.dense(take(%xs, %i, axis=0), %w, units=None) + nn.dense(%h, %w, units=None))"
        types = "%h: Tensor[(2, 8), float32], %xs: Tensor[(16, 2, 8), float32], %w: Tensor[(8, 8), float32]"
        cells = (f"def @rnn(%i: int32, {types}) -> Tensor[(2, 8), float32] {{ if (%i == 16) {{ %h }} else {{ @rnn(%i + 1, {step}, %xs, %w) }} }}\n"
                 f"def @again(%k: int32, %s: float32, {types}) -> float32 {{ if (%k == 0) {{ %s }} else {{ let %last = @rnn(0, %h * %s, %xs, %w); "
                 "let %more = sum(%last); if (%more > 1000f) { %more } else { @again(%k - 1, %s + %more, %h, %xs, %w) } } }\n"
                 'let %xs = sin(reshape(cast(arange(0f, 256f, 1f), dtype="float32"), newshape=[16, 2, 8]));\n'
                 "let %w = reshape(strided_slice(%xs, begin=[4, 0, 0], end=[8, 2, 8], strides=[1], axes=None), newshape=[8, 8]) * 0.4f;\n"
                 "let %h = reshape(strided_slice(%xs, begin=[0, 0, 0], end=[1, 2, 8], strides=[1], axes=None), newshape=[2, 8]);\n")
        for entry, each in ("cuGraphLaunch", 1), ("cuLaunchKernel", 1), ("cuGraphInstantiateWithFlags", 0):
            few, said = copies(cells + "@again(8, 1f, %h, %xs, %w)\n", entry=entry)
            more, _ = copies(cells + "@again(18, 1f, %h, %xs, %w)\n", entry=entry)
            self.assertLessEqual(more - few, 10 * each, (entry, said))
        wanted = subprocess.run([RELAY, "--exec", "interp"], input=FIRST + cells + "@again(8, 1f, %h, %xs, %w)\n", capture_output=True, text=True).stdout
        got, wanted = (float(text.splitlines()[-1]) for text in (said, wanted))
        self.assertLess(abs(got - wanted), 1e-4 * (1 + abs(wanted)))

    def test_room(self):
        """Twins go where there is no room, and nothing else changes."""
        cells = "".join(f"let %y{i} = exp(%x + {i}f);\n" for i in range(12)) + "sum(" + " + ".join(f"%y{i}" for i in range(12)) + ")\n"
        _, wanted = copies(cells)
        _, got = copies(cells, STANDIN_MEMORY="150000")
        self.assertEqual(got, wanted)
        self.assertNotIn("error", got)

    def test_edges(self):
        """What nobody here reads never comes back from the card, and nothing is waited for in between."""
        loop = ("def @f(%n: int32, %t: Tensor[(64, 64), float32]) { if (%n == 0) { sum(%t) } else { @f(%n - 1, tanh(nn.dense(%t, %t, units=None))) } }\n"
                "let %y = nn.dense(%x, %x, units=None);\n")
        for entry, most in ("cuMemcpyDtoHAsync_v2", 0), ("cuEventQuery", 4):
            short, said = copies(loop + "@f(2, %y)\n", entry=entry)
            self.assertNotIn("error", said)
            self.assertLessEqual(copies(loop + "@f(12, %y)\n", entry=entry)[0] - short, most, entry)

    def test_readers(self):
        """What something here reads was brought before: references, values shown by a match that fails, functions and operators of the host."""
        for cells in ("let %r = ref(%x);\nlet %u = (%r := (%x + 1f));\nsum(%r!)\n",
                      "let %r = ref(0f);\ndef @g(%s: ref(float32), %v: Tensor[(64, 32), float32]) { (%s := sum((%v + 1f))); %s! }\n@g(%r, %x)\n",
                      "let %f = fn (%k: fn (Tensor[(64, 32), float32]) -> float32, %t: Tensor[(64, 32), float32]) { %k((%t + 1f)) };\n"
                      "%f(fn (%v: Tensor[(64, 32), float32]) -> float32 { sum(%v) }, %x)\n",
                      "match? (Cons((%x + 1f), Nil)) { Nil => 0f }\n",
                      "dyn.reshape((%x + 1f), cast(sum(%x) / full(2f, shape=[1]), dtype=\"int32\"))\n",
                      "sort((%x + 1f))\n", "unique(cast((reshape(%x, newshape=[-1]) + 1f), dtype=\"int32\"))\n"):
            _, said = copies(cells)
            wanted = subprocess.run([RELAY, "--exec", "interp"], input=FIRST + cells, capture_output=True, text=True)
            self.assertEqual(said.replace("gpu", ""), said_by(wanted).replace("gpu", ""), cells)

    def test_shown(self):
        """What is shown is what the card gets, once it was opened."""
        _, said = copies(":show ptx tanh(%x)\n")
        self.assertIn("\n.target sm_90a\n", said)
        done = subprocess.run([RELAY], input=FIRST + ":show ptx tanh(%x)\n", capture_output=True, text=True)
        self.assertIn("\n.target sm_80\n", done.stdout)

    def test_failures(self):
        """A context that is made anew has nothing of what lay on the card."""
        cells = "let %y = exp(%x);\nsum(%y)\nsum(tanh(%y))\nsum(tanh(%y))\n"
        _, wanted = copies(cells)
        _, got = copies(cells, STANDIN_FAIL="cuLaunchKernel:3:719")
        last = [[line for line in said.splitlines() if line[:1].isdigit()][-1] for said in (wanted, got)]
        self.assertEqual(*last)
        self.assertIn("E0408", got)


unittest.main()
