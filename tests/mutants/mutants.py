"""Planted faults: how many of them do the tests find?

    mutants.py [--list] [--each N] [--layer NAME] [--sample K] [--only TEXT] [--tree FOLDER] [--preset asan] [--results FILE]

A list is made of the sources: of each layer so many places (`--each`, 18), where one of the rules below changes one line: a bound, a count,
an axis, a flush, the order of operands, a diagnostic, a condition. The same sources give the same list. Each fault is put into a copy of
the tree (`--tree`), which is built as far as something changed, and the tests are run, quick ones first, until one fails. `--sample 10` takes
every tenth fault.

What was found out is written behind --results at once, and not tried again: the command can be ended and begun again. At the end stand
how many were killed, and each that survived, for somebody to write a test, or to say here why it changes nothing (ARGUED)."""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS = ["base", "runtime", "ir", "te", "loop", "sched", "parser", "typecheck", "stdlib", "passes", "interp", "jit", "session", "repl",
          "kernel", "lsp", "cli", "exchange"]

# What each rule looks for in a line, and what it puts there. A rule that says None takes the statement away.
RULES = [
    ("a wrong bound", r"(?<=[\w)\]]) < (?=[\w(])", " <= "),
    ("a wrong bound", r"(?<=[\w)\]]) <= (?=[\w(])", " < "),
    ("a wrong bound", r"(?<=[\w)\]]) >= (?=[\w(])", " > "),
    ("one too few", r"(?<=[\w)\]]) \+ 1(?=[;,)\]])", " + 0"),
    ("one too many", r"(?<=[\w)\]]) - 1(?=[;,)\]])", " - 0"),
    ("a dropped count", r"^\s+\w*(?:release|retain|_free|deinit)\w*\([^;{}]*\);$", None),
    ("a wrong axis", r"\b(shape|dims|strides|axes)\[(?:i|k|axis|d)\]", r"\1[0]"),
    ("a wrong axis", r"\b(\w+->rank|rank) - 1\b", r"\1 - 2"),
    ("a missed flush", r"^\s+\w*(?:flush|settle|forget|clear|reset)\w*\([^;{}]*\);$", None),
    ("swapped operands", r"\(([\w>.-]+), (TE_\w+), ([\w>.-]+), ([\w>.-]+)\)", r"(\1, \2, \4, \3)"),
    ("swapped operands", r"(?<=[=(] )?\b([a-z]\w*) - ([a-z]\w*)(?=[;)])", r"\2 - \1"),
    ("a lost diagnostic", r"^\s+diag_(?:error|warning)\([^;{}]*\);$", None),
    ("a lost refusal", r"\breturn false;", "return true;"),
    ("a lost success", r"\breturn true;", "return false;"),
    ("a wrong condition", r"\bif \(!(?=\w)", "if ("),
    ("a wrong condition", r" && (?!.*\|\|)", " || "),
    ("a wrong condition", r" \|\| (?!.*&&)", " && "),
    ("a wrong comparison", r" == (?=[A-Z0-9])", " != "),
    ("the other way", r"\bbreak;$", "continue;"),
]

# Tests of a stage and what they need; quick ones first. A layer begins with the stage that is about it.
STAGES = {
    "language": (["relay", "relay-jit", "relay-llvm", "runner"], r"^(parse|typecheck|messages|eval|pass|jit|repl|cli)/"),
    "units": ([], r"^(unit|units)/"),
    "random": (["relay", "random"], r"^random/"),
    "corpus": (["relay", "relay-jit", "relay-llvm"], r"^conformance/"),
    "kernel": (["relay", "relay-kernel"], r"^kernel/"),
    "editors": (["relay"], r"^lsp/"),
    "rest": ([], r"^(ops|docs|exchange|examples|memory|notebook|python|fault)/"),
}
FIRST = {"base": "units", "loop": "units", "sched": "units", "kernel": "kernel", "exchange": "rest", "lsp": "editors", "te": "language"}

# Faults that change nothing that can be seen: id -> why.
ARGUED = {}

Fault = collections.namedtuple("Fault", "id layer kind file line before after")


def places(path):
    """Each change that a rule can make in the file, without comments, tables of numbers and assertions."""
    lines = path.read_text().splitlines()
    inside = False
    for number, line in enumerate(lines):
        code = line.strip()
        inside = (inside or code.startswith("/*")) and "*/" not in code
        if inside or code.startswith(("/*", "*", "#", "//", "static const", "CALL", "assert")) or "/*" in code:
            continue
        for kind, pattern, put in RULES:
            for match in re.finditer(pattern, line):
                after = "    (void)0;" if put is None else line[:match.start()] + match.expand(put) + line[match.end():]
                if after != line:
                    yield kind, number, line, after


def make_list(each):
    faults = []
    for layer in LAYERS:
        kinds = collections.defaultdict(list)
        for path in sorted((ROOT / layer).rglob("*.c")):
            name = str(path.relative_to(ROOT))
            for kind, number, before, after in places(path):
                key = hashlib.sha1(f"{name}|{before.strip()}|{after.strip()}".encode()).hexdigest()[:10]
                kinds[kind].append(Fault(key, layer, kind, name, number, before, after))
        for of_kind in kinds.values():
            of_kind.sort(key=lambda f: f.id)
        chosen = {}
        while len(chosen) < each and any(kinds.values()):
            for of_kind in kinds.values():
                if of_kind and len(chosen) < each:
                    chosen.setdefault(of_kind[0].id, of_kind.pop(0))
        faults += chosen.values()
    return faults


