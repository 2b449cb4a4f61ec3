"""Arrays of a file become variables that a cell can name, each its own, whatever they are called in the file."""

import os
import struct
import subprocess
import tempfile
import unittest
import zipfile

RELAY = os.environ["RELAY"]


def array(value):
    """A .npy file of one number."""
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<i", value)


class Names(unittest.TestCase):
    def test_names(self):
        arrays = {"a.b": "a_b", "a_b": "a_b_", "0.weight": "array_0_weight", "7": "array_7", "": "array",
                  "_": "array__", "_1": "array__1", "_x": "_x"}
        with tempfile.TemporaryDirectory() as folder:
            with zipfile.ZipFile(os.path.join(folder, "a.npz"), "w") as file:
                for i, name in enumerate(arrays):
                    file.writestr(name + ".npy", array(i))
            cells = ":params a.npz\n" + "".join(f"%{name}\n" for name in arrays.values())
            ended = subprocess.run([RELAY], input=cells, cwd=folder, text=True, capture_output=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        lines = ended.stdout.splitlines()
        self.assertEqual(lines[:len(arrays)], [f"%{name}: Tensor[(1), int32]" for name in arrays.values()])
        self.assertEqual(lines[len(arrays):], [f"[{i}] : Tensor[(1), int32]" for i in range(len(arrays))])


if __name__ == "__main__":
    unittest.main()
