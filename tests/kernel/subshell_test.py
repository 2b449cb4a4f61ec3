"""Subshells: requests beside the main shell. Their cells take turns with its cells; all else is answered at once."""

import unittest

from client import Kernel, types

LOOP = "def @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }\nlet %x = 7;"
FOREVER = "@spin(1000000000000i64)"


class Subshells(unittest.TestCase):
    def setUp(self):
        self.kernel = Kernel()
        self.addCleanup(self.kernel.__exit__, None, None, None)
        self.client = self.kernel.client()

    def control(self, kind, **content):
        return self.client.ask(kind, content, "control")[0]

    def create(self):
        reply = self.control("create_subshell_request")
        self.assertEqual(reply["status"], "ok")
        return reply["subshell_id"]

    def execute(self, shell, code, **fields):
        running = self.client.send("execute_request", {"code": code, **fields}, subshell_id=shell)
        return self.client.reply_to(running)["content"], self.client.published(running)

    def test_announced(self):
        info = self.client.ask("kernel_info_request", {})[0]
        self.assertIn("kernel subshells", info["supported_features"])
        for link in info["help_links"]:
            self.assertTrue(link["text"] and link["url"].startswith("https://"), link)
        self.assertTrue(info["help_links"])

    def test_made_and_ended(self):
        one, two = self.create(), self.create()
        self.assertEqual(self.control("list_subshell_request")["subshell_id"], [one, two])
        self.assertEqual(self.control("delete_subshell_request", subshell_id=one), {"status": "ok"})
        self.assertEqual(self.control("list_subshell_request")["subshell_id"], [two])
        for wrong in (one, "nobody"):
            self.assertEqual(self.control("delete_subshell_request", subshell_id=wrong)["ename"], "NoSuchSubshell")
            self.assertEqual(self.execute(wrong, "1 + 1")[0]["ename"], "NoSuchSubshell")
        self.assertEqual(self.control("delete_subshell_request")["ename"], "BadRequest")

    def test_one_session_several_counts(self):
        shell = self.create()
        self.assertEqual(self.client.execute("let %x = 20;")[0]["execution_count"], 1)
        reply, published = self.execute(shell, "%x + 1")
        self.assertEqual((reply["status"], reply["execution_count"]), ("ok", 1))
        self.assertEqual(types(published), ["execute_input", "execute_result"])
        self.assertEqual(published[1]["content"]["data"]["text/plain"], "21")
        self.assertEqual(published[1]["content"]["execution_count"], 1)
        self.assertEqual(self.execute(shell, "let %y = 1;")[0]["execution_count"], 2)
        reply, published = self.client.execute("%y + %x")
        self.assertEqual((reply["execution_count"], published[-1]["content"]["data"]["text/plain"]), (2, "21"))
        history = self.client.ask("history_request", {"hist_access_type": "tail", "n": 9})[0]["history"]
        self.assertEqual([line[2] for line in history], ["let %x = 20;", "%x + 1", "let %y = 1;", "%y + %x"])
        main, beside = history[0][0], history[1][0]
        self.assertEqual([line[:2] for line in history], [[main, 1], [beside, 1], [beside, 2], [main, 2]])
        asked = self.client.send("history_request", {"hist_access_type": "range", "session": 0, "start": 1}, subshell_id=shell)
        self.assertEqual([line[2] for line in self.client.reply_to(asked)["content"]["history"]], ["%x + 1", "let %y = 1;"])
        own = self.client.ask("history_request", {"hist_access_type": "range", "session": 0, "start": 1})[0]["history"]
        self.assertEqual([line[2] for line in own], ["let %x = 20;", "%y + %x"])

    def test_turns(self):
        """A cell of a subshell goes before those that wait in the main shell, and what fails in the one ends nothing in the other."""
        shell = self.create()
        self.client.execute(LOOP)
        running = self.client.send("execute_request", {"code": FOREVER})
        while self.client.receive("iopub")["header"]["msg_type"] != "execute_input":
            pass
        waiting = self.client.send("execute_request", {"code": "1 + 1"})
        beside = self.client.send("execute_request", {"code": "%x"}, subshell_id=shell)
        asked = self.client.send("complete_request", {"code": "@spi", "cursor_pos": 4}, subshell_id=shell)
        self.assertEqual(self.client.reply_to(asked)["content"]["matches"], ["@spin"])
        self.client.ask("interrupt_request", {}, "control")
        got = [self.client.receive("shell") for _ in range(3)]
        self.assertEqual([m["parent_header"]["msg_id"] for m in got], [running, beside, waiting])
        self.assertEqual([m["content"]["status"] for m in got], ["error", "ok", "error"])
        self.assertEqual(self.execute(shell, "%nothing")[0]["status"], "error")
        self.assertEqual(self.client.execute("2 + 2")[0]["status"], "ok")


if __name__ == "__main__":
    unittest.main()
