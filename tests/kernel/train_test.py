"""`:train` in a notebook: one picture that is replaced while a cell runs, and what an interrupt leaves."""

import unittest

from client import Kernel

STEP = """def @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }
def @step(%s: int32) -> (int32, float32) { (%s + 1 + cast(@spin(300000i64), dtype="int32"), 1f / cast(%s + 1, dtype="float32")) }
let %s = 0;"""


class Train(unittest.TestCase):
    def setUp(self):
        self.kernel = Kernel()
        self.addCleanup(self.kernel.__exit__, None, None, None)
        self.client = self.kernel.client()
        self.assertEqual(self.client.execute(STEP)[0]["status"], "ok")

    def value(self, code):
        for message in self.client.execute(code)[1]:
            if message["header"]["msg_type"] == "execute_result":
                return message["content"]["data"]["text/plain"]
        return None

    def pictures(self, running, n):
        """The first n pictures of a cell that goes on."""
        found = []
        while len(found) < n:
            message = self.client.receive("iopub")
            self.assertTrue(message, "no picture")
            if message["header"]["msg_type"].endswith("display_data") and message["parent_header"]["msg_id"] == running:
                found.append(message)
        return found

    def test_pictures(self):
        running = self.client.send("execute_request", {"code": ":train steps=1000000 %s @step(%s)"})
        shown = self.pictures(running, 3)
        self.client.ask("interrupt_request", {}, "control")
        reply = self.client.reply_to(running)["content"]
        self.assertEqual(reply["status"], "error")
        text = "\n".join(reply["traceback"])
        self.assertIn("`%s` is what step ", text)
        kinds = [m["header"]["msg_type"] for m in shown]
        self.assertEqual(kinds, ["display_data", "update_display_data", "update_display_data"])
        ids = {m["content"]["transient"]["display_id"] for m in shown}
        self.assertEqual(len(ids), 1, ids)
        for m in shown:
            self.assertIn("<svg", m["content"]["data"]["text/html"])
            self.assertIn("of 1000000", m["content"]["data"]["text/plain"])
        done = int(text.split("is what step ")[1].split()[0])
        self.assertGreater(done, 0)
        self.assertEqual(self.value("%s"), str(done))

    def test_another_picture(self):
        """Each cell has a picture of its own, and the last one says where it ended."""
        ids = []
        for i in range(2):
            reply, messages = self.client.execute(":train steps=2 %s @step(%s)")
            self.assertEqual(reply["status"], "ok")
            shown = [m["content"] for m in messages if m["header"]["msg_type"] == "display_data"]
            self.assertEqual(len(shown), 1)
            self.assertIn("step 2 of 2", shown[0]["data"]["text/plain"])
            ids.append(shown[0]["transient"]["display_id"])
        self.assertNotEqual(*ids)
        self.assertEqual(self.value("%s"), "4")


if __name__ == "__main__":
    unittest.main()
