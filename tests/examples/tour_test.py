"""The tour in a terminal: every item of it works, and both engines time what it times."""

import os
import re
import subprocess
import unittest

from examples import RELAY, SOURCE, complaints, has_jit

TOUR = os.path.join("examples", "tour.rly")


class Tour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.done = subprocess.run([RELAY, TOUR], cwd=SOURCE, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=300)
        cls.lines = cls.done.stdout.splitlines()

    def test_ends_well(self):
        self.assertEqual(self.done.returncode, 0, self.done.stdout + self.done.stderr)
        self.assertEqual(complaints(self.done.stderr), "")
        self.assertNotIn("error[", self.done.stdout)

    def test_values(self):
        for line in ("7", "81", "42", "6765", "5000050000", "[3.14159, 6, 0.7853975]", "ref(int32)",
                     "[[1, 11, 21], [31, 41, 51]] : Tensor[(2, 3), float32]",
                     "[3, 7, 3, 3, 4, 6, 6, 6, 4, 9] : Tensor[(10), int32]", "0.98888886"):
            self.assertIn(line, self.lines)

    def test_reasons(self):
        for line in ("  axis 1 is 4: `nn.dense` has `units=4` (line 117)",
                     "the type is fn (Tensor[(4, 3), float32]) -> Tensor[(2, 4), float32]",
                     "  11    @value(Number(2))         `@value` returns 2"):
            self.assertIn(line, [re.sub(r"line \d+", "line 117", line) for line in self.lines])

    def test_passes(self):
        for line in ("+  multiply(%y, 0.25f)", "-  let %unused = exp(%x);", "+    %1 = nn.dense(%p0, %p1, units=8);"):
            self.assertIn(line, self.lines)

    @unittest.skipUnless(has_jit(), "built without the JIT")
    def test_engines(self):
        timed = [line for line in self.lines if line.startswith("JIT ")]
        self.assertEqual(len(timed), 3)
        for line in timed:
            self.assertRegex(line, r"^JIT +[\d.]+ (µs|ms|s) +first ")
        self.assertIn("ret i32", self.done.stdout)


if __name__ == "__main__":
    unittest.main()
