"""Inference takes time in proportion to the program: straight lines, nested lets, functions that call each other, types that
flow backwards through a chain of operators, and errors at the end of long programs.

What is measured is processor time of `relay check` without that of `relay fmt`, which reads and prints the same text, so
that other work on the machine counts for little; the bounds are wide for the same reason.
"""

import os
import resource
import subprocess
import sys
import tempfile

RELAY = os.path.abspath(os.environ["RELAY"])
HEADER = '#[version = "0.0.5"]\n'


def straight(n):
    lines = [f"  let %x{i + 1} = add(%x{i}, %x0);" for i in range(n)]
    return "def @main(%x0: Tensor[(2, 3), float32]) {\n" + "\n".join(lines) + f"\n  %x{n}\n}}\n"


def graph(n):
    lines = [f"  %{i + 1} = add(%{i}, %x);" for i in range(n)]
    return "def @main(%x: Tensor[(2, 3), float32]) {\n  %0 = exp(%x);\n" + "\n".join(lines) + f"\n  %{n}\n}}\n"


def nested(n):
    lines = [f"let %y{i} = {{ let %z{i} = add(%x, %x); %z{i} }};" for i in range(n)]
    return "def @main(%x: Tensor[(2, 3), float32]) {\n" + "\n".join(lines) + "\n  %x\n}\n"


def backwards(n):
    """The parameter's type comes from the last call."""
    lines = [f"  let %x{i + 1} = nn.relu(%x{i});" for i in range(n)]
    return ("def @main() {\n let %f = fn (%x0) {\n" + "\n".join(lines) +
            f"\n  %x{n}\n }};\n %f(2f)\n}}\n")


def mutual(n):
    return "".join(f"def @f{i}(%x: int32, %y: float32) {{ if (less(%x, 1)) {{ %y }} else {{ @f{(i + 1) % n}(subtract(%x, 1), %y) }} }}\n"
                   for i in range(n)) + "def @main() { @f0(10, 2f) }\n"


def wrong(n):
    """Each of its last lines is explained through all of it."""
    program = straight(n)
    bad = "".join(f"  let %e{i} = add(%x{n}, ones(shape=[5], dtype=\"float32\"));\n" for i in range(20))
    return program.replace(f"\n  %x{n}\n", f"\n{bad}  %x{n}\n")


def seconds(verb, path, status=0):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([RELAY, verb, path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=110)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == status, (verb, done.returncode, done.stderr.decode()[:500])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def inference(program, folder, status=0):
    path = os.path.join(folder, "program.rly")
    with open(path, "w") as file:
        file.write(HEADER + program)
    return max(0.0, min(seconds("check", path, status) for _ in range(2)) - min(seconds("fmt", path) for _ in range(2)))


def main():
    shapes = [(straight, 10000, 0), (graph, 10000, 0), (nested, 10000, 0), (backwards, 10000, 0), (mutual, 1000, 0),
              (wrong, 5000, 1)]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for shape, n, status in shapes:
            once = inference(shape(n), folder, status)
            twice = inference(shape(2 * n), folder, status)
            good = once < 3 and twice < 4 * once + 0.5
            failures += not good
            print(f"{shape.__name__:10} {n:6}: {once:.3f} s, twice as much: {twice:.3f} s{'' if good else '  TOO SLOW'}")
    return failures


sys.exit(main())
