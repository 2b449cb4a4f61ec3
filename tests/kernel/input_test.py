"""What a cell asks the person who sent it (`input_request`): a file that is there, what `:reset` forgets, an argument that is missing.
Through bare sockets, where every message is looked at, and through jupyter_client."""

import json
import os
import time
import unittest

from jupyter_client import BlockingKernelClient

from client import Kernel, types

ASKS = {"allow_stdin": True}


class Input(unittest.TestCase):
    def setUp(self):
        self.kernel = Kernel()
        self.addCleanup(self.kernel.__exit__, None, None, None)
        self.client = self.kernel.client()
        self.file = os.path.join(self.kernel.folder, "mine.rly")
        with open(self.file, "w") as file:
            file.write("// precious\n")

    def text(self):
        with open(self.file) as file:
            return file.read()

    def send(self, code, **fields):
        return self.client.send("execute_request", {"code": code, **ASKS, **fields})

    def asked(self, request, timeout=10):
        """The question of a running cell."""
        question = self.client.receive("stdin", timeout)
        self.assertIsNotNone(question, "nothing is asked")
        self.assertEqual(question["header"]["msg_type"], "input_request")
        self.assertEqual(question["parent_header"]["msg_id"], request)
        self.assertIs(question["content"]["password"], False)
        return question

    def answer(self, value, question=None, client=None, **header):
        """An answer; with the header of the question as its parent, if that is given."""
        client = client or self.client
        _, frames = client.frames("input_reply", {"value": value}, **header)
        if question:
            frames[3] = json.dumps(question["header"]).encode()
            frames[1] = self.kernel.sign(frames[2:])
        client.sockets["stdin"].send_multipart(frames)

    def end(self, request):
        """The reply's content, and what was shown."""
        reply = self.client.reply_to(request)
        self.assertIsNotNone(reply, "the cell does not end")
        published = self.client.published(request)
        return reply["content"], "".join(m["content"].get("text", "") or m["content"].get("data", {}).get("text/plain", "")
                                         for m in published), published

    def talk(self, code, *answers):
        """Runs a cell and answers what it asks: the questions, its reply and what was shown."""
        request, prompts = self.send(code), []
        for answer in answers:
            question = self.asked(request)
            prompts.append(question["content"]["prompt"])
            self.answer(answer, question)
        return (prompts, *self.end(request)[:2])

    def test_a_file_that_is_there(self):
        self.client.execute("let %x = 1;")
        prompts, reply, shown = self.talk(f":save {self.file}", "n")
        self.assertEqual(prompts, [f"write over `{self.file}`, which is there already? [y/N] "])
        self.assertEqual((reply["status"], shown, self.text()), ("ok", "nothing is changed", "// precious\n"))
        for no in ("", "\x04"):
            self.talk(f":save {self.file}", no)
            self.assertEqual(self.text(), "// precious\n")
        prompts, _, shown = self.talk(f":save {self.file}", "perhaps", " Yes")
        self.assertEqual((len(prompts), self.text()), (2, "let %x = 1;\n"))
        self.assertIn("1 line in ", shown)
        # It is this session's own file now.
        self.assertEqual(self.talk(f":save {self.file}")[1]["status"], "ok")
        weights = os.path.join(self.kernel.folder, "w.npz")
        open(weights, "w").close()
        self.assertIn("which is there already", self.talk(f":write %x {weights}", "n")[0][0])
        self.assertEqual(os.path.getsize(weights), 0)

    def test_reset(self):
        self.assertEqual(self.talk(":reset")[0], [])      # nothing is lost
        self.client.execute("def @f(%x: int32) -> int32 { %x }\nlet %y = 1;\nlet %z = 2;")
        prompts, _, shown = self.talk(":reset", "no")
        self.assertEqual((prompts, shown), (["forget 1 function and 2 variables? [y/N] "], "nothing is changed"))
        self.assertEqual(self.talk("@f(%y)")[2], "1")
        self.talk(":reset", "y")
        self.assertEqual(self.talk("%y")[1]["status"], "error")

    def test_undo_of_what_took_long(self):
        slow = os.path.join(self.kernel.folder, "slow")
        os.mkfifo(slow)
        request = self.send(f":load {slow}")
        with open(slow, "w") as file:
            time.sleep(5.2)
            file.write("let %slow = 7;")
        self.assertEqual(self.end(request)[0]["status"], "ok")
        self.client.execute("let %quick = 8;")
        saved = self.talk(f":save {self.kernel.folder}/slow.rly")[2]
        self.assertRegex(saved, r"again, which took [5-9] s; `:write` keeps what a variable is$")
        self.assertEqual(self.talk(":undo")[2], "taken back: %quick")
        prompts, _, _ = self.talk(":undo", "n")
        self.assertRegex(prompts[0], r"^take %slow back, which took [5-9] s\? ")
        self.assertEqual(self.talk("%slow")[2], "7")
        self.assertEqual(self.talk(":undo", "y")[2], "taken back: %slow")

    def test_what_is_missing(self):
        prompts, _, shown = self.talk(":type", " 1 + 2 ")
        self.assertEqual((prompts, shown), (["an expression, as in `:type EXPR`: "], "int32"))
        prompts, reply, _ = self.talk(":type", "nothing")
        self.assertEqual((reply["ename"], "answer:1:1" in "".join(reply["traceback"])), ("E0111", True), reply)
        saved = os.path.join(self.kernel.folder, "saved.rly")
        self.assertEqual(self.talk(":bytes", f"%b {self.file}")[1]["status"], "ok")
        self.talk(f":save {saved}")
        with open(saved) as file:       # what was asked for is there, too
            self.assertEqual(file.read(), f":bytes %b {self.file}\n")
        _, reply, _ = self.talk(":load", "")
        self.assertEqual((reply["status"], reply["evalue"]), ("error", "a file is missing"))

    def test_nobody(self):
        self.client.execute("let %x = 1;")
        for fields in ({"allow_stdin": False}, {}, {"allow_stdin": True, "silent": True}):
            reply, _ = self.client.execute(":type", **fields)
            self.assertEqual(reply["evalue"], "an expression is missing", fields)
        reply, published = self.client.execute(f":save {self.file}", allow_stdin=False)
        self.assertEqual((reply["status"], self.text()), ("ok", "let %x = 1;\n"))
        self.assertEqual(types(published), ["execute_input", "stream", "display_data"])
        self.assertIn("done unasked, since nobody can answer here", published[1]["content"]["text"])
        self.assertIsNone(self.client.receive("stdin", 0.1))
        # An expression of the front end asks nothing either.
        reply, _ = self.client.execute("1", user_expressions={"a": ":type"}, **ASKS)
        self.assertEqual(reply["user_expressions"]["a"]["evalue"], "an expression is missing")

    def test_interrupt(self):
        request = self.send(":type")
        self.asked(request)
        started = time.monotonic()
        self.client.ask("interrupt_request", {}, "control")
        reply, _, published = self.end(request)
        self.assertEqual((reply["status"], reply["ename"]), ("error", "E0501"))
        self.assertEqual(types(published), ["execute_input", "error"])
        self.assertLess(time.monotonic() - started, 5)
        self.assertEqual(self.talk(":type", "1")[2], "int32")

    def test_shutdown(self):
        request = self.send(":type")
        self.asked(request)
        self.client.ask("shutdown_request", {"restart": False}, "control")
        self.assertEqual(self.kernel.wait(), 0)

    def test_answers_of_others(self):
        """What comes too early, again, of somebody else or unsigned is no answer; and other questions are answered meanwhile."""
        self.answer("too early")
        time.sleep(0.2)
        request = self.send(":type")
        question = self.asked(request)
        other = self.kernel.client()
        self.answer("of another client", question, other)
        self.answer("about another question", {"header": {**question["header"], "msg_id": "another"}})
        self.client.sockets["stdin"].send_multipart([b"<IDS|MSG>", b"forged", b"{}", b"{}", b"{}", b"{}"])
        self.client.sockets["stdin"].send_multipart([b"", b"noise"])
        _, frames = self.client.frames("input_reply", {"value": 7})
        self.client.sockets["stdin"].send_multipart(frames)
        reply, _ = other.ask("complete_request", {"code": "nn.den", "cursor_pos": 6})
        self.assertIn("nn.dense", reply["matches"])
        self.answer("True")     # as jupyter_client does, without a parent
        self.assertEqual(self.end(request)[1], "bool")
        self.answer("True", question)
        self.assertEqual(self.talk(":type", "1f")[2], "float32")

    def test_through_jupyter_client(self):
        client = BlockingKernelClient(connection_file=self.kernel.file)
        client.load_connection_file()
        client.start_channels()
        self.addCleanup(client.stop_channels)
        client.wait_for_ready(timeout=30)
        prompts, shown = [], []

        def answer(message):
            prompts.append(message["content"]["prompt"])
            client.input("2f * 3f")

        def show(message):
            if message["msg_type"] == "display_data":
                shown.append(message["content"]["data"]["text/plain"])

        reply = client.execute_interactive(":type", allow_stdin=True, stdin_hook=answer, output_hook=show, timeout=30)
        self.assertEqual((reply["content"]["status"], prompts, shown),
                         ("ok", ["an expression, as in `:type EXPR`: "], ["float32"]))
        reply = client.execute_interactive(":type", allow_stdin=False, output_hook=show, timeout=30)
        self.assertEqual(reply["content"]["evalue"], "an expression is missing")


if __name__ == "__main__":
    unittest.main()
