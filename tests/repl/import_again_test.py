"""`import` of a file that changed meanwhile: what a session made of the old one is checked again."""
import os
import pathlib
import subprocess
import tempfile

LIBRARY = """#[version = "0.0.5"]
type Shape { Circle(float32), Square(float32)%s }
def @area(%%s: Shape) -> float32 { match (%%s) { Circle(%%r) => 3f * %%r, Square(%%a) => %%a%s } }
def @one() -> %s
"""


class Session:
    """A session in a folder with a file `lib.rly`."""

    def __init__(self, folder):
        self.library = pathlib.Path(folder, "lib.rly")
        self.process = subprocess.Popen(
            [os.environ["RELAY"]], cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.asked = 1000000

    def ask(self, text):
        """What is printed for the text."""
        self.asked += 1
        self.process.stdin.write(f"{text}\n{self.asked}\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.strip() == str(self.asked):
                break
            lines.append(line)
        return "".join(lines)

    def expect(self, text, *parts):
        answer = self.ask(text)
        for part in parts:
            assert part in answer, f"{text}\ngave\n{answer}\nwithout\n{part}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        s = Session(folder)
        s.library.write_text(LIBRARY % ("", "", "int32 { 1 }"))
        s.ask('import "lib.rly"')
        s.ask("def @mine(%s: Shape) -> float32 { @area(%s) + 1f }")
        s.ask("def @two() -> int32 { @one() + 1 }")
        s.ask("let %s = Square(3f);")
        s.expect("(@mine(%s), @two())", "(4, 2)")

        # A constructor more, and another value: functions and variables of the session move with the file.
        s.library.write_text(LIBRARY % (", Dot", ", Dot => 0f", "int32 { 10 }"))
        s.ask('import "lib.rly"')
        s.expect("(@mine(%s), @mine(Dot), @two())", "(4, 1, 11)")

        # Another type: the session's text no longer fits, until the file is as it was.
        s.library.write_text(LIBRARY % (", Dot", ", Dot => 0f", "float32 { 10f }"))
        s.expect('import "lib.rly"', "warning[W0203]: `@two` no longer fits `@one`", "def @two() -> int32 { @one() + 1 }")
        s.expect("(@one(), @mine(Dot))", "(10, 1)")
        s.expect("@two()", "error[E0218]")
        s.library.write_text(LIBRARY % (", Dot", ", Dot => 0f", "int32 { 20 }"))
        s.ask('import "lib.rly"')
        s.expect("@two()", "21")
        s.process.stdin.close()
        s.process.wait()


main()
