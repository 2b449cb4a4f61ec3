"""What the tests of the examples share."""

import os
import subprocess

SOURCE = os.environ["RELAY_SOURCE"]
RELAY = os.environ["RELAY"]


def has_jit():
    """Whether this build of relay has the second engine."""
    said = subprocess.run([RELAY, "version"], capture_output=True, text=True, check=True).stdout
    return any(line.startswith("LLVM") and line.split()[1][0].isdigit() for line in said.splitlines())


def complaints(text):
    """What a program wrote on standard error, but for the sanitizer's notice that it follows switches of stacks by halves."""
    return "".join(line for line in text.splitlines(True) if "makecontext/swapcontext" not in line)
