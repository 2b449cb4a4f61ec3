"""How long the REPL takes from its start to its prompt, and to the value of a first expression.

    startup.py [BINARY]     medians of 30 runs, in milliseconds; the first expression is entered as
                            soon as the prompt stands, and once more after a rest
"""
import os
import pty
import select
import statistics
import sys
import tempfile
import time


class Reader:
    def __init__(self, fd):
        self.fd, self.text = fd, b""

    def until(self, mark):
        """Drops what comes up to the mark; the time at which it came."""
        while mark not in self.text:
            if not select.select([self.fd], [], [], 10)[0]:
                raise SystemExit("nothing came for ten seconds after %r" % self.text)
            self.text += os.read(self.fd, 65536)
        self.text = self.text.split(mark, 1)[1]
        return time.perf_counter()


def one_run(binary, rest):
    start = time.perf_counter()
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(binary, [binary])
    reader = Reader(fd)
    prompt = reader.until(b"relay> ")
    time.sleep(rest)
    before = time.perf_counter()
    os.write(fd, b"40 + 2\r")
    value = reader.until(b"42")
    reader.until(b"relay> ")
    os.write(fd, b"\x04")
    os.waitpid(pid, 0)
    os.close(fd)
    return (prompt - start) * 1e3, (value - before) * 1e3


def main():
    binary = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("RELAY", "build/release/relay"))
    with tempfile.TemporaryDirectory() as state:
        os.environ.update(XDG_STATE_HOME=state, TERM="xterm-256color")
        runs = [one_run(binary, 0) for _ in range(30)]
        rested = [one_run(binary, 0.1) for _ in range(10)]
    print("start to prompt          %6.2f ms" % statistics.median(r[0] for r in runs))
    print("first value at once      %6.2f ms" % statistics.median(r[1] for r in runs))
    print("first value after a rest %6.2f ms" % statistics.median(r[1] for r in rested))


if __name__ == "__main__":
    main()
