"""A graph in which two names stand for one function: as text they are two, which read back as the same program."""
import json
import os
import subprocess

relay = os.environ["RELAY"]
TEXT = """#[version = "0.0.5"]
def @f(%a: int32, %b: int32) -> int32 { %0 = multiply(%a, %b); add(%0, %0) }
def @g(%x: int32, %y: int32) -> int32 { subtract(%x, %y) }
def @main() -> (int32, int32) { (@f(3, 4), @g(3, 4)) }
"""


def run(*args, text):
    return subprocess.run([relay, *args, "-"], input=text, capture_output=True, text=True)


graph = json.loads(run("fmt", "--to", "json", text=TEXT).stdout)
functions = graph["nodes"][int(graph["nodes"][1]["attrs"]["functions"])]
functions["data"][3] = functions["data"][1]  # name, function, in the order of names
shared = json.dumps(graph)
written = run("fmt", "--from", "json", text=shared)
assert written.returncode == 0, written.stderr
back = run("run", text=written.stdout)
assert back.stdout == "(24, 24)\n", (written.stdout, back)
assert run("check", text=written.stdout).returncode == 0
