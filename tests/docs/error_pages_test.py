#!/usr/bin/env python3
"""Every page of docs/errors has a program that gives its diagnostic; the runner runs it. What needs a machine at its
limits, or a mistake in relay itself, has none."""
import glob
import os
import re
import sys

WITHOUT = {
    "E0121": "thousands of brackets",
    "E0122": "a file in JSON",
    "E0306": "no operator is without an evaluation",
    "E0404": "a machine without a library",
    "E0407": "a machine without a card",
    "E0408": "a driver that reports an error",
    "E0409": "a card without memory",
    "E0501": "an interrupt",
    "E0502": "a limit of time",
    "E0504": "gigabytes of calls",
    "E0406": "a file of another framework",
    "E0505": "a breakpoint",
    "E0702": "LLVM that refuses",
    "E0901": "a mistake in relay",
    "W0401": "a file of another framework",
    "W0702": "a folder that is open to others",
}


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    wrong = []
    for path in sorted(glob.glob(os.path.join(root, "docs", "errors", "[A-Z][0-9]*.md"))):
        code = os.path.basename(path)[:-3]
        with open(path) as f:
            text = f.read()
        shown = re.search(r"(error|warning|note): %s\b|(error|warning|note)\[%s\]" % (code, code), text)
        if not shown and code not in WITHOUT:
            wrong.append("%s: no program of the page gives this diagnostic" % code)
        if shown and code in WITHOUT:
            wrong.append("%s: has a program now; take it out of this list" % code)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()