def call(args, cwd, seconds):
    """The exit status (None: it took too long) and what was printed."""
    process = subprocess.Popen(args, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        out = process.communicate(timeout=seconds)[0]
        return process.returncode, out
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return None, process.communicate()[0]


class Tree:
    """A copy of the tree, with builds of its own."""

    def __init__(self, folder, preset):
        self.folder, self.preset, self.build = pathlib.Path(folder).resolve(), preset, f"build/{preset}"
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        for name in files:
            source, target = ROOT / name, self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_file() and (not target.exists() or target.read_bytes() != source.read_bytes()):
                target.write_bytes(source.read_bytes())
                target.chmod(source.stat().st_mode)
        environment = self.folder / ".venv"
        if (ROOT / ".venv").exists() and not environment.exists():
            environment.symlink_to((ROOT / ".venv").resolve())

    def make(self, targets, seconds=1800):
        return call(["sh", "scripts/build.sh", self.preset, *targets], self.folder, seconds)

    def test(self, tests, seconds=1200):
        """None when all pass; else the first that does not, or that there were none."""
        status, out = call(["ctest", "--test-dir", self.build, "-R", tests.replace("^", "^(address[+]undefined/)?"), "-j2",
                            "--stop-on-failure", "--timeout", "120"], self.folder, seconds)
        if status is None:
            return "time ran out"
        failed = re.search(r"^\s+\d+ - (\S+) \((.*)\)", out, re.M)
        if failed:
            return f"{failed.group(1)} ({failed.group(2)})"
        if status != 0 or "No tests were found" in out:
            return "no test was run" if "No tests" in out else f"ctest ended with {status}"
        return None

    def stages(self, layer):
        first = FIRST.get(layer, "language")
        return [first, *(s for s in STAGES if s != first)]

    def judge(self, fault):
        path = self.folder / fault.file
        text = path.read_text()
        lines = text.splitlines()
        if lines[fault.line] != fault.before:
            return "the line is another"
        lines[fault.line] = fault.after
        path.write_text("\n".join(lines) + "\n")
        try:
            for stage in self.stages(fault.layer):
                targets, tests = STAGES[stage]
                status, _ = self.make(targets)
                if status != 0:
                    return "it does not build"
                found = self.test(tests)
                if found:
                    return f"killed: {found}"
            return "survived"
        finally:
            path.write_text(text)


def report(faults, verdicts):
    known = [(f, verdicts[f.id]) for f in faults if f.id in verdicts]
    counts = collections.Counter(v.split(":")[0] for _, v in known)
    judged = counts["killed"] + counts["survived"]
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())) or "nothing was tried")
    left = [(f, v) for f, v in known if v == "survived"]
    for fault, _ in left:
        print(f"{fault.id} {fault.file}:{fault.line + 1}: {fault.kind}: {fault.before.strip()} -> {fault.after.strip()}"
              f"{'  (' + ARGUED[fault.id] + ')' if fault.id in ARGUED else ''}")
    open_ones = [f for f, _ in left if f.id not in ARGUED]
    if judged:
        print(f"{100 * (judged - len(open_ones)) / judged:.0f} % of {judged} are found or argued")
    return judged > 0 and len(open_ones) <= judged * 0.05


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--each", type=int, default=18)
    ap.add_argument("--layer")
    ap.add_argument("--sample", type=int, default=1)
    ap.add_argument("--only", default="")
    ap.add_argument("--tree", default=str(ROOT / "build/mutants/tree"))
    ap.add_argument("--preset", default="asan")
    ap.add_argument("--results", default=str(ROOT / "build/mutants/results.jsonl"))
    args = ap.parse_args()
    faults = [f for f in make_list(args.each) if args.layer in (None, f.layer) and args.only in f.file][::args.sample]
    if args.list:
        for f in faults:
            print(f"{f.id} {f.file}:{f.line + 1}: {f.kind}: {f.before.strip()} -> {f.after.strip()}")
        print(f"{len(faults)} faults in {len({f.layer for f in faults})} layers, of {len({f.kind for f in faults})} kinds")
        return 0
    results = pathlib.Path(args.results)
    results.parent.mkdir(parents=True, exist_ok=True)
    verdicts = dict(json.loads(line) for line in results.open()) if results.exists() else {}
    tree = Tree(args.tree, args.preset)
    status, out = tree.make([])
    if status != 0:
        sys.exit("the tree does not build without a fault:\n" + out[-3000:])
    for stage, (_, tests) in STAGES.items():
        found = tree.test(tests, 7200)
        if found:
            sys.exit(f"a test of `{stage}` fails without a fault: {found}")
    with results.open("a") as file:
        for f in faults:
            if f.id in verdicts:
                continue
            started = time.monotonic()
            verdicts[f.id] = tree.judge(f)
            print(f"{f.file}:{f.line + 1}: {f.kind}: {verdicts[f.id]} ({time.monotonic() - started:.0f} s)", flush=True)
            file.write(json.dumps([f.id, verdicts[f.id]]) + "\n")
            file.flush()
    return 0 if report(faults, verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
