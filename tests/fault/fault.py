"""No failure looks like success: memory, a write or a read is refused at each place where the program asks for it, and LLVM dies there.

    fault.py [--relay RELAY] [--library FAULT.so] [--sample N] [--distinct] [--only NAME] [--kind memory|file|read|death]
             [--how once|burst|onward] [--at N] [--words WORDS FILE...]

Each scenario is a command with the files that it works on. Its points are the distinct call stacks that ask for memory, write to a
file or read one (fault.c). The command runs for each point with that call refused, with a burst of calls from it on, and with all
later ones. It must then give what it gives otherwise, or say what went wrong and end with 3 (memory), 2 (a file) or 1 (code that LLVM
died of): no signal, no hang; what it printed is a beginning of what it prints otherwise; each file is what it was or what it should be, and no other file is
left. A session whose cells come one by one may leave out the results of some, and its last cell must be right when memory is back.
`--sample N` takes N points of each scenario, spread over all of them; `--distinct` leaves out those that an earlier one had. With files the
scenarios are those instead, each the command `--words` of one file, or of one example of a page, in which memory is refused; they are many,
so only distinct points are tried. tests/fault/kernel.py does the same to a Jupyter kernel."""
import argparse
import collections
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile

SECONDS = 20
KINDS = ["memory", "file", "read", "death"]

PROGRAM = """#[version = "0.0.5"]
type Chain[A] { Link(A, Chain[A]), End, }
def @total(%l: Chain[int32]) -> int32 {
  match (%l) { Link(%h, %t) => add(%h, @total(%t)), End => 0 }
}
def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }
def @main() {
  let %x = reshape(arange(0f, 12f, 1f), newshape=[3, 4]);
  let %a = nn.relu(add(%x, 1f));
  let %b = nn.dense(%a, %a, units=3);
  let %c = ref(3);
  let %d = ref_write(%c, multiply(ref_read(%c), 2));
  let %g = if (less(ref_read(%c), 7)) {
    let %k = 1;
    @twice(fn (%v: int32) -> int32 { add(%v, %k) }, 5)
  } else { 0 };
  (@total(Link(1, Link(%g, End))), %b, sum(%b, axis=[0]), sort(%x, axis=0), ref_read(%c))
}
"""
# Enough for several threads.
LARGE = '#[version = "0.0.5"]\ndef @main() {\n  let %x = reshape(arange(0f, 720f, 1f), newshape=[720, 1]);\n'
LARGE += "".join(f"  let %a{n} = nn.softmax(tanh(reshape(%x, newshape=[{n}, {720 // n}])) * {n}f, axis=0);\n" for n in (2, 3, 4, 5, 6, 8, 9, 10, 12, 15))
LARGE += "  (" + ", ".join(f"sum(%a{n} * %a{n})" for n in (2, 3, 4, 5, 6, 8, 9, 10, 12, 15)) + ")\n}\n"
# Laid out as nobody would, so that `fmt -i` has something to do.
LOOSE = PROGRAM.replace(";\n", " ;\n\n").replace("def", "\n def")
BEGINNING = """let %x = arange(0, 4, 1)
def @double(%v: int32) -> int32 { multiply(%v, 2) }
@double(21)
@map(@double, Cons(1, Nil))
:type @double
type Pair { Two(int32, int32), }
"""
SESSION = BEGINNING + """def @double(%v: int32) -> int32 { multiply(%v, 3) }
@double(14)
:pass FoldConstant add(1, 2)
sum(%x)
"""
ARRAYS = '#[version = "0.0.5"]\ndef @main() { (arange(0f, 6f, 1f), 7) }\n'


# Each line is a cell; none but the last need be right where memory is refused to an earlier one. A burst ends before that.
CELLS = BEGINNING + """match (Two(1, 2)) { Two(%a, %b) => add(%a, %b) }
nn.dense(reshape(arange(0f, 4f, 1f), newshape=[2, 2]), ones(shape=[2, 2], dtype="float32"), units=2)
""" + 12 * "add(40, 2)\n"


