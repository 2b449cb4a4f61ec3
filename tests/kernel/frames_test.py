"""What goes over the wire, frame by frame: headers, prefixes, identities, topics, heartbeats."""

import json
import os
import re
import subprocess
import time
import unittest
import uuid

import zmq

from client import DELIMITER, WAIT, Kernel

SHELL = ("execute_request", {"code": "1 + 2"})


class Frames(unittest.TestCase):
    def setUp(self):
        self.kernel = Kernel()
        self.addCleanup(self.kernel.__exit__, None, None, None)
        self.client = self.kernel.client()

    def socket(self, kind, name, **options):
        """One more socket, which is nobody's."""
        socket = self.kernel.context.socket(kind)
        self.addCleanup(socket.close, 0)
        for option, value in options.items():
            setattr(socket, option, value)
        socket.connect(self.kernel.endpoint(name))
        return socket

    def received(self, socket, seconds=WAIT):
        self.assertTrue(socket.poll(seconds * 1000), "nothing comes")
        return socket.recv_multipart()

    def test_headers(self):
        request = self.client.send(*SHELL)
        reply = self.client.receive("shell")
        published = []
        while not published or published[-1]["content"].get("execution_state") != "idle":
            published.append(self.client.receive("iopub"))
        kinds = [m["content"].get("execution_state", m["header"]["msg_type"]) for m in published]
        self.assertEqual(kinds, ["busy", "execute_input", "execute_result", "idle"])
        for message in (reply, *published):
            header = message["header"]
            self.assertEqual(message["parent_header"]["msg_id"], request)
            self.assertEqual(header["version"], "5.5")
            self.assertRegex(header["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        self.assertEqual(len({m["header"]["msg_id"] for m in (reply, *published)}), 5)
        # The reply lies between the last output and idle.
        dates = [m["header"]["date"] for m in (*published[:-1], reply, published[-1])]
        self.assertEqual(dates, sorted(dates))
        started = reply["metadata"]["started"]
        self.assertLessEqual(dates[0], started)
        self.assertLessEqual(started, dates[-2])

    def test_raw(self):
        """The header of a request comes back as parent byte for byte, what stands before the delimiter in front, and what is empty is `{}`."""
        header = b'{ "msg_type":"kernel_info_request",\t"msg_id" : "\xcf\x80", "z":1.50, "a":[null, 1e2], "version":"5.0","session":"\\u00e9"}'
        parts = [header, b"{}", b'{"deletedCells": 7, "cellId": []}', b" { } "]
        prefix = [b"a\0b", b"second"]
        shell, iopub = self.client.sockets["shell"], self.client.sockets["iopub"]
        shell.send_multipart([*prefix, DELIMITER, self.kernel.sign(parts), *parts, b"a buffer", b""])
        frames = self.received(shell)
        self.assertEqual(frames[:3], [*prefix, DELIMITER])
        self.assertEqual((frames[5], frames[6], len(frames)), (header, b"{}", 8))
        for state in (b"busy", b"idle"):
            topic, _, _, _, parent, metadata, content = self.received(iopub)
            while b"starting" in content:     # it was early
                topic, _, _, _, parent, metadata, content = self.received(iopub)
            self.assertEqual((parent, metadata), (header, b"{}"))
            self.assertTrue(topic and state in content)

    def test_identities(self):
        """Any bytes are an identity, and the last who comes with one has it."""
        name = b"\1\0\xff\0"
        for _ in range(3):
            socket = self.socket(zmq.DEALER, "shell", identity=name)
            request, frames = self.client.frames("is_complete_request", {"code": "1"})
            until = time.monotonic() + WAIT
            socket.send_multipart(frames)
            answer = self.received(socket)
            self.assertLess(time.monotonic(), until)
            self.assertEqual(json.loads(answer[answer.index(DELIMITER) + 3])["msg_id"], request)

    def test_topics(self):
        """A welcome goes to the topic of the subscription, also when others have it already; what is no text is not welcomed."""
        for topic in (b"status", b"status", "ü".encode()):
            socket = self.socket(zmq.SUB, "iopub", subscribe=topic)
            frames = self.received(socket)
            while json.loads(frames[3])["msg_type"] != "iopub_welcome":
                frames = self.received(socket)
            self.assertEqual((frames[0], frames[4], json.loads(frames[6])), (topic, b"{}", {"subscription": topic.decode()}))
            socket.unsubscribe(topic)
        self.assertEqual(self.client.execute("1 + 2")[0]["status"], "ok")
        self.socket(zmq.SUB, "iopub", subscribe=b"\xff")
        time.sleep(0.2)
        self.client.execute("2 + 3")
        while message := self.client.receive("iopub", 0.2):
            self.assertNotIn("\ufffd", message["content"].get("subscription", ""))

    def test_heartbeat(self):
        for frames in ([b"ping"], [b""], [b"", b"\0\xff" * 9, b"", b"x" * 10000], [b"%d" % i for i in range(500)]):
            socket = self.socket(zmq.DEALER, "hb")
            socket.send_multipart(frames)
            self.assertEqual(self.received(socket), frames)

    def test_who_does_not_read(self):
        """A slow client gets all in the end, and holds up nobody."""
        slow = self.socket(zmq.SUB, "iopub", rcvhwm=1, rcvbuf=4096, subscribe=b"")
        self.received(slow)
        cells, text = 1500, "// " + "x" * 5000 + "\n1"
        for _ in range(cells):
            request = self.client.send("execute_request", {"code": text, "store_history": False})
            reply = self.client.receive("shell")
            self.assertEqual(reply["parent_header"]["msg_id"], request)
            self.client.published(request)
        inputs = 0
        while inputs < cells:
            inputs += json.loads(self.received(slow)[3])["msg_type"] == "execute_input"

    def test_replies_say_ok(self):
        """Every request of the main channels but the debugger's has a status in its reply, and an error all three fields."""
        for kind, content in (("history_request", {"hist_access_type": "tail", "n": None, "output": None, "raw": None, "unique": None,
                                                   "pattern": None, "session": None, "start": None, "stop": None}),
                              ("comm_info_request", {"target_name": None}), ("execute_request", {"code": "", "silent": True}),
                              ("inspect_request", {"code": "é", "cursor_pos": 99, "detail_level": 7}),
                              ("complete_request", {"code": "", "cursor_pos": 0})):
            reply, _ = self.client.ask(kind, content)
            self.assertEqual(reply["status"], "ok", kind)


class Printed(unittest.TestCase):
    def test_what_libraries_print(self):
        """OpenBLAS says for which processor it computes, on standard error, when it is opened."""
        with Kernel(environment={"OPENBLAS_VERBOSE": "2"}) as kernel:
            client = kernel.client()
            client.execute(":engine interp")
            square = 'ones(shape=[300, 300], dtype="float32")'
            reply, published = client.execute(f"sum(nn.dense({square}, {square}, units=300))")
            self.assertEqual(reply["status"], "ok")
            printed = [m for m in published if m["header"]["msg_type"] == "stream"]
            if not printed:
                self.skipTest("there is no OpenBLAS")
            self.assertEqual([m["content"]["name"] for m in printed], ["stderr"])
            self.assertIn("Core", printed[0]["content"]["text"])
            self.assertEqual(published.index(printed[0]), 1, "before the result")
            self.assertNotIn("Core", kernel.output())


class Places(unittest.TestCase):
    def test_runtime_folder(self):
        """Who gives no file finds it in Jupyter's folder, which is this person's alone."""
        folders = (("JUPYTER_RUNTIME_DIR", ""), ("JUPYTER_DATA_DIR", "runtime"), ("XDG_DATA_HOME", "jupyter/runtime"),
                   ("HOME", ".local/share/jupyter/runtime"))
        with Kernel() as kernel:
            environment = {k: v for k, v in kernel.environment.items() if k not in dict(folders)}
            for name, below in reversed(folders):       # each goes before those that were set until now
                root = os.path.join(kernel.folder, name)
                os.mkdir(root)
                environment[name] = root
                self.found(environment, os.path.join(root, below))

    def found(self, environment, folder):
        process = subprocess.Popen([os.environ["RELAY"], "kernel", "run"], env=environment, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stderr.readline()
            path = re.search(r"--existing (\S+)", line).group(1)
            self.assertEqual(os.path.normpath(path), os.path.normpath(os.path.join(folder, f"kernel-{process.pid}.json")))
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            if folder.endswith("runtime"):
                self.assertEqual(os.stat(os.path.dirname(path)).st_mode & 0o777, 0o700)
            with open(path) as file:
                fields = json.load(file)
            self.assertRegex(fields["key"], "^[0-9a-f]{32}$")
            self.assertTrue(uuid.UUID(fields["key"]))
        finally:
            process.terminate()
            self.assertEqual(process.wait(20), 0)
            process.stderr.close()


if __name__ == "__main__":
    unittest.main()
