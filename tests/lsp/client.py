"""A small client of the language server: it speaks to the real program over pipes."""
import json
import os
import subprocess
import threading
import queue

RELAY = os.environ.get("RELAY", "build/release/relay")


class Server:
    def __init__(self, encodings=None, initialize=True):
        self.process = subprocess.Popen([RELAY, "lsp"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.incoming = queue.Queue()
        self.notes = []
        self.number = 0
        threading.Thread(target=self._read, daemon=True).start()
        if initialize:
            general = {"positionEncodings": encodings} if encodings else {}
            self.capabilities = self.ask("initialize", {
                "processId": None, "rootUri": None,
                "capabilities": {"general": general}})["capabilities"]
            self.tell("initialized", {})

    def work(self):
        """The seconds of processor time that the server's threads have taken."""
        spent = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat", encoding="ascii") as file:
                spent += int(file.read().split()[0])
        return spent / 1e9

    def _read(self):
        out = self.process.stdout
        while True:
            length = None
            while True:
                line = out.readline()
                if not line:
                    self.incoming.put(None)
                    return
                if line in (b"\r\n", b"\n"):
                    break
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.incoming.put(json.loads(out.read(length)))

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        text = json.dumps(dict(message, jsonrpc="2.0")).encode()
        self.raw(b"Content-Length: %d\r\n\r\n" % len(text) + text)

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def receive(self, timeout=30):
        message = self.incoming.get(timeout=timeout)
        assert message is not None, "the server ended"
        return message

    def ask_raw(self, method, params):
        self.number += 1
        number = self.number
        self.send({"id": number, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == number and "method" not in message:
                return message
            self.notes.append(message)

    def ask(self, method, params):
        reply = self.ask_raw(method, params)
        assert "error" not in reply, reply
        return reply["result"]

    def note(self, method, fits=lambda params: True):
        """The next notification of the method; those before it are kept."""
        for i, message in enumerate(self.notes):
            if message.get("method") == method and fits(message["params"]):
                del self.notes[i]
                return message["params"]
        while True:
            message = self.receive()
            if message.get("method") == method and fits(message["params"]):
                return message["params"]
            self.notes.append(message)

    def end(self):
        self.ask("shutdown", None)
        self.tell("exit", None)
        self.process.stdin.close()
        status = self.process.wait(30)
        errors = self.process.stderr.read().decode()
        assert status == 0 and errors == "", (status, errors)


class Document:
    """A text in the server. A `^` in `at` marks the place of a question and is no part of the text."""

    def __init__(self, server, text, uri="file:///tmp/program.rly"):
        self.server, self.uri, self.version = server, uri, 1
        self.text = text
        server.tell("textDocument/didOpen", {"textDocument": {
            "uri": uri, "languageId": "relay", "version": 1, "text": text}})

    def diagnostics(self):
        return self.server.note("textDocument/publishDiagnostics",
                                lambda p: p["uri"] == self.uri
                                and p.get("version") == self.version)["diagnostics"]

    def place(self, word, nth=0, inside=0):
        at = -1
        for _ in range(nth + 1):
            at = self.text.index(word, at + 1)
        return self.position(at + inside)

    def position(self, offset):
        before = self.text[:offset]
        line = before.count("\n")
        column = len(before[before.rfind("\n") + 1:].encode("utf-16-le")) // 2
        return {"line": line, "character": column}

    def offset(self, position):
        lines = self.text.split("\n")
        start = sum(len(line) + 1 for line in lines[:position["line"]])
        units = lines[position["line"]].encode("utf-16-le")[:2 * position["character"]]
        return start + len(units.decode("utf-16-le"))

    def slice(self, range_):
        return self.text[self.offset(range_["start"]):self.offset(range_["end"])]

    def ask(self, method, position=None, **more):
        params = dict(more, textDocument={"uri": self.uri})
        if position is not None:
            params["position"] = position
        return self.server.ask("textDocument/" + method, params)

    def replace(self, start, end, put):
        """One change of a part of the text."""
        self.version += 1
        range_ = {"start": self.position(start), "end": self.position(end)}
        self.text = self.text[:start] + put + self.text[end:]
        self.server.tell("textDocument/didChange", {
            "textDocument": {"uri": self.uri, "version": self.version},
            "contentChanges": [{"range": range_, "text": put}]})

    def apply(self, edits):
        """The text after edits, which do not overlap."""
        text = self.text
        for edit in sorted(edits, key=lambda e: -self.offset(e["range"]["start"])):
            a, b = (self.offset(edit["range"][k]) for k in ("start", "end"))
            text = text[:a] + edit["newText"] + text[b:]
        return text
