"""What is answered while a cell runs: completion, inspection, history and the like, of all that was defined before.

Prints how long the answers take in a session of 5,000 definitions, idle and busy. The fourth fastest of fifteen is held to the target,
or of sixty on a machine with much other work: that makes some answers late, and what the kernel takes all.
"""

import statistics
import time
import unittest

from client import Kernel, slowness

ANSWER_MS = 20
LOOP = "def @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }\n@spin(0i64)"
FOREVER = "@spin(1000000000000i64)"


class Aside(unittest.TestCase):
    def setUp(self):
        self.kernel = Kernel()
        self.addCleanup(self.kernel.__exit__, None, None, None)
        self.client = self.kernel.client()
        self.client.execute(LOOP)

    def begin(self):
        """Runs a cell that goes on for long."""
        self.running = self.client.send("execute_request", {"code": FOREVER})
        while True:
            message = self.client.receive("iopub")
            if message["header"]["msg_type"] == "execute_input":
                break
        time.sleep(0.1)

    def end(self):
        """Interrupts it; what came of it."""
        self.client.ask("interrupt_request", {}, "control")
        reply = self.client.receive("shell")
        self.assertEqual(reply["parent_header"]["msg_id"], self.running)
        return reply["content"]

    def ask(self, kind, **content):
        """The reply's content, and the states that all clients see, each with whether it is that of the running cell."""
        message_id = self.client.send(kind, content)
        reply = self.client.receive("shell")
        self.assertEqual(reply["parent_header"]["msg_id"], message_id)
        states = []
        while not states or states[-1] != ("busy", True):
            message = self.client.receive("iopub", 5)
            self.assertTrue(message, states)
            parent = message["parent_header"].get("msg_id")
            if message["header"]["msg_type"] == "status" and parent in (message_id, self.running):
                states.append((message["content"]["execution_state"], parent == self.running))
        return reply["content"], states

    def matches(self, code):
        return self.ask("complete_request", code=code, cursor_pos=len(code))[0]["matches"]

    def inspected(self, code):
        return self.ask("inspect_request", code=code, cursor_pos=len(code), detail_level=0)[0]["data"].get("text/plain", "")

    def test_answers_and_states(self):
        self.client.execute("let %weights = 1f;\ntype Shape { Round(float32), Square }")
        self.begin()
        content, states = self.ask("complete_request", code="@sp", cursor_pos=3)
        self.assertEqual(content["matches"], ["@spin"])
        self.assertEqual(states, [("busy", False), ("idle", False), ("busy", True)])
        self.assertEqual(self.matches("%wei"), ["%weights"])
        self.assertIn("Square", self.matches("Squ"))
        self.assertIn("fn (int64) -> int64", self.inspected("@spin"))
        self.assertIn("%weights: float32", self.inspected("%weights"))
        self.assertIn("nn.relu", self.inspected("nn.relu"))
        self.assertEqual(self.ask("is_complete_request", code="let %x =")[0]["status"], "incomplete")
        self.assertEqual(len(self.ask("history_request", hist_access_type="tail", n=2)[0]["history"]), 2)
        self.assertEqual(self.ask("kernel_info_request")[0]["implementation"], "relay")
        self.assertEqual(self.end()["status"], "error")

    def test_what_changes(self):
        steps = [
            ("def @first(%x: int32) -> int32 { %x }", "@fir", ["@first"]),
            ("def @first(%x: float32) -> float32 { %x }\ndef @other(%x: float32) -> float32 { @first(%x) }", "@ot", ["@other"]),
            ("let %seen = @other(2f);", "%se", ["%seen"]),
            (":undo", "%se", []),
            ("type Tree { Leaf, Node(Tree, Tree) }\nlet %tree = Node(Leaf, Leaf);", "%tr", ["%tree"]),
            ("type Tree { Leaf, Node(Tree, int32, Tree) }", "Nod", ["Node"]),
            (":reset", "@other", []),
        ]
        for code, question, want in steps:
            with self.subTest(code=code):
                self.client.execute(code)
                if code == ":reset":
                    self.client.execute(LOOP)
                self.begin()
                self.assertEqual(self.matches(question), want)
                if question == "@ot":
                    self.assertIn("float32", self.inspected("@first"))
                self.end()

    def test_checks_what_is_written(self):
        self.client.send("comm_open", {"comm_id": "one", "target_name": "relay.check", "data": {}})
        self.begin()
        self.assertEqual(self.ask("comm_info_request")[0]["comms"], {"one": {"target_name": "relay.check"}})
        self.client.send("comm_msg", {"comm_id": "one", "data": {"seq": 7, "code": "let %ä = @spin(1f);"}})
        while True:
            message = self.client.receive("iopub", 5)
            self.assertTrue(message)
            if message["header"]["msg_type"] == "comm_msg":
                break
        self.assertEqual(message["content"]["data"]["seq"], 7)
        problem = message["content"]["data"]["problems"][0]
        self.assertEqual((problem["severity"], problem["from"], problem["to"]), ("error", 4, 6))
        self.end()

    def test_cells_wait_in_order(self):
        self.begin()
        waiting = [self.client.send("execute_request", {"code": f"{i} + 1", "stop_on_error": False}) for i in range(3)]
        self.assertEqual(self.matches("@sp"), ["@spin"])
        self.client.ask("interrupt_request", {}, "control")
        got = []
        while len(got) < 4:
            got.append(self.client.receive("shell"))
        self.assertEqual([m["parent_header"]["msg_id"] for m in got], [self.running, *waiting])
        # They were sent before the failure could be seen.
        self.assertEqual({m["content"].get("ename") for m in got[1:]}, {"ExecutionAborted"})
        self.assertEqual(self.client.execute("1 + 1")[0]["status"], "ok")

    def test_shutdown_on_shell(self):
        self.begin()
        self.client.send("shutdown_request", {"restart": False})
        self.assertTrue(self.client.receive("shell")["content"]["status"] == "ok")
        self.assertEqual(self.kernel.wait(), 0)

    def checked(self, message_id):
        """The answer to a text that is written."""
        while True:
            message = self.client.receive("iopub", 5)
            self.assertTrue(message)
            if message["parent_header"].get("msg_id") == message_id and message["header"]["msg_type"] == "comm_msg":
                return message

    def test_results_in_a_text(self):
        """`%_` is what the text gave last, and `%_2` what the second cell did, whatever the text gives second."""
        self.client.execute("7")
        self.client.send("comm_open", {"comm_id": "check", "target_name": "relay.check", "data": {}})
        message_id = self.client.send("comm_msg", {"comm_id": "check", "data": {"seq": 1, "code": "2f\n%_ + 1f\n%_2 + 1\n%_ + 2f"}})
        found = self.checked(message_id)["content"]["data"]["problems"]
        self.assertEqual([(x["code"], x["from"]) for x in found], [("E0203", 19)], found)

    def test_how_long_it_takes(self):
        for start in range(0, 5000, 50):
            self.client.execute("\n".join(f"def @f{i}(%x: Tensor[({i % 7 + 1}), float32]) {{ %x + {i}f }}"
                                          for i in range(start, start + 50)))
        questions = [("complete_request", {"code": "@f49", "cursor_pos": 4}), ("complete_request", {"code": "nn.", "cursor_pos": 3}),
                     ("inspect_request", {"code": "@f4999", "cursor_pos": 6, "detail_level": 0}),
                     ("is_complete_request", {"code": "@f1("}), ("history_request", {"hist_access_type": "tail", "n": 20}),
                     ("complete_request", {"code": "@f2(%", "cursor_pos": 5}),
                     ("comm_msg", {"comm_id": "check", "data": {"seq": 1, "code": "let %z = @f2(_) + 1f;\ndef @g(%x: Tensor[(3), float32]) { @f2(@f9(%x)) }"}})]
        self.client.execute("let %a = ones(shape=[3], dtype=\"float32\");")
        self.client.send("comm_open", {"comm_id": "check", "target_name": "relay.check", "data": {}})

        bound = ANSWER_MS * slowness()

        def measure(name):
            for kind, content in questions:
                times = []
                while len(times) < 15 or (len(times) < 60 and sorted(times)[3] >= bound):
                    started = time.perf_counter()
                    message_id = self.client.send(kind, content)
                    reply = self.client.receive("shell") if kind != "comm_msg" else self.checked(message_id)
                    times.append((time.perf_counter() - started) * 1000)
                    self.assertEqual(reply["parent_header"]["msg_id"], message_id)
                    self.assertIn(reply["content"].get("status", "ok"), ("ok", "incomplete"))
                quick = sorted(times)[3]
                print(f"{name}: {kind:20} {quick:6.2f} ms, median {statistics.median(times):6.2f} ms, most {max(times):6.2f} ms")
                self.assertLess(quick, bound, content)

        measure("idle")
        self.begin()
        self.assertIn("@f4999", self.matches("@f499"))
        measure("busy")
        self.end()


if __name__ == "__main__":
    unittest.main()
