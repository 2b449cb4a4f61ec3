"""No failure looks like success: memory, or a write to a file, is refused at each place where the program asks for it.

    fault.py [--relay RELAY] [--library FAULT.so] [--sample N] [--only NAME] [--kind memory|file] [--how once|onward] [--at N]

Each scenario is a command with the files that it works on. Its points are the distinct call stacks that ask for memory, or write to
a file (fault.c). The command runs once for each point with that call refused, and once with it and all later ones refused. It must
then give what it gives otherwise, or say what went wrong and end with 3 (memory) or 2 (a file): no signal, no hang; what it printed
is a beginning of what it prints otherwise; each file is what it was or what it should be, and no other file is left. `--sample N`
takes N points of each scenario, spread over all of them."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SECONDS = 20

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
# Laid out as nobody would, so that `fmt -i` has something to do.
LOOSE = PROGRAM.replace(";\n", " ;\n\n").replace("def", "\n def")
SESSION = """let %x = arange(0, 4, 1)
def @double(%v: int32) -> int32 { multiply(%v, 2) }
@double(21)
@map(@double, Cons(1, Nil))
:type @double
type Pair { Two(int32, int32), }
def @double(%v: int32) -> int32 { multiply(%v, 3) }
@double(14)
:pass FoldConstant add(1, 2)
sum(%x)
"""
ARRAYS = '#[version = "0.0.5"]\ndef @main() { (arange(0f, 6f, 1f), 7) }\n'


class Scenario:
    """`words` is the command line, `files` are there before, and it ends with `status`."""

    def __init__(self, name, words, files, status=0):
        self.name, self.words, self.files, self.status = name, words, files, status


SCENARIOS = [
    Scenario("fmt", ["fmt", "a.rly"], {"a.rly": LOOSE}),
    Scenario("fmt-in-place", ["fmt", "-i", "a.rly"], {"a.rly": LOOSE}),
    Scenario("check", ["check", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("check-explain", ["check", "--explain", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("check-wrong", ["check", "a.rly"], {"a.rly": PROGRAM.replace("%g, End", "%x, End").replace("(%c), 7)", "(%c), 7f)")}, 1),
    Scenario("json", ["fmt", "--to", "json", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("opt", ["opt", "-O", "3", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("opt-html", ["opt", "--html", "o.html", "a.rly"], {"a.rly": PROGRAM, "o.html": "old\n"}),
    Scenario("opt-many", ["opt", "-p", "PartialEvaluate,ToCPS,ToGraphNormalForm,LambdaLift", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("run-interp", ["run", "--exec", "interp", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("run-jit", ["run", "--exec", "jit", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("run-out", ["run", "--exec", "interp", "--out", "o.npz", "a.rly"], {"a.rly": ARRAYS, "o.npz": "old\n"}),
    Scenario("compile", ["compile", "--emit", "obj", "-o", "o.o", "a.rly"], {"a.rly": PROGRAM}),
    Scenario("session", ["--exec", "interp", "s.txt"], {"s.txt": SESSION}),
]


class Runner:
    def __init__(self, relay, library):
        self.relay, self.library = str(relay), str(library)

    def run(self, scenario, kind, at=0, onward=False):
        """What came of it: status (None: it did not end), both outputs, the files, the points that were reached."""
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder, "work")
            work.mkdir()
            for name, text in scenario.files.items():
                (work / name).write_text(text)
            log = pathlib.Path(folder, "log")
            env = dict(os.environ, LD_PRELOAD=self.library, FAULT_KIND=kind, FAULT_AT=str(at),
                       FAULT_FROM=str(int(onward)), FAULT_LOG=str(log), NO_COLOR="1", HOME=folder)
            try:
                done = subprocess.run([self.relay, *scenario.words], cwd=work, env=env, capture_output=True, timeout=SECONDS)
                status, out, err = done.returncode, done.stdout, done.stderr.decode(errors="replace")
            except subprocess.TimeoutExpired:
                status, out, err = None, b"", ""
            files = {p.name: p.read_bytes() for p in work.iterdir()}
            points, refused = struct.unpack("II", log.read_bytes())
            return status, timeless(out), err, {name: timeless(data) for name, data in files.items()}, points, refused


def timeless(data):
    return re.sub(rb"[0-9.]+ ms", b"0 ms", data)


def verdict(scenario, kind, usual, got):
    """What is wrong with it; "" when nothing is."""
    status, out, err, files, _, _ = got
    # The system's loader ends a program by itself when it has no memory for the variables of a thread, and says so.
    if status == 127 and "thread-local" in err:
        return ""
    if status is None:
        return "hangs"
    if status < 0:
        return f"signal {-status}"
    if status == usual[0] and (out != usual[1] or files != usual[3]):
        return f"status {status}, and what it gives is wrong"
    if status != usual[0] and status not in ((3, 2) if kind == "memory" else (2, 3)):
        return f"status {status}"
    if status != usual[0] and ("error" not in err and "relay: " not in err):
        return f"status {status}, and nothing is said"
    if not usual[1].startswith(out):
        return "what was printed is wrong"
    for name in files.keys() | scenario.files.keys():
        before = scenario.files[name].encode() if name in scenario.files else None
        if files.get(name) not in (before, usual[3].get(name)):
            return f"{name} is neither old nor new"
    return ""


def points_of(count, sample):
    if not sample or count <= sample:
        return list(range(1, count + 1))
    return sorted({1 + (count - 1) * i // (sample - 1) for i in range(sample)})


def main():
    parser = argparse.ArgumentParser()
    here = pathlib.Path(__file__).resolve().parents[2] / "build" / "release"
    parser.add_argument("--relay", type=pathlib.Path, default=os.environ.get("RELAY", here / "relay"))
    parser.add_argument("--library", type=pathlib.Path, default=None)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--only", action="append")
    parser.add_argument("--kind", choices=["memory", "file"])
    parser.add_argument("--how", choices=["once", "onward"])
    parser.add_argument("--at", type=int)
    args = parser.parse_args()
    relay = args.relay.resolve()
    runner = Runner(relay, (args.library or relay.parent / "fault.so").resolve())
    bad = runs = 0
    for scenario in SCENARIOS:
        for kind in ("memory", "file"):
            if (args.only and scenario.name not in args.only) or (args.kind and kind != args.kind):
                continue
            usual = runner.run(scenario, kind)
            if usual[0] != scenario.status:
                print(f"{scenario.name}: status {usual[0]}\n{usual[2]}")
                return 1
            ways = [w for w in ("once", "onward") if not args.how or w == args.how]
            points = [args.at] if args.at else points_of(usual[4], args.sample)
            jobs = [(at, how) for at in points for how in ways]
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                results = pool.map(lambda j: runner.run(scenario, kind, j[0], j[1] == "onward"), jobs)
                wrong = 0
                for (at, how), got in zip(jobs, results):
                    why = verdict(scenario, kind, usual, got)
                    if why:
                        wrong += 1
                        print(f"{scenario.name}, {kind} refused {how} at {at}: {why} {got[2].strip()[:100]!r}")
                    if args.at:
                        print(got[0], got[1].decode(), got[2], {n: len(t) for n, t in got[3].items()}, got[4:], sep="\n")
            print(f"{scenario.name:16} {kind:6} {usual[4]:6} points {len(jobs):6} runs {wrong:5} wrong", flush=True)
            bad += wrong
            runs += len(jobs)
    print(f"{runs} runs, {bad} wrong")
    return 1 if bad or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
