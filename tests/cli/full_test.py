"""What is written when there is no room: an error that says so, and the session goes on. Nobody is ended by the signal that a file
larger than allowed comes with, and the kernel says in its log that its history is not kept."""

import os
import resource
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernel"))

from client import Kernel  # noqa: E402

RELAY = os.environ["RELAY"]
ROOM = 40 << 10
CELLS = """let %x = ones(shape=[300, 300]);
:write %x out.npz
:export out.onnx nn.relu(%x)
:save out.rly
1 + 1
"""


class Full(unittest.TestCase):
    def test_a_session(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run([RELAY], input=CELLS, cwd=folder, env={**os.environ, "XDG_STATE_HOME": folder},
                                   text=True, capture_output=True,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM)))
            self.assertEqual(ended.returncode, 2, ended.stderr)
            for name in ("out.npz", "out.onnx"):
                self.assertIn(f"cannot write `{name}`: File too large", ended.stderr)
            self.assertTrue(ended.stdout.endswith("\n2\n"), ended.stdout)
            self.assertEqual(os.listdir(folder), ["out.rly"])     # and nothing unfinished

    def test_the_history_of_a_kernel(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.execute("1 + 2")
            question = {"hist_access_type": "tail", "n": 9, "raw": True, "output": False}
            self.assertEqual([row[2] for row in client.ask("history_request", question)[0]["history"]], ["1 + 2"])
            log = os.path.join(kernel.folder, "relay", "history.sqlite-wal")
            room = os.path.getsize(log)
            resource.prlimit(kernel.process.pid, resource.RLIMIT_FSIZE, (room, room))
            client.execute("3 + 4")
            found = [row[2] for row in client.ask("history_request", question)[0]["history"]]
            self.assertEqual(found, ["1 + 2", "3 + 4"])
            client.execute("5 + 6")
            client.ask("history_request", question)     # entries are written after the answer
            self.assertEqual(kernel.output().count("is not kept for later"), 1, kernel.output())


if __name__ == "__main__":
    unittest.main()
