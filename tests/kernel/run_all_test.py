"""What a client sends before it can have seen that a cell failed does not run, whatever the gaps between its requests,
and what it sends after that does. tests/notebook/run_all.py looks at the same in JupyterLab."""

import datetime
import time
import unittest

from client import Kernel

TRIES = 5
BEHIND = 3


def date(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


class RunAll(unittest.TestCase):
    def test_gaps(self):
        with Kernel() as kernel:
            client = kernel.client()
            for gap in (0, 0.001, 0.003, 0.01):
                for _ in range(TRIES):
                    client.send("execute_request", {"code": "%nothing"})
                    sent = []
                    for _ in range(BEHIND):
                        time.sleep(gap)
                        sent.append(date(time.time()))
                        client.send("execute_request", {"code": "1 + 1"})
                    failed, *replies = (client.receive("shell") for _ in range(BEHIND + 1))
                    self.assertEqual(failed["content"]["ename"], "E0110")
                    for made, reply in zip(sent, replies):
                        # On a busy machine this program may be slower than the reply.
                        if made < failed["header"]["date"].replace("Z", ""):
                            self.assertEqual(reply["content"].get("ename"), "ExecutionAborted", f"a gap of {gap} s")
                            self.assertIsNone(reply["content"]["execution_count"])

    def test_behind_the_reply(self):
        with Kernel() as kernel:
            client = kernel.client()
            for count in range(TRIES):
                client.send("execute_request", {"code": "%nothing"})
                client.receive("shell")
                client.send("execute_request", {"code": "1 + 1"})
                self.assertEqual(client.receive("shell")["content"]["status"], "ok")

    def test_late(self):
        """Requests that were long under way, by a clock that goes wrong by a minute."""
        for wrong in (-60, 0, 60):
            with Kernel() as kernel:
                client = kernel.client()
                client.send("execute_request", {"code": "%nothing"}, date=date(time.time() + wrong))
                sent = date(time.time() + wrong)
                self.assertEqual(client.receive("shell")["content"]["ename"], "E0110")
                for made, status in ((sent, "error"), (date(time.time() + wrong), "ok"), (sent, "ok")):
                    client.send("execute_request", {"code": "1 + 1"}, date=made)
                    self.assertEqual(client.receive("shell")["content"]["status"], status)

    def test_no_dates(self):
        with Kernel() as kernel:
            client = kernel.client()
            for bad in ("", "yesterday", "2024-01-01T00:00:00.000000Z", "9999-99-99T99:99:99"):
                client.send("execute_request", {"code": "%nothing"}, date=bad)
                client.receive("shell")
                time.sleep(2)
                client.send("execute_request", {"code": "1 + 1"}, date=bad)
                self.assertEqual(client.receive("shell")["content"]["status"], "ok", bad)


if __name__ == "__main__":
    unittest.main()
