"""An interrupt ends every verb with E0501 and exit 3, whenever it comes: while the program's text is awaited, before the
work begins, within it, and while what came of it is written."""
import os
import signal
import subprocess
import sys
import tempfile
import time

relay = os.environ["RELAY"]
failures = []


def ended(what, child, done):
    """`done`: it may have ended by itself before."""
    said = child.communicate(timeout=60)[1].decode()
    if done and child.returncode == 0 and not said:
        return
    if child.returncode != 3 or said.count("error[E0501]: interrupted\n") != 1:
        failures.append(f"{what}: exit {child.returncode}: {said[:300]!r}")


def start(*args):
    return subprocess.Popen([relay, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def waits_for_signals(pid):
    """It has blocked SIGINT, so its own thread takes it."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        blocked = next(line for line in file if line.startswith("SigBlk:"))
    return int(blocked.split()[1], 16) >> (signal.SIGINT - 1) & 1


def interrupt_soon(child, wait):
    until = time.monotonic() + 30
    while child.poll() is None and not waits_for_signals(child.pid) and time.monotonic() < until:
        pass
    time.sleep(wait)
    child.send_signal(signal.SIGINT)


with tempfile.TemporaryDirectory() as folder:
    pipe, path = os.path.join(folder, "pipe"), os.path.join(folder, "text.rly")
    os.mkfifo(pipe)
    for verb in (["fmt"], ["check"], ["run"], ["opt", "-p", "FoldConstant"], []):
        waiting = start(*verb, pipe)
        interrupt_soon(waiting, 0.05)
        ended(f"{verb}, no text yet", waiting, False)
    with open(path, "w", encoding="ascii") as text:
        text.write("".join(f"let %v{i} = add({i}, 1);\n" for i in range(100_000)) + "1")
    for step in range(40):
        working = start("fmt", path)
        interrupt_soon(working, step * 0.0005)
        ended(f"fmt after {step / 2} ms", working, True)
    # What is written, and the sum over it that stands before, take a while; an interrupt leaves nothing of it.
    with open(path, "w", encoding="ascii") as text:
        text.write('#[version = "0.0.5"]\ndef @main() { full(1f, shape=[60000000]) }\n')
    os.mkdir(os.path.join(folder, "out"))
    for step in range(6):
        writing = start("run", path, "--out", os.path.join(folder, "out", "x.npz"))
        interrupt_soon(writing, 0.1 + step * 0.2)
        before = time.monotonic()
        ended(f"run --out after {0.1 + step * 0.2:.1f} s", writing, True)
        left = os.listdir(os.path.join(folder, "out"))
        if writing.returncode and (left or time.monotonic() - before > 0.7):
            failures.append(f"run --out, step {step}: {left}, after {time.monotonic() - before:.1f} s")
        for name in left:
            os.remove(os.path.join(folder, "out", name))
print("\n".join(failures))
sys.exit(bool(failures))
