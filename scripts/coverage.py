"""What the tests run of each layer, and which diagnostics they never report: coverage.py LINES.info, as llvm-cov exports it."""
import collections
import pathlib
import re
import sys


def main():
    here = pathlib.Path.cwd()
    counts = collections.defaultdict(collections.Counter)
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        key, _, value = line.partition(":")
        if key == "SF":
            path = pathlib.Path(value)
            name = str(path.relative_to(here)) if path.is_relative_to(here) else ""
            file = counts[name] if name and not name.startswith(("tests/", "build/")) else {}
        elif key == "DA":
            number, count = value.split(",")[:2]
            file[int(number)] = max(file.get(int(number), 0), int(count))
    ran, lines, silent = collections.Counter(), collections.Counter(), []
    for name, file in sorted(counts.items()):
        layer = name.split("/")[0]
        text = pathlib.Path(name).read_text().splitlines()
        for number, count in sorted(file.items()):
            lines[layer] += 1
            ran[layer] += count > 0
            if count == 0 and re.search(r"\bdiag_(error|warning)\(", text[number - 1]):
                silent.append(f"{name}:{number}: {text[number - 1].strip()}")
    for layer in sorted(lines):
        print(f"{layer:12} {ran[layer]:6} of {lines[layer]:6} lines  {100 * ran[layer] / lines[layer]:5.1f} %")
    print(f"{'all':12} {sum(ran.values()):6} of {sum(lines.values()):6} lines  {100 * sum(ran.values()) / sum(lines.values()):5.1f} %")
    print(f"{len(silent)} places that report something were never reached:")
    print("\n".join(silent))


if __name__ == "__main__":
    main()
