"""The kernel beside ipykernel and xeus-python, by one client in one run: how soon it is ready, the round trip of a cell, an interrupt,
completion, inspection and history while nothing and while a cell runs, and whether thousands of cells make it slower. Where a compiler
and libzmq are, null_kernel.c stands in the table too: what of ready and round trip is the client's, libzmq's and the system's.

"ready" is what somebody waits for who starts a kernel as Jupyter does, by its KernelManager: from then until the kernel has answered.
"ready, connected at once" has a client that connects as soon as there is a process. Where it comes before the kernel listens, a hundred
milliseconds of that are libzmq's in the client, until it tries again.

    python3 -m venv V; V/bin/pip install xeus-python ipykernel
    RELAY=build/release/relay V/bin/python tests/bench/kernels.py [CELLS]

Kernels are asked in turn, so that what else the machine does meets all of them. A table comes out; times are medians in milliseconds.
"""

import importlib.util
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import time

from jupyter_client import BlockingKernelClient, KernelManager
from jupyter_client.connect import write_connection_file
from jupyter_client.kernelspec import KernelSpec

DEFINITIONS = 5000
PYTHON = {"define": "\n".join(f"def f{i}(x): return x + {i}" for i in range(DEFINITIONS)), "cell": "1 + 2",
          "forever": "while True: pass", "complete": "f49", "inspect": "f4999"}
RELAY = {"define": "\n".join(f"def @f{i}(%x: int32) -> int32 {{ %x + {i} }}" for i in range(DEFINITIONS))
                   + "\ndef @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }",
         "cell": "1 + 2", "forever": "@spin(1000000000000000i64)", "complete": "@f49",
         "inspect": "@f4999"}
KERNELS = {
    "relay": ([os.environ["RELAY"], "kernel", "run", "-f"], RELAY, "message"),
    "ipykernel": ([sys.executable, "-m", "ipykernel_launcher", "-f"], PYTHON, "signal"),
    "xeus-python": ([sys.executable, "-m", "xpython_launcher", "-f"], PYTHON, "signal"),
}
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NULL = {"cell": "1 + 2"}
BUSY_S = 2      # a completion that has not come by then waits for the cell
INTERRUPT_S = 5  # a cell that has not ended by then is not interrupted


def answers(client):
    """Returns when the kernel has answered for the first time."""
    asked = set()
    while True:     # a request to a kernel that has no sockets yet waits for them, and is sent again to be sure
        asked.add(client.kernel_info())
        try:
            reply = client.get_shell_msg(timeout=1)
        except queue.Empty:
            continue
        if reply["parent_header"].get("msg_id") in asked:
            return


def managed(name):
    """Seconds until a kernel answers that is started as Jupyter starts one."""
    started = time.perf_counter()
    manager = KernelManager()
    manager._kernel_spec = KernelSpec(argv=[*KERNELS[name][0], "{connection_file}"], display_name=name, language=name)
    manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = manager.client()
    client.start_channels()
    answers(client)
    took = time.perf_counter() - started
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    return took


