"""Folds of very many elements into few results: parts of them are folded by threads at once. They are what the evaluator folds, and the same
bits on any number of threads."""

import json
import os
import subprocess
import tempfile
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")

# Numbers whose sums are exact in any order, each fold with another way to come apart, the last ones with none.
PROGRAM = """#[version = "0.0.5"]
def @main() {
  let %i = arange(0, 1048576, 1, dtype="int32");
  let %x = cast(mod(%i, 17) - 8, dtype="float32");
  let %m = reshape(%x, newshape=[1024, 1024]);
  let %planes = reshape(%x, newshape=[2, 512, 1024]);
  let %columns = reshape(%x, newshape=[262144, 4]);
  let %prime = take(%x, arange(0, 1000003, 1, dtype="int32"));
  (sum(%x), sum(%m, axis=[0, 1]), mean(%m), sum(%planes, axis=[1, 2]), sum(%planes, axis=[0, 2]),
   sum(%columns, axis=[0]), sum(abs(%columns)), sum(nn.relu(%m) + 1f), prod(abs(%x * 0f) + 1f),
   sum(%i), prod(bitwise_or(%i, 1)), max(%i), min(%i), all(%i >= 0), any(%i > 1048574), any(%i < 0),
   sum(%prime), max(%x), argmax(%m), sum(cast(%columns, dtype="float64"), axis=[0]))
}
"""

RANDOM = """#[version = "0.0.5"]
def @main(%x: Tensor[(1024, 1024), float32], %y: Tensor[(3, 50000, 2), float32]) {
  (sum(%x), mean(%x), sum(%x * %x), sum(%y, axis=[0, 1]), prod(%x * 0f + 1f), sum(exp(%y)))
}
"""


class PartialSums(unittest.TestCase):
    def in_file(self, text, *command):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sums.rly")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return subprocess.run([RELAY, command[0], path, *command[1:]], capture_output=True, text=True, check=True).stdout

    def test_engines(self):
        wanted = self.in_file(PROGRAM, "run", "--exec", "interp")
        for more in ([], ["-O", "0"], ["--exact"]):
            self.assertEqual(wanted, self.in_file(PROGRAM, "run", "--exec", "jit", *more), more)

    def test_threads(self):
        outs = [json.loads(self.in_file(RANDOM, "bench", "--random", "5", "--threads", str(n), "--seconds", "0.01", "--runs", "1", "--json"))
                for n in (1, 2, 3)]
        self.assertEqual(outs[0]["out"], outs[1]["out"])
        self.assertEqual(outs[0]["out"], outs[2]["out"])

    def test_parts(self):
        for fold in ("sum(%x)", "sum(%x, axis=[1, 0])", "mean(%x)"):
            text = '#[version = "0.0.5"]\ndef @main(%%x: Tensor[(1024, 1024), float32]) { %s }\n' % fold
            self.assertIn(" i0 in 0..32:\n", self.in_file(text, "compile", "--emit", "lowered"))


if __name__ == "__main__":
    unittest.main()
