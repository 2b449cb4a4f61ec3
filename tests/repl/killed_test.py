"""A program that is killed at any moment leaves files whole, and what it has said is done stays done.

    killed_test.py [--rounds N] [--seed N]

Each round starts the program on one kind of work, kills it (signal 9) after a random part of the time that the work takes, and looks at
what lies there: files are as they were or as they were to become, lines whose answer stood on the screen are in the history, and the next
program finds its caches usable. What was left beside a file, if anything, does not keep the next one from being written."""
import argparse
import os
import pathlib
import pty
import random
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile

RELAY = os.environ["RELAY"]
PARTS = 4000
MARK = 7000000


def environment(home):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    return {**kept, "HOME": str(home), "NO_COLOR": "1", "TERM": "xterm"}


def program(n, spaced):
    """A program of n bindings, as `fmt` prints it or with more spaces."""
    lines = "".join(f"  let %a{i} = add({',' .join([f'%a{i - 1}' if i else '%x', '  1f' if spaced else ' 1f'])});\n" for i in range(n))
    return f'#[version = "0.0.5"]\ndef @main(%x: float32) -> float32 {{\n{lines}  %a{n - 1}\n}}\n'


class Work:
    """One kind of work in a folder of its own: what it starts with, the command, what is typed, and what may be found."""

    def __init__(self, home):
        self.home = home
        self.file = home / "file"
        self.took = 0.0

    def start(self):
        process = subprocess.Popen([RELAY, *self.words], cwd=self.home, env=environment(self.home), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            process.stdin.write(self.typed.encode())
            process.stdin.close()
        except BrokenPipeError:
            pass
        return process

    def prepare(self):
        self.first()
        began = time.monotonic()
        said = self.start().stdout.read().decode()
        self.took = time.monotonic() - began
        self.whole(said, True)
        self.first()

    def kill(self, part):
        process = self.start()
        time.sleep(self.took * part)
        process.kill()
        self.whole(process.stdout.read().decode(), False)
        process.wait()


class Format(Work):
    """`fmt -i` rewrites a file."""
    words, typed = ["fmt", "-i", "file"], ""

    def first(self):
        self.file.write_text(program(PARTS, True))

    def whole(self, said, done):
        text = self.file.read_text()
        assert text == program(PARTS, False) or (not done and text == program(PARTS, True)), "the file is neither the old one nor the new one"


class Save(Work):
    """`:save` in a session, again and again, with one definition more each time."""
    words = []
    typed = "".join(f"def @f{i}(%x: int32) -> int32 {{ %x + {i} }}\n:save file\n{MARK + i}\n" for i in range(60))

    def first(self):
        self.file.unlink(missing_ok=True)

    def whole(self, said, done):
        acknowledged = [i for i in range(60) if f"{MARK + i}\n" in said]
        text = self.file.read_text() if self.file.exists() else ""
        have = [i for i in range(60) if f"@f{i}(" in text]
        assert have == list(range(len(have))), "a definition is missing between others"
        assert not acknowledged or len(have) > acknowledged[-1], f"saved up to {acknowledged[-1]}, found {len(have)}"
        assert not have or subprocess.run([RELAY, "file"], capture_output=True, cwd=self.home, env=environment(self.home)).returncode == 0


class Out(Work):
    """`run -o` writes arrays over others."""
    words = ["run", "-o", "file.npz", "program.rly"]
    typed = ""

    def first(self):
        self.file = self.home / "file.npz"
        (self.home / "program.rly").write_text('#[version = "0.0.5"]\ndef @main() { (ones(shape=[512, 1024], dtype="float32"), 3) }\n')

    def whole(self, said, done):
        assert self.file.exists() or not done
        if self.file.exists():
            assert zipfile.ZipFile(self.file).testzip() is None
            assert sum(i.file_size for i in zipfile.ZipFile(self.file).infolist()) > 2 << 20


class Settings(Work):
    """`:set keep` writes the settings of sessions to come."""
    words = []
    typed = "".join(f":set opt {i % 4}\n:set keep\n{MARK + i}\n" for i in range(60))

    def first(self):
        pass

    def whole(self, said, done):
        again = subprocess.run([RELAY], input=":set\n", text=True, capture_output=True, env=environment(self.home))
        assert again.returncode == 0 and "error" not in again.stdout + again.stderr, again.stdout + again.stderr


class Cache(Work):
    """Code that is compiled goes into files, which the next program takes."""
    words = ["run", "--exec", "jit", "program.rly"]
    typed = ""

    def first(self):
        rows = "".join(f"def @f{i}(%x: Tensor[({i + 2}), float32]) -> Tensor[({i + 2}), float32] {{ tanh(%x) * {i}f }}\n" for i in range(4))
        calls = ", ".join(f"@f{i}(ones(shape=[{i + 2}], dtype=\"float32\"))" for i in range(4))
        (self.home / "program.rly").write_text(f'#[version = "0.0.5"]\n{rows}def @main() {{ ({calls}) }}\n')

    def whole(self, said, done):
        again = self.start()
        text = again.stdout.read().decode()
        assert again.wait() == 0 and "2.284" in text, text


class History:
    """Lines that are typed at a terminal and answered are in the history, whenever the program goes."""

    def __init__(self, home):
        self.home, self.typed = home, []

    def prepare(self):
        pass

    def lines(self):
        path = self.home / ".local/state/relay/history.sqlite"
        if not path.exists():
            return []
        with sqlite3.connect(path) as base:
            assert base.execute("pragma integrity_check").fetchone() == ("ok",)
            return [text for text, in base.execute("select input from entries")]

    def kill(self, part):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(RELAY, [RELAY], environment(self.home))
        said, asked, end = b"", 0, time.monotonic() + 0.3 + part
        while time.monotonic() < end:
            ready, _, _ = select.select([terminal], [], [], 0.01)
            if ready:
                said += os.read(terminal, 65536)
            n = len(self.typed)
            if asked == 0 or b"%d" % (2 * (MARK + n - 1)) in said:
                self.typed.append(f"{MARK + n} * 2")
                os.write(terminal, self.typed[-1].encode() + b"\r")
                asked += 1
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
        if asked and b"%d" % (2 * (MARK + len(self.typed) - 1)) not in said:
            self.typed.pop()
        kept = self.lines()
        for line in self.typed:
            assert line in kept, f"`{line}` was answered, and is not in the history"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    choose = random.Random(args.seed)
    kinds = [Format, Save, Out, Settings, Cache, History]
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            work = kind(pathlib.Path(folder))
            work.prepare()
            for i in range(args.rounds):
                part = choose.uniform(0, 1.1)
                try:
                    work.kill(part)
                except AssertionError as error:
                    print(f"{kind.__name__}, --seed {args.seed}, round {i}, at {part:.3f} of {getattr(work, 'took', 1):.3f} s: {error}")
                    return 1
            if kind is History:
                assert len(work.typed) > args.rounds, f"only {len(work.typed)} lines were answered"
    print(f"{len(kinds)} kinds of work, {args.rounds} kills each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