def questions():
    """To the language server, of an editor."""
    uri, place = "file:///a.rly", {"line": 6, "character": 16}
    said = [(1, "initialize", {"capabilities": {}}), (None, "textDocument/didOpen", {"textDocument": {"uri": uri, "version": 1, "text": PROGRAM}})]
    for kind in ["hover", "completion", "definition", "references", "documentSymbol", "semanticTokens/full", "inlayHint", "formatting"]:
        said.append((len(said), "textDocument/" + kind, {"textDocument": {"uri": uri}, "position": place}))
    said += [(99, "shutdown", None), (None, "exit", None)]
    texts = [json.dumps({"jsonrpc": "2.0", **({"id": i} if i is not None else {}), "method": method, "params": params})
             for i, method, params in said]
    return "".join(f"Content-Length: {len(text)}\r\n\r\n{text}" for text in texts)


def replies(out):
    """Those that are no errors: what cannot be answered says so."""
    return [text for text in re.split(rb"Content-Length: \d+\r\n\r\n", out) if text and b'"error":{' not in text]


TAKES = '#[version = "0.0.5"]\ndef @main(%w: Tensor[(2, 2), float32], %x: Tensor[(2, 2), float32]) { nn.dense(%x, %w, units=2) }\n'
FOUR = struct.pack("<4f", 1, 2, 3, 4)
TENSOR = '{"dtype": "float32", "shape": [2, 2], "data": [1.0, 2.0, 3.0, 4.0]}'


def npy(data):
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"
    head += b" " * (64 - 11 - len(head) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def npz(name, data):
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(name + ".npy"), npy(data))
        file.seek(0)
        return file.read()


def params(name, data):
    """The original's format: names, then tensors."""
    tensor = struct.pack("<QQiiiBBHqq", 0xDD5E40F096B4A13F, 0, 1, 0, 2, 2, 32, 1, 2, 2) + struct.pack("<q", len(data)) + data
    return struct.pack("<QQQQ", 0xF7E58D4F05049CB7, 0, 1, len(name)) + name.encode() + struct.pack("<Q", 1) + tensor

GRADIENTS = """#[version = "0.0.5"]
def @loss(%w: Tensor[(2, 2), float32], %x: Tensor[(2, 2), float32]) -> float32 { sum(tanh(nn.dense(%x, %w, units=2))) }
def @main() {
  let %x = reshape(arange(0f, 4f, 1f), newshape=[2, 2]);
  let %k = fn (%v: Tensor[(2, 2), float32]) { @loss(%v, %x) };
  let %r = vjp(%k)(%x);
  (grad(@loss)(%x, %x), value_and_grad(%k)(%x), jvp(%k)(%x, %x), %r.1(1f))
}
"""


class Scenario:
    """`words` is the command line, `files` are there before, and it ends with `status`. `cells` are sent to its standard input, and what it
    says to them comes in `parts`. `before` is another command line, with which nothing is refused. `items`: where one fails the next
    ones go on."""

    def __init__(self, name, words, files, status=0, cells=None, before=None, kinds=None, parts=bytes.splitlines, items=False):
        self.items = items
        self.name, self.words, self.status, self.cells, self.before, self.parts = name, words, status, cells, before, parts
        self.kinds = kinds or KINDS
        self.files = {n: t.encode() if isinstance(t, str) else t for n, t in files.items()}

    def command(self, relay):
        """The words begin with a program of their own, or are relay's."""
        return self.words if self.words[0].startswith("./") else [relay, *self.words]


# Code is made at the calls, once for all that LLVM makes ready when it first makes some.
OPEN = """def @f(%x: Tensor[(?, 2), float32]) { nn.softmax(%x) }
@f(ones(shape=[2, 2], dtype="float32"))
@f(ones(shape=[2, 2], dtype="float32"))
:engine interp
1 + 1
"""

