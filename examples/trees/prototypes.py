#!/usr/bin/env python3
"""Make trees of the C library's function prototypes, for trees.rly.

    pip install numpy
    python prototypes.py [--out prototypes.npz]

The headers are those of this system, through the C preprocessor.  A prototype becomes a tree of
its types alone: its own name and those of its parameters are left out.  What is to be guessed is
the header that it stands in.  The file has these int32 arrays:

    words, children   of all nodes, each tree in preorder: its word, and how many children it has
    first             where each tree begins, and where the last one ends
    header            0 math.h, 1 string.h, 2 stdio.h, 3 stdlib.h, 4 pthread.h, 5 wchar.h, 6 unistd.h
    test              1 for every fourth function or so, by its name
"""
import argparse
import re
import subprocess
import zlib

import numpy as np

HEADERS = ["math", "string", "stdio", "stdlib", "pthread", "wchar", "unistd"]
WORDS = 199                     # words are numbers below this one, by their checksum


def word(text):
    return zlib.crc32(text.encode()) % WORDS


def declarations(header):
    """The text of each function prototype in <header.h> and what it includes."""
    text = subprocess.run(["cc", "-E", "-"], input=f"#include <{header}.h>\n", capture_output=True, text=True,
                          check=True).stdout
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    text = re.sub(r"__attribute__ *\(\((?:[^()]|\([^()]*\))*\)\)|__asm__ *\([^()]*\)|__extension__|\b__restrict\b", "", text)
    return [" ".join(d.split()) for d in re.findall(r"extern\s([^;{}]*\([^;{}]*\))\s*;", text)]


def split(text):
    """At the commas outside brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def type_tree(text):
    """`const char *__s` -> ("*", [("char", []), ("const", [])]); a pointer to a function has its result and its parameters below it."""
    function = re.fullmatch(r"(.*)\( *\*+ *\w* *\) *\((.*)\)", text)
    if function:
        return ("(*)", [type_tree(function.group(1))] + [type_tree(p) for p in split(function.group(2))])
    tokens = re.findall(r"\w+|\*|\[|\.\.\.", text)
    if len(tokens) > 1 and tokens[-1].startswith("__"):
        tokens.pop()                            # the name of the parameter
    tokens = [t for t in tokens if not t.startswith("__") or "va_list" in t] or ["int"]
    return (tokens[-1], [(t, []) for t in tokens[:-1]])


def trees(header):
    """(name, tree) of the functions whose name no other header of the list has before."""
    for text in declarations(header):
        match = re.fullmatch(r"(.*?)(\w+) *\((.*)\)", text)
        if match and "_Float" not in text and "(" not in match.group(1):
            yield match.group(2), ("()", [type_tree(match.group(1))] + [type_tree(p) for p in split(match.group(3))])


def flatten(tree, words, children):
    stack = [tree]
    while stack:
        text, below = stack.pop()
        words.append(word(text))
        children.append(len(below))
        stack.extend(reversed(below))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", default="prototypes.npz")
    args = parser.parse_args()
    words, children, first, header, test, seen = [], [], [], [], [], set()
    for label, name in enumerate(HEADERS):
        for function, tree in trees(name):
            if function in seen or function.startswith("__"):
                continue
            seen.add(function)
            first.append(len(words))
            flatten(tree, words, children)
            header.append(label)
            test.append(zlib.crc32(function.encode()) % 4 == 0)
    first.append(len(words))
    arrays = dict(words=words, children=children, first=first, header=header, test=test)
    np.savez_compressed(args.out, **{k: np.array(v, np.int32) for k, v in arrays.items()})
    print(f"{len(header)} prototypes, {sum(test)} of them to test; {len(words)} nodes in {args.out}")


if __name__ == "__main__":
    main()
