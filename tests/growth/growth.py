"""Work grows as the program does, and ends soon when it is told to: every pass, command and view on shapes that are large in one way.

    growth.py [--relay RELAY] [--size N] [--sample K] [--shape NAME] [--job NAME] [--all]

RELAY is of a build that counts basic blocks (the preset `count`, base/count.c), so that the same work is the same number. A job runs
on a shape of N and of 4 N parts; the blocks beyond those of an empty program may grow by the power 1.2 of what goes in and comes out, or of the parts.
Then the larger run is interrupted in the middle: few blocks may follow. `--all` prints each figure, not only what is above
a bound; `--sample K` takes every Kth of the jobs on shapes."""
import argparse
import concurrent.futures
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

POWER = 1.2
# What a tenth of a second is in blocks, with room for a slow machine.
LATE_MOST = 40_000_000
SECONDS = 100


def main_of(params, lines, result, types=""):
    return f"{types}def @main({params}) {{\n" + "".join(f"  {line};\n" for line in lines) + f"  {result}\n}}\n"


def lets(n):
    """A chain of bindings."""
    return main_of("%x: Tensor[(4, 4), float32]", [f"let %a{i} = add(%{f'a{i - 1}' if i else 'x'}, {i % 7}f)" for i in range(n)], f"%a{n - 1}")


def chain(n):
    """The same as a graph."""
    return main_of("%x: Tensor[(4, 4), float32]", [f"%{i} = nn.relu(%{i - 1 if i else 'x'})" for i in range(n)], f"%{n - 1}")


def fan(n):
    """Many uses of one value."""
    names = ", ".join(f"%{i}" for i in range(n))
    return main_of("%x: Tensor[(4, 4), float32]", [f"%{i} = add(%x, {i}f)" for i in range(n)], f"({names})")


def skip(n):
    """A chain in which each part is used twice more, further down."""
    lines = ["%0 = nn.relu(%x)", "%1 = tanh(%0)"]
    return main_of("%x: Tensor[(4, 4), float32]", lines + [f"%{i} = add(%{i - 1}, %{max(0, i - 1 - i % 5)})" for i in range(2, n)], f"%{n - 1}")


def half(n):
    """Each part is used again at twice its place."""
    lines = ["%0 = nn.relu(%x)", "%1 = tanh(%0)"]
    return main_of("%x: Tensor[(4, 4), float32]", lines + [f"%{i} = add(%{i - 1}, %{i // 2})" for i in range(2, n)], f"%{n - 1}")


