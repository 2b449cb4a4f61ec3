"""What a match misses and which clauses can never match, against trying every value: random types, random patterns."""
import itertools
import json
import os
import random
import re
import subprocess

# A type is a name, or a list of types for a tuple. `L` and `T` contain themselves.
CONSTRUCTORS = {
    "B": {"True0": [], "False0": []},
    "One": {"Only": ["B"]},
    "O": {"None0": [], "Some0": ["B"], "Pair0": ["B", "O1"]},
    "O1": {"Left": ["B"], "Right": ["One"]},
    "L": {"End": [], "Cell": ["B", "L"]},
    "T": {"Leaf": [], "Node": ["T", "B", "T"], "Both": [["B", "O1"]]},
}
SUBJECTS = ["B", "One", "O", "O1", "L", "T", ["B", "O"], ["L", "B", "One"], ["O1", ["B", "B"]], ["L", "L"], []]
DEPTH = {"T": 3}  # of the values that are tried; patterns stop one level above


def spelled(t):
    return t if isinstance(t, str) else "(" + ", ".join(map(spelled, t)) + ("," if len(t) == 1 else "") + ")"


def product(types, depth):
    return [tuple(fields) for fields in itertools.product(*(values(t, depth) for t in types))]


CACHE = {}


def values(t, depth):
    """Values down to a depth, below which `...` stands for any one value."""
    key = (str(t), depth)
    if key not in CACHE:
        if isinstance(t, list):
            CACHE[key] = [("(",) + fields for fields in product(t, depth)]
        elif depth == 0:
            CACHE[key] = [("...",)]
        else:
            CACHE[key] = [(name,) + fields for name, types in CONSTRUCTORS[t].items()
                          for fields in product(types, depth - 1)]
    return CACHE[key]


def pattern(rnd, t, depth):
    if rnd.random() < 0.35 or (depth == 0 and isinstance(t, str)):
        return ("_",)
    if isinstance(t, list):
        return ("(",) + tuple(pattern(rnd, field, depth) for field in t)
    name = rnd.choice(list(CONSTRUCTORS[t]))
    return (name,) + tuple(pattern(rnd, field, depth - 1) for field in CONSTRUCTORS[t][name])


def text(p):
    fields = ", ".join(text(field) for field in p[1:])
    if p[0] == "(":
        return "(" + fields + ("," if len(p) == 2 else "") + ")"
    return f"{p[0]}({fields})" if len(p) > 1 else p[0]


def read(s):
    """A pattern from its text."""
    tokens = re.findall(r"[A-Za-z0-9_]+|[(),]", s)

    def fields():
        out = []
        while tokens[0] != ")":
            out.append(one())
            if tokens[0] == ",":
                tokens.pop(0)
        tokens.pop(0)
        return tuple(out)

    def one():
        name = tokens.pop(0)
        if name == "(":
            return ("(",) + fields()
        if tokens and tokens[0] == "(":
            tokens.pop(0)
            return (name,) + fields()
        return (name,)
    return one()


def matches(p, v):
    if p[0] == "_":
        return True
    assert v[0] != "...", "the values are not deep enough"
    return p[0] == v[0] and all(map(matches, p[1:], v[1:]))


def program(rnd, n):
    cases, lines = [], ['#[version = "0.0.5"]']
    for name, constructors in CONSTRUCTORS.items():
        lines.append("type %s { %s }" % (name, ", ".join(
            c + ("(" + ", ".join(map(spelled, types)) + ")" if types else "")
            for c, types in constructors.items())))
    for i in range(n):
        t = rnd.choice(SUBJECTS)
        depth = DEPTH.get(t if isinstance(t, str) else "", 4)
        clauses = [pattern(rnd, t, depth - 1) for _ in range(rnd.randint(0 if i % 9 == 0 else 1, 7))]
        lines.append(f"def @f{i}(%x: {spelled(t)}) -> int32 {{ match (%x) {{")
        first = len(lines) + 1
        lines += [f"  {text(p)} => {k}," for k, p in enumerate(clauses)]
        lines.append("} }")
        cases.append((t, depth, clauses, first))
    return cases, "\n".join(lines) + "\n"


def check(case, found, where):
    t, depth, clauses, first = case
    tried = values(t, depth)
    left, unreachable = list(tried), set()
    for k, p in enumerate(clauses):
        rest = [v for v in left if not matches(p, v)]
        if len(rest) == len(left):
            unreachable.add(first + k)
        left = rest
    warned = {d["line"] for d in found if d["code"] == "W0201"}
    assert warned == unreachable, f"{where}: warned of lines {warned}, not {unreachable}"
    errors = [d for d in found if d["code"] == "E0209"]
    assert len(errors) == (1 if left else 0), f"{where}: {len(left)} values are left, {len(errors)} errors"
    for error in errors:
        named = [read(s) for note in [error["message"]] + error["notes"]
                 for s in re.findall("`([^`]*)`", note)]
        for p in named:
            taken = [v for v in tried if matches(p, v)]
            assert taken and all(v in left for v in taken), f"{where}: {text(p)} is not missing"
        complete = "other cases" not in error["message"] or len(named) < 4
        if complete and not any("more" in note for note in error["notes"]):
            assert all(any(matches(p, v) for p in named) for v in left), f"{where}: a missing case is not named"


def main():
    rnd = random.Random(11)
    n = 0
    for _ in range(80):
        cases, source = program(rnd, 12)
        done = subprocess.run([os.environ["RELAY"], "check", "--json", "-"], input=source,
                              capture_output=True, text=True)
        found = [json.loads(line) for line in (done.stdout + done.stderr).splitlines()
                 if line.startswith('{"severity"')]
        others = [d for d in found if d["code"] not in ("E0209", "W0201")]
        assert not others, f"{others[0]}\n{source}"
        starts = [first for _, _, _, first in cases] + [1 << 30]
        for i, case in enumerate(cases):
            mine = [d for d in found if starts[i] - 1 <= d["line"] < starts[i + 1] - 1]
            check(case, mine, "\n".join(source.splitlines()[case[3] - 2:case[3] + len(case[2]) + 1]))
            n += 1
    print(f"{n} matches")


main()
