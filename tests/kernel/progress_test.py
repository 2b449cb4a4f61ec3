"""The line below a cell that runs for long: shown after half a second, replaced in place, and gone in the end."""

import time
import unittest

from client import Kernel, is_progress

SPIN = "def @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }"
LONG = "@spin(1000000000000i64)"


class Progress(unittest.TestCase):
    def setUp(self):
        self.kernel = Kernel()
        self.addCleanup(self.kernel.__exit__, None, None, None)
        self.client = self.kernel.client()
        for code in (":engine interp", SPIN):
            self.assertEqual(self.client.execute(code)[0]["status"], "ok")

    def interrupted(self, code, n, **fields):
        """What a cell publishes that is interrupted when the line was shown n times."""
        running, seen = self.client.send("execute_request", {"code": code, **fields}), []
        while sum(map(is_progress, seen)) < n:
            message = self.client.receive("iopub")
            self.assertTrue(message, "no line")
            if message["parent_header"]["msg_id"] == running:
                seen.append(message)
        self.client.early = [*seen, *self.client.early]
        self.client.ask("interrupt_request", {}, "control")
        self.assertEqual(self.client.reply_to(running)["content"]["status"], "error")
        return self.client.published(running, progress=True)

    def test_alone(self):
        seen = self.interrupted(LONG, 3)
        lines = [m for m in seen if is_progress(m)]
        kinds = [m["header"]["msg_type"] for m in seen]
        self.assertEqual(kinds, ["execute_input", "display_data"] + ["update_display_data"] * (len(lines) - 1)
                         + ["clear_output", "error"])
        self.assertEqual(len({m["content"]["transient"]["display_id"] for m in lines}), 1)
        done = []
        for m in lines:
            text = m["content"]["data"]["text/plain"]
            self.assertRegex(text, r"^\d+ s  evaluating \d+ steps$")
            self.assertIn("<progress", m["content"]["data"]["text/html"])
            done.append(int(text.split()[3]))
        self.assertEqual(done, sorted(set(done)))

    def test_beside_something(self):
        """What was shown stays, so the line becomes empty."""
        seen = self.interrupted(":type 1\n" + LONG, 2)
        kinds = [m["header"]["msg_type"] for m in seen]
        self.assertNotIn("clear_output", kinds)
        self.assertEqual(kinds[:3], ["execute_input", "display_data", "display_data"])
        self.assertFalse(is_progress(seen[1]))
        last = [m for m in seen if is_progress(m)][-1]
        self.assertEqual(last["content"]["data"], {"text/plain": ""})
        self.assertEqual(kinds[-2:], ["update_display_data", "error"])

    def test_share(self):
        """Where the work can be counted beforehand, it says how much is done."""
        steps = "\n".join(f"let %v{i} = nn.conv2d(%x, %w, padding=[1, 1]);" for i in range(60))
        code = f"fn (%x: Tensor[(1, 32, 112, 112), float32], %w: Tensor[(32, 32, 3, 3), float32]) {{\n{steps}\n%v59 }}"
        ones = "(ones(shape=[1, 32, 112, 112], dtype=\"float32\"), ones(shape=[32, 32, 3, 3], dtype=\"float32\"))"
        self.client.execute(f"def @main{code[3:]}")
        began = time.monotonic()
        running = self.client.send("execute_request", {"code": f"@main{ones}"})
        self.client.reply_to(running, timeout=120)
        took = time.monotonic() - began
        lines = [m for m in self.client.published(running, 120, progress=True) if is_progress(m)]
        self.assertTrue(lines or took < 1, took)
        texts = [m["content"]["data"]["text/plain"] for m in lines]
        # Nothing is counted while a slow machine still checks the types, and none either while it makes a picture of the result.
        for end in (0, -1):
            while texts and texts[end].endswith(" s  running"):
                texts.pop(end)
        self.assertTrue(texts or took < 2, took)
        for text in texts:
            self.assertRegex(text, r"^\d+ s  [ \d]+ %  evaluating \d+ of 63 steps$")

    def test_silent(self):
        seen = []
        running = self.client.send("execute_request", {"code": "@spin(60000000i64)", "silent": True})
        self.client.reply_to(running, timeout=120)
        self.assertEqual(self.client.published(running, 120, progress=True), seen)


if __name__ == "__main__":
    unittest.main()
