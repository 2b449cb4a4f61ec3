"""What a kernel must survive: messages that are wrong in every way, floods, and clients that vanish."""

import json
import os
import random
import time
import unittest

from client import DELIMITER, Kernel

ROUNDS = int(os.environ.get("RELAY_FUZZ_ROUNDS", "1500"))
SEED = int(os.environ.get("RELAY_FUZZ_SEED", "1"))


def nested(depth, opening, closing):
    return opening * depth + closing * depth


class Hostile(unittest.TestCase):
    def answered(self, client, kind, content, channel):
        """Sends a request and waits for its reply, behind whatever else was answered before."""
        request = client.send(kind, content, channel)
        while True:
            reply = client.receive(channel)
            self.assertIsNotNone(reply, f"no reply to {kind}")
            if reply["parent_header"].get("msg_id") == request:
                self.assertEqual(reply["content"]["status"], "ok")
                client.published(request)
                return

    def alive(self, client):
        """The kernel still answers everything."""
        self.answered(client, "kernel_info_request", {}, "shell")
        self.answered(client, "kernel_info_request", {}, "control")
        self.answered(client, "execute_request", {"code": "1 + 2"}, "shell")
        self.assertTrue(client.beat())

    def test_signatures(self):
        with Kernel() as kernel:
            client = kernel.client()
            _, (delimiter, signature, *parts) = client.frames("execute_request", {"code": "1 + 2"})
            flipped = bytes([signature[0] ^ 1]) + signature[1:]
            for wrong in (b"", flipped, signature[:-1], signature + b"0", signature.upper(), b"\xff" * 64, b"0" * 64):
                client.sockets["shell"].send_multipart([delimiter, wrong, *parts])
            self.assertIsNone(client.receive("iopub", 0.3), "a message with a wrong signature has effects")
            client.sockets["shell"].send_multipart([delimiter, signature, *parts])
            self.assertEqual(client.receive("shell")["content"]["execution_count"], 1)
            # The very same message once more is a replay.
            client.sockets["shell"].send_multipart([delimiter, signature, *parts])
            self.assertIsNone(client.receive("shell", 0.3), "a replay has effects")
            self.alive(client)

    def test_shapes(self):
        with Kernel() as kernel:
            client = kernel.client()
            _, good = client.frames("kernel_info_request", {})
            for channel in ("shell", "control", "stdin"):
                socket = client.sockets[channel]
                for n in range(len(good)):
                    socket.send_multipart(good[:n] or [b""])
                    socket.send_multipart([b""] * (n + 1))
                    socket.send_multipart([DELIMITER] * (n + 1))
                    socket.send_multipart(good[1:n + 2])
                socket.send_multipart([b"x"] * 5000)
                socket.send_multipart([*good, *[b"buffer"] * 5000])
            self.alive(client)

    def test_parts(self):
        header = {"msg_id": "1", "msg_type": "execute_request"}
        bad = [b"", b"null", b"[]", b"1", b'"x"', b"{", b"{}}", b"\xff\xfe", b'{"a":"\xff"}', b'{"a":"\\ud83d"}', b'{"a":NaN}',
               b'{"a":1e999}', b'{"a":' + b"9" * 400 + b"}", nested(100000, b"[", b"]"), b'{"a":' + nested(3000, b"[", b"]") + b"}",
               b"{" + b'"a":{' * 100000, b'{"a":"' + b"x" * 1000000, b"\0" * 1000]
        with Kernel() as kernel:
            client = kernel.client()
            for channel in ("shell", "control"):
                for at in range(4):
                    for part in bad:
                        parts = [json.dumps(header).encode(), b"{}", b"{}", b'{"code":"1 + 2"}']
                        parts[at] = part
                        client.sockets[channel].send_multipart([DELIMITER, kernel.sign(parts), *parts])
            self.alive(client)

    def reply_to_content(self, client, kind, content):
        """The reply to a request with these bytes as its content."""
        request, frames = client.frames(kind, {})
        frames[-1] = content
        frames[1] = client.kernel.sign(frames[2:])
        client.sockets["shell"].send_multipart(frames)
        reply = client.reply_to(request)
        self.assertEqual(reply["header"]["msg_type"], kind.replace("_request", "_reply"))
        return reply["content"], client.published(request)

    def test_unreadable_contents(self):
        """Who asks is answered, so that no cell waits for ever."""
        with Kernel() as kernel:
            client = kernel.client()
            for kind in ("execute_request", "complete_request", "inspect_request", "is_complete_request", "history_request",
                         "kernel_info_request"):
                for content in (b"", b"[]", b"{", b'{"code":"\xff"}', b'{"code":"\\u00"}', b'{"a\\u0000":1}'):
                    reply, published = self.reply_to_content(client, kind, content)
                    self.assertEqual((reply["status"], reply["ename"]), ("error", "BadRequest"), (kind, content))
                    self.assertIn("content is not a JSON object", reply["evalue"])
                    self.assertEqual(published, [])
            self.alive(client)

    def test_odd_text(self):
        """JSON can say what no text holds, such as half of a character."""
        with Kernel() as kernel:
            client = kernel.client()
            for n, (odd, read, kept) in enumerate(((rb"\ud83d", "\ufffd", "\ufffd"), (rb"\uDE00\ud83d", "\ufffd\ufffd", "\ufffd\ufffd"),
                                                   (rb"\ud83d\ude00", "\U0001f600", "\U0001f600"), (rb"\u0000", "\0", "\ufffd"))):
                code = b'{"code":"// ' + odd + rb'\n1 + 1","cursor_pos":6}'
                reply, published = self.reply_to_content(client, "execute_request", code)
                self.assertEqual((reply["status"], reply["execution_count"]), ("ok", n + 1), odd)
                self.assertEqual(published[0]["content"]["code"], f"// {read}\n1 + 1")
                self.assertEqual(published[1]["content"]["data"]["text/plain"], "2")
                for kind in ("complete_request", "inspect_request", "is_complete_request"):
                    self.assertIn(self.reply_to_content(client, kind, code)[0]["status"], ("ok", "complete"))
                history = client.ask("history_request", {"hist_access_type": "tail", "n": 1})[0]["history"]
                self.assertEqual(history, [[1, n + 1, f"// {kept}\n1 + 1"]])

    def test_wide_numbers(self):
        """JSON bounds no number, and what nobody reads may be any."""
        with Kernel() as kernel:
            client = kernel.client()
            for wide in (1 << 63, 1 << 64, -(1 << 63) - 1, 10 ** 30):
                self.answered(client, "execute_request", {"code": "1 + 2", "more": [wide]}, "shell")
                request = client.send("complete_request", {"code": "nn", "cursor_pos": wide})
                self.assertEqual(client.reply_to(request)["content"]["status"], "error")
                client.published(request)

    def test_more_constructors_than_forms(self):
        """Objects have a million forms. Who wants more is refused, and the session goes on."""
        with Kernel() as kernel:
            client = kernel.client()
            many = ", ".join(f"C{i}" for i in range(1100000))
            self.assertEqual(client.execute("let %kept = 1;")[0]["status"], "ok")
            reply = client.execute(f"type T {{ {many} }}")[0]
            self.assertEqual((reply["status"], reply.get("ename")), ("error", "E0503"))
            self.assertEqual(client.execute("1 + 2")[0]["status"], "ok")
            for cell in (":defs mine", ":reset", "(1, 2f)"):
                reply, published = client.execute(cell)
                self.assertEqual(reply["status"], "ok", cell)
                if cell == ":defs mine":
                    self.assertIn("%kept", str(published))
            client.ask("shutdown_request", {"restart": False}, "control")
            self.assertEqual(kernel.wait(), 3, "something was refused")

    def test_contents(self):
        types = ["execute_request", "complete_request", "inspect_request", "is_complete_request", "history_request",
                 "comm_info_request", "comm_open", "comm_msg", "comm_close", "connect_request", "kernel_info_request",
                 "interrupt_request", "input_reply", "x" * 100000, "\0", ""]
        fields = ["code", "cursor_pos", "detail_level", "silent", "store_history", "user_expressions", "stop_on_error",
                  "hist_access_type", "n", "session", "start", "stop", "pattern", "unique", "output", "comm_id", "restart"]
        values = [None, True, False, 0, -1, 2**62, -2**63, 1.5, "", "a", "1 + 2", "\0", "é𝐚" * 50, "%", "tail", "range", "search",
                  "[", "[a-", "*" * 100, "[]", "((((", "}", "x" * 10000, [], [1, [2]], {}, {"a": "%nothing"}, {"b": {}}]
        rng = random.Random(SEED)
        with Kernel() as kernel:
            client = kernel.client()
            for _ in range(ROUNDS):
                content = {field: rng.choice(values) for field in rng.sample(fields, rng.randrange(len(fields)))}
                channel = rng.choice(["shell", "shell", "shell", "control", "stdin"])
                client.send(rng.choice(types), content, channel, msg_id=rng.choice(["", "1", "é" * 1000]))
                for name in ("shell", "control", "iopub"):
                    while client.sockets[name].poll(0):
                        client.sockets[name].recv_multipart()
            self.alive(client)

    def test_random_frames(self):
        rng = random.Random(SEED)
        with Kernel() as kernel:
            client = kernel.client()
            _, good = client.frames("is_complete_request", {"code": "1 + 2"})
            for _ in range(ROUNDS):
                frames = [bytes(rng.randbytes(rng.choice([0, 1, 9, 64, 300]))) for _ in range(rng.randrange(1, 9))]
                if rng.random() < 0.5:
                    frames = list(good)
                    at = rng.randrange(len(frames))
                    broken = bytearray(frames[at] or b"x")
                    broken[rng.randrange(len(broken))] = rng.randrange(256)
                    frames[at] = bytes(broken)
                    if at > 1 and rng.random() < 0.5:
                        frames[1] = kernel.sign(frames[2:6])
                client.sockets[rng.choice(["shell", "control", "stdin"])].send_multipart(frames)
            self.alive(client)
            self.assertLess(len(kernel.output()), 20000, "the log is flooded")

    def test_huge(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.sockets["shell"].send_multipart([b"x" * (64 << 20)])
            client.send("is_complete_request", {"code": "1 + " * (1 << 20)})
            self.assertIsNotNone(client.receive("shell", 60))
            client.send("complete_request", {"code": "é" * (1 << 20), "cursor_pos": 1 << 19})
            self.assertIsNotNone(client.receive("shell", 60))
            self.alive(client)

    def test_clients_that_vanish(self):
        with Kernel() as kernel:
            for _ in range(30):
                client = kernel.client()
                for _ in range(5):
                    client.send("execute_request", {"code": "1 + 2"})
                client.close()
            self.alive(kernel.client())

    def test_everything_at_once(self):
        """Two clients, subshells, the debugger, answers nobody asked for, interrupts at any moment."""
        rng = random.Random(SEED)
        cells = ["1 + 2", "let %x = 3;", "%nothing", ":type", "def @l(%n: int32) -> int32 { @l(%n) }", "@l(0)", ":reset", ":undo",
                 ":step 1 + 2", "?nn.dense", "def @f(%n: int32) -> int32 {\n  let %a = %n + 1;\n  %a\n}", "@f(2)", ":load /nowhere",
                 "ones(shape=[100, 100])", ":show all fn (%x: Tensor[(3), float32]) { exp(%x) }", ":bench seconds=0.2 1 + 2"]
        commands = ["initialize", "attach", "debugInfo", "continue", "next", "stepIn", "stepOut", "stepBack", "reverseContinue", "pause",
                    "stackTrace", "scopes", "variables", "evaluate", "disconnect", "inspectVariables", "dumpCell", "setBreakpoints",
                    "richInspectVariables", "setExceptionBreakpoints", "modules", "source", "configurationDone"]
        with Kernel() as kernel:
            clients = [kernel.client(), kernel.client()]
            shells = [None, clients[0].ask("create_subshell_request", {}, "control")[0]["subshell_id"]]

            def path(text):
                number = clients[0].send("debug_request", {"type": "request", "seq": 1, "command": "dumpCell",
                                                           "arguments": {"code": text}}, "control")
                return clients[0].reply_to(number, "control")["content"]["body"]["sourcePath"]

            paths = [path(cell) for cell in cells]

            def debug():
                return {"type": "request", "seq": rng.randrange(1000), "command": rng.choice(commands), "arguments": rng.choice([
                    {}, {"threadId": 1}, {"frameId": 1, "variablesReference": rng.randrange(-2, 50)}, {"code": rng.choice(cells)},
                    {"filters": ["nan", "error"]}, {"expression": "%n + 1", "frameId": 1}, {"variableName": "%x"},
                    {"source": {"path": rng.choice(paths)}, "breakpoints": [{"line": rng.randrange(-1, 4)}]}])}

            for _ in range(ROUNDS // 2):
                client, shell = rng.choice(clients), {"subshell_id": rng.choice(shells)}
                kind = rng.randrange(20)
                if kind < 8:
                    client.send("execute_request", {"code": rng.choice(cells), "allow_stdin": rng.random() < 0.5}, **shell)
                elif kind < 11:
                    client.send("interrupt_request", {}, "control")
                elif kind < 15:
                    client.send("debug_request", debug(), "control")
                elif kind < 17:
                    client.send("complete_request", {"code": "@f(%x, nn.de", "cursor_pos": rng.randrange(13)}, **shell)
                elif kind < 18:
                    client.send("create_subshell_request", {}, "control")
                elif kind < 19:
                    client.send("delete_subshell_request", {"subshell_id": str(rng.choice(shells[1:]))}, "control")
                else:
                    client.sockets["stdin"].send_multipart(client.frames("input_reply", {"value": rng.choice(["y", "", 7])})[1])
                if rng.random() < 0.1:
                    time.sleep(rng.random() / 100)
                for one in clients:
                    for name in ("shell", "control", "iopub", "stdin"):
                        while one.sockets[name].poll(0):
                            one.sockets[name].recv_multipart()
            # What waits at a breakpoint, at a question or in a loop ends one by one.
            last = kernel.client()
            request, reply = last.send("execute_request", {"code": "6 * 7"}), None
            for _ in range(600):
                last.send("debug_request", {"type": "request", "seq": 1, "command": "disconnect"}, "control")
                last.send("interrupt_request", {}, "control")
                reply = last.receive("shell", 0.2)
                if reply:
                    break
            self.assertIsNotNone(reply, "the kernel hangs")
            self.assertEqual(reply["parent_header"]["msg_id"], request)
            while last.receive("control", 0.2):
                pass
            self.alive(last)

    def test_memory_stays(self):
        def resident(kernel):
            with open(f"/proc/{kernel.process.pid}/statm") as file:
                return int(file.read().split()[1]) * 4096

        # What AddressSanitizer keeps of freed memory does not count.
        options = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
        with Kernel(environment={"ASAN_OPTIONS": options}) as kernel:
            client = kernel.client()
            for rounds in range(3):
                for _ in range(1000):
                    client.send("no_such_request", {"text": "x" * 20000})
                    client.sockets["control"].send_multipart([b"x" * 20000])
                self.alive(client)
                if rounds == 0:
                    before = resident(kernel)
            self.assertLess(resident(kernel) - before, 32 << 20, "memory grows with what is dropped")


if __name__ == "__main__":
    unittest.main()
