"""A kernel in the sandbox serves notebooks, and they open nothing."""

import os
import socket
import unittest

from client import Kernel

# The leak check at the end of a sanitizer's build wants another process.
PLAIN = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def free_ports():
    """Ports that Jupyter would have written into the connection file."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
    names = ("shell_port", "control_port", "stdin_port", "iopub_port", "hb_port")
    ports = {name: s.getsockname()[1] for name, s in zip(names, sockets)}
    for s in sockets:
        s.close()
    return ports


def sandboxed():
    return Kernel(connection=free_ports(), options=["--sandbox"], environment=PLAIN)


class Sandbox(unittest.TestCase):
    def test_cells(self):
        with sandboxed() as kernel:
            client = kernel.client()
            self.assertEqual(client.execute("def @f(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @f(%n - 1) } }\n"
                                            "@f(1000)")[0]["status"], "ok")
            product = 'nn.dense(ones(shape=[64, 64], dtype="float32"), ones(shape=[64, 64], dtype="float32"), units=64)'
            self.assertEqual(client.execute(product)[0]["status"], "ok")
            # A client that comes later, over sockets that there are.
            self.assertEqual(kernel.client().execute("1 + 2")[0]["status"], "ok")

    def test_files(self):
        with sandboxed() as kernel:
            client = kernel.client()
            for cell in (":load /etc/passwd", 'import "/etc/passwd"', f":load {kernel.file}"):
                reply, published = client.execute(cell)
                self.assertEqual(reply["status"], "error", cell)
                self.assertNotIn("root:", str(published))
                self.assertIn("Permission denied", str(published))
            self.assertFalse(os.path.exists(os.path.join(kernel.folder, "relay")), "a history was written")

    def test_ports(self):
        """Ports that are not known yet could not be written down."""
        kernel = Kernel(wait=False, options=["--sandbox"], environment=PLAIN)
        try:
            self.assertEqual(kernel.wait(), 2, kernel.output())
            self.assertIn("cannot write the connection file", kernel.output())
        finally:
            kernel.close()


if __name__ == "__main__":
    unittest.main()
