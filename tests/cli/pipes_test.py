"""Whoever reads or writes a pipe waits for its other end, and asks the limits meanwhile; what never ends is read up to them."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

relay = os.environ["RELAY"]
failures = []
program = '#[version = "0.0.5"]\ndef @main(%x: int32) { %x + 1 }\n'


def run(*args, **kwargs):
    done = subprocess.run([relay, *args], capture_output=True, text=True, timeout=60, **kwargs)
    return done.returncode, done.stdout, done.stderr


def expect(what, got, status, out="", err=""):
    if got[0] != status or got[1] != out or err not in got[2] or (not err and got[2]):
        failures.append(f"{what}: {got}")


def late(path, text):
    """Somebody who writes a while after it is read."""

    def write():
        time.sleep(0.3)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


with tempfile.TemporaryDirectory() as folder:
    at = lambda name: os.path.join(folder, name)
    pipe = at("pipe")
    os.mkfifo(pipe)
    for name, text in (("p.rly", program), ("a.json", "[3]"), ("save.txt", f"let %x = 3; :save {pipe}")):
        with open(at(name), "w", encoding="ascii") as file:
            file.write(text)
    with open(at("import.rly"), "w", encoding="ascii") as file:
        file.write('#[version = "0.0.5"]\nimport "pipe"\ndef @main() { 1 }\n')

    for args in (["run", pipe], ["fmt", pipe], ["equal", at("p.rly"), pipe], [pipe],
                 ["run", at("p.rly"), "--args", pipe], ["export", at("p.rly"), "-o", pipe]):
        expect(args, run(*args, "--time-limit", "0.2"), 3, err="E0502")
    expect("save", run("--time-limit", "0.2", at("save.txt")), 3, "%x: int32 = 3\n", "E0502")
    expect("import", run("run", at("import.rly")), 2, err="it is no file")
    expect("params", run("run", at("p.rly"), "--params", pipe), 2, err="it is no file")
    expect("endless", run("run", "/dev/zero", "--memory-limit", "100"), 3, err="E0503")
    expect("endless, as arguments", run("run", at("p.rly"), "--args", "/dev/zero", "--memory-limit", "100"), 3,
           err="E0503")

    for args, text in ((["run", pipe, "--args", at("a.json")], program), (["run", at("p.rly"), "--args", pipe], "[3]")):
        writer = late(pipe, text)
        expect(args, run(*args), 0, "4\n")
        writer.join()
    expect("input", run("run", "/dev/stdin", "--args", at("a.json"), input=program), 0, "4\n")
    expect("input", run("run", "-", "--args", at("a.json"), input=program), 0, "4\n")

    writing = subprocess.Popen([relay, "export", at("p.rly"), "-o", pipe], stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    with open(pipe, "rb") as file:
        if len(file.read()) < 50 or writing.wait(60) != 0:
            failures.append("what is written to a pipe arrives")

    kernel = subprocess.Popen([relay, "kernel", "run", "-f", pipe], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    kernel.send_signal(signal.SIGTERM)
    try:
        kernel.wait(10)
    except subprocess.TimeoutExpired:
        kernel.kill()
        failures.append("a kernel that waits for its connection does not end by SIGTERM")
print("\n".join(failures))
sys.exit(bool(failures))
