"""A small Jupyter client over bare ZeroMQ sockets, for tests that look at every message.

    with Kernel() as kernel:
        client = kernel.client()
        reply, published = client.ask("execute_request", {"code": "1 + 2"})

Every message that arrives is checked: signature, header, the fields that its type must have. A kernel that leaves
with another status than 0, or with a report of a sanitizer, fails the test.
"""

import datetime
import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import zmq

DELIMITER = b"<IDS|MSG>"
WAIT = 120      # seconds for what has to come, on a machine that much else keeps busy
CHANNELS = ("shell", "control", "stdin", "iopub", "hb")

# The fields that each message of the kernel must have, and their types.
SCHEMAS = {
    "status": {"execution_state": str},
    "iopub_welcome": {"subscription": str},
    "stream": {"name": str, "text": str},
    "display_data": {"data": dict, "metadata": dict},
    "update_display_data": {"data": dict, "metadata": dict, "transient": dict},
    "execute_input": {"code": str, "execution_count": int},
    "execute_result": {"execution_count": int, "data": dict, "metadata": dict},
    "error": {"ename": str, "evalue": str, "traceback": list},
    "clear_output": {"wait": bool},
    "comm_msg": {"comm_id": str, "data": dict},
    "comm_close": {"comm_id": str, "data": dict},
    "shutdown_reply": {"status": str, "restart": bool},
    "execute_reply": {"status": str, "execution_count": int, "payload": list, "user_expressions": dict},
    "complete_reply": {"status": str, "matches": list, "cursor_start": int, "cursor_end": int, "metadata": dict},
    "inspect_reply": {"status": str, "found": bool, "data": dict, "metadata": dict},
    "is_complete_reply": {"status": str},
    "history_reply": {"status": str, "history": list},
    "kernel_info_reply": {"status": str, "protocol_version": str, "implementation": str, "language_info": dict,
                          "banner": str},
    "comm_info_reply": {"status": str, "comms": dict},
    "connect_reply": {"shell_port": int, "iopub_port": int, "stdin_port": int, "hb_port": int,
                      "control_port": int},
    "interrupt_reply": {"status": str},
    "create_subshell_reply": {"status": str, "subshell_id": str},
    "delete_subshell_reply": {"status": str},
    "list_subshell_reply": {"status": str, "subshell_id": list},
    "debug_reply": {"type": str, "seq": int, "request_seq": int, "success": bool, "command": str, "body": dict},
    "debug_event": {"type": str, "seq": int, "event": str, "body": dict},
    "input_request": {"prompt": str, "password": bool},
    "usage_reply": {"hostname": str, "pid": int, "cpu_count": int, "kernel_cpu": float, "kernel_memory": int,
                    "host_cpu_percent": float, "host_virtual_memory": dict},
}


def check_message(message):
    """Raises AssertionError unless the message is as the protocol says."""
    header, content = message["header"], message["content"]
    for field in ("msg_id", "session", "username", "date", "msg_type", "version"):
        assert isinstance(header.get(field), str), f"header lacks {field}: {header}"
    assert isinstance(message["parent_header"], dict) and isinstance(message["metadata"], dict)
    kind = header["msg_type"]
    assert kind in SCHEMAS, f"unexpected message {kind}"
    if content.get("status") == "error":
        for field, type_ in SCHEMAS["error"].items():
            assert isinstance(content.get(field), type_), f"{kind}: {field} in {content}"
        return
    for field, type_ in SCHEMAS[kind].items():
        assert isinstance(content.get(field), type_), f"{kind}: {field} in {content}"
    if kind in ("display_data", "update_display_data", "execute_result"):
        assert "text/plain" in content["data"], content
        assert all(re.fullmatch(r"[\w\-+.]+/[\w\-+.]+", mime) for mime in content["data"]), list(content["data"])
        assert set(content) <= {"data", "metadata", "transient", "execution_count"}, set(content)


def number(text):
    """NaN and infinities are none in JSON."""
    raise AssertionError(f"{text} in a message")


