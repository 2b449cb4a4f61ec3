"""Planted faults: how many of them do the tests find?

    mutants.py [--list] [--each N] [--layer NAME] [--sample K] [--only TEXT] [--tests REGEX] [--seconds S] [--jobs N] [--tree FOLDER]
               [--results FILE]

A list is made of the sources: of each layer so many places (`--each`, 18), where one of the rules below changes one line: a bound, a count,
an axis, a flush, the order of operands, a diagnostic, a condition. The same sources give the same list. `--sample 10` takes every tenth
fault.

All of them are built into one copy of the tree (`--tree`): a function has its body again for each of its faults, behind a question that the
environment answers, so that nothing is built for a fault. The tests of the release build are run once without a fault, which says how long
each takes and which faults it comes by. Then each fault is put to the tests that come by it, quick ones first, until one fails, and fails
again; what passes them all is put to the same tests under the sanitizers (a dropped count to these first). A fault that was put to tests for `--seconds` (900) counts as one
that survived.

What was found out is written behind --results at once, and not tried again: the command can be ended and begun again. At the end stand
how many were killed, and each that survived, for somebody to write a test, or to say here why it changes nothing (ARGUED)."""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
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

# Tests that are about other builds or about how long something takes, and those of a browser, which take long and see what others see.
NOT_ASKED = r"^(lint|avx2|bench|fuzz|delay|growth|notebook)/|_speed$|/speed$"

# Faults that change nothing that can be seen: id -> why.
NO_ROOM = "the place more is there so that an array of nothing is not asked for"
COMMUTES = "the operands of a sum or product change places, which changes no bit of the result"
LEAVES_ALL_THE_SAME = "nothing stands behind the switch, and the loop's own condition ends it"
ARGUED = {
    "004d263274": "the lengths differ where the line is reached",
    "01e646750b": "it only asks for up to one granule more",
    "18256ed563": "what a round opens it closes, so that nothing is left to clear",
    "0273cb5f54": "the same two orders are tried, the other one first: which of two equally good ones is taken costs at most speed",
    "01e525ae55": "a part of no elements is folded in, which is the fold's start",
    "0157372b96": NO_ROOM,
    "0ccf65e538": NO_ROOM,
    "03d98d7486": COMMUTES,
    "8959e17f14": COMMUTES,
    "56e4cc56cd": "each node of a stage has its number anew before what it is part of asks for it",
    "00db3ea437": "the depth is only ever compared with nothing, and has the other sign",
    "033bc8be35": LEAVES_ALL_THE_SAME,
    "011320c21e": LEAVES_ALL_THE_SAME,
    "0c2a4ae8b0": "it is the last turn of the loop",
    "0507885843": "an extent of 0 is among the values that are tried in any case",
    "1d2045b926": "arguments of a call of oneself go the long way: it costs only speed",
    "007ae31119": "a block is asked to become as large as it is: it costs only speed",
    "054c003518": "what is behind the last row is added to and never read",
    "00b39eb662": "the row is cut at the same column",
    "098dace466": "each user gives all back to its own mark",
    "1d9a466fcb": "what is nested deeper is linear all the same, and no position is nested so deep",
    "2d1b5ff9fc": "what stands behind the parameters of a function is its result, one place further too",
    "087b395193": "the session makes no other pictures",
    "0134a70ce6": "each line of the text ends in a newline, which is found before the end that is given",
    "3371c057b5": "a message of no bytes is as wrong as one without a length",
    "6951b8d5c5": "each program is asked whether it has said something, and has not a second time",
    "0d92691055": "the process ends behind it, from which all can still be reached",
    "01877b0406": NO_ROOM,
    "020978ce7a": NO_ROOM,
    "0499ca7ed4": NO_ROOM,
    "004f871345": "the type says that the row is empty, so that nothing of it is read",
    "00faf6b725": "what is asked has more axes, or was refused before",
    "07c6326bd6": "no copy with a border is made: it costs only speed",
    "588880f2cb": "where no place is left for a skip none is for a larger one",
    "086dfe62db": COMMUTES,
    "03b8e152ec": "who fell asleep is woken by another thread, or does without a part of the loop: it costs only speed",
    "025c144657": "code is wanted at a type that is still open, which is refused: it costs only speed",
    "16b5e07f0e": "the part that a thread copies is a byte longer, and all is still copied",
    "043e80c4c5": "data are made the long way: it costs only speed",
    "0b7abbc883": "the log is emptied all the same, and once more the next time",
    "11b9f517b7": "the sums run over their axes in the order that they are written in, and are made another way where it is no good one: it costs only speed",
    "00fc1db81b": "a file of just the greatest size is read piece by piece",
    "065bb85561": "more room is made where the last byte lacks it: it costs only speed",
    "0d2caa7668": "nothing was said before a library that opens under the first name that is tried",
    "03a64d5133": "what is nested deeper is linear all the same, and no position is nested so deep",
    "010ef4612b": NO_ROOM,
    "447fe340f9": "a match is decided without a table: it costs only speed",
    "0e85bc8903": NO_ROOM,
    "005bb23f54": "which of the parameters from the 65th on are worth a copy of the function: any is right",
    "0a523bf96a": "the byte behind the text is the one that ends it",
    "003106df46": "a product that slides over its data is made another way: it costs only speed",
}

