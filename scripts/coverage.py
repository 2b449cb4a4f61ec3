"""What the tests run of each layer, and which diagnostics they never report: coverage.py LINES.info, as llvm-cov exports it.

Ends with 1 where one is not reported and stands not among those of which is said why (ARGUED)."""
import collections
import pathlib
import re
import sys

# Why no test comes by: by file, part of the line, reason.
MEMORY, MISTAKE, CHECKED = "only where the system has no room", "only where this program is wrong", "who calls it has looked before"
ARGUED = [
    ("interp/call.c", "nothing defines", "what calls a definition that is gone is stale, and not run"),
    ("ir/rel.c", "cannot be determined", MISTAKE),  # a relation that waits though all types are there
    ("ir/verify.c", "E0215_SCOPE", MISTAKE),  # a pass that loses a binding
    ("jit/abi.c", "E0303_RUNTIME_SHAPE", CHECKED),
    ("jit/code.c", "cannot be linked", MEMORY),
    ("jit/gpu/twin.c", "E0408_DRIVER", "only where a card is lost while values lie there"),
    ("jit/jit.c", "E0305_ARGUMENTS", CHECKED),
    ("jit/jit.c", "E0701_CANNOT_COMPILE", CHECKED),
    ("jit/unit.c", "E0701_CANNOT_COMPILE", MEMORY),  # of what was compiled before
    ("jit/value.c", "E0305_ARGUMENTS", CHECKED),
    ("passes/forms.c", "f.left->span", MISTAKE),
    ("passes/partition_graph.c", "E0608_REGION, body->span", CHECKED),
    ("passes/to_cps.c", "E0607_NOT_CPS, e->span", CHECKED),
    ("runtime/file.c", "gives more than", "a pipe of more than 1 GiB"),
    ("runtime/npz.c", "E0404_LIBRARY", "only where libzip is not installed"),
    ("session/cell.c", "it is too large", "a cell of more than 4 GiB"),
    ("session/compiled.c", "c->types.at[i]->span", CHECKED),
    ("session/compiled.c", "compiled code cannot be run", "only where the plug-in is not installed, whose code it is"),
    ("session/compiled_c.c", "E0403_FORMAT", CHECKED),
    ("session/sass.c", "E0401_FILE", MEMORY),
    ("te/op_eval.c", "gives an extent below zero", CHECKED),
    ("te/op_eval.c", "is no tensor", CHECKED),
    ("te/reduce.c", "E0503_MEMORY, run->span", "what is reduced lies in memory"),
    ("typecheck/kind.c", "E0213_TYPE_ARGUMENTS", CHECKED),  # by the parser, and where graphs are read
    ("typecheck/module.c", "decides the result of", MISTAKE),
    ("typecheck/module.c", "the type of this field", MISTAKE),
    ("typecheck/unify.c", "E0121_TOO_DEEP", "it was said where the type was made"),
]


def is_argued(name, text):
    return any(name == file and part in text for file, part, _ in ARGUED)


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
    ran, lines, silent, argued = collections.Counter(), collections.Counter(), [], 0
    for name, file in sorted(counts.items()):
        layer = name.split("/")[0]
        text = pathlib.Path(name).read_text().splitlines()
        for number, count in sorted(file.items()):
            lines[layer] += 1
            ran[layer] += count > 0
            if count == 0 and re.search(r"\bdiag_(error|warning)\(", text[number - 1]):
                argued += is_argued(name, text[number - 1])
                if not is_argued(name, text[number - 1]):
                    silent.append(f"{name}:{number}: {text[number - 1].strip()}")
    for layer in sorted(lines):
        print(f"{layer:12} {ran[layer]:6} of {lines[layer]:6} lines  {100 * ran[layer] / lines[layer]:5.1f} %")
    print(f"{'all':12} {sum(ran.values()):6} of {sum(lines.values()):6} lines  {100 * sum(ran.values()) / sum(lines.values()):5.1f} %")
    print(f"{argued + len(silent)} places that report something were never reached; of {argued} is said why, not of {len(silent)}:")
    print("\n".join(silent))
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