SCENARIOS = [
    Scenario("fmt", ["fmt", "a.rly"], {"a.rly": LOOSE}),
    Scenario("fmt-in-place", ["fmt", "-i", "a.rly"], {"a.rly": LOOSE}),
    Scenario("check", ["check", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("check-explain", ["check", "--explain", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("check-wrong", ["check", "a.rly"], {"a.rly": PROGRAM.replace("%g, End", "%x, End").replace("(%c), 7)", "(%c), 7f)")}, 1),
    Scenario("summary", ["summary", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("json", ["fmt", "--to", "json", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("json-read", ["fmt", "--from", "json", "a.json"], {"a.json": None}),
    Scenario("opt", ["opt", "-O", "3", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("opt-html", ["opt", "--html", "o.html", "a.rly"], {"a.rly": PROGRAM, "o.html": "old\n"}),
    Scenario("opt-many", ["opt", "-p", "PartialEvaluate,ToCPS,ToGraphNormalForm,LambdaLift", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("run-interp", ["run", "--exec", "interp", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("run-jit", ["run", "--exec", "jit", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("run-large", ["run", "--exec", "jit", "a.rly"], {"a.rly": LARGE}, kinds=["death"]),
    Scenario("run-out", ["run", "--exec", "interp", "--out", "o.npz", "a.rly"], {"a.rly": ARRAYS, "o.npz": "old\n"}),
    Scenario("args", ["run", "--exec", "interp", "--args", "x.json", "a.rly"], {"a.rly": TAKES, "x.json": f"[{TENSOR}, {TENSOR}]"}),
    Scenario("npz", ["run", "--exec", "interp", "--params", "w.npz", "--arg", "x=x.npy", "a.rly"],
             {"a.rly": TAKES, "w.npz": npz("w", FOUR), "x.npy": npy(FOUR)}),
    Scenario("params", ["opt", "-p", "FoldConstant", "--params", "w.params", "a.rly"], {"a.rly": TAKES, "w.params": params("w", FOUR)}),
    Scenario("compile", ["compile", "--emit", "obj", "-o", "o.o", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("library", ["compile", "--emit", "lib", "--entry", "main", "-o", "o.so", "a.rly"], {"a.rly": PROGRAM, "o.so": "old\n"}),
    Scenario("program", ["compile", "--emit", "exe", "-o", "o", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("program-runs", ["./o"], {"a.rly": PROGRAM}, before=["compile", "--emit", "exe", "-o", "o", "a.rly"]),
    Scenario("gradients", ["run", "--exec", "jit", "a.rly"], {"a.rly": GRADIENTS}),
    Scenario("gradients-opt", ["opt", "-p", "InferType,AlterOpLayout,FuseOps", "a.rly"], {"a.rly": GRADIENTS}),
    Scenario("run-cached", ["run", "--exec", "jit", "a.rly"], {"a.rly": PROGRAM}, before=["run", "--exec", "jit", "a.rly"]),
    Scenario("session", ["--exec", "interp", "s.txt"], {"s.txt": SESSION}, items=True),
    Scenario("cells", ["--exec", "interp"], {}, cells=CELLS),
    Scenario("cells-jit", ["--exec", "jit"], {}, cells=CELLS),
    Scenario("cells-open", ["--exec", "jit"], {}, cells=OPEN, kinds=["death"]),
    Scenario("language-server", ["lsp"], {}, cells=questions(), parts=replies),
]
# What a way refuses from its point on: how many calls, 0 for all.
WAYS = {"once": 1, "burst": 60, "onward": 0}

Got = collections.namedtuple("Got", "status out err files points refused")


class Log:
    """What fault.c reads and writes: see there. A point is its stack, and how many calls come before it."""
    HEAD, POINT, POINTS = struct.Struct("2Q6I"), struct.Struct("2Q"), 32768

    def __init__(self, path, point=None, calls=0, armed=1, early=8):
        self.path = path
        with open(path, "wb") as log:
            log.write(self.head(point, calls, armed, 0, early))
            log.truncate(self.HEAD.size + self.POINT.size * self.POINTS)

    def head(self, point, calls, armed, count, early=8):
        """Stacks are looked at from an eighth of the calls before the point on, as threads may come in another order; or from the start."""
        stack, before = point or (0, 0)
        return self.HEAD.pack(stack, before - before // early, calls, armed, count, 0, 0, 0)

    def arm(self, point, calls, on):
        with open(self.path, "r+b") as log:
            count = self.HEAD.unpack(log.read(self.HEAD.size))[4]
            log.seek(0)
            log.write(self.head(point, calls, on, count + 1 if on else count)[:-12])

    def refused(self):
        with open(self.path, "rb") as log:
            return self.HEAD.unpack(log.read(self.HEAD.size))[5]

    def points(self):
        with open(self.path, "rb") as log:
            n = self.HEAD.unpack(log.read(self.HEAD.size))[6]
            return list(self.POINT.iter_unpack(log.read(n * self.POINT.size)))


def environment(library, kind, log, folder):
    return dict(os.environ, LD_PRELOAD=str(library), FAULT_KIND=kind, FAULT_LOG=str(log.path), NO_COLOR="1", HOME=str(folder))


class Runner:
    def __init__(self, relay, library):
        self.relay, self.refuser, self.starting = str(relay), str(library), threading.Lock()

    @functools.lru_cache
    def start(self, scenario):
        """A folder as the scenario finds it; its commands run in `work`."""
        folder = tempfile.TemporaryDirectory()
        work = pathlib.Path(folder.name, "work")
        work.mkdir()
        for name, data in scenario.files.items():
            (work / name).write_bytes(data)
        pathlib.Path(folder.name, "cells").write_text(scenario.cells or "")
        if scenario.before:
            subprocess.run([self.relay, *scenario.before], cwd=work, env=dict(os.environ, HOME=folder.name), capture_output=True, check=True)
        return folder, {p.name: p.read_bytes() for p in work.iterdir()}

    def run(self, scenario, kind, point=None, way="once"):
        """What came of it: status (None: it did not end), both outputs, the files, the points that it has. A point that another order of
        threads puts early is looked for in all calls."""
        got = self.run_once(scenario, kind, point, way, 8)
        return got if got.refused or not point else self.run_once(scenario, kind, point, way, 1)

    def run_once(self, scenario, kind, point, way, early):
        first, there = self.start(scenario)
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder, "work")
            # A process that began while a program is copied would have the copy open, which then cannot be run.
            with self.starting:
                shutil.copytree(first.name, folder, dirs_exist_ok=True)
                log = Log(pathlib.Path(folder, "log"), point, WAYS[way], early=early)
                with open(pathlib.Path(folder, "cells"), "rb") as cells:
                    process = subprocess.Popen(scenario.command(self.relay), cwd=work, env=environment(self.refuser, kind, log, folder),
                                               stdin=cells, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                out, err = process.communicate(timeout=SECONDS)
                status, err = process.returncode, err.decode(errors="replace")
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                status, out, err = None, b"", ""
            files = {p.name: timeless(p.read_bytes()) for p in work.iterdir()}
            files = {n: data for n, data in files.items() if n in scenario.files or data != timeless(there.get(n, b""))}
            return Got(status, timeless(out), err, files, [] if point else log.points(), log.refused())


def timeless(data):
    return re.sub(rb"[0-9.]+ ms", b"0 ms", data)


def is_part(lines, of):
    """Whether the lines stand in `of` in this order, others between them."""
    rest = iter(of)
    return all(line in rest for line in lines)


def printed_wrong(scenario, kind, way, usual, got):
    if scenario.cells is None and not scenario.items:
        return "what was printed is wrong" if not usual.out.startswith(got.out) else ""
    lines, whole = scenario.parts(got.out), scenario.parts(usual.out)
    if not is_part(lines, whole):
        return "what was printed is wrong"
    if scenario.items:
        return ""
    # What cannot begin, or cannot say anything, need not go on.
    must_live = kind in ("memory", "death") and way != "onward" and (lines or "relay: " not in got.err)
    return "the session is dead" if must_live and lines[-1:] != whole[-1:] else ""


def verdict(scenario, kind, way, usual, got):
    """What is wrong with it; "" when nothing is."""
    # The system's loader ends a program by itself when it has no memory for a library, and says so.
    if got.status == 127 and ("thread-local" in got.err or got.err.endswith("out of memory\n")):
        return ""
    if got.status is None:
        return "hangs"
    if got.status < 0:
        return f"signal {-got.status}"
    if got.status == usual.status and (got.out != usual.out or got.files != usual.files):
        return f"wrong success: status {got.status}, and what it gives is wrong"
    if got.status != usual.status and got.status not in ((1,) if kind == "death" else (3, 2)):
        return f"status {got.status}"
    if got.status != usual.status and ("error" not in got.err and "relay: " not in got.err):
        return f"status {got.status}, and nothing is said"
    if re.search(r": $", got.err, re.M):
        return "a message says no reason"
    for name in got.files.keys() | scenario.files.keys():
        if got.files.get(name) not in (scenario.files.get(name), usual.files.get(name)):
            return f"{name} is neither old nor new"
    return printed_wrong(scenario, kind, way, usual, got)


def points_of(points, sample, at=0):
    """Point number `at` alone, or so many, spread over all of them, or all."""
    if at:
        return points[at - 1:at]
    if not sample or len(points) <= sample:
        return points
    return [points[i] for i in sorted({(len(points) - 1) * i // (sample - 1) for i in range(sample)})]


def scenarios_of(words, paths):
    """Each file is one, or each of its examples."""
    for path in paths:
        text = pathlib.Path(path).read_text()
        texts = re.findall(r"```relay\n(.*?)\n```", text, re.S) if path.endswith(".md") else [text]
        for i, text in enumerate(texts):
            yield Scenario(f"{path}:{i + 1}" if len(texts) > 1 else path, [*words.split(), "a.rly"], {"a.rly": text + "\n"}, None, kinds=["memory"],
                           items=words.startswith("-"))


class Trial:
    """Runs all that is asked for; `total` counts what came of it."""

    def __init__(self, args, runner):
        self.args, self.runner, self.total, self.seen = args, runner, collections.Counter(), set()

    def scenario(self, scenario, kind):
        """False: it ends with another status than it should when nothing is refused."""
        usual = self.runner.run(scenario, kind)
        if usual.status is None or usual.status != (usual.status if scenario.status is None else scenario.status):
            print(f"{scenario.name}: status {usual.status}\n{usual.err}")
            return False
        new = [point for point in usual.points if not self.args.distinct or (kind, point[0]) not in self.seen]
        self.seen.update((kind, stack) for stack, _ in new)
        if new:
            self.points(scenario, kind, usual, points_of(new, self.args.sample, self.args.at))
            self.total["points"] += len(new)
        return True

    def points(self, scenario, kind, usual, points):
        number = {point: i + 1 for i, point in enumerate(usual.points)}
        ways = [way for way in WAYS if way == (self.args.how or way) and not (kind == "death" and way == "burst")]
        jobs = [(point, way) for point in points for way in ways]
        wrong = missed = 0
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for (point, way), got in zip(jobs, pool.map(lambda j: self.runner.run(scenario, kind, *j), jobs)):
                missed += not got.refused
                why = verdict(scenario, kind, way, usual, got)
                self.total[why.split(":")[0].split(" ")[0]] += 1
                if why:
                    wrong += 1
                    print(f"{scenario.name}, {kind} refused {way} at {number[point]}: {why} {got.err.strip()[:100]!r}")
                if self.args.at:
                    print(*got, sep="\n")
        self.total["missed"] += missed
        if scenario.status is not None or wrong:
            print(f"{scenario.name:16} {kind:6} {len(usual.points):6} points {len(jobs):6} runs {missed:5} missed {wrong:5} wrong", flush=True)


def main():
    parser = argparse.ArgumentParser()
    here = pathlib.Path(__file__).resolve().parents[2] / "build" / "release"
    parser.add_argument("--relay", type=pathlib.Path, default=os.environ.get("RELAY", here / "relay"))
    parser.add_argument("--library", type=pathlib.Path, default=None)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--distinct", action="store_true")
    parser.add_argument("--only", action="append")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--how", choices=WAYS)
    parser.add_argument("--at", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--words", default="check")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    args.distinct |= bool(args.files)
    relay = args.relay.resolve()
    runner = Runner(relay, (args.library or relay.parent / "fault.so").resolve())
    trial = Trial(args, runner)
    graph = runner.run(next(s for s in SCENARIOS if s.name == "json"), "memory").out
    for scenario in scenarios_of(args.words, args.files) if args.files else SCENARIOS:
        scenario.files = {n: graph if t is None else t for n, t in scenario.files.items()}
        for kind in scenario.kinds:
            if (args.only and scenario.name not in args.only) or (args.kind and kind != args.kind):
                continue
            if not trial.scenario(scenario, kind):
                return 1
    total = trial.total
    right, points, missed = total.pop("", 0), total.pop("points", 0), total.pop("missed", 0)
    print(f"{points} points, {right} runs right, {missed} of them without the point; {dict(total) or 'none wrong'}")
    return 1 if total or not right else 0


if __name__ == "__main__":
    sys.exit(main())
