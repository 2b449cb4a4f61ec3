"""What the tests run of each layer, and which diagnostics they never report: coverage.py LINES.json, as gcovr writes it."""
import collections
import json
import pathlib
import re
import sys


def main():
    ran, lines, silent = collections.Counter(), collections.Counter(), []
    for file in json.load(open(sys.argv[1]))["files"]:
        name = file["file"]
        layer = name.split("/")[0]
        text = pathlib.Path(name).read_text().splitlines() if pathlib.Path(name).is_file() else []
        for line in file["lines"]:
            lines[layer] += 1
            ran[layer] += line["count"] > 0
            if line["count"] == 0 and re.search(r"\bdiag_(error|warning)\(", text[line["line_number"] - 1] if text else ""):
                silent.append(f"{name}:{line['line_number']}: {text[line['line_number'] - 1].strip()}")
    for layer in sorted(lines):
        print(f"{layer:12} {ran[layer]:6} of {lines[layer]:6} lines  {100 * ran[layer] / lines[layer]:5.1f} %")
    print(f"{'all':12} {sum(ran.values()):6} of {sum(lines.values()):6} lines  {100 * sum(ran.values()) / sum(lines.values()):5.1f} %")
    print(f"{len(silent)} places that report something were never reached:")
    print("\n".join(silent))


if __name__ == "__main__":
    main()
