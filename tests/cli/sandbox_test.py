"""`relay run --sandbox`: what is named is read, nothing else; both engines give the same as outside."""

import json
import os
import subprocess
import tempfile
import unittest

PROGRAM = """#[version = "0.0.5"]
def @count(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @count(%n - 1) } }
def @main(%n: int32, %x: Tensor[(48, 48), float32]) { (@count(%n), sum(nn.dense(%x, %x, units=None))) }
"""
# The leak check at the end of a sanitizer's build wants another process.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
ENGINES = ["interp", "jit"] if os.environ.get("RELAY_ENGINES", "interp,jit").count("jit") else ["interp"]


class Sandbox(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file("program.rly", PROGRAM)
        self.file("other.rly", "def @other() { 1 }\n")
        data = {"dtype": "float32", "shape": [48, 48], "data": [0.5] * 48 * 48}
        self.file("args.json", json.dumps([{"dtype": "int32", "shape": [], "data": [1000]}, data]))

    def tearDown(self):
        self.folder.cleanup()

    def file(self, name, text):
        with open(os.path.join(self.folder.name, name), "w") as f:
            f.write(text)

    def relay(self, *args, text=None):
        return subprocess.run([os.environ["RELAY"], "run", *args], cwd=self.folder.name, env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=100, input=text)

    def test_same(self):
        for engine in ENGINES:
            usual = ("--exec", engine, "--args", "args.json", "program.rly")
            inside, outside = self.relay("--sandbox", *usual), self.relay(*usual)
            self.assertEqual((inside.returncode, inside.stdout), (0, outside.stdout), inside.stderr)

    def test_standard_input(self):
        done = self.relay("--sandbox", "-", text="add(1, 2)")
        self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "3"), done.stderr)

    def test_not_named(self):
        # Libraries of the system can be opened, and are no texts for a program.
        for name in ("other.rly", "/etc/passwd", "/usr/lib/os-release"):
            self.file("imports.rly", f'#[version = "0.0.5"]\nimport "{name}"\ndef @main() {{ 1 }}\n')
            done = self.relay("--sandbox", "imports.rly")
            self.assertEqual(done.returncode, 2)
            self.assertIn("Permission denied", done.stderr)

    def test_limits(self):
        self.file("loop.rly", "def @f(%n: int32) -> int32 { @f(%n) }\ndef @main() { @f(1) }\n")
        for engine in ENGINES:
            self.assertEqual(self.relay("--sandbox", "--exec", engine, "--time-limit", "0.3", "loop.rly").returncode, 3)

    def test_no_output(self):
        done = self.relay("--sandbox", "--out", "out.npz", "--args", "args.json", "program.rly")
        self.assertEqual(done.returncode, 2)
        self.assertIn("writes no file", done.stderr)

    def test_no_device(self):
        done = self.relay("--sandbox", "--exec", "gpu", "--args", "args.json", "program.rly")
        self.assertEqual(done.returncode, 2)
        self.assertIn("opens no device", done.stderr)


if __name__ == "__main__":
    unittest.main()