Fault = collections.namedtuple("Fault", "id layer kind file line before after")


def places(path):
    """Each change that a rule can make in the file, without comments, tables of numbers and assertions."""
    lines = path.read_text().splitlines()
    inside = False
    for number, line in enumerate(lines):
        code = line.strip()
        inside = (inside or code.startswith("/*")) and "*/" not in code
        if inside or code.startswith(("/*", "*", "#", "//", "static const", "CALL", "assert")) or "/*" in code or line.endswith("\\"):
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


# Which fault there is, and which ones were come by. A copy of the tree has this file.
PLANTED = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

_Bool fault_planted(int number);
static int planted = -1;
static volatile char *reached;

__attribute__((constructor)) static void begin(void)
{
    const char *number = getenv("RELAY_FAULT"), *path = getenv("RELAY_FAULTS_REACHED");
    planted = number ? atoi(number) : -1;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    reached = at == MAP_FAILED ? NULL : at;
    close(fd);
}

_Bool fault_planted(int number)
{
    if (reached)
        reached[number] = 1;
    return number == planted;
}
"""


def with_faults(lines, faults):
    """The lines of a file with some faults, (number, fault) each, and where each has its lines: (first, last, number)."""
    out, ranges = ["_Bool fault_planted(int number);"], []
    by_function = collections.defaultdict(list)
    for number, fault in faults:
        first = next(i for i in range(fault.line, -1, -1) if lines[i] == "{")
        by_function[first].append((number, fault))
    for i, line in enumerate(lines):
        out.append(line)
        if i not in by_function:
            continue
        last = lines.index("}", i)
        head = next(lines[k] for k in range(i - 1, -1, -1) if not lines[k].startswith(" "))
        leave = ["        return;"] if re.match(r"(static |inline |_Noreturn )*void \w", head) else []
        labels = {m.group(1) for m in (re.match(r"\s*([a-z]\w*):(?:\s|$)", x) for x in lines[i + 1:last]) if m} - {"default"}
        for number, fault in by_function[i]:
            body = lines[i + 1:last]
            body[fault.line - i - 1] = fault.after
            start = len(out) + 1
            out += [f"    if (fault_planted({number})) {{", *([f"        __label__ {', '.join(sorted(labels))};"] if labels else []),
                    *body, *leave, "    }"]
            ranges.append((start, len(out), number))
    return out, ranges


def call(args, cwd, seconds, env=None):
    """The exit status (None: it took too long) and what was printed."""
    process = subprocess.Popen(args, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True, env=env)
    try:
        out = process.communicate(timeout=seconds)[0]
        return process.returncode, out
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        # What a fault leaves running would run on.
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass


class Tree:
    """A copy of the tree with all faults in it, built twice."""

    def __init__(self, folder, faults, jobs):
        self.folder, self.faults, self.jobs = pathlib.Path(folder).resolve(), faults, jobs
        self.number = {f.id: i for i, f in enumerate(faults)}
        self.unbuilt = set()
        self.locks = collections.defaultdict(threading.Lock)
        self.sound = {}

    def put(self, name, text, mode=0o644):
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != text:
            target.write_bytes(text)
        target.chmod(mode)

    def write(self):
        """Puts all files there; returns where the faults stand."""
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.splitlines()
        planted, stands = collections.defaultdict(list), {}
        for number, fault in enumerate(self.faults):
            if fault.id not in self.unbuilt:
                planted[fault.file].append((number, fault))
        digest = hashlib.sha1()
        for name in names:
            source = ROOT / name
            if not source.is_file():
                continue
            text = source.read_bytes()
            if name in planted:
                lines, stands[name] = with_faults(text.decode().splitlines(), planted[name])
                text = ("\n".join(lines) + "\n").encode()
            if not name.startswith(("tests/", "docs/")):
                digest.update(text)
            self.put(name, text, source.stat().st_mode)
        self.put("base/planted.c", PLANTED.encode())
        environment = self.folder / ".venv"
        if (ROOT / ".venv").exists() and not environment.exists():
            environment.symlink_to((ROOT / ".venv").resolve())
        self.digest = digest.hexdigest()
        return stands

    def make(self):
        """Builds; faults with which a file does not compile are taken out, and it is tried again."""
        while True:
            stands = self.write()
            bad = set()
            for preset in ("release", "asan"):
                status, out = call(["sh", "-c", f"sh scripts/build.sh {preset} || cmake --build build/{preset} -- -k 0"], self.folder, 7200)
                if status == 0:
                    continue
                for name, line in re.findall(r"([\w./-]+\.c):(\d+):\d+: error:", out):
                    name = os.path.relpath(name, self.folder) if os.path.isabs(name) else re.sub(r"^(\.\./)+", "", name)
                    bad |= {n for first, last, n in stands.get(name, []) if first <= int(line) <= last}
                if not bad:
                    sys.exit("the tree does not build without a fault:\n" + out[-3000:])
                break
            if not bad:
                return
            self.unbuilt |= {self.faults[n].id for n in bad}

    def tests(self, preset, regex):
        """The tests of a build by their names, without what stands before them under the sanitizers."""
        _, out = call(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1"], self.folder, 300)
        found = {}
        for test in json.loads(out[out.index("{"):])["tests"]:
            name = test["name"].removeprefix("address+undefined/")
            if not re.search(NOT_ASKED, name) and re.search(regex, name) and "command" in test:
                test["properties"] = {p["name"]: p["value"] for p in test["properties"]}
                found[name] = test
        return found

    def passes(self, test, seconds, **more):
        env = {**os.environ, **dict(x.split("=", 1) for x in test["properties"]["ENVIRONMENT"]), **more}
        with self.locks[test["name"]]:
            status, _ = call(test["command"], test["properties"]["WORKING_DIRECTORY"], seconds, env)
        return status in (0, 77)

    def learn(self, regex):
        """What each test of the release build comes by, and how long it takes: kept for as long as the sources stay what they are."""
        path = self.folder / "build/reached.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        if known.get("digest") != self.digest:
            known = {"digest": self.digest, "tests": {}}
        tests = self.tests("release", regex)

        def one(name):
            marks = self.folder / f"build/reached-{threading.get_ident()}"
            marks.write_bytes(bytes(4096))
            started = time.monotonic()
            good = self.passes(tests[name], 900, RELAY_FAULTS_REACHED=str(marks))
            known["tests"][name] = [good, time.monotonic() - started, [i for i, b in enumerate(marks.read_bytes()) if b]]
            if not good:
                print(f"{name} fails without a fault and is not asked", flush=True)

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for n, _ in enumerate(pool.map(one, [t for t in tests if not known["tests"].get(t, [False])[0]])):
                if n % 20 == 0:
                    path.write_text(json.dumps(known))
        path.write_text(json.dumps(known))
        self.learned = {t: known["tests"][t] for t in tests}
        self.presets = {"release": tests, "asan": self.tests("asan", regex)}

    def is_sound(self, preset, name):
        """Whether a test passes without a fault. Those of the release build did."""
        if preset == "release":
            return True
        if name not in self.sound:
            self.sound[name] = self.passes(self.presets[preset][name], 900)
        return self.sound[name]

    def judge(self, fault, seconds):
        if fault.id in self.unbuilt:
            return "it does not build"
        number, ends = self.number[fault.id], time.monotonic() + seconds
        asked = sorted((took, name) for name, (good, took, reached) in self.learned.items() if good and number in reached)
        if not asked:
            return "survived: no test comes by"
        # What is not given back is what the sanitizers say.
        for preset in ("asan", "release") if fault.kind == "a dropped count" else ("release", "asan"):
            for took, name in asked:
                test = self.presets[preset].get(name)
                if not test:
                    continue
                if time.monotonic() > ends:
                    return "survived: not all tests were run"
                limit = 20 + 15 * took * (1 if preset == "release" else 8)
                if (not self.passes(test, limit, RELAY_FAULT=str(number)) and self.is_sound(preset, name)
                        and not self.passes(test, limit, RELAY_FAULT=str(number))):
                    return f"killed: {name} ({preset})"
        return f"survived: {len(asked)} tests"


def report(faults, verdicts):
    known = [(f, verdicts[f.id]) for f in faults if f.id in verdicts]
    counts = collections.Counter(v.split(":")[0] for _, v in known)
    judged = counts["killed"] + counts["survived"]
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())) or "nothing was tried")
    left = [(f, v) for f, v in known if v.startswith("survived")]
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
    ap.add_argument("--tests", default="")
    ap.add_argument("--seconds", type=int, default=900)
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    ap.add_argument("--tree", default=str(ROOT / "build/mutants/tree"))
    ap.add_argument("--results", default=str(ROOT / "build/mutants/results.jsonl"))
    args = ap.parse_args()
    # Tests interrupt what they start, which shells let background jobs ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    every = make_list(args.each)
    faults = [f for f in every if args.layer in (None, f.layer) and args.only in f.file][::args.sample]
    if args.list:
        for f in faults:
            print(f"{f.id} {f.file}:{f.line + 1}: {f.kind}: {f.before.strip()} -> {f.after.strip()}")
        print(f"{len(faults)} faults in {len({f.layer for f in faults})} layers, of {len({f.kind for f in faults})} kinds")
        return 0
    results = pathlib.Path(args.results)
    results.parent.mkdir(parents=True, exist_ok=True)
    verdicts = dict(json.loads(line) for line in results.open()) if results.exists() else {}
    tree = Tree(args.tree, every, args.jobs)
    tree.make()
    tree.learn(args.tests)
    with results.open("a") as file:

        def one(f):
            started = time.monotonic()
            verdicts[f.id] = tree.judge(f, args.seconds)
            print(f"{f.id} {f.file}:{f.line + 1}: {f.kind}: {verdicts[f.id]} ({time.monotonic() - started:.0f} s)", flush=True)
            file.write(json.dumps([f.id, verdicts[f.id]]) + "\n")
            file.flush()

        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            # Those that are argued come last: each is put to all its tests, and says least.
            list(pool.map(one, sorted((f for f in faults if f.id not in verdicts), key=lambda f: f.id in ARGUED)))
    return 0 if report(faults, verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
