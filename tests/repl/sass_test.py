"""The machine code of a GPU's kernels, by tools that are there, that are not, and that refuse."""

import os
import subprocess
import tempfile
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")
CELL = ":show sass fn (%x: Tensor[(4), float32]) { add(%x, 1f) }\n"

ASSEMBLER = """#!/bin/sh
[ "$1" = -arch=sm_80 ] && grep -q 'visible .entry add_1' "$4" && echo code > "$3"
"""
READER = """#!/bin/sh
[ "$1" = -c ] && grep -q code "$2" && echo 'FADD R1, R1, 1 ;'
"""
REFUSES = "#!/bin/sh\necho 'line 7: no' >&2\nexit 1\n"


@unittest.skipIf(subprocess.run([RELAY, "compile", "-", "--emit", "ptx"], input="fn (%x: int32) { add(%x, 1) }", text=True,
                                capture_output=True).returncode != 0, "no JIT")
class Sass(unittest.TestCase):
    def show(self, **tools):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in tools.items():
                path = os.path.join(folder, name)
                with open(path, "w") as file:
                    file.write(text)
                os.chmod(path, 0o755)
            kept = os.path.join(folder, "kept")
            os.mkdir(kept)
            run = subprocess.run([RELAY], input=CELL, text=True, capture_output=True, timeout=60,
                                 env={**os.environ, "PATH": f"{folder}:/usr/bin:/bin", "TMPDIR": kept})
            self.assertEqual([], os.listdir(kept))
            return run.stdout + run.stderr

    def test_tools(self):
        self.assertIn("FADD R1, R1, 1 ;", self.show(ptxas=ASSEMBLER, nvdisasm=READER))

    def test_refusal(self):
        said = self.show(ptxas=REFUSES, nvdisasm=READER)
        self.assertIn("error[E0404]: NVIDIA's tools refused: line 7: no", said)

    @unittest.skipIf(os.path.exists("/usr/local/cuda/bin/nvdisasm"), "there is one")
    def test_missing(self):
        said = self.show(ptxas=ASSEMBLER)
        self.assertIn("error[E0404]", said)
        self.assertIn("there is no `nvdisasm`", said)


if __name__ == "__main__":
    unittest.main()
