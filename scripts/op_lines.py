"""How many lines an operator takes: op_lines.py [--check]

Counts the lines of code (no blanks, no comments) of stdlib/ops. An operator takes an equal share of its family's file; what
no family owns is counted in the whole alone. With --check it fails when docs/architecture.md shows figures that
are more than a tenth away.
"""
import glob
import os
import re
import statistics
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def code_lines(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return sum(1 for line in text.split("\n") if line.strip())


def figures():
    with open(os.path.join(ROOT, "docs", "operators.md")) as f:
        page = f.read()
    families, rows = {}, {}
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        name = section.split("\n")[0]
        families[name] = re.findall(r"^### (\S+)$", section, re.M)
    shared = 0
    for path in sorted(glob.glob(os.path.join(ROOT, "stdlib", "ops", "*.[ch]"))):
        name = os.path.basename(path)[:-2]
        with open(path) as f:
            n = code_lines(f.read())
        if path.endswith(".c") and name in families:
            rows[name] = n
        else:
            shared += n
    return families, rows, shared


def function_lengths():
    lengths = []
    for path in glob.glob(os.path.join(ROOT, "stdlib", "ops", "*.c")):
        with open(path) as f:
            lengths += [body.count("\n") + 2 for body in re.findall(r"^\{\n(.*?)^\}$", f.read(), re.M | re.S)]
    return sorted(lengths)


def main():
    families, rows, shared = figures()
    each = sorted(rows[f] / len(names) for f, names in families.items() for _ in names)
    total, count, lengths = sum(rows.values()) + shared, len(each), function_lengths()
    numbers = [count, total, statistics.median(each), each[count * 9 // 10], statistics.median(lengths), lengths[len(lengths) * 9 // 10]]
    text = "%d operators in %d lines of code; an operator takes %d (median), %d (nine in ten at most); a function %d and %d"
    print(text % tuple(numbers))
    if "--check" not in sys.argv:
        for f in sorted(rows, key=lambda f: -rows[f] / len(families[f])):
            print(f"{f:12} {len(families[f]):4} operators {rows[f]:5} lines {rows[f] / len(families[f]):6.1f} each")
        return 0
    with open(os.path.join(ROOT, "docs", "architecture.md")) as f:
        shown = re.search(text.replace("(", r"\(").replace(")", r"\)").replace("%d", r"(\d+)"), " ".join(f.read().split()))
    good = shown and all(abs(int(a) - b) <= max(1, b / 10) for a, b in zip(shown.groups(), numbers))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
