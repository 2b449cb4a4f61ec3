"""What a kernel refuses for safety, and how much one cell may show."""

import os
import time
import unittest

from client import Kernel


class Refusals(unittest.TestCase):
    def refused(self, part, **options):
        kernel = Kernel(wait=False, **options)
        try:
            self.assertEqual(kernel.wait(), 2, kernel.output())
            self.assertIn(part, kernel.output())
        finally:
            kernel.close()

    def test_no_key(self):
        for ip in ("0.0.0.0", "*"):
            self.refused("the connection has no key", key="", connection={"ip": ip})

    def test_no_key_here(self):
        with Kernel(key="") as kernel:
            self.assertEqual(kernel.client().execute("1 + 2")[0]["status"], "ok")

    def test_open_file(self):
        for mode in (0o644, 0o640, 0o604):
            self.refused("others can read the connection file", mode=mode)

    def test_switch(self):
        with Kernel(mode=0o644, environment={"JUPYTER_ALLOW_INSECURE_WRITES": "true"}) as kernel:
            self.assertEqual(kernel.client().execute("1 + 2")[0]["status"], "ok")


SHOW = "let %z = cast(arange(0, 100000, 1), dtype=\"float32\") * 1.234567f;"


class Output(unittest.TestCase):
    def test_flood(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.execute(":limit output 10000000")
            client.execute(SHOW)
            started = time.monotonic()
            reply, published = client.execute("%z\n" * 20)
            self.assertEqual(reply["status"], "ok")
            shown = sum(len(str(m["content"])) for m in published)
            notices = [m for m in published if m["content"].get("name") == "stderr"]
            self.assertLess(shown, 10 << 20)
            self.assertGreater(shown, 1 << 20)
            self.assertEqual(len(notices), 1)
            self.assertIn("no more of it is shown", notices[0]["content"]["text"])
            # No faster than Jupyter's server lets through.
            self.assertGreater(time.monotonic() - started, shown / 4e6)
            self.assertEqual(client.execute("1 + 2")[0]["status"], "ok")

    def test_interrupt(self):
        """Waiting between outputs ends at an interrupt."""
        with Kernel() as kernel:
            client = kernel.client()
            client.execute(":limit output 10000000")
            client.execute(SHOW)
            client.send("execute_request", {"code": "%z\n" * 20})
            time.sleep(1)
            started = time.monotonic()
            client.ask("interrupt_request", {}, "control")
            self.assertIsNotNone(client.receive("shell"))
            self.assertLess(time.monotonic() - started, 2)


if __name__ == "__main__":
    unittest.main()
