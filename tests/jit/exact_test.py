"""With --exact the number of threads changes no bit of a result."""

import json
import os
import subprocess
import tempfile
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")

PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 40, 40), float32], %w: Tensor[(32, 16, 3, 3), float32], %b: Tensor[(32), float32],
          %v: Tensor[(700, 800), float32], %u: Tensor[(300, 800), float32]) {
  let %c = nn.relu(nn.bias_add(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]), %b));
  let %d = nn.softmax(nn.dense(%v, %u, units=300), axis=-1);
  (sum(%c), %c, mean(%d, axis=[0]), %d, sum(%v), variance(%v, mean(%v, axis=[1], keepdims=True), axis=[1]))
}
"""


class Exact(unittest.TestCase):
    def out(self, path, threads, *more):
        done = subprocess.run([RELAY, "bench", path, "--random", "3", "--threads", str(threads), "--seconds", "0.01", "--runs", "1",
                               "--json", *more], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["out"]

    def test_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "exact.rly")
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM)
            one = self.out(path, 1, "--exact")
            self.assertEqual(one, self.out(path, 2, "--exact"))
            self.assertEqual(one, self.out(path, 3, "--exact", "-O", "0"))
            for here, there in zip(one["spread"], self.out(path, 1)["spread"]):
                self.assertAlmostEqual(here, there, delta=1e-4 * max(1, abs(here)))


if __name__ == "__main__":
    unittest.main()
