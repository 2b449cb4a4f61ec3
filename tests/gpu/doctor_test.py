"""`relay doctor` about the card: none, the stand-in, a driver that fails; and what `:engine gpu` says then."""

import os
import subprocess
import unittest


def relay(*args, text=None, **environment):
    environment = {**os.environ, "PATH": "/nowhere", **environment}
    return subprocess.run([os.environ["RELAY"], *args], env=environment, capture_output=True, text=True, timeout=100,
                          input=text)


class Doctor(unittest.TestCase):
    def line(self, **environment):
        out = relay("doctor", **environment)
        self.assertEqual((out.returncode, out.stderr), (0, ""))
        return next(line for line in out.stdout.split("\n") if " GPU " in line), out.stdout

    def test_card(self):
        line, text = self.line()
        self.assertEqual(line, "ok GPU         stand-in, sm_90, 4 multiprocessors, 4.0 GiB")
        self.assertIn("   driver      for CUDA 13.0\n", text)

    def test_several(self):
        self.assertTrue(self.line(STANDIN_DEVICES="4")[0].endswith("; the first of 4"))

    def test_no_card(self):
        line, text = self.line(STANDIN_DEVICES="0")
        self.assertEqual(line, "-- GPU         the driver finds no card; `:engine gpu` needs one")
        self.assertIn("   nvdisasm ", text)

    def test_failure(self):
        line, _ = self.line(STANDIN_FAIL="cuInit:1:999")
        self.assertEqual(line, "-- GPU         the driver does not start: error 999; `:engine gpu` needs one")
        line, _ = self.line(STANDIN_FAIL="cuDeviceGetName:1:201")
        self.assertIn("the driver does not say what there is: invalid device context (CUDA_ERROR_INVALID_CONTEXT, 201)",
                      line)

    def test_no_driver(self):
        line, _ = self.line(LD_LIBRARY_PATH="")
        if not line.startswith("ok"):
            self.assertEqual(line, "-- GPU         no driver (libcuda.so.1); `:engine gpu` needs one")

    def test_engine(self):
        for command in (["run", "--exec", "gpu", "-"], ["--exec", "gpu"]):
            out = relay(*command, text="def @main() { 1 }", STANDIN_DEVICES="0")
            self.assertEqual(out.returncode, 2, out.stderr)
            self.assertIn("error[E0407]: nothing runs on a GPU here: the driver finds no card", out.stderr)


unittest.main()