class Client:
    """One front end: a session of its own on all channels."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.session = uuid.uuid4().hex
        self.sockets = {}
        self.replies = {}   # to requests that were not asked for yet
        self.early = []     # published messages of requests that were not asked for yet
        for name in CHANNELS:
            kind = {"iopub": zmq.SUB, "hb": zmq.REQ}.get(name, zmq.DEALER)
            socket = kernel.context.socket(kind)
            socket.linger = 0
            if kind == zmq.DEALER:
                socket.identity = self.session.encode()
            if kind == zmq.SUB:
                socket.subscribe(b"")
            if kernel.curve:
                socket.curve_serverkey = kernel.curve["public"]
                socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
            socket.ipv6 = "[" in kernel.endpoint(name)
            socket.connect(kernel.endpoint(name))
            self.sockets[name] = socket
        # What other clients asked for may still be on its way when this one subscribes.
        while True:
            welcome = self.receive("iopub")
            assert welcome, "no welcome"
            if welcome["header"]["msg_type"] == "iopub_welcome":
                break
        assert welcome["content"] == {"subscription": ""}

    def close(self):
        for socket in self.sockets.values():
            socket.close()

    def frames(self, kind, content, **header):
        """Signature and four parts of a request."""
        header = {"msg_id": uuid.uuid4().hex, "session": self.session, "username": "tester",
                  "date": datetime.datetime.now(datetime.timezone.utc).isoformat(), "msg_type": kind, "version": "5.4", **header}
        parts = [json.dumps(part, ensure_ascii=False).encode() for part in (header, {}, {}, content)]
        return header["msg_id"], [DELIMITER, self.kernel.sign(parts), *parts]

    def send(self, kind, content, channel="shell", **header):
        """Sends a request and gives its id."""
        message_id, frames = self.frames(kind, content, **header)
        self.sockets[channel].send_multipart(frames)
        return message_id

    def receive(self, channel, timeout=WAIT):
        """The next message on a channel; None when there is none in time."""
        socket = self.sockets[channel]
        if not socket.poll(timeout * 1000):
            return None
        frames = socket.recv_multipart()
        at = frames.index(DELIMITER)
        if channel == "iopub":
            assert at == 1, "one topic in front of the delimiter"
        parts = frames[at + 2:at + 6]
        assert frames[at + 1] == self.kernel.sign(parts), "signature of the kernel"
        message = dict(zip(("header", "parent_header", "metadata", "content"), (json.loads(part, parse_constant=number) for part in parts)))
        check_message(message)
        self.kernel.unique(message)
        if message["content"].get("execution_state") == "starting":     # for those who are early
            assert message["parent_header"] == {}
            return self.receive(channel, timeout)
        return message

    def reply_to(self, message_id, channel="shell", timeout=WAIT):
        """The reply to a request; others, which may come before it, are kept."""
        while message_id not in self.replies:
            reply = self.receive(channel, timeout)
            if not reply:
                return None
            self.replies[reply["parent_header"]["msg_id"]] = reply
        return self.replies.pop(message_id)

    def published(self, message_id, timeout=WAIT, progress=False):
        """What the request caused on iopub, from busy to idle, without both; `progress`: with the line about a cell that runs for long."""
        messages, started, others = [], False, []
        while True:
            message = self.early.pop(0) if self.early else self.receive("iopub", timeout)
            assert message, f"no idle; so far {[m['header']['msg_type'] for m in messages]}"
            if message["parent_header"].get("msg_id") != message_id:
                others.append(message)
                continue
            state = message["content"].get("execution_state")
            if state == "busy":
                assert started or not messages, "busy comes first"   # and again when something was answered meanwhile
                started = True
            elif state == "idle":
                assert started, "busy before idle"
                self.early = others + self.early
                return messages if progress else without_progress(messages)
            else:
                messages.append(message)

    def ask(self, kind, content, channel="shell", timeout=WAIT):
        """Sends a request; gives the reply's content and what was published."""
        message_id = self.send(kind, content, channel)
        reply = self.receive(channel, timeout)
        assert reply, f"no reply to {kind}"
        assert reply["parent_header"]["msg_id"] == message_id, "reply to another request"
        assert reply["header"]["msg_type"] == kind.replace("_request", "_reply")
        return reply["content"], self.published(message_id, timeout)

    def execute(self, code, **fields):
        """Runs a cell."""
        return self.ask("execute_request", {"code": code, **fields})

    def beat(self, timeout=1):
        """Whether the heart beats."""
        hb = self.sockets["hb"]
        hb.send(b"ping")
        return bool(hb.poll(timeout * 1000)) and hb.recv() == b"ping"