def mirror(n):
    """Down and up again, each step up with what was there on the way down."""
    lines = ["%0 = nn.relu(%x)"] + [f"%{i} = nn.relu(%{i - 1})" for i in range(1, n // 2)]
    lines += [f"%{i} = add(%{i - 1}, %{n - 1 - i})" for i in range(n // 2, n)]
    return main_of("%x: Tensor[(4, 4), float32]", lines, f"%{n - 1}")


def layers(n):
    """A network: products, weights, sums with what was before."""
    lines = ["%0 = nn.relu(%x)"]
    for i in range(n // 4):
        k = 4 * i
        lines += [f"%{k + 1} = nn.dense(%{k}, %w, units=4)", f"%{k + 2} = nn.bias_add(%{k + 1}, %b)", f"%{k + 3} = nn.relu(%{k + 2})",
                  f"%{k + 4} = add(%{k}, %{k + 3})"]
    return main_of("%x: Tensor[(4, 4), float32], %w: Tensor[(4, 4), float32], %b: Tensor[(4), float32]", lines, f"%{4 * (n // 4)}")


def ifs(n):
    """Branches in branches."""
    return "def @main(%c: bool, %x: int32) -> int32 {\n" + "if (%c) { add(%x, 1) } else { " * n + "%x" + " }" * n + "\n}\n"


def branches(n):
    """Branches one after the other."""
    lines = [f"let %a{i} = if (%c) {{ add(%{f'a{i - 1}' if i else 'x'}, 1) }} else {{ %{f'a{i - 1}' if i else 'x'} }}" for i in range(n)]
    return main_of("%c: bool, %x: int32", lines, f"%a{n - 1}")


def arms(n):
    """One match of many arms."""
    kinds = "".join(f"K{i}(int32), " for i in range(n))
    return f"type Kind {{ {kinds}}}\ndef @main(%k: Kind) -> int32 {{\n  match (%k) {{\n" + "".join(
        f"    K{i}(%v) => add(%v, {i}),\n" for i in range(n)) + "  }\n}\n"


def matches(n):
    """Matches in matches."""
    return "type Box { Box(int32), None, }\ndef @main(%b: Box, %x: int32) -> int32 {\n" + "".join(
        f"match (%b) {{ Box(%v{i}) => add(%v{i}, %x), None => " for i in range(n)) + "%x" + " }" * n + "\n}\n"


def closures(n):
    """Closures that call the one before."""
    lines = ["let %f0 = fn (%v: int32) -> int32 { add(%v, %x) }"]
    lines += [f"let %f{i} = fn (%v{i}: int32) -> int32 {{ add(%f{i - 1}(%v{i}), {i}) }}" for i in range(1, n)]
    return main_of("%x: int32", lines, f"%f{n - 1}(%x)")


def literals(n):
    """Functions without declared results, given together."""
    lines = [f"let %f{i} = fn (%v{i}: int32) {{ add(%v{i}, {i}) }}" for i in range(n)]
    return main_of("", lines, f"({', '.join(f'%f{i}' for i in range(n))})")


def taken(n):
    """The same, taken one by one."""
    lines = ["let %t = (" + ", ".join(f"fn (%v{i}: int32) {{ add(%v{i}, {i}) }}" for i in range(n)) + ")"]
    return main_of("", lines + [f"let %a{i} = %t.{i}({i})" for i in range(n)], f"%a{n - 1}")


def calls(n):
    """Definitions that call the one before."""
    text = "def @f0(%x: int32) -> int32 { add(%x, 1) }\n"
    text += "".join(f"def @f{i}(%x: int32) -> int32 {{ add(@f{i - 1}(%x), {i}) }}\n" for i in range(1, n))
    return text + f"def @main(%x: int32) -> int32 {{ @f{n - 1}(%x) }}\n"


def marked(n):
    """The same, to be put in place of their calls, the callers first."""
    text = "".join(f"def @f{i}(%x: int32, Inline=1) -> int32 {{ add(@f{i + 1}(%x), {i}) }}\n" for i in range(n))
    return text + f"def @f{n}(%x: int32, Inline=1) -> int32 {{ add(%x, 1) }}\ndef @main(%x: int32) -> int32 {{ @f0(%x) }}\n"


def doubling(n):
    """Each function calls the one before twice."""
    text = "def @f0(%x: int32, Inline=1) -> int32 { add(%x, 1) }\n"
    text += "".join(f"def @f{i}(%x: int32, Inline=1) -> int32 {{ add(@f{i - 1}(%x), @f{i - 1}(%x)) }}\n" for i in range(1, n))
    return text + f"def @main(%x: int32) -> int32 {{ @f{n - 1}(%x) }}\n"


def recursion(n):
    """A function that calls itself at many places."""
    lines = [f"let %a{i} = @main(add(%{f'a{i - 1}' if i else 'x'}, {i}))" for i in range(n)]
    return main_of("%x: int32", lines, f"%a{n - 1}").replace(") {", ") -> int32 {", 1)


def effects(n):
    """The same, and what it does last can be seen from outside."""
    lines = [f"let %a{i} = @main(%r, add(%{f'a{i - 1}' if i else 'x'}, {i}))" for i in range(n)] + [f"let %u = ref_write(%r, %a{n - 1})"]
    return main_of("%r: ref(int32), %x: int32", lines, f"%a{n - 1}").replace(") {", ") -> int32 {", 1)


def shared(n):
    """A large type at many places."""
    lines = ["let %a0 = (%x, %x)"] + [f"let %a{i} = (%a{i - 1}, %x)" for i in range(1, 12)]
    lines += [f"let %t{i} = %a11.0" if i % 2 else f"let %t{i} = (%a11, {i})" for i in range(n)]
    return main_of("%x: int32", lines, f"%t{n - 1}")


def generic(n):
    """One polymorphic function at many types."""
    text = "def @id[A](%x: A) -> A { %x }\n"
    return text + main_of("%x: int32", [f"let %a{i} = @id(zeros(shape=[{i + 1}], dtype=\"float32\"))" for i in range(n)], "@id(%x)")


def refs(n):
    """References that are read and written."""
    lines = ["let %r = ref(%x)"] + [f"let %u{i} = ref_write(%r, add(ref_read(%r), {i}))" for i in range(n)]
    return main_of("%x: int32", lines, "ref_read(%r)")


def types(n):
    """Many data types."""
    return "".join(f"type T{i} {{ A{i}, B{i}(T{i}, int32), }}\n" for i in range(8 * n)) + main_of("%x: int32", [], "%x")


def fields(n):
    """A constructor and a tuple of many fields, which are made, taken apart and looked at."""
    many, names, values = (", ".join(row) for row in (["int32"] * 5 * n, [f"%a{i}" for i in range(5 * n)], [f"{i}" for i in range(5 * n)]))
    text = f"type Wide {{ Wide({many}), }}\ndef @sum(%w: Wide) -> int32 {{\n  match (%w) {{ Wide({names}) => add(%a0, %a{n}) }}\n}}\n"
    return text + main_of("", [f"let %t = ({values})"] + [f"let %p{i} = %t.{i}" for i in range(5 * n)], f"add(@sum(Wide({values})), %p{n})")


def params(n):
    """Many type parameters, of a data type and of a function."""
    names, params, values = (", ".join(row) for row in ([f"A{i}" for i in range(5 * n)], [f"%a{i}: A{i}" for i in range(5 * n)], [f"{i}" for i in range(5 * n)]))
    text = f"type Wide[{names}] {{ Wide({names}), }}\ndef @last[{names}]({params}) -> A{n} {{ %a{n} }}\n"
    return text + main_of("", [f"let %w = Wide({values})"], f"@last({values})")


def turned(n):
    """A call of itself whose arguments each go where another is."""
    names = [f"%a{i}" for i in range(n)]
    text = f"def @turn(%n: int32, {', '.join(f'{a}: int32' for a in names)}) -> int32 {{\n  if (equal(%n, 0)) {{ %a0 }} else {{ "
    text += f"@turn(subtract(%n, 1), {', '.join(['%n'] + names[:-1])}) }}\n}}\n"
    return text + main_of("", [], f"@turn(2, {', '.join(str(i) for i in range(n))})")


def namesakes(n):
    """One constructor's name in many types."""
    return "".join(f"type T{i} {{ A, B{i}, }}\n" for i in range(16 * n)) + main_of("", [], "1")


def forms(n):
    """Many forms of objects, and the first of them looked up again and again."""
    text = "".join(f"type T{i} {{ A{i}(int32), }}\n" for i in range(8 * n)) + "def @pair[A, B](%a: A, %b: B) -> (A, B) { (%a, %b) }\n"
    text += "def @loop(%n: int32) -> int32 {\n  if (equal(%n, 0)) { 0 } else {\n    let %p = @pair(%n, True);\n    let %q = @pair(True, %n);\n    @loop(subtract(%n, 1))\n  }\n}\n"
    return text + main_of("", ["let %first = @loop(2)"] + [f"let %a{i} = A{i}({i})" for i in range(8 * n)], f"@loop({400 * n})")


SHAPES = {f.__name__: f for f in (lets, chain, fan, skip, half, mirror, layers, ifs, branches, arms, matches, closures, literals, taken, calls, marked, doubling, recursion, effects, shared, generic, refs, types, fields, params, turned, namesakes, forms)}
# What may grow faster, up to which power, and why; all else is held to POWER.
ALLOWED = [
    (r"diff|print-all|html|:pass .*|:explain pass .*", r"chain|skip|half|mirror|layers|lets|fan", 1.8, "lines are compared up to 2,000 differences, in their square"),
    (r"ManifestLifetimes|AnnotateUsedMemory", r"ifs|matches", 1.35, "of branches in branches 200 levels are looked at"),
    (r"lowered", r".*", 1.6, "control code of one function, up to a bound"),
    (r"FirstOrderGradient|gradient|LazyGradientInit", r"fan", 1.6, "types of tuples of all parts"),
    (r":blame .*", r"doubling", math.inf, "what it evaluates doubles with each part"),
    (r":.*", r"arms|generic|half|mirror|fields|forms", 1.4, "small: what a session notes about a cell"),
]
# What a pass needs besides a program.
GIVEN = {
    "ChangeBatch": '{data={"x": 0}, batch_size=2}', "ReplaceWeights": None, "AnnotateTarget": '{targets=["a"]}',
    "SpecializeShapes": '{shapes={"x": [4, 4]}}', "InlineCompilerFunctionsBoundTo": '{global_vars=["f0"]}', "ToMixedPrecision": "",
}


def passes(relay):
    names = re.findall(r"^(\w\S*)  ", subprocess.run([relay], input=":pass\n", capture_output=True, text=True, check=False).stdout, re.M)
    return [n for n in names if n[:1].isalpha()]


def jobs(relay):
    """Command lines; `-` stands for the file, and a text is typed in a session that has loaded it."""
    rows = {"fmt": ["fmt", "-"], "check": ["check", "-"], "explain": ["check", "--explain", "-"], "to-json": ["fmt", "--to", "json", "-"],
            "summary": ["summary", "-"], "O3": ["opt", "-O", "3", "-p", "-O3", "-"], "diff": ["opt", "--diff", "-p", "SimplifyExpr,FuseOps", "-"],
            "print-all": ["opt", "--print-after-all", "-p", "SimplifyExpr,FuseOps", "-"], "html": ["opt", "--html", "%out", "-p", "FuseOps", "-"],
            "run": ["run", "--exec", "interp", "-"], "equal": ["equal", "-", "-"], "lowered": ["compile", "--emit", "lowered", "-o", "%out", "-"]}
    for name in (":type @main", ":show types @main", ":show text @main", ":show graph @main", ":hash @main", ":why @main", ":explain types @main",
                 ":explain pass FuseOps @main", ":explain pass FoldConstant @main", ":pass SimplifyExpr,FuseOps @main", ":summary @main",
                 ":blame SimplifyExpr,FuseOps @main", ":edit @main", ":export %out @main", ":equal (@main, @main)"):
        rows[name] = name
    for name in re.findall(r"^(\w+)  ", subprocess.run([relay, "analyze"], capture_output=True, text=True, check=False).stdout, re.M):
        rows[f"analyze {name}"] = ["analyze", name, "-"]
    for name in passes(relay):
        if GIVEN.get(name, "") is not None:
            rows[name] = ["opt", "-p", name + GIVEN.get(name, ""), "-"]
    return rows


class Counter:
    def __init__(self, relay, folder):
        self.relay, self.folder = relay, folder

    def run(self, job, words, shape, n, stop=0):
        """Blocks in all and behind the interrupt, size of what goes in and comes out, exit status."""
        at = pathlib.Path(self.folder, f"{re.sub('[^A-Za-z0-9]', '_', job)}-{shape}-{n}-{stop}")
        at.mkdir()
        program, count, out = at / "a.rly", at / "count", at / "out"
        program.write_text('#[version = "0.0.5"]\n' + SHAPES[shape](n))
        typed = f":load {program}\n{words}\n".replace("%out", str(out)) if isinstance(words, str) else ""
        words = [str(program) if w == "-" else str(out) if w == "%out" else w for w in ([] if typed else words)]
        env = dict(os.environ, RELAY_COUNT_TO=str(count), RELAY_COUNT_STOP=str(stop), NO_COLOR="1", HOME=self.folder)
        try:
            # Who starts this in the background would have the interrupt ignored.
            done = subprocess.run([self.relay, *words], input=typed, text=True, capture_output=True, env=env, timeout=SECONDS, check=False,
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        except subprocess.TimeoutExpired:
            shutil.rmtree(at)
            return None
        blocks, late = map(int, count.read_text().split()) if count.exists() else (0, 0)
        size = program.stat().st_size + len(done.stdout) + (out.stat().st_size if out.exists() else 0)
        for file in at.iterdir():
            file.unlink()
        at.rmdir()
        return blocks, late, size, done.returncode, done.stderr


def look(counter, job, words, shape, n):
    """What came of it as a line, and whether it is wrong."""
    allowed = next((a[2] for a in ALLOWED if re.fullmatch(a[0], job) and re.fullmatch(a[1], shape)), POWER)
    runs = [counter.run(job, words, shape, k) for k in (2, n, 4 * n)] if allowed < math.inf else [None]
    if None in runs:
        return f"{job} of {shape}: more than {SECONDS} s", allowed < math.inf
    (least, *_), (a, _, s, _, _), (b, _, t, status, error) = runs
    if status not in (0, 1, 2):
        return f"{job} of {shape}: status {status} {error[-200:]!r}", status < 0 or status == 70
    grown = math.log(max(b - least, 1) / max(a - least, 1)) / math.log(max(t / s, 4))
    bad = grown > allowed and b - least > 1_000_000
    line = f"{job} of {shape}: {a} -> {b} blocks, {s} -> {t} bytes: power {grown:.2f}"
    if b < LATE_MOST:
        return line, bad
    stopped = counter.run(job, words, shape, 4 * n, b // 2)
    late = stopped[1] if stopped else -1
    return f"{line}, {late} blocks after an interrupt", bad or late > LATE_MOST or late < 0


def look_again(counter, *what):
    """Where things lie in memory is another each time, and with it how long a map is looked through, by a tenth and more: what is above
    the bounds is so three times."""
    for _ in range(3):
        line, bad = look(counter, *what)
        if not bad:
            break
    return line, bad


def main():
    parser = argparse.ArgumentParser()
    here = pathlib.Path(__file__).resolve().parents[2] / "build" / "count" / "relay"
    parser.add_argument("--relay", default=str(here))
    parser.add_argument("--size", type=int, default=250)
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--shape", action="append")
    parser.add_argument("--job", action="append")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    if not os.path.exists(args.relay):
        print(f"skipped: {args.relay} is not there; `sh scripts/build.sh count relay` makes it")
        return 77
    rows = jobs(args.relay)
    work = [(job, words, shape) for shape in SHAPES for job, words in rows.items()
            if (not args.shape or shape in args.shape) and (not args.job or job in args.job)][::args.sample]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counter = Counter(args.relay, folder)
        for line, bad in pool.map(lambda w: look_again(counter, *w, args.size), work):
            wrong += bad
            if bad or args.all:
                print(("WRONG " if bad else "") + line, flush=True)
    print(f"{len(work)} jobs, {wrong} above the bounds")
    return 1 if wrong or not work else 0


if __name__ == "__main__":
    sys.exit(main())
