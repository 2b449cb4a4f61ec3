"""The debugger, by the requests and events of the Debug Adapter Protocol that JupyterLab sends and expects."""

import time
import unittest

from client import Kernel

FACT = """def @fact(%n: int32) -> int32 {
  let %rest = if (%n == 0) {
    1
  } else {
    @fact(%n - 1)
  };
  if (%n == 0) { 1 } else { %n * %rest }
}"""


def murmur2(data, seed):
    """The hash by which front ends name cells, as they compute it."""
    m, h, at = 0x5bd1e995, seed ^ len(data), 0
    for at in range(0, len(data) - 3, 4):
        k = int.from_bytes(data[at:at + 4], "little") * m & 0xFFFFFFFF
        k = (k ^ k >> 24) * m & 0xFFFFFFFF
        h = h * m & 0xFFFFFFFF ^ k
    tail = data[len(data) & ~3:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15


class Session:
    """A front end that debugs."""

    def __init__(self, kernel):
        self.client, self.seq, self.running = kernel.client(), 0, None

    def send(self, command, **arguments):
        """The whole response."""
        self.seq += 1
        request = {"type": "request", "seq": self.seq, "command": command, "arguments": arguments}
        message_id = self.client.send("debug_request", request, "control")
        reply = self.client.receive("control")
        assert reply, f"no reply to {command}"
        assert reply["parent_header"]["msg_id"] == message_id
        content = reply["content"]
        assert (content["type"], content["request_seq"], content["command"]) == ("response", self.seq, command)
        return content

    def ask(self, command, **arguments):
        """The body of a response to something that must go well."""
        content = self.send(command, **arguments)
        assert content["success"], content
        return content["body"]

    def start(self):
        self.ask("initialize", clientID="tests", adapterID="relay", linesStartAt1=True)
        self.event("initialized")
        self.ask("attach")

    def breakpoints(self, code, *breaks):
        """Sets them as the gutter does; gives their lines."""
        path = self.ask("dumpCell", code=code)["sourcePath"]
        wanted = [b if isinstance(b, dict) else {"line": b} for b in breaks]
        got = self.ask("setBreakpoints", source={"path": path}, breakpoints=wanted, sourceModified=False)
        assert all(b["verified"] for b in got["breakpoints"])
        return [b["line"] for b in got["breakpoints"]]

    def run(self, code):
        self.running = self.client.send("execute_request", {"code": code})

    def event(self, name, timeout=20):
        """The body of the next event of this name."""
        until = time.time() + timeout
        while time.time() < until:
            message = self.client.receive("iopub", timeout)
            if message and message["header"]["msg_type"] == "debug_event" and message["content"]["event"] == name:
                return message["content"]["body"]
        raise AssertionError(f"no event {name}")

    def go(self, command, **arguments):
        """Goes on up to the next stop, of which it gives reason and top of the stack."""
        self.ask(command, threadId=1, **arguments)
        return self.stop()

    def stop(self):
        body = self.event("stopped")
        top = self.stack()[0]
        return body["reason"], top["name"], top["line"]

    def stop_at(self, code, line):
        """Runs it with a breakpoint there; gives where it stops."""
        self.breakpoints(code, line)
        self.run(code)
        return self.stop()

    def stack(self):
        return self.ask("stackTrace", threadId=1)["stackFrames"]

    def locals(self, frame=1):
        scope = self.ask("scopes", frameId=frame)["scopes"][0]
        return {v["name"]: v for v in self.parts(scope)}

    def parts(self, of):
        return self.ask("variables", variablesReference=of["variablesReference"])["variables"]

    def finish(self):
        """The reply to the cell, and what it published since."""
        reply = self.client.receive("shell")
        assert reply and reply["parent_header"]["msg_id"] == self.running
        published = []
        while True:
            message = self.client.receive("iopub")
            assert message, "no idle"
            if message["parent_header"].get("msg_id") != self.running:
                continue
            if message["content"].get("execution_state") == "idle":
                return reply["content"], published
            published.append((message["header"]["msg_type"], message["content"]))


class Debug(unittest.TestCase):
    def setUp(self):
        self.kernel = Kernel()
        self.addCleanup(self.kernel.__exit__, None, None, None)
        self.debug = Session(self.kernel)

    def ran(self, want):
        reply, published = self.debug.finish()
        self.assertEqual(reply["status"], "ok", reply)
        results = [content["data"]["text/plain"] for kind, content in published if kind == "execute_result"]
        self.assertEqual(results, [want])

    def test_info_and_paths(self):
        d = self.debug
        info = d.ask("debugInfo")
        self.assertEqual((info["isStarted"], info["hashMethod"], info["breakpoints"], info["stoppedThreads"]),
                         (False, "Murmur2", [], []))
        d.start()
        self.assertTrue(d.ask("debugInfo")["isStarted"])
        for text in ("", "a", "ab", "abc", "abcd", "let %x = 1;\n", "𝐚 = 1"):
            path = info["tmpFilePrefix"] + str(murmur2(text.encode(), info["hashSeed"])) + info["tmpFileSuffix"]
            self.assertEqual(d.ask("dumpCell", code=text)["sourcePath"], path)
            self.assertEqual(d.ask("source", source={"path": path})["content"], text)
        self.assertEqual(d.ask("modules")["totalModules"], 7)

    def test_messages(self):
        """Responses have no status, events belong to the cell, and front ends tell all of them apart by their numbers."""
        d = self.debug
        replies = [d.send("initialize", clientID="tests", adapterID="relay", linesStartAt1=True)]
        self.assertIs(replies[0]["body"]["supportsConfigurationDoneRequest"], True)
        self.assertEqual({f["filter"] for f in replies[0]["body"]["exceptionBreakpointFilters"]}, {"nan", "error"})
        replies += [d.send(command) for command in ("attach", "configurationDone", "inspectVariables")]
        d.breakpoints("1 + 2", 1)
        d.run("1 + 2")
        events = []
        while len(events) < 3:
            message = d.client.receive("iopub")
            if message["header"]["msg_type"] == "debug_event":
                events.append(message)
                if message["content"]["event"] == "stopped":
                    self.assertEqual(message["content"]["body"]["threadId"], 1)
                    replies.append(d.send("continue", threadId=1))
        self.assertEqual([m["content"]["event"] for m in events], ["initialized", "stopped", "continued"])
        self.assertEqual([m["parent_header"]["msg_id"] for m in events[1:]], [d.running] * 2)
        self.assertNotIn("status", {key for content in replies for key in content})
        numbers = [content["seq"] for content in (*replies, *(m["content"] for m in events))]
        self.assertEqual(len(set(numbers)), len(numbers))
        self.ran("3")

    def test_breakpoints_move_to_code(self):
        self.debug.start()
        code = "// a comment\n\nlet %x = 1;\n// the end"
        self.assertEqual(self.debug.breakpoints(code, 1, 3), [3, 3])
        path = self.debug.ask("dumpCell", code=code)["sourcePath"]
        got = self.debug.ask("setBreakpoints", source={"path": path}, breakpoints=[{"line": 4}])["breakpoints"]
        self.assertFalse(got[0]["verified"])

    def test_stops_in_a_cell_and_steps_over_its_items(self):
        d = self.debug
        d.start()
        code = "let %a = 1 + 2;\nlet %b = %a * 2;\n%a + %b"
        self.assertEqual(d.stop_at(code, 2), ("breakpoint", "In[1]", 2))
        self.assertEqual(d.locals()["%a"]["value"], "3")
        self.assertEqual(d.ask("debugInfo")["stoppedThreads"], [1])
        self.assertEqual(d.go("next"), ("pause", "In[1]", 3))
        d.ask("continue", threadId=1)
        self.ran("9")

    def test_stack_steps_and_going_back(self):
        d = self.debug
        d.client.execute(FACT)
        d.start()
        d.breakpoints(FACT, 5)
        d.run("@fact(2)")
        self.assertEqual(d.stop(), ("breakpoint", "@fact", 5))
        self.assertEqual([f["name"] for f in d.stack()], ["@fact", "In[2]"])
        self.assertEqual(d.locals()["%n"]["value"], "2")
        self.assertEqual(d.go("stepIn"), ("step", "@fact", 1))
        self.assertEqual([f["line"] for f in d.stack()], [1, 5, 1])
        self.assertEqual(d.locals()["%n"]["value"], "1")
        self.assertEqual(d.locals(2)["%n"]["value"], "2")
        self.assertEqual(d.go("stepIn"), ("step", "@fact", 2))
        self.assertEqual(d.go("next"), ("breakpoint", "@fact", 5))
        self.assertEqual(d.go("stepOut"), ("step", "@fact", 5))
        self.assertEqual(d.locals()["%n"]["value"], "2")
        self.assertEqual(d.go("stepBack"), ("step", "@fact", 2))
        self.assertEqual(d.go("reverseContinue"), ("step", "In[2]", 1))
        self.assertEqual(d.go("continue"), ("breakpoint", "@fact", 5))
        self.assertEqual(d.go("next", granularity="instruction"), ("breakpoint", "@fact", 5))
        d.ask("continue", threadId=1)
        self.ran("2")

    def test_conditions(self):
        d = self.debug
        d.client.execute(FACT)
        d.start()
        d.breakpoints(FACT, {"line": 1, "condition": "%n == 3"})
        d.run("@fact(5)")
        self.assertEqual(d.stop(), ("breakpoint", "@fact", 1))
        self.assertEqual(d.locals()["%n"]["value"], "3")
        d.ask("continue", threadId=1)
        self.ran("120")
        d.breakpoints(FACT, {"line": 1, "condition": "%nothing == 3"})
        d.run("@fact(1)")
        self.assertEqual(d.stop(), ("breakpoint", "@fact", 1))
        d.ask("disconnect", terminateDebuggee=False)
        self.ran("1")

    def test_tensors_and_evaluation_in_a_frame(self):
        d = self.debug
        code = "def @f(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {\n  let %y = %x * 2f;\n  %y + 1f\n}"
        d.client.execute(code)
        d.client.execute("let %big = reshape(arange(0f, 6f, 1f), newshape=[2, 3]);")
        d.start()
        d.breakpoints(code, 3)
        d.run("@f(%big)")
        self.assertEqual(d.stop(), ("breakpoint", "@f", 3))
        y = d.locals()["%y"]
        self.assertEqual(y["type"], "Tensor[(2, 3), float32]")
        parts = {v["name"]: v for v in d.parts(y)}
        self.assertEqual({k: parts[k]["value"] for k in ("shape", "min", "max", "mean", "NaN")},
                         {"shape": "2 × 3", "min": "0", "max": "10", "mean": "5", "NaN": "0"})
        self.assertTrue(parts["histogram"]["value"].strip())
        rows = {v["name"]: v["value"] for v in d.parts(parts["[1]"])}
        self.assertEqual((rows["[0]"], rows["[2]"]), ("6", "10"))
        got = d.ask("evaluate", expression="sum(%y) + 1f", frameId=1, context="repl")
        self.assertEqual((got["result"], got["type"]), ("31", "float"))
        wrong = d.send("evaluate", expression="%nothing", frameId=1)
        self.assertFalse(wrong["success"])
        self.assertIn("%nothing", wrong["message"])
        rich = d.ask("richInspectVariables", variableName="%y", frameId=1)["data"]
        self.assertIn("<table", rich["text/html"])
        session = d.ask("scopes", frameId=1)["scopes"][1]
        self.assertEqual([v["name"] for v in d.parts(session)], ["%big"])
        self.assertFalse(d.send("pause", threadId=1)["success"])
        d.ask("continue", threadId=1)
        self.assertEqual(d.finish()[0]["status"], "ok")
        self.assertEqual([v["name"] for v in d.ask("inspectVariables")["variables"]], ["%big"])
        self.assertIn("text/plain", d.ask("richInspectVariables", variableName="%big")["data"])
        self.assertEqual(d.ask("evaluate", expression="1 + 2")["result"], "3")

    def test_references_as_they_were(self):
        d = self.debug
        d.start()
        code = "{\n  let %r = ref(1);\n  let %_ = ref_write(%r, 5);\n  ref_read(%r) + 1\n}"
        self.assertEqual(d.stop_at(code, 4)[2], 4)
        self.assertEqual([v["value"] for v in d.parts(d.locals()["%r"])], ["5"])
        self.assertEqual(d.go("stepBack")[2], 3)
        self.assertEqual(d.go("stepBack")[2], 2)
        self.assertEqual([v["value"] for v in d.parts(d.locals()["%r"])], ["1"])
        d.ask("continue", threadId=1)
        self.assertEqual(d.stop()[2], 4)
        d.ask("continue", threadId=1)
        self.ran("6")

    def test_stops_at_the_first_nan_and_at_errors(self):
        d = self.debug
        d.start()
        d.ask("setExceptionBreakpoints", filters=["nan"])
        d.run("let %x = 1f;\nlet %y = log(%x - 2f);\n%y + 1f")
        self.assertEqual(d.stop(), ("exception", "In[1]", 2))
        d.ask("continue", threadId=1)
        self.assertEqual(d.finish()[0]["status"], "ok")
        d.ask("setExceptionBreakpoints", filters=["error"])
        d.run("let %z = 0;\n1 / %z")
        self.assertEqual(d.stop(), ("exception", "In[2]", 2))
        self.assertEqual(d.locals()["%z"]["value"], "0")
        d.ask("continue", threadId=1)
        self.assertEqual(d.finish()[0]["status"], "error")

    def test_interrupt_and_disconnect_while_stopped(self):
        d = self.debug
        d.start()
        code = "1 + 2"
        d.stop_at(code, 1)
        reply = d.client.send("interrupt_request", {}, "control")
        self.assertEqual(d.client.receive("control")["parent_header"]["msg_id"], reply)
        self.assertEqual(d.finish()[0]["status"], "error")
        d.run(code)
        d.stop()
        d.ask("disconnect", restart=False, terminateDebuggee=True)
        self.assertEqual(d.finish()[0]["status"], "error")
        d.run(code)
        self.ran("3")
        self.assertFalse(d.send("continue", threadId=1)["success"])

    def endless(self):
        self.debug.client.execute("def @inf(%n: int32) -> int32 { @inf(%n + 1) }")
        self.debug.start()

    def interrupts(self, command, **arguments):
        """Asks for what does not end, and for something else behind it; gives the responses to both."""
        client, asked = self.debug.client, []
        for request in ({"command": command, "arguments": arguments}, {"command": "threads"}):
            self.debug.seq += 1
            asked.append(client.send("debug_request", {"type": "request", "seq": self.debug.seq, **request}, "control"))
        self.assertTrue(client.reply_to(client.send("kernel_info_request", {}, "control"), "control", 20), "nothing else is answered")
        time.sleep(0.3)
        interrupt = client.send("interrupt_request", {}, "control")
        self.assertTrue(client.reply_to(interrupt, "control", 20), "the interrupt is not answered")
        return [client.reply_to(message_id, "control", 20)["content"] for message_id in asked]

    def test_interrupt_of_what_does_not_end(self):
        self.endless()
        for command, name in ("evaluate", "expression"), ("richInspectVariables", "variableName"):
            found, threads = self.interrupts(command, **{name: "@inf(0)"})
            self.assertEqual((found["success"], found.get("message")), (False, "interrupted"))
            self.assertTrue(threads["success"])
        self.assertEqual(self.debug.ask("evaluate", expression="1 + 2")["result"], "3")
        self.debug.run("1 + 1")
        self.ran("2")

    def test_interrupt_of_what_does_not_end_while_stopped(self):
        d = self.debug
        self.endless()
        d.stop_at("1 + 2", 1)
        found, threads = self.interrupts("evaluate", expression="@inf(0)", frameId=1)
        self.assertEqual((found["success"], found.get("message")), (False, "interrupted"))
        self.assertEqual(d.finish()[0]["status"], "error")

    def test_interrupt_of_a_condition(self):
        d = self.debug
        self.endless()
        d.breakpoints("1 + 2", {"line": 1, "condition": "@inf(0) == 0"})
        d.run("1 + 2")
        time.sleep(0.3)
        self.assertTrue(d.client.reply_to(d.client.send("interrupt_request", {}, "control"), "control", 20))
        self.assertEqual(d.finish()[0]["status"], "error")

    def test_shutdown_while_evaluating(self):
        d = self.debug
        self.endless()
        d.client.send("debug_request", {"seq": 7, "command": "evaluate", "arguments": {"expression": "@inf(0)"}}, "control")
        time.sleep(0.3)
        self.assertTrue(d.client.reply_to(d.client.send("shutdown_request", {"restart": False}, "control"), "control", 20))
        self.assertEqual(self.kernel.wait(), 0)

    def test_shutdown_while_stopped(self):
        d = self.debug
        d.start()
        d.stop_at("1 + 2", 1)

    def test_pause_and_what_is_asked_while_a_cell_runs(self):
        d = self.debug
        d.client.execute("let %x = 7;")
        d.client.execute("def @count(%n: int32) -> int32 { if (%n == 0) { 0 } else { @count(%n - 1) } }")
        d.start()
        self.assertEqual([v["value"] for v in d.ask("inspectVariables")["variables"]], ["7"])
        d.breakpoints("// elsewhere\n1", 2)
        d.run("@count(100000000)")
        time.sleep(0.2)
        self.assertEqual([v["value"] for v in d.ask("inspectVariables")["variables"]], ["7"])
        self.assertFalse(d.send("stackTrace", threadId=1)["success"])
        d.ask("pause", threadId=1)
        self.assertEqual(d.stop()[:2], ("pause", "@count"))
        d.ask("disconnect", restart=False, terminateDebuggee=True)
        self.assertEqual(d.finish()[0]["status"], "error")

    def test_nonsense(self):
        d = self.debug
        for command in ("", "nothing", "stackTrace", "variables", "next"):
            d.send(command, variablesReference=77, frameId=-3)
        d.seq += 1
        reply, _ = d.client.ask("debug_request", {"seq": "x", "arguments": 7, "command": "setBreakpoints"}, "control")
        self.assertFalse(reply["success"])


if __name__ == "__main__":
    unittest.main()