class Kernel:
    """A kernel process with a connection file of its own; `before` is called in it."""

    def __init__(self, transport="tcp", key="a0436f6c-1916-498b-8eb9-e81ab9368e84", curve=False, environment=None,
                 connection=None, wait=True, mode=0o600, options=(), before=None):
        self.folder = tempfile.mkdtemp(prefix="relay-kernel-")
        self.context = zmq.Context()
        self.key, self.ids, self.clients, self.options, self.before = key, {}, [], options, before
        self.curve = None
        self.file = os.path.join(self.folder, "connection.json")
        self.connection = {"transport": transport, "key": key, "signature_scheme": "hmac-sha256",
                           "ip": "127.0.0.1" if transport == "tcp" else os.path.join(self.folder, "ipc")}
        if curve:
            public, secret = zmq.curve_keypair()
            self.curve = {"public": public}
            self.connection.update(curve_publickey=public.decode(), curve_secretkey=secret.decode())
        self.connection.update(connection or {})
        with open(os.open(self.file, os.O_CREAT | os.O_WRONLY, mode), "w") as file:
            json.dump(self.connection, file)
        self.environment = {**os.environ, "XDG_STATE_HOME": self.folder, "JUPYTER_RUNTIME_DIR": self.folder,
                            **(environment or {})}
        self.environment.pop("JPY_PARENT_PID", None)
        self.environment.update(environment or {})
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.start(wait)

    def start(self, wait=True):
        """Starts the process."""
        self.process = subprocess.Popen([os.environ["RELAY"], "kernel", "run", "-f", self.file, *self.options], env=self.environment,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=self.folder,
                                        start_new_session=True, preexec_fn=self.before)
        if wait:
            self.await_start()

    def await_interruptible(self):
        """Waits until an interrupt does not end the process any more: until its first instructions have run. A thread that waits for
        signals does not block them, but then there are others."""
        blocked = 0
        while not blocked & 1 << (signal.SIGINT - 1):
            assert self.process.poll() is None, self.output()
            for task in os.listdir(f"/proc/{self.process.pid}/task"):
                with open(f"/proc/{self.process.pid}/task/{task}/status") as file:
                    blocked |= next(int(line.split()[1], 16) for line in file if line.startswith("SigBlk:"))
            time.sleep(0.001)

    def await_start(self):
        """Waits until the connection file has all ports."""
        while not all(self.connection.get(f"{name}_port") for name in CHANNELS):
            assert self.process.poll() is None, self.output()
            time.sleep(0.005)
            try:
                with open(self.file) as file:
                    self.connection = json.load(file)
            except json.JSONDecodeError:
                continue

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None and self.process.poll() is None:
                self.client().ask("shutdown_request", {"restart": False}, "control")
                assert self.wait() == 0, f"exit status {self.process.returncode}\n{self.output()}"
            assert "Sanitizer" not in self.output(), self.output()
        finally:
            self.close()

    def close(self):
        """Ends everything."""
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.context.destroy(linger=0)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait(self, timeout=20):
        """The exit status; None when the process still runs."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def output(self):
        """What the kernel wrote to its standard output and error."""
        with open(self.log.name) as file:
            return file.read()

    def endpoint(self, name):
        separator = ":" if self.connection["transport"] == "tcp" else "-"
        ip = f"[{self.connection['ip']}]" if self.connection["ip"].startswith("::") else self.connection["ip"]
        return f"{self.connection['transport']}://{ip}{separator}{self.connection[name + '_port']}"

    def sign(self, parts):
        if not self.key:
            return b""
        return hmac.new(self.key.encode(), b"".join(parts), hashlib.sha256).hexdigest().encode()

    def unique(self, message):
        """Several clients see a published message, but no two messages have one id."""
        header, content = message["header"], json.dumps(message["content"])
        assert self.ids.setdefault(header["msg_id"], (header["msg_type"], content)) == (header["msg_type"], content)

    def client(self):
        client = Client(self)
        self.clients.append(client)
        return client


def slowness():
    """How many times as long as the released program this one may take: those with sanitizers look at every access."""
    with open(os.environ["RELAY"], "rb") as file:
        program = file.read()
    return 10 if b"__asan_init" in program or b"__tsan_init" in program else 1


PROGRESS = "relay-progress-"


def is_progress(message):
    """Whether it is the line about a cell that runs for long."""
    return message["content"].get("transient", {}).get("display_id", "").startswith(PROGRESS)


def without_progress(messages):
    """What is left when the machine is quick: without the line, and what clears it where nothing stands beside it."""
    kept, cleared = [], False
    for message in messages:
        kind = message["header"]["msg_type"]
        if is_progress(message):
            cleared = bool(message["content"]["data"]["text/plain"])
        elif kind == "clear_output" and cleared:
            cleared = False
        else:
            kept.append(message)
    return kept


def types(messages):
    """The types of messages, for comparison."""
    return [message["header"]["msg_type"] for message in messages]
