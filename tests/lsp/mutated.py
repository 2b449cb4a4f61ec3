"""Programs of the tests and examples with faults as people make them: an argument too few or twice, two in the wrong order, another name,
number, type or operator, a piece of another program."""
import glob
import os
import random
import re

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|[%@$]?[A-Za-z_][\w.]*|[%@]\d+|\d+(?:\.\d+)?(?:e[+-]?\d+)?\w*|->|=>|[=<>!]=|\s+|.', re.S)
NUMBERS = ["0", "1", "-1", "2", "3", "64", "2147483647", "-2147483648", "9223372036854775807", "1f", "0.5f", "nanf", "1f64", "?",
           "4294967296", "True"]
TYPES = ["int32", "float32", "bool", "float64", "uint8", "int64", "ref", "fn", "let", "match", "if", "%x", "()", "?", "List[int32]",
         "Tensor[(2, 3), float32]", "Tensor[(?), float32]", "(int32, float32)", "fn (int32) -> int32", "bfloat16", "float16"]
OPEN, CLOSED = "([{", ")]}"


def operators():
    with open(os.path.join(os.path.dirname(TESTS), "docs/operators.md")) as f:
        return re.findall(r"(?m)^### ([A-Za-z0-9_.]+)$", f.read())


def corpus():
    """Each program as the list of its tokens."""
    texts = []
    for path in sorted(glob.glob(os.path.join(TESTS, "*/*.rly")) + glob.glob(os.path.join(TESTS, "*/*/*/*.rly")) +
                       glob.glob(os.path.join(TESTS, "../examples/*.rly"))):
        with open(path, errors="replace") as f:
            texts.append(f.read())
    return [TOKEN.findall(t) for t in texts if len(t) < 4000 and "def" in t]


def end_of(p, i):
    """Where the bracket at i ends, or None."""
    depth = 0
    for k in range(i, len(p)):
        depth += (p[k] in OPEN) - (p[k] in CLOSED)
        if depth == 0:
            return k
    return None


def parts_of(p, i, end):
    """Where what stands between the commas begins and ends."""
    parts, at, depth = [], i + 1, 0
    for k in range(i + 1, end):
        depth += (p[k] in OPEN) - (p[k] in CLOSED)
        if p[k] == "," and depth == 0:
            parts.append((at, k))
            at = k + 1
    return parts + [(at, end)]


def change_bracket(p, rng, at):
    end = end_of(p, at)
    if end is None:
        return
    parts = parts_of(p, at, end)
    kind = rng.randrange(5)
    first, behind = rng.choice(parts)
    if kind == 0:
        del p[first:behind + (behind < end)]
    elif kind == 1:
        p[first:first] = p[first:behind] + [","]
    elif kind == 2 and len(parts) > 1:
        (a, b), (c, d) = sorted(rng.sample(parts, 2))
        p[a:d] = p[c:d] + p[b:c] + p[a:b]
    elif kind == 3:
        other = rng.choice([i for i, t in enumerate(p) if t in OPEN])
        other_end = end_of(p, other)
        if other_end is not None:
            p[at + 1:end] = p[other + 1:other_end]
    elif kind == 4:
        del p[at:end + 1]


class Mutator:
    def __init__(self, seed):
        self.rng, self.programs, self.operators = random.Random(seed), corpus(), operators()

    def change(self, p):
        rng = self.rng
        brackets = [i for i, t in enumerate(p) if t in OPEN]
        names = [i for i, t in enumerate(p) if t[0] in "%@_" or t[0].isalpha()]
        numbers = [i for i, t in enumerate(p) if t[0].isdigit()]
        kind = rng.randrange(12)
        if kind < 5 and brackets:
            change_bracket(p, rng, rng.choice(brackets))
        elif kind == 5 and len(names) > 1:
            p[rng.choice(names)] = p[rng.choice(names)]
        elif kind == 6 and len(names) > 1:
            i, k = rng.sample(names, 2)
            p[i], p[k] = p[k], p[i]
        elif kind == 7 and names:
            p[rng.choice(names)] = rng.choice(self.operators)
        elif kind == 8 and numbers:
            p[rng.choice(numbers)] = rng.choice(NUMBERS)
        elif kind == 9 and names:
            p[rng.choice(names)] = rng.choice(TYPES)
        elif kind == 10 and p:
            del p[rng.randrange(len(p))]
        else:
            other = rng.choice(self.programs)
            i, at = rng.randrange(len(other)), rng.randrange(len(p) + 1)
            p[at:at] = other[i:i + rng.randrange(1, 12)]

    def program(self, changes=(1, 1, 1, 2, 3, 5)):
        """The text of a program with one of these numbers of changes."""
        p = list(self.rng.choice(self.programs))
        for _ in range(self.rng.choice(changes)):
            self.change(p)
        return "".join(p)