class Kernel:
    """A process and a client of it."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.start()

    def start(self):
        name, folder = self.name, self.folder
        command, self.texts, self.mode = KERNELS[name]
        file = os.path.join(folder, f"{name}-{time.monotonic_ns()}.json")
        write_connection_file(file, kernel_name=name, key=os.urandom(16).hex().encode())
        self.process = subprocess.Popen([*command, file], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, cwd=folder, start_new_session=True,
                                        env={**os.environ, "XDG_STATE_HOME": folder, "IPYTHONDIR": folder})
        started = time.perf_counter()
        self.client = BlockingKernelClient(connection_file=file)
        self.client.load_connection_file()
        self.client.start_channels()
        answers(self.client)
        self.ready = time.perf_counter() - started
        self.client.wait_for_ready(timeout=60)

    def reply(self, request, timeout=120):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                message = self.client.get_shell_msg(timeout=max(end - time.monotonic(), 0.001))
            except Exception:
                return None
            if message["parent_header"].get("msg_id") == request:
                return message
        return None

    def idle(self, request):
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") == request and message["content"].get("execution_state") == "idle":
                return

    def begun(self, request):
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") == request and message["msg_type"] == "execute_input":
                time.sleep(0.05)
                return

    def cell(self, text):
        """Seconds until the reply."""
        started = time.perf_counter()
        request = self.client.execute(text)
        reply = self.reply(request)
        took = time.perf_counter() - started
        assert reply["content"]["status"] == "ok", reply["content"]
        self.idle(request)
        return took

    def interrupt(self):
        if self.mode == "message":
            self.client.control_channel.send(self.client.session.msg("interrupt_request", {}))
        else:
            os.kill(self.process.pid, 2)

    def interrupted(self):
        """Seconds from an interrupt to the reply of a cell that never ends; None: it did not end."""
        request = self.client.execute(self.texts["forever"])
        self.begun(request)
        return self.stop(request)

    def stop(self, request):
        started = time.perf_counter()
        self.interrupt()
        reply = self.reply(request, INTERRUPT_S)
        took = time.perf_counter() - started
        if not reply:
            self.end()
            self.start()
            self.cell(self.texts["define"])
            return None
        assert reply["content"]["status"] == "error", reply["content"]
        self.idle(request)
        return took

    def answered(self, question, timeout=120):
        """Seconds until one of QUESTIONS is answered; None: it was not."""
        ask, good = QUESTIONS[question]
        started = time.perf_counter()
        reply = self.reply(ask(self), timeout)
        took = time.perf_counter() - started
        assert not reply or good(reply["content"]), reply["content"]
        return took if reply else None

    def answered_busy(self, times):
        """The same for each question while a cell runs that does not end."""
        request = self.client.execute(self.texts["forever"])
        self.begun(request)
        took = {question: [self.answered(question, BUSY_S) for _ in range(times)] if self.answered(question, BUSY_S) else [None]
                for question in QUESTIONS}
        self.stop(request)
        return took

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self):
        self.client.stop_channels()
        self.process.kill()
        self.process.wait()


QUESTIONS = {
    "completion": (lambda k: k.client.complete(k.texts["complete"]), lambda content: len(content["matches"]) >= 11),
    "inspection": (lambda k: k.client.inspect(k.texts["inspect"]), lambda content: content["found"]),
    "history": (lambda k: k.client.history(hist_access_type="tail", n=20), lambda content: content["status"] == "ok"),
}


def build_null(folder):
    """Whether the null kernel could be compiled."""
    program = os.path.join(folder, "null")
    command = ["cc", "-O2", "-I", SOURCE, "-o", program, os.path.join(SOURCE, "tests", "bench", "null_kernel.c"),
               os.path.join(SOURCE, "kernel", "sha256.c"), "-lzmq"]
    try:
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return False
    KERNELS["null"] = ([program], NULL, "")
    return True


def ms(seconds):
    return "never" if None in seconds else f"{statistics.median(seconds) * 1000:.2f}"


def main():
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    missing = {"xeus-python"} if not importlib.util.find_spec("xpython_launcher") else set()
    rows = {}

    def row(what, values):
        rows[what] = values
        print(f"{what:46}" + "".join(f"{value:>14}" for value in values), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        build_null(folder)
        names = [name for name in KERNELS if name not in missing]
        print(f"{'':46}" + "".join(f"{name:>14}" for name in names))
        ready = {name: [] for name in names}
        at_once = {name: [] for name in names}
        for _ in range(15):
            for name in names:
                ready[name].append(managed(name))
                kernel = Kernel(name, folder)
                at_once[name].append(kernel.ready)
                kernel.end()
        row("ready", [ms(ready[name]) for name in names])
        row("ready, connected at once", [ms(at_once[name]) for name in names])
        kernels = [Kernel(name, folder) for name in names]
        trips = [[] for _ in kernels]
        for _ in range(300):
            for kernel, times in zip(kernels, trips):
                times.append(kernel.cell(kernel.texts["cell"]))
        row("round trip of a cell", [ms(times) for times in trips])
        row("the same, 95 of 100 are below", [f"{statistics.quantiles(times, n=20)[-1] * 1000:.2f}" for times in trips])
        while kernels[-1].name == "null":     # it knows nothing else
            kernels.pop().end()
        for kernel in kernels:
            kernel.cell(kernel.texts["define"])
            for _ in range(20):     # the newest of the history are cells of usual size
                kernel.cell(kernel.texts["cell"])
        row("interrupt of a loop", [ms([kernel.interrupted() for _ in range(5)]) for kernel in kernels])
        for question in QUESTIONS:
            times = [[] for _ in kernels]
            for _ in range(30):
                for kernel, took in zip(kernels, times):
                    took.append(kernel.answered(question))
            row(f"{question}, {DEFINITIONS} definitions", [ms(took) for took in times])
        busy = [kernel.answered_busy(30) for kernel in kernels]
        for question in QUESTIONS:
            row(f"{question} while a cell runs", [ms(took[question]) for took in busy])
        before = [kernel.memory() for kernel in kernels]
        open_before = [kernel.descriptors() for kernel in kernels]
        trips = [[] for _ in kernels]
        for _ in range(cells):
            for kernel, times in zip(kernels, trips):
                times.append(kernel.cell(kernel.texts["cell"]))
        part = max(cells // 20, 1)
        row(f"a cell, the first {part} of {cells}", [ms(times[:part]) for times in trips])
        row(f"a cell, the last {part}", [ms(times[-part:]) for times in trips])
        row("memory that they took, MiB", [f"{kernel.memory() - was:.1f}" for kernel, was in zip(kernels, before)])
        row("descriptors that they took", [str(kernel.descriptors() - was) for kernel, was in zip(kernels, open_before)])
        for kernel in kernels:
            kernel.end()


main()
